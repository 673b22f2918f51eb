// The answers: a chart of the first ones, a table of all, page by page, and a file to download.

import * as charts from "./charts.js";
import { byId, count, make, several, show } from "./dom.js";
import { columnName, inWords } from "./keys.js";

const PAGE = 50;
const MOST_DRAWN = 25;
const MOST_LINES = 6;

export class Results {
  constructor() {
    this.clear();
    byId("previous").addEventListener("click", () => this.turnPage(-1));
    byId("next").addEventListener("click", () => this.turnPage(1));
  }

  clear() {
    this.results = [];
    this.order = { by: null, down: false };
    this.page = 0;
    charts.forget(byId("chart"));
    for (const id of ["figure", "table", "download"]) show(byId(id), false);
    byId("rows").replaceChildren();
  }

  async show(results, release, own) {
    this.results = results;
    this.release = release;
    this.columns = release.keys.map((column, at) => columnName(column, at, release.keys));
    this.fillTable();
    show(byId("table"), true);
    show(byId("download"), true);
    try {
      await charts.load();
    } catch {
      own.check();
      show(byId("chart").parentElement, false);
      show(byId("figure"), true);
      byId("caption").textContent = "The chart could not be loaded; the table has all numbers.";
      return;
    }
    own.check();
    this.draw();
  }

  draw() {
    show(byId("figure"), true);
    show(byId("chart").parentElement, true);
    const canvas = byId("chart");
    const series = this.release.kind === "series";
    const drawn = this.sorted().slice(0, series ? MOST_LINES : MOST_DRAWN).map((result) => ({ ...result, name: inWords(result.parts) }));
    if (series) charts.drawSeries(canvas, drawn, this.release.labels);
    else charts.drawIntervals(canvas, drawn);
    const what = series ? "a line with its band" : "a point for the estimate and a bar for the interval";
    const all = this.results.length === drawn.length ? "" : ` The first ${drawn.length} of ${several(this.results.length, "key")} are drawn.`;
    byId("caption").textContent = `For each key, ${what}.${all} The table has all numbers.`;
    canvas.setAttribute("aria-label", `Chart of ${several(drawn.length, "key")}: ${drawn.map((result) => result.name).join(", ")}. The table below has the numbers.`);
    byId("figure").dataset.drawn = String(drawn.length);
  }

  /** Results in the order of the table; series by their last estimate. */
  sorted() {
    const { by, down } = this.order;
    if (by === null) return this.results;
    const size = (result) => (result.points ? result.points[result.points.length - 1].estimate : result.estimate);
    const compare = by === "estimate" ? (a, b) => size(a) - size(b) : new Intl.Collator("en", { numeric: true }).compare;
    const ordered = by === "estimate" ? [...this.results].sort(compare) : [...this.results].sort((a, b) => compare(inWords(a.parts), inWords(b.parts)));
    return down ? ordered.reverse() : ordered;
  }

  /** Rows of cells: one for each key, in a series one for each key and release. */
  *cells(results) {
    for (const { parts, points, estimate, low, high } of results) {
      if (points) for (const point of points) yield [...parts, point.label, point.estimate, point.low, point.high];
      else yield [...parts, estimate, low, high];
    }
  }

  sort(by) {
    const down = this.order.by === by ? !this.order.down : by === "estimate";
    this.order = { by, down };
    this.page = 0;
    this.fillTable();
    if (!byId("figure").hidden) this.draw();
    byId("head").querySelector(`[data-by=${by}]`).focus();
  }

  turnPage(by) {
    this.page += by;
    this.fillTable();
    const [pressed, other] = by < 0 ? ["previous", "next"] : ["next", "previous"];
    byId(byId(pressed).disabled ? other : pressed).focus();
  }

  heading(text, by, className) {
    if (!by) return make("th", { scope: "col", className }, text);
    const button = make("button", { type: "button", "data-by": by }, text, make("span", { className: "arrow", "aria-hidden": "true" }));
    button.addEventListener("click", () => this.sort(by));
    const sort = this.order.by !== by ? "none" : this.order.down ? "descending" : "ascending";
    return make("th", { scope: "col", className, "aria-sort": sort }, button);
  }

  fillTable() {
    const series = this.release.kind === "series";
    const text = this.columns.length + (series ? 1 : 0);
    byId("head").replaceChildren(
      ...this.columns.map((name, at) => this.heading(name, at ? "" : "key", "text")),
      ...(series ? [this.heading("release", "", "text")] : []),
      this.heading("estimate", "estimate", "number"), this.heading("low", "", "number"), this.heading("high", "", "number"),
    );
    const perPage = series ? Math.max(1, Math.floor(200 / this.release.labels.length)) : PAGE;
    const pages = Math.ceil(this.results.length / perPage);
    const begin = this.page * perPage;
    const visible = this.sorted().slice(begin, begin + perPage);
    byId("rows").replaceChildren(...Array.from(this.cells(visible), (cells) => make("tr", {}, ...cells.map((cell, at) =>
      at === 0 ? make("th", { scope: "row" }, cell === "" ? "(empty)" : cell) : make("td", { className: at < text ? "text" : "number" }, at < text ? cell : count(cell))))));
    show(byId("pager"), pages > 1);
    const to = Math.min(begin + perPage, this.results.length);
    byId("range").textContent = `${(begin + 1).toLocaleString("en")} to ${to.toLocaleString("en")} of ${several(this.results.length, "key")}`;
    byId("previous").disabled = this.page === 0;
    byId("next").disabled = this.page >= pages - 1;
  }

  /** All answers as CSV, in the order of the table. */
  download(name) {
    const series = this.release.kind === "series";
    const quoted = (cell) => (typeof cell === "number" ? String(cell) : cell === null ? "" : `"${cell.replaceAll('"', '""')}"`);
    const header = [...this.columns, ...(series ? ["release"] : []), "estimate", "low", "high"];
    const parts = [`${header.map(quoted).join(",")}\r\n`];
    for (const cells of this.cells(this.sorted())) parts.push(`${cells.map(quoted).join(",")}\r\n`);
    const address = URL.createObjectURL(new Blob(parts, { type: "text/csv" }));
    make("a", { href: address, download: `${name}-estimates.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }
}

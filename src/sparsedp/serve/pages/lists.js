// The panel for lists: pasted text, or a file that is dropped or chosen, and which of its columns are the key.

import { byId, make, say, several, show } from "./dom.js";
import { columnName, guessPlaces, keysFrom, lines, readText, records } from "./keys.js";

const LONG = 10_000; // letters; a longer text is taken like a file, as browsers need seconds to show and edit it

export function listPanel({ columns, lookUp, most }) {
  let table = null; // the records of a file, if it has been read
  let reading = 0; // only the last file counts

  const pasted = byId("pasted");
  const submit = byId("list-panel").querySelector("[type=submit]");
  const problem = (text) => say(byId("list-problem"), text);

  function reset(keyColumns) {
    forgetFile();
    pasted.value = "";
    problem("");
    const names = keyColumns.map((column, at) => columnName(column, at, keyColumns)).join(",");
    byId("pasted-help").textContent = keyColumns.length > 1 ? `One key in each line, its columns separated by commas or tabs: ${names}` : "One key in each line.";
  }

  function forgetFile() {
    byId("file").value = "";
    forgetTable();
  }

  function forgetTable() {
    reading += 1;
    submit.disabled = false;
    table = null;
    show(byId("mapping"), false);
  }

  /** Choices of a column of the file for each column of the key. */
  function showMapping(name) {
    const wanted = columns();
    const first = table.rows[0];
    const { header, places } = guessPlaces(table.rows, wanted);
    byId("mapping-title").textContent = `${name}: ${several(table.rows.length, "row")}`;
    byId("header").checked = header;
    byId("mapping-columns").replaceChildren(...wanted.map((column, at) => {
      const options = first.map((cell, place) => make("option", { value: String(place) }, `${place + 1}: ${cell.slice(0, 40) || "(empty)"}`));
      const select = make("select", { id: `place-${at}` }, ...options);
      select.value = String(places[at]);
      return make("div", { className: "field" }, make("label", { htmlFor: select.id }, `Column of ${columnName(column, at, wanted)}`), select);
    }));
    show(byId("mapping-columns"), first.length > 1 || wanted.length > 1);
    show(byId("mapping"), true);
  }

  async function take(file) {
    forgetTable();
    const own = reading;
    pasted.value = "";
    problem("");
    submit.disabled = true;
    const { text, problem: wrong } = await readText(file);
    if (own !== reading) return;
    submit.disabled = false;
    if (wrong) return problem(wrong);
    takeText(file.name, text, columns().length === 1 && /\.txt$/i.test(file.name));
  }

  /** The rows of a text: its lines, or its records. */
  function takeText(name, text, plain) {
    const read = plain ? { rows: lines(text).map((line) => [line]) } : records(text.replace(/^\ufeff/, ""));
    if (read.problem) return problem(`${name} cannot be read as CSV: ${read.problem}`);
    if (!read.rows.length) return problem(`${name} has no rows`);
    table = read;
    showMapping(name);
  }

  function keys() {
    const wanted = columns();
    if (table) {
      const header = byId("header").checked;
      const places = wanted.map((_, at) => Number(byId(`place-${at}`).value));
      return keysFrom(header ? table.rows.slice(1) : table.rows, places, wanted, header ? 2 : 1);
    }
    if (wanted.length === 1) return keysFrom(lines(pasted.value).map((line) => [line]), [0], wanted, 1);
    const read = records(pasted.value);
    return read.problem ? { problem: read.problem } : keysFrom(read.rows, wanted.map((_, at) => at), wanted, 1);
  }

  byId("list-panel").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!columns().length) return;
    const { keys: found, problem: wrong } = keys();
    if (wrong) return problem(`Nothing was looked up: ${wrong}.`);
    if (!found.length) return problem("Nothing was looked up: there are no keys. Paste some, or choose a file.");
    if (found.length > most) return problem(`Nothing was looked up: ${several(found.length, "key")} are more than the ${several(most, "key")} that this page takes; use sparsedp lookup --file.`);
    problem("");
    lookUp(found);
  });
  pasted.addEventListener("input", forgetFile);
  pasted.addEventListener("paste", (event) => {
    const text = event.clipboardData.getData("text/plain");
    if (text.length < LONG) return;
    event.preventDefault();
    forgetFile();
    pasted.value = "";
    problem("");
    takeText("Pasted text", text, columns().length === 1);
  });
  byId("file").addEventListener("change", (event) => {
    const [file] = event.target.files;
    if (file) take(file);
  });
  const drop = byId("drop");
  const over = (inside) => drop.classList.toggle("over", inside);
  drop.addEventListener("dragover", (event) => { event.preventDefault(); over(true); });
  drop.addEventListener("dragleave", () => over(false));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    over(false);
    const [file] = event.dataTransfer.files;
    if (!file) return;
    byId("file").value = "";
    take(file);
  });
  return { reset };
}

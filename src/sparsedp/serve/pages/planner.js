// The planner: public parameters in, the comparison of all mechanisms out. Every change begins a turn (turns.js).

import * as charts from "./charts.js";
import { byId, bytes, count, fillFacts, followSkip, make, parameter, say, sentence, several, show } from "./dom.js";
import { stop, turn } from "./turns.js";

const PAUSE = 150; // milliseconds, so that a moving slider does not ask for every step
const STEPS = 1000; // of a slider
const AT = [0, 10, 100, 1000]; // true counts in the table

const whole = (value) => value.toLocaleString("en");
const PARAMETERS = [
  { id: "epsilon", label: "Privacy ε", help: "1 is common, less is safer.", start: 1, min: 0.01, max: 20, words: parameter },
  { id: "delta", label: "Chance of failure δ", help: "How likely ε may fail: 0 is pure privacy, 10⁻⁹ reduces the error.", start: 0, min: 1e-15, max: 1e-3, zero: true, words: parameter },
  { id: "max_keys_per_user", label: "Keys per user", help: "A user counts for at most this many keys.", start: 1, min: 1, max: 1000, integer: true, words: whole },
  { id: "max_per_key", label: "Counts per key", help: "A user adds at most this much to each key.", start: 1, min: 1, max: 1000, integer: true, words: whole },
  { id: "nonzero", label: "Number of keys", help: "A public bound on the keys that occur.", start: 100_000, min: 100, max: 1e9, integer: true, words: whole },
];

const state = { noise: "auto", domain: "" };
let comparison = null;
let served = null; // what the service has besides the planner
const hidden = new Set(); // mechanisms whose lines are not drawn

// ---- sliders are logarithmic; where 0 is possible it is the first step

function position({ min, max, zero }, value) {
  if (zero && value <= 0) return 0;
  const share = Math.log(Math.min(max, Math.max(min, value)) / min) / Math.log(max / min);
  return Math.round(zero ? 1 + share * (STEPS - 1) : share * STEPS);
}

function valueAt({ min, max, zero, integer }, place) {
  if (zero && place === 0) return 0;
  const share = zero ? (place - 1) / (STEPS - 1) : place / STEPS;
  const value = Number((min * (max / min) ** share).toPrecision(2));
  return integer ? Math.max(min, Math.round(value)) : value;
}

/** What is wrong with a value; nothing if it is fine. The service knows the other limits. */
function fault({ integer, zero }, text) {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) return "Enter a number, such as 1000 or 1e-9.";
  if (integer && (!Number.isInteger(value) || value < 1)) return `Enter a whole number of at least 1, not ${text}.`;
  if (value < 0 || (!zero && value === 0)) return zero ? `Enter 0 or a positive number, not ${text}.` : `Enter a positive number, not ${text}.`;
  return "";
}

function makeSlider(parameters) {
  const { id, label, help } = parameters;
  const number = make("input", { id, type: "text", inputMode: "decimal", "aria-describedby": `${id}-help ${id}-problem` });
  const slider = make("input", { id: `${id}-slider`, type: "range", min: 0, max: STEPS, step: 1, "aria-label": `${label}, slider`, "aria-describedby": `${id}-help` });
  slider.addEventListener("input", () => {
    number.value = String(valueAt(parameters, Number(slider.value)));
    changed();
  });
  number.addEventListener("input", changed);
  return make("div", { className: "field slider" }, make("label", { htmlFor: id }, label), number, slider,
    make("p", { id: `${id}-help`, className: "help" }, help), make("p", { id: `${id}-problem`, className: "problem", role: "alert", hidden: true }));
}

function set(values) {
  for (const { id, start } of PARAMETERS) byId(id).value = String(values[id] ?? start);
  byId("noise").value = ["geometric", "gaussian"].includes(values.noise) ? values.noise : "auto";
  byId("domain").value = values.domain ?? "";
}

/** The domain as digits: 2^32 and 1e6 are understood. */
function domainDigits(text) {
  const trimmed = text.trim();
  if (!trimmed) return "";
  const power = /^(\d{1,3})\s*\^\s*(\d{1,3})$/.exec(trimmed);
  if (power) return String(BigInt(power[1]) ** BigInt(power[2]));
  const digits = /^\d+$/.test(trimmed) ? trimmed : /^\d+(\.\d+)?e\d{1,2}$/i.test(trimmed) ? String(BigInt(Number(trimmed))) : null;
  return digits;
}

/** Read the controls; whether all of them can be used. */
function read() {
  let fine = true;
  for (const parameters of PARAMETERS) {
    const { id, words } = parameters;
    const wrong = fault(parameters, byId(id).value);
    say(byId(`${id}-problem`), wrong);
    byId(id).setAttribute("aria-invalid", String(Boolean(wrong)));
    fine &&= !wrong;
    if (wrong) continue;
    state[id] = Number(byId(id).value);
    byId(`${id}-slider`).value = String(position(parameters, state[id]));
    byId(`${id}-slider`).setAttribute("aria-valuetext", words(state[id]));
  }
  const domain = domainDigits(byId("domain").value);
  say(byId("domain-problem"), domain === null ? "Enter a whole number, such as 65536 or 2^32, or nothing." : "");
  byId("domain").setAttribute("aria-invalid", String(domain === null));
  Object.assign(state, { noise: byId("noise").value, domain });
  return fine && domain !== null;
}

function query() {
  const asked = new URLSearchParams();
  for (const { id } of PARAMETERS) asked.set(id, String(state[id]));
  asked.set("noise", state.noise);
  if (state.domain) asked.set("domain", state.domain);
  return asked;
}

// ---- a turn

async function work(own) {
  if (!read()) {
    byId("status").textContent = "Some parameters cannot be used; they say why.";
    show(byId("answers"), false);
    return;
  }
  history.replaceState(null, "", `#${query()}`);
  await own.wait(PAUSE);
  [comparison, served] = await Promise.all([own.ask(`/v1/compare?${query()}`), served ?? own.ask("/v1/releases")]);
  showServed();
  showComparison();
  try {
    await charts.load();
    own.check();
    drawErrors();
  } catch {
    own.check();
    byId("caption").textContent = "The chart could not be loaded; the table has the numbers.";
  }
  byId("status").textContent = `${several(drawable().length, "mechanism")} compared`;
}

function showServed() {
  if (served.title) byId("title").textContent = served.title;
  document.title = `Planner · ${served.title || "sparsedp"}`;
  show(byId("to-explorer"), served.releases.length); // without releases there is nothing to explore
}

const drawable = () => comparison.mechanisms.filter(({ errors }) => errors?.some((error) => error !== null));

const DASHES = [[8, 4], [2, 3], [9, 3, 2, 3], [14, 4]];

/** Lines: the chosen one is whole, the paper's share a colour, and the others have one each. */
function styles() {
  let papers = 0, others = 0;
  return new Map(drawable().map(({ mechanism, paper }) => {
    if (mechanism === comparison.chosen) return [mechanism, { colour: 0, dash: [] }];
    if (paper) return [mechanism, { colour: 1, dash: DASHES[papers++ % 4] }];
    const style = { colour: 2 + (others % 4), dash: DASHES[(others + 1) % 4] };
    others += 1;
    return [mechanism, style];
  }));
}

/** Counts and errors that are drawn: lines that are far worse than the chosen one leave the picture. */
function picture() {
  const own = comparison.mechanisms.find(({ mechanism }) => mechanism === comparison.chosen);
  const worst = Math.max(...(own?.errors ?? []).filter((error) => error !== null), 0);
  if (!worst) return { counts: comparison.counts };
  return { counts: comparison.counts.filter((value) => value <= 1000 * worst), most: worst * (byId("logarithmic").checked ? 100 : 12) };
}

function drawErrors() {
  const style = styles();
  const lines = drawable().filter(({ mechanism }) => !hidden.has(mechanism));
  const logarithmic = byId("logarithmic").checked;
  const { counts, most } = picture();
  charts.drawErrors(byId("chart"), lines.map(({ mechanism, errors }) => ({ name: mechanism, errors, chosen: mechanism === comparison.chosen, ...style.get(mechanism) })), counts, { logarithmic, most });
  byId("chart").setAttribute("aria-label", `Chart of the mean absolute error against the true count, for ${lines.map(({ mechanism }) => mechanism).join(", ") || "no mechanism"}. The table below has the numbers.`);
  byId("figure").dataset.drawn = String(lines.length);
  byId("caption").textContent = `Lower is better. The thick line is ${comparison.chosen}, which auto takes. Lines that leave the picture at the top are far worse there; the table has their numbers.`;
}

const errorAt = ({ errors }, wanted) => {
  const at = comparison.counts.indexOf(wanted);
  return at < 0 || !errors || errors[at] === null ? "–" : count(errors[at]);
};

function showComparison() {
  const { chosen, reason, mechanisms, command, python } = comparison;
  const own = mechanisms.find(({ mechanism }) => mechanism === chosen);
  byId("chosen").textContent = chosen;
  byId("reason").textContent = sentence(reason);
  const at = AT.filter((value) => comparison.counts.includes(value));
  const worst = own?.errors?.filter((error) => error !== null) ?? [];
  fillFacts(byId("figures"), [
    ["Size of the file", bytes(own?.nbytes)],
    ["Bits per key", own?.bits_per_entry == null ? "–" : count(own.bits_per_entry)],
    ["Error of an absent key", own ? errorAt(own, 0) : "–"],
    ["Largest mean error", worst.length ? count(Math.max(...worst)) : "–"],
  ]);
  byId("head").replaceChildren(
    make("th", { scope: "col", className: "text" }, "mechanism"), make("th", { scope: "col", className: "number" }, "size"),
    make("th", { scope: "col", className: "number" }, "bits/key"), make("th", { scope: "col", className: "number" }, "δ"),
    ...at.map((value, place) => make("th", { scope: "col", className: "number" }, make("span", { className: place ? "unseen" : "" }, "error "), `at ${whole(value)}`)),
  );
  const style = styles();
  byId("rows").replaceChildren(...drawable().map((row) => tableRow(row, at, style.get(row.mechanism))));
  const refused = mechanisms.filter((row) => !drawable().includes(row));
  show(byId("refusals"), refused.length);
  byId("refusals-title").textContent = `${several(refused.length, "mechanism")} not possible here, and why`;
  fillFacts(byId("refused"), refused.map(({ mechanism, note }) => [mechanism, note ?? "no prediction"]));
  byId("command").textContent = command;
  byId("python").textContent = python;
  byId("copied").textContent = "";
  show(byId("answers"), true);
}

/** A piece of the line, as the chart draws it. */
function swatchOf(colour, dash) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const own = { x1: 0, x2: 30, y1: 5, y2: 5, stroke: "currentColor", "stroke-width": dash.length ? 2 : 4, "stroke-dasharray": dash.join(" ") };
  for (const [name, value] of Object.entries(own)) line.setAttribute(name, value);
  for (const [name, value] of Object.entries({ class: `swatch series-${colour + 1}`, width: 30, height: 10, "aria-hidden": "true" })) svg.setAttribute(name, value);
  svg.append(line);
  return svg;
}

function tableRow(row, at, { colour, dash }) {
  const tick = make("input", { type: "checkbox", checked: !hidden.has(row.mechanism) });
  tick.addEventListener("change", () => {
    if (tick.checked) hidden.delete(row.mechanism);
    else hidden.add(row.mechanism);
    if (window.Chart) drawErrors();
  });
  const swatch = swatchOf(colour, dash);
  const words = [row.mechanism === comparison.chosen ? "auto takes it" : "", row.paper ? "the paper's" : ""].filter(Boolean);
  const name = make("label", { className: "check" }, tick, swatch, make("span", {}, row.mechanism));
  const tags = words.map((word) => make("span", { className: "tag" }, word));
  const head = make("th", { scope: "row" }, make("div", { className: "mechanism" }, name, ...tags));
  return make("tr", { className: row.mechanism === comparison.chosen ? "chosen" : "" }, head,
    make("td", { className: "number" }, row.nbytes === null ? "–" : bytes(row.nbytes)),
    make("td", { className: "number" }, row.bits_per_entry === null ? "–" : count(row.bits_per_entry)),
    make("td", { className: "number" }, parameter(row.delta)),
    ...at.map((value) => make("td", { className: "number" }, errorAt(row, value))));
}

const view = {
  failed(message) {
    byId("failure-text").textContent = sentence(message);
    show(byId("failure"), true);
    show(byId("answers"), false);
    byId("status").textContent = "";
  },
  finished() {
    byId("results").setAttribute("aria-busy", "false");
    show(byId("stop"), false);
  },
};

function changed() {
  show(byId("failure"), false);
  show(byId("stop"), true);
  byId("results").setAttribute("aria-busy", "true");
  byId("status").textContent = "Computing…";
  turn(work, view);
}

async function copy(button) {
  const source = byId(button.dataset.copies);
  try {
    await navigator.clipboard.writeText(source.textContent);
    byId("copied").textContent = "Copied.";
  } catch {
    // Browsers give the clipboard to secure pages only; the selection can be copied by hand.
    window.getSelection().selectAllChildren(source);
    byId("copied").textContent = "Selected: press Ctrl+C to copy.";
  }
}

byId("sliders").replaceChildren(...PARAMETERS.map(makeSlider));
byId("noise").addEventListener("change", changed);
byId("domain").addEventListener("input", changed);
byId("parameters").addEventListener("submit", (event) => event.preventDefault());
byId("parameters").addEventListener("reset", (event) => {
  event.preventDefault();
  set({});
  changed();
});
byId("logarithmic").addEventListener("change", () => { if (comparison && window.Chart) drawErrors(); });
byId("retry").addEventListener("click", changed);
byId("stop").addEventListener("click", () => stop(view));
for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", () => copy(button));
followSkip();
window.addEventListener("hashchange", () => {
  set(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  changed();
});

set(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
changed();

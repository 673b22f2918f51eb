// The explorer: one state, one function that shows it. Every change of the state begins a turn (turns.js).

import { byId, bytes, count, fillFacts, followSkip, make, parameter, percent, say, sentence, several, show } from "./dom.js";
import { MOST_KEYS, answered, asked, columnName, inWords, keyFrom, keyInputs } from "./keys.js";
import { listPanel } from "./lists.js";
import { Results } from "./results.js";
import { stop, turn } from "./turns.js";

const MOST_ANSWERS = 20_000; // in one request
const MOST_IN_ADDRESS = 50; // keys in the address of the page

const state = { releases: null, name: null, mode: null, keys: [], list: [], most: 20, confidence: 0.95 };
const details = new Map();
const results = new Results();

const summary = () => state.releases?.find((release) => release.name === state.name);
const path = (name, rest = "") => `/v1/releases/${encodeURIComponent(name)}${rest}`;

// ---- the address of the page: the part after #, which browsers do not send

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.name = given.get("release");
  state.keys = given.getAll("key").map(partsOf).filter(Boolean);
  state.mode = ["keys", "list", "top"].includes(given.get("show")) ? given.get("show") : state.keys.length ? "keys" : null;
  if ([...byId("confidence").options].some((option) => option.value === given.get("confidence"))) state.confidence = Number(given.get("confidence"));
  if ([...byId("most").options].some((option) => option.value === given.get("n"))) state.most = Number(given.get("n"));
}

function partsOf(text) {
  try {
    const parts = JSON.parse(text);
    return Array.isArray(parts) && parts.every((part) => typeof part === "string") ? parts : null;
  } catch {
    return null;
  }
}

function writeAddress() {
  const address = new URLSearchParams({ release: state.name, show: state.mode, confidence: state.confidence });
  if (state.mode === "top") address.set("n", state.most);
  for (const key of state.keys.slice(0, MOST_IN_ADDRESS)) address.append("key", JSON.stringify(key));
  history.replaceState(null, "", `#${address}`);
}

// ---- what a turn does

async function loadReleases(own) {
  const { title, releases } = await own.ask("/v1/releases");
  if (title) {
    byId("title").textContent = title;
    document.title = `Explorer · ${title}`;
  }
  byId("release").replaceChildren(...releases.map(({ name, kind }) => make("option", { value: name }, kind === "series" ? `${name} (series)` : name)));
  state.releases = releases;
}

function chooseRelease() {
  if (!summary()) {
    const missing = state.name;
    state.name = state.releases[0].name;
    Object.assign(state, { keys: [], mode: null });
    if (missing !== null) say(byId("missing"), `There is no release “${missing}” here; this is “${state.name}”.`);
  }
  const columns = summary().keys;
  state.keys = state.keys.filter((key) => key.length === columns.length);
  state.mode ??= summary().names ? "top" : "keys";
}

async function lookUp(own, keys) {
  const found = [];
  const chunk = Math.max(1, Math.floor(MOST_ANSWERS / (summary().labels?.length ?? 1)));
  for (let at = 0; at < keys.length; at += chunk) {
    const body = { keys: keys.slice(at, at + chunk).map(asked), confidence: state.confidence };
    if (keys.length > chunk) {
      show(byId("progress"), true);
      byId("progress").max = keys.length;
      byId("progress").value = at;
    }
    found.push(...(await own.ask(path(state.name, "/lookup"), body)).results);
  }
  return found;
}

async function answers(own) {
  if (state.mode === "top") {
    if (!summary().names) return [];
    return (await own.ask(path(state.name, `/top?n=${state.most}&confidence=${state.confidence}`))).results;
  }
  return lookUp(own, state.mode === "list" ? state.list : state.keys);
}

async function work(own) {
  if (!state.releases) await loadReleases(own); // what is known is shown at once
  if (!state.releases.length) {
    nothing(["No release is served here. The ", make("a", { href: "/planner" }, "planner"), " works without one; to explore a release, start ", make("code", {}, "sparsedp serve visits.sparsedp"), "."]);
    byId("status").textContent = "No releases";
    return;
  }
  chooseRelease();
  showControls();
  writeAddress();
  const [found, detail] = await Promise.all([answers(own), details.get(state.name) ?? own.ask(path(state.name))]);
  details.set(state.name, detail);
  showPromise(detail, found.length * (summary().labels?.length ?? 1));
  if (!found.length) return showEmpty();
  const rows = found.map((result) => ({ ...result, parts: answered(result.key) }));
  await results.show(rows, summary(), own);
  byId("status").textContent = `${several(found.length, "key")}, ${percent(state.confidence)} intervals`;
}

// ---- what is shown

function showControls() {
  const { keys: columns, kind, names } = summary();
  byId("release").value = state.name;
  byId("confidence").value = String(state.confidence);
  byId("most").value = String(state.most);
  document.querySelector(`input[name=mode][value=${state.mode}]`).checked = true;
  for (const mode of ["keys", "list", "top"]) show(byId(`${mode}-panel`), state.mode === mode);
  const parts = byId("parts");
  const shape = JSON.stringify(columns);
  if (parts.dataset.shape !== shape) {
    parts.replaceChildren(...keyInputs(columns));
    parts.dataset.shape = shape;
    say(byId("key-problem"), "");
    lists.reset(columns);
  }
  byId("chosen").replaceChildren(...state.keys.map((key, at) => {
    const words = inWords(key);
    const button = make("button", { type: "button", "aria-label": `Remove ${words}` }, make("span", { className: "name" }, words), "×");
    button.addEventListener("click", () => {
      change({ keys: state.keys.filter((_, other) => other !== at) });
      (byId("chosen").querySelectorAll("button")[Math.min(at, state.keys.length - 1)] ?? parts.querySelector("input, select")).focus();
    });
    return make("li", {}, button);
  }));
  show(byId("clear"), state.keys.length > 1);
  byId("top-help").textContent = names
    ? "The keys whose names this release keeps, the largest estimates first."
    : kind === "series"
      ? "A series has no list of names. Choose one of its releases, or look up keys that you know."
      : "This release keeps no names, so that nothing can list its keys. Look up keys that you know.";
  show(byId("most").closest(".field"), names);
}

function nothing(children) {
  byId("empty").replaceChildren(make("p", {}, ...children));
  show(byId("empty"), true);
}

function showEmpty() {
  const { keys: columns, names } = summary();
  const names_ = columns.map((column, at) => columnName(column, at, columns)).join(", ");
  if (state.mode === "top") nothing([names ? "This release keeps no name: no key was frequent enough for it." : byId("top-help").textContent]);
  else if (state.mode === "list") nothing(["Paste a list of keys or drop a file to see an estimate for each, and to download them as CSV."]);
  else nothing([columns.length > 1 ? `Enter a key (${names_}) and choose Look up. ` : "Enter a key and choose Look up. ", "Any key has an answer, also one that never occurred. Add more keys to compare them."]);
  byId("status").textContent = "Nothing to show yet";
}

function showPromise(detail, number) {
  const { epsilon, delta, mechanism, nbytes, guarantee, overload, filled, keys: columns, kind, labels } = detail;
  show(byId("promise"), true);
  byId("guarantee").textContent = guarantee;
  byId("coverage").textContent =
    `Each interval had a probability of at least ${percent(state.confidence)} to contain the true count of its key: the count after what one user may contribute was bounded. ` +
    "That holds for each key by itself" +
    (number > 1 ? `: of the ${several(number, "interval")} shown, ${count(number * (1 - state.confidence))} or fewer miss on average.` : ", the rare and the absent ones included.");
  say(byId("overload"), overload ? sentence(overload) : (filled === false ? "There were more keys than the release was made for. Its privacy is untouched; its intervals are wider." : ""));
  fillFacts(byId("facts"), [
    ["ε", parameter(epsilon)],
    ["δ", parameter(delta)],
    ["Mechanism", mechanism],
    ["Size", bytes(nbytes)],
    ["Key", columns.map((column) => [column.name, column.kind].filter(Boolean).join(": ")).join(", ")],
    ...(kind === "series" ? [["Releases", `${labels.length}, from ${labels[0]} to ${labels[labels.length - 1]}`]] : []),
  ]);
  const made = flattened(detail.plan);
  fillFacts(byId("plan-facts"), made);
  show(byId("plan"), made.length);
}

/** Entries of an object as terms and values in words. */
function flattened(object, before = "") {
  return Object.entries(object ?? {}).flatMap(([name, value]) => {
    const term = `${before}${name.replaceAll("_", " ")}`;
    if (value === null || value === "") return [];
    if (Array.isArray(value)) return value.every((part) => typeof part !== "object") ? [[term, value.join(", ")]] : value.flatMap((part, at) => flattened(part, `${term} ${at + 1}, `));
    return typeof value === "object" ? flattened(value, `${term}: `) : [[term, String(value)]];
  });
}

const view = {
  failed(message) {
    byId("failure-text").textContent = sentence(message);
    show(byId("failure"), true);
    byId("status").textContent = "";
  },
  finished() {
    byId("results").setAttribute("aria-busy", "false");
    show(byId("stop"), false);
    show(byId("progress"), false);
  },
};

function refresh() {
  results.clear();
  show(byId("failure"), false);
  show(byId("empty"), false);
  show(byId("missing"), false);
  show(byId("stop"), true);
  byId("results").setAttribute("aria-busy", "true");
  const number = state.mode === "list" ? state.list.length : state.mode === "keys" ? state.keys.length : 0;
  byId("status").textContent = number ? `Looking up ${several(number, "key")}…` : "Loading…";
  turn(work, view);
}

function change(changes) {
  Object.assign(state, changes);
  refresh();
}

// ---- what the user does

const lists = listPanel({
  columns: () => summary()?.keys ?? [],
  lookUp: (keys) => change({ list: keys }),
  most: MOST_KEYS,
});

byId("release").addEventListener("change", (event) => {
  show(byId("promise"), false);
  change({ name: event.target.value, keys: [], list: [], mode: null });
});
byId("confidence").addEventListener("change", (event) => change({ confidence: Number(event.target.value) }));
byId("most").addEventListener("change", (event) => change({ most: Number(event.target.value) }));
byId("top-panel").addEventListener("submit", (event) => event.preventDefault());
for (const radio of document.querySelectorAll("input[name=mode]")) radio.addEventListener("change", () => change({ mode: radio.value }));
byId("keys-panel").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!summary()) return;
  const { key, problem, input } = keyFrom(byId("parts"), summary().keys);
  say(byId("key-problem"), problem);
  if (problem) return input.focus();
  const same = JSON.stringify(key);
  change({ keys: [...state.keys.filter((other) => JSON.stringify(other) !== same), key] });
  const first = byId("parts").querySelector("input, select");
  first.focus();
  first.select?.();
});
byId("clear").addEventListener("click", () => {
  change({ keys: [] });
  byId("parts").querySelector("input, select").focus();
});
byId("retry").addEventListener("click", refresh);
byId("stop").addEventListener("click", () => stop(view));
byId("download").addEventListener("click", () => results.download(state.name));
followSkip();
window.addEventListener("hashchange", () => {
  readAddress();
  refresh();
});

readAddress();
refresh();

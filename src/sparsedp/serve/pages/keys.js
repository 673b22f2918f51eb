// Keys: the inputs for one, and lists of them from text and files. A key is an array of text, one for each column.

import { make, several } from "./dom.js";

export const MOST_KEYS = 1_000_000;
const MOST_BYTES = 100_000_000;
const WHOLE_NUMBER = /^[+-]?\d+$/;

/** The name of a column as people read it. */
export const columnName = (column, at, columns) => column.name ?? (columns.length > 1 ? `column ${at + 1}` : "key");

/** A key as the service wants it: text, or an array of texts if it has several columns. */
export const asked = (key) => (key.length === 1 ? key[0] : key);

/** A key from the service as an array of text. */
export const answered = (key) => (Array.isArray(key) ? key : [key]).map((part) => (part?.base64 ? `base64:${part.base64}` : String(part)));

/** A key in one line. */
export const inWords = (key) => (key.length === 1 ? key[0] || "(empty)" : key.join(" · "));

const unitOf = (kind) => (kind.startsWith("timestamp[") ? kind.slice(10, -1).split(",")[0] : null);

/** The control for one column of the key, by its kind. */
function control(column, id) {
  if (column.kind === "boolean") {
    return make("select", { id }, make("option", { value: "true" }, "true"), make("option", { value: "false" }, "false"));
  }
  if (column.kind === "date") return make("input", { id, type: "date", required: true, min: "0001-01-01", max: "9999-12-31" });
  if (unitOf(column.kind) === "s") return make("input", { id, type: "datetime-local", required: true, step: "1" });
  if (unitOf(column.kind)) return make("input", { id, type: "text", required: true, placeholder: "2026-11-01T09:30:00.125" });
  const input = make("input", { id, type: "text", spellcheck: false, autocapitalize: "off" });
  if (column.kind === "integer") input.inputMode = "numeric";
  return input;
}

const HELP = { integer: "a whole number", date: "a date", boolean: "true or false", bytes: "bytes, as text" };

/** One labelled control for each column. */
export function keyInputs(columns) {
  return columns.map((column, at) => {
    const input = control(column, `part-${at}`);
    const kind = column.kind.startsWith("timestamp") ? `time${column.kind.includes("UTC") ? " in UTC" : ""}` : HELP[column.kind] ?? "";
    const name = columnName(column, at, columns);
    const label = make("label", { htmlFor: input.id }, name[0].toUpperCase() + name.slice(1));
    if (kind) label.append(" ", make("span", { className: "kind" }, kind));
    return make("div", { className: "field" }, label, input);
  });
}

/** What is wrong with the text of one column; nothing if it is fine. */
function fault(text, column) {
  if (column.kind === "integer" && !WHOLE_NUMBER.test(text)) return `must be a whole number, got ${text ? `“${text}”` : "nothing"}`;
  if (column.kind.startsWith("timestamp") && !text) return "must be a time, such as 2026-11-01T09:30:00";
  if (column.kind === "date" && !/^\d{4}-\d\d-\d\d$/.test(text)) return "must be a date, such as 2026-11-01";
  return "";
}

/** The text of a column in the form that the service reads. */
function settled(text, column) {
  if (column.kind === "text" || column.kind === "bytes") return text;
  const trimmed = text.trim();
  if (!unitOf(column.kind) || !trimmed) return trimmed;
  const whole = /T\d\d:\d\d$/.test(trimmed) ? `${trimmed}:00` : trimmed; // what browsers leave out
  return column.kind.includes("UTC") && !/(Z|[+-]\d\d:?\d\d)$/.test(whole) ? `${whole}Z` : whole;
}

/** The key in the inputs, or a problem in words. */
export function keyFrom(container, columns) {
  const inputs = [...container.querySelectorAll("input, select")];
  const key = inputs.map((input, at) => settled(input.value, columns[at]));
  for (const [at, column] of columns.entries()) {
    const wrong = fault(key[at], column);
    if (wrong) return { problem: `${columnName(column, at, columns)} ${wrong}`, input: inputs[at] };
  }
  return { key };
}

/** Records of CSV (RFC 4180), with the separator that the first line uses. */
export function records(text) {
  const first = text.slice(0, (text.indexOf("\n") + 1 || text.length + 1) - 1);
  const separator = ["\t", ";", ","].find((mark) => first.includes(mark)) ?? ",";
  const rows = [];
  let row = [], cell = "", quoted = false, at = 0;
  const endCell = () => { row.push(cell); cell = ""; };
  const endRow = () => { endCell(); if (row.length > 1 || row[0] !== "") rows.push(row); row = []; };
  while (at < text.length) {
    const letter = text[at];
    if (quoted) {
      const end = text.indexOf('"', at);
      if (end < 0) return { rows, problem: `a quotation mark in record ${rows.length + 1} is never closed` };
      cell += text.slice(at, end);
      at = end + 1;
      if (text[at] === '"') { cell += '"'; at += 1; } else quoted = false;
      continue;
    }
    if (letter === '"' && cell === "") quoted = true;
    else if (letter === separator) endCell();
    else if (letter === "\n") endRow();
    else if (letter !== "\r" || text[at + 1] !== "\n") cell += letter;
    at += 1;
  }
  if (cell !== "" || row.length) endRow();
  return { rows };
}

/** Lines that are not empty, without their line ends. */
export const lines = (text) => text.split(/\r?\n/).filter((line) => line !== "");

/** The text of a file, or a problem in words. */
export async function readText(file) {
  if (file.size > MOST_BYTES) return { problem: `${file.name} has ${several(file.size, "byte")}: at most ${several(MOST_BYTES, "byte")} are read here; use sparsedp lookup --file` };
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return { problem: `${file.name} is not text in UTF-8: save it as CSV in UTF-8, or paste its keys` };
  }
  if (text.includes("\0")) return { problem: `${file.name} is not a text file: save it as CSV in UTF-8, or paste its keys` };
  if (!text.trim()) return { problem: `${file.name} is empty` };
  return { text };
}

/** Keys from records: for each column of the key, the column of the record. */
export function keysFrom(rows, places, columns, firstNumber) {
  const keys = [];
  for (const [at, row] of rows.entries()) {
    const key = [];
    for (const [part, place] of places.entries()) {
      if (place >= row.length) {
        return { problem: `record ${at + firstNumber} has ${several(row.length, "column")}, but the key needs column ${place + 1}` };
      }
      key.push(settled(row[place], columns[part]));
      const wrong = fault(key[part], columns[part]);
      if (wrong) return { problem: `record ${at + firstNumber}: ${columnName(columns[part], part, columns)} ${wrong}` };
    }
    keys.push(key);
  }
  return { keys };
}

/** Which columns of a file have the key: by name if its first row names them, otherwise from the left. */
export function guessPlaces([first, second], columns) {
  const names = first.map((name) => name.trim().toLowerCase());
  const places = columns.map((column) => (column.name ? names.indexOf(column.name.toLowerCase()) : names.indexOf("key")));
  const named = places.every((place) => place >= 0);
  if (named) return { header: true, places };
  const left = columns.map((_, at) => Math.min(at, first.length - 1));
  const suits = (row) => columns.every((column, at) => left[at] < row.length && !fault(settled(row[left[at]], column), column));
  return { header: second !== undefined && !suits(first) && suits(second), places: left };
}

// Elements, and numbers as people read them.

export const byId = (id) => document.getElementById(id);

/** An element with properties and children; text is always text, never markup. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Show an element if there is something to show. */
export function show(element, visible) {
  element.hidden = !visible;
}

/** The link that skips the controls; it leaves the part of the address after # alone, which says what is shown. */
export function followSkip() {
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("results").focus();
  });
}

/** A message in its place; an empty one hides the place. */
export function say(element, text) {
  element.textContent = text ?? "";
  show(element, Boolean(text));
}

/** Words of the service, which begins and ends them as parts of a sentence. */
export const sentence = (text) => `${text[0]?.toUpperCase() ?? ""}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}`;

/** A list of terms and values. */
export function fillFacts(list, facts) {
  const fact = ([term, value]) => make("div", { className: value.length > 22 ? "wide" : "" }, make("dt", {}, term), make("dd", {}, value));
  list.replaceChildren(...facts.map(fact));
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SMALL = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** A count or an error; `null` stands for no bound. */
export function count(value) {
  if (value === null || value === undefined) return "unbounded";
  return (Math.abs(value) >= 100 ? WHOLE : SMALL).format(value);
}

/** "1 key", "20 keys". */
export const several = (number, noun) => `${WHOLE.format(number)} ${noun}${number === 1 ? "" : "s"}`;

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** ε or δ: a few digits, rounded up as the guarantee must be, and a power of ten if it is tiny. */
export function parameter(value) {
  if (value === 0) return "0";
  const digits = value >= 0.001 && value < 1e6 ? 3 : 2;
  const power = Math.floor(Math.log10(value));
  const mantissa = Math.ceil((value / 10 ** power) * 10 ** (digits - 1) - 1e-6) / 10 ** (digits - 1);
  if (digits === 3) return String(Number((mantissa * 10 ** power).toPrecision(3)));
  const raised = [...String(mantissa === 10 ? power + 1 : power)].map((letter) => RAISED[letter]).join("");
  return `${mantissa === 1 || mantissa === 10 ? "" : `${mantissa} × `}10${raised}`;
}

/** A size in the unit that suits it. */
export function bytes(value) {
  if (value === null || value === undefined) return "depends on the data";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${Number(value.toPrecision(3))} ${units[at]}`;
}

/** "95 %", "99.99 %". */
export const percent = (share) => `${Number((100 * share).toPrecision(6))} %`;

// Charts, drawn by Chart.js, which the service takes from an installed package. It is loaded for the first chart only.

import { count } from "./dom.js";

const LIBRARY = "/static/vendor/chart.js";
const MARKS = ["circle", "rectRot", "triangle", "rect", "star", "crossRot"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");

let library = null;
const drawn = new Map(); // canvas → what draws it again

/** Chart.js, once it is there. */
export function load() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = LIBRARY;
    script.onload = () => resolve(window.Chart);
    script.onerror = () => {
      library = null;
      script.remove();
      reject(new Error("the charts could not be loaded"));
    };
    document.head.append(script);
  });
  return library;
}

dark.addEventListener("change", () => drawn.forEach((draw) => draw()));

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: of("ink"), muted: of("muted"), line: of("line"), paper: of("paper"), ours: of("ours"), other: of("other"),
    font: getComputedStyle(document.body).fontFamily, series: [1, 2, 3, 4, 5, 6].map((at) => of(`series-${at}`)),
  };
}

function clear(canvas) {
  window.Chart?.getChart(canvas)?.destroy();
}

/** Forget a chart that is no longer shown. */
export function forget(canvas) {
  drawn.delete(canvas);
  clear(canvas);
}

function draw(canvas, options) {
  const again = () => {
    clear(canvas);
    const colour = colours();
    window.Chart.defaults.font.family = colour.font;
    window.Chart.defaults.font.size = 13;
    window.Chart.defaults.color = colour.muted;
    window.Chart.defaults.borderColor = colour.line;
    canvas.dataset.scheme = dark.matches ? "dark" : "light";
    const { data, layout } = options(colour);
    const tooltip = {
      backgroundColor: colour.ink, titleColor: colour.paper, bodyColor: colour.paper, padding: 10, cornerRadius: 6,
      usePointStyle: true, ...layout.tooltip,
    };
    new window.Chart(canvas, {
      data,
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, ...layout,
        plugins: { legend: { display: false }, tooltip, ...layout.plugins },
      },
    });
  };
  drawn.set(canvas, again);
  again();
}

const axis = (text, colour, more = {}) => ({
  border: { display: false }, grid: { color: colour.line }, title: { display: true, text, color: colour.muted }, ...more,
});

/** The beginning and the end of a long text: keys that are compared often differ in one of them. */
function shorten(text, most) {
  const letters = [...text];
  const kept = Math.floor((most - 1) / 2);
  return letters.length > most ? `${letters.slice(0, kept).join("")}…${letters.slice(-kept).join("")}` : text;
}

const between = (row) => `${count(row.estimate)}, between ${count(row.low)} and ${count(row.high)}`;

/** One line for each key: its interval, and a point for its estimate. */
export function drawIntervals(canvas, rows) {
  canvas.parentElement.style.height = `${Math.max(130, 28 * rows.length + 64)}px`;
  const room = canvas.parentElement.clientWidth < 480 ? 14 : 34;
  draw(canvas, (colour) => ({
    data: {
      labels: rows.map((row) => row.name),
      datasets: [
        { type: "line", data: rows.map((row) => row.estimate), showLine: false, pointRadius: 4.5, pointHoverRadius: 6,
          pointBackgroundColor: colour.ours, pointBorderColor: colour.paper, pointBorderWidth: 1.5 },
        { type: "bar", data: rows.map((row) => [row.low ?? 0, row.high ?? row.estimate]), barThickness: 10,
          backgroundColor: `${colour.ours}59`, borderRadius: 5, borderSkipped: false },
      ],
    },
    layout: {
      indexAxis: "y",
      interaction: { mode: "index", axis: "y", intersect: false },
      scales: {
        x: axis("estimated count", colour, { beginAtZero: true, grace: "4%", ticks: { maxRotation: 0, autoSkipPadding: 16 } }),
        y: axis("", colour, {
          grid: { display: false }, title: { display: false },
          ticks: { autoSkip: false, color: colour.ink, callback: (_, at) => shorten(rows[at].name, room) },
        }),
      },
      tooltip: {
        displayColors: false, filter: (item) => item.datasetIndex === 0,
        callbacks: { label: (item) => between(rows[item.dataIndex]) },
      },
    },
  }));
}

/** A line with its band for each key, over the releases of a series. */
export function drawSeries(canvas, keys, labels) {
  canvas.parentElement.style.height = "340px";
  draw(canvas, (colour) => {
    const datasets = keys.flatMap(({ name, points }, at) => {
      const own = colour.series[at % colour.series.length];
      const bound = { type: "line", pointRadius: 0, pointHoverRadius: 0, borderWidth: 0, borderColor: "transparent" };
      return [
        { type: "line", label: name, data: points.map((point) => point.estimate), points, borderColor: own, borderWidth: 2,
          backgroundColor: own, pointStyle: MARKS[at % MARKS.length], pointRadius: labels.length > 60 ? 0 : 4, pointHoverRadius: 6 },
        { ...bound, label: `${name}: high`, data: points.map((point) => point.high), backgroundColor: `${own}2e`, fill: "+1" },
        { ...bound, label: `${name}: low`, data: points.map((point) => point.low), fill: false },
      ];
    });
    return {
      data: { labels, datasets },
      layout: {
        interaction: { mode: "index", intersect: false },
        scales: {
          x: axis("", colour, { grid: { display: false }, title: { display: false }, ticks: { maxRotation: 0, autoSkipPadding: 12 } }),
          y: axis("estimated count", colour, { beginAtZero: true }),
        },
        plugins: {
          legend: {
            display: keys.length > 1, position: "bottom", align: "start",
            labels: { usePointStyle: true, boxHeight: 7, boxWidth: 7, color: colour.ink, padding: 18, filter: (item) => item.datasetIndex % 3 === 0 },
            onClick: () => {},
          },
        },
        tooltip: {
          filter: (item) => item.datasetIndex % 3 === 0,
          callbacks: { label: (item) => `${keys.length > 1 ? `${item.dataset.label}: ` : ""}${between(item.dataset.points[item.dataIndex])}` },
        },
      },
    };
  });
}

/** The error of each mechanism against the true count: ours thick, the paper's dashed, the others thin. */
export function drawErrors(canvas, mechanisms, counts, { logarithmic, most }) {
  const least = logarithmic ? 0.7 * Math.min(...mechanisms.flatMap(({ errors }) => errors.filter((error) => error > 0))) : 0;
  draw(canvas, (colour) => ({
    data: {
      labels: counts.map(count), // 0, 1, 2, 5, 10, …: the distances are those of a logarithmic axis that has a zero
      datasets: mechanisms.map((mechanism) => ({
        type: "line", label: mechanism.name, order: mechanism.chosen ? 0 : 1, pointRadius: 0, pointHoverRadius: 4,
        data: mechanism.errors.slice(0, counts.length).map((error) => (logarithmic && !error ? null : error)), // a logarithmic axis has no zero
        borderColor: colour.series[mechanism.colour % 6], backgroundColor: colour.series[mechanism.colour % 6],
        borderWidth: mechanism.chosen ? 4 : 2, borderDash: mechanism.dash, tension: 0,
      })),
    },
    layout: {
      interaction: { mode: "index", intersect: false },
      scales: {
        x: axis("true count of a key", colour, { ticks: { maxRotation: 0, autoSkipPadding: 12 } }),
        y: axis("mean absolute error", colour, { type: logarithmic ? "logarithmic" : "linear", min: Number.isFinite(least) ? least : undefined, max: most, ticks: { callback: (value) => count(value), autoSkipPadding: 8 } }),
      },
      tooltip: {
        callbacks: {
          title: (items) => (items.length ? `at a true count of ${items[0].label}` : ""),
          label: (item) => `${item.dataset.label}: ${count(item.parsed.y)}`,
        },
        itemSort: (a, b) => a.parsed.y - b.parsed.y,
      },
    },
  }));
}

// A table is dropped, the server forecasts its learning curve, and it is drawn.

import { swatch } from "./figure.js";
import { fillLegend } from "./legend.js";
import { Plots } from "./plot.js";
import { short } from "./symbols.js";

const WORDS = { error: "misclassified share", mse: "mean squared test error", train_mse: "training error" };
const MOST_CURVES = 5;
const HEAD = 65536;

const $ = (id) => document.getElementById(id);
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
const plots = new Plots($("chart"));
let file = null;
let answer = null;

/** Take a file: its name is shown, and the columns of a text table are offered as labels. */
async function take(chosen) {
  if (!chosen) return;
  file = chosen;
  $("ask").disabled = false;
  $("status").textContent = `${file.name}, ${file.size.toLocaleString("en")} bytes. Say which column holds the labels.`;
  const separator = { csv: ",", tsv: "\t" }[file.name.toLowerCase().split(".").pop()];
  const line = separator ? (await file.slice(0, HEAD).text()).split(/\r?\n/, 1)[0] : "";
  const columns = line ? line.split(separator).map((name) => name.trim().replace(/^"(.*)"$/, "$1")) : [];
  $("columns").replaceChildren(...columns.map((name) => new Option(name, name)));
  $("label").value = columns.length ? columns[columns.length - 1] : "y";
}

/** Say what went wrong, or nothing. */
function say(problem) {
  $("problem").textContent = problem;
  $("problem").hidden = !problem;
}

async function ask() {
  say("");
  $("ask").disabled = true;
  $("status").textContent = "Forecasting …";
  const query = new URLSearchParams({ file: file.name, label: $("label").value, task: $("task").value });
  try {
    const response = await fetch(`/api/forecast?${query}`, {
      method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file,
    });
    const data = await response.json();
    if (!response.ok) throw new Error(data.error);
    show(data);
  } catch (error) {
    say(error.message || "The server does not answer.");
    $("status").textContent = "";
  }
  $("ask").disabled = false;
}

function show(data) {
  answer = data;
  const { attrs } = data.result;
  $("status").textContent = `${attrs.N} rows, ${attrs.p} features, ${attrs.task}`;
  $("remarks").replaceChildren(...data.warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  $("trust").textContent = data.trust;
  $("trust").hidden = false;
  const names = Object.keys(WORDS).filter((name) => name in data.result);
  $("variable").replaceChildren(...names.map((name) => new Option(WORDS[name], name)));
  $("variable").disabled = $("csv").disabled = false;
  draw();
}

/** Which ridges are drawn: up to five, evenly, among them the one that is best with all rows, of which the statement speaks. */
function chosenRidges(result, name) {
  const count = result.ridge.length;
  if (count <= MOST_CURVES) return result.ridge.map((_, place) => place);
  const known = result.samples.reduce((nearest, n, place) => (Math.abs(n - result.attrs.N) < Math.abs(result.samples[nearest] - result.attrs.N) ? place : nearest), 0);
  const errors = result[name][0][known].map((value) => value ?? Infinity);
  const best = errors.indexOf(Math.min(...errors));
  const even = Array.from({ length: MOST_CURVES }, (_, k) => Math.round((k * (count - 1)) / (MOST_CURVES - 1)));
  const nearest = even.reduce((a, b) => (Math.abs(b - best) < Math.abs(a - best) ? b : a));
  return even.map((place) => (place === nearest ? best : place));
}

/** One total standard error around a curve; a logarithmic axis ends above zero, so it stops at a tenth of the curve. */
function areaOf(x, y, total, colour) {
  const known = [...x.keys()].filter((place) => y[place] !== null && total[place] !== null);
  return { colour, x: known.map((place) => x[place]), high: known.map((place) => y[place] + total[place]), low: known.map((place) => Math.max(y[place] - total[place], y[place] / 10)) };
}

function draw() {
  if (!answer) return;
  const { result } = answer;
  const { attrs, samples: x } = result;
  const name = $("variable").value;
  const column = (variable, source, ridge) => result[variable][source].map((row) => row[ridge]);
  const panel = { name, kind: "lines", title: `<b>${WORDS[name]}</b>${attrs[`verdict_${name}`] ? `, forecast ${attrs[`verdict_${name}`]}` : ""}`, x: { label: "training samples <i>n</i>", log: true }, y: { log: true }, series: [], scores: [], marks: [], areas: [], bands: [{ from: attrs.N, to: attrs.N, label: `N = ${attrs.N}` }] };
  chosenRidges(result, name).forEach((ridge, place) => {
    const [colour, key] = [swatch(place, isDark), String(ridge)];
    const line = { kind: "line", key, label: `ridge ${short(result.ridge[ridge], 3)}`, x, y: column(name, 0, ridge), colour, width: 2, dash: [] };
    if (`${name}_se_total` in result) panel.areas.push(areaOf(x, line.y, column(`${name}_se_total`, 0, ridge), colour));
    panel.series.push(line);
    if (result.source.length > 1) panel.series.push({ kind: "dots", key: `${key} dots`, x, y: column(name, 1, ridge), errors: column(`${name}_stderr`, 1, ridge), colour, marker: "circle" });
  });
  fillLegend($("named"), [panel]);
  plots.draw([panel], { height: Math.min(480, 0.6 * innerHeight), dark: isDark });
}

function download() {
  const link = Object.assign(document.createElement("a"), { download: "forecast.csv" });
  link.href = URL.createObjectURL(new Blob([answer.csv], { type: "text/csv" }));
  link.click();
  URL.revokeObjectURL(link.href);
}

document.documentElement.dataset.theme = isDark ? "dark" : "light";
addEventListener("resize", draw);
$("file").addEventListener("change", (event) => take(event.target.files[0]));
$("variable").addEventListener("change", draw);
$("csv").addEventListener("click", download);
$("controls").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
for (const kind of ["dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}

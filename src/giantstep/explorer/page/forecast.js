// A table is dropped, the server forecasts its learning curve, Plotly draws it.

const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"];
const WORDS = { error: "misclassified share", mse: "mean squared test error", train_mse: "training error" };
const MOST_CURVES = 5;
const HEAD = 65536;

const element = (id) => document.getElementById(id);
let file = null;
let answer = null;

/** Take a file: its name is shown, and the columns of a text table are offered as labels. */
async function take(chosen) {
  if (!chosen) return;
  file = chosen;
  element("ask").disabled = false;
  element("status").textContent = `${file.name}, ${file.size.toLocaleString("en")} bytes. Say which column holds the labels.`;
  const separator = { csv: ",", tsv: "\t" }[file.name.toLowerCase().split(".").pop()];
  const line = separator ? (await file.slice(0, HEAD).text()).split(/\r?\n/, 1)[0] : "";
  const columns = line ? line.split(separator).map((name) => name.trim().replace(/^"(.*)"$/, "$1")) : [];
  element("columns").replaceChildren(...columns.map((name) => new Option(name, name)));
  element("label").value = columns.length ? columns[columns.length - 1] : "y";
}

/** Say what went wrong, or nothing. */
function say(problem) {
  element("problem").textContent = problem;
  element("problem").hidden = !problem;
}

async function ask() {
  say("");
  element("ask").disabled = true;
  element("status").textContent = "Forecasting …";
  const query = new URLSearchParams({ file: file.name, label: element("label").value, task: element("task").value });
  try {
    const response = await fetch(`/api/forecast?${query}`, {
      method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file,
    });
    const data = await response.json();
    if (!response.ok) throw new Error(data.error);
    show(data);
  } catch (error) {
    say(error.message || "The server does not answer.");
    element("status").textContent = "";
  }
  element("ask").disabled = false;
}

function show(data) {
  answer = data;
  const { attrs } = data.result;
  element("status").textContent = `${attrs.N} rows, ${attrs.p} features, ${attrs.task}`;
  element("remarks").replaceChildren(...data.warnings.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  element("trust").textContent = data.trust;
  element("trust").hidden = false;
  const names = Object.keys(WORDS).filter((name) => name in data.result);
  element("variable").replaceChildren(...names.map((name) => new Option(WORDS[name], name)));
  element("variable").disabled = element("csv").disabled = false;
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

/** One total standard error around a curve; below zero a logarithmic axis ends, so it stops at a tenth of the curve. */
function band(x, y, total, colour, group) {
  const known = x.map((_, place) => place).filter((place) => y[place] !== null && total[place] !== null);
  const back = [...known].reverse();
  const low = (place) => Math.max(y[place] - total[place], y[place] / 10);
  return {
    x: [...known, ...back].map((place) => x[place]), y: [...known.map((place) => y[place] + total[place]), ...back.map(low)],
    mode: "none", fill: "toself", fillcolor: `${colour}26`, legendgroup: group, showlegend: false, hoverinfo: "skip",
  };
}

function draw() {
  const { result } = answer;
  const name = element("variable").value;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const ink = dark ? "#e8eaed" : "#1b1f23";
  const column = (variable, source, ridge) => result[variable][source].map((row) => row[ridge]);
  const traces = chosenRidges(result, name).flatMap((ridge, place) => {
    const colour = PALETTE[place];
    const label = `ridge ${Number(result.ridge[ridge].toPrecision(3))}`;
    const total = `${name}_se_total` in result ? column(`${name}_se_total`, 0, ridge) : null;
    const line = { x: result.samples, y: column(name, 0, ridge), mode: "lines", name: label, legendgroup: label, line: { color: colour } };
    const lines = total ? [band(result.samples, line.y, total, colour, label), line] : [line];
    if (result.source.length < 2) return lines;
    const dots = {
      x: result.samples, y: column(name, 1, ridge), mode: "markers", name: `${label}, experiment`, legendgroup: label, showlegend: false,
      marker: { color: colour, symbol: "circle-open", size: 8 },
      error_y: { type: "data", array: column(`${name}_stderr`, 1, ridge), color: colour, thickness: 1.2, width: 3 },
    };
    return [...lines, dots];
  });
  const rows = result.attrs.N;
  const verdict = result.attrs[`verdict_${name}`];
  const layout = {
    title: { text: verdict ? `Forecast of the ${WORDS[name]}: ${verdict}` : "", font: { size: 13 }, x: 0.02, xanchor: "left" },
    xaxis: { type: "log", dtick: "D2", title: { text: "training samples n" } }, yaxis: { type: "log", title: { text: WORDS[name] } },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink }, margin: { t: 40, r: 10 },
    shapes: [{ type: "line", x0: rows, x1: rows, yref: "paper", y0: 0, y1: 1, line: { dash: "dash", color: "#888", width: 1 } }],
    annotations: [{ x: Math.log10(rows), y: 1, yref: "paper", text: `N = ${rows}`, showarrow: false, xanchor: "left", yanchor: "top" }],
  };
  Plotly.react(element("chart"), traces, layout, { responsive: true, displaylogo: false });
}

function download() {
  const link = Object.assign(document.createElement("a"), { download: "forecast.csv" });
  link.href = URL.createObjectURL(new Blob([answer.csv], { type: "text/csv" }));
  link.click();
  URL.revokeObjectURL(link.href);
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
element("file").addEventListener("change", (event) => take(event.target.files[0]));
element("variable").addEventListener("change", draw);
element("csv").addEventListener("click", download);
element("controls").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
for (const kind of ["dragover", "dragleave", "drop"]) {
  element("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    element("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}

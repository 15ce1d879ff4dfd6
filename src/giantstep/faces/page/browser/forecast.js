// A table is dropped, the server forecasts its learning curve, and it is drawn.

import { element } from "./elements.js";
import { swatch } from "./figure.js";
import { fillLegend } from "./legend.js";
import { Plots } from "./plot.js";
import { $, isDark, problem } from "./session.js";

const HEAD = 65536; // bytes of a table in which its first line is looked for
const plots = new Plots($("chart"));
let file = null;
let answer = null;

/** Take a file: its name is shown, and the columns of a text table are offered as labels. */
async function take(chosen) {
  if (!chosen) return;
  file = chosen;
  $("ask").disabled = false;
  $("status").textContent = `${file.name}, ${file.size.toLocaleString("en")} bytes. Say which column holds the labels, then press Forecast.`;
  const separator = { csv: ",", tsv: "\t" }[file.name.toLowerCase().split(".").pop()];
  const line = separator ? (await file.slice(0, HEAD).text()).split(/\r?\n/, 1)[0] : "";
  const columns = line ? line.split(separator).map((name) => name.trim().replace(/^"(.*)"$/, "$1")) : [];
  $("columns").replaceChildren(...columns.map((name) => new Option(name, name)));
  $("label").value = columns.at(-1) ?? "y";
}

async function ask() {
  problem("");
  $("ask").disabled = true;
  $("status").textContent = "Forecasting …";
  const query = new URLSearchParams({ file: file.name, label: $("label").value, task: $("task").value });
  try {
    const response = await fetch(`/api/forecast?${query}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file });
    const data = await response.json();
    if (!response.ok) throw new Error(data.error);
    show(data);
  } catch (error) {
    problem(error.message || "The server does not answer.");
    $("status").textContent = "";
  }
  $("ask").disabled = false;
}

function show(data) {
  answer = data;
  const { N, p, task } = data.result.attrs;
  $("status").textContent = `${N} rows, ${p} features, ${task}`;
  $("remarks").replaceChildren(...data.warnings.map((text) => element("li", {}, text)));
  $("trust").textContent = data.trust;
  $("trust").hidden = $("shown").hidden = false;
  $("variable").replaceChildren(...data.panels.map(({ name, called }) => new Option(called, name)));
  draw();
}

function draw() {
  if (!answer) return;
  const panel = answer.panels.find(({ name }) => name === $("variable").value);
  for (const drawn of [...panel.series, ...panel.areas]) drawn.colour = swatch(drawn.slot, isDark());
  fillLegend($("named"), [panel]);
  plots.draw([panel], { height: Math.min(480, 0.6 * innerHeight), dark: isDark() });
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
addEventListener("resize", draw);
$("file").addEventListener("change", (event) => take(event.target.files[0]));
$("variable").addEventListener("change", draw);
$("csv").addEventListener("click", () => element("a", { download: "forecast.csv", href: URL.createObjectURL(new Blob([answer.csv], { type: "text/csv" })) }).click());
$("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  $("drop").addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}

// What is on the screen: the figure with its legend, what picks a time or a slice, the numbers as a table.

import { element } from "./elements.js";
import { figure, slicesOf, tableOf } from "./figure.js";
import { drawnVariables, fillSwitch, heightFor, isSingle, presentVariables, tellAbsent } from "./layout.js";
import { fillLegend } from "./legend.js";
import { Plots } from "./plot.js";
import { $, actions, curves, isDark, page, problem, question, setBusy } from "./session.js";
import { escaped, short, words } from "./text.js";
import { values } from "./views.js";

let plots = null;
let picked = ""; // the variable drawn where only some fit
let noteDrawn = null;

/** Fulfilled when the first figure is drawn, or when it should have been: what can wait for it is loaded then. */
export const opened = new Promise((resolve) => {
  noteDrawn = resolve;
  setTimeout(resolve, 4000);
});

/** Draw with the next frame. */
export function draw() {
  if (!page.state) return;
  setBusy("drawing", true);
  requestAnimationFrame(() => {
    try {
      paint();
    } catch (error) {
      problem(`This result cannot be drawn: ${error.message}`);
    }
    setBusy("drawing", false);
  });
}

/** The figure that is shown now, in light colours where it goes to a file. */
export function figureShown(variables = page.state.variables, dark = false) {
  const shade = page.stories.find((story) => story.name === page.state.story)?.shade;
  return figure({ question: question(), state: { ...page.state, variables }, curves: curves(), dark, shade });
}

function paint() {
  plots ??= new Plots($("chart"));
  const isThere = Boolean(page.current.result || page.current.dots);
  $("chart").classList.toggle("stale", Boolean(page.current.refused) && !page.current.dots);
  if (!isThere) return blank(page.current.refused ? "No theory answers this yet; the experiment does." : "Computing …");
  timeSlider();
  const present = presentVariables(page.state.variables, curves());
  const variables = drawnVariables(present, picked);
  tellAbsent(question(), page.state.variables, present);
  fillSwitch($("switch"), present, variables, (name) => { picked = name; draw(); }, question().variables);
  const { panels, summary } = figureShown(variables, isDark());
  fillLegend($("named"), panels);
  plots.draw(panels, { height: heightFor(panels, $("named").offsetHeight), columns: isSingle() ? 1 : 2, dark: isDark() });
  $("chart").setAttribute("aria-label", `Figure. ${summary}`);
  if ($("numbers-box").open) numbers();
  slices();
  noteDrawn();
}

/** Take the figure away, where it shows another state than the page. */
function blank(sentence) {
  plots.clear();
  fillLegend($("named"), []);
  $("chart").replaceChildren(element("p", { class: "help" }, sentence));
  $("chart").setAttribute("aria-label", `Figure. ${sentence}`);
}

/** Of times that lie over each other a slider picks one. */
function timeSlider() {
  const result = page.current.result ?? page.current.dots;
  const { time } = page.state;
  $("times").hidden = !result.layout.time;
  if (!result.layout.time) return;
  const times = values(result, result.layout.time);
  const text = time === undefined ? "all" : short(times[Math.min(time, times.length - 1)]);
  Object.assign($("time"), { max: times.length - 1, value: time ?? -1 });
  $("time-name").textContent = result.layout.axes[result.layout.time].short;
  $("time-shown").textContent = text;
  $("time").setAttribute("aria-valuetext", text);
}

function slices() {
  const { state } = page;
  const known = slicesOf(state, page.current.result);
  $("slices").hidden = !known.length;
  if (!known.length || $("slices").contains(document.activeElement)) return;
  $("slices").replaceChildren(...known.flatMap(([dim, labels]) => {
    const list = element("select", { id: `slice-${dim}`, onchange: () => actions.change({ ...page.state, slices: { ...page.state.slices, [dim]: list.selectedIndex } }, true) });
    labels.forEach((label, i) => list.append(element("option", { selected: i === (state.slices?.[dim] ?? 0) }, String(label))));
    return [element("label", { for: `slice-${dim}` }, words(dim)), list];
  }));
}

/** The numbers shown, as a table. */
export function numbers() {
  const { head, rows, left } = tableOf(figureShown().panels);
  const row = (cells, kind) => `<tr>${cells.map((cell) => `<${kind}>${escaped(cell)}</${kind}>`).join("")}</tr>`;
  const more = left ? `<p class="help">${left} more rows: download the CSV.</p>` : "";
  $("numbers").innerHTML = `<table><thead>${row(head, "th")}</thead><tbody>${rows.map((cells) => row(cells, "td")).join("")}</tbody></table>${more}`;
}

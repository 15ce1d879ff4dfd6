// What is on the screen: the figure with its legend, two scenarios side by side, the numbers as a table.

import { differenceOf } from "./ab.js";
import { extremes, rangeOver } from "./axes.js";
import { element, tableElement } from "./elements.js";
import { figure, slicesOf, tableOf } from "./figure.js";
import { drawnVariables, fillSwitch, heightFor, isSingle, presentVariables, tellAbsent } from "./layout.js";
import { fillLegend } from "./legend.js";
import { Plots } from "./plot.js";
import { $, actions, curves, family, isDark, page, problem, question, setBusy, timesShown } from "./session.js";
import { short, words } from "./symbols.js";

let plots = null;
let sides = null;
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
  return figure({ family: family(), state: { ...page.state, variables }, curves: curves(), dark, shade });
}

function paint() {
  plots ??= new Plots($("chart"));
  const isThere = Boolean(page.current.result || page.current.dots);
  $("chart").classList.toggle("stale", Boolean(page.current.refused) && !page.current.dots);
  if (!isThere) return blank(page.current.refused ? "No theory answers this yet; the experiment does." : "Computing …");
  timeSlider();
  const present = presentVariables(question(), page.state.variables, curves());
  const variables = drawnVariables(present, picked);
  tellAbsent(question(), page.state.variables, present);
  fillSwitch($("switch"), present, variables, (name) => { picked = name; draw(); }, question().variables);
  const isSplit = Boolean(page.state.ab && page.kept[0]?.result && page.current.result);
  $("ab").hidden = !isSplit;
  $("chart").hidden = isSplit;
  if (isSplit) drawSides(present.includes(picked) ? picked : variables[0]);
  else {
    const { panels, summary } = figureShown(variables, isDark());
    fillLegend($("named"), panels);
    plots.draw(panels, { height: heightFor(panels, $("named").offsetHeight), columns: isSingle() ? 1 : 2, dark: isDark() });
    $("chart").setAttribute("aria-label", `Figure. ${summary}`);
  }
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

/** A, B and their difference instead of one figure: A is under the sliders, B is the first curve kept. */
function drawSides(name) {
  fillLegend($("named"), []);
  const [a, b] = curves();
  const gap = differenceOf(a.result, b.result, name);
  const make = (curve) => figure({ family: family(), state: { ...page.state, variables: [name] }, curves: [{ ...curve, slot: 0, label: "" }], dark: isDark() });
  const figures = [make(a), make(b), ...(gap ? [make({ result: gap })] : [])];
  const log = page.state.log.includes("y");
  const shared = rangeOver(...extremes(figures.slice(0, 2).flatMap(({ panels }) => panels.flatMap((panel) => panel.series.map((series) => series.y))), log), log);
  for (const { panels } of figures.slice(0, 2)) if (panels[0].y) panels[0].y.fixed = shared;
  const titles = ["A, under the sliders", `B, ${b.label || "kept"}`, gap ? "B − A" : "B − A: the two do not lie over the same points"];
  sides ??= [...$("ab").children].map((side) => new Plots(side.lastElementChild));
  sides.forEach((side, i) => {
    $("ab").children[i].firstElementChild.textContent = titles[i];
    if (!figures[i]) return side.clear();
    side.draw(figures[i].panels, { height: isSingle() ? Math.max(150, 0.2 * innerHeight) : heightFor([{}], 0), columns: 1, dark: isDark() });
    side.root.setAttribute("aria-label", `${titles[i]}. ${figures[i].summary}`);
  });
}

function timeSlider() {
  const shown = timesShown();
  $("times").hidden = !shown;
  if (!shown) return;
  const { time } = page.state;
  Object.assign($("time"), { max: shown.times.length - 1, value: time ?? -1 });
  const text = time === undefined ? "all" : short(shown.times[Math.min(time, shown.times.length - 1)]);
  $("time-shown").textContent = text;
  $("time").setAttribute("aria-valuetext", text);
}

function slices() {
  const { state } = page;
  const known = Object.entries(slicesOf({ family: family(), state, curves: curves() }));
  $("slices").hidden = !known.length;
  if (!known.length || $("slices").contains(document.activeElement)) return;
  $("slices").replaceChildren(...known.flatMap(([dim, labels]) => {
    const list = element("select", { id: `slice-${dim}`, onchange: () => actions.change({ ...page.state, slices: { ...page.state.slices, [dim]: list.selectedIndex } }) });
    labels.forEach((label, i) => list.append(element("option", { selected: i === (state.slices?.[dim] ?? 0) }, String(label))));
    return [element("label", { for: `slice-${dim}` }, words(dim)), list];
  }));
}

/** The numbers shown, as a table. */
export function numbers() {
  const { head, rows, left } = tableOf(figureShown().panels);
  $("numbers").replaceChildren(tableElement(head, rows), ...(left ? [element("p", { class: "help" }, `${left} more rows: download the CSV.`)] : []));
}

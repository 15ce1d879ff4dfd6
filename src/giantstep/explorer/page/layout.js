// Where things are: the figure beside the controls, or above them; never off the screen.

import { element } from "./elements.js";
import { pretty, words } from "./symbols.js";

const STACKED = "(max-width: 900px) and (min-height: 501px), (max-width: 639px)"; // as in style.css
const SINGLE = 640;
const LEAST = 200;
const LEAST_SIDE = 140;

export const isSingle = () => innerWidth < SINGLE;
export const isStacked = () => matchMedia(STACKED).matches;

/** How many variables fit beside and below each other now. */
function room() {
  if (isSingle() || innerHeight <= 500) return 1;
  return isStacked() ? 2 : 4;
}

/** The variables drawn now: all where there is room, else those from the one picked on. */
export function drawnVariables(state, picked) {
  const most = room();
  if (state.variables.length <= most) return state.variables;
  const first = Math.min(Math.max(state.variables.indexOf(picked), 0), state.variables.length - most);
  return state.variables.slice(first, first + most);
}

const hasNumber = (entry) => (Array.isArray(entry) ? entry.some(hasNumber) : entry !== null);

/** The variables without those that declare when they are absent and are so in all curves; all where none is left. */
export function presentVariables(question, names, curves) {
  const results = curves.flatMap(({ result, dots }) => [result, dots]).filter(Boolean);
  const isAbsent = (name) => {
    const answers = results.filter((result) => name in result.dims).map((result) => result[name]);
    return question.variables.some((variable) => variable.name === name && variable.absent) && answers.length && !answers.some(hasNumber);
  };
  const present = names.filter((name) => !isAbsent(name));
  return present.length ? present : names;
}

/** Say beside the ticks of absent variables why they are not drawn. */
export function tellAbsent(question, names, present) {
  for (const { name, meaning, absent } of question.variables) {
    const label = document.getElementById(`v-${name}`)?.closest("label");
    const missing = names.includes(name) && !present.includes(name);
    label?.classList.toggle("absent", missing);
    label?.setAttribute("title", missing ? `not here: ${absent}` : meaning);
  }
}

/** Buttons that say which variables are drawn, where not all fit. */
export function fillSwitch(root, state, drawn, pick, variables) {
  root.hidden = drawn.length === state.variables.length;
  root.replaceChildren(...(root.hidden ? [] : state.variables).map((name) =>
    element("button", { type: "button", "aria-pressed": String(drawn.includes(name)), onclick: () => pick(name) }, called(variables.find((variable) => variable.name === name)))));
}

/** How a variable is called: by its symbol where that is its name. */
export function called(variable) {
  return variable.symbol === variable.name ? element("i", { class: "math", html: pretty(variable.symbol) }) : words(variable.name);
}

/** Tell the style how much of the screen the figure takes, so that what is focused is not scrolled behind it. */
export function measureStage(stage) {
  document.documentElement.style.setProperty("--stage", `${stage.offsetHeight}px`);
}

/** List the names of curves below a figure, where they are too long for it; return the height of the list. */
export function listNames(root, traces) {
  root.hidden = !traces.length;
  root.replaceChildren(...traces.map(({ mode, name, line, marker }) => {
    const style = { dash: "dashed", longdash: "dashed", dot: "dotted", dashdot: "dotted", longdashdot: "dotted" }[line?.dash] ?? "solid";
    const mark = mode === "lines" ? element("span", { class: "line", style: `border-top-color:${line.color};border-top-style:${style}` }) : element("span", { class: "dot", style: `color:${marker.color}` }, "●");
    mark.setAttribute("aria-hidden", "true");
    return element("li", {}, mark, name);
  }));
  return root.hidden ? 0 : root.offsetHeight;
}

/** Write other names into such a list. */
export function renameListed(root, traces) {
  traces.forEach(({ name }, i) => {
    const text = root.children[i]?.lastChild;
    if (text && text.data !== name) text.data = name;
  });
}

/** Give one of two figures side by side, or their difference, its size: on a phone two of them share a row. */
export function fitSide(layout) {
  if (!isSingle()) return fit(layout);
  const quiet = (axis) => ({ ...axis, nticks: 4, title: undefined });
  const axes = Object.fromEntries(Object.entries(layout).filter(([name]) => /^[xy]axis/.test(name)).map(([name, axis]) => [name, quiet(axis)]));
  return { ...layout, ...axes, showlegend: false, annotations: [], font: { ...layout.font, size: 11 }, height: Math.max(LEAST_SIDE, 0.18 * innerHeight), margin: { l: 40, r: 6, t: 6, b: 22 } };
}

/** Give a figure the height that leaves room for the controls, and for what else takes so many pixels below it. */
export function fit(layout, taken = 0) {
  const share = isStacked() ? 0.42 : innerHeight <= 500 ? 0.8 : 0.62;
  const height = Math.max(LEAST, Math.min(layout.height, share * innerHeight - taken));
  if (height === layout.height) return layout;
  const legend = layout.showlegend ? Math.min(layout.margin.b - 50, Math.max(22, 0.2 * height)) : 0;
  return { ...layout, height, margin: { ...layout.margin, b: legend + 50 }, legend: { ...layout.legend, maxheight: legend ? legend + 10 : undefined } };
}

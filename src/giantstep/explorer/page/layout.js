// Where things are: the figure beside the controls, or above them; never off the screen.

import { element } from "./elements.js";
import { pretty, words } from "./symbols.js";

const STACKED = "(max-width: 900px) and (min-height: 501px), (max-width: 639px)"; // as in style.css
const SINGLE = 640;
const LEAST = 200;

export const isStacked = () => matchMedia(STACKED).matches;

/** How many variables fit beside and below each other now. */
function room() {
  if (innerWidth < SINGLE || innerHeight <= 500) return 1;
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

/** Give a figure the height that leaves room for the controls. */
export function fit(layout) {
  const share = isStacked() ? 0.42 : innerHeight <= 500 ? 0.8 : 0.62;
  const height = Math.max(LEAST, Math.min(layout.height, share * innerHeight));
  if (height === layout.height) return layout;
  const legend = layout.showlegend ? Math.min(layout.margin.b - 50, Math.max(22, 0.2 * height)) : 0;
  return { ...layout, height, margin: { ...layout.margin, b: legend + 50 }, legend: { ...layout.legend, maxheight: legend ? legend + 10 : undefined } };
}

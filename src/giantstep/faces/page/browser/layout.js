// Where things are: the figure beside the controls, or above them; never off the screen.

import { element } from "./elements.js";

const STACKED = "(max-width: 900px) and (min-height: 501px), (max-width: 639px)"; // as in layout.css
const SINGLE = 640;

export const isSingle = () => innerWidth < SINGLE;
const isStacked = () => matchMedia(STACKED).matches;

/** The variables drawn now: all where there is room, else those from the one picked on. */
export function drawnVariables(variables, picked) {
  const most = isSingle() || innerHeight <= 500 ? 1 : isStacked() ? 2 : 4;
  if (variables.length <= most) return variables;
  const first = Math.min(Math.max(variables.indexOf(picked), 0), variables.length - most);
  return variables.slice(first, first + most);
}

/** The height of a figure that leaves room for the controls, and for what else takes so many pixels below it. */
export function heightFor(panels, taken) {
  const share = isStacked() ? 0.4 : innerHeight <= 500 ? 0.7 : 0.6;
  const wanted = panels.length > 2 ? 720 : 440;
  return Math.max(170, Math.min(wanted, share * innerHeight - taken));
}

/** The variables without those that are absent in all curves; all where none is left. */
export function presentVariables(names, curves) {
  const results = curves.flatMap(({ result, dots }) => [result, dots]).filter(Boolean);
  const present = names.filter((name) => !results.length || !results.every(({ layout }) => layout.absent.includes(name) || !(name in layout.views)));
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
export function fillSwitch(root, names, drawn, pick, variables) {
  root.hidden = drawn.length === names.length;
  root.replaceChildren(...(root.hidden ? [] : names).map((name) =>
    element("button", { type: "button", "aria-pressed": String(drawn.includes(name)), onclick: () => pick(name), html: variables.find((variable) => variable.name === name).called })));
}

/** Tell the style how much of the screen the figure takes, now and later, so that what is focused is not scrolled behind it. */
export function watchStage(stage) {
  new ResizeObserver(() => document.documentElement.style.setProperty("--stage", `${stage.offsetHeight}px`)).observe(stage);
}

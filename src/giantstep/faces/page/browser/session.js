// What the modules of the page share: its state, the answers it has, and what main.js lets the others do.

import { labelsOf } from "./state.js";

export const $ = (id) => document.getElementById(id);

/** `current` and `kept` are curves: `result` (the limit), `dots` (the experiment), `theory` (at its dimension), `about` (what came with the limit), `optimum`. */
export const page = { families: {}, presets: [], stories: [], state: null, current: {}, kept: [], finished: null };

/** change(state, isDragged), load(state), draw(), remember(): main.js sets them. */
export const actions = {};

export const family = () => page.families[page.state.study.scenario.family];
export const question = () => family().questions[page.state.study.what];
export const presetShown = () => page.presets.find((preset) => preset.name === page.state.preset);
export const isDark = () => document.documentElement.dataset.theme === "dark";

/** The curve under the sliders and those kept, each with its name. */
export function curves() {
  const studies = [page.state.study, ...page.state.kept];
  const labels = labelsOf(family(), studies);
  return [page.current, ...page.kept].map((curve, slot) => ({ ...curve, label: studies[slot].name || labels[slot], slot }));
}

const busy = new Set();

/** Note whether something is still to come (an answer, a drawing, the address); the figure says so. */
export function setBusy(what, is) {
  busy[is ? "add" : "delete"](what);
  $("chart").setAttribute("aria-busy", String(busy.size > 0));
}

/** Write the line below the figure; `soft` leaves a coarse answer's there. */
export function status(html, soft = false) {
  if (!(soft && $("status").querySelector(".coarse"))) $("status").innerHTML = html;
}

let complaint = "";

/** Say what is wrong; what a limit complained of is taken back by the next good answer, the rest by the next change. */
export function problem(sentence, about = "page") {
  complaint = sentence ? about : "";
  $("problem").textContent = sentence;
  $("problem").hidden = !sentence;
}

export function forgive(about) {
  if (complaint === about) problem("");
}

/** What the browser keeps under a name; a value given is kept instead. A private window keeps nothing. */
export function remembered(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

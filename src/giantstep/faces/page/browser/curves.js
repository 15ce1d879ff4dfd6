// Curves kept beside the one under the sliders: named, put back, removed.

import { element } from "./elements.js";
import { swatch } from "./figure.js";
import { $, actions, curves, family, isDark, page } from "./session.js";
import { MOST_KEPT } from "./state.js";

export function keep() {
  const { state, current } = page;
  if (!current.result || state.kept.length >= MOST_KEPT) return;
  const { name, ...study } = state.study;
  page.kept = [...page.kept, { ...current }];
  actions.change({ ...state, study, kept: [...state.kept, state.study] }, true);
}

function drop(number) {
  const without = (list) => list.filter((_, i) => i !== number);
  page.kept = without(page.kept);
  actions.change({ ...page.state, kept: without(page.state.kept) }, true);
  $("pin").focus();
}

function rename(number, name) {
  actions.change({ ...page.state, kept: page.state.kept.map((study, i) => (i === number ? { ...study, name: name || undefined } : study)) }, true);
}

/** Put a kept curve under the sliders again; it stays among the kept ones. */
function restore(number) {
  const { name, ...study } = page.state.kept[number];
  const { variables, first } = family().questions[study.what];
  const shown = page.state.variables.filter((wanted) => variables.some((variable) => variable.name === wanted));
  actions.load({ ...page.state, study, story: undefined, variables: shown.length ? shown : first.variables });
}

export function listKept() {
  $("pin").disabled = page.state.kept.length >= MOST_KEPT;
  $("pinned").replaceChildren(...curves().slice(1).map(({ label }, i) => entry(i, label)));
}

function entry(number, label) {
  const mark = element("span", { class: "swatch", "aria-hidden": "true", style: `background:${swatch(number + 1, isDark())}` });
  const name = element("input", { value: label, maxlength: "60", title: "Give it a name", "aria-label": `Name of ${label}`, onchange: () => rename(number, name.value.trim()) });
  return element("li", {}, mark, name,
    element("button", { type: "button", title: "Put it under the sliders", "aria-label": `Restore ${label}`, onclick: () => restore(number) }, "↺"),
    element("button", { type: "button", title: "Remove", "aria-label": `Remove ${label}`, onclick: () => drop(number) }, "×"));
}

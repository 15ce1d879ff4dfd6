// Curves kept beside the one under the sliders: named, put back, removed, laid side by side.

import { element } from "./elements.js";
import { swatch } from "./figure.js";
import { firstVariables } from "./schema.js";
import { $, actions, family, isDark, names, page } from "./session.js";
import { MOST_KEPT } from "./state.js";

export function keep() {
  const { state, current } = page;
  if (!current.result || state.kept.length >= MOST_KEPT) return;
  const { name, ...study } = state.study;
  page.kept = [...page.kept, { ...current }];
  settle({ ...state, study, kept: [...state.kept, state.study] });
}

function drop(number) {
  const without = (list) => list.filter((_, i) => i !== number);
  page.kept = without(page.kept);
  settle({ ...page.state, kept: without(page.state.kept) });
  $("pin").focus();
}

function rename(number, name) {
  settle({ ...page.state, kept: page.state.kept.map((study, i) => (i === number ? { ...study, name: name || undefined } : study)) });
}

function settle(next) {
  actions.note(page.state);
  page.state = next;
  listKept();
  actions.remember();
  actions.draw();
}

/** Put a kept curve under the sliders again; it stays among the kept ones. */
function restore(number) {
  const { name, ...study } = page.state.kept[number];
  const known = family().questions[study.what].variables.map((variable) => variable.name);
  const variables = page.state.variables.filter((variable) => known.includes(variable));
  actions.load({ ...page.state, study, story: undefined, variables: variables.length ? variables : firstVariables(family().questions[study.what]) });
}

/** Put B under the sliders and A in its place. */
export function swapSides() {
  const [b, ...others] = page.state.kept;
  actions.load({ ...page.state, study: b, kept: [page.state.study, ...others] });
}

export function listKept() {
  const { kept, ab } = page.state;
  $("pin").disabled = kept.length >= MOST_KEPT;
  $("sides").hidden = !kept.length;
  $("sides").setAttribute("aria-pressed", String(Boolean(ab && kept.length)));
  $("swap").hidden = !(ab && kept.length);
  const labels = names();
  $("pinned").replaceChildren(...kept.map((_, i) => entry(i, labels[i + 1])));
}

function entry(number, label) {
  const mark = element("span", { class: "swatch", "aria-hidden": "true", style: `background:${swatch(number + 1, isDark())}` });
  const name = element("button", { type: "button", class: "name", title: "Give it a name", "aria-label": `${label}: give it a name` }, label);
  name.addEventListener("click", () => {
    const input = element("input", { value: label, maxlength: "60", "aria-label": `Name of ${label}` });
    input.addEventListener("change", () => rename(number, input.value.trim()));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") input.blur();
      if (event.key === "Escape") input.replaceWith(name);
    });
    name.replaceWith(input);
    input.select();
  });
  return element("li", {}, mark, name,
    element("button", { type: "button", title: "Put it under the sliders", "aria-label": `Restore ${label}`, onclick: () => restore(number) }, "↺"),
    element("button", { type: "button", title: "Remove", "aria-label": `Remove ${label}`, onclick: () => drop(number) }, "×"));
}

// What can be picked: a family, a preset, a question (a tab each), a notation.

import { listed } from "./ask.js";
import { element } from "./elements.js";
import { firstStudy, firstVariables } from "./schema.js";
import { $, actions, family, page, problem } from "./session.js";
import { firstState, stateOf } from "./state.js";
import { words } from "./symbols.js";
import { authors, showAbout, showTheory } from "./theory.js";

const OFTEN = 300; // milliseconds between two fillings of the list while presets come in
let allListed = false;

export function fillPicks() {
  const { state, families } = page;
  fill($("family"), Object.values(families).map((family) => [family.family, family.error ? `${family.family} (broken)` : family.title]), state.study.scenario.family);
  const papers = Object.keys(family().notation ?? {}).map((key) => [key, authors(family().papers.find((paper) => paper.key === key)?.bibtex ?? key)]);
  fill($("notation"), [["ours", "ours"], ...papers], state.notation);
  $("questions").replaceChildren(...Object.entries(family().questions).map(([name, { meaning }]) =>
    element("button", { type: "button", role: "tab", id: `question-${name}`, title: meaning, "aria-selected": String(name === state.study.what), onclick: () => pickQuestion(name) }, words(name))));
  fillPresets();
}

function fill(list, options, value) {
  list.replaceChildren(...options.map(([key, text]) => element("option", { value: key, selected: key === value }, text)));
}

export async function loadPresets() {
  let filled = 0;
  try {
    for await (const preset of listed("/api/presets")) {
      page.presets.push(preset);
      if (performance.now() - filled > OFTEN && document.activeElement !== $("preset")) {
        fillPresets();
        filled = performance.now();
      }
      if (preset.name !== page.state.preset) continue;
      showAbout();
      showTheory();
    }
  } catch (error) {
    problem(`Some presets could not be loaded: ${error.message}`);
  }
  allListed = true;
  fillPresets();
}

function fillPresets() {
  const { state, presets, families } = page;
  const groups = new Map();
  for (const preset of presets) {
    const name = preset.family || "other";
    if (!groups.has(name)) groups.set(name, element("optgroup", { label: families[name]?.title ?? name }));
    groups.get(name).append(element("option", { value: preset.name, selected: preset.name === state.preset }, preset.terminal ? `${preset.title} (runs in the terminal)` : preset.title));
  }
  const mine = state.study.scenario.family;
  const sorted = [...groups.entries()].sort(([a], [b]) => (b === mine) - (a === mine)).map(([, group]) => group);
  $("preset").replaceChildren(element("option", { value: "" }, allListed ? "–" : "loading …"), ...sorted);
  $("preset").value = presets.some((preset) => preset.name === state.preset) ? state.preset : "";
}

export function pickPreset(name) {
  const preset = page.presets.find((preset) => preset.name === name);
  if (!preset) return;
  const target = page.families[preset.family];
  const broken = preset.error ?? target?.error ?? (preset.studies?.length && target ? null : "it has no study");
  if (preset.terminal) {
    problem(`“${preset.title}” takes longer than this page waits. It runs in the terminal: ${preset.command}`);
    return fillPresets();
  }
  if (broken) return problem(`The preset “${preset.title}” is broken: ${broken}${preset.command ? ` In the terminal: ${preset.command}` : ""}`);
  try {
    actions.load(stateOf(target, preset.studies, preset.name));
  } catch (error) {
    problem(`The preset “${preset.title}” is broken: ${error.message}`);
  }
}

export function pickFamily(name) {
  if (!page.families[name].error) return actions.load(firstState(page.families[name]));
  problem(page.families[name].error);
  $("family").value = page.state.study.scenario.family;
}

/** Ask another question of the same scenario; where that has no answer to it, or is but an example itself, the example of the question is shown. */
function pickQuestion(what) {
  const { state } = page;
  const example = firstStudy(family(), what);
  const same = JSON.stringify(family().examples?.[what]) === JSON.stringify(family().example);
  const isExample = JSON.stringify(firstStudy(family(), state.study.what).scenario) === JSON.stringify(state.study.scenario);
  const study = same && !isExample ? { ...example, scenario: state.study.scenario } : example;
  const next = stateOf(family(), [{ ...study, experiment: state.study.experiment }], "");
  actions.load({ ...next, notation: state.notation, dots: state.dots, budget: state.budget, variables: firstVariables(family().questions[what]) });
  $(`question-${what}`)?.focus();
}

/** What is shown is no longer the preset. */
export function leavePreset() {
  page.state.preset = "";
  $("preset").value = "";
  showAbout();
}

// What can be picked: a family, a preset, a question (a tab each); and what is shown, in a sentence.

import { element } from "./elements.js";
import { asked } from "./http.js";
import { $, actions, family, page, presetShown, problem, question } from "./session.js";
import { firstState, stateOf } from "./state.js";
import { valueAt } from "./tables.js";
import { words } from "./text.js";

let allListed = false;

export function fillPicks() {
  const { study } = page.state;
  $("family").replaceChildren(...Object.values(page.families).map((one) =>
    element("option", { value: one.family, selected: one.family === study.scenario.family }, one.error ? `${one.family} (broken)` : one.title)));
  $("questions").replaceChildren(...Object.entries(family().questions).map(([name, { meaning }]) =>
    element("button", { type: "button", role: "tab", id: `question-${name}`, title: meaning, "aria-selected": String(name === study.what), onclick: () => pickQuestion(name) }, words(name))));
  fillPresets();
}

export async function loadPresets() {
  try {
    page.presets = await (await asked("/api/presets")).json();
  } catch (error) {
    problem(`The presets could not be loaded: ${error.message}`);
  }
  allListed = true;
  fillPresets();
  if (presetShown()) actions.change(page.state); // its description and its paper are known now
}

function fillPresets() {
  const mine = page.state.study.scenario.family;
  const groups = Map.groupBy(page.presets, (preset) => preset.family || "other");
  const option = ({ name, title, terminal }) => element("option", { value: name }, terminal ? `${title} (runs in the terminal)` : title);
  const sorted = [...groups.entries()].sort(([a], [b]) => (b === mine) - (a === mine));
  $("preset").replaceChildren(element("option", { value: "" }, allListed ? "no preset" : "loading …"),
    ...sorted.map(([name, presets]) => element("optgroup", { label: page.families[name]?.title ?? name }, ...presets.map(option))));
  $("preset").value = presetShown()?.name ?? "";
}

export function pickPreset(name) {
  const preset = page.presets.find((one) => one.name === name);
  if (!preset) return;
  const { title, terminal, command, studies = [] } = preset;
  const target = page.families[preset.family];
  const broken = preset.error ?? target?.error ?? (studies.length && target ? null : "it has no study");
  if (!terminal && !broken) return actions.load(stateOf(target, studies, { preset: name }));
  fillPresets();
  if (terminal) problem(`“${title}” is more than this page can show. It runs in the terminal: ${command}`);
  else problem(`The preset “${title}” is broken: ${broken}${command ? ` In the terminal: ${command}` : ""}`);
}

export function pickFamily(name) {
  if (!page.families[name].error) return actions.load(firstState(page.families[name]));
  problem(page.families[name].error);
  $("family").value = page.state.study.scenario.family;
}

/** Ask another question of the same scenario; where that has no answer to it, or is but an example itself, the example of the question is shown. */
function pickQuestion(what) {
  const { study, dots, budget } = page.state;
  const { questions, example, first } = family();
  const is = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const isKept = is(questions[what].first.study.scenario, example) && !is(questions[study.what].first.study.scenario, study.scenario);
  const { study: start, variables } = what === first.study.what ? first : questions[what].first;
  const scenario = isKept ? study.scenario : start.scenario;
  const grid = Object.fromEntries(Object.entries(start.grid).filter(([name]) => !name.includes(".") || valueAt(scenario, name.split(".")) !== undefined));
  actions.load(stateOf(family(), [{ ...start, scenario, grid, experiment: study.experiment }], { variables, dots, budget }));
  $(`question-${what}`)?.focus();
}

/** Say above the figure what it shows. */
export function showAbout() {
  const { title, sentence } = page.state;
  const preset = presetShown()?.description ? presetShown() : null;
  const text = preset ? `${preset.description} ${preset.parameters}` : `${question().meaning[0].toUpperCase()}${question().meaning.slice(1)}.`;
  const [head, rest] = title || sentence ? [title ?? "", sentence ?? ""] : [preset ? preset.title : family().title, text];
  $("about").replaceChildren(element("b", {}, /[.?!]$/.test(head) || !head ? head : `${head}.`), ` ${rest}`);
}

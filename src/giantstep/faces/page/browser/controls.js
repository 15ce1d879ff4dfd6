// The controls: the server writes them for a study; what is typed, dragged or picked goes into the state from here.

import { element, unfold } from "./elements.js";
import { typeset } from "./equations.js";
import { asked } from "./http.js";
import { $, actions, page, presetShown, problem, setBusy } from "./session.js";
import { sent } from "./state.js";
import { withAt } from "./tables.js";
import { parsed, short } from "./text.js";

const MOST_VARIABLES = 4;
let fills = 0;
let wrong = {}; // the field that the server refused, and its sentence

/** Have the controls written for the study shown; where it changes meanwhile, once more. */
export async function fillControls() {
  const mine = (fills += 1);
  const { study, variables, log, dots, budget } = page.state;
  setBusy("controls", true);
  setStale(true);
  try {
    const made = await (await asked("/api/controls", { study: sent(study), variables, log, dots, budget, paper: presetShown()?.paper })).json();
    if (mine !== fills) return;
    if (study !== page.state.study) return void fillControls();
    if (!$("controls").querySelector("[type=range]:active")) show(made);
  } catch (error) {
    if (mine === fills) {
      problem(error.message);
      showWrong(error.field, error.message);
    }
  }
  if (mine === fills) {
    setBusy("controls", false);
    setStale(false);
  }
}

/** What sets a whole list was written for the study before this one: until it is written anew, it would undo the last change. */
function setStale(is) {
  for (const root of [$("controls"), $("pipeline")]) root.classList.toggle("stale", is);
}

const isStale = (control) => Boolean(control.closest("#pipeline.stale") || (control.matches("button") && control.closest(".stale")));

function show({ controls, pipeline, theory }) {
  const root = $("controls");
  const { activeElement: focused } = document;
  const typed = focused.value !== focused.defaultValue ? focused.value : undefined;
  const open = [...root.querySelectorAll("details[open]")].map((fold) => fold.id);
  root.innerHTML = controls;
  $("pipeline").innerHTML = pipeline;
  $("pipeline").hidden = !pipeline;
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  const again = focused.isConnected ? null : document.getElementById(focused.id);
  if (again && again.type === "text" && typed !== undefined) again.value = typed;
  again?.focus({ preventScroll: true });
  typeset($("theory"), theory);
  showWrong(wrong.field, wrong.sentence);
  actions.draw(); // which variables are absent is said beside their ticks
}

/** Show what the server says about a field beside it, and grey the stage it lies in; nothing where the field is none. */
export function showWrong(field, sentence) {
  wrong = { field, sentence };
  for (const old of document.querySelectorAll(".wrong:not(.own), .why")) old.remove();
  for (const old of $("controls").querySelectorAll("[aria-invalid]:not([data-own])")) old.removeAttribute("aria-invalid");
  for (const card of $("pipeline").children) {
    const isMeant = Boolean(field) && card.dataset.holds.split(" ").some((name) => field === name || (field.startsWith(`${name}.`) && !card.matches(".adder")));
    card.classList.toggle("refused", isMeant);
    if (isMeant) card.append(element("p", { class: "why" }, sentence));
  }
  const input = field && $("controls").querySelector(`[data-field="${CSS.escape(field)}"], [data-field="${CSS.escape(`${field}.start`)}"]`);
  if (!input) return;
  input.setAttribute("aria-invalid", "true");
  unfold(input);
  input.closest(".field")?.append(element("p", { class: "wrong" }, sentence));
}

/** Go to the control of a field: its own, that of its first entry in a list, or that of what it lies in. */
function go(name) {
  const ids = [name, name.replace(".", ".0."), name.split(".")[0]].map((id) => `f-${CSS.escape(id)}`);
  const control = $("side").querySelector(`[data-drag="${CSS.escape(name)}"]`) ?? ids.map((id) => $("side").querySelector(`#${id}, [id^="${id}."]`)).find(Boolean);
  if (!control) return;
  unfold(control);
  control.scrollIntoView({ block: "nearest" });
  control.focus({ preventScroll: true });
}

// -- from a control into the state --------------------------------------------------------------------------------

/** Set values along their paths; another kind of scenario need not fit its name any longer. */
function apply(changes) {
  let next = page.state;
  for (const [path, value] of changes) next = withAt(next, path, value);
  if (changes.some(([path]) => path[1] === "scenario")) next = withAt(next, ["study", "name"]);
  actions.change(next);
}

const enter = (control, value) => actions.change(withAt(page.state, JSON.parse(control.dataset.path), value));

/** A slider moves: the figure follows at once, the other controls when it is let go. */
function drag(slider) {
  const { scale, path } = slider.dataset;
  const raw = Number(slider.value);
  const value = scale === "log" ? Number((10 ** raw).toPrecision(3)) : scale === "whole" ? Math.round(raw) : Number(raw.toPrecision(6));
  const beside = slider.parentElement.querySelector(".number");
  slider.setAttribute("aria-valuetext", short(value));
  beside.value = beside.defaultValue = short(value, 6);
  actions.change(withAt(page.state, JSON.parse(path), value), true);
}

/** Take whole numbers between bounds; anything else is said beside the field. */
function checkedWhole(input) {
  const [least, most] = [Number(input.dataset.least), Number(input.dataset.most)];
  const entry = parsed(input.value);
  const isGood = [entry].flat().every((number) => Number.isSafeInteger(number) && number >= least && number <= most);
  const said = document.getElementById(`${input.id}-wrong`);
  said.hidden = isGood;
  said.textContent = `Write a whole number from ${least} to ${most}${input.value.trim() ? `, not ${input.value.trim().slice(0, 40)}` : ""}.`;
  input.toggleAttribute("aria-invalid", !isGood);
  return isGood ? entry : undefined;
}

function take(control) {
  if (isStale(control)) return;
  const { kind, set, variable, log, field, allowed } = control.dataset;
  const value = parsed(control.value);
  const ticked = (what) => [...$("controls").querySelectorAll(`[data-${what}]:checked`)].map((box) => box.dataset[what]);
  if (control.type === "range") return fillControls();
  if (control.tagName === "SELECT") return apply(JSON.parse(control.selectedOptions[0].dataset.set));
  if (set) return apply(JSON.parse(set));
  if (log) return actions.change({ ...page.state, log: ticked("log").join("") });
  if (variable) {
    const variables = ticked("variable");
    if (variables.length && variables.length <= MOST_VARIABLES) return actions.change({ ...page.state, variables });
    control.checked = !control.checked;
  } else if (kind === "whole") {
    const entry = checkedWhole(control);
    if (entry !== undefined) enter(control, entry);
  } else if (kind.startsWith("number")) {
    if (typeof value === "number" || value === "inf" || (Array.isArray(value) && kind.includes("list"))) enter(control, value);
    else showWrong(field, `Field \`${field}\` must be ${allowed}.`);
  } else if (kind === "values") enter(control, [value ?? control.value].flat());
  else if (kind === "text") enter(control, control.value.trim() || undefined);
  else if (kind === "value") enter(control, value ?? (control.value.trim() || undefined));
}

export function listenToControls() {
  for (const root of [$("controls"), $("pipeline")]) root.addEventListener("change", ({ target }) => take(target));
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("controls").addEventListener("input", ({ target }) => {
    if (target.type === "range") drag(target);
    if (target.dataset.kind === "whole") checkedWhole(target);
  });
  addEventListener("click", ({ target }) => {
    const button = target.closest?.("button[data-set]");
    if (button && !isStale(button)) apply(JSON.parse(button.dataset.set));
    const named = target.closest?.("[data-go], .formula [data-field]");
    if (named) go(named.dataset.go ?? named.dataset.field);
  });
  addEventListener("keydown", ({ key, target }) => key === "Enter" && target.matches?.(".formula [data-field]") && go(target.dataset.field));
}

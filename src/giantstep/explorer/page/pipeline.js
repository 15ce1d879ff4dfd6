// A network as what it is: data, first layer, steps, read-out in a row; steps are added, moved, removed and changed here.

import { element, unfold } from "./elements.js";
import { fieldNamed, isTable, startOf, valueAt, withValue } from "./schema.js";
import { $, actions, family, page } from "./session.js";
import { greek, lastName, short, words } from "./symbols.js";

const MOST_OFFERS = 64; // studies that the server judges in one request
const FINITE = 2; // samples per dimension of a batch that was infinite

const scenario = () => page.state.study.scenario;
const set = (name, value) => actions.change({ ...page.state, study: { ...page.state.study, scenario: withValue(scenario(), name, value) } }, true);

/** Show the stages that a family declares for its page (`pipeline`), or nothing. */
export function showPipeline() {
  const stages = family().page?.pipeline ?? [];
  $("pipeline").hidden = !stages.length;
  $("pipeline").replaceChildren(...stages.flatMap((stage) => (stage.list ? stepCards(stage) : [stageCard(stage)])));
}

/** Grey the kinds of steps that no theory answers in their place; they can be chosen all the same. */
export async function greyKinds(ask) {
  const { study } = page.state;
  const options = [...$("pipeline").querySelectorAll("option[data-start]")].slice(0, MOST_OFFERS);
  if (!options.length) return;
  const studies = options.map(({ dataset }) => ({ scenario: withValue(study.scenario, dataset.at, JSON.parse(dataset.start)), what: study.what, settings: study.settings }));
  const { refusals } = await ask("/api/refusals", { studies });
  options.forEach((option, i) => {
    if (!refusals[i]) return;
    option.classList.add("refused");
    option.title = refusals[i].error;
    option.textContent += " (no theory yet)";
  });
}

/** Grey the stage that a field lies in, and say why no theory answers it; nothing where the field is none. */
export function markRefused(field, sentence = "") {
  for (const card of $("pipeline").children) {
    const isMeant = Boolean(field) && (card.dataset.holds ?? "").split(" ").some((name) => field === name || field.startsWith(`${name}.`));
    card.classList.toggle("refused", isMeant);
    card.querySelector(".why")?.remove();
    if (isMeant) card.append(element("p", { class: "why" }, `${sentence} The experiment can still be run.`));
  }
}

function stageCard({ title, fields }) {
  const head = element("button", { type: "button", class: "stage-name", title: `Go to the controls of the ${title}`, onclick: () => go(fields[0]) }, title);
  return element("li", { "data-holds": fields.join(" ") }, head, element("div", { class: "stage-text" }, fields.map(said).filter(Boolean).join(" · ")));
}

/** A field in few words; nothing where it is at its default, unless that is what it is all about. */
function said(name) {
  const field = fieldNamed(family(), name);
  const value = valueAt(scenario(), name) ?? field.default;
  const isDefault = JSON.stringify(value) === JSON.stringify(field.default);
  if (value === undefined || value === null || (isDefault && !field.required && !["function", "choice"].includes(field.type))) return "";
  if (field.type === "function") return greek(value);
  if (isTable(value)) return [value.kind ?? "", ...Object.entries(value).filter(([key, inner]) => key !== "kind" && typeof inner !== "object").map(([key, inner]) => (key === value.kind ? short(inner, 3) : `${words(key)} ${short(inner, 3)}`))].join(" ").trim();
  return `${words(name)} ${short(value, 3)}`;
}

function stepCards({ title, list }) {
  const field = fieldNamed(family(), list);
  const entries = valueAt(scenario(), list) ?? [];
  const add = () => set(list, [...entries, entries.at(-1) ?? startOf(field.choices[0])]);
  const more = element("button", { type: "button", class: "add", id: "add-step", title: `Add a ${title}`, "aria-label": `Add a ${title}`, onclick: add }, "+ ", title);
  return [...entries.map((_, place) => stepCard(field, entries, place, title)), element("li", { class: "adder", "data-holds": list }, more)];
}

function stepCard(field, entries, place, title) {
  const name = `${field.name}.${place}`;
  const entry = entries[place];
  const now = field.choices.find((choice) => choice.kind === entry.kind);
  const id = `stage-${name}`;
  const kinds = element("select", { id, "aria-label": `kind of ${title} ${place + 1}`, onchange: () => set(name, startOf(field.choices[kinds.selectedIndex])) },
    ...field.choices.map((choice) => element("option", { value: choice.kind ?? choice.name, selected: choice === now, title: choice.meaning, "data-at": name, "data-start": JSON.stringify(choice === now ? entry : startOf(choice)) }, String(choice.kind ?? words(choice.name)))));
  const others = (from, to) => entries.toSpliced(from, 1).toSpliced(to, 0, entries[from]);
  const tool = (sign, label, next, disabled = false) => element("button", { type: "button", title: label, "aria-label": `${label}: ${title} ${place + 1}`, disabled, onclick: () => set(field.name, next()) }, sign);
  const tools = element("span", { class: "tools" },
    tool("‹", "Move to the left", () => others(place, place - 1), place === 0),
    tool("›", "Move to the right", () => others(place, place + 1), place === entries.length - 1),
    tool("×", "Remove", () => entries.toSpliced(place, 1)));
  const head = element("div", { class: "stage-head" }, element("button", { type: "button", class: "stage-name", title: "Go to its controls", onclick: () => go(name) }, `${title} ${place + 1}`), tools);
  const fields = (now?.fields ?? []).filter((inner) => !inner.infinite);
  const values = fields.map((inner) => [lastName(inner.name), entry[lastName(inner.name)] ?? inner.default, inner]).filter(([, value, inner]) => typeof value === "number" && (inner.required || value !== inner.default));
  const batches = (now?.fields ?? []).filter((inner) => inner.infinite).map((inner) => batch(name, entry, inner));
  return element("li", { "data-holds": name }, head, kinds, element("div", { class: "stage-text" }, values.map(([key, value]) => `${words(key)} ${short(value, 3)}`).join(" · ")), ...batches);
}

/** What may be infinite in a step, its batch: a switch between that and a finite one. */
function batch(name, entry, inner) {
  const key = lastName(inner.name);
  const value = entry[key] ?? inner.default;
  const tick = element("input", { type: "checkbox", checked: value !== "inf", "data-batch": `${name}.${key}` });
  tick.addEventListener("change", () => set(`${name}.${key}`, tick.checked ? FINITE : "inf"));
  return element("label", { class: "tick", title: inner.meaning }, tick, value === "inf" ? "finite batch" : `${words(key)} ${short(value, 3)}`);
}

function go(name) {
  const control = document.getElementById(`f-${name}`) ?? document.querySelector(`[id^="f-${CSS.escape(name)}."]`);
  if (!control) return;
  unfold(control);
  control.scrollIntoView({ block: "nearest" });
  control.focus({ preventScroll: true });
}

// What the page shows, as one object; read from a link; the names that tell its studies apart.

import { isTable } from "./tables.js";
import { short, words } from "./text.js";

const VERSION = 1;
const TABLES = ["grid", "settings", "limit", "experiment"];
const BOUNDS = { dots: 200, budget: 300 };
export const MOST_KEPT = 7;

/** A state that shows some studies, the first one under the hand. */
export function stateOf(family, studies, more = {}) {
  const [study, ...kept] = studies.map((one) => checked(one, family));
  const log = Object.values(study.grid)[0]?.scale === "log" ? "x" : "";
  const { variables } = family.questions[study.what].first;
  return { version: VERSION, preset: "", study, kept: kept.slice(0, MOST_KEPT), variables, log, dots: 12, budget: 60, ...more };
}

/** What the page of a family opens on, as it declares. */
export function firstState({ first, ...family }) {
  return stateOf(family, [first.study], { preset: first.preset, variables: first.variables, dots: first.dots });
}

/** Read a link; a broken one raises an error whose message can be shown. */
export function fromLink(hash, families) {
  let state;
  try {
    state = JSON.parse(decodeURIComponent(hash.replace(/^#/, "")));
  } catch {
    throw new Error("The link is broken: what follows the # is not a state of this page.");
  }
  if (!isTable(state) || state.version !== VERSION || !isTable(state.study?.scenario)) throw new Error("The link is broken: it holds no study.");
  const family = own(families, state.study.scenario.family);
  if (!family || family.error) throw new Error(`The link is broken: there is no family ${JSON.stringify(state.study.scenario.family)}.`);
  const kept = (Array.isArray(state.kept) ? state.kept : []).filter((study) => isTable(study?.scenario));
  const good = { ...stateOf(family, [state.study]), kept: kept.slice(0, MOST_KEPT).map((study) => checked(study, own(families, study.scenario.family) ?? family)) };
  const known = family.questions[good.study.what].variables.map((variable) => variable.name);
  const shown = (Array.isArray(state.variables) ? state.variables : []).filter((name) => known.includes(name)).slice(0, 4);
  if (shown.length) good.variables = shown;
  if (/^x?y?$/.test(state.log)) good.log = state.log;
  if (isTable(state.slices)) good.slices = Object.fromEntries(Object.entries(state.slices).filter(([, index]) => isPlace(index)));
  if (isPlace(state.time)) good.time = state.time;
  for (const name of ["preset", "story", "title", "sentence"]) if (typeof state[name] === "string") good[name] = state[name].slice(0, 300);
  for (const [name, most] of Object.entries(BOUNDS)) if (isPlace(state[name]) && state[name] >= 1 && state[name] <= most) good[name] = state[name];
  return good;
}

const isPlace = (value) => Number.isInteger(value) && value >= 0;

/** The entry of a table under a name that came from outside; nothing that every object has (`constructor`). */
const own = (table, name) => (Object.hasOwn(table ?? {}, name) ? table[name] : undefined);

function checked(study, family) {
  const what = study.what ?? Object.keys(family.questions)[0];
  if (!own(family.questions, what)) throw new Error(`The link is broken: ${family.family} does not answer ${JSON.stringify(study.what)}.`);
  const good = { scenario: study.scenario, what };
  for (const name of TABLES) good[name] = isTable(study[name]) ? study[name] : {};
  if (typeof study.name === "string") good.name = study.name.slice(0, 60);
  return good;
}

/** The study as the server takes it: empty tables left out. */
export function sent(study) {
  const copy = { scenario: study.scenario, what: study.what };
  for (const name of TABLES) if (Object.keys(study[name] ?? {}).length) copy[name] = study[name];
  return copy;
}

// -- names --------------------------------------------------------------------------------------------------------

/** What tells studies from each other: as few fields as can do it, with their values; nothing for one alone. */
export function labelsOf(family, studies) {
  if (studies.length < 2) return [""];
  const usual = Object.keys(family.theories)[0];
  const rows = studies.map(({ scenario, settings, limit }) => ({ ...leaves(scenario), ...leaves(settings), theory: limit.theory ?? usual, d: limit.dim ?? "inf" }));
  const varies = new Set(studies.flatMap((study) => Object.keys(study.grid)));
  const distinct = (chosen) => new Set(rows.map((row) => JSON.stringify(chosen.map((path) => row[path])))).size;
  const paths = [...new Set(rows.flatMap(Object.keys))].filter((path) => !varies.has(path) && distinct([path]) > 1);
  let chosen = [];
  for (const path of paths.sort((a, b) => distinct([b]) - distinct([a]))) if (distinct([...chosen, path]) > distinct(chosen)) chosen = [...chosen, path];
  const labels = rows.map((row) => chosen.filter((path) => row[path] !== undefined).map((path) => `${words(told(path))} ${valueText(row[path])}`).join(", "));
  return labels.map((label, i) => (labels.filter((other) => other === label).length === 1 ? label : `${label || "curve"} (${i + 1})`));
}

/** How a label calls a field: without the part it lies in, a kind by its part, an entry of a list with its place. */
function told(path) {
  const name = path.replace(/\.kind$/, "");
  return name.match(/[^.]+\.\d+(\.[^.]+)?$/)?.[0] ?? name.split(".").pop();
}

function leaves(table, prefix = "") {
  return Object.entries(table).reduce((found, [name, inner]) => {
    const isNested = isTable(inner) || (Array.isArray(inner) && inner.some(isTable));
    return { ...found, ...(isNested ? leaves(inner, `${prefix}${name}.`) : { [prefix + name]: inner }) };
  }, {});
}

function valueText(entry) {
  const text = [entry].flat(Infinity).map((inner) => short(inner, 3)).join(", ");
  return text.length > 28 ? `${text.slice(0, 27)}…` : text;
}

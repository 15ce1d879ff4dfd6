// What the page shows, as one object, and as a link that restores it.

import { firstStudy, firstVariables, isTable, withAxes } from "./schema.js";
import { lastName, short, words } from "./symbols.js";

const VERSION = 1;
const TABLES = ["grid", "settings", "limit", "experiment"];
export const MOST_KEPT = 7;

/** What the page of a family opens on, as it declares. */
export function firstState(family) {
  const { variables, grid, experiment } = family.page?.first ?? {};
  const study = firstStudy(family, Object.keys(family.questions)[0]);
  const state = stateOf(family, [{ ...study, grid: grid ?? study.grid }], `example:${family.family}`);
  const { dim } = state.study.experiment; // a family whose scenario has a dimension takes none here
  const first = { ...state.study.experiment, ...experiment, ...(dim === undefined ? { dim } : {}) };
  return { ...state, variables: variables ?? state.variables, study: { ...state.study, experiment: JSON.parse(JSON.stringify(first)) } };
}

/** A state that shows some studies, the first one under the hand. */
export function stateOf(family, studies, preset) {
  const [first, ...others] = studies.map((study) => complete(family, study));
  return {
    version: VERSION,
    preset,
    study: first,
    kept: others.slice(0, MOST_KEPT),
    variables: firstVariables(family.questions[first.what]),
    log: logAxis(first.grid),
    notation: "ours",
    dots: 12,
    budget: 60,
  };
}

function complete(family, study) {
  const what = study.what ?? Object.keys(family.questions)[0];
  const made = withAxes(family, { ...study, what });
  const experiment = { dim: 200, trials: 10, seed: 0, ...capped(made.experiment ?? {}) };
  if (family.fields.some((field) => field.name === "dim")) delete experiment.dim;
  return { ...made, grid: flat(made.grid ?? {}), settings: made.settings ?? {}, limit: made.limit ?? {}, experiment };
}

function capped(experiment) {
  const copy = { ...experiment };
  if (typeof copy.dim === "number") copy.dim = Math.min(copy.dim, 400);
  if (typeof copy.trials === "number") copy.trials = Math.min(copy.trials, 20);
  delete copy.device;
  return copy;
}

/** TOML nests dotted names of the grid; here they are dotted. */
function flat(table, prefix = "") {
  const flattened = {};
  for (const [name, value] of Object.entries(table)) {
    if (isTable(value) && !("start" in value) && !("kind" in value)) Object.assign(flattened, flat(value, `${prefix}${name}.`));
    else flattened[prefix + name] = value;
  }
  return flattened;
}

function logAxis(grid) {
  const first = Object.values(grid ?? {})[0];
  return isTable(first) && first.scale === "log" ? "x" : "";
}

/** What tells studies from each other: as few fields as can do it, with their values; nothing for one alone. */
export function labelsOf(family, studies) {
  const rows = studies.map((study) => ({
    ...leaves(study.scenario),
    ...leaves(study.settings ?? {}),
    theory: study.limit?.theory ?? Object.keys(family.theories)[0],
    d: study.limit?.dim ?? "inf",
  }));
  const varies = new Set(studies.flatMap((study) => Object.keys(study.grid ?? {})));
  const paths = [...new Set(rows.flatMap(Object.keys))].filter((path) => !varies.has(path));
  const distinct = (chosen) => new Set(rows.map((row) => JSON.stringify(chosen.map((path) => row[path])))).size;
  const telling = paths.filter((path) => distinct([path]) > 1).sort((a, b) => distinct([b]) - distinct([a]));
  let chosen = [];
  for (const path of telling) if (distinct([...chosen, path]) > distinct(chosen)) chosen = [...chosen, path];
  const labels = rows.map((row) => chosen.filter((path) => row[path] !== undefined).map((path) => `${words(told(path))} ${value(row[path])}`).join(", "));
  return labels.map((label, i) => (labels.indexOf(label) === i && labels.lastIndexOf(label) === i ? label : `${label || "curve"} (${i + 1})`));
}

/** How a label calls a field: without the part it lies in, a kind by its part, an entry of a list with its place. */
function told(path) {
  const name = path.replace(/\.kind$/, "");
  return name.match(/[^.]+\.\d+(\.[^.]+)?$/)?.[0] ?? lastName(name);
}

function leaves(table, prefix = "") {
  const flattened = {};
  for (const [name, inner] of Object.entries(table)) {
    if (isTable(inner) || (Array.isArray(inner) && inner.some(isTable))) Object.assign(flattened, leaves(inner, `${prefix}${name}.`));
    else flattened[prefix + name] = inner;
  }
  return flattened;
}

function value(entry) {
  const text = Array.isArray(entry) ? entry.flat(Infinity).map((inner) => short(inner, 3)).join(", ") : short(entry, 3);
  return text.length > 28 ? `${text.slice(0, 27)}…` : text;
}

export function linkOf(state) {
  return `#${encodeURIComponent(JSON.stringify(state))}`;
}

/** Read a link; a broken one raises an error whose message can be shown. */
export function fromLink(hash, families) {
  let state;
  try {
    state = JSON.parse(decodeURIComponent(hash.replace(/^#/, "")));
  } catch {
    throw new Error("The link is broken: what follows the # is not a state of this page.");
  }
  if (!isTable(state) || state.version !== VERSION || !isTable(state.study) || !isTable(state.study.scenario)) {
    throw new Error("The link is broken: it holds no study.");
  }
  const family = own(families, state.study.scenario.family);
  if (!family || family.error) throw new Error(`The link is broken: there is no family ${JSON.stringify(state.study.scenario.family)}.`);
  const fresh = stateOf(family, [{ scenario: family.example }], "");
  const good = { ...fresh, study: checked(state.study, family) };
  good.variables = Array.isArray(state.variables) ? state.variables.filter((name) => variablesOf(family, good.study).includes(name)).slice(0, 4) : [];
  if (!good.variables.length) good.variables = firstVariables(family.questions[good.study.what]);
  if (typeof state.log === "string" && /^x?y?$/.test(state.log)) good.log = state.log;
  if (typeof state.notation === "string" && (state.notation === "ours" || own(family.notation, state.notation))) good.notation = state.notation;
  if (typeof state.preset === "string") good.preset = state.preset;
  if (isTable(state.slices)) good.slices = Object.fromEntries(Object.entries(state.slices).filter(([, index]) => Number.isInteger(index) && index >= 0));
  if (typeof state.story === "string") good.story = state.story;
  for (const name of ["title", "sentence"]) if (typeof state[name] === "string") good[name] = state[name].slice(0, 300);
  if (state.ab === true) good.ab = true;
  if (Number.isInteger(state.time) && state.time >= 0) good.time = state.time;
  for (const [name, most] of [["dots", 200], ["budget", 300]]) {
    if (Number.isInteger(state[name]) && state[name] >= 1 && state[name] <= most) good[name] = state[name];
  }
  const kept = Array.isArray(state.kept) ? state.kept : [];
  good.kept = kept.filter((study) => isTable(study) && isTable(study.scenario)).slice(0, MOST_KEPT)
    .map((study) => checked(study, own(families, study.scenario.family) ?? family));
  return good;
}

/** The entry of a table under a name that came from outside; nothing that every object has (`constructor`). */
function own(table, name) {
  return Object.hasOwn(table ?? {}, name) ? table[name] : undefined;
}

function variablesOf(family, study) {
  return family.questions[study.what].variables.map((variable) => variable.name);
}

function checked(study, family) {
  const what = own(family.questions, study.what) ? study.what : Object.keys(family.questions)[0];
  if (study.what !== undefined && study.what !== what) throw new Error(`The link is broken: ${family.family} does not answer ${JSON.stringify(study.what)}.`);
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

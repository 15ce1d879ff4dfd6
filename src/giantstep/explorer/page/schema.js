// What the description of a family says about one scenario: its fields, their values, sensible ranges, defaults.

/** Fields in force for this scenario, parts opened: [{field, depth, part}] in order. */
export function openFields(family, scenario) {
  const leaves = [];
  const walk = (fields, depth) => {
    for (const field of fields.filter((field) => matters(family, field, scenario))) {
      leaves.push({ field, depth });
      const value = valueAt(scenario, field.name);
      const choice = chosen(field, value);
      if (choice && choice.fields) walk(choice.fields, depth + 1);
      if (isList(field)) walk((value ?? []).map((_, place) => entryOf(field, place)), depth + 1);
    }
  };
  walk(family.fields, 0);
  return leaves;
}

/** Whether a field can matter in a scenario; one that was changed is shown even where it cannot. */
export function matters(family, field, scenario) {
  const value = valueAt(scenario, field.name);
  const changed = value !== undefined && JSON.stringify(value) !== JSON.stringify(field.default);
  return changed || Object.entries(field.only ?? {}).every(([name, values]) => values.includes(valueAt(scenario, name) ?? family.fields.find((other) => other.name === name)?.default));
}

/** Names of the fields of a family by theme, those that matter most first; what the family does not place comes last. */
export function fieldGroups(family) {
  const names = family.fields.map((field) => field.name);
  const { main, themes } = family.page ?? {};
  const first = main?.length ? main : names;
  const groups = [{ title: "", names: first }, ...Object.entries(themes ?? {}).map(([title, names]) => ({ title, names }))];
  const placed = new Set(groups.flatMap((group) => group.names));
  const rest = names.filter((name) => !placed.has(name));
  return rest.length ? [...groups, { title: "Other fields", names: rest }] : groups;
}

/** Whether a field holds a list of parts. */
export function isList(field) {
  return field.type === "list of choices";
}

/** The field of one entry of a list of parts: its names and symbols say which. */
function entryOf(field, place) {
  const name = `${field.name}.${place}`;
  const choices = field.choices.map((choice) => ({ ...choice, fields: choice.fields.map((inner) => atPlace(inner, field.name, place)) }));
  return { name, symbol: "", meaning: "", type: "choice", choices };
}

function atPlace(inner, list, place) {
  const left = inner.symbol.split(" = ")[0];
  return { ...inner, name: inner.name.replace(`${list}.`, `${list}.${place}.`), symbol: /^[A-Za-z]\w*$/.test(left) ? `${left.replace(/(?<=[A-Za-z])(?=\d+$)/, "_")}_${place + 1}` : inner.symbol };
}

/** The name of a field in all entries of its list. */
export function ofAllEntries(name) {
  return name.replace(/\.\d+(?=\.)/, "");
}

/** A field by its dotted name, whatever is chosen now; null where the family has none. */
export function fieldNamed(family, name) {
  const walk = (fields) => {
    for (const field of fields) {
      if (field.name === name) return field;
      const place = isList(field) && name.startsWith(`${field.name}.`) ? parseInt(name.slice(field.name.length + 1), 10) : NaN;
      const choices = Number.isNaN(place) ? field.choices : entryOf(field, place).choices;
      for (const choice of choices ?? []) {
        const inner = choice.fields && walk(choice.fields);
        if (inner) return inner;
      }
    }
    return null;
  };
  return walk(family.fields);
}

/** Which choice of a part a value is. */
export function chosen(field, value) {
  if (!field.choices || isList(field)) return null;
  return field.choices.find((choice) =>
    "value" in choice ? choice.value === value : isTable(value) && (choice.kind === undefined || choice.kind === value.kind)) ?? null;
}

export function isTable(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Read a dotted field of a scenario. */
export function valueAt(scenario, name) {
  return name.split(".").reduce((inner, part) => (isTable(inner) || Array.isArray(inner) ? inner[part] : undefined), scenario);
}

/** Return a scenario with a dotted field changed; undefined removes it. */
export function withValue(scenario, name, value) {
  const [first, ...rest] = name.split(".");
  const copy = Array.isArray(scenario) ? [...scenario] : { ...scenario };
  const inner = isTable(copy[first]) || Array.isArray(copy[first]) ? copy[first] : {};
  if (!rest.length && value === undefined) delete copy[first];
  else copy[first] = rest.length ? withValue(inner, rest.join("."), value) : value;
  return copy;
}

/** Return a value a choice can start from: its defaults, and numbers within bounds. */
export function startOf(choice) {
  if ("value" in choice) return choice.value;
  const table = choice.kind === undefined ? {} : { kind: choice.kind };
  for (const field of choice.fields) {
    const name = field.name.split(".").pop();
    if (field.required) table[name] = sample(field);
    else if (!(Array.isArray(field.default) && !field.default.length) && field.default !== null) table[name] = field.default;
  }
  return table;
}

function sample(field) {
  if (field.values) return field.values[0];
  if (isList(field)) return [];
  if (field.choices) return startOf(field.choices[0]);
  if (field.type.startsWith("list")) return [1];
  if (field.type.startsWith("array")) return [[1]];
  if (field.type === "function") return "z";
  const { low, high } = ends(field);
  if (low !== null && high !== null) return field.type === "whole number" ? low : (low + high) / 2;
  return low === null || low < 1 ? 1 : low + 1;
}

export function isNumeric(field) {
  return /(^| )(whole )?number( |$)/.test(field.type.replace(/list of numbers|array of numbers/g, ""));
}

function ends(field) {
  const bounds = field.bounds ?? {};
  return { low: bounds.ge ?? bounds.gt ?? null, high: bounds.le ?? bounds.lt ?? null };
}

/** A slider's range around a value: linear between bounds, logarithmic where only zero bounds it from below. */
export function sliderRange(field, value) {
  const { low, high } = ends(field);
  const open = field.bounds ?? {};
  if (field.type === "whole number") {
    const least = low === null ? value - 10 : low + (open.gt === low ? 1 : 0);
    const most = high === null ? Math.max(least + 9, 4 * Math.abs(value)) : high - (open.lt === high ? 1 : 0);
    return { log: false, min: least, max: most, step: most - least > 2000 ? Math.round((most - least) / 500) : 1 };
  }
  if (low !== null && high !== null) {
    const step = (high - low) / 400;
    return { log: false, min: low + (open.gt === low ? step : 0), max: high - (open.lt === high ? step : 0), step };
  }
  if (low === 0 && value > 0) return { log: true, min: rounded(value / 30), max: rounded(value * 30), step: 0.005 };
  if (low !== null) return spread(low + (open.gt === low ? 0.01 : 0), low + 4 * Math.max(Math.abs(value - low), 0.25));
  if (high !== null) return spread(high - 4 * Math.max(Math.abs(high - value), 0.25), high);
  if (value === 0) return spread(-3, 3);
  const sides = [rounded(value / 30), rounded(value * 3)]; // no bound is declared: the sign of the value is left to the text beside it
  return spread(Math.min(...sides), Math.max(...sides));
}

function spread(min, max) {
  return { log: false, min, max, step: (max - min) / 400 };
}

function rounded(value) {
  return Number(value.toPrecision(1));
}

/** Fields a grid can have now: those that hold one number. */
export function gridFields(family, scenario) {
  const fields = openFields(family, scenario).map(({ field }) => field)
    .filter((field) => isNumeric(field) && (typeof valueAt(scenario, field.name) === "number" || valueAt(scenario, field.name) === "inf"));
  return fields;
}

/** A range of a field to draw a curve over. */
export function gridRange(field, value, num) {
  const { low, high } = ends(field);
  if (field.type === "whole number") {
    const least = low ?? 0;
    const most = Math.min(high ?? Infinity, Math.max(least + 9, 2 * (typeof value === "number" ? value : least)));
    return Array.from({ length: Math.min(most - least + 1, 40) }, (_, i) => least + i);
  }
  if (low !== null && high !== null) {
    const margin = (high - low) / 100;
    return { start: low + (field.bounds.gt === low ? margin : 0), stop: high - (field.bounds.lt === high ? margin : 0), num };
  }
  const v = typeof value === "number" && value !== 0 ? value : 1;
  if (low === 0 && v > 0) return { start: rounded(v / 8), stop: Number((2.5 * v).toPrecision(2)), num };
  if (low !== null) return { start: low, stop: low + 2 * Math.max(Math.abs(v - low), 1), num };
  return { start: -2 * Math.abs(v), stop: 2 * Math.abs(v), num };
}

/** Whether a dimension is what a variable runs along before any other: a spectrum or a trajectory. */
export function isMainAxis(question, dim) {
  return ["spectrum", "trajectory"].includes(question.dimensions[dim]?.role);
}

/** Own dimensions of a variable that are an axis of numbers: those it runs along, and those a setting gives the values of. */
export function ownAxis(question, variable) {
  const settings = question.settings;
  return variable.dims.find((dim) => isMainAxis(question, dim) || dim in settings) ?? null;
}

/** Variables a question shows first. */
export function firstVariables(question) {
  const known = question.variables.map((variable) => variable.name);
  const wanted = question.plot.filter((name) => known.includes(name)).slice(0, 2);
  const chosen = wanted.length ? wanted : known.slice(0, 1);
  const answered = question.variables.filter((variable) => variable.engines.includes("limit")).map((variable) => variable.name);
  if (!answered.length || chosen.some((name) => answered.includes(name))) return chosen;
  return [chosen[0], answered[0]]; // something to see before the experiment is run
}

/** The study a question of a family starts with. */
export function firstStudy(family, what) {
  const { family: name, ...fields } = family.examples?.[what] ?? family.example;
  const study = { scenario: { family: family.family, ...fields }, what };
  return withAxes(family, study);
}

/** Give a study without a grid the axis its question needs, and the settings it cannot do without. */
export function withAxes(family, study) {
  const question = family.questions[study.what];
  const first = question.variables.find((variable) => variable.name === firstVariables(question)[0]);
  const result = { ...study };
  const needed = Object.entries(question.settings).filter(([, setting]) => setting.example !== undefined);
  if (needed.length) result.settings = { ...Object.fromEntries(needed.map(([key, setting]) => [key, setting.example])), ...study.settings };
  if (Object.keys(study.grid ?? {}).length || ownAxis(question, first)) return result;
  const fields = gridFields(family, study.scenario);
  const field = fields.find((field) => family.shared_fields.includes(field.name)) ?? fields[0];
  if (field) result.grid = { [field.name]: gridRange(field, valueAt(study.scenario, field.name), 100) };
  return result;
}

/** The symbol of a field or variable in a notation. */
export function symbolOf(family, notation, name, ours) {
  return family.notation?.[notation]?.[name] ?? ours;
}

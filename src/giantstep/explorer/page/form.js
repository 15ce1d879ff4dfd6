// The controls, made from the description of a family: a slider for a number, a list for a choice, text for the rest.

import { BOUNDS } from "./bounds.js";
import { element, unfold } from "./elements.js";
import { parsed, wholeField } from "./fields.js";
import { called } from "./layout.js";
import { chosen, fieldGroups, gridFields, gridRange, isList, isNumeric, isTable, ofAllEntries, openFields, sliderRange, startOf, symbolOf, valueAt, withValue } from "./schema.js";
import { greek, lastName, pretty, short, words } from "./symbols.js";

const FINITE = 10; // what a field starts with that was infinite
const NAMES = ["relu", "erf", "tanh", "sin(z)", "z", "h2(z)", "z + h2(z)", "sign(z)", "softplus(z)"];

/** Build all controls of the state that `live()` gives; `change(state, rebuild)` is called with every new one. */
export function buildForm(root, { family, live, change, wrong }) {
  const focused = document.activeElement?.id;
  const open = new Set([...root.querySelectorAll("details[open]")].map((fold) => fold.id));
  const form = new Form(family, live, change, wrong);
  root.replaceChildren(form.main(), form.axes(), form.shown(), ...form.themes(), form.experiment(), form.more());
  for (const fold of root.querySelectorAll("details")) fold.open = open.has(fold.id);
  if (focused && root.querySelector(`#${CSS.escape(focused)}`)) document.getElementById(focused).focus();
}

/** Show what the server says about a field beside it; return whether there is such a field. */
export function showWrong(root, name, sentence) {
  for (const old of root.querySelectorAll(".wrong:not(.own)")) old.remove();
  for (const old of root.querySelectorAll("[aria-invalid]:not([data-own])")) old.removeAttribute("aria-invalid");
  if (!name) return false;
  const input = root.querySelector(`[data-field="${CSS.escape(name)}"], [data-field="${CSS.escape(`${name}.start`)}"]`);
  if (!input) return false;
  input.setAttribute("aria-invalid", "true");
  unfold(input);
  input.closest(".field")?.append(element("p", { class: "wrong" }, sentence));
  return true;
}

class Form {
  constructor(family, live, change, wrong) {
    Object.assign(this, { family, live, change, wrong });
    this.question = family.questions[live().study.what];
  }

  get state() {
    return this.live();
  }

  get study() {
    return this.state.study;
  }

  set(changes, rebuild = false) {
    this.change({ ...this.state, ...changes }, rebuild);
  }

  setStudy(changes, rebuild = false) {
    this.set({ study: { ...this.study, ...changes } }, rebuild);
  }

  setField(name, value, rebuild = false) {
    this.setStudy({ scenario: withValue(this.study.scenario, name, value) }, rebuild);
  }

  setTable(table, name, value, rebuild = false) {
    const copy = { ...this.study[table] };
    if (value === undefined || value === null || value === "") delete copy[name];
    else copy[name] = value;
    this.setStudy({ [table]: copy }, rebuild);
  }

  // -- fields of the scenario ---------------------------------------------------------------------------------

  /** The fields that matter most, as the family says. */
  main() {
    const section = element("fieldset", { class: "main-fields" }, element("legend", {}, "Scenario"));
    section.append(...this.fieldsOf(this.groups()[0].names));
    return section;
  }

  /** The other fields, folded away by theme. */
  themes() {
    return this.groups().slice(1).map(({ title, names }) =>
      element("details", { id: `theme-${title.toLowerCase().replace(/\W+/g, "-")}` }, element("summary", {}, title), ...this.fieldsOf(names)));
  }

  groups() {
    return fieldGroups(this.family);
  }

  fieldsOf(names) {
    const open = openFields(this.family, this.study.scenario);
    return names.flatMap((name) => open.filter(({ field }) => field.name.split(".")[0] === name).map(({ field, depth }) => this.field(field, depth)));
  }

  field(field, depth) {
    const value = valueAt(this.study.scenario, field.name) ?? field.default ?? null;
    const id = `f-${field.name}`;
    const box = element("div", { class: depth ? "field inner" : "field" });
    const symbol = symbolOf(this.family, this.state.notation, field.name, field.symbol);
    const label = element("label", { for: id }, words(lastName(field.name)));
    box.append(element("div", { class: "head" }, label, element("i", { html: pretty(symbol) })));
    if ([field.name, ofAllEntries(field.name)].some((name) => name in this.study.grid)) {
      box.append(element("p", { class: "help", id }, "varies: see Axes below"));
      return box;
    }
    box.append(this.control(field, value, id), element("p", { class: "help", id: `${id}-help` }, greek(field.meaning)));
    return box;
  }

  control(field, value, id) {
    const common = { id, "data-field": field.name, "aria-describedby": `${id}-help` };
    if (isList(field)) return this.list(field, value ?? [], common);
    if (field.choices) return this.choice(field, value, common);
    if (field.values) {
      const list = element("select", { ...common, onchange: () => this.setField(field.name, field.values[list.selectedIndex], true) });
      for (const choice of field.values) list.append(element("option", { selected: choice === value }, String(choice)));
      return list;
    }
    if (isNumeric(field) && (typeof value === "number" || value === "inf")) return this.number(field, value, common);
    return this.text(field, value, common);
  }

  choice(field, value, common) {
    const now = chosen(field, value);
    const list = element("select", { ...common, onchange: () => this.setField(field.name, startOf(field.choices[list.selectedIndex]), true) });
    for (const choice of field.choices) {
      list.append(element("option", { selected: choice === now, title: choice.meaning }, String(choice.value ?? choice.kind ?? words(choice.name))));
    }
    return list;
  }

  /** How many entries a list of parts has; a new one is like the last, as it is when asked for. */
  list(field, value, common) {
    const now = () => valueAt(this.study.scenario, field.name) ?? value;
    const set = (entries) => this.setField(field.name, entries, true);
    const more = element("button", { ...common, type: "button", onclick: () => set([...now(), now().at(-1) ?? startOf(field.choices[0])]) }, "add one");
    const fewer = element("button", { type: "button", disabled: !value.length, onclick: () => set(now().slice(0, -1)) }, "remove the last");
    return element("div", { class: "row" }, element("output", { for: common.id }, String(value.length)), more, fewer);
  }

  number(declared, value, common) {
    const isWhole = declared.type === "whole number" || this.family.page?.whole?.includes(declared.name);
    const field = isWhole ? { ...declared, type: "whole number" } : declared;
    const id = common.id;
    const number = element("input", { ...common, class: "number", type: "text", inputmode: "decimal", value: value === "inf" ? "∞" : short(value, 6) });
    const row = element("div", { class: "row" });
    let range = sliderRange(field, value === "inf" ? FINITE : value);
    const slider = element("input", { type: "range", id: `${id}-slider`, "aria-label": `${words(field.name)}, slider` });
    const moveSlider = () => {
      slider.min = range.log ? Math.log10(range.min) : range.min;
      slider.max = range.log ? Math.log10(range.max) : range.max;
      slider.step = range.step;
      const now = typeof value === "number" ? value : range.max;
      slider.value = range.log ? Math.log10(now) : now;
      slider.setAttribute("aria-valuetext", short(value));
      slider.disabled = value === "inf";
    };
    const take = (next, from) => {
      value = next;
      if (from !== slider && typeof value === "number" && (value < range.min || value > range.max)) range = sliderRange(field, value);
      if (from !== slider) moveSlider();
      if (from !== number) number.value = value === "inf" ? "∞" : short(value, 6);
      slider.setAttribute("aria-valuetext", short(value));
      this.setField(field.name, value);
    };
    slider.addEventListener("input", () => {
      const raw = Number(slider.value);
      const next = range.log ? Number((10 ** raw).toPrecision(3)) : Number(raw.toPrecision(6));
      take(isWhole ? Math.round(next) : next, slider);
    });
    number.addEventListener("change", () => {
      const next = parsed(number.value);
      if (typeof next === "number" || next === "inf") take(next, number);
      else if (Array.isArray(next) && field.type.includes("list")) this.setField(field.name, next, true);
      else this.wrong(field.name, `Field \`${field.name}\` must be ${field.allowed}.`);
    });
    moveSlider();
    row.append(slider, number);
    if (field.infinite) {
      const tick = element("input", { type: "checkbox", id: `${id}-inf`, checked: value === "inf" });
      let before = typeof value === "number" ? value : FINITE;
      tick.addEventListener("change", () => {
        if (typeof value === "number") before = value;
        take(tick.checked ? "inf" : before, tick);
      });
      row.append(element("label", { class: "tick" }, tick, "∞"));
    }
    return row;
  }

  text(field, value, common) {
    if (isTable(value) && value.npz) {
      const size = (value.shape ?? []).join(" × ");
      return element("input", { ...common, class: "wide", type: "text", disabled: true, value: `array of the preset, ${size}` });
    }
    const shown = typeof value === "string" ? value : value === null || value === undefined ? "" : written(value);
    const input = element("input", { ...common, class: "wide", type: "text", value: shown, spellcheck: "false", list: field.type === "function" ? "names" : null });
    const take = () => {
      const raw = input.value.trim();
      const isText = field.type === "function" || field.type === "text" || field.type === "name";
      this.setField(field.name, raw === "" ? undefined : isText ? raw : parsed(raw) ?? raw, !isText);
    };
    input.addEventListener("change", take);
    const row = element("div", { class: "row" }, input);
    if (field.type === "function") row.append(element("datalist", { id: "names" }, ...NAMES.map((name) => element("option", { value: name }))));
    return row;
  }

  // -- axes -----------------------------------------------------------------------------------------------------

  axes() {
    const section = element("fieldset", {}, element("legend", {}, "Axes"));
    const names = Object.keys(this.study.grid);
    section.append(this.axis(0, names[0], "Field that varies"), this.axis(1, names[1], "Second field that varies"));
    for (let extra = 2; extra < names.length; extra += 1) section.append(this.axis(extra, names[extra], "Another field"));
    const logs = element("div", { class: "row" });
    for (const side of ["x", "y"]) {
      const tick = element("input", { type: "checkbox", id: `log-${side}`, checked: this.state.log.includes(side) });
      tick.addEventListener("change", () => {
        const on = (name) => (name === side ? tick.checked : this.state.log.includes(name));
        this.set({ log: (on("x") ? "x" : "") + (on("y") ? "y" : "") });
      });
      logs.append(element("label", { class: "tick" }, tick, `log ${side === "x" ? "horizontal" : "vertical"} axis`));
    }
    section.append(logs);
    return section;
  }

  axis(number, name, title) {
    const fields = gridFields(this.family, this.study.scenario);
    const id = `axis-${number}`;
    const list = element("select", { id, onchange: () => this.setAxis(number, list.value) }, element("option", { value: "" }, "none"));
    const listed = fields.map((field) => field.name);
    if (name && !listed.includes(name)) list.append(element("option", { value: name, selected: true }, words(name)));
    for (const field of fields) {
      if (field.name === name || !(field.name in this.study.grid)) {
        list.append(element("option", { value: field.name, selected: field.name === name }, words(field.name)));
      }
    }
    const box = element("div", { class: "field" }, element("div", { class: "head" }, element("label", { for: id }, title)), list);
    if (name) box.append(this.range(number, name));
    return box;
  }

  setAxis(number, name) {
    const entries = Object.entries(this.study.grid);
    const field = gridFields(this.family, this.study.scenario).find((field) => field.name === name);
    const value = field && gridRange(field, valueAt(this.study.scenario, name), number ? 40 : 100);
    if (field) entries[Math.min(number, entries.length)] = [name, value];
    else entries.splice(number, 1);
    const grid = Object.fromEntries(entries.filter(Boolean));
    const two = Object.values(grid).filter((values) => (isTable(values) ? values.num : values.length) > 8).length > 1;
    if (two) for (const key of Object.keys(grid)) if (isTable(grid[key]) && grid[key].num > 40) grid[key] = { ...grid[key], num: 40 };
    this.setStudy({ grid }, true);
  }

  range(number, name) {
    const value = this.study.grid[name];
    const setValue = (next, rebuild) => this.setStudy({ grid: { ...this.study.grid, [name]: next } }, rebuild);
    const row = element("div", { class: "row" });
    if (!isTable(value)) {
      const input = element("input", { class: "wide", id: `axis-${number}-list`, "data-field": name, "aria-label": `values of ${words(name)}`, value: written(value) });
      input.addEventListener("change", () => setValue([parsed(input.value) ?? input.value].flat(), true));
      const field = gridFields(this.family, this.study.scenario).find((field) => field.name === name);
      const numbers = Array.isArray(value) && value.every((entry) => typeof entry === "number") && value.length > 1;
      row.append(input);
      if (numbers && field?.type !== "whole number") {
        row.append(element("button", { type: "button", onclick: () => setValue({ start: Math.min(...value), stop: Math.max(...value), num: 60 }, true) }, "range"));
      }
      return row;
    }
    for (const [key, title] of [["start", "from"], ["stop", "to"], ["num", "points"]]) {
      const input = element("input", { class: "short", id: `axis-${number}-${key}`, "data-field": `${name}.${key}`, "aria-label": `${words(name)}: ${title}`, title, inputmode: "decimal", value: short(value[key], 6) });
      input.addEventListener("change", () => setValue({ ...this.study.grid[name], [key]: parsed(input.value) ?? input.value }, false));
      row.append(input);
    }
    const scale = element("select", { class: "short", id: `axis-${number}-scale`, "aria-label": `spacing of ${words(name)}` });
    for (const spacing of ["linear", "log"]) scale.append(element("option", { value: spacing, selected: (value.scale ?? "linear") === spacing }, spacing));
    scale.addEventListener("change", () => {
      const { scale: _, ...rest } = this.study.grid[name];
      if (scale.value === "log" && !(rest.start > 0)) rest.start = Number((rest.stop / 1000).toPrecision(1));
      setValue(scale.value === "log" ? { ...rest, scale: "log" } : rest, false);
      if (number === 0) this.set({ log: scale.value === "log" ? `x${this.state.log.replace("x", "")}` : this.state.log.replace("x", "") }, true);
    });
    row.append(scale);
    return row;
  }

  // -- what is shown --------------------------------------------------------------------------------------------

  /** A tick for each variable: those a question is about, and those drawn; the others are folded away. */
  shown() {
    const { plot, variables } = this.question;
    const isFirst = ({ name }) => plot.includes(name) || this.state.variables.includes(name);
    const checks = (some) => element("div", { class: "checks" }, ...some.map((variable) => this.tick(variable)));
    const others = variables.filter((variable) => !isFirst(variable));
    const fold = element("details", { id: "more-shown" }, element("summary", {}, `${others.length} more variables`), checks(others));
    return element("fieldset", {}, element("legend", {}, "Shown"), checks(variables.filter(isFirst)), others.length ? fold : null);
  }

  tick(variable) {
    const tick = element("input", { type: "checkbox", id: `v-${variable.name}`, checked: this.state.variables.includes(variable.name) });
    tick.addEventListener("change", () => {
      const wanted = this.question.variables.map(({ name }) => name).filter((name) => (name === variable.name ? tick.checked : this.state.variables.includes(name)));
      if (wanted.length && wanted.length <= 4) this.set({ variables: wanted });
      else tick.checked = !tick.checked;
    });
    return element("label", { title: variable.meaning }, tick, called(variable));
  }

  // -- experiment and settings ----------------------------------------------------------------------------------

  experiment() {
    const section = element("details", { id: "theme-experiment" }, element("summary", {}, "Experiment"));
    const whole = (title, help, value, take, id, least, most) => section.append(wholeField({ id, title, help, value, take, least, most }));
    const set = (name) => (value) => this.setTable("experiment", name, value);
    if (!this.family.fields.some((field) => field.name === "dim")) {
      whole("dimension d", "of the data; larger is slower and nearer the limit", this.study.experiment.dim, set("dim"), "e-dim", 2, BOUNDS.dim);
    }
    whole("trials", "independent repetitions", this.study.experiment.trials, set("trials"), "e-trials", 1, BOUNDS.trials);
    whole("seed", "any whole number from 0 on", this.study.experiment.seed, set("seed"), "e-seed", 0, Number.MAX_SAFE_INTEGER);
    whole("dots", "points of the experiment along each field that varies", this.state.dots, (dots) => this.set({ dots }), "e-dots", 1, BOUNDS.dots);
    whole("budget in seconds", "after it the experiment is stopped, its dots stay", this.state.budget, (budget) => this.set({ budget }), "e-budget", 1, BOUNDS.budget_seconds);
    return section;
  }

  more() {
    const box = element("details", { id: "more" }, element("summary", {}, "Theory and settings"));
    const theories = Object.entries(this.family.theories);
    const add = (id, title, control, help) => box.append(element("div", { class: "field" }, element("div", { class: "head" }, element("label", { for: id }, title)), control, element("p", { class: "help" }, help)));
    if (theories.length > 1) {
      const list = element("select", { id: "s-theory", onchange: () => this.setTable("limit", "theory", list.value, true) }, element("option", { value: "" }, "chosen by the family"));
      for (const [name] of theories) list.append(element("option", { value: name, selected: this.study.limit.theory === name }, name));
      add("s-theory", "theory", list, theories.map(([name, meaning]) => `${name}: ${meaning}`).join("; "));
    }
    if (!this.family.fields.some((field) => field.name === "dim")) {
      const input = element("input", { id: "s-dim", class: "number", value: this.study.limit.dim ?? "", placeholder: "∞" });
      input.addEventListener("change", () => this.setTable("limit", "dim", parsed(input.value)));
      add("s-dim", "finite-size correction at d", input, "adds the leading correction to the curve, where it is known; empty: the limit");
    }
    for (const [name, setting] of Object.entries(this.question.settings)) add(`s-${name}`, words(name), this.setting(name, setting), setting.meaning);
    return box;
  }

  setting(name, setting) {
    const id = `s-${name}`;
    const value = this.study.settings[name] ?? setting.default;
    if (setting.choices || typeof setting.default === "boolean") {
      const options = setting.choices ?? [true, false];
      const list = element("select", { id, "data-field": name, onchange: () => this.setTable("settings", name, options[list.selectedIndex]) });
      for (const option of options) list.append(element("option", { selected: option === value }, String(option)));
      return list;
    }
    const input = element("input", { id, "data-field": name, class: "wide", value: value === null ? "" : written(value), placeholder: "chosen" });
    input.addEventListener("change", () => this.setTable("settings", name, input.value.trim() === "" ? undefined : parsed(input.value) ?? input.value));
    return element("div", { class: "row" }, input);
  }
}

function written(value) {
  if (Array.isArray(value)) return value.some(Array.isArray) ? JSON.stringify(value) : value.map((entry) => (typeof entry === "number" ? Number(entry.toPrecision(6)) : entry)).join(", ");
  return String(value);
}

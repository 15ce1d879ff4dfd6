// Results as panels: the lines, dots, maps and names of a figure, whatever draws them.

import { short, words } from "./text.js";
import { along, finite, length, values } from "./views.js";

const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5A5A5A", "#8C6D1F"];
const DARK_PALETTE = ["#56B4E9", "#FF8C42", "#2CC79B", "#E39BC4", "#F0C040", "#7FB2FF", "#C4CAD0", "#C7A758"];
const VIRIDIS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
const DASHES = [[], [9, 6], [3, 4], [12, 4, 3, 4]];
const OVER = [[], [10, 10], [5, 15], [3, 17]]; // of lines that lie on each other: what is below shows between the dashes
const MARKERS = ["circle", "square", "diamond", "triangle"];
const MOST_LINES = 24;
const FEW_POINTS = 12; // up to so many a line shows where it was computed
const [THIN, LINE, BOLD] = [1, 2, 3];
const JUMP = 0.1; // of the range of a line: a step larger than this, and thrice those beside it, is a jump
const SAME = 0.004; // of the largest value: lines nearer than this cannot be told apart by the eye

export const swatch = (slot, dark) => (dark ? DARK_PALETTE : PALETTE)[slot % PALETTE.length];

/** The panels of a figure, one for each variable, of `question`, `state`, `dark`, `shade` and `curves`, which hold `result`, `dots`, `label`, `slot`, `about`. */
export function figure(given) {
  const { state } = given;
  const panels = state.variables.map((name) => panelOf(given, name));
  return { panels, summary: panels.map((panel) => panel.summary).join(". ") };
}

function panelOf(given, name) {
  const { state, curves, question } = given;
  const has = (data) => Boolean(data && name in data.dims);
  const usable = curves.filter(({ result, dots }) => has(result) || has(dots));
  const head = usable.length ? (has(usable[0].result) ? usable[0].result : usable[0].dots) : null;
  const view = head?.layout.views[name] ?? { kind: "number" };
  const { titles: [title, ofClasses], meaning } = question.variables.find((variable) => variable.name === name);
  const panel = { name, meaning, title: usable[0]?.about?.classes ? (ofClasses ?? title) : title, kind: "lines", series: [], scores: [], marks: [], bands: [], areas: [] };
  if (view.kind === "number") return asText(panel, usable, name);
  panel.x = { label: head.layout.axes[view.x].label, log: state.log.includes("x") };
  panel.y = { log: state.log.includes("y") };
  const optimum = curves[0]?.optimum;
  if (view.kind === "map") return asMap(panel, given, head, view, optimum);
  for (const curve of usable) addCurve(panel, given, curve, view, usable.length > 1);
  if (!panel.series.length) return asNothing(panel, question);
  tellApart(panel.series.filter((series) => series.kind === "line" && !series.isTheory));
  for (const line of panel.series) if (line.kind === "line" && !line.points) line.jumps = jumpsOf(line.y);
  const names = panel.series.find((series) => series.x.some((value) => typeof value !== "number"))?.x;
  if (names) inPlaces(panel, names);
  panel.x.whole = panel.series.length > 0 && panel.series.every((series) => series.x.every(Number.isInteger));
  if (optimum?.variable === name && optimum.fields[view.x]) panel.marks = optimum.fields[view.x].map((x, i) => ({ x, y: optimum.values[i] }));
  if (given.shade) panel.bands = shaded(panel.series, given.shade);
  panel.summary = summaryOf(name, view, panel.series[0]);
  return panel;
}

function asText(panel, usable, name) {
  const shown = usable.map(({ result, dots, label }) => ({ label, value: short((result && name in result.dims ? result : dots)[name], 6) }));
  const text = shown.length ? shown : [{ label: "", value: "the experiment answers this: run it" }];
  return { ...panel, kind: "text", text, summary: `${words(name)}: ${text.map(({ value }) => value).join("; ")}` };
}

/** A panel without a single number says so, and why where that is declared. */
function asNothing(panel, question) {
  const { absent } = question.variables.find((variable) => variable.name === panel.name);
  const value = absent || "no finite value here";
  return { ...panel, kind: "text", text: [{ label: "", value }], summary: `${words(panel.name)}: ${value}` };
}

function asMap(panel, { state }, result, view, optimum) {
  const fixed = Object.fromEntries(view.others.map((dim) => [dim, Math.min(state.slices?.[dim] ?? 0, length(result, dim) - 1)]));
  const source = result.dims[panel.name].includes("source") ? { source: result.source.indexOf("experiment") } : {};
  const rows = values(result, view.y).map((_, j) => along(result, panel.name, view.x, { ...fixed, ...source, [view.y]: j }));
  const isName = (value) => typeof value === "string" && value !== "inf" && value !== "-inf";
  const names = rows.flat().some(isName) ? [...new Set(rows.flat())].sort() : null;
  const z = rows.map((row) => row.map((value) => (names ? names.indexOf(value) : finite(value))));
  const map = { x: values(result, view.x), y: values(result, view.y), z, names, colours: names ? PALETTE : VIRIDIS };
  const marks = optimum?.variable === panel.name && optimum.fields[view.x] ? optimum.fields[view.x].map((x, i) => ({ x, y: optimum.fields[view.y]?.[i] })) : [];
  const isLog = (dim, side) => state.log.includes(side) || state.study.grid[dim]?.scale === "log";
  const axes = { x: { ...panel.x, log: isLog(view.x, "x") }, y: { label: result.layout.axes[view.y].label, log: isLog(view.y, "y") } };
  return { ...panel, kind: "map", map, marks, ...axes, summary: `${words(panel.name)}: map over ${words(view.x)} and ${words(view.y)}` };
}

/** The lines of one curve, its dots, the theory they were compared with, and their z-scores. */
function addCurve(panel, given, { result, dots, theory, label, slot, about }, view, several) {
  const { state, dark } = given;
  const base = result && panel.name in result.dims ? result : dots;
  const own = base.layout.views[panel.name];
  if (own.x !== view.x) return;
  const { time } = base.layout;
  const isPicked = ({ at }) => state.time === undefined || !(time in at) || at[time] === Math.min(state.time, length(base, time) - 1);
  const all = own.lines.filter(isPicked);
  const few = all.filter((_, i) => i % Math.ceil(all.length / MOST_LINES) === 0);
  const isOrdered = !several && own.others.length === 1 && (base.dims.converged ?? []).includes(own.others[0]) && few.length > 3;
  few.forEach(({ at: index, label: whole, rest }, number) => {
    const place = several ? slot : number;
    const colour = isOrdered ? VIRIDIS[Math.round((number * (VIRIDIS.length - 2)) / (few.length - 1))] : swatch(place, dark);
    const what = [label, state.time === undefined ? whole : rest].filter(Boolean).join("; ");
    const key = `${slot}-${number}`;
    const line = base === result ? { x: values(result, own.x), y: along(result, panel.name, own.x, index).map(finite) } : { x: [], y: [] };
    const known = line.y.filter((value) => value !== null).length;
    const series = {
      kind: "line", key, ...line, label: what || (about?.called ?? "limit"), colour, width: LINE, isFaint: about?.stage === "coarse", points: known <= FEW_POINTS,
      dash: several && few.length > 1 ? DASHES[number % DASHES.length] : !several && number >= PALETTE.length && !isOrdered ? DASHES[1] : [],
      fill: own.kind === "spectrum" && few.length === 1 && !several && /dens/.test(panel.name) ? `${colour}22` : undefined,
    };
    if (known) panel.series.push(series);
    if (dots && panel.name in dots.dims) addDots(panel, { dots, theory, series, what, x: own.x, index, marker: MARKERS[place % MARKERS.length] });
  });
}

function addDots(panel, { dots, theory: smooth, series, what, x, index, marker }) {
  const { name } = panel;
  const layer = (source) => (dots.dims[name].includes("source") ? { ...index, source: dots.source.indexOf(source) } : index);
  const xs = values(dots, x);
  const read = (variable, at) => along(dots, variable, x, at).map(finite);
  const y = read(name, layer("experiment"));
  if (y.every((value) => value === null)) return;
  const compared = dots.source?.includes("theory") ? "theory" : dots.source?.includes("limit") ? "limit" : null;
  const theory = compared && dots.dims[name].includes("source") ? read(name, layer(compared)) : null;
  if (compared === "limit" && series.y.length) series.width = BOLD; // the curve itself is what its dots are held to
  const bold = theory && !(compared === "limit" && series.y.length) && (smooth ? { x: values(smooth, x), y: along(smooth, name, x, index).map(finite) } : { x: xs, y: theory });
  if (bold && isOn(bold, series)) series.width = BOLD;
  else if (bold) {
    const called = dots.called ?? "theory";
    series.width = THIN; // the theory at the experiment's dimension is what its dots are held to
    panel.series.push({ kind: "line", key: `${series.key} theory`, label: what ? `${what}, ${called}` : called, ...bold, colour: series.colour, width: BOLD, dash: [], isTheory: true });
  }
  const errors = `${name}_stderr` in dots.dims ? read(`${name}_stderr`, layer("experiment")) : null;
  panel.series.push({ kind: "dots", key: `${series.key} dots`, label: what ? `${what}, experiment` : "experiment ± 1 s.e.", x: xs, y, errors, colour: series.colour, marker });
  if (`${name}_z` in dots.dims) panel.scores.push({ kind: "dots", key: series.key, x: xs, y: read(`${name}_z`, index), colour: series.colour, marker });
}

/** Whether a line lies on another one, at points of that. */
function isOn({ x, y }, line) {
  const size = Math.max(...y.map((value) => Math.abs(value ?? 0)));
  const known = new Map(line.x.map((at, i) => [at, line.y[i]]));
  return y.every((value, i) => value === null || Math.abs(value - (known.get(x[i]) ?? Infinity)) <= 1e-9 * size);
}

/** Dashes for lines that lie on an earlier one over two points or more; where lines only cross, each is seen anyway. */
function tellApart(lines) {
  const size = lines.flatMap((line) => line.y).reduce((largest, value) => Math.max(largest, Math.abs(value ?? 0)), 0);
  const same = (a, b, i) => a.y[i] !== null && a.x[i] === b.x[i] && typeof b.y[i] === "number" && Math.abs(a.y[i] - b.y[i]) <= SAME * size;
  const meet = (a, b) => a.y.filter((_, i) => i > 0 && same(a, b, i) && same(a, b, i - 1)).length > 1;
  lines.forEach((line, i) => {
    const below = lines.slice(0, i).filter((other) => meet(line, other)).length;
    if (below) line.dash = OVER[Math.min(below, OVER.length - 1)];
  });
}

/** After which points a curve jumps: between two points where it is known on both sides. */
function jumpsOf(y) {
  const known = y.filter((value) => value !== null);
  const size = Math.max(...known) - Math.min(...known);
  const step = (i) => (typeof y[i] === "number" && typeof y[i + 1] === "number" ? Math.abs(y[i + 1] - y[i]) : Infinity);
  return [...y.keys()].filter((i) => step(i) > JUMP * size && step(i) > 3 * Math.max(step(i - 1), step(i + 1)));
}

/** Names along an axis are places 0, 1, 2 ... with ticks that say them. */
function inPlaces(panel, names) {
  panel.x.names = names.map(String);
  for (const series of [...panel.series, ...panel.scores]) Object.assign(series, { x: series.x.map((name) => panel.x.names.indexOf(String(name))), points: true });
  panel.x.log = false;
}

/** Where one line lies above another: the part of the axis that a story speaks of. */
function shaded(series, { above, below, label, gap = 0.02 }) {
  const [high, low] = [above, below].map((name) => series.find((one) => one.label.endsWith(name)));
  if (!high || !low) return [];
  const inside = [...high.x.keys()].filter((i) => high.y[i] - low.y[i] > gap);
  const between = (i, j) => (high.x[i] + (high.x[j] ?? high.x[i])) / 2; // lines that jump do so halfway
  return inside.length ? [{ from: between(inside[0], inside[0] - 1), to: between(inside.at(-1), inside.at(-1) + 1), label }] : [];
}

function summaryOf(name, view, series) {
  const range = series?.y.filter((value) => value !== null) ?? [];
  if (!range.length) return `${words(name)}: nothing`;
  return `${words(name)} over ${words(view.x)} from ${short(series.x[0])} to ${short(series.x.at(-1))}: from ${short(range[0])} to ${short(range.at(-1))}, lowest ${short(Math.min(...range))}`;
}

/** Dimensions of the maps shown that are neither of their axes, with their labels. */
export function slicesOf({ variables }, result) {
  const maps = variables.map((name) => result?.layout.views[name]).filter((view) => view?.kind === "map");
  return maps.flatMap((view) => view.others).map((dim) => [dim, values(result, dim)]);
}

/** The numbers of a figure as rows below a header, at most so many; `left` says how many more there are. */
export function tableOf(panels, most = 300) {
  const rows = panels.flatMap(({ name, kind, text, series, scores, x }) => {
    if (kind === "text") return text.map(({ label, value }) => [name, label, "", value, "", ""]);
    const at = (one, i) => (x.names ? x.names[one.x[i]] : short(one.x[i]));
    const score = (one, i) => (one.kind === "dots" ? scores.find((other) => `${other.key} dots` === one.key)?.y[i] : undefined);
    return series.flatMap((one) => one.y.map((value, i) => [name, one.label, at(one, i), short(value, 8), one.errors ? short(one.errors[i], 2) : "", score(one, i) === undefined ? "" : short(score(one, i), 3)]));
  });
  return { head: ["variable", "curve", "at", "value", "standard error", "z"], rows: rows.slice(0, most), left: Math.max(0, rows.length - most) };
}

// A result as a figure: which view it is follows from the dimensions of the variables alone.

import { fieldNamed, isMainAxis, symbolOf } from "./schema.js";
import { escaped, greek, pretty, short, words } from "./symbols.js";
import { steady, widthsOf, wholeTicks } from "./axes.js";
import { theoryLine } from "./finite.js";

const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#5A5A5A", "#8C6D1F"];
const DARK_PALETTE = ["#56B4E9", "#FF8C42", "#2CC79B", "#E39BC4", "#F0C040", "#7FB2FF", "#C4CAD0", "#C7A758"];
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const MARKERS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x"];
const VIRIDIS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39"];
const FEW = 8;
const MOST_LINES = 24;
const THIN = 0.9; // width of the bare limit beside the theory at the experiment's dimension
const SHORT = 12; // letters of a name of which two fit beside each other on a phone

/** Dimensions of a variable without `source`, and which of them is horizontal. */
export function layoutOf(result, name, question) {
  const dims = (result.dims[name] ?? []).filter((dim) => dim !== "source" && length(result, dim) > 0);
  const grid = (result.dims.converged ?? []).filter((dim) => dim !== "source");
  const variable = question.variables.find((variable) => variable.name === name);
  const own = dims.filter((dim) => !grid.includes(dim));
  const numeric = grid.filter((dim) => isNumbers(values(result, dim)) && length(result, dim) > 1);
  const isSpectrum = (dim) => question.dimensions[dim]?.role === "spectrum";
  const isAsked = (dim) => dim in question.settings && length(result, dim) > 1;
  const isAskedPlace = (dim) => isAsked(dim) && !isMainAxis(question, dim); // a place along which all times are curves
  const isTrajectory = (dim) => isMainAxis(question, dim) && (length(result, dim) > FEW || !numeric.some((name) => length(result, name) > FEW)); // a few times along a long field are curves
  const axis = own.find(isSpectrum) ?? own.find(isAskedPlace) ?? own.find(isTrajectory) ?? own.find(isAsked);
  if (!axis && numeric.length === 2 && numeric.every((dim) => length(result, dim) > FEW)) {
    return { kind: "map", x: numeric[0], y: numeric[1], others: dims.filter((dim) => !numeric.includes(dim)), variable };
  }
  const longest = [...numeric].sort((a, b) => length(result, b) - length(result, a))[0];
  const rest = own.filter((dim) => length(result, dim) > 1).sort((a, b) => length(result, b) - length(result, a))[0];
  const names = grid.find((dim) => length(result, dim) > 1);
  const x = axis ?? longest ?? names ?? rest ?? null;
  const kind = x === null ? "number" : isMainAxis(question, x) ? question.dimensions[x].role : "curve";
  return { kind, x, others: dims.filter((dim) => dim !== x), variable };
}

function length(result, dim) {
  for (const [name, dims] of Object.entries(result.dims)) {
    const index = dims.indexOf(dim);
    if (index < 0) continue;
    let inner = result[name];
    for (let depth = 0; depth < index; depth += 1) inner = inner?.[0];
    return Array.isArray(inner) ? inner.length : 0;
  }
  return 0;
}

function isNumbers(list) {
  return list.every((value) => typeof value === "number");
}

/** Values along a dimension: its coordinate, one that lies along it, or a count. */
export function values(result, dim) {
  if (result.coords.includes(dim)) return result[dim];
  const along = result.coords.find((name) => result.dims[name].length === 1 && result.dims[name][0] === dim);
  return along ? result[along] : Array.from({ length: length(result, dim) }, (_, i) => i + 1);
}

/** The values of a variable along one dimension at fixed places of the others. */
export function along(result, name, dim, fixed) {
  const dims = result.dims[name];
  const walk = (inner, depth) => {
    if (depth === dims.length) return inner;
    if (dims[depth] === dim) return inner.map((value) => walk(value, depth + 1));
    return walk(inner[fixed[dims[depth]] ?? 0], depth + 1);
  };
  const line = walk(result[name], 0);
  return dims.includes(dim) ? line : values(result, dim).map(() => line);
}

function allIndices(result, dims) {
  let all = [{}];
  for (const dim of dims) all = all.flatMap((index) => Array.from({ length: length(result, dim) }, (_, i) => ({ ...index, [dim]: i })));
  return all;
}

function finite(value) {
  return typeof value === "number" ? value : null;
}

/** Everything Plotly needs, and the text a screen reader gets; with `listed`, long names are given for a list instead. */
export function figure({ family, state, curves, dark, narrow, listed }) {
  const colours = dark ? DARK_PALETTE : PALETTE;
  const ink = dark ? "#e8eaed" : "#1b1f23";
  const lines = dark ? "#343a41" : "#e3e6e9";
  const traces = [];
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 13, family: "system-ui, Noto Sans, DejaVu Sans, sans-serif" },
    margin: { l: 64, r: 14, t: 26, b: 8 }, hovermode: "closest", modebar: { bgcolor: "rgba(0,0,0,0)", color: dark ? "#7d8790" : "#a0a8b0", activecolor: ink }, annotations: [], shapes: [],
    legend: { orientation: "h", y: -0.02, yref: "container", yanchor: "bottom", x: 0, font: { size: 12 }, itemsizing: "constant" },
    uirevision: JSON.stringify([state.study.grid, state.variables, state.log]),
  };
  const question = family.questions[state.study.what];
  const base = { axis: { color: ink, gridcolor: lines, zeroline: false, autorange: true, linecolor: ink, ticks: "outside", ticklen: 4, automargin: true } };
  const columns = narrow ? 1 : Math.min(state.variables.length, 2);
  const rows = Math.ceil(state.variables.length / columns);
  const summary = [];
  const optimum = curves[0]?.optimum;
  const isMap = curves[0]?.result && state.variables.some((name) => name in curves[0].result.dims && layoutOf(curves[0].result, name, question).kind === "map");
  state.variables.forEach((name, panel) => {
    const usable = curves.filter(({ result }) => result && name in result.dims);
    const view = usable.length ? layoutOf(usable[0].result, name, question) : null;
    const column = panel % columns;
    const row = Math.floor(panel / columns);
    const gapX = isMap ? 0.24 : 0.1;
    const gapY = 0.16;
    const wide = (1 - gapX * (columns - 1)) / columns;
    const tall = (1 - gapY * (rows - 1)) / rows;
    const left = column * (wide + gapX);
    const bottom = 1 - row * (tall + gapY) - tall;
    const compared = usable.some(({ dots }) => dots && `${name}_z` in dots.dims) && view?.kind !== "map" && view?.kind !== "number";
    const split = compared ? 0.27 * tall : 0;
    const axis = 2 * panel + 1;
    const tag = (number) => (number === 1 ? "" : String(number));
    const x = `xaxis${tag(axis)}`, y = `yaxis${tag(axis)}`;
    const label = view?.x ? fieldLabel(family, state, view.x) : "";
    layout[x] = { ...base.axis, domain: [left, left + wide], anchor: `y${tag(compared ? axis + 1 : axis)}`, title: { text: label, standoff: 8 }, type: state.log.includes("x") && view?.kind !== "number" ? "log" : "-" };
    layout[y] = { ...base.axis, domain: [bottom + (split ? split + 0.04 * tall : 0), bottom + tall], anchor: `x${tag(axis)}`, type: state.log.includes("y") && view?.kind !== "map" ? "log" : "-", exponentformat: "power" };
    layout.annotations.push({ xref: "paper", yref: "paper", x: left, y: bottom + tall, xanchor: "left", yanchor: "bottom", showarrow: false, align: "left", font: { size: 13 }, text: panelTitle(family, state, view, name, usable[0]?.about?.classes) });
    if (!view || view.kind === "number") {
      const shown = usable.map(({ result, label: title }) => `${title ? `${escaped(title)}: ` : ""}<b>${short(result[name], 6)}</b>`);
      layout[x].visible = layout[y].visible = false;
      const text = view ? shown.join("<br>") : "the experiment answers this: run it";
      layout.annotations.push({ xref: "paper", yref: "paper", x: left + wide / 2, y: bottom + tall / 2, xanchor: "center", yanchor: "middle", showarrow: false, font: { size: 17 }, text });
      summary.push(`${words(name)}: ${view ? usable.map(({ result }) => short(result[name], 6)).join("; ") : "nothing"}`);
      return;
    }
    if (view.kind === "map") {
      traces.push(map(usable[0].result, name, view, `x${tag(axis)}`, `y${tag(axis)}`, state, { left, wide, bottom, tall, columns }));
      if (optimum?.variable === name) traces.push(star(optimum, optimum.fields[view.x], optimum.fields[view.y], `x${tag(axis)}`, `y${tag(axis)}`));
      layout[y].title = { text: fieldLabel(family, state, view.y), standoff: 6 };
      if (state.log.includes("y")) layout[y].type = "log";
      summary.push(`${words(name)}: map over ${words(view.x)} and ${words(view.y)}`);
      return;
    }
    if (optimum?.variable === name) traces.push(star(optimum, optimum.fields[view.x], optimum.values, `x${tag(axis)}`, `y${tag(axis)}`));
    const several = usable.length > 1;
    usable.forEach(({ result, dots, label: title, slot, about }) => {
      const own = layoutOf(result, name, question);
      if (own.x !== view.x) return;
      const all = allIndices(result, own.others);
      const few = all.length <= MOST_LINES ? all : all.filter((_, i) => i % Math.ceil(all.length / MOST_LINES) === 0);
      const lines = few.map((index) => along(result, name, own.x, index).map(finite));
      const widths = widthsOf(lines);
      const ordered = !several && own.others.length === 1 && (result.dims.converged ?? []).includes(own.others[0]) && few.length > 3;
      few.forEach((index, number) => {
        const y = lines[number];
        const dotted = dots && name in dots.dims;
        if (y.every((value) => value === null) && !dotted) return;
        const colour = ordered ? VIRIDIS[Math.round((number * (VIRIDIS.length - 1)) / Math.max(few.length - 1, 1))] : colours[(several ? slot : number) % colours.length];
        const what = [title, labelAt(family, state, result, index, own.others)].filter(Boolean).join("; ");
        const legend = what || (about?.called ?? "limit");
        const group = `${slot}-${number}`;
        const isFirst = panel === 0;
        const xs = values(result, own.x);
        const single = y.filter((value) => value !== null).length < 2 || !isNumbers(xs);
        if (y.some((value) => value !== null)) {
          traces.push({
            type: "scatter", mode: single ? "markers" : "lines", opacity: about?.stage === "coarse" ? 0.5 : 1, x: xs, y, name: legend, legendgroup: group, showlegend: isFirst, xaxis: `x${tag(axis)}`, yaxis: `y${tag(axis)}`,
            line: { color: colour, width: widths[number], simplify: false, dash: several ? DASHES[(few.length > 1 ? number : slot) % DASHES.length] : number < colours.length || ordered ? "solid" : "dash" }, marker: { color: colour, symbol: "line-ew-open", size: 14, line: { width: 3, color: colour } },
            fill: own.kind === "spectrum" && few.length === 1 && usable.length === 1 && y.every((value) => value === null || value >= 0) && /dens/.test(name) ? "tozeroy" : undefined, fillcolor: `${colour}22`,
            hovertemplate: `%{x:.4g}, %{y:.5g}<extra>${escaped(legend)}</extra>`,
          });
        }
        if (dotted) addDots({ traces, dots, limit: { x: xs, y }, name, what, view: own, index, colour, marker: MARKERS[(several ? slot : number) % MARKERS.length], legend, group, isFirst, tag, axis, compared });
      });
      if (all.length > few.length) summary.push(`${few.length} of ${all.length} curves are drawn`);
    });
    steady(layout[y], traces.filter((trace) => trace.yaxis === `y${tag(axis)}`));
    wholeTicks(layout[x], usable.flatMap(({ result }) => (result.dims[name].includes(view.x) ? values(result, view.x) : [])));
    if (compared) zAxis(layout, base, ink, { panel, axis, tag, bottom, split, left, x });
    const head = usable[0].result;
    const range = along(head, name, view.x, {}).filter((value) => typeof value === "number");
    const xs = values(head, view.x);
    summary.push(`${words(name)} over ${words(view.x)} from ${short(xs[0])} to ${short(xs.at(-1))}: from ${short(range[0])} to ${short(range.at(-1))}, lowest ${short(range.length ? Math.min(...range) : null)}`);
  });
  const named = traces.filter((trace) => trace.showlegend);
  const entries = named.length;
  const isShort = named.every((trace) => trace.name.length <= SHORT);
  const list = listed && entries > 1 && !isShort ? named : [];
  layout.showlegend = entries > 1 && !list.length;
  const pairs = narrow && entries > 2 && isShort;
  if (pairs) Object.assign(layout.legend, { entrywidth: 0.45, entrywidthmode: "fraction" });
  layout.margin.b = layout.showlegend ? Math.min(190, 66 + 19 * Math.ceil(entries / (pairs ? 2 : narrow ? 1 : 3))) : 54;
  layout.height = rows * (narrow ? 270 : 400) + layout.margin.b;
  return { traces, layout, summary: summary.join(". "), list };
}

/** Stars at the best points; without a place along the axes shown there is nothing to mark. */
function star(optimum, x, y, xaxis, yaxis) {
  return {
    type: "scatter", mode: "markers", x: x ?? [], y: x && y ? y : [], name: "optimum", showlegend: false, xaxis, yaxis,
    marker: { symbol: "star", size: 15, color: "#E69F00", line: { width: 1.2, color: "#000000" } }, hovertemplate: "optimum: %{x:.5g}, %{y:.5g}<extra></extra>",
  };
}

function addDots({ traces, dots, limit, name, what, view, index, colour, marker, legend, group, isFirst, tag, axis, compared }) {
  const source = dots.dims[name].includes("source") ? { source: dots.source.indexOf("experiment") } : {};
  const at = { ...index, ...source };
  const xs = values(dots, view.x);
  const y = along(dots, name, view.x, at).map(finite);
  if (y.every((value) => value === null)) return;
  const errors = `${name}_stderr` in dots.dims ? along(dots, `${name}_stderr`, view.x, at).map(finite) : null;
  traces.push({
    type: "scatter", mode: "markers", x: xs, y, name: what ? `${what}, experiment` : "experiment ± 1 s.e.", legendgroup: group, showlegend: isFirst, xaxis: `x${tag(axis)}`, yaxis: `y${tag(axis)}`,
    marker: { color: colour, symbol: marker, size: 8, line: { width: 1, color: "rgba(255,255,255,0.8)" } },
    error_y: errors ? { type: "data", array: errors.map((value) => value ?? 0), color: colour, thickness: 1.4, width: 3 } : undefined,
    hovertemplate: `%{x:.4g}, %{y:.5g} ± %{error_y.array:.2g}<extra>experiment</extra>`,
  });
  const judged = theoryOf(dots, name);
  const theory = judged < 0 ? null : theoryLine({ x: xs, y: along(dots, name, view.x, { ...index, source: judged }).map(finite), legend: what, line: limit, called: escaped(dots.called ?? "theory") });
  if (theory) {
    for (const trace of traces) if (trace.legendgroup === group && trace.xaxis === `x${tag(axis)}` && trace.mode === "lines") trace.line.width = THIN;
    traces.push({ ...theory, legendgroup: group, showlegend: isFirst, xaxis: `x${tag(axis)}`, yaxis: `y${tag(axis)}`, line: { color: colour, width: 2, dash: "dot" } });
  }
  if (!compared || !(`${name}_z` in dots.dims)) return;
  traces.push({
    type: "scatter", mode: "markers", x: xs, y: along(dots, `${name}_z`, view.x, index).map(finite), showlegend: false, legendgroup: group, xaxis: `x${tag(axis)}`, yaxis: `y${tag(axis + 1)}`,
    marker: { color: colour, symbol: marker, size: 6 }, hovertemplate: "z = %{y:.2f}<extra></extra>",
  });
}

/** Place of the layer that an experiment was compared with: the theory at its dimension, or the limit; -1 for none. */
function theoryOf(dots, name) {
  if (!dots.dims[name].includes("source")) return -1;
  return Math.max(dots.source.indexOf("theory"), dots.source.includes("theory") ? -1 : dots.source.indexOf("limit"));
}

function zAxis(layout, base, ink, { panel, axis, tag, bottom, split, x }) {
  const y = `yaxis${tag(axis + 1)}`;
  layout[y] = { ...base.axis, domain: [bottom, bottom + split], anchor: `x${tag(axis)}`, title: { text: "z", standoff: 2 }, zeroline: true, zerolinecolor: ink, nticks: 4, rangemode: "tozero" };
  for (const side of [-3, 3]) {
    layout.shapes.push({ type: "line", xref: `${x.replace("axis", "")} domain`, yref: `y${tag(axis + 1)}`, x0: 0, x1: 1, y0: side, y1: side, line: { color: ink, width: 1, dash: "dot" } });
  }
}

function map(result, name, view, xaxis, yaxis, state, { left, wide, bottom, tall, columns }) {
  const fixed = Object.fromEntries(view.others.map((dim) => [dim, Math.min(state.slices?.[dim] ?? 0, length(result, dim) - 1)]));
  const rows = values(result, view.y).map((_, j) => along(result, name, view.x, { ...fixed, [view.y]: j }));
  const bar = { len: tall, y: bottom + tall / 2, x: left + wide, thickness: 12, outlinewidth: 0 };
  const trace = { type: "heatmap", x: values(result, view.x), y: values(result, view.y), xaxis, yaxis, colorbar: bar, hovertemplate: "%{x:.4g}, %{y:.4g}: %{z}<extra></extra>" };
  if (rows.flat().some((value) => typeof value === "string" && value !== "inf" && value !== "-inf")) {
    const names = [...new Set(rows.flat())].sort();
    const scale = names.flatMap((_, i) => [[i / names.length, PALETTE[i % PALETTE.length]], [(i + 1) / names.length, PALETTE[i % PALETTE.length]]]);
    return { ...trace, z: rows.map((row) => row.map((value) => names.indexOf(value))), zmin: -0.5, zmax: names.length - 0.5, colorscale: scale, text: rows, hovertemplate: "%{x:.4g}, %{y:.4g}: %{text}<extra></extra>", colorbar: { ...bar, tickvals: names.map((_, i) => i), ticktext: names } };
  }
  return { ...trace, z: rows.map((row) => row.map(finite)), colorscale: "Viridis" };
}

function panelTitle(family, state, view, name, classes) {
  const variable = view?.variable ?? family.questions[state.study.what].variables.find((variable) => variable.name === name);
  const [real, ofClasses] = symbolOf(family, state.notation, name, variable?.symbol ?? "").split(" or ");
  const symbol = ofClasses && classes ? ofClasses : real; // "E(y - f)^2 or P(y f<0)": of real labels, of classes
  const text = pretty(symbol);
  if (symbol === name) return `<i>${text}</i>`;
  return `<b>${escaped(words(name))}</b>${text && text.length < 90 ? `  <i>${text}</i>` : ""}`;
}

/** What an axis says: the name and its symbol in the notation chosen. */
export function fieldLabel(family, state, name) {
  const field = fieldNamed(family, name);
  if (!field) {
    const { label, symbol } = family.questions[state.study.what].dimensions[name] ?? {};
    return escaped(label || greek(words(name))) + (symbol ? `,  <i>${pretty(symbol)}</i>` : "");
  }
  const symbol = symbolOf(family, state.notation, name, field.symbol);
  return state.notation === "ours" ? `${escaped(words(name))},  <i>${pretty(symbol)}</i>` : `<i>${pretty(symbol)}</i>  (${escaped(words(name))})`;
}

function labelAt(family, state, result, index, dims) {
  const parts = dims.filter((dim) => length(result, dim) > 1).map((dim) => {
    const value = values(result, dim)[index[dim]];
    const field = fieldNamed(family, dim);
    if (typeof value === "string" && value !== "inf") return value;
    const symbol = field ? greek(symbolOf(family, state.notation, dim, field.symbol).split(" = ")[0]) : words(dim.replace(/_2$/, "'"));
    return field ? `${symbol} = ${short(value, 3)}` : `${symbol} ${short(value, 3)}`;
  });
  return parts.join(", ");
}

/** The layers of an experiment that the table shows: the theory at its dimension, where there is one, and itself. */
function layersOf(dots, name) {
  if (!dots.dims[name].includes("source")) return [{ source: {}, engine: "experiment" }];
  const layers = [{ source: { source: dots.source.indexOf("experiment") }, engine: "experiment" }];
  const theory = dots.source.indexOf("theory");
  return theory < 0 ? layers : [{ source: { source: theory }, engine: dots.called ?? "theory" }, ...layers];
}

/** The numbers of the figure as rows: header first. */
export function tableOf({ state, curves, family }, most = 300) {
  const rows = [];
  const question = family.questions[state.study.what];
  for (const name of state.variables) {
    for (const { result, dots, label, about } of curves) {
      if (!result || !(name in result.dims)) continue;
      const line = about?.called ?? "limit";
      const view = layoutOf(result, name, question);
      const title = label || "";
      if (view.kind === "number") rows.push([name, title, "", line, short(result[name], 8), "", ""]);
      else if (view.kind !== "map") {
        for (const index of allIndices(result, view.others).slice(0, MOST_LINES)) {
          const at = [title, labelAt(family, state, result, index, view.others)].filter(Boolean).join("; ");
          const xs = values(result, view.x);
          along(result, name, view.x, index).forEach((y, i) => rows.push([name, at, `${view.x} = ${short(xs[i])}`, line, short(y, 8), "", ""]));
        }
      }
      if (!dots || !(name in dots.dims)) continue;
      const there = layoutOf(dots, name, question);
      for (const { source, engine } of layersOf(dots, name)) {
        const scored = engine === "experiment" && `${name}_z` in dots.dims;
        if (there.kind === "number") {
          const read = (key, at) => short(at && dots.dims[key]?.includes("source") ? dots[key][at.source] : dots[key], 5);
          rows.push([name, title, "", engine, read(name, source), read(`${name}_stderr`, source), scored ? read(`${name}_z`) : ""]);
        } else if (there.kind !== "map") {
          for (const index of allIndices(dots, there.others).slice(0, MOST_LINES)) {
            const at = [title, labelAt(family, state, dots, index, there.others)].filter(Boolean).join("; ");
            const xs = values(dots, there.x);
            const y = along(dots, name, there.x, { ...index, ...source });
            const errors = `${name}_stderr` in dots.dims ? along(dots, `${name}_stderr`, there.x, { ...index, ...source }) : [];
            const z = scored ? along(dots, `${name}_z`, there.x, index) : [];
            y.forEach((value, i) => rows.push([name, at, `${there.x} = ${short(xs[i])}`, engine, short(value, 6), short(errors[i], 2), short(z[i] ?? null, 3)]));
          }
        }
      }
    }
  }
  return { head: ["variable", "curve", "at", "engine", "value", "standard error", "z"], rows: rows.slice(0, most), left: Math.max(0, rows.length - most) };
}

export function swatch(slot, dark) {
  const colours = dark ? DARK_PALETTE : PALETTE;
  return colours[slot % colours.length];
}

/** Dimensions of the maps shown that are neither of their axes, with their labels. */
export function slicesOf({ family, state, curves }) {
  const result = curves[0]?.result;
  const slices = {};
  for (const name of result ? state.variables.filter((variable) => variable in result.dims) : []) {
    const view = layoutOf(result, name, family.questions[state.study.what]);
    if (view.kind === "map") for (const dim of view.others) slices[dim] = values(result, dim);
  }
  return slices;
}

// Panels drawn by uPlot: lines follow the hand by new data; dots, maps and what is shaded are painted over and under them.

import { cellEdges, extremes, rangeOver, shadeOf, sidesOver, ticksOver, tickText } from "./axes.js";
import { element } from "./elements.js";
import { MARKERS } from "./legend.js";
import { escaped, short } from "./text.js";

const FONT = "12px system-ui, -apple-system, 'Segoe UI', 'Noto Sans', sans-serif";
const [HEAD, FOOT] = [24, 24]; // pixels of the title above and of the name of the axis below a plot
const SCORES = 0.26; // of the height of a panel: its z-scores
const BAR = 74; // pixels of the colours beside a map
const NEAR = 40; // pixels from the pointer to what is told of

/** Panels drawn into an element, beside and below each other. */
export class Plots {
  constructor(root) {
    Object.assign(this, { root, plots: [], key: "" });
  }

  /** Draw panels in so many pixels of height; where only values changed, the plots there are take them. */
  draw(panels, { height, columns = 2, dark }) {
    const wide = Math.max(1, Math.min(columns, panels.length));
    const width = Math.floor((this.root.clientWidth - 18 * (wide - 1)) / wide);
    const tall = Math.floor(Math.max(110, height / Math.ceil(panels.length / wide) - HEAD - FOOT));
    const key = JSON.stringify([width, tall, dark, panels.map(shapeOf)]);
    if (key !== this.key) this.build(panels, { width, tall, wide, dark });
    else this.plots.forEach(({ update }, i) => update(panels[i]));
    this.key = key;
    this.root.panels = panels; // what is drawn now, for whoever asks
  }

  build(panels, { width, tall, wide, dark }) {
    this.clear();
    this.root.style.gridTemplateColumns = `repeat(${wide}, minmax(0, 1fr))`;
    this.plots = panels.map((panel) => {
      const box = element("div", { class: "panel" }, element("div", { class: "panel-title", title: panel.meaning, html: panel.title }));
      this.root.append(box);
      if (panel.kind !== "text") return asPlots(box, panel, { width, tall, dark });
      box.append(element("div", { class: "panel-text", style: `min-height:${tall}px` }, ...panel.text.map(({ label, value }) => element("div", {}, label ? `${label}: ` : "", element("b", {}, value)))));
      return { update: () => {}, destroy: () => {} };
    });
  }

  clear() {
    for (const { destroy } of this.plots) destroy();
    this.root.replaceChildren();
    Object.assign(this, { plots: [], key: "" });
    this.root.panels = [];
  }
}

/** All of a panel but what an update can change. */
function shapeOf({ kind, name, x, y, series, scores, map, title, text }) {
  return [kind, name, title, text, x, y, series.map(({ kind, key, colour, width, dash, points, fill }) => [kind, key, colour, width, dash, points, fill]), scores.length, map?.names];
}

function asPlots(box, panel, { width, tall, dark }) {
  const live = { panel };
  const scoresTall = panel.scores.length ? Math.max(64, Math.round(SCORES * tall)) : 0;
  const main = plotOf(live, { width, height: tall - scoresTall, dark, series: (panel) => panel.series, hidesTicks: scoresTall > 0 });
  box.append(...(panel.y.label ? [element("div", { class: "panel-up", html: `↑ ${panel.y.label}` })] : []), main.root);
  const below = scoresTall ? plotOf(live, { width, height: scoresTall, dark, series: (panel) => panel.scores, isScores: true }) : null;
  if (below) box.append(below.root);
  box.append(element("div", { class: "panel-axis", html: panel.x.label }));
  const plots = below ? [main, below] : [main];
  const update = (next) => {
    live.panel = next;
    for (const plot of plots) refresh(plot, live.panel);
  };
  return { update, destroy: () => plots.forEach((plot) => plot.destroy()) };
}

/** Data as uPlot takes them: one horizontal axis for all, undefined where a series has no point there. */
function tableOf(panel, series) {
  const positive = (value, log) => (log && !(value > 0) ? null : value);
  if (panel.kind === "map") return [extremes([cellEdges(panel.map.x, panel.x.log)]), extremes([cellEdges(panel.map.y, panel.y.log)])];
  if (!series.length) return [[0, 1], [null, null]];
  return uPlot.join(series.map(upright).map(({ x, y }) => [x, y.map((value) => positive(value, panel.y.log))]));
}

/** A line that goes straight up where it jumps, halfway between two points. */
function upright({ x, y, jumps = [] }) {
  const line = { x: [...x], y: [...y] };
  for (const i of [...jumps].reverse()) {
    const middle = (x[i] + x[i + 1]) / 2;
    line.x.splice(i + 1, 0, middle, middle + 1e-6 * (x[i + 1] - x[i]));
    line.y.splice(i + 1, 0, y[i], y[i + 1]);
  }
  return line;
}

/** Hand new values to a plot; what the reader has zoomed stays so. */
function refresh(plot, panel) {
  const { data, scales, sidesOf, seriesOf } = plot;
  const [low, high] = sidesOf(plot, data[0][0], data[0].at(-1));
  const isZoomed = scales.x.min > low || scales.x.max < high;
  plot.setData(tableOf(panel, seriesOf(panel)), !isZoomed);
  if (isZoomed) plot.redraw(true, true);
}

function plotOf(live, { width, height, dark, series, hidesTicks, isScores }) {
  const { panel } = live;
  const [ink, faint] = dark ? ["#c6ccd3", "#2c3238"] : ["#3a424b", "#e7eaed"];
  const isMap = panel.kind === "map";
  const y = isScores ? {} : panel.y;
  const bar = isMap ? BAR : 16;
  const counts = [Math.max(2, (width - 60 - bar) / (panel.x.names ? 1 : 64)), Math.max(2, height / 44)];
  const axisOf = (about, count, size) => ({
    stroke: ink, font: FONT, size, gap: 3, grid: { show: !isMap, stroke: faint, width: 1 }, ticks: { stroke: ink, width: 1, size: 4 }, filter: (_, splits) => splits,
    splits: (_, __, low, high) => ticksOver(low, high, about, count), values: (_, splits) => splits.map((tick) => tickText(tick, about)), border: { show: true, stroke: ink, width: 1 },
  });
  const across = axisOf(panel.x, counts[0], hidesTicks ? 8 : 26);
  if (hidesTicks) across.values = (_, splits) => splits.map(() => "");
  const range = (_, low, high) => {
    if (isScores) return [Math.min(-3.5, 1.2 * (low ?? 0)), Math.max(3.5, 1.2 * (high ?? 0))];
    if (isMap) return [low, high];
    const bars = live.panel.series.filter((one) => one.errors).flatMap((one) => one.y.flatMap((value, i) => (value === null ? [] : [value - one.errors[i], value + one.errors[i]])));
    const [least, most] = extremes([bars], y.log);
    return rangeOver(Math.min(low ?? Infinity, least), Math.max(high ?? -Infinity, most), y.log);
  };
  const hasDots = series(panel).some((one) => one.kind === "dots" || one.points);
  const sides = ({ data: [x] }, low, high) => sidesOver(x.length === 1 ? x[0] : low, x.length === 1 ? x[0] : high, panel.x, hasDots);
  const root = element("div", { class: "plot" });
  const tip = element("div", { class: "tip", hidden: true });
  const plot = new uPlot({
    width, height, pxAlign: false, padding: [isMap ? 6 : 10, bar, 0, 4], legend: { show: false },
    cursor: { drag: { x: !isMap, y: false }, points: { show: false }, x: false, y: false },
    scales: { x: { time: false, distr: panel.x.log ? 3 : 1, range: sides }, y: { distr: y.log ? 3 : 1, range } },
    axes: [across, isScores ? scoresAxis(axisOf({}, 3, 58)) : axisOf(y, counts[1], 58)],
    series: [{}, ...(isMap ? [{ show: true, paths: () => null, points: { show: false } }] : series(panel).map((one, i) => styleOf(one, () => series(live.panel)[i])))],
    hooks: {
      drawClear: [(u) => (isMap ? paintMap(u, live.panel, ink) : paintBands(u, live.panel, dark, isScores))],
      draw: [(u) => paintOver(u, isMap ? [] : series(live.panel), isScores ? [] : live.panel.marks, dark)],
      setCursor: [(u) => tell(u, tip, live.panel, isMap ? [] : series(live.panel))],
    },
  }, tableOf(panel, series(panel)), root);
  plot.over.append(tip);
  return Object.assign(plot, { seriesOf: series, sidesOf: sides });
}

const scoresAxis = (axis) => ({ ...axis, splits: () => [-3, 0, 3], values: () => ["−3", "z = 0", "3"] });

/** How uPlot draws a series; `now()` is the same one as it is drawn next. */
function styleOf({ kind, colour, width, dash, points, fill }, now) {
  if (kind === "dots") return { paths: () => null, points: { show: false } };
  return { stroke: () => (now()?.isFaint ? `${colour}88` : colour), width, dash, fill, points: { show: Boolean(points), size: 7, fill: colour, stroke: colour } };
}

// -- painted by ourselves -----------------------------------------------------------------------------------------

/** Paint inside the axes; sizes are pixels of the screen. */
function clipped(u, paint) {
  const { left, top, width, height } = u.bbox;
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.rect(left, top, width, height);
  u.ctx.clip();
  paint(u.ctx, devicePixelRatio);
  u.ctx.restore();
}

/** A marker around a place, with a rim. */
function mark(c, marker, x, y, size, fill, rim) {
  const shape = new Path2D(MARKERS[marker]);
  c.save();
  c.translate(x, y);
  c.scale(size * devicePixelRatio, size * devicePixelRatio);
  Object.assign(c, { fillStyle: fill, strokeStyle: rim, lineWidth: 2 / size });
  c.stroke(shape);
  c.fill(shape);
  c.restore();
}

function paintOver(u, series, marks, dark) {
  clipped(u, (c, ratio) => {
    const [across, down] = [(value) => u.valToPos(value, "x", true), (value) => u.valToPos(value, "y", true)];
    for (const { x, y, errors, colour, marker } of series.filter((one) => one.kind === "dots")) {
      y.forEach((value, i) => {
        if (value === null) return;
        const [px, py] = [across(x[i]), down(value)];
        if (errors?.[i]) {
          const low = down(value - errors[i]);
          Object.assign(c, { strokeStyle: colour, lineWidth: 1.5 * ratio });
          c.beginPath();
          c.moveTo(px, Number.isFinite(low) ? low : u.bbox.top + u.bbox.height);
          c.lineTo(px, down(value + errors[i]));
          c.stroke();
        }
        mark(c, marker, px, py, 1, colour, dark ? "#14171a" : "#ffffff");
      });
    }
    for (const { x, y } of marks.filter((one) => typeof one.y === "number")) mark(c, "star", across(x), down(y), 1.4, "#E69F00", "#000000");
  });
}

/** What a story speaks of, and the lines between which a z-score is no surprise. */
function paintBands(u, { bands, areas }, dark, isScores) {
  clipped(u, (c, ratio) => {
    const { left, top, width, height } = u.bbox;
    c.fillStyle = dark ? "#ffffff14" : "#E69F0022";
    if (isScores) {
      const [high, low] = [3, -3].map((value) => u.valToPos(value, "y", true));
      return c.fillRect(left, high, width, low - high);
    }
    for (const { x, low, high, colour } of areas) {
      c.beginPath();
      [...x.keys()].forEach((i) => c.lineTo(u.valToPos(x[i], "x", true), u.valToPos(high[i], "y", true)));
      [...x.keys()].reverse().forEach((i) => c.lineTo(u.valToPos(x[i], "x", true), u.valToPos(low[i], "y", true)));
      c.fillStyle = `${colour}26`;
      c.fill();
    }
    for (const { from, to, label } of bands) {
      const [a, b] = [from, to].map((value) => u.valToPos(value, "x", true));
      c.fillStyle = from === to ? "#888888" : dark ? "#ffffff14" : "#E69F0022"; // a place is a line
      c.fillRect(a, top, Math.max(b - a, ratio), height);
      Object.assign(c, { fillStyle: dark ? "#e8eaed" : "#5b4a1a", font: `${12 * ratio}px system-ui, sans-serif`, textAlign: "center", textBaseline: "top" });
      c.fillText(label, (a + b) / 2, top + 6 * ratio);
    }
  });
}

function paintMap(u, { map, x, y }, ink) {
  const ends = extremes(map.z);
  const [columns, rows] = [cellEdges(map.x, x.log).map((edge) => u.valToPos(edge, "x", true)), cellEdges(map.y, y.log).map((edge) => u.valToPos(edge, "y", true))];
  clipped(u, (c) => map.z.forEach((row, j) => row.forEach((value, i) => {
    const colour = shadeOf(value, ends, map);
    if (!colour) return;
    c.fillStyle = colour;
    c.fillRect(Math.round(columns[i]), Math.round(rows[j + 1]), Math.round(columns[i + 1]) - Math.round(columns[i]), Math.round(rows[j]) - Math.round(rows[j + 1]));
  })));
  const { left, top, width, height } = u.bbox;
  const ratio = devicePixelRatio;
  for (const { from, to, colour, text, at } of barOf(map, ends)) {
    u.ctx.fillStyle = colour;
    u.ctx.fillRect(left + width + 10 * ratio, top + (1 - to) * height, 12 * ratio, Math.ceil((to - from) * height));
    if (!text) continue;
    Object.assign(u.ctx, { fillStyle: ink, font: `${11 * ratio}px system-ui, sans-serif`, textAlign: "left", textBaseline: "middle" });
    u.ctx.fillText(text, left + width + 26 * ratio, top + (1 - at) * height);
  }
}

/** The colours beside a map from its bottom (0) to its top (1), some with what they stand for. */
function barOf(map, ends) {
  if (map.names) return map.names.map((name, i, { length }) => ({ from: i / length, to: (i + 1) / length, colour: shadeOf(i, ends, map), text: name, at: (i + 0.5) / length }));
  const [low, high] = ends;
  const parts = 64;
  const ticks = high > low ? ticksOver(low, high, {}, 5) : [];
  const bars = Array.from({ length: parts }, (_, i) => ({ from: i / parts, to: (i + 1) / parts, colour: shadeOf(low + ((i + 0.5) / parts) * (high - low), ends, map) }));
  return [...bars, ...ticks.map((tick) => ({ from: 0, to: 0, text: tickText(tick, {}), at: (tick - low) / (high - low) }))];
}

// -- what lies under the pointer ----------------------------------------------------------------------------------

function tell(u, tip, panel, series) {
  const { left, top } = u.cursor;
  const found = left < 0 ? null : panel.kind === "map" ? cellAt(u, panel.map, left, top) : nearest(u, panel, series, left, top);
  tip.hidden = !found;
  if (!found) return;
  tip.innerHTML = found.html;
  const isRight = found.x > u.over.clientWidth / 2;
  Object.assign(tip.style, { left: isRight ? "" : `${found.x + 12}px`, right: isRight ? `${u.over.clientWidth - found.x + 12}px` : "", top: `${Math.max(0, found.y - 30)}px` });
}

function nearest(u, panel, series, left, top) {
  const points = series.flatMap((one) => one.y.map((value, i) => ({ one, value, i, x: u.valToPos(one.x[i], "x"), y: value === null ? Infinity : u.valToPos(value, "y") })));
  const far = (point) => Math.hypot(point.x - left, point.y - top);
  const best = points.reduce((a, b) => (far(b) < far(a) ? b : a), { x: left, y: top + NEAR });
  if (!best.one) return null;
  const { label, colour, errors, x } = best.one;
  const at = panel.x.names ? panel.x.names[x[best.i]] : short(x[best.i]);
  const error = errors?.[best.i] ? ` ± ${short(errors[best.i], 2)}` : "";
  return { ...best, html: `<span style="color:${colour}">●</span> ${escaped(label ?? "z")}<br>${escaped(at)}: <b>${short(best.value, 5)}${error}</b>` };
}

function cellAt(u, map, left, top) {
  const near = (list, value) => list.reduce((best, one, i) => (Math.abs(one - value) < Math.abs(list[best] - value) ? i : best), 0);
  const [i, j] = [near(map.x, u.posToVal(left, "x")), near(map.y, u.posToVal(top, "y"))];
  const value = map.names ? map.names[map.z[j][i]] : short(map.z[j][i], 5);
  return { x: left, y: top, html: `${short(map.x[i])}, ${short(map.y[j])}<br><b>${escaped(value)}</b>` };
}

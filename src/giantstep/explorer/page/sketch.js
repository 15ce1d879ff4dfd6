// The first picture: lines, axes and names without Plotly, which takes longer to read than the answer to come.

import { element } from "./elements.js";
import { listNames } from "./layout.js";
import { escaped, short } from "./symbols.js";

const ROOM = 1 / 18; // of its length: what Plotly leaves beyond the ends of a line
const TICK = 4;
const APART = { x: 80, y: 50 }; // pixels between ticks, about
const DASHES = { dash: "9,9", dot: "3,3", dashdot: "9,3,3,3", longdash: "15,15", longdashdot: "15,3,3,3" };

const isDrawable = ({ type, mode, x, y }) => type === "scatter" && ["lines", "markers"].includes(mode) && x.concat(y).every((value) => value === null || typeof value === "number");

/** Whether these traces can be drawn here; maps, names along an axis and error bars are left to Plotly. */
export function canSketch(traces) {
  return traces.every((trace) => isDrawable(trace) && !trace.error_y);
}

/** Round steps over a range, about so many. */
function ticksOver([low, high], count, dtick) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = dtick ?? power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => (first + i) * step);
}

/** Where values lie along an axis from one pixel to another, and its ticks; null where there is nothing to lay out. */
function scaleOf(axis, values, [from, to], room, apart) {
  const isLog = axis.type === "log";
  const scaled = values.filter((value) => value !== null).map((value) => (isLog ? Math.log10(value) : value)).filter(Number.isFinite);
  const [least, most] = [Math.min(...scaled), Math.max(...scaled)];
  if (!scaled.length) return null;
  const spare = most > least ? room * (most - least) : 1;
  const [low, high] = axis.autorange === false ? axis.range : [least - spare, most + spare];
  const place = (value) => from + ((isLog ? Math.log10(value) : value) - low) / (high - low) * (to - from);
  const count = Math.max(Math.abs(to - from) / apart, 4);
  const decades = isLog && high - low >= 1 ? Math.ceil((high - low) / count) : axis.dtick;
  return { place, ticks: ticksOver([low, high], count, decades).map((tick) => (isLog ? 10 ** tick : tick)) };
}

function pathOf({ x, y }, across, down) {
  let path = "";
  let pen = "M";
  for (let i = 0; i < x.length; i += 1) {
    const point = y[i] === null || x[i] === null ? [NaN] : [across.place(x[i]), down.place(y[i])];
    if (!point.every(Number.isFinite)) {
      pen = "M";
      continue;
    }
    path += `${pen}${point[0].toFixed(2)},${point[1].toFixed(2)}`;
    pen = "L";
  }
  return path;
}

/** A line of the figure as SVG; a single point is a dash. */
function drawnLine(trace, across, down) {
  const dash = DASHES[trace.line.dash];
  const path = trace.mode === "lines" ? pathOf(trace, across, down) : trace.y.map((value, i) => (value === null ? "" : `M${across.place(trace.x[i]) - 7},${down.place(value)}h14`)).join("");
  return `<path class="js-line" d="${path}" fill="none" stroke="${trace.line.color}" stroke-width="${trace.line.width}" opacity="${trace.opacity}"${dash ? ` stroke-dasharray="${dash}"` : ""}/>`;
}

/** Text at a place of the figure, held at one of its sides as Plotly says it. */
function textAt(x, y, html, { xanchor = "center", yanchor = "middle", size = 12, kind = "" } = {}) {
  const shift = { left: 0, center: -50, middle: -50, right: -100, top: 0, bottom: -100 };
  return element("div", { class: kind, html, style: `left:${x}px;top:${y}px;font-size:${size}px;transform:translate(${shift[xanchor]}%,${shift[yanchor]}%)` });
}

/** Grid, ticks, names and lines of one pair of axes. */
function panel(traces, [xaxis, yaxis], { left, top, wide, tall }) {
  const [x0, x1] = xaxis.domain.map((share) => left + share * wide);
  const [y0, y1] = yaxis.domain.map((share) => top + (1 - share) * tall);
  const across = scaleOf(xaxis, traces.flatMap((trace) => trace.x), [x0, x1], traces.some((trace) => trace.mode === "markers") ? ROOM : 0, APART.x);
  const down = scaleOf(yaxis, traces.flatMap((trace) => trace.y), [y0, y1], ROOM, APART.y);
  if (!across || !down) return { svg: "", texts: [] };
  let svg = `<path d="M${x0},${y1}V${y0}H${x1}" fill="none" stroke="${xaxis.color}"/>`;
  const texts = [];
  for (const tick of across.ticks) {
    const x = across.place(tick);
    svg += `<path d="M${x},${y1}V${y0}" stroke="${xaxis.gridcolor}"/><path d="M${x},${y0}v${TICK}" stroke="${xaxis.color}"/>`;
    texts.push(textAt(x, y0 + TICK, escaped(short(tick, 6)), { yanchor: "top" }));
  }
  for (const tick of down.ticks) {
    const y = down.place(tick);
    svg += `<path d="M${x0},${y}H${x1}" stroke="${yaxis.gridcolor}"/><path d="M${x0},${y}h${-TICK}" stroke="${yaxis.color}"/>`;
    texts.push(textAt(x0 - TICK - 2, y, escaped(short(tick, 6)), { xanchor: "right" }));
  }
  texts.push(textAt((x0 + x1) / 2, y0 + 22, xaxis.title?.text ?? "", { yanchor: "top", size: 15.6 }));
  return { svg: svg + traces.map((trace) => drawnLine(trace, across, down)).join(""), texts };
}

/** The names of the lines below the figure, where Plotly's legend will be. */
function legendOf(traces) {
  const list = element("ul", { class: "named" });
  listNames(list, traces.filter((trace) => trace.showlegend));
  return list;
}

/**
 * Draw a figure that Plotly will draw again.
 *
 * @param chart the element it is drawn into
 * @param traces, layout what Plotly is given; see `canSketch`
 */
export function sketch(chart, traces, layout) {
  const { l, r, t, b } = layout.margin;
  const place = { left: l, top: t, wide: chart.clientWidth - l - r, tall: layout.height - t - b };
  const names = Object.keys(layout).filter((name) => /^xaxis/.test(name));
  const panels = names.map((name) => {
    const own = traces.filter((trace) => `xaxis${trace.xaxis.slice(1)}` === name);
    return own.length ? panel(own, [layout[name], layout[`yaxis${own[0].yaxis.slice(1)}`]], place) : { svg: "", texts: [] };
  });
  const notes = layout.annotations.map((note) =>
    textAt(place.left + note.x * place.wide, place.top + (1 - note.y) * place.tall, note.text, { ...note, size: note.font.size, kind: "annotation" }));
  const svg = `<svg width="${chart.clientWidth}" height="${layout.height}" aria-hidden="true">${panels.map((drawn) => drawn.svg).join("")}</svg>`;
  const legend = layout.showlegend ? [legendOf(traces)] : [];
  const body = element("div", { class: "first-picture", html: svg, style: `height:${layout.height}px;color:${layout.font.color};font-family:${layout.font.family}` }, ...panels.flatMap((drawn) => drawn.texts), ...notes, ...legend);
  chart.replaceChildren(body);
}

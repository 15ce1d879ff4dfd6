// The same panels as a picture to keep: SVG written here, and PNG made of it.

import { cellEdges, extremes, rangeOver, shadeOf, sidesOver, ticksOver, tickText } from "./axes.js";
import { legendOf, markerSvg, sampleOf } from "./legend.js";
import { barOf } from "./plot.js";
import { escaped } from "./symbols.js";

const [WIDE, TALL, ALONE] = [560, 340, 860]; // pixels of a panel, and of one alone
const MARGIN = { left: 62, right: 16, top: 34, bottom: 46 };
const ROW = 20; // pixels of an entry of the legend
const INK = "#1b1f23";

const attributes = (given) => Object.entries(given).filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => ` ${name}="${value}"`).join("");
const tag = (name, given, inner = "") => `<${name}${attributes(given)}>${inner}</${name}>`;
const text = (x, y, html, given = {}) => tag("text", { x: round(x), y: round(y), ...given }, spans(html));
const round = (value) => Math.round(100 * value) / 100;

/** The few marks of a title (<i>, <b>, <sub>, <sup>) as parts of an SVG text. */
function spans(html) {
  const marks = { i: 'font-style="italic"', b: 'font-weight="bold"', sub: 'font-size="75%" baseline-shift="sub"', sup: 'font-size="75%" baseline-shift="super"' };
  return html.replace(/<(i|b|sub|sup)>/g, (_, mark) => `<tspan ${marks[mark]}>`).replace(/<\/(i|b|sub|sup)>/g, "</tspan>");
}

/** All panels as one SVG text. */
export function svgOf(panels, title = "") {
  const columns = Math.min(2, panels.length);
  const rows = Math.ceil(panels.length / columns);
  const entries = legendOf(panels);
  const legend = entries.length > 1 ? entries : [];
  const wide = columns === 1 ? ALONE : WIDE;
  const [width, top] = [columns * wide, title ? 30 : 0];
  const beside = Math.min(3, Math.max(1, Math.floor(width / (50 + 7 * Math.max(...entries.map(({ label }) => label.length), 0)))));
  const height = top + rows * TALL + ROW * Math.ceil(legend.length / beside) + 12;
  const body = panels.map((panel, i) => tag("g", { transform: `translate(${(i % columns) * wide},${top + Math.floor(i / columns) * TALL})` }, panelSvg(panel, wide)));
  const names = legend.map((series, i) => legendEntry(series, MARGIN.left + ((i % beside) * (width - MARGIN.left)) / beside, top + rows * TALL + 10 + ROW * Math.floor(i / beside)));
  const head = title ? text(20, 24, escaped(title), { "font-size": 16, "font-weight": "bold" }) : "";
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif" font-size="12" fill="${INK}"><rect width="100%" height="100%" fill="white"/>${head}${body.join("")}${names.join("")}</svg>`;
}

/** A line of the legend: how a series is drawn, and its name. */
function legendEntry(series, x, y) {
  return sampleOf(series, x, y) + text(x + 38, y + 4, escaped(series.label));
}

/** From values to pixels along one axis. */
function scaleOf([low, high], [from, to], log) {
  const scaled = (value) => (log ? Math.log(value) : value);
  return (value) => round(from + ((scaled(value) - scaled(low)) / (scaled(high) - scaled(low))) * (to - from));
}

function panelSvg(panel, wide) {
  const box = { x0: MARGIN.left, x1: wide - (panel.kind === "map" ? 90 : MARGIN.right), y0: TALL - MARGIN.bottom, y1: MARGIN.top };
  const title = text(box.x0, 20, panel.title, { "font-size": 13 });
  if (panel.kind === "text") return title + panel.text.map(({ label, value }, i) => text(wide / 2, TALL / 2 + 22 * i, `${label ? `${escaped(label)}: ` : ""}<b>${escaped(value)}</b>`, { "text-anchor": "middle", "font-size": 16 })).join("");
  const scores = panel.scores.length ? 76 : 0;
  const isMap = panel.kind === "map";
  const { x, y } = panel;
  const sides = isMap ? extremes([cellEdges(panel.map.x, x.log)]) : sidesOver(...extremes(panel.series.map((one) => one.x), x.log), x, panel.series.some((one) => one.kind === "dots" || one.points));
  const heights = isMap ? extremes([cellEdges(panel.map.y, y.log)]) : rangeOver(...extremes(panel.series.flatMap((one) => (one.errors ? [one.y, one.y.map((value, i) => value + one.errors[i])] : [one.y])), y.log), y.log);
  const main = { ...box, y0: box.y0 - scores };
  const across = scaleOf(sides, [box.x0, box.x1], x.log);
  const drawn = axesSvg(main, across, scaleOf(heights, [main.y0, main.y1], y.log), { sides, heights, x, y, isMap, isBare: scores > 0 }, (down) => (isMap ? cellsSvg(panel.map, x, y, across, down, main) : seriesSvg(panel, across, down)));
  const low = { ...box, y1: box.y0 - scores + 12 };
  const span = Math.max(3.5, ...panel.scores.flatMap((one) => one.y.map((value) => Math.abs(value ?? 0))));
  const below = scores ? axesSvg(low, across, scaleOf([-span, span], [low.y0, low.y1]), { sides, heights: [-span, span], x, y: {}, few: true }, (down) => tag("rect", { x: low.x0, y: down(3), width: low.x1 - low.x0, height: down(-3) - down(3), fill: "#E69F00", "fill-opacity": 0.13 }) + seriesSvg({ series: panel.scores, marks: [], bands: [] }, across, down)) : "";
  const names = text((box.x0 + box.x1) / 2, TALL - 8, x.label, { "text-anchor": "middle", "font-size": 13 }) + (y.label ? text(14, (box.y0 + box.y1) / 2, y.label, { "text-anchor": "middle", transform: `rotate(-90 14 ${(box.y0 + box.y1) / 2})` }) : "");
  return title + drawn + below + names;
}

function axesSvg({ x0, x1, y0, y1 }, across, down, { sides, heights, x, y, isMap, isBare, few }, inside) {
  const [columns, rows] = [ticksOver(...sides, x, 6), few ? [-3, 0, 3] : ticksOver(...heights, y, 6)];
  const grid = isMap ? "" : tag("path", { d: columns.map((tick) => `M${across(tick)},${y1}V${y0}`).concat(rows.map((tick) => `M${x0},${down(tick)}H${x1}`)).join(""), stroke: "#e7eaed", fill: "none" });
  const ticks = tag("path", { d: `M${x0},${y1}V${y0}H${x1}${columns.map((tick) => `M${across(tick)},${y0}v4`).join("")}${rows.map((tick) => `M${x0},${down(tick)}h-4`).join("")}`, stroke: INK, fill: "none" });
  const labels = (isBare ? [] : columns.map((tick) => text(across(tick), y0 + 17, escaped(tickText(tick, x)), { "text-anchor": "middle" }))).concat(rows.map((tick) => text(x0 - 7, down(tick) + 4, escaped(tickText(tick, y)), { "text-anchor": "end" })));
  return grid + inside(down) + ticks + labels.join("");
}

function seriesSvg({ series, marks, bands }, across, down) {
  const parts = bands.map(({ from, to, label }) => tag("rect", { x: across(from), y: MARGIN.top, width: across(to) - across(from), height: TALL - MARGIN.top - MARGIN.bottom, fill: "#E69F00", "fill-opacity": 0.13 }) + text((across(from) + across(to)) / 2, MARGIN.top + 16, escaped(label), { "text-anchor": "middle" }));
  for (const { kind, x, y, errors, colour, width, dash, marker, points } of series) {
    const at = x.map((value, i) => (y[i] === null ? [NaN, NaN] : [across(value), down(y[i])]));
    const isThere = ([a, b]) => Number.isFinite(a) && Number.isFinite(b);
    if (kind === "line") parts.push(tag("path", { d: at.map((point, i) => (isThere(point) ? `${i && isThere(at[i - 1]) ? "L" : "M"}${point}` : "")).join(""), fill: "none", stroke: colour, "stroke-width": width, "stroke-dasharray": dash.join() }));
    const bars = errors ? at.map((point, i) => (isThere(point) && errors[i] && Number.isFinite(down(y[i] - errors[i])) ? `M${point[0]},${down(y[i] - errors[i])}V${down(y[i] + errors[i])}` : "")).join("") : "";
    if (bars) parts.push(tag("path", { d: bars, stroke: colour, "stroke-width": 1.5, fill: "none" }));
    if (kind === "dots" || points) parts.push(...at.filter(isThere).map(([a, b]) => markerSvg(marker ?? "circle", a, b, colour, kind === "dots" ? 4 : 3.5)));
  }
  return parts.concat(marks.map((mark) => markerSvg("star", across(mark.x), down(mark.y), "#E69F00", 4.5))).join("");
}

function cellsSvg(map, x, y, across, down, { x1, y0, y1 }) {
  const ends = extremes(map.z);
  const [columns, rows] = [cellEdges(map.x, x.log).map(across), cellEdges(map.y, y.log).map(down)];
  const cell = (value, i, j) => tag("rect", { x: columns[i], y: rows[j + 1], width: round(columns[i + 1] - columns[i] + 0.3), height: round(rows[j] - rows[j + 1] + 0.3), fill: shadeOf(value, ends, map) ?? "none" });
  const bars = barOf(map, ends).map(({ from, to, colour, text: said, at }) => (colour ? tag("rect", { x: x1 + 10, y: round(y0 - to * (y0 - y1)), width: 12, height: round((to - from) * (y0 - y1) + 0.5), fill: colour }) : "") + (said ? text(x1 + 26, y0 - at * (y0 - y1) + 4, escaped(said)) : ""));
  return map.z.flatMap((row, j) => row.map((value, i) => cell(value, i, j))).join("") + bars.join("");
}

/** An SVG text as a PNG of twice its size. */
export async function pngOf(svg) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  const image = new Image();
  await new Promise((resolve, reject) => Object.assign(image, { onload: resolve, onerror: () => reject(new Error("the picture cannot be drawn")), src: address }));
  URL.revokeObjectURL(address);
  const canvas = Object.assign(document.createElement("canvas"), { width: 2 * image.width, height: 2 * image.height });
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

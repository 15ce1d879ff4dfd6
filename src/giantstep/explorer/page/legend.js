// Legends: a piece of every line with its name, as SVG.

import { element } from "./elements.js";

/** The series of some panels that have a name, once each. */
export function legendOf(panels) {
  const entries = new Map();
  for (const series of panels.flatMap((panel) => panel.series)) if (series.label && !entries.has(series.key)) entries.set(series.key, series);
  return [...entries.values()];
}

/** List the names below a figure; nothing for one alone. What has not changed is left as it is. */
export function fillLegend(root, panels) {
  const entries = legendOf(panels);
  const key = JSON.stringify(entries.map(({ label, colour, width, dash, marker, points }) => [label, colour, width, dash, marker, points]));
  if (root.dataset.key === key) return;
  root.dataset.key = key;
  root.hidden = entries.length < 2;
  root.replaceChildren(...(root.hidden ? [] : entries).map((series) =>
    element("li", {}, element("span", { "aria-hidden": "true", html: `<svg width="30" height="12">${sampleOf(series, 0, 6)}</svg>` }), series.label)));
}

/** A short piece of a series from (x, y) on. */
export function sampleOf({ kind, colour, width, dash, marker, points }, x, y) {
  if (kind === "dots") return markerSvg(marker, x + 15, y, colour, 4);
  const line = `<path d="M${x},${y}h30" stroke="${colour}" stroke-width="${width}" stroke-dasharray="${dash.join() || "none"}" fill="none"/>`;
  return points ? line + markerSvg("circle", x + 15, y, colour, 3.5) : line;
}

const CORNERS = { square: [1.3, 4, Math.PI / 4], diamond: [1.25, 4, 0], triangle: [1.25, 3, -Math.PI / 2], star: [2.2, 10, -Math.PI / 2] };

/** Corners of a marker around a place; a circle has none. */
export function cornersOf(marker, x, y, r) {
  const [size, count, turn] = CORNERS[marker];
  const far = (i) => size * r * (marker === "star" && i % 2 ? 0.45 : 1);
  return Array.from({ length: count }, (_, i) => [x + far(i) * Math.cos(turn + (2 * Math.PI * i) / count), y + far(i) * Math.sin(turn + (2 * Math.PI * i) / count)]);
}

export function markerSvg(marker, x, y, colour, r) {
  if (marker === "circle") return `<circle cx="${x}" cy="${y}" r="${r}" fill="${colour}"/>`;
  const points = cornersOf(marker, x, y, r).map((corner) => corner.map((value) => value.toFixed(2)).join());
  return `<polygon points="${points.join(" ")}" fill="${colour}"${marker === "star" ? ' stroke="#000000"' : ""}/>`;
}

// Legends: a piece of every line with its name, as SVG.

import { element } from "./elements.js";

/** Markers around the origin, in pixels: drawn on the canvas and in the legend alike. */
export const MARKERS = {
  circle: "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
  square: "M-4,-4h8v8h-8z",
  diamond: "M0,-5.5L5.5,0L0,5.5L-5.5,0z",
  triangle: "M0,-5.5L5.2,4H-5.2z",
  star: "M0,-6L1.4,-1.9H5.7L2.2,0.7L3.5,4.9L0,2.3L-3.5,4.9L-2.2,0.7L-5.7,-1.9H-1.4z",
};

/** List the names of all series below a figure, once each; nothing for one alone. */
export function fillLegend(root, panels) {
  const named = panels.flatMap((panel) => panel.series).filter((series) => series.label);
  const entries = [...new Map(named.map((series) => [series.key, series])).values()];
  root.hidden = entries.length < 2;
  root.replaceChildren(...(root.hidden ? [] : entries).map((series) => element("li", {}, element("span", { "aria-hidden": "true", html: sampleOf(series) }), series.label)));
}

/** A short piece of a series: its line, its marker. */
function sampleOf({ kind, colour, width, dash, marker, points }) {
  const line = kind === "line" ? `<path d="M0,6h30" stroke="${colour}" stroke-width="${width}" stroke-dasharray="${dash.join() || "none"}"/>` : "";
  const sign = kind === "dots" || points ? `<path d="${MARKERS[marker ?? "circle"]}" fill="${colour}" transform="translate(15 6)"/>` : "";
  return `<svg width="30" height="12">${line}${sign}</svg>`;
}

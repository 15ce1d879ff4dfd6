// Legends: a piece of every line with its name, as SVG.

import { element } from "./elements.js";

/** Markers as letters: drawn on the canvas and in the legend alike. */
export const MARKERS = { circle: "●", square: "■", diamond: "◆", triangle: "▲", star: "★" };

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
  const sign = kind === "dots" || points ? `<text x="15" y="6.5" fill="${colour}" font-size="12" text-anchor="middle" dominant-baseline="central">${MARKERS[marker ?? "circle"]}</text>` : "";
  return `<svg width="30" height="12">${line}${sign}</svg>`;
}

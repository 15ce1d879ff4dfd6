// Answers without a server: limits that were computed on grids before, interpolated in between, and marked as such.

import { valueAt } from "./tables.js";

/** What the exported page brings along; undefined where there is a server. */
export const stored = window.giantstepStored;

const NO_SERVER = "This page has no server: it shows stored limits only. Install giantstep and run `giantstep explore` for everything else.";

function lines(entries) {
  return new Response(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
}

/** Answer a request of the page as the server would. */
export function storedAnswer(url, body, story) {
  if (url === "/page/stories.json") return new Response(JSON.stringify(stored.stories));
  if (url === "/api/families") return lines(stored.families);
  if (url === "/api/presets") return lines([]);
  if (url === "/api/controls") return lines([{ controls: "", pipeline: "", theory: stored.theory[story] }]);
  if (url !== "/api/limit") throw new Error(NO_SERVER);
  const known = stored.limits[story];
  if (!known) throw new Error(NO_SERVER);
  const answer = body.curve ? { result: known.kept[body.curve - 1], between: false } : interpolated(known, body.study.scenario);
  const points = (answer.result.dims.converged ?? []).reduce((count, dim) => count * answer.result[dim].length, 1);
  return lines([{ stage: "fine", last: true, points, of: points, warnings: [], stored: answer.between ? "interpolated" : "as computed", result: answer.result }]);
}

/** The limit at the sliders of a scenario, from its neighbours on the grid of stored ones. */
export function interpolated({ axes, template, states }, scenario) {
  const places = axes.map((axis) => place(axis, valueAt(scenario, axis.field.split("."))));
  let corners = [{ index: 0, weight: 1 }];
  places.forEach(({ low, part }, i) => {
    corners = corners.flatMap(({ index, weight }) => [
      { index: index * axes[i].values.length + low, weight: weight * (1 - part) },
      { index: index * axes[i].values.length + low + 1, weight: weight * part },
    ]).filter(({ weight }) => weight > 0);
  });
  const result = { ...template };
  for (const name of Object.keys(states[0])) result[name] = mixed(corners.map(({ index }) => states[index][name]), corners.map(({ weight }) => weight));
  return { result, between: corners.length > 1 };
}

function place({ values, log }, value) {
  const scale = (x) => (log ? Math.log(x) : x);
  const last = values.length - 1;
  const held = Math.min(Math.max(value, values[0]), values[last]);
  const low = Math.max(0, Math.min(last - 1, values.findLastIndex((known) => known <= held)));
  const part = (scale(held) - scale(values[low])) / (scale(values[low + 1]) - scale(values[low]));
  return Math.abs(part) < 1e-9 ? { low, part: 0 } : Math.abs(part - 1) < 1e-9 ? { low, part: 1 } : { low, part };
}

/** A weighted mean, entry by entry; what is no number is taken from where the weight is largest. */
function mixed(entries, weights) {
  if (Array.isArray(entries[0])) return entries[0].map((_, i) => mixed(entries.map((entry) => entry[i]), weights));
  if (entries.every((entry) => typeof entry === "number")) return entries.reduce((sum, entry, i) => sum + weights[i] * entry, 0);
  return entries[weights.indexOf(Math.max(...weights))];
}

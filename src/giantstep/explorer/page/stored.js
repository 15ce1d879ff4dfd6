// Answers without a server: limits that were computed before, where the sliders of the stories stop.

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
  const result = body.curve ? known.kept[body.curve - 1] : { ...known.template, ...known.states[placeOf(known.axes, body.study.scenario)] };
  const points = (result.dims.converged ?? []).reduce((count, dim) => count * result.layout.sizes[dim], 1);
  return lines([{ stage: "fine", last: true, points, of: points, warnings: [], stored: "as computed", result }]);
}

/** Which of the stored limits belongs to the sliders of a scenario, which stop where one was computed. */
function placeOf(axes, scenario) {
  return axes.reduce((place, { field, values }) => {
    const value = valueAt(scenario, field.split("."));
    const nearest = values.reduce((best, known, i) => (Math.abs(known - value) < Math.abs(values[best] - value) ? i : best), 0);
    return place * values.length + nearest;
  }, 0);
}

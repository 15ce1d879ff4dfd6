// Design questions: where a variable is best, and what it depends on.

import { element, tableElement } from "./elements.js";
import { asked } from "./http.js";
import { $, actions, page, problem } from "./session.js";
import { sent } from "./state.js";
import { short, words } from "./text.js";

/** Mark where the first variable shown is best, within the ranges of the fields that vary. */
export async function markOptimum(largest) {
  const found = await design("/api/optimum", { largest });
  if (!found) return;
  page.current.optimum = found;
  const at = Object.entries(found.fields).map(([name, places]) => `${words(name)} ${places.map((place) => short(place, 5)).join("; ")}`);
  $("design-status").textContent = `${largest ? "largest" : "smallest"} ${words(found.variable)} ${found.values.map((value) => short(value, 5)).join("; ")} at ${at.join(", ")}`;
  actions.draw();
}

/** Say how the first variable shown changes with each field of the scenario. */
export async function showMatters() {
  const found = await design("/api/sensitivities", {});
  if (!found) return;
  const largest = Math.max(...found.elasticity.map((value) => Math.abs(value ?? 0)), 1e-12);
  const rows = found.field.map((name, i) => {
    const value = found.elasticity[i];
    const size = typeof value === "number" ? Math.round((100 * Math.abs(value)) / largest) : 0;
    const bar = element("span", { class: `pull ${value > 0 ? "up" : "down"}`, style: `width:${size}px`, "aria-hidden": "true" });
    return [words(name), short(found.at[i], 4), short(found.derivative[i], 4), element("span", {}, bar, ` ${short(value, 3)}`)];
  });
  const note = `Percent that ${words(found.variable)} = ${short(found.value, 5)} changes for one percent of a field, at the values of the sliders. ${found.remark}`;
  $("matters-box").hidden = false;
  $("matters-table").replaceChildren(tableElement(["field", "at", "derivative", "elasticity"], rows), element("p", { class: "help" }, note));
}

async function design(url, more) {
  const { study, variables } = page.state;
  $("design-status").textContent = "searching …";
  try {
    const found = await (await asked(url, { study: sent(study), variable: variables[0], ...more })).json();
    return study === page.state.study ? found : null; // not an answer to what is no longer shown
  } catch (error) {
    problem(error.message);
    return null;
  } finally {
    $("design-status").textContent = "";
  }
}

export function forgetDesign() {
  page.current.optimum = null;
  $("matters-box").hidden = true;
  $("design-status").textContent = "";
}

// Design questions: where a variable is best, and what it depends on.

import { asked } from "./http.js";
import { $, actions, page, problem } from "./session.js";
import { sent } from "./state.js";

/** Mark where the first variable shown is best, within the ranges of the fields that vary. */
export async function markOptimum(largest) {
  const found = await design("/api/optimum", { largest });
  if (!found) return;
  page.current.optimum = found;
  $("design-status").textContent = found.said;
  actions.draw();
}

/** Say how the first variable shown changes with each field of the scenario. */
export async function showMatters() {
  const found = await design("/api/sensitivities", {});
  if (!found) return;
  $("matters-box").hidden = false;
  $("matters-table").innerHTML = found.html;
}

async function design(url, more) {
  const { study, variables } = page.state;
  $("design-status").textContent = "searching …";
  try {
    const found = await (await asked(url, { study: sent(study), variable: variables[0], ...more })).json();
    return study === page.state.study ? found : null; // not an answer to what is no longer shown
  } catch (error) {
    return problem(error.message);
  } finally {
    $("design-status").textContent = "";
  }
}

export function forgetDesign() {
  page.current.optimum = null;
  $("matters-box").hidden = true;
  $("design-status").textContent = "";
}

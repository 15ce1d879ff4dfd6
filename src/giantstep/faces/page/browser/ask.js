// Limits: asked for as the hand moves; only the latest wish for a curve counts.

import { showWrong } from "./controls.js";
import { element } from "./elements.js";
import { asked, client, linesOf } from "./http.js";
import { $, actions, forgive, page, presetShown, problem, setBusy, status } from "./session.js";
import { sent } from "./state.js";

const SLOW = 300; // milliseconds after which one is told that something is being computed
const THEORY = 8; // after the curve under the sliders and the most that are kept
const asking = new Map();
let wishes = 0; // limits asked for so far: of two requests for a curve the server answers the later one

/** Ask for the limit of one curve; while an answer is under way only the latest wish is kept. */
export async function askLimit(slot) {
  const busy = asking.get(slot);
  if (busy) {
    busy.again = true;
    if (busy.drawn || performance.now() - busy.since > SLOW) busy.control.abort(); // what is drawn already need not become finer
    return;
  }
  const now = { again: false, wish: ++wishes, since: performance.now(), control: new AbortController() };
  asking.set(slot, now);
  setBusy(`limit ${slot}`, true);
  const study = slot ? page.state.kept[slot - 1] : page.state.study;
  const curve = slot ? page.kept[slot - 1] : page.current;
  if (study && curve) await answer(slot, study, curve, now);
  asking.delete(slot);
  if (now.again) askLimit(slot);
  else setBusy(`limit ${slot}`, false);
}

async function answer(slot, study, curve, now) {
  const waiting = setTimeout(() => slot || status("computing …", true), SLOW);
  try {
    const response = await asked("/api/limit", { client, curve: slot, wish: now.wish, study: sent(study), variables: page.state.variables }, { signal: now.control.signal });
    for await (const line of linesOf(response)) {
      clearTimeout(waiting); // the end of the stream may come much later than its line
      if (line.stage === "failed") throw Object.assign(new Error(line.error), { field: line.field });
      Object.assign(curve, { result: line.result, about: line, refused: "" });
      actions.draw();
      if (!slot) told(line, performance.now() - now.since);
      now.drawn = true;
      if (now.again) now.control.abort();
    }
    if (slot || now.again) return;
    forgive("limit");
    showWrong(null);
  } catch (error) {
    if (error.name === "AbortError" || now.again) return;
    if (error.stale) now.again = true; // dropped for a request that is older than this one: it is asked again
    else refused(slot, curve, error);
  } finally {
    clearTimeout(waiting);
  }
}

/** Ask for the theory at the experiment's dimension along the whole curve: what its dots are held to. */
export async function askTheory() {
  const { study, variables } = page.state;
  const { current } = page;
  const at = { ...study, limit: { ...study.limit, dim: study.experiment.dim } };
  try {
    for await (const line of linesOf(await asked("/api/limit", { client, curve: THEORY, wish: ++wishes, study: sent(at), variables }))) {
      if (line.stage !== "failed") current.theory = line.result;
      actions.draw();
    }
  } catch { /* at the dots it is known anyway */ }
}

/** Say why there is no limit; the last good curve stays, faint. */
function refused(slot, curve, error) {
  curve.refused = error.message;
  const command = presetShown()?.command;
  problem((slot ? `Curve ${slot + 1}: ${error.message}` : error.message) + (command ? ` In the terminal: ${command}` : ""), "limit");
  if (slot) return;
  status("not computed");
  $("remarks").replaceChildren();
  showWrong(error.field, error.message);
  actions.draw();
}

function told(line, milliseconds) {
  const points = line.of > 1 ? `${line.points} of ${line.of} points` : "one point";
  if (line.stage === "coarse") status(`<span class="coarse">coarse</span>, ${points}${line.last ? "" : "; the fine curve is being computed …"}`);
  else status(`limit, ${line.of > 1 ? `${line.of} points` : points}, ${Math.round(milliseconds)} ms`);
  $("remarks").replaceChildren(...[...line.warnings, ...(line.note ? [line.note] : [])].map((text) => element("li", {}, text)));
}

// The experiment: started, followed while its dots stream in, stopped, and judged.

import { askTheory } from "./ask.js";
import { showWrong } from "./controls.js";
import { unfold } from "./elements.js";
import { asked, client } from "./http.js";
import { $, actions, page, problem } from "./session.js";
import { sent } from "./state.js";

let running = null;

export async function runExperiment() {
  const wrong = $("controls").querySelector("[data-own][aria-invalid]");
  if (wrong) {
    unfold(wrong);
    return wrong.focus();
  }
  stopExperiment();
  if (!page.current.refused) problem("");
  forgetExperiment();
  const mine = { name: null, source: null, total: 0, done: 0 };
  running = mine;
  tell("starting …", true);
  try {
    const { study, dots, budget, variables } = page.state;
    Object.assign(mine, await (await asked("/api/experiment", { client, study: sent(study), dots, budget, variables })).json());
  } catch (error) {
    return fail(mine, "not started", error.message, error.field);
  }
  if (running === mine) follow(mine);
  else kill(mine);
}

function follow(mine) {
  mine.source = new EventSource(`/api/experiment/${encodeURIComponent(mine.name)}`);
  const on = (kind, take) => mine.source.addEventListener(kind, (event) => running === mine && take(JSON.parse(event.data)));
  on("progress", ({ done, total }) => {
    Object.assign(mine, { done, total });
    Object.assign($("progress"), { max: total, value: done });
    tell(`${done} of ${total} trials`, true);
  });
  on("dots", ({ result }) => showDots(result));
  on("comparison", ({ result, agreement, report }) => {
    page.finished = { name: mine.name, grid: mine.grid };
    showReport(report);
    showDots({ ...result, called: agreement?.compared_with });
    if (result.source?.includes("theory")) askTheory();
  });
  on("finished", () => end(mine, `finished: ${mine.total} trials`));
  on("stopped", ({ reason }) => end(mine, `stopped after ${mine.done} of ${mine.total} trials: ${reason}`));
  on("refused", ({ error, field }) => fail(mine, "not computed", error, field));
  mine.source.addEventListener("error", () => mine.source.readyState === EventSource.CLOSED && end(mine, "the connection was lost"));
}

function showDots(result) {
  page.current.dots = result;
  if (page.current.refused) page.current.result = null; // the last curve that had a theory is another scenario's
  actions.draw();
}

function fail(mine, sentence, error, field) {
  if (running !== mine) return;
  end(mine, sentence);
  problem(error);
  showWrong(field, error);
}

function end(mine, sentence) {
  mine.source?.close();
  if (running !== mine) return;
  running = null;
  tell(sentence, false);
}

const kill = ({ name }) => asked(`/api/experiment/${name}`, undefined, { method: "DELETE" }).catch(() => {});

export function stopExperiment(byHand = false) {
  const mine = running;
  if (!mine) return byHand || tell("", false);
  if (mine.name) kill(mine);
  if (!byHand || !mine.name) end(mine, byHand ? "stopped" : "stopped: the scenario changed");
}

/** Say how far it is; while it runs it can be stopped, not started. */
function tell(sentence, isRunning) {
  if (!isRunning || !$("run").disabled) $("progress").removeAttribute("value");
  $("run").disabled = isRunning;
  $("stop").hidden = $("progress").hidden = !isRunning;
  $("experiment-status").textContent = sentence;
}

/** Forget the dots: they belong to another scenario, or new ones are to come. */
export function forgetExperiment() {
  Object.assign(page.current, { dots: null, theory: null });
  page.finished = null;
  showReport(null);
}

/** The report of a comparison, which the server writes. */
function showReport(report) {
  page.verdicts = report?.verdicts ?? [];
  $("agreement-box").hidden = !report;
  $("agreement").innerHTML = report?.html ?? "";
  document.querySelector('[data-file="dots"]').hidden = !page.finished;
}

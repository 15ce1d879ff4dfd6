// The experiment: started, followed while its dots stream in, stopped, and judged.

import { askTheory } from "./ask.js";
import { showWrong } from "./controls.js";
import { element, tableElement, unfold } from "./elements.js";
import { asked, client } from "./http.js";
import { $, actions, page, problem } from "./session.js";
import { sent } from "./state.js";
import { words } from "./text.js";

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
  buttons(true);
  showProgress("starting …");
  try {
    const { state } = page;
    Object.assign(mine, await (await asked("/api/experiment", { client, study: sent(state.study), dots: state.dots, budget: state.budget })).json());
  } catch (error) {
    if (running === mine) fail(mine, "not started", error.message, error.field);
    return;
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
    showProgress(`${done} of ${total} trials`);
  });
  on("dots", ({ result }) => showDots(result));
  on("comparison", ({ result, agreement, warnings }) => {
    page.finished = { name: mine.name, grid: mine.grid };
    showAgreement(agreement, warnings);
    showDots({ ...result, called: agreement?.compared_with });
    if (result.source?.includes("theory")) askTheory();
  });
  on("finished", () => end(mine, `finished: ${mine.total} trials`));
  on("stopped", ({ reason }) => end(mine, `stopped after ${mine.done} of ${mine.total} trials: ${reason}`));
  on("refused", ({ error, field }) => fail(mine, "not computed", error, field));
  mine.source.addEventListener("error", () => {
    if (running === mine && mine.source.readyState === EventSource.CLOSED) end(mine, "the connection was lost");
  });
}

function showDots(result) {
  page.current.dots = result;
  if (page.current.refused) page.current.result = null; // the last curve that had a theory is another scenario's
  actions.draw();
}

function fail(mine, sentence, error, field) {
  end(mine, sentence);
  problem(error);
  showWrong(field, error);
}

function end(mine, sentence) {
  mine.source?.close();
  if (running !== mine) return;
  running = null;
  buttons(false);
  showProgress(sentence);
}

const kill = ({ name }) => asked(`/api/experiment/${name}`, undefined, { method: "DELETE" }).catch(() => {});

export function stopExperiment(byHand = false) {
  const mine = running;
  if (!mine) {
    if (!byHand) showProgress("");
    return;
  }
  if (mine.name) kill(mine);
  if (!byHand || !mine.name) end(mine, byHand ? "stopped" : "stopped: the scenario changed");
}

/** Forget the dots: they belong to another scenario, or new ones are to come. */
export function forgetExperiment() {
  Object.assign(page.current, { dots: null, theory: null });
  page.finished = null;
  showAgreement(null);
}

function buttons(isRunning) {
  $("run").disabled = isRunning;
  $("stop").hidden = $("progress").hidden = !isRunning;
  $("progress").removeAttribute("value");
}

function showProgress(sentence) {
  $("experiment-status").textContent = sentence;
}

/** The report of a comparison: the verdicts in words, with what could have been seen, then the numbers. */
function showAgreement(report, warnings = []) {
  page.agreement = report;
  $("agreement-box").hidden = !report;
  document.querySelector('[data-file="dots"]').hidden = !page.finished;
  if (!report) return;
  const number = (value, digits) => (typeof value === "number" ? value.toFixed(digits) : "–");
  const percent = (value) => (typeof value === "number" ? `${Number((100 * value).toPrecision(3))}%` : "–");
  const judged = judgedRows(report);
  const rows = judged.map((row) => [words(row.variable), String(row.points), number(row.largest_z, 2), number(row.chance_z, 2), percent(row.gap), percent(row.visible_gap), row.verdict]);
  const note = `z is the gap between experiment and ${report.compared_with} in standard errors; by chance the largest of so many passes its line once in 1,000. At a finite dimension small gaps remain that are no error of either side.`;
  const help = [note, ...warnings].map((text) => element("p", { class: "help" }, text));
  $("agreement").replaceChildren(...judged.map((row) => element("p", { class: `verdict ${row.verdict}` }, row.sentence)), ...report.notes.map((text) => element("p", {}, text)),
    tableElement(["variable", "points", "largest |z|", "by chance", "gap", "visible gap", "verdict"], rows), ...help);
}

/** What a comparison says of the variables shown; of all its own where none of them was judged. */
export function judgedRows(report) {
  const shown = report.variables.filter((row) => page.state.variables.includes(row.variable));
  return shown.length ? shown : report.variables.filter((row) => row.own);
}

// The page: asks for limits as the hand moves, runs experiments, shows, links and downloads.

import { drawSides } from "./ab.js";
import { figure, slicesOf, swatch, tableOf } from "./chart.js";
import { element } from "./elements.js";
import { equationsOf, linkSymbols } from "./equations.js";
import { applySearch } from "./find.js";
import { frameOf, retrace } from "./follow.js";
import { buildForm, showWrong } from "./form.js";
import { keptCurve } from "./kept.js";
import { History, wishOf } from "./history.js";
import { drawnVariables, fillSwitch, fit, fitSide, isSingle, listNames, measureStage, presentVariables, renameListed, tellAbsent } from "./layout.js";
import { longLink, shortLink } from "./link.js";
import { begun, frameShown, loadScript, noteBegun, noteDrawn, opened } from "./opening.js";
import { pictureOf } from "./picture.js";
import { firstStudy, firstVariables, symbolOf } from "./schema.js";
import { canSketch, sketch } from "./sketch.js";
import { firstState, fromLink, labelsOf, MOST_KEPT, sent, stateOf } from "./state.js";
import { stored, storedAnswer } from "./stored.js";
import { showStory, storyLabels, storyState } from "./story.js";
import { atTime, timesOf } from "./time.js";
import { greek, pretty, short, words } from "./symbols.js";

const $ = (id) => document.getElementById(id);
const client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
const SLOW = 300;
const STILL = 200; // milliseconds without a new curve after which the hand rests

let families = {};
let presets = [];
let stories = [];
let picked = ""; // the variable drawn where only some fit
let allListed = false;
let state = null;
let current = { result: null, dots: null, about: null };
let kept = [];
let running = null;
let finished = null;
let isReading = true; // Plotly
const asking = new Map();
let wishes = 0; // limits asked for so far: of two requests for a curve the server answers the later one
const history = new History();

// -- start --------------------------------------------------------------------------------------------------------

async function start() {
  setTheme(remembered("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  listen();
  try {
    stories = await (await asked("/page/stories.json")).json();
    for await (const family of listed("/api/families")) families[family.family] = family;
  } catch (error) {
    problem(`The families could not be loaded: ${error.message}`);
    return;
  }
  const good = Object.values(families).filter((family) => !family.error);
  if (!good.length) return problem("No family could be loaded.");
  const richest = good.reduce((best, family) => (Object.keys(family.questions).length > Object.keys(best.questions).length ? family : best));
  await restore(richest);
  await begun; // reading Plotly takes longer than the first answer, and nothing else can be done meanwhile
  await frameShown();
  loadScript("plotly/plotly-cartesian.min.js").then(draw, (error) => problem(error.message)).finally(() => {
    isReading = false;
    showBusy();
  });
  await opened;
  await loadPresets();
}

async function loadPresets() {
  let filled = 0;
  try {
    for await (const preset of listed("/api/presets")) {
      presets.push(preset);
      if (performance.now() - filled > SLOW && document.activeElement !== $("preset")) {
        fillPresets();
        filled = performance.now();
      }
      if (preset.name === state.preset) {
        about();
        theory();
      }
    }
  } catch (error) {
    problem(`Some presets could not be loaded: ${error.message}`);
  }
  allListed = true;
  fillPresets();
}

async function* listed(url) {
  for await (const line of linesOf(await asked(url))) {
    if (line.stage === "failed") throw new Error(line.error);
    yield line;
  }
}

async function restore(first) {
  const fallback = firstState(first);
  if (location.hash.length > 1) {
    try {
      const linked = fromLink(await longLink(location.hash), families);
      if (stored && !stories.some((story) => story.name === linked.story)) throw new Error("The link is none of this page's stories.");
      load(linked);
      return;
    } catch (error) {
      if (stored) tell(stories[0].name);
      else load(fallback);
      problem(error.message);
      return;
    }
  }
  const begun = stories.find((story) => storyFamily(story));
  if (begun && (stored || !remembered("begun"))) tell(begun.name);
  else load(fallback);
}

function storyFamily(story) {
  const family = families[story.study.scenario.family];
  return family && !family.error ? family : null;
}

/** Load a story by its name. */
function tell(name) {
  const story = stories.find((story) => story.name === name);
  const family = story && storyFamily(story);
  if (!family) return problem("This story needs a family that could not be loaded.");
  load(storyState(story, family, stateOf));
}

/** Leave the stories; what they show stays. */
function leaveStories() {
  keepInMind("begun", "1");
  change({ ...state, story: undefined }, true);
  storyPanel();
  $("find").focus();
}

function storyPanel() {
  const set = (scenario) => change({ ...state, study: { ...state.study, scenario } }, false);
  showStory($("story"), stories, state.story, { go: tell, leave: leaveStories, set, live: () => state });
}

function family() {
  return families[state.study.scenario.family];
}

/** Show another state altogether. */
function load(next) {
  problem("");
  stopExperiment();
  if (state) history.note(state, true);
  state = next;
  current = { result: null, dots: null, about: null };
  kept = state.kept.map(() => ({ result: null, dots: null }));
  finished = null;
  forgetDesign();
  showAgreement(null);
  $("remarks").replaceChildren();
  refreshAll();
  storyPanel();
}

function refreshAll() {
  fillPicks();
  form();
  about();
  theory();
  listKept();
  remember();
  ask(0);
  kept.forEach((_, i) => ask(i + 1));
}

// -- what is asked ------------------------------------------------------------------------------------------------

async function asked(url, body, options = {}) {
  if (stored) return storedAnswer(url, body, state?.story);
  const response = await fetch(url, body === undefined ? options : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw Object.assign(new Error(problem.error ?? `The server answered ${response.status}.`), { field: problem.field, stale: problem.stale });
  }
  return response;
}

/** Ask for the limit of one curve; while an answer is under way only the latest wish is kept. */
async function ask(slot) {
  const busy = asking.get(slot);
  if (busy) {
    busy.again = true;
    if (busy.drawn || performance.now() - busy.since > SLOW) busy.control.abort(); // what is drawn already need not become finer
    return;
  }
  const now = { again: false, wish: ++wishes, since: performance.now(), control: new AbortController() };
  asking.set(slot, now);
  showBusy();
  const study = slot ? state.kept[slot - 1] : state.study;
  const curve = slot ? kept[slot - 1] : current;
  if (study && curve) await answer(slot, study, curve, now);
  asking.delete(slot);
  if (now.again) ask(slot);
  else showBusy();
}

/** Say on the figure whether something is still to come: an answer, a drawing, the address. */
function showBusy() {
  $("chart").setAttribute("aria-busy", String(asking.size > 0 || drawing || isReading || resting !== null || remembering !== null));
}

async function answer(slot, study, curve, now) {
  const sentAt = performance.now();
  const waiting = setTimeout(() => {
    if (slot) return;
    status("computing …", true);
    if (!curve.result) blank("Computing …");
  }, SLOW);
  try {
    const response = await asked("/api/limit", { client, curve: slot, wish: now.wish, study: sent(study), variables: state.variables }, { signal: now.control.signal });
    for await (const line of linesOf(response)) {
      clearTimeout(waiting); // the end of the stream may come much later than its line
      if (line.stage === "failed") throw Object.assign(new Error(line.error), { field: line.field });
      curve.result = line.result;
      curve.about = { ...line, milliseconds: performance.now() - sentAt };
      show();
      if (slot === 0) told(line, performance.now() - sentAt);
      now.drawn = true;
      if (now.again) now.control.abort();
    }
    if (slot === 0 && !now.again) {
      if (complaint === "limit") problem("");
      showWrong($("controls"), null);
    }
  } catch (error) {
    if (error.name === "AbortError" || now.again) return;
    if (error.stale) {
      now.again = true; // dropped for a request that is older than this one: it is asked again
      return;
    }
    status(slot ? "" : "not computed");
    if (slot === 0 && !curve.result) blank("Not computed.");
    if (slot === 0) showWrong($("controls"), error.field, error.message);
    const elsewhere = inTerminal(presets.find((preset) => preset.name === state.preset));
    problem((slot ? `Curve ${slot + 1}: ${error.message}` : error.message) + elsewhere, "limit");
  } finally {
    clearTimeout(waiting);
  }
}

async function* linesOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

function told(line, milliseconds) {
  if (line.stored) return status(`stored limit, ${line.stored}`);
  const points = line.of > 1 ? `${line.points} of ${line.of} points` : "one point";
  if (line.stage === "coarse") status(line.last ? `<span class="coarse">coarse</span>, ${points}` : `<span class="coarse">coarse</span>, ${points}; the fine curve is being computed …`);
  else status(`limit, ${line.of > 1 ? `${line.of} points` : points}, ${Math.round(milliseconds)} ms`);
  const { converged, status: reasons } = line.result;
  const bad = [converged].flat(Infinity).filter((value) => value === false).length;
  const why = [reasons].flat(Infinity).find(Boolean);
  const remarks = line.warnings.length ? line.warnings : bad ? [`${bad} of ${line.points} points were not solved: ${why}`] : [];
  $("remarks").replaceChildren(...[...remarks, ...(line.note ? [line.note] : [])].map((text) => element("li", {}, text)));
}

// -- changes ------------------------------------------------------------------------------------------------------

const computed = (study) => JSON.stringify([study.scenario, study.what, study.grid, study.settings, study.limit]);

function change(next, rebuild) {
  const before = state;
  if (JSON.stringify(before) !== JSON.stringify(next)) history.note(before);
  state = next;
  const differs = computed(before.study) !== computed(state.study);
  const marked = Boolean(current.dots || current.optimum);
  if (complaint === "page") problem("");
  if (differs) {
    stopExperiment();
    current.dots = null;
    forgetDesign();
    finished = null;
    showAgreement(null);
    if (state.preset) leavePreset();
  }
  if (rebuild) form();
  if (differs && state.kept.length) listKept();
  const others = JSON.stringify(before.variables) !== JSON.stringify(state.variables);
  if (differs || others) ask(0);
  if (others) kept.forEach((_, i) => ask(i + 1));
  if (others || rebuild) theory();
  remember();
  if (!differs || marked || rebuild) draw(); // else the answer is drawn as soon as it comes
}

/** What is shown is no longer the preset. */
function leavePreset() {
  state.preset = "";
  $("preset").value = "";
  about();
}

function form() {
  buildForm($("controls"), { family: family(), live: () => state, change, wrong: (name, sentence) => showWrong($("controls"), name, sentence) });
  search();
}

function search() {
  const count = applySearch($("controls"), $("find").value);
  $("find-status").textContent = count === null ? "" : `${count} found`;
}

/** Go to the state before, or after; going there is no step of its own. */
function travel(wish) {
  const next = wish === "undo" ? history.undo(state) : history.redo(state);
  if (!next) return;
  state = null;
  load(next);
}

async function writeLink() {
  const shown = state;
  const link = await shortLink(shown, families);
  if (shown !== state) return;
  window.history.replaceState(null, "", link);
  remembering = null;
  showBusy();
}

let remembering = null;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(writeLink, 150);
  showBusy();
  $("undo").disabled = !history.past.length;
  $("redo").disabled = !history.future.length;
}

// -- showing ------------------------------------------------------------------------------------------------------

function names() {
  const told = storyLabels(stories.find((story) => story.name === state.story));
  if (told?.length === state.kept.length + 1) return told;
  const labels = state.kept.length ? labelsOf(family(), [state.study, ...state.kept]) : [""];
  return labels.map((label, slot) => (slot && state.kept[slot - 1].name) || label);
}

/** The times a figure lays over each other, of which a slider picks one. */
function timesShown() {
  return timesOf(family().questions[state.study.what], current.result, state.variables);
}

function timeSlider() {
  const shown = timesShown();
  $("times").hidden = !shown;
  if (!shown) return;
  $("time").max = shown.times.length - 1;
  $("time").value = state.time ?? -1;
  const text = state.time === undefined ? "all" : short(shown.times[Math.min(state.time, shown.times.length - 1)]);
  $("time-shown").textContent = text;
  $("time").setAttribute("aria-valuetext", text);
}

/** A, B and their difference instead of one figure. */
function sides(name) {
  const [a, b] = curves();
  const make = (several) => {
    const { traces, layout, summary } = figure({ family: family(), state: { ...state, variables: [name] }, curves: several, dark: isDark(), narrow: true });
    return { traces, layout, summary };
  };
  drawSides($("ab"), { a, b, name, draw: make, fit: fitSide, config: { responsive: true, displayModeBar: false } });
  fillSwitch($("switch"), state, [name], (other) => { picked = other; draw(); }, family().questions[state.study.what].variables);
  measureStage(document.querySelector(".stage"));
}

function curves() {
  const labels = names();
  const time = timesShown();
  const picked = (result) => (time && state.time !== undefined ? atTime(result, time.dim, state.time) : result);
  return [current, ...kept].map((curve, slot) => ({ ...curve, result: picked(curve.result), dots: picked(curve.dots), label: labels[slot], slot }));
}

/** Take the figure away, where it shows another state than the page. */
function blank(sentence) {
  if (window.Plotly && drawn) Plotly.purge($("chart"));
  drawn = "";
  $("chart").replaceChildren(element("p", { class: "help" }, sentence));
  $("chart").setAttribute("aria-label", `Figure. ${sentence}`);
}

let drawing = false;
let drawn = "";
let frame = ""; // of the figure Plotly has drawn
let listHeight = 0; // pixels that the names of curves take below the figure
let left = []; // names of the axes whose ranges Plotly chose
const regrown = {}; // how often an axis has grown for the hand: Plotly keeps a range that is not its own until told otherwise
let resting = null;

/** Show an answer: its lines at once where they can follow the hand, else all of the figure. */
function show() {
  if (drawing || !followed()) return draw();
  clearTimeout(resting);
  resting = setTimeout(rest, STILL);
}

/** Draw all of the figure, unless the hand has moved on and waits for its first answer. */
function rest() {
  const now = asking.get(0);
  if (now && !now.drawn) resting = setTimeout(rest, STILL);
  else draw();
}

function draw() {
  if (!state) return;
  clearTimeout(resting);
  resting = null;
  $("chart").classList.toggle("stale", !current.result);
  if (drawing) return;
  drawing = true;
  showBusy();
  requestAnimationFrame(() => {
    drawing = false;
    paint();
    showBusy();
  });
}

/** What is to be drawn now: the variables there is room for, and their figure. */
function composed() {
  const question = family().questions[state.study.what];
  const present = { ...state, variables: presentVariables(question, state.variables, curves()) };
  const variables = drawnVariables(present, picked);
  const shown = { family: family(), state: { ...state, variables }, curves: curves(), dark: isDark(), narrow: variables.length === 1 && isSingle(), listed: isSingle() };
  return { question, present, variables, make: () => figure(shown) };
}

const isSplit = () => Boolean(state.ab && kept[0]?.result);

/** Let the lines follow the hand; false where Plotly must draw. */
function followed() {
  if (!drawn || !current.result || isSplit()) return false;
  try {
    const { traces, layout, list } = composed().make();
    if (frameOf(traces, fit(layout, listHeight)) !== frame) return false;
    let outcome = retrace($("chart"), traces, left);
    if (typeof outcome === "object") {
      Plotly.relayout($("chart"), Object.fromEntries(Object.entries(outcome).map(([name, range]) => [`${name}.range`, range])));
      left = left.filter((name) => !(name in outcome));
      for (const name of Object.keys(outcome)) regrown[name] = (regrown[name] ?? 0) + 1;
      outcome = retrace($("chart"), traces, left);
    }
    renameListed($("named"), list);
    return outcome === "drawn";
  } catch {
    return false; // what is wrong is said where it is drawn
  }
}

/** Let the reader pick a variable, where not all fit. */
function offerVariables(present, variables, question) {
  fillSwitch($("switch"), present, variables, (name) => { picked = name; draw(); }, question.variables);
}

/** Draw the first picture while Plotly is not there yet, where it can be drawn without. */
function begin() {
  const { question, present, variables, make } = composed();
  const { traces, layout: natural, summary, list } = make();
  if (!isSplit() && canSketch(traces)) {
    timeSlider();
    offerVariables(present, variables, question);
    const layout = fit(natural, listNames($("named"), list));
    $("chart").style.height = `${layout.height}px`;
    sketch($("chart"), traces, layout);
    $("chart").setAttribute("aria-label", `Figure. ${summary}`);
  }
  noteBegun();
}

function paint() {
  if (!current.result) return;
  if (!window.Plotly) return begin();
  timeSlider();
  const { question, present, variables, make } = composed();
  tellAbsent(question, state.variables, present.variables);
  $("ab").hidden = !isSplit();
  $("chart").hidden = isSplit();
  if (isSplit()) {
    listNames($("named"), []);
    sides(present.variables.includes(picked) ? picked : variables[0]);
    noteDrawn();
    return;
  }
  try {
    const { traces, layout: natural, summary, list } = make();
    listHeight = listNames($("named"), list);
    const layout = fit(natural, listHeight);
    const kind = JSON.stringify([layout.showlegend, layout.height, traces.map((trace) => trace.type + trace.yaxis)]);
    if (!drawn) $("chart").replaceChildren();
    $("chart").style.height = `${layout.height}px`;
    const render = kind === drawn ? Plotly.react : Plotly.newPlot; // react keeps margins that a former legend needed
    drawn = kind;
    frame = frameOf(traces, layout);
    left = Object.keys(layout).filter((name) => layout[name]?.autorange);
    for (const name of left) if (regrown[name]) layout[name].uirevision = `${layout.uirevision} ${regrown[name]}`;
    render($("chart"), traces, layout, { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] });
    $("chart").setAttribute("aria-label", `Figure. ${summary}`);
    offerVariables(present, variables, question);
    measureStage(document.querySelector(".stage"));
  } catch (error) {
    problem(`This result cannot be drawn: ${error.message}`);
  }
  if ($("numbers-box").open) numbers();
  slices();
  noteDrawn();
}

function slices() {
  const slices = Object.entries(slicesOf({ family: family(), state, curves: curves() }));
  $("slices").hidden = !slices.length;
  if (!slices.length || $("slices").contains(document.activeElement)) return;
  $("slices").replaceChildren(...slices.flatMap(([dim, labels]) => {
    const list = element("select", { id: `slice-${dim}`, onchange: () => change({ ...state, slices: { ...state.slices, [dim]: list.selectedIndex } }) });
    labels.forEach((label, i) => list.append(element("option", { selected: i === (state.slices?.[dim] ?? 0) }, String(label))));
    return [element("label", { for: `slice-${dim}` }, words(dim)), list];
  }));
}

function numbers() {
  const { head, rows, left } = tableOf({ family: family(), state, curves: curves() });
  $("numbers").replaceChildren(table(head, rows), ...(left ? [element("p", { class: "help" }, `${left} more rows: download the CSV.`)] : []));
}

function table(head, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", { scope: "col" }, cell)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))));
}

function status(html, soft = false) {
  $("status").innerHTML = soft && $("status").querySelector(".coarse") ? $("status").innerHTML : html;
}

/** Say what is wrong; what a limit complained of is taken back by the next good answer, the rest by the next change. */
let complaint = "";
function problem(sentence, about = "page") {
  complaint = sentence ? about : "";
  $("problem").textContent = sentence;
  $("problem").hidden = !sentence;
}

function about() {
  const preset = presets.find((preset) => preset.name === state.preset);
  const title = element("b", {}, preset && preset.description ? preset.title : family().title);
  const text = preset && preset.description ? ` ${preset.description} ${preset.parameters}` : ` ${family().questions[state.study.what].meaning}.`;
  $("about").replaceChildren(title, text);
}

function theory() {
  const { questions, theories } = family();
  const question = questions[state.study.what];
  const what = element("dl", { class: "what" });
  for (const variable of question.variables.filter((variable) => state.variables.includes(variable.name))) {
    what.append(element("dt", { class: "math", html: pretty(symbolOf(family(), state.notation, variable.name, variable.symbol)) || variable.name }), element("dd", {}, `${words(variable.name)}: ${greek(variable.meaning)}`));
  }
  const named = state.study.limit.theory ?? Object.keys(theories)[0];
  what.append(element("dt", {}, "theory"), element("dd", {}, `${named}: ${theories[named]}`));
  const preset = presets.find((preset) => preset.name === state.preset);
  const papers = [...family().papers].sort((a, b) => (b.key === preset?.paper) - (a.key === preset?.paper));
  const plain = element("pre", { tabindex: "0", "aria-label": "Model and update rule" }, greek(family().update_rule));
  const sketch = pictureOf(family());
  $("theory").replaceChildren(...(sketch ? [sketch] : []), equationsOf(family(), plain), what, ...papers.map((value) => paper(value, value.key === preset?.paper)));
}

function paper({ key, title, bibtex }, isShown) {
  const id = /eprint\s*=\s*\{([^}]+)\}/.exec(bibtex)?.[1];
  const source = id ? element("a", { href: `https://arxiv.org/abs/${encodeURIComponent(id)}`, rel: "noopener noreferrer", target: "_blank" }, `arXiv ${id}`) : "";
  const head = element("div", {}, `${authors(bibtex)}: `, element("span", {}, plainTitle(title || key)), " ", source, isShown ? " (this figure)" : "");
  return element("div", { class: "paper" }, head, element("details", {}, element("summary", {}, "BibTeX"), element("pre", {}, bibtex)));
}

function plainTitle(title) {
  return title.replace(/[{}\\]/g, "");
}

/** "Dandi et al. 2025" from a BibTeX entry. */
function authors(bibtex) {
  const names = /author\s*=\s*\{([\s\S]*?)\},?\n/.exec(bibtex)?.[1]?.split(/\s+and\s+/) ?? [];
  const surname = (names[0] ?? "").split(",")[0].replace(/\\['"`^~=.]|[{}\\]/g, "").trim();
  const year = /year\s*=\s*\{(\d+)\}/.exec(bibtex)?.[1] ?? "";
  return `${surname}${names.length > 2 ? " et al." : names.length === 2 ? ` and ${names[1].split(",")[0].replace(/[{}\\'"`^]/g, "").trim()}` : ""} ${year}`;
}

// -- picks --------------------------------------------------------------------------------------------------------

function fillPicks() {
  fill($("family"), Object.values(families).map((family) => [family.family, family.error ? `${family.family} (broken)` : family.title]), state.study.scenario.family);
  fill($("question"), Object.entries(family().questions).map(([name]) => [name, words(name)]), state.study.what);
  const papers = Object.keys(family().notation ?? {}).map((key) => [key, authors(family().papers.find((paper) => paper.key === key)?.bibtex ?? key)]);
  fill($("notation"), [["ours", "ours"], ...papers], state.notation);
  fillPresets();
}

function fill(list, options, value) {
  list.replaceChildren(...options.map(([key, text]) => element("option", { value: key, selected: key === value }, text)));
}

function fillPresets() {
  const list = $("preset");
  list.replaceChildren(element("option", { value: "" }, allListed ? "–" : "loading …"));
  const groups = new Map();
  for (const preset of presets) {
    const name = preset.family || "other";
    if (!groups.has(name)) groups.set(name, element("optgroup", { label: families[name]?.title ?? name }));
    groups.get(name).append(element("option", { value: preset.name, selected: preset.name === state.preset }, preset.terminal ? `${preset.title} (runs in the terminal)` : preset.title));
  }
  const mine = state.study.scenario.family;
  list.append(...[...groups.entries()].sort(([a], [b]) => (b === mine) - (a === mine)).map(([, group]) => group));
  list.value = presets.some((preset) => preset.name === state.preset) ? state.preset : "";
}

/** Where else a figure can be made. */
function inTerminal(preset) {
  return preset?.command ? ` In the terminal: ${preset.command}` : "";
}

function pickPreset(name) {
  const preset = presets.find((preset) => preset.name === name);
  if (!preset) return;
  const target = families[preset.family];
  if (preset.terminal) {
    problem(`“${preset.title}” takes longer than this page waits. It runs in the terminal: ${preset.command}`);
    fillPresets();
    return;
  }
  if (preset.error || !preset.studies.length || !target || target.error) {
    problem(`The preset “${preset.title}” is broken: ${preset.error ?? target?.error ?? "it has no study"}${inTerminal(preset)}`);
    return;
  }
  try {
    load(stateOf(target, preset.studies, preset.name));
  } catch (error) {
    problem(`The preset “${preset.title}” is broken: ${error.message}`);
  }
}

function pickFamily(name) {
  if (families[name].error) {
    problem(families[name].error);
    $("family").value = state.study.scenario.family;
    return;
  }
  load(firstState(families[name]));
}

/** Ask another question of the same scenario; where that has no answer to it, the family's own example is shown. */
function pickQuestion(what) {
  const example = firstStudy(family(), what);
  const same = JSON.stringify(family().examples?.[what]) === JSON.stringify(family().example);
  const study = same ? { ...example, scenario: state.study.scenario } : example;
  const next = stateOf(family(), [{ ...study, experiment: state.study.experiment }], "");
  load({ ...next, notation: state.notation, dots: state.dots, budget: state.budget, variables: firstVariables(family().questions[what]) });
}

// -- curves kept --------------------------------------------------------------------------------------------------

function keep() {
  if (!current.result || state.kept.length >= MOST_KEPT) return;
  state = { ...state, kept: [...state.kept, state.study] };
  kept = [...kept, { ...current }];
  listKept();
  remember();
  draw();
}

function dropKept(number) {
  state = { ...state, kept: state.kept.filter((_, i) => i !== number) };
  kept = kept.filter((_, i) => i !== number);
  listKept();
  remember();
  draw();
  $("pin").focus();
}

function renameKept(number, name) {
  history.note(state, true);
  state = { ...state, kept: state.kept.map((study, i) => (i === number ? { ...study, name: name || undefined } : study)) };
  listKept();
  remember();
  draw();
}

/** Put a kept curve under the sliders again; it stays among the kept ones. */
function restoreKept(number) {
  const { name, ...study } = state.kept[number];
  const variables = state.variables.filter((variable) => family().questions[study.what].variables.some((known) => known.name === variable));
  load({ ...state, study, story: undefined, variables: variables.length ? variables : firstVariables(family().questions[study.what]) });
}

/** Put B under the sliders and A in its place. */
function swapSides() {
  const [b, ...others] = state.kept;
  const { name, ...study } = b;
  load({ ...state, study, kept: [state.study, ...others] });
}

function listKept() {
  $("pin").disabled = state.kept.length >= MOST_KEPT;
  $("sides").disabled = !state.kept.length;
  $("sides").setAttribute("aria-pressed", String(Boolean(state.ab && state.kept.length)));
  $("swap").hidden = !(state.ab && state.kept.length);
  const labels = names();
  $("pinned").replaceChildren(...state.kept.map((_, i) => {
    const label = labels[i + 1];
    return keptCurve({ label, colour: swatch(i + 1, isDark()), rename: (name) => renameKept(i, name), restore: () => restoreKept(i), drop: () => dropKept(i) });
  }));
}

// -- experiment ---------------------------------------------------------------------------------------------------

async function runExperiment() {
  const wrong = $("controls").querySelector("[data-own][aria-invalid]");
  if (wrong) {
    for (const fold of $("controls").querySelectorAll("details")) if (fold.contains(wrong)) fold.open = true;
    return wrong.focus();
  }
  stopExperiment();
  problem("");
  current.dots = null;
  finished = null;
  showAgreement(null);
  const mine = { name: null, source: null, total: 0, done: 0 };
  running = mine;
  buttons(true);
  showProgress("starting …");
  let started;
  try {
    started = await (await asked("/api/experiment", { client, study: sent(state.study), dots: state.dots, budget: state.budget })).json();
  } catch (error) {
    if (running !== mine) return;
    endExperiment(mine, "not started");
    problem(error.message);
    showWrong($("controls"), error.field, error.message);
    return;
  }
  mine.name = started.name;
  mine.grid = started.grid;
  if (running !== mine) {
    asked(`/api/experiment/${mine.name}`, undefined, { method: "DELETE" }).catch(() => {});
    return;
  }
  follow(mine);
}

function follow(mine) {
  mine.source = new EventSource(`/api/experiment/${encodeURIComponent(mine.name)}`);
  const on = (kind, take) => mine.source.addEventListener(kind, (event) => running === mine && take(JSON.parse(event.data)));
  on("progress", ({ done, total }) => {
    Object.assign(mine, { done, total });
    $("progress").max = total;
    $("progress").value = done;
    showProgress(`${done} of ${total} trials`);
  });
  on("dots", ({ result }) => {
    current.dots = result;
    draw();
  });
  on("comparison", ({ result, agreement, warnings }) => {
    current.dots = { ...result, called: agreement.compared_with };
    finished = { name: mine.name, grid: mine.grid };
    showAgreement(agreement, warnings);
    draw();
  });
  on("finished", () => endExperiment(mine, `finished: ${mine.total} trials`));
  on("stopped", ({ reason }) => endExperiment(mine, `stopped after ${mine.done} of ${mine.total} trials: ${reason}`));
  on("refused", ({ error, field }) => {
    endExperiment(mine, "not computed");
    problem(error);
    showWrong($("controls"), field, error);
  });
  mine.source.addEventListener("error", () => {
    if (running === mine && mine.source.readyState === EventSource.CLOSED) endExperiment(mine, "the connection was lost");
  });
}

function endExperiment(mine, sentence) {
  mine.source?.close();
  if (running !== mine) return;
  running = null;
  buttons(false);
  showProgress(sentence);
}

function stopExperiment(byHand = false) {
  if (!running) {
    if (!byHand) showProgress("");
    return;
  }
  const mine = running;
  if (mine.name) asked(`/api/experiment/${mine.name}`, undefined, { method: "DELETE" }).catch(() => {});
  if (!byHand || !mine.name) endExperiment(mine, byHand ? "stopped" : "stopped: the scenario changed");
}

function buttons(isRunning) {
  $("run").disabled = isRunning;
  $("stop").hidden = $("progress").hidden = !isRunning;
  $("progress").removeAttribute("value");
  document.querySelector('[data-file="dots"]').hidden = !finished;
}

function showProgress(sentence) {
  $("experiment-status").textContent = sentence;
}

/** The report of a comparison: the verdicts in words, with what could have been seen, then the numbers. */
function showAgreement(report, warnings = []) {
  $("agreement-box").hidden = !report;
  document.querySelector('[data-file="dots"]').hidden = !finished;
  if (!report) return;
  const shown = report.variables.filter((row) => state.variables.includes(row.variable));
  const number = (value, digits) => (typeof value === "number" ? value.toFixed(digits) : "–");
  const percent = (value) => (typeof value === "number" ? `${Number((100 * value).toPrecision(3))}%` : "–");
  const judged = shown.length ? shown : report.variables.filter((row) => row.own);
  const rows = judged.map((row) => [words(row.variable), String(row.points), number(row.largest_z, 2), number(row.chance_z, 2), percent(row.gap), percent(row.visible_gap), row.verdict]);
  const sentences = judged.map((row) => element("p", { class: `verdict ${row.verdict}` }, row.sentence));
  const note = element("p", { class: "help" }, `z is the gap between experiment and ${report.compared_with} in standard errors; by chance the largest of so many passes its line once in 1,000. At a finite dimension small gaps remain that are no error of either side.`);
  const about = report.notes.map((text) => element("p", {}, text));
  $("agreement").replaceChildren(...sentences, ...about, table(["variable", "points", "largest |z|", "by chance", "gap", "visible gap", "verdict"], rows), note, ...warnings.map((text) => element("p", { class: "help" }, text)));
}

// -- design -------------------------------------------------------------------------------------------------------

/** Mark where the first variable shown is best, within the ranges of the fields that vary. */
async function markOptimum(largest) {
  const found = await design("/api/optimum", { largest });
  if (!found) return;
  current.optimum = found;
  const at = Object.entries(found.fields).map(([name, places]) => `${words(name)} ${places.map((place) => short(place, 5)).join("; ")}`);
  $("design-status").textContent = `${largest ? "largest" : "smallest"} ${words(found.variable)} ${found.values.map((value) => short(value, 5)).join("; ")} at ${at.join(", ")}`;
  draw();
}

/** Say how the first variable shown changes with each field of the scenario. */
async function showMatters() {
  const found = await design("/api/sensitivities", {});
  if (!found) return;
  const largest = Math.max(...found.elasticity.map((value) => Math.abs(value ?? 0)), 1e-12);
  const rows = found.field.map((name, i) => {
    const value = found.elasticity[i];
    const size = typeof value === "number" ? Math.round((100 * Math.abs(value)) / largest) : 0;
    const bar = element("span", { class: `pull ${value > 0 ? "up" : "down"}`, style: `width:${size}px`, "aria-hidden": "true" });
    return [words(name), short(found.at[i], 4), short(found.derivative[i], 4), element("span", {}, bar, ` ${short(value, 3)}`)];
  });
  const note = element("p", { class: "help" }, `Percent that ${words(found.variable)} = ${short(found.value, 5)} changes for one percent of a field, at the values of the sliders. ${found.remark}`);
  $("matters-box").hidden = false;
  $("matters-table").replaceChildren(table(["field", "at", "derivative", "elasticity"], rows), note);
}

async function design(url, more) {
  const study = state.study;
  $("design-status").textContent = "searching …";
  try {
    const found = await (await asked(url, { study: sent(study), variable: state.variables[0], ...more })).json();
    if (study !== state.study) return null; // an answer to what is no longer shown
    $("design-status").textContent = "";
    return found;
  } catch (error) {
    $("design-status").textContent = "";
    problem(error.message);
    return null;
  }
}

function forgetDesign() {
  current.optimum = null;
  $("matters-box").hidden = true;
  $("design-status").textContent = "";
}

// -- links and files ----------------------------------------------------------------------------------------------

async function copyLink() {
  await writeLink();
  try {
    await navigator.clipboard.writeText(location.href);
    status("the link is copied");
  } catch {
    status("the address of this page is the link");
  }
}

/** What is shown as a file that the server writes. */
async function exported(kind) {
  const labels = curves().map((curve, i) => curve.label || `curve ${i + 1}`);
  const view = { variables: state.variables, log: state.log, labels };
  if (finished) view.dots = finished.grid;
  const studies = [state.study, ...state.kept].map(sent);
  return (await asked(`/api/export/${kind}`, { studies: kind === "toml" ? studies.slice(0, 1) : studies, view })).blob();
}

async function copyText(kind) {
  try {
    await navigator.clipboard.writeText(await (await exported(kind)).text());
    status(`the ${kind === "python" ? "Python" : "TOML"} is copied`);
  } catch (error) {
    problem(`It could not be copied: ${error.message}`);
  }
}

async function download(kind) {
  const name = `giantstep-${state.study.scenario.family}-${state.study.what}`;
  try {
    if (kind === "png" || kind === "svg") save(await picture(kind), `${name}.${kind}`);
    else if (kind === "dots") save(URL.createObjectURL(await (await asked(`/api/experiment/${encodeURIComponent(finished.name)}/csv`)).blob()), `${name}-dots.csv`);
    else {
      save(URL.createObjectURL(await exported(kind)), `${name}.${kind === "python" ? "py" : kind}`);
    }
  } catch (error) {
    problem(`The file could not be made: ${error.message}`);
  }
}

/** The figure in light colours on white, whatever the page looks like. */
async function picture(format) {
  const { traces, layout } = figure({ family: family(), state, curves: curves(), dark: false, narrow: false });
  const width = 620 * Math.min(state.variables.length, 2) + 120;
  return Plotly.toImage({ data: traces, layout: { ...layout, paper_bgcolor: "white", plot_bgcolor: "white" } }, { format, width, height: layout.height, scale: format === "png" ? 2 : 1 });
}

function save(href, name) {
  const link = element("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  if (href.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(href), 10000);
}

// -- theme and events ---------------------------------------------------------------------------------------------

const isDark = () => document.documentElement.dataset.theme === "dark";

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  keepInMind("theme", name);
}

function keepInMind(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch { /* a private window keeps nothing */ }
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function listen() {
  $("family").addEventListener("change", (event) => pickFamily(event.target.value));
  $("preset").addEventListener("change", (event) => pickPreset(event.target.value));
  $("question").addEventListener("change", (event) => pickQuestion(event.target.value));
  $("notation").addEventListener("change", (event) => change({ ...state, notation: event.target.value }, true));
  $("theme").addEventListener("click", () => {
    setTheme(isDark() ? "light" : "dark");
    listKept();
    draw();
  });
  $("run").addEventListener("click", runExperiment);
  $("stop").addEventListener("click", () => stopExperiment(true));
  $("pin").addEventListener("click", keep);
  $("smallest").addEventListener("click", () => markOptimum(false));
  $("largest").addEventListener("click", () => markOptimum(true));
  $("matters").addEventListener("click", showMatters);
  $("link").addEventListener("click", copyLink);
  $("find").addEventListener("input", search);
  $("stories").addEventListener("click", () => tell(stories[0].name));
  $("numbers-box").addEventListener("toggle", () => $("numbers-box").open && numbers());
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copyText(button.dataset.copy));
  for (const button of document.querySelectorAll("[data-file]")) button.addEventListener("click", () => download(button.dataset.file));
  addEventListener("hashchange", async () => {
    try {
      load(fromLink(await longLink(location.hash), families));
    } catch (error) {
      problem(error.message);
    }
  });
  $("sides").addEventListener("click", () => {
    change({ ...state, ab: !state.ab });
    listKept();
  });
  $("swap").addEventListener("click", swapSides);
  $("time").addEventListener("input", () => {
    const place = Number($("time").value);
    change({ ...state, time: place < 0 ? undefined : place });
  });
  $("undo").addEventListener("click", () => travel("undo"));
  $("redo").addEventListener("click", () => travel("redo"));
  addEventListener("keydown", (event) => {
    const wish = wishOf(event);
    if (!wish) return;
    event.preventDefault();
    travel(wish);
  });
  linkSymbols($("theory"), $("side"));
  addEventListener("resize", draw);
}

if (stored) document.body.dataset.stored = "1";
start();

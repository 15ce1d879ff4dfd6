// The page: what it shows is one state; here it starts, changes, goes back, and is written into the address.

import { askLimit, asked, listed } from "./ask.js";
import { keep, listKept, swapSides } from "./curves.js";
import { forgetDesign, markOptimum, showMatters } from "./design.js";
import { linkSymbols } from "./equations.js";
import { forgetExperiment, runExperiment, stopExperiment } from "./experiment.js";
import { applySearch } from "./find.js";
import { buildForm, showWrong } from "./form.js";
import { History, wishOf } from "./history.js";
import { watchStage } from "./layout.js";
import { longLink, shortLink } from "./link.js";
import { fillPicks, leavePreset, loadPresets, pickFamily, pickPreset } from "./picks.js";
import { greyKinds, showPipeline } from "./pipeline.js";
import { $, actions, family, forgive, isDark, keepInMind, page, problem, remembered, setBusy } from "./session.js";
import { copyLink, copyText, download, listenToWords, showWords } from "./share.js";
import { draw, numbers, opened } from "./show.js";
import { firstState, fromLink, stateOf } from "./state.js";
import { stored } from "./stored.js";
import { showStory, storyState } from "./story.js";
import { showAbout, showTheory } from "./theory.js";

const history = new History();

async function start() {
  setTheme(remembered("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  listen();
  try {
    page.stories = await (await asked("/page/stories.json")).json();
    for await (const family of listed("/api/families")) page.families[family.family] = family;
  } catch (error) {
    return problem(`The families could not be loaded: ${error.message}`);
  }
  const good = Object.values(page.families).filter((family) => !family.error);
  if (!good.length) return problem("No family could be loaded.");
  await restore(good.reduce((best, family) => (Object.keys(family.questions).length > Object.keys(best.questions).length ? family : best)));
  await opened;
  await loadPresets();
}

/** Show what the address says, the first story, or the example of a family. */
async function restore(first) {
  const begun = page.stories.find(familyOf);
  if (location.hash.length > 1) {
    try {
      const linked = fromLink(await longLink(location.hash), page.families);
      if (stored && !page.stories.some((story) => story.name === linked.story)) throw new Error("The link is none of this page's stories.");
      return load(linked);
    } catch (error) {
      if (stored) tell(page.stories[0].name);
      else load(firstState(first));
      return problem(error.message);
    }
  }
  if (begun && (stored || !remembered("begun"))) tell(begun.name);
  else load(firstState(first));
}

// -- stories ------------------------------------------------------------------------------------------------------

function familyOf(story) {
  const known = page.families[story.study.scenario.family];
  return known && !known.error ? known : null;
}

/** Load a story by its name. */
function tell(name) {
  const story = page.stories.find((story) => story.name === name);
  if (!story || !familyOf(story)) return problem("This story needs a family that could not be loaded.");
  load(storyState(story, familyOf(story), stateOf));
}

/** Leave the stories; what they show stays, under the same names. */
function leaveStories() {
  keepInMind("begun", "1");
  change({ ...page.state, story: undefined }, true);
  storyPanel();
  $("find").focus();
}

function storyPanel() {
  const set = (scenario) => change({ ...page.state, study: { ...page.state.study, scenario } }, false);
  showStory($("story"), page.stories, page.state.story, { go: tell, leave: leaveStories, set, live: () => page.state });
}

// -- one state after the other ------------------------------------------------------------------------------------

/** Show another state altogether. */
function load(next) {
  problem("");
  stopExperiment();
  if (page.state) history.note(page.state, true);
  page.state = next;
  page.current = {};
  page.kept = next.kept.map(() => ({}));
  forgetExperiment();
  forgetDesign();
  $("remarks").replaceChildren();
  fillPicks();
  form();
  showAbout();
  showTheory();
  showWords();
  listKept();
  remember();
  storyPanel();
  askAll();
  draw();
}

function askAll() {
  askLimit(0);
  page.kept.forEach((_, i) => askLimit(i + 1));
}

const computed = (study) => JSON.stringify([study.scenario, study.what, study.grid, study.settings, study.limit]);

/** Show a state that differs in something; `rebuild` makes the controls anew. */
function change(next, rebuild) {
  const before = page.state;
  if (JSON.stringify(before) !== JSON.stringify(next)) history.note(before);
  page.state = next;
  const differs = computed(before.study) !== computed(next.study);
  const others = JSON.stringify(before.variables) !== JSON.stringify(next.variables);
  forgive("page");
  if (differs) {
    if (rebuild) page.state.study = { ...next.study, name: undefined }; // another kind of scenario: its name need no longer fit
    stopExperiment();
    forgetExperiment();
    forgetDesign();
    if (next.preset) leavePreset();
    if (next.kept.length) listKept();
    askLimit(0);
  }
  if (others) askAll();
  if (rebuild) form();
  if (others || rebuild) showTheory();
  if (before.title !== next.title || before.sentence !== next.sentence) showAbout();
  remember();
  if (!differs || rebuild || page.current.optimum) draw(); // else the answer is drawn as soon as it comes
}

function form() {
  buildForm($("controls"), { family: family(), live: () => page.state, change, wrong: (name, sentence) => showWrong($("controls"), name, sentence) });
  showPipeline();
  if (!stored) greyKinds(async (url, body) => (await asked(url, body)).json()).catch(() => {}); // kinds that cannot be judged are refused when they are chosen
  search();
}

function search() {
  const count = applySearch($("controls"), $("find").value);
  $("find-status").textContent = count === null ? "" : `${count} found`;
}

/** Go to the state before, or after; going there is no step of its own. */
function travel(wish) {
  const next = wish === "undo" ? history.undo(page.state) : history.redo(page.state);
  if (!next) return;
  page.state = null;
  load(next);
}

let remembering = null;

/** Write the state into the address in a moment, or at once. */
function remember(now = false) {
  clearTimeout(remembering);
  setBusy("address", true);
  $("undo").disabled = !history.past.length;
  $("redo").disabled = !history.future.length;
  if (now) return writeLink();
  remembering = setTimeout(writeLink, 150);
  return null;
}

async function writeLink() {
  const shown = page.state;
  const link = await shortLink(shown);
  if (shown !== page.state) return;
  window.history.replaceState(null, "", link);
  setBusy("address", false);
}

// -- events -------------------------------------------------------------------------------------------------------

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  keepInMind("theme", name);
}

function listen() {
  const on = (id, take, kind = "click") => $(id).addEventListener(kind, take);
  on("family", (event) => pickFamily(event.target.value), "change");
  on("preset", (event) => pickPreset(event.target.value), "change");
  on("notation", (event) => change({ ...page.state, notation: event.target.value }, true), "change");
  on("theme", () => {
    setTheme(isDark() ? "light" : "dark");
    listKept();
    draw();
  });
  on("run", runExperiment);
  on("stop", () => stopExperiment(true));
  on("pin", keep);
  on("smallest", () => markOptimum(false));
  on("largest", () => markOptimum(true));
  on("matters", showMatters);
  on("link", copyLink);
  on("find", search, "input");
  on("stories", () => tell(page.stories[0].name));
  on("numbers-box", () => $("numbers-box").open && numbers(), "toggle");
  on("controls", (event) => event.preventDefault(), "submit");
  on("sides", () => {
    change({ ...page.state, ab: !page.state.ab });
    listKept();
  });
  on("swap", swapSides);
  on("time", () => change({ ...page.state, time: Number($("time").value) < 0 ? undefined : Number($("time").value) }), "input");
  on("undo", () => travel("undo"));
  on("redo", () => travel("redo"));
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copyText(button.dataset.copy));
  for (const button of document.querySelectorAll("[data-file]")) button.addEventListener("click", () => download(button.dataset.file));
  addEventListener("hashchange", async () => {
    try {
      load(fromLink(await longLink(location.hash), page.families));
    } catch (error) {
      problem(error.message);
    }
  });
  addEventListener("keydown", (event) => {
    const wish = wishOf(event);
    if (!wish) return;
    event.preventDefault();
    travel(wish);
  });
  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  addEventListener("resize", draw);
  linkSymbols($("theory"), $("side"));
  watchStage(document.querySelector(".stage"));
  listenToWords();
}

Object.assign(actions, { change, load, draw, remember, note: (state) => history.note(state, true) });
if (stored) document.body.dataset.stored = "1";
start();

// The page: what it shows is one state; here it starts and changes.

import { longLink, remember, rememberAnew } from "./address.js";
import { askLimit } from "./ask.js";
import { fillControls, listenToControls } from "./controls.js";
import { keep, listKept } from "./curves.js";
import { forgetDesign, markOptimum, showMatters } from "./design.js";
import { forgetExperiment, runExperiment, stopExperiment } from "./experiment.js";
import { asked } from "./http.js";
import { watchStage } from "./layout.js";
import { fillPicks, loadPresets, pickFamily, pickPreset, showAbout } from "./picks.js";
import { $, actions, forgive, isDark, page, problem, remembered } from "./session.js";
import { copyLink, copyText, download, listenToWords, showWords } from "./share.js";
import { draw, numbers, opened } from "./show.js";
import { firstState, fromLink, stateOf } from "./state.js";
import { showStory } from "./story.js";

async function start() {
  setTheme(remembered("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  listen();
  try {
    page.stories = await (await asked("/page/stories.json")).json();
    for (const family of await (await asked("/api/families")).json()) page.families[family.family] = family;
  } catch (error) {
    return problem(`The families could not be loaded: ${error.message}`);
  }
  if (!Object.values(page.families).some((family) => !family.error)) return problem("No family could be loaded.");
  if (location.hash.length > 1) await openLink();
  else begin();
  await opened;
  await loadPresets();
}

/** Show the first story, or the example of the family with the most questions. */
function begin() {
  const story = page.stories.find(familyOf);
  if (story && !remembered("begun")) return tell(story.name, true);
  const good = Object.values(page.families).filter((family) => !family.error);
  const count = (family) => Object.keys(family.questions).length;
  load(firstState(good.reduce((best, family) => (count(family) > count(best) ? family : best))), true);
}

/** Show what the address says. */
async function openLink() {
  try {
    load(fromLink(await longLink(location.hash), page.families), true);
  } catch (error) {
    if (!page.state) begin();
    problem(error.message);
  }
}

// -- stories ------------------------------------------------------------------------------------------------------

function familyOf(story) {
  const known = page.families[story.study.scenario.family];
  return known && !known.error ? known : null;
}

/** Load a story by its name. */
function tell(name, isFirst = false) {
  const story = page.stories.find((one) => one.name === name);
  if (!story || !familyOf(story)) return problem("This story needs a family that could not be loaded.");
  const { study, kept, variables, log, time, dots = 12 } = story;
  load(stateOf(familyOf(story), [study, ...kept], { story: name, variables, log, time, dots }), isFirst);
  if (!isFirst) scrollTo(0, 0); // on a phone "Next" is far below where the next one begins
}

/** Leave the stories; what they show stays, under the same names. */
function leaveStories() {
  remembered("begun", "1");
  change({ ...page.state, story: undefined });
  storyPanel();
  scrollTo(0, 0);
  $("side").focus({ preventScroll: true });
}

function storyPanel() {
  showStory($("story"), page.stories, page.state.story, { go: tell, leave: leaveStories, set: (next) => change(next, true), live: () => page.state });
}

// -- one state after the other ------------------------------------------------------------------------------------

/** Show another state altogether; `isAddress`: the one that the address of the page leads to. */
function load(next, isAddress = false) {
  problem("");
  stopExperiment();
  page.state = next;
  page.current = {};
  page.kept = next.kept.map(() => ({}));
  forgetExperiment();
  forgetDesign();
  $("remarks").replaceChildren();
  fillPicks();
  fillControls();
  showAbout();
  showWords();
  listKept();
  rememberAnew(isAddress);
  storyPanel();
  askAll();
  draw();
}

function askAll() {
  askLimit(0);
  page.kept.forEach((_, i) => askLimit(i + 1));
}

const computed = ({ study }) => JSON.stringify([study.scenario, study.what, study.grid, study.settings, study.limit]);

/** Show a state that differs in something; where it was dragged there, the controls stay as they are. */
function change(next, isDragged = false) {
  const before = page.state;
  const isOther = computed(before) !== computed(next);
  const isWider = JSON.stringify(before.variables) !== JSON.stringify(next.variables);
  page.state = isOther ? { ...next, preset: "" } : next;
  forgive("page");
  if (isOther) {
    stopExperiment();
    forgetExperiment();
    forgetDesign();
    $("preset").value = "";
    askLimit(0);
  }
  if (isWider) askAll();
  if ((isOther && next.kept.length) || before.kept !== next.kept) listKept();
  if (!isDragged) fillControls();
  if (!isDragged || before.preset !== page.state.preset) showAbout();
  remember();
  if (!isOther || !isDragged) draw(); // else the answer is drawn as soon as it comes
}

// -- events -------------------------------------------------------------------------------------------------------

function setTheme(name) {
  document.documentElement.dataset.theme = remembered("theme", name) ?? name;
}

function listen() {
  const on = (id, take, kind = "click") => $(id).addEventListener(kind, take);
  on("family", (event) => pickFamily(event.target.value), "change");
  on("preset", (event) => pickPreset(event.target.value), "change");
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
  on("stories", () => tell(page.stories[0].name));
  on("numbers-box", () => $("numbers-box").open && numbers(), "toggle");
  on("time", () => change({ ...page.state, time: Number($("time").value) < 0 ? undefined : Number($("time").value) }, true), "input");
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copyText(button.dataset.copy));
  for (const button of document.querySelectorAll("[data-file]")) button.addEventListener("click", () => download(button.dataset.file));
  addEventListener("hashchange", openLink);
  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  addEventListener("resize", draw);
  listenToControls();
  listenToWords();
  watchStage(document.querySelector(".stage"));
}

Object.assign(actions, { change, load, draw, remember });
start();

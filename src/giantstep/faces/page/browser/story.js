// The beginning: a few saved states, each with two sentences and something to drag.

import { element } from "./elements.js";
import { valueAt, withAt } from "./tables.js";
import { short, words } from "./text.js";

const STOPS = 240; // of a slider

/** Show a story, or nothing, in its panel. `actions`: go(name), leave(), set(state), live(). */
export function showStory(root, stories, name, actions) {
  const number = stories.findIndex((story) => story.name === name);
  root.hidden = number < 0;
  document.body.dataset.mode = number < 0 ? "workbench" : "story";
  if (number < 0) return root.replaceChildren();
  const story = stories[number];
  const steps = element("ol", { class: "steps", "aria-label": "Stories" }, ...stories.map((other, i) =>
    element("li", {}, element("button", { type: "button", title: other.title, "aria-label": `${i + 1}: ${other.title}`, "aria-current": i === number ? "step" : null, onclick: () => actions.go(other.name) }, String(i + 1)))));
  const next = stories[number + 1];
  const bar = element("div", { class: "bar" },
    next ? element("button", { type: "button", class: "main", id: "story-next", onclick: () => actions.go(next.name) }, "Next") : null,
    story.forecast ? element("a", { href: "/page/forecast.html" }, "Forecast your own table") : null,
    element("button", { type: "button", id: "story-skip", onclick: actions.leave }, next ? "Skip to the workbench" : "To the workbench"));
  return root.replaceChildren(steps, element("h2", { tabindex: "-1" }, story.title), element("p", {}, story.text), ...story.drag.map((drag) => dragger(drag, actions)), bar);
}

/** One slider of a story. */
function dragger({ field, name, min, max, log, low, high }, { live, set }) {
  const id = `drag-${field}`;
  const path = ["study", "scenario", ...field.split(".")];
  const value = valueAt(live(), path);
  const scale = (x) => (log ? Math.log10(x) : x);
  const shown = element("output", { for: id }, short(value, 3));
  const slider = element("input", { type: "range", id, "data-drag": field, min: scale(min), max: scale(max), step: (scale(max) - scale(min)) / STOPS, value: scale(value), "aria-valuetext": short(value, 3) });
  slider.addEventListener("input", () => {
    const raw = Number(slider.value);
    const next = Number((log ? 10 ** raw : raw).toPrecision(3));
    shown.textContent = short(next, 3);
    slider.setAttribute("aria-valuetext", short(next, 3));
    set(withAt(live(), path, next));
  });
  const head = element("div", { class: "head" }, element("label", { for: id }, name ?? words(field.split(".").pop())), shown);
  return element("div", { class: "drag" }, head, slider, element("div", { class: "ends", "aria-hidden": "true" }, element("span", {}, low ?? ""), element("span", {}, high ?? "")));
}

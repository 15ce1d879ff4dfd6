// A kept curve in the list: its colour, its name, which can be written, and what can be done with it.

import { element } from "./elements.js";

export function keptCurve({ label, colour, rename, restore, drop }) {
  const mark = element("span", { class: "swatch", "aria-hidden": "true", style: `background:${colour}` });
  const name = element("button", { type: "button", class: "name", title: "Give it a name", "aria-label": `${label}: give it a name` }, label);
  const row = element("li", {}, mark, name,
    element("button", { type: "button", title: "Put it under the sliders", "aria-label": `Restore ${label}`, onclick: restore }, "↺"),
    element("button", { type: "button", title: "Remove", "aria-label": `Remove ${label}`, onclick: drop }, "×"));
  name.addEventListener("click", () => {
    const input = element("input", { value: label, maxlength: "60", "aria-label": `Name of ${label}` });
    const done = () => rename(input.value.trim());
    input.addEventListener("change", done);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") input.blur();
      if (event.key === "Escape") input.replaceWith(name);
    });
    name.replaceWith(input);
    input.select();
  });
  return row;
}

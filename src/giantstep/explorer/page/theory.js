// What is shown, in words: title, meaning of the variables, equations, papers.

import { element } from "./elements.js";
import { equationsOf } from "./equations.js";
import { symbolOf } from "./schema.js";
import { $, family, page, question } from "./session.js";
import { greek, pretty, words } from "./symbols.js";

const presetShown = () => page.presets.find((preset) => preset.name === page.state.preset);

/** Say above the figure what it shows. */
export function showAbout() {
  const { title, sentence } = page.state;
  const preset = presetShown()?.description ? presetShown() : null;
  if (title || sentence) return $("about").replaceChildren(element("b", {}, title ?? ""), ` ${sentence ?? ""}`);
  const text = preset ? ` ${preset.description} ${preset.parameters}` : ` ${question().meaning}.`;
  $("about").replaceChildren(element("b", {}, preset ? preset.title : family().title), text);
}

/** Write equations, meanings and papers below the figure. */
export function showTheory() {
  const { theories, papers, update_rule: rule } = family();
  const { state } = page;
  const what = element("dl", { class: "what" });
  for (const variable of question().variables.filter((variable) => state.variables.includes(variable.name))) {
    const symbol = pretty(symbolOf(family(), state.notation, variable.name, variable.symbol)) || variable.name;
    what.append(element("dt", { class: "math", html: symbol }), element("dd", {}, `${words(variable.name)}: ${greek(variable.meaning)}`));
  }
  const named = state.study.limit.theory ?? Object.keys(theories)[0];
  what.append(element("dt", {}, "theory"), element("dd", {}, `${named}: ${theories[named]}`));
  const mine = presetShown()?.paper;
  const sorted = [...papers].sort((a, b) => (b.key === mine) - (a.key === mine));
  const plain = element("pre", { tabindex: "0", "aria-label": "Model and update rule" }, greek(rule));
  $("theory").replaceChildren(equationsOf(family(), plain), what, ...sorted.map((value) => paper(value, value.key === mine)));
}

function paper({ key, title, bibtex }, isShown) {
  const id = /eprint\s*=\s*\{([^}]+)\}/.exec(bibtex)?.[1];
  const source = id ? element("a", { href: `https://arxiv.org/abs/${encodeURIComponent(id)}`, rel: "noopener noreferrer", target: "_blank" }, `arXiv ${id}`) : "";
  const head = element("div", {}, `${authors(bibtex)}: ${(title || key).replace(/[{}\\]/g, "")} `, source, isShown ? " (this figure)" : "");
  return element("div", { class: "paper" }, head, element("details", {}, element("summary", {}, "BibTeX"), element("pre", {}, bibtex)));
}

/** "Dandi et al. 2025" from a BibTeX entry. */
export function authors(bibtex) {
  const people = /author\s*=\s*\{([\s\S]*?)\},?\n/.exec(bibtex)?.[1]?.split(/\s+and\s+/) ?? [];
  const surname = (name) => (name ?? "").split(",")[0].replace(/\\['"`^~=.]|[{}\\]/g, "").trim();
  const year = /year\s*=\s*\{(\d+)\}/.exec(bibtex)?.[1] ?? "";
  return `${surname(people[0])}${people.length > 2 ? " et al." : people.length === 2 ? ` and ${surname(people[1])}` : ""} ${year}`;
}

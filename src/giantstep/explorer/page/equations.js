// The equations of a family, typeset; a symbol that is a field lights its control, and the other way round.

import { element, loadScript, unfold } from "./elements.js";
import { ofAllEntries } from "./schema.js";
import { opened } from "./show.js";
import { words } from "./symbols.js";

const OPTIONS = {
  displayMode: true,
  throwOnError: false,
  trust: ({ command }) => command === "\\htmlData",
  strict: (code) => (code === "htmlExtension" ? "ignore" : "warn"),
};
let loading = null;

/** Load KaTeX from beside the page, once. */
function katex() {
  if (!loading) {
    const base = document.querySelector('link[href$="layout.css"]').href;
    document.head.append(element("link", { rel: "stylesheet", href: new URL("katex/katex.min.css", base).href }));
    loading = loadScript("katex/katex.min.js").then(() => window.katex);
  }
  return loading;
}

/** Typeset what a family declares into a new element; the plain text stands there until it is done, and where it cannot be. */
export function equationsOf(family, plain) {
  const root = element("div", { class: "equations" }, plain);
  const declared = family.page?.equations ?? [];
  if (!declared.length) return root;
  const show = () => katex().then((typesetter) => {
    const fold = element("details", { class: "plain" }, element("summary", {}, "The model as plain text"), plain);
    root.replaceChildren(...declared.map((equation) => typeset(typesetter, equation)), fold);
  }).catch(() => {});
  opened.then(() => (window.requestIdleCallback ? requestIdleCallback(show, { timeout: 1500 }) : setTimeout(show, 50)));
  return root;
}

function typeset(typesetter, { title, latex, cite }) {
  const formula = element("div", { class: "formula", tabindex: "0", role: "group", "aria-label": title });
  typesetter.render(latex, formula, { ...OPTIONS, macros: { "\\field": "\\htmlData{field=#1}{#2}" } });
  for (const symbol of formula.querySelectorAll("[data-field]")) {
    Object.assign(symbol, { tabIndex: 0, title: words(symbol.dataset.field) });
    symbol.setAttribute("role", "link");
    symbol.setAttribute("aria-label", `go to ${words(symbol.dataset.field)}`);
  }
  return element("figure", {}, element("figcaption", {}, title, cite ? element("span", {}, ` ${cite}`) : null), formula);
}

/** Tie the symbols inside `theory` to the controls inside `side`. */
export function linkSymbols(theory, side) {
  const controlOf = (name) => {
    const ids = [name, name.replace(".", ".0."), name.split(".")[0]]; // of a list without a place: its first entry
    const input = [side.querySelector(`[data-drag="${CSS.escape(name)}"]`), ...ids.map((id) => side.querySelector(`[id="f-${CSS.escape(id)}"]`))].find(Boolean);
    return input?.closest(".drag, .field") ?? null;
  };
  const nameOf = (target) => {
    const box = target.closest?.(".drag, .field");
    return box?.querySelector("[data-drag]")?.dataset.drag ?? box?.querySelector('[id^="f-"]')?.id.replace(/^f-/, "").replace(/-slider$/, "");
  };
  const light = (name) => {
    for (const old of document.querySelectorAll(".lit")) old.classList.remove("lit");
    if (!name) return;
    controlOf(name)?.classList.add("lit");
    for (const symbol of theory.querySelectorAll(`[data-field="${CSS.escape(ofAllEntries(name))}"]`)) symbol.classList.add("lit");
  };
  const go = (name) => {
    const box = controlOf(name);
    if (!box) return;
    unfold(box);
    box.scrollIntoView({ block: "nearest" });
    box.querySelector("input, select")?.focus({ preventScroll: true });
    light(name);
  };
  for (const kind of ["mouseover", "focusin"]) {
    theory.addEventListener(kind, (event) => light(event.target.closest("[data-field]")?.dataset.field));
    side.addEventListener(kind, (event) => light(nameOf(event.target)));
  }
  theory.addEventListener("click", (event) => go(event.target.closest("[data-field]")?.dataset.field ?? ""));
  theory.addEventListener("keydown", (event) => event.key === "Enter" && go(event.target.closest("[data-field]")?.dataset.field ?? ""));
  for (const root of [theory, side]) root.addEventListener("mouseleave", () => light(null));
}

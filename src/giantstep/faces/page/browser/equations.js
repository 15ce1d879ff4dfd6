// Equations, typeset; KaTeX is loaded once the first figure is drawn.

import { element } from "./elements.js";
import { opened } from "./show.js";
import { words } from "./text.js";

const OPTIONS = {
  throwOnError: false,
  trust: ({ command }) => command === "\\htmlData",
  strict: (code) => (code === "htmlExtension" ? "ignore" : "warn"),
};
const idle = () => new Promise((resolve) => (window.requestIdleCallback ? requestIdleCallback(resolve, { timeout: 1500 }) : setTimeout(resolve, 50)));
const written = new WeakMap();
let loading = null;

async function load() {
  await opened;
  await idle();
  document.head.append(element("link", { rel: "stylesheet", href: "/page/katex/katex.min.css" }));
  await new Promise((onload, onerror) => document.head.append(element("script", { src: "/page/katex/katex.min.js", onload, onerror })));
}

/** Write a text with equations into an element; what is there already is left alone. */
export async function typeset(root, html) {
  if (written.get(root) === html) return;
  written.set(root, html);
  root.innerHTML = html;
  try {
    await (loading ??= load());
  } catch {
    return; // the model stands there as plain text
  }
  for (const piece of root.querySelectorAll(".piece:empty")) {
    window.katex.render(`\\displaystyle ${piece.dataset.latex}`, piece, OPTIONS);
    for (const symbol of piece.querySelectorAll("[data-field]")) {
      Object.assign(symbol, { tabIndex: 0, title: words(symbol.dataset.field) });
      symbol.setAttribute("role", "link");
      symbol.setAttribute("aria-label", `go to ${words(symbol.dataset.field)}`);
    }
  }
}

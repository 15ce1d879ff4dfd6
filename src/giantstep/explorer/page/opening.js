// What is loaded when: the first curve comes before all that can wait for it.

import { element } from "./elements.js";

const LATEST = 4000;

let open = null;

/** Fulfilled when the first figure is drawn, or when it should have been. */
export const opened = new Promise((resolve) => {
  open = resolve;
  setTimeout(resolve, LATEST);
});

/** Say that a figure is drawn. */
export function noteDrawn() {
  open();
}

/** Load a script that lies beside the page; fulfilled once it has run. */
export function loadScript(path) {
  const base = document.querySelector('link[href$="layout.css"]').href;
  return new Promise((resolve, reject) => {
    const fail = () => reject(new Error(`${path} could not be loaded.`));
    document.head.append(element("script", { src: new URL(path, base).href, onload: resolve, onerror: fail }));
  });
}

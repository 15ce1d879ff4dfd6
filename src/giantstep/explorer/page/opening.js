// What is loaded when: the first curve comes before all that can wait for it.

import { element } from "./elements.js";

const LATEST = 4000;
const PATIENT = 1200; // milliseconds after which Plotly is read although there is no answer yet

let begin = null;
let open = null;

/** Fulfilled when something is on the screen, or when it should have been: Plotly is read then. */
export const begun = new Promise((resolve) => {
  begin = resolve;
  setTimeout(resolve, PATIENT);
});

/** Fulfilled when the first figure is drawn, or when it should have been. */
export const opened = new Promise((resolve) => {
  open = resolve;
  setTimeout(resolve, LATEST);
});

/** Say that a first picture is drawn, or that Plotly is needed for it. */
export function noteBegun() {
  begin();
}

/** Say that a figure is drawn. */
export function noteDrawn() {
  open();
}

/** Fulfilled when what was drawn is on the screen. */
export function frameShown() {
  return new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}

/** Load a script that lies beside the page; fulfilled once it has run. */
export function loadScript(path) {
  const base = document.querySelector('link[href$="layout.css"]').href;
  return new Promise((resolve, reject) => {
    const fail = () => reject(new Error(`${path} could not be loaded.`));
    document.head.append(element("script", { src: new URL(path, base).href, onload: resolve, onerror: fail }));
  });
}

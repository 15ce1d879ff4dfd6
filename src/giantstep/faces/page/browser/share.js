// What can be sent: one HTML file that needs no server, pictures, numbers, Python, TOML, a program, a link.

import { element } from "./elements.js";
import { asked } from "./http.js";
import { $, actions, curves, family, page, problem, question, status } from "./session.js";
import { figureShown } from "./show.js";
import { sent } from "./state.js";
import { words } from "./text.js";

const NAMES = { python: ".py", script: "-trial.py", dots: "-dots.csv" };

/** What is shown as a text that the server writes. */
async function exported(kind) {
  const { state, finished } = page;
  const labels = curves().map((curve, i) => curve.label || `curve ${i + 1}`);
  const studies = [state.study, ...(["toml", "script"].includes(kind) ? [] : state.kept)].map(sent);
  return (await asked(`/api/export/${kind}`, { studies, labels, variables: state.variables, log: state.log, dots: finished?.grid })).blob();
}

/** The figure as a picture, or as a page of its own with what it is about. */
async function pictured(kind) {
  const { state, verdicts, finished } = page;
  const { title, sentence, variables, log, study, kept } = state;
  const caption = `${variables.map(words).join(", ")}: exact limits of giantstep${page.current.dots ? ", with experiments as dots (± one standard error)" : ""}.`;
  const texts = { title: title || family().title, sentence: sentence || `${question().meaning}.`, caption };
  const about = kind === "html" ? { ...texts, verdicts, state, variables, log, studies: [study, ...kept].map(sent), dots: finished?.grid } : undefined;
  const body = JSON.stringify({ kind, title, panels: figureShown().panels, about });
  return (await asked("/api/picture", {}, { body, headers: { "Content-Type": "application/octet-stream" } })).blob();
}

const dotsFile = async () => (await asked(`/api/experiment/${encodeURIComponent(page.finished.name)}/csv`)).blob();
const MAKERS = { png: pictured, svg: pictured, pdf: pictured, html: pictured, dots: dotsFile };

export async function download(kind) {
  const { scenario, what } = page.state.study;
  try {
    save(await (MAKERS[kind] ?? exported)(kind), `giantstep-${scenario.family}-${what}${NAMES[kind] ?? `.${kind}`}`);
  } catch (error) {
    problem(`The file could not be made: ${error.message}`);
  }
}

function save(blob, name) {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click(); // outside of the page, so that the menu stays open
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

async function copy(text, said) {
  try {
    await navigator.clipboard.writeText(await text());
    status(said);
  } catch (error) {
    problem(`It could not be copied: ${error.message}`);
  }
}

export const copyText = (kind) => copy(async () => (await exported(kind)).text(), `the ${{ python: "Python", toml: "TOML" }[kind]} is copied`);

/** Copy the address; it says where it works. */
export async function copyLink() {
  await actions.remember(true);
  await copy(() => location.href, "the link is copied: it opens on this machine while giantstep explore runs; to send it, take the HTML file");
}

/** Take the title and the sentence one has written; they are part of what is shown, and of the link. */
export function listenToWords() {
  for (const name of ["title", "sentence"]) $(`share-${name}`).addEventListener("change", (event) => actions.change({ ...page.state, [name]: event.target.value.trim() || undefined }));
}

export function showWords() {
  for (const name of ["title", "sentence"]) $(`share-${name}`).value = page.state[name] ?? "";
}

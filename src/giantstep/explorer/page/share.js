// What can be sent: one HTML file that needs no server, the Python lines, the TOML, pictures, numbers, a link.

import { asked } from "./ask.js";
import { element } from "./elements.js";
import { judgedRows } from "./experiment.js";
import { $, actions, curves, family, page, problem, question, status } from "./session.js";
import { figureShown } from "./show.js";
import { sent } from "./state.js";
import { pngOf, svgOf } from "./svg.js";
import { escaped, words } from "./symbols.js";

const ENDINGS = { python: "py", html: "html" };

/** What is shown as a file that the server writes. */
async function exported(kind) {
  const { state, finished } = page;
  const labels = curves().map((curve, i) => curve.label || `curve ${i + 1}`);
  const view = { variables: state.variables, log: state.log, labels, ...(finished ? { dots: finished.grid } : {}) };
  const studies = [state.study, ...state.kept].map(sent);
  return (await asked(`/api/export/${kind}`, { studies: kind === "toml" ? studies.slice(0, 1) : studies, view })).blob();
}

export async function copyText(kind) {
  try {
    await navigator.clipboard.writeText(await (await exported(kind)).text());
    status(`the ${kind === "python" ? "Python" : "TOML"} is copied`);
  } catch (error) {
    problem(`It could not be copied: ${error.message}`);
  }
}

/** Copy the address; it says where it works. */
export async function copyLink() {
  await actions.remember(true);
  const where = "it opens on this machine while giantstep explore runs; to send it, take the HTML file";
  try {
    await navigator.clipboard.writeText(location.href);
    status(`the link is copied: ${where}`);
  } catch {
    status(`the address of this page is the link: ${where}`);
  }
}

const MAKERS = {
  png: () => pngOf(svgOf(figureShown().panels, page.state.title)),
  svg: () => new Blob([svgOf(figureShown().panels, page.state.title)], { type: "image/svg+xml" }),
  dots: async () => (await asked(`/api/experiment/${encodeURIComponent(page.finished.name)}/csv`)).blob(),
  html: async () => new Blob([await htmlFile()], { type: "text/html" }),
};

export async function download(kind) {
  const name = `giantstep-${page.state.study.scenario.family}-${page.state.study.what}`;
  try {
    save(await (MAKERS[kind] ?? (() => exported(kind)))(), kind === "dots" ? `${name}-dots.csv` : `${name}.${ENDINGS[kind] ?? kind}`);
  } catch (error) {
    problem(`The file could not be made: ${error.message}`);
  }
}

function save(blob, name) {
  const href = URL.createObjectURL(blob);
  const link = element("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

/** Take the title and the sentence one has written; they are part of what is shown, and of the link. */
export function listenToWords() {
  for (const name of ["title", "sentence"]) $(`share-${name}`).addEventListener("change", (event) => actions.change({ ...page.state, [name]: event.target.value.trim() || undefined }));
}

export function showWords() {
  for (const name of ["title", "sentence"]) $(`share-${name}`).value = page.state[name] ?? "";
}

const STYLE = `body{margin:0 auto;max-width:1160px;padding:28px 20px 60px;font:16px/1.55 system-ui,-apple-system,"Segoe UI","Noto Sans",sans-serif;color:#1b1f23;background:#fff}
h1{font-size:30px;line-height:1.2;letter-spacing:-.02em;margin:0 0 6px}.lead{font-size:19px;color:#3a424b;margin:0 0 18px;max-width:70ch}figure{margin:0;overflow-x:auto}svg{max-width:100%;height:auto}
figcaption,footer{color:#57606a;font-size:14px}.verdict{border-left:4px solid #d5d9de;padding-left:10px;margin:6px 0}.agrees{border-color:#009e73}.disagrees{border-color:#d55e00}
pre{background:#f6f7f8;border:1px solid #d5d9de;border-radius:8px;padding:12px 14px;overflow-x:auto;font-size:13px}summary{cursor:pointer;font-weight:600;margin-top:14px}footer{margin-top:30px;border-top:1px solid #d5d9de;padding-top:10px}`;

/** All that is shown as one page that needs no server: the figure, the verdicts, the scenario, and the state to go on from. */
async function htmlFile() {
  const { state, agreement } = page;
  const { panels } = figureShown();
  const text = async (kind) => escaped(await exported(kind).then((blob) => blob.text()).catch(() => ""));
  const [toml, python] = await Promise.all([text("toml"), text("python")]);
  const title = escaped(state.title || family().title);
  const verdicts = agreement ? judgedRows(agreement).map((row) => `<p class="verdict ${row.verdict}">${escaped(row.sentence)}</p>`).join("\n") : "";
  const data = JSON.stringify({ ...state, results: panels.map(({ name, series }) => ({ name, series: series?.map(({ label, kind, x, y, errors }) => ({ label, kind, x, y, errors })) })) }).replace(/</g, "\\u003c");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title}</title><style>${STYLE}</style></head>
<body><h1>${title}</h1><p class="lead">${escaped(state.sentence || `${question().meaning}.`)}</p>
<figure>${svgOf(panels)}<figcaption>${escaped(state.variables.map(words).join(", "))}: exact limits of giantstep${page.current.dots ? ", with real networks as dots (± one standard error)" : ""}.</figcaption></figure>
${verdicts}
<details open><summary>The scenario</summary><pre>${toml}</pre></details>
<details><summary>The same figure in Python</summary><pre>${python}</pre></details>
<footer>Made with giantstep. To drag its sliders: <code>pip install 'giantstep[explorer]'</code>, then <code>giantstep explore THIS-FILE.html</code>.</footer>
<script type="application/json" id="giantstep-state">${data}</script></body></html>
`;
}

// The address holds what is shown; "Back" of the browser goes to what was shown before.

import { page, setBusy } from "./session.js";

const TOGETHER = 700; // milliseconds between two changes up to which they are one entry: those of a drag
const SOON = 150; // milliseconds until a change is written
let waiting = null; // the state to be written, and whether it is an entry of its own
let timer = null;
let writing = Promise.resolve();
let noted = Infinity; // when the last change came; the first state of a page takes the place of its address

/** Write the state into the address in a moment, or at once. */
export function remember(isNow = false) {
  const isOwn = performance.now() - noted > TOGETHER;
  if (waiting && isOwn) write();
  noted = performance.now();
  waiting = { state: page.state, isOwn: isOwn || Boolean(waiting?.isOwn) };
  setBusy("address", true);
  clearTimeout(timer);
  if (isNow) write();
  else timer = setTimeout(write, SOON);
  return writing;
}

/** What is shown is another state altogether: an entry of its own, and so is what follows; none where the address led here. */
export function rememberAnew(cameFromAddress) {
  noted = cameFromAddress ? Infinity : -Infinity;
  remember(true);
  noted = -Infinity;
}

function write() {
  const { state, isOwn } = waiting;
  waiting = null;
  clearTimeout(timer);
  writing = writing.then(async () => {
    const link = await shortLink(state);
    if (link !== location.hash) history[isOwn ? "pushState" : "replaceState"](null, "", link);
    if (!waiting) setBusy("address", false);
  });
}

// -- short links --------------------------------------------------------------------------------------------------

const MARK = "#~";

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** The state, compressed. */
async function shortLink(state) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  return MARK + btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** Any link as a long one, those of before are long; a short one that is broken raises an error that can be shown. */
export async function longLink(hash) {
  if (!hash.startsWith(MARK)) return hash;
  try {
    const packed = atob(hash.slice(MARK.length).replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = await through(Uint8Array.from(packed, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"));
    return `#${encodeURIComponent(new TextDecoder().decode(bytes))}`;
  } catch {
    throw new Error("The link is broken: what follows the # is not a state of this page.");
  }
}

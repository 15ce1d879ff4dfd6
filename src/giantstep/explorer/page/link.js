// Short links: the state without what the family gives by itself, compressed; long links of before are still read.

import { isTable } from "./schema.js";
import { linkOf } from "./state.js";

const MARK = "#~";
const TABLES = ["grid", "settings", "limit", "experiment"];

/** The state without empty tables and without fields at their defaults. */
export function trimmed(state, families) {
  const bare = (study) => {
    const defaults = Object.fromEntries((families[study.scenario.family]?.fields ?? []).filter((field) => "default" in field).map((field) => [field.name, JSON.stringify(field.default)]));
    const scenario = Object.fromEntries(Object.entries(study.scenario).filter(([name, value]) => JSON.stringify(value) !== defaults[name]));
    const copy = { ...study, scenario };
    for (const name of TABLES) if (isTable(copy[name]) && !Object.keys(copy[name]).length) delete copy[name];
    return copy;
  };
  const copy = { ...state, study: bare(state.study), kept: state.kept.map(bare) };
  if (!copy.kept.length) delete copy.kept;
  if (!copy.preset) delete copy.preset;
  if (copy.notation === "ours") delete copy.notation;
  return copy;
}

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** The short link of a state; the long one where the browser cannot compress. */
export async function shortLink(state, families) {
  const small = trimmed(state, families);
  if (!window.CompressionStream) return linkOf(small);
  const bytes = await through(new TextEncoder().encode(JSON.stringify(small)), new CompressionStream("deflate-raw"));
  return MARK + btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** Any link as a long one, which `fromLink` reads; a short one that is broken raises an error that can be shown. */
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

// Short links: the state, compressed; long links of before are still read.

const MARK = "#~";

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export async function shortLink(state) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
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

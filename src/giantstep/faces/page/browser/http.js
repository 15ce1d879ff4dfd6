// Requests to the server: anything by its address, and answers that come line by line.

/** A name that this page has for the server: its own older requests are dropped. */
export const client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Ask, and return the response; what went wrong is an error whose message can be shown. */
export async function asked(url, body, options = {}) {
  const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(url, body === undefined ? options : { ...post, ...options });
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw Object.assign(new Error(told.error ?? `The server answered ${response.status}.`), { field: told.field, stale: told.stale });
  }
  return response;
}

/** The lines of JSON of a response, as they come. */
export async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

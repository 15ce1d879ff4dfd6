// Values as they are typed, and fields that say themselves what is wrong with them.

import { element } from "./elements.js";

/** A number, "inf", a list of them, a nested list; undefined where the text is none of these. */
export function parsed(text) {
  const plain = String(text).trim().replace(/∞/g, "inf").replace(/−/g, "-");
  if (plain === "") return undefined;
  if (/^\+?inf$/.test(plain)) return "inf";
  if (plain === "-inf") return "-inf";
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return Number.isFinite(Number(plain)) ? Number(plain) : undefined;
  try {
    const list = JSON.parse(plain.startsWith("[") ? plain : `[${plain}]`);
    return Array.isArray(list) && list.flat(Infinity).every((entry) => typeof entry !== "number" || Number.isFinite(entry)) ? list : undefined;
  } catch {
    const parts = plain.replace(/^\[|\]$/g, "").split(",").map((part) => part.trim());
    return parts.length > 1 ? parts.map((part) => parsed(part) ?? part) : undefined;
  }
}

/** A whole number, or a list of them, between bounds; anything else is said beside the field and not taken. */
export function wholeField({ id, title, help, value, take, least, most }) {
  const input = element("input", { class: "number", id, "data-field": id.replace("e-", ""), "data-own": true, inputmode: "numeric", value: String(value) });
  const wrong = element("p", { class: "wrong own", id: `${id}-wrong`, hidden: true });
  const check = () => {
    const entry = parsed(input.value);
    const entries = Array.isArray(entry) ? entry : [entry];
    const good = entries.length > 0 && entries.every((number) => Number.isSafeInteger(number) && number >= least && number <= most);
    wrong.hidden = good;
    wrong.textContent = good ? "" : `Write a whole number from ${least} to ${most}${input.value.trim() ? `, not ${input.value.trim().slice(0, 40)}` : ""}.`;
    if (good) input.removeAttribute("aria-invalid");
    else input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-errormessage", wrong.id);
    return good ? entry : undefined;
  };
  input.addEventListener("input", check);
  input.addEventListener("change", () => {
    const entry = check();
    if (entry !== undefined) take(entry);
  });
  return element("div", { class: "field" }, element("div", { class: "row" }, element("label", { for: id, style: "flex:1" }, title), input), element("p", { class: "help" }, help), wrong);
}

// Text: names as words, numbers in few digits, nothing taken for HTML.

export function escaped(text) {
  return String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
}

/** A number in few digits. */
export function short(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return { inf: "∞", "-inf": "−∞" }[value] ?? value;
  if (typeof value === "boolean" || value === 0) return String(value);
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

/** "test_error" as words; what is but a letter with an index stays so. */
export const words = (name) => (/^[a-z]_[a-z]$/.test(name) ? name : String(name).replace(/_|\.(?!\d)/g, " "));

/** A number, "inf", a list of them, a nested list, as it is typed; undefined where the text is none of these. */
export function parsed(text) {
  const plain = String(text).trim().replace(/∞/g, "inf").replace(/−/g, "-");
  if (plain === "") return undefined;
  if (/^[+-]?inf$/.test(plain)) return plain.replace("+", "");
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(plain)) return Number.isFinite(Number(plain)) ? Number(plain) : undefined;
  try {
    const list = JSON.parse(plain.startsWith("[") ? plain : `[${plain}]`);
    return Array.isArray(list) && list.flat(Infinity).every((entry) => typeof entry !== "number" || Number.isFinite(entry)) ? list : undefined;
  } catch {
    const parts = plain.replace(/^\[|\]$/g, "").split(",").map((part) => part.trim());
    return parts.length > 1 ? parts.map((part) => parsed(part) ?? part) : undefined;
  }
}

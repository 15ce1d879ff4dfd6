// Axes and lines of a figure: ranges that stay honest, ticks at whole numbers, lines that lie on each other.

const LINE = 2;
const STRIPE = 3;
const MOST_STRIPES = 4;
const SAME = 1e-6;
const MOST_TICKS = 12;

/** Keep an axis from magnifying rounding errors of a constant; a range of its own is forgotten with the constant. */
export function steady(axis, traces) {
  const all = traces.flatMap((trace) => trace.y).filter((value) => value !== null);
  const low = all.reduce((a, b) => Math.min(a, b), Infinity);
  const high = all.reduce((a, b) => Math.max(a, b), -Infinity);
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (axis.type === "log" || !all.length || !(high - low < 1e-9 * size)) return;
  Object.assign(axis, { range: [low - 0.1 * size, high + 0.1 * size], autorange: false, uirevision: `${low}` });
}

/** Ticks at whole numbers only, where an axis has no others. */
export function wholeTicks(axis, values) {
  if (axis.type === "log" || !values.length || !values.every(Number.isInteger)) return;
  if (Math.max(...values) - Math.min(...values) <= MOST_TICKS) Object.assign(axis, { tick0: 0, dtick: 1 });
}

/** Widths of lines drawn over each other: of those that coincide somewhere the first is the widest, so that each is seen. */
export function widthsOf(lines) {
  const numbers = lines.flat().filter((value) => value !== null);
  const size = numbers.reduce((largest, value) => Math.max(largest, Math.abs(value)), 0);
  const same = (a, b, i) => a[i] !== null && b[i] !== null && Math.abs(a[i] - b[i]) <= SAME * size;
  const meet = (a, b) => a.some((_, i) => i > 0 && same(a, b, i) && same(a, b, i - 1)); // where they only cross, both are seen
  return lines.map((line, i) => LINE + STRIPE * Math.min(MOST_STRIPES, lines.slice(i + 1).filter((later) => meet(line, later)).length));
}

// Axes: ranges with round ends, so that they rest while a curve moves, and their ticks.

import { short } from "./text.js";

/** A step of 1, 2 or 5 times a power of ten, so that a range has about so many. */
function stepOver(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
}

/** The range of a vertical axis around values from `low` to `high`. */
export function rangeOver(low, high, log) {
  if (low === null || low === undefined || !Number.isFinite(low)) return log ? [0.1, 1] : [0, 1];
  if (log) return low === high ? [low / 2, high * 2] : [low * (low / high) ** 0.05, high * (high / low) ** 0.05];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low < 1e-9 * size || size === 0) return size ? [low - 0.1 * size, high + 0.1 * size] : [-1, 1]; // rounding errors of a constant are not magnified
  const step = stepOver(low, high, 10);
  const margin = 0.03 * (high - low);
  const least = Math.floor((low - margin) / step) * step;
  return [low >= 0 && (least < 0 || low < 0.2 * high) ? 0 : least, Math.ceil((high + margin) / step) * step];
}

/** The range of a horizontal axis from `low` to `high`; dots at its ends have room. */
export function sidesOver(low, high, { names, log }, hasDots) {
  if (names) return [-0.5, names.length - 0.5];
  if (low === high) return log ? [low / 2, 2 * low] : [low - 0.5, high + 0.5];
  const room = hasDots ? 0.02 : 0;
  return log ? [low * (low / high) ** room, high * (high / low) ** room] : [low - room * (high - low), high + room * (high - low)];
}

/** Where the ticks of an axis are. */
export function ticksOver(low, high, { log, whole, names }, count) {
  if (names) return names.map((_, place) => place);
  const decades = log ? Math.log10(high / low) : 0;
  if (log && decades >= 0.7) {
    const every = Math.max(1, Math.ceil(decades / count));
    const factors = decades <= count / 3 ? [1, 2, 5] : [1];
    const first = Math.floor(Math.log10(low));
    const all = Array.from({ length: Math.ceil(decades) + 2 }, (_, i) => first + i).filter((power) => power % every === 0);
    return all.flatMap((power) => factors.map((factor) => factor * 10 ** power)).filter((tick) => tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9));
  }
  const step = Math.max(stepOver(low, high, count), whole ? 1 : 0);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** What a tick says. */
export const tickText = (tick, { names }) => (names ? (names[tick] ?? "") : short(tick, 6).replace("-", "−"));

/** Least and largest of the numbers in some lists; on a logarithmic axis of those above zero. */
export function extremes(lists, log) {
  const all = lists.flat().filter((value) => typeof value === "number" && Number.isFinite(value) && (!log || value > 0));
  return [all.reduce((a, b) => Math.min(a, b), Infinity), all.reduce((a, b) => Math.max(a, b), -Infinity)];
}

/** Edges of the cells of a map along one axis: half way between its values. */
export function cellEdges(values, log) {
  const scaled = values.map((value) => (log ? Math.log(value) : value));
  const middle = scaled.slice(1).map((value, i) => (value + scaled[i]) / 2);
  const edges = [scaled[0] - (middle[0] - scaled[0]), ...middle, scaled.at(-1) + (scaled.at(-1) - middle.at(-1))];
  return log ? edges.map(Math.exp) : edges;
}

/** The colour of a value between two ends; of a name by its place. */
export function shadeOf(value, [low, high], { names, colours }) {
  if (value === null || value < 0 && names) return null;
  if (names) return colours[value % colours.length];
  const place = ((colours.length - 1) * (value - low)) / (high - low || 1);
  const at = Math.min(colours.length - 2, Math.max(0, Math.floor(place)));
  return `color-mix(in srgb, ${colours[at + 1]} ${100 * Math.min(1, Math.max(0, place - at))}%, ${colours[at]})`;
}

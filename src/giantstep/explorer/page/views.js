// How a result is laid out: which of its dimensions is horizontal, which become lines of their own, what lies along them.

import { isMainAxis } from "./schema.js";

const FEW = 8; // values along a field up to which they are separate curves

/** The view of a variable ("number", "curve", "trajectory", "spectrum", "map"), its axes and its other dimensions. */
export function layoutOf(result, name, question) {
  const dims = (result.dims[name] ?? []).filter((dim) => dim !== "source" && length(result, dim) > 0);
  const grid = (result.dims.converged ?? []).filter((dim) => dim !== "source");
  const own = dims.filter((dim) => !grid.includes(dim));
  const numeric = grid.filter((dim) => isNumbers(values(result, dim)) && length(result, dim) > 1);
  const isSpectrum = (dim) => question.dimensions[dim]?.role === "spectrum";
  const isAsked = (dim) => dim in question.settings && length(result, dim) > 1;
  const isAskedPlace = (dim) => isAsked(dim) && !isMainAxis(question, dim); // a place along which all times are curves
  const isLong = (dim) => length(result, dim) > FEW;
  const isTrajectory = (dim) => isMainAxis(question, dim) && (isLong(dim) || !numeric.some(isLong)); // a few times along a long field are curves
  const axis = own.find(isSpectrum) ?? own.find(isAskedPlace) ?? own.find(isTrajectory) ?? own.find(isAsked);
  if (!axis && numeric.length === 2 && numeric.every(isLong)) {
    return { kind: "map", x: numeric[0], y: numeric[1], others: dims.filter((dim) => !numeric.includes(dim)) };
  }
  const byLength = (a, b) => length(result, b) - length(result, a);
  const rest = own.filter((dim) => length(result, dim) > 1).sort(byLength)[0];
  const x = axis ?? [...numeric].sort(byLength)[0] ?? grid.find((dim) => length(result, dim) > 1) ?? rest ?? null;
  const kind = x === null ? "number" : isMainAxis(question, x) ? question.dimensions[x].role : "curve";
  return { kind, x, others: dims.filter((dim) => dim !== x) };
}

export function length(result, dim) {
  for (const [name, dims] of Object.entries(result.dims)) {
    const index = dims.indexOf(dim);
    if (index < 0) continue;
    let inner = result[name];
    for (let depth = 0; depth < index; depth += 1) inner = inner?.[0];
    return Array.isArray(inner) ? inner.length : 0;
  }
  return 0;
}

export function isNumbers(list) {
  return list.every((value) => typeof value === "number");
}

/** A number, or null for all that is none. */
export function finite(value) {
  return typeof value === "number" ? value : null;
}

/** Values along a dimension: its coordinate, one that lies along it, or a count. */
export function values(result, dim) {
  if (result.coords.includes(dim)) return result[dim];
  const along = result.coords.find((name) => result.dims[name].length === 1 && result.dims[name][0] === dim);
  return along ? result[along] : Array.from({ length: length(result, dim) }, (_, i) => i + 1);
}

/** The values of a variable along one dimension at fixed places of the others. */
export function along(result, name, dim, fixed) {
  const dims = result.dims[name];
  const walk = (inner, depth) => {
    if (depth === dims.length) return inner;
    if (dims[depth] === dim) return inner.map((value) => walk(value, depth + 1));
    return walk(inner[fixed[dims[depth]] ?? 0], depth + 1);
  };
  const line = walk(result[name], 0);
  return dims.includes(dim) ? line : values(result, dim).map(() => line);
}

/** All places of some dimensions. */
export function allIndices(result, dims) {
  let all = [{}];
  for (const dim of dims) all = all.flatMap((index) => Array.from({ length: length(result, dim) }, (_, i) => ({ ...index, [dim]: i })));
  return all;
}

/** The dimension of time that a figure draws as several curves, with its values; null where there is none. */
export function timesOf(question, result, variables) {
  for (const name of variables) {
    if (!result || !(name in result.dims)) continue;
    const { x, kind } = layoutOf(result, name, question);
    const isTime = (dim) => dim !== x && question.dimensions[dim]?.role === "trajectory" && values(result, dim).length > 1;
    const dim = kind === "map" ? null : result.dims[name].find(isTime);
    if (dim) return { dim, times: values(result, dim) };
  }
  return null;
}

/** A result at one place of a dimension. */
export function atTime(result, dim, index) {
  if (!result) return result;
  const copy = { ...result, dims: { ...result.dims } };
  for (const [name, dims] of Object.entries(result.dims)) {
    const depth = dims.indexOf(dim);
    if (depth < 0) continue;
    const pick = (entry, level) => (level === depth ? entry[Math.min(index, entry.length - 1)] : entry.map((inner) => pick(inner, level + 1)));
    copy[name] = pick(result[name], 0);
    copy.dims[name] = dims.filter((other) => other !== dim);
  }
  return copy;
}

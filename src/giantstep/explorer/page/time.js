// One time out of many: where curves of several times lie over each other, a slider picks one of them.

import { layoutOf, values } from "./chart.js";

/** The dimension of time that a figure draws as several curves, with its values; null where there is none. */
export function timesOf(question, result, variables) {
  for (const name of variables) {
    if (!result || !(name in result.dims)) continue;
    const { x, kind } = layoutOf(result, name, question);
    const dim = kind === "map" ? null : result.dims[name].find((dim) => dim !== x && question.dimensions[dim]?.role === "trajectory" && values(result, dim).length > 1);
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

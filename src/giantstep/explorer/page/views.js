// Values of a result: along one of its dimensions, at places of the others.

export function length(result, dim) {
  const name = Object.keys(result.dims).find((one) => result.dims[one].includes(dim));
  const depth = name ? result.dims[name].indexOf(dim) : 0;
  const inner = name && Array.from({ length: depth }).reduce((list) => list?.[0], result[name]);
  return Array.isArray(inner) ? inner.length : 0;
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

/** All places of some dimensions; where a time is picked, of that one only. */
export function allIndices(result, dims, time) {
  const places = (dim) => {
    const all = Array.from({ length: length(result, dim) }, (_, i) => i);
    return dim === result.layout.time && time !== undefined ? [Math.min(time, all.length - 1)] : all;
  };
  return dims.reduce((all, dim) => all.flatMap((index) => places(dim).map((i) => ({ ...index, [dim]: i }))), [{}]);
}

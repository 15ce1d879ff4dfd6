// Values of a result: along one of its dimensions, at places of the others.

export const length = (result, dim) => result.layout.sizes[dim] ?? 0;

/** A number, or null for all that is none. */
export const finite = (value) => (typeof value === "number" ? value : null);

/** Values along a dimension: its coordinate, one that lies along it, or a count. */
export function values(result, dim) {
  return result[result.layout.along[dim]] ?? Array.from({ length: length(result, dim) }, (_, i) => i + 1);
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

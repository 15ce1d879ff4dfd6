// The difference of two scenarios.

/** B - A of a variable as a result of its own; null where the two do not lie over the same points. */
export function differenceOf(a, b, name) {
  const dims = a?.dims[name];
  if (!dims || JSON.stringify(dims) !== JSON.stringify(b?.dims[name])) return null;
  const along = (result) => JSON.stringify(dims.map((dim) => result[dim] ?? null));
  if (along(a) !== along(b)) return null;
  const minus = (left, right) => (Array.isArray(left) ? left.map((entry, i) => minus(entry, right[i])) : typeof left === "number" && typeof right === "number" ? left - right : null);
  return { ...a, [name]: minus(b[name], a[name]) };
}

// Tables inside each other: read and changed along a path of names and places.

export const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

export function valueAt(table, path) {
  return path.reduce((inner, name) => (inner !== null && typeof inner === "object" ? inner[name] : undefined), table);
}

/** A copy with one value changed; undefined and null remove it. */
export function withAt(table, [name, ...rest], value) {
  const copy = Array.isArray(table) ? [...table] : { ...table };
  if (rest.length) copy[name] = withAt(copy[name], rest, value);
  else if (value !== undefined && value !== null) copy[name] = value;
  else if (Array.isArray(copy)) copy.splice(name, 1);
  else delete copy[name];
  return copy;
}

// The limit with the leading correction at the experiment's dimension, beside the limit itself.

const SAME = 1e-9;

/** A trace of the limit that an experiment was compared with, at its points; null where it is the line drawn already. */
export function finiteLimit({ x, y, legend, line }) {
  const size = Math.max(...y.map((value) => Math.abs(value ?? 0)));
  const known = new Map(line.x.map((at, i) => [at, line.y[i]]));
  const isSame = (value, i) => value === null || (typeof known.get(x[i]) === "number" && Math.abs(value - known.get(x[i])) <= SAME * size);
  if (y.every(isSame)) return null;
  const name = `${legend === "limit" ? "limit" : `${legend}, limit`} at the experiment's d`;
  return { type: "scatter", mode: "lines", x, y, name, hovertemplate: "%{x:.4g}, %{y:.5g}<extra>limit at the experiment's d</extra>" };
}

// The theory at the experiment's dimension, beside the limit itself.

const SAME = 1e-9;

/** A trace of the theory that an experiment was compared with, at its points; null where it is the line drawn already. */
export function theoryLine({ x, y, legend, line, called }) {
  const size = Math.max(...y.map((value) => Math.abs(value ?? 0)));
  const known = new Map(line.x.map((at, i) => [at, line.y[i]]));
  const isSame = (value, i) => value === null || (typeof known.get(x[i]) === "number" && Math.abs(value - known.get(x[i])) <= SAME * size);
  if (y.every(isSame)) return null;
  const name = legend ? `${legend}, ${called}` : called;
  return { type: "scatter", mode: "lines", x, y, name, hovertemplate: `%{x:.4g}, %{y:.5g}<extra>${called}</extra>` };
}

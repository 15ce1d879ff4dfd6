// Two scenarios side by side with their difference: A is under the sliders, B is the first curve kept.

/** B - A of a variable as a result of its own; null where the two do not lie over the same points. */
export function difference(a, b, name) {
  const dims = a?.dims[name];
  if (!dims || JSON.stringify(dims) !== JSON.stringify(b?.dims[name])) return null;
  const along = (result) => JSON.stringify(dims.map((dim) => result[dim] ?? null));
  if (along(a) !== along(b)) return null;
  const minus = (left, right) => (Array.isArray(left) ? left.map((entry, i) => minus(entry, right[i])) : typeof left === "number" && typeof right === "number" ? left - right : null);
  return { ...a, [name]: minus(b[name], a[name]) };
}

/** The range both vertical axes share, so that heights can be compared; z-scores have an axis of their own. */
function sharedRange(figures) {
  const all = figures.flatMap(({ traces }) => traces.filter((trace) => trace.type === "scatter" && trace.yaxis === "y").flatMap((trace) => trace.y)).filter((value) => typeof value === "number");
  if (!all.length) return null;
  const low = Math.min(...all);
  const high = Math.max(...all);
  const margin = 0.05 * (high - low || Math.abs(high) || 1);
  return [low - margin, high + margin];
}

/** Draw A, B and B - A into the three parts of `root`; `draw(curves)` makes a figure of some curves. */
export function drawSides(root, { a, b, name, draw, fit, config }) {
  const gap = difference(a.result, b.result, name);
  const sides = [draw([{ ...a, slot: 0, label: "" }]), draw([{ ...b, slot: 0, label: "" }])];
  const range = sharedRange(sides);
  if (gap) sides.push(draw([{ result: gap, slot: 0, label: "" }]));
  const titles = ["A, under the sliders", `B, ${b.label || "kept"}`, gap ? "B − A" : "B − A: the two do not lie over the same points"];
  titles.forEach((title, i) => {
    const [head, chart] = root.children[i].children;
    head.textContent = title;
    const side = sides[i];
    if (!side) return Plotly.purge(chart);
    const layout = fit(side.layout);
    if (i < 2 && range && layout.yaxis?.type !== "log") layout.yaxis = { ...layout.yaxis, range, autorange: false };
    chart.style.height = `${layout.height}px`;
    Plotly.react(chart, side.traces, { ...layout, margin: { ...layout.margin, l: Math.min(48, layout.margin.l) } }, config);
    chart.setAttribute("aria-label", `${title}. ${side.summary}`);
  });
}

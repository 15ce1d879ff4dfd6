// Curves that follow the hand: new values go straight into the lines that Plotly has drawn. Plotly lays everything out
// again once the hand rests; that takes it longer than a frame.

const ROOM = 0.25; // of its length: what an axis grows by where a curve leaves it

const isLine = (trace) => trace.type === "scatter" && trace.mode === "lines" && !trace.fill;
const axisOf = (chart, id) => chart._fullLayout[`${id[0]}axis${id.slice(1)}`];
const isPlain = (text) => !/[<&]/.test(text);

/** All of a figure but what can follow the hand: the values, names, widths and opacities of its lines. */
export function frameOf(traces, layout) {
  const fixed = ({ x, y, name, opacity, hovertemplate, line, ...rest }) => [rest, line.color, line.dash];
  return JSON.stringify([layout, traces.map((trace) => (isLine(trace) ? fixed(trace) : trace))]);
}

/** Axes that the reader has zoomed: Plotly was told to choose their ranges and no longer does. */
function isZoomed(chart, axis, left) {
  return left.includes(axis._name) && chart.layout[axis._name]?.autorange === false;
}

/** The path of a line in pixels, and whether all of it lies inside its axes. */
function pathOf({ x, y }, xaxis, yaxis) {
  let path = "";
  let pen = "M";
  const outside = { x: false, y: false };
  for (let i = 0; i < x.length; i += 1) {
    const across = y[i] === null ? NaN : xaxis.d2p(x[i]);
    const down = y[i] === null ? NaN : yaxis.d2p(y[i]);
    if (!Number.isFinite(across) || !Number.isFinite(down)) {
      pen = "M";
      continue;
    }
    outside.x ||= across < -0.5 || across > xaxis._length + 0.5;
    outside.y ||= down < -0.5 || down > yaxis._length + 0.5;
    path += `${pen}${across.toFixed(2)},${down.toFixed(2)}`;
    pen = "L";
  }
  return { path, outside };
}

/** What is to be drawn where; null where Plotly must draw, because something is missing or changes its kind. */
function planned(chart, traces) {
  const groups = new Map([...chart.querySelectorAll(".scatterlayer .trace")].map((group) => [group.__data__?.[0]?.trace?.index, group]));
  const texts = new Map([...chart.querySelectorAll(".legend .traces")].map((entry) => [entry.__data__?.[0]?.trace?.index, entry.querySelector(".legendtext")]));
  const plan = [];
  for (const [index, trace] of traces.entries()) {
    if (!isLine(trace) || chart._fullData[index]?.visible !== true) continue;
    const lines = groups.get(index)?.querySelectorAll(".js-line") ?? [];
    const text = texts.get(index);
    const [xaxis, yaxis] = [axisOf(chart, trace.xaxis), axisOf(chart, trace.yaxis)];
    if (!lines.length || !xaxis?.d2p || !yaxis?.d2p || (text && !isPlain(trace.name))) return null;
    plan.push({ trace, group: groups.get(index), lines, text, xaxis, yaxis, ...pathOf(trace, xaxis, yaxis) });
  }
  return plan;
}

/** A range for an axis that holds its present one and the given values, with room for more on the sides they left it. */
function grown(axis, values) {
  const scale = (value) => (axis.type === "log" ? Math.log10(value) : value);
  const all = values.filter((value) => value !== null).map(scale).filter(Number.isFinite);
  const [low, high] = [Math.min(...axis.range), Math.max(...axis.range)];
  const [least, most] = [Math.min(low, ...all), Math.max(high, ...all)];
  const room = ROOM * (most - least);
  return [least < low ? least - room : low, most > high ? most + room : high];
}

/**
 * Redraw the lines of a figure that has the frame of the one drawn.
 *
 * @param chart the element Plotly has drawn into
 * @param traces all traces of the new figure
 * @param left names of the axes whose ranges were left to Plotly
 * @returns "drawn"; "no" where Plotly must draw; or the ranges {name: [low, high]} with which the lines would fit
 */
export function retrace(chart, traces, left) {
  const plan = planned(chart, traces);
  if (!plan) return "no";
  const ranges = {};
  for (const { outside, xaxis, yaxis } of plan) {
    if (outside.x && !isZoomed(chart, xaxis, left)) return "no";
    if (!outside.y || isZoomed(chart, yaxis, left)) continue;
    ranges[yaxis._name] = grown(yaxis, plan.filter((other) => other.yaxis === yaxis).flatMap((other) => other.trace.y));
  }
  if (Object.keys(ranges).length) return ranges;
  for (const { trace, group, lines, text, path } of plan) {
    group.style.opacity = trace.opacity;
    lines.forEach((line, i) => line.setAttribute("d", i ? "" : path));
    lines[0].style.strokeWidth = `${trace.line.width}px`;
    if (text && text.textContent !== trace.name) text.textContent = trace.name;
  }
  return "drawn";
}

// A small drawing of what is studied, with what is trained in colour.

const NS = "http://www.w3.org/2000/svg";

function shape(tag, attributes, ...children) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const column = (count, x, height = 120) => Array.from({ length: count }, (_, i) => [x, (height * (i + 0.5)) / count]);

function network({ trained }) {
  const inputs = column(4, 26);
  const hidden = column(6, 110);
  const lines = (from, to, name) => from.flatMap(([x1, y1]) => to.map(([x2, y2]) => shape("line", { x1, y1, x2, y2, class: trained.includes(name) ? "trained" : "fixed" })));
  const dots = (points, kind) => points.map(([cx, cy]) => shape("circle", { cx, cy, r: 6, class: kind }));
  const label = (x, text, name) => shape("text", { x, y: 136, class: trained.includes(name) ? "trained" : "" }, text);
  if (trained.includes("target")) {
    const directions = column(2, 110);
    return [...lines(inputs, directions, "target"), ...lines(directions, [[196, 60]], "none"), ...dots(inputs, "unit"), ...dots(directions, "unit"), ...dots([[196, 60]], "unit"), label(26, "x"), label(110, "z = Wx", "target"), label(196, "y")];
  }
  return [...lines(inputs, hidden, "first"), ...lines(hidden, [[196, 60]], "second"), ...dots(inputs, "unit"), ...dots(hidden, "unit"), ...dots([[196, 60]], "unit"), label(26, "x"), label(68, "W", "first"), label(153, "a", "second"), label(196, "f(x)")];
}

function clusters({ trained }) {
  const cloud = (x, y, kind) => Array.from({ length: 22 }, (_, i) => {
    const angle = 2.399963 * i;
    const radius = 5.6 * Math.sqrt(i + 0.5);
    return shape("circle", { cx: x + 1.25 * radius * Math.cos(angle), cy: y + radius * Math.sin(angle), r: 2.6, class: kind });
  });
  const isFit = trained.includes("weights");
  const [first, second] = isFit ? ["unit", "unit hollow"] : ["trained", "trained hollow"];
  const arrow = isFit ? [shape("line", { x1: 110, y1: 8, x2: 110, y2: 118, class: "trained strong" }), shape("text", { x: 110, y: 136, class: "trained" }, "w")] : [shape("text", { x: 110, y: 136, class: "trained" }, "which cluster?")];
  return [...cloud(62, 64, first), ...cloud(160, 58, second), ...arrow];
}

const KINDS = { network, clusters };

/** The drawing a family declares, or null. */
export function pictureOf(family) {
  const declared = family.page?.picture;
  const draw = declared && KINDS[declared.kind];
  if (!draw) return null;
  const drawing = shape("svg", { viewBox: "0 0 222 142", class: "sketch", role: "img", "aria-label": declared.caption }, ...draw(declared));
  const figure = document.createElement("figure");
  const caption = document.createElement("figcaption");
  caption.textContent = `${declared.caption} In colour: what is learnt.`;
  figure.className = "sketched";
  figure.append(drawing, caption);
  return figure;
}

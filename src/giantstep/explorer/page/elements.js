// Elements of the page, made in one call.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "html") made.innerHTML = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") made.toggleAttribute(name, value);
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** A table of texts or elements below its header. */
export function tableElement(head, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((cell) => element("th", { scope: "col" }, cell)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))));
}

/** Open every fold that an element lies in. */
export function unfold(inner) {
  for (let fold = inner.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

/** Load a script that lies beside the page; fulfilled once it has run. */
export function loadScript(path) {
  const base = document.querySelector('link[href$="layout.css"]').href;
  return new Promise((resolve, reject) => {
    const fail = () => reject(new Error(`${path} could not be loaded.`));
    document.head.append(element("script", { src: new URL(path, base).href, onload: resolve, onerror: fail }));
  });
}

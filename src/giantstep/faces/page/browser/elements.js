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

/** Open every fold that an element lies in. */
export function unfold(inner) {
  for (let fold = inner.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

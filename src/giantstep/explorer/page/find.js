// Find a control by its name, its symbol or what it means.

const plain = (text) => text.toLowerCase().replace(/\s+/g, " ");

/** Show only the fields that match what is typed, in whatever fold they are; an empty search shows all again. */
export function applySearch(root, text) {
  const wanted = plain(text).trim().split(" ").filter(Boolean);
  root.classList.toggle("searching", wanted.length > 0);
  let count = 0;
  for (const field of root.querySelectorAll(".field, .checks label")) {
    const said = plain(`${field.textContent} ${field.title ?? ""}`);
    const matches = wanted.every((word) => said.includes(word));
    field.classList.toggle("unmatched", !matches);
    if (matches) count += 1;
  }
  for (const fold of root.querySelectorAll(":scope > details")) {
    if (!wanted.length) {
      if (fold.dataset.found) fold.open = false;
      delete fold.dataset.found;
    } else if (!fold.open && fold.querySelector(".field:not(.unmatched)")) {
      fold.open = true;
      fold.dataset.found = "1";
    }
  }
  return wanted.length ? count : null;
}

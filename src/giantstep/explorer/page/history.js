// Undo and redo: the states the page was in; what one drag goes through counts once.

const MOST = 100;
const TOGETHER = 700;

export class History {
  constructor() {
    this.past = [];
    this.future = [];
    this.noted = -Infinity;
  }

  /** Note a state that was left for another one. `anew` starts a new entry whatever the time. */
  note(state, anew = false) {
    const now = performance.now();
    if (anew || now - this.noted > TOGETHER || !this.past.length) this.past = [...this.past.slice(1 - MOST), state];
    this.noted = anew ? -Infinity : now; // what follows such an entry is an entry of its own
    this.future = [];
  }

  /** The state before, or null; `state` is the one shown now. */
  undo(state) {
    return this.step(this.past, this.future, state);
  }

  redo(state) {
    return this.step(this.future, this.past, state);
  }

  step(from, to, state) {
    if (!from.length) return null;
    to.push(state);
    this.noted = -Infinity;
    return from.pop();
  }
}

/** Whether a key press is undo or redo; text fields keep their own. */
export function wishOf(event) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey) return null;
  if (event.target.matches?.('input:not([type="range"]):not([type="checkbox"]), textarea')) return null;
  const key = event.key.toLowerCase();
  if (key === "y" || (key === "z" && event.shiftKey)) return "redo";
  return key === "z" ? "undo" : null;
}

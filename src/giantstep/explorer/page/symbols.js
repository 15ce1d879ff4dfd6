// Symbols written in ASCII ("alpha0 = n0/d") as HTML with Greek letters, subscripts and superscripts.

const GREEK = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", eps: "ε", zeta: "ζ", eta: "η", theta: "θ", kappa: "κ",
  lambda: "λ", mu: "μ", nu: "ν", xi: "ξ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", phi: "φ", chi: "χ", psi: "ψ",
  omega: "ω", Gamma: "Γ", Delta: "Δ", Theta: "Θ", Lambda: "Λ", Sigma: "Σ", Phi: "Φ", Psi: "Ψ", Omega: "Ω", inf: "∞",
};
const LETTERS = new RegExp(`(?<![A-Za-z])(${Object.keys(GREEK).join("|")})(?![A-Za-z])`, "g");

export function escaped(text) {
  return String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);
}

/** Greek letters for their names; everything else as it is. */
export function greek(text) {
  return String(text).replace(LETTERS, (name) => GREEK[name]);
}

/** A symbol as HTML; what is made of long words stays text. */
export function pretty(symbol) {
  if (!symbol || symbol === "-") return "";
  let text = escaped(greek(symbol).replace(/->/g, "→").replace(/!=/g, "≠").replace(/(?<![A-Za-z])sum /g, "Σ ").replace(/(?<![A-Za-z])int /g, "∫ "));
  text = text.replace(/_\{?([A-Za-z0-9α-ω*∞+'-]{1,6}?)\}?(?![A-Za-z0-9α-ω])/g, "<sub>$1</sub>").replaceAll("</sub><sub>", ",");
  text = text.replace(/\^(?:\(([^()]{1,8})\)|([A-Za-zα-ω]|-?\d+))/g, (_, group, one) => `<sup>${group ?? one}</sup>`);
  text = text.replace(/([α-ωA-Za-z])(\d)(?![\d<])/g, "$1<sub>$2</sub>");
  return text;
}

/** A number in few digits. */
export function short(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value === "inf" ? "∞" : value === "-inf" ? "−∞" : value;
  if (typeof value === "boolean") return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(digits - 2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

/** "test_error" as words. */
export function words(name) {
  return String(name).replace(/_|\.(?!\d)/g, " ");
}

/** A dotted name without what it lies in; an entry of a list keeps the list: "steps.0". */
export function lastName(name) {
  return String(name).match(/[^.]+(\.\d+)?$/)[0];
}

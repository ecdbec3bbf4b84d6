// How figures are written. Used by all other files of the page.

export function rate(value) {
  if (value == null) return "–";
  if (value === 0) return "0";
  return value >= 100 ? Math.round(value).toLocaleString("en") : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function milliseconds(value) {
  if (value == null) return "–";
  if (value === 0) return "0 ms";
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 100 ? `${Math.round(value).toLocaleString("en")} ms` : `${value.toPrecision(3)} ms`;
}

export const percent = (part) => (part == null ? "–" : `${Math.round(100 * part)} %`);
export const whole = (value) => (value == null ? "–" : Math.round(value).toLocaleString("en"));
export const sum = (table) => Object.values(table ?? {}).reduce((total, each) => total + each, 0);
export const clock = (at) => new Date(at * 1000).toLocaleTimeString("en-GB");

export const GROUPS = {
  ok: "served", failed: "failed", refused: "refused, no room", quota: "over quota", rejected: "wrong requests", left: "client left",
};

export function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

// Writes only what has changed, so that an idle page costs the browser nothing.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

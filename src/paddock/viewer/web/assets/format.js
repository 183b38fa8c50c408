// Numbers, times and texts as they are shown.

export const number = (value) => value === null || value === undefined ? "" : value.toLocaleString("en-US");

export function short(value, digits = 3) {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value)) return number(value);
  if (Math.abs(value) >= 1000 && Math.abs(value) < 1e7) return number(Math.round(value));
  return Math.abs(value) >= 1e7 || (value !== 0 && Math.abs(value) < 0.001)
    ? value.toExponential(2) : value.toFixed(digits).replace(/\.?0+$/, "");
}

export const dollars = (value) => (value === null || value === undefined ? "" : `$${value.toFixed(value !== 0 && value < 0.1 ? 4 : 2)}`);

export function seconds(value) {
  if (!value) return "";
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(value / 60);
  return minutes < 60 ? `${minutes} min ${Math.round(value % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// `2026-01-31 23:59:59` of this browser's place, cut to what tells moments of such a span (seconds) apart.
export function clock(at, span = 0) {
  const [day, time] = new Date((at - new Date(at * 1000).getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 19).split("T");
  if (!span) return `${day} ${time}`;
  if (span > 3 * 86400) return day.slice(5);
  return span > 600 ? time.slice(0, 5) : time;
}

export function ago(at) {
  const past = Date.now() / 1000 - at;
  if (past < 3) return "now";
  if (past < 90) return `${Math.round(past)} s ago`;
  if (past < 5400) return `${Math.round(past / 60)} min ago`;
  if (past < 129600) return `${Math.round(past / 3600)} h ago`;
  return new Date(at * 1000).toISOString().slice(0, 10);
}

// What a reader would not see is written out: control characters, and those that turn the direction of text.
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;
export const visible = (text) => text.replace(HIDDEN, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);

export const outcomeTone = (outcome, reward) =>
  reward === null || reward === undefined ? (outcome === "leak" ? "bad" : "faint") : reward > 0 ? "good" : "bad";

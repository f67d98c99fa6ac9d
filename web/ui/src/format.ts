/** Numbers and times for people. */

const MS_PER_S = 1_000;
const S_PER_MIN = 60;
const MICROS_PER_CENT = 10_000;
const MICROS = 1_000_000;

/** A time span: 850 ms, 1.2 s, 3 min 20 s. */
export function formatDuration(ms: number): string {
  if (ms < MS_PER_S) return `${Math.round(ms)} ms`;
  const seconds = ms / MS_PER_S;
  if (seconds < S_PER_MIN) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / S_PER_MIN)} min ${Math.round(seconds % S_PER_MIN)} s`;
}

/** Money, given in millionths of a dollar; small amounts keep their digits. */
export function formatCost(micros: number): string {
  if (micros === 0) return "$0";
  return `$${(micros / MICROS).toFixed(micros < MICROS_PER_CENT ? 4 : 2)}`;
}

/** A count with commas. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

/** A value as indented JSON; a text as itself. */
export function formatValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

/** A text that is cut to a length, with a sign that it was. */
export function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax - 1)}…`;
}

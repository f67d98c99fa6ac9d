/** Times and names for people. */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** How long ago something was, or how soon it will be. */
export function formatAgo(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at);
  const size = Math.abs(ms);
  const text = sizeOf(size);
  if (size < MINUTE_MS) return ms >= 0 ? "just now" : "in a moment";
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

function sizeOf(ms: number): string {
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)} h`;
  return `${Math.floor(ms / DAY_MS)} d`;
}

/** A moment with its milliseconds, in the zone of the reader. */
export function formatMoment(at: string): string {
  const date = new Date(at);
  const ms = String(date.getMilliseconds()).padStart(3, "0");
  return `${date.toLocaleTimeString([], { hour12: false })}.${ms}`;
}

/** The end of an id, which tells it from others. */
export function shortId(id: string): string {
  return id.length <= 10 ? id : `…${id.slice(-8)}`;
}

/** A large count in few characters: 1.2k, 3.4M. */
export function formatShort(count: number): string {
  return new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 }).format(count);
}

/** A count with its word: 1 run, 2 runs. */
export function plural(count: number, word: string): string {
  return `${count.toLocaleString("en-US")} ${word}${count === 1 ? "" : "s"}`;
}

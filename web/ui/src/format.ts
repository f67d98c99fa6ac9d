/** Formats of numbers, times, sizes and values: English, the same on every page. */

const SECOND_MS = 1_000;
const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const MICROS = 1_000_000;
const MICROS_PER_CENT = 10_000;
/** Less than this is nothing in four digits. */
const MICROS_SHOWN = 100;

/** A time span in its two largest units: 850 ms, 1.2 s, 3 min 20 s, 2 h 4 min, 3 d 1 h. */
export function formatDuration(ms: number): string {
  if (Math.round(ms) < SECOND_MS) return `${Math.round(ms)} ms`;
  // Rounded once, and then cut: no unit ever has as many as the next larger one.
  const tenths = Math.round(ms / 100);
  if (tenths < MINUTE_S * 10) return `${(tenths / 10).toFixed(1)} s`;
  const seconds = Math.round(ms / SECOND_MS);
  if (seconds < HOUR_S) return parts(seconds, MINUTE_S, "min", 1, "s");
  const minutes = Math.round(seconds / MINUTE_S) * MINUTE_S;
  if (minutes < DAY_S) return parts(minutes, HOUR_S, "h", MINUTE_S, "min");
  return parts(Math.round(seconds / HOUR_S) * HOUR_S, DAY_S, "d", HOUR_S, "h");
}

function parts(seconds: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % large) / small);
  const first = `${Math.floor(seconds / large)} ${largeName}`;
  return rest === 0 ? first : `${first} ${rest} ${smallName}`;
}

/** How long ago something was, or how soon it will be: just now, 5 min ago, in 2 h. */
export function formatAgo(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at);
  const seconds = Math.floor(Math.abs(ms) / SECOND_MS);
  if (seconds < MINUTE_S) return ms >= 0 ? "just now" : "in a moment";
  const [size, unit] =
    seconds < HOUR_S ? [MINUTE_S, "min"] : seconds < DAY_S ? ([HOUR_S, "h"] as const) : ([DAY_S, "d"] as const);
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
const TIME = new Intl.DateTimeFormat("en-GB", { ...CLOCK, fractionalSecondDigits: 3 });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const WHEN = new Intl.DateTimeFormat("en-GB", {
  ...CLOCK,
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
});

/** A moment with its milliseconds, in the zone of the reader; the day is left out if it is that of `nowMs`. */
export function formatMoment(at: string, nowMs: number = Date.now()): string {
  const day = DAY.format(Date.parse(at));
  const time = TIME.format(Date.parse(at));
  return day === DAY.format(nowMs) ? time : `${day}, ${time}`;
}

/** A moment with its day: Mon 16 Nov 2026, 04:12:07. */
export function formatWhen(at: string): string {
  // The first comma, behind the weekday, is left out.
  return WHEN.format(Date.parse(at)).replace(",", "");
}

/** Money, given in millionths of a dollar; small amounts keep their digits. */
export function formatCost(micros: number): string {
  if (Math.round(micros) === 0) return "$0";
  if (micros < MICROS_SHOWN) return `$${(micros / MICROS).toFixed(6)}`;
  if (micros < MICROS_PER_CENT) return `$${(micros / MICROS).toFixed(4)}`;
  return `$${(micros / MICROS).toFixed(micros < MICROS ? 3 : 2)}`;
}

/** A count with commas. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
}

const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

/** A large count in few characters: 1.2k, 3.4M. */
export function formatShort(count: number): string {
  return SHORT.format(count).replace("K", "k");
}

/** A share in percent, with one digit if it is not whole: 5 %, 62.5 %. */
export function formatPercent(share: number): string {
  return `${formatCount(Math.round(share * 1_000) / 10)} %`;
}

/** A difference with its sign: +5 %, −3 s. */
export function formatSigned(value: number, format: (value: number) => string): string {
  return value === 0 ? "no difference" : `${value > 0 ? "+" : "−"}${format(Math.abs(value))}`;
}

/** A count with its word: 1 run, 2 runs, 3 deliveries, 4 crashes. */
export function plural(count: number, word: string): string {
  return `${formatCount(count)} ${count === 1 ? word : manyOf(word)}`;
}

function manyOf(word: string): string {
  if (/[^aeiou]y$/u.test(word)) return `${word.slice(0, -1)}ies`;
  return /(?:s|x|ch|sh)$/u.test(word) ? `${word}es` : `${word}s`;
}

/** The end of an id, which tells it from others. */
export function shortId(id: string): string {
  return id.length <= 10 ? id : `…${id.slice(-8)}`;
}

/** The beginning of a hash, which tells it from others. */
export function shortHash(hash: string): string {
  return hash.replace(/^sha256:/u, "").slice(0, 8);
}

/** A size: 820 B, 12 kB, 3.4 MB. */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** A value as indented JSON; a text as itself. */
export function formatValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

const HIDDEN = /\p{C}|[\p{Zl}\p{Zp}]|\p{Default_Ignorable_Code_Point}|\u2800|[^\S ]/gu;
const BLANKS = /(\S)( {9,})/gu;

/**
 * A value as JSON in which every character can be seen for what it is.
 *
 * Characters that are invisible or change the direction of text are written as escapes, and long runs of blanks as
 * their number, so that an approval cannot show one text and mean another.
 */
export function formatExactly(value: unknown): string {
  const text = JSON.stringify(value, undefined, 2) as string | undefined;
  return text === undefined ? "" : visible(text);
}

/** A text in which every character can be seen for what it is; its lines stay lines. */
export function visible(text: string): string {
  return text
    .split("\n")
    .map((line) =>
      line
        .replace(HIDDEN, escaped)
        .replace(BLANKS, (_, before: string, blanks: string) => `${before}\\[${formatCount(blanks.length)} spaces]`),
    )
    .join("\n");
}

/** Marks of direction, and characters without a look of their own; joiners and variants belong to scripts and emoji. */
const DISGUISE =
  /(?!\u200c|\u200d|[\ufe00-\ufe0f]|[\u{e0100}-\u{e01ef}]|[\u{e0020}-\u{e007f}])(?:\p{Default_Ignorable_Code_Point}|\p{Bidi_Control})/gu;

/** A text in which no character hides or turns others around; everything else is as it was. */
export function undisguised(text: string): string {
  return text.replace(DISGUISE, escaped);
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\U${code.toString(16).padStart(8, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
}

/** A text that is cut to a length, with a sign that it was. */
export function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax - 1)}…`;
}

/** Words of an error as a sentence begins; a name at their front stays as it is. */
export function sentence(text: string): string {
  return /^[a-z]+(?:[ ,;:]|$)/u.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

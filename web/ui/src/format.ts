/** Formats of numbers, times, sizes and values: those of a language, and the English ones. */

const SECOND_MS = 1_000;
const MINUTE_S = 60;
const HOUR_S = 60 * MINUTE_S;
const DAY_S = 24 * HOUR_S;
const MICROS = 1_000_000;
const MICROS_PER_CENT = 10_000;
/** Less than this is nothing in four digits. */
const MICROS_SHOWN = 100;
const HIDDEN = /\p{C}|[\p{Zl}\p{Zp}]|\p{Default_Ignorable_Code_Point}|\u2800|[^\S ]/gu;
const BLANKS = /(\S)( {9,})/gu;

/** Words beside numbers. */
export const UNITS = {
  millisecond: "ms",
  second: "s",
  minute: "min",
  hour: "h",
  day: "d",
  byte: "B",
  kilobyte: "kB",
  megabyte: "MB",
  /** Blanks that stand for themselves in a long row. */
  spaces: (count: string): string => `${count} spaces`,
};

/** Formats of one language. */
export interface Formats {
  /** A time span in its two largest units: 850 ms, 1.2 s, 3 min 20 s, 2 h 4 min, 3 d 1 h. */
  readonly formatDuration: (ms: number) => string;
  /**
   * A moment with its milliseconds, in the zone of the reader; the day is left out if it is that of `nowMs`. A text that
   * is no moment is shown as it is.
   */
  readonly formatMoment: (at: string, nowMs?: number) => string;
  /** A moment in hours and minutes; the day stands before it unless it is that of `nowMs`. */
  readonly formatClock: (at: string, nowMs?: number) => string;
  /** A moment with its day: Mon 16 Nov 2026, 04:12:07. A text that is no moment is shown as it is. */
  readonly formatWhen: (at: string) => string;
  /** Money, given in millionths of a dollar; small amounts keep their digits. */
  readonly formatCost: (micros: number) => string;
  /** A count with commas. */
  readonly formatCount: (count: number) => string;
  /** A large count in few characters: 1.2k, 3.4M. */
  readonly formatShort: (count: number) => string;
  /** A size: 820 B, 12 kB, 3.4 MB. */
  readonly formatBytes: (bytes: number) => string;
  /**
   * A value as JSON in which every character can be seen for what it is.
   *
   * Characters that are invisible or change the direction of text are written as escapes, and long runs of blanks as
   * their number, so that an approval cannot show one text and mean another.
   */
  readonly formatExactly: (value: unknown) => string;
  /** A text in which every character can be seen for what it is; its lines stay lines. */
  readonly visible: (text: string) => string;
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" } as const;
const DAY = { day: "numeric", month: "short", year: "numeric" } as const;

type Money = (micros: number) => string;

/** The formats of a language; without one, English with the day before the month. */
export function formatsOf(locale: string | undefined, units: typeof UNITS): Formats {
  const numbers = locale ?? "en-US";
  const count = new Intl.NumberFormat(numbers);
  const short = new Intl.NumberFormat(numbers, { notation: "compact", maximumFractionDigits: 1 });
  const tenth = new Intl.NumberFormat(numbers, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const visible = (text: string): string =>
    text
      .split("\n")
      .map((line) =>
        line
          .replace(HIDDEN, escaped)
          .replace(
            BLANKS,
            (_, before: string, blanks: string) => `${before}\\[${units.spaces(count.format(blanks.length))}]`,
          ),
      )
      .join("\n");
  return {
    ...momentFormats(locale),
    formatDuration: durationFormat(tenth, units),
    formatCost: costFormat(numbers),
    formatCount: (number) => count.format(number),
    formatShort: (number) => short.format(number).replace(/K$/u, "k"),
    formatBytes: (bytes) => {
      if (bytes < 1_000) return `${bytes} ${units.byte}`;
      return bytes < 1_000_000
        ? `${Math.round(bytes / 1_000)} ${units.kilobyte}`
        : `${tenth.format(bytes / 1_000_000)} ${units.megabyte}`;
    },
    formatExactly: (value) => {
      const text = JSON.stringify(value, undefined, 2) as string | undefined;
      return text === undefined ? "" : visible(text);
    },
    visible,
  };
}

function durationFormat(tenth: Intl.NumberFormat, units: typeof UNITS): Formats["formatDuration"] {
  const parts = (seconds: number, large: number, largeName: string, small: number, smallName: string): string => {
    const rest = Math.floor((seconds % large) / small);
    const first = `${Math.floor(seconds / large)} ${largeName}`;
    return rest === 0 ? first : `${first} ${rest} ${smallName}`;
  };
  return (ms) => {
    if (Math.round(ms) < SECOND_MS) return `${Math.round(ms)} ${units.millisecond}`;
    // Rounded once, and then cut: no unit ever has as many as the next larger one.
    const tenths = Math.round(ms / 100);
    if (tenths < MINUTE_S * 10) return `${tenth.format(tenths / 10)} ${units.second}`;
    const seconds = Math.round(ms / SECOND_MS);
    if (seconds < HOUR_S) return parts(seconds, MINUTE_S, units.minute, 1, units.second);
    const minutes = Math.round(seconds / MINUTE_S) * MINUTE_S;
    if (minutes < DAY_S) return parts(minutes, HOUR_S, units.hour, MINUTE_S, units.minute);
    return parts(Math.round(seconds / HOUR_S) * HOUR_S, DAY_S, units.day, HOUR_S, units.hour);
  };
}

function momentFormats(locale: string | undefined): Pick<Formats, "formatMoment" | "formatClock" | "formatWhen"> {
  const moments = locale ?? "en-GB";
  const time = new Intl.DateTimeFormat(moments, { ...CLOCK, fractionalSecondDigits: 3 });
  const minute = new Intl.DateTimeFormat(moments, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat(moments, DAY);
  const when = new Intl.DateTimeFormat(moments, { ...CLOCK, ...DAY, weekday: "short" });
  const withDay = (clock: Intl.DateTimeFormat, at: string, nowMs: number): string => {
    const ms = Date.parse(at);
    if (Number.isNaN(ms)) return at;
    const own = day.format(ms);
    return own === day.format(nowMs) ? clock.format(ms) : `${own}, ${clock.format(ms)}`;
  };
  return {
    formatMoment: (at, nowMs = Date.now()) => withDay(time, at, nowMs),
    formatClock: (at, nowMs = Date.now()) => withDay(minute, at, nowMs),
    formatWhen: (at) => {
      if (Number.isNaN(Date.parse(at))) return at;
      const text = when.format(Date.parse(at));
      // In English the first comma, behind the weekday, is left out.
      return locale === undefined ? text.replace(",", "") : text;
    },
  };
}

function costFormat(numbers: string): Formats["formatCost"] {
  const dollarsWith = (digits: number): Money => {
    const money = new Intl.NumberFormat(numbers, {
      style: "currency",
      currency: "USD",
      useGrouping: false,
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    return (micros) => money.format(micros / MICROS);
  };
  const [dollars, cents, mills, small, tiny] = [0, 2, 3, 4, 6].map(dollarsWith) as [Money, Money, Money, Money, Money];
  return (micros) => {
    if (Math.round(micros) === 0) return dollars(0);
    if (micros < MICROS_SHOWN) return tiny(micros);
    if (micros < MICROS_PER_CENT) return small(micros);
    return micros < MICROS ? mills(micros) : cents(micros);
  };
}

/** The English formats. */
export const FORMATS: Formats = formatsOf(undefined, UNITS);
export const {
  formatDuration,
  formatMoment,
  formatClock,
  formatWhen,
  formatCost,
  formatCount,
  formatShort,
  formatBytes,
  formatExactly,
  visible,
} = FORMATS;

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

/** A value as indented JSON; a text as itself. */
export function formatValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
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
  // Not in the middle of a character.
  return text.length <= charsMax ? text : `${text.slice(0, charsMax - 1).replace(/\p{Surrogate}$/u, "")}…`;
}

/** Words of an error as a sentence begins; a name at their front stays as it is. Nothing in them is hidden. */
export function sentence(text: string): string {
  const plain = undisguised(text);
  return /^[a-z]+(?:[ ,;:]|$)/u.test(plain) ? plain.charAt(0).toUpperCase() + plain.slice(1) : plain;
}

const LINE_CHARS_MAX = 120;

/** Arguments of a call in one line: the names and values of their fields. A text or a list is shown as it is. */
export function inOneLine(value: unknown, show: Formats["visible"] = visible): string {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  const names = isObject ? Object.entries(value) : [];
  const line = !isObject ? briefly(value) : names.map(([name, field]) => `${name} ${briefly(field)}`).join(", ");
  return cut(show(line).replace(/\s+/gu, " ").trim(), LINE_CHARS_MAX);
}

function briefly(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

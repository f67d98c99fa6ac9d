/** Formats of numbers, times, sizes and values. */

const MS_PER_S = 1_000;
const S_PER_MIN = 60;
const MICROS_PER_CENT = 10_000;
/** Less than this is nothing in four digits. */
const MICROS_SHOWN = 100;
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
  if (Math.round(micros) === 0) return "$0";
  if (micros < MICROS_SHOWN) return `$${(micros / MICROS).toFixed(6)}`;
  return `$${(micros / MICROS).toFixed(micros < MICROS_PER_CENT ? 4 : 2)}`;
}

/** A count with commas. */
export function formatCount(count: number): string {
  return count.toLocaleString("en-US");
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
  return ((JSON.stringify(value, undefined, 2) as string | undefined) ?? "")
    .split("\n")
    .map((line) =>
      line
        .replace(HIDDEN, escaped)
        .replace(BLANKS, (_, before: string, blanks: string) => `${before}\\[${formatCount(blanks.length)} spaces]`),
    )
    .join("\n");
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

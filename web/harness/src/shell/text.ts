/** Text as Python treats it, so that both languages grade the same. */

/** The inside of a character class: what Python takes for white space. */
export const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
/** The inside of a character class (flag `u`): what Python takes for a letter of a word. */
export const WORD = "\\p{L}\\p{N}_";

const SPACES = new RegExp(`[${SPACE}]+`, "u");
const ONE_SPACE = new RegExp(`[${SPACE}]`, "u");

/** The words between white space. */
export function splitWords(text: string): string[] {
  return text.split(SPACES).filter((word) => word !== "");
}

/** The text without white space, or without these characters, at both ends. */
export function strip(text: string, chars?: string): string {
  const goes = (char: string): boolean => (chars === undefined ? ONE_SPACE.test(char) : chars.includes(char));
  let start = 0;
  let end = text.length;
  while (start < end && goes(text.charAt(start))) start += 1;
  while (end > start && goes(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** The text without these characters at its start. */
export function stripStart(text: string, chars: string): string {
  let start = 0;
  while (start < text.length && chars.includes(text.charAt(start))) start += 1;
  return text.slice(start);
}

/** What is before the first separator, the separator, and what is after it. */
export function partition(text: string, separator: string): [string, string, string] {
  const found = text.indexOf(separator);
  if (found < 0) return [text, "", ""];
  return [text.slice(0, found), separator, text.slice(found + separator.length)];
}

/** The text without a prefix that it may have. */
export function removePrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

/** The text without a suffix that it may have. */
export function removeSuffix(text: string, suffix: string): string {
  return suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
}

/** Whether the text begins with one of these. */
export function startsWithAny(text: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => text.startsWith(prefix));
}

/** Whether the text is longer than so many characters. */
export function isLonger(text: string, limit: number): boolean {
  return text.length > limit && Array.from(text).length > limit;
}

/** The first characters of the text. */
export function cut(text: string, limit: number): string {
  return text.length > limit ? Array.from(text).slice(0, limit).join("") : text;
}

/** What is left of the text after as many characters as `head` has. */
export function after(text: string, head: string): string {
  return Array.from(text).slice(Array.from(head).length).join("");
}

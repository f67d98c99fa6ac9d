/** Programs with subcommands: match the rules of their family against the words. */
import { CLOUD_FAMILIES, DEVELOPMENT_FAMILIES, FAMILY_WORDS_MAX, SYSTEM_FAMILIES } from "../generated/shell-tables.js";
import { matchesExactly } from "./paths.js";
import type { Call } from "./scene.js";
import { partition, splitWords, strip } from "./text.js";

/** The rules of each program with subcommands, by category. */
export const FAMILIES: ReadonlyMap<string, ReadonlyMap<string, string>> = new Map([
  ...DEVELOPMENT_FAMILIES,
  ...CLOUD_FAMILIES,
  ...SYSTEM_FAMILIES,
]);

/**
 * Report the first matching rule of each category; say whether any matched.
 *
 * With `fromStart` a rule's words must be the first ones, so that a name given later cannot match.
 */
export function gradeFamily(call: Call, words?: readonly string[], fromStart = false): boolean {
  const texts = (words ?? call.texts).slice(0, FAMILY_WORDS_MAX);
  call.engine.spend(texts.length);
  if (call.args.length > FAMILY_WORDS_MAX) call.note("unknown/size");
  const operands = texts.filter((text) => !isOption(text));
  const options = optionsOf(texts);
  let isDangerous = false;
  for (const [category, rules] of FAMILIES.get(call.name) ?? []) {
    const rule = rules.split(";").find((text) => matches(splitWords(text), operands, options, fromStart));
    if (rule !== undefined) {
      call.note(category, strip(rule));
      isDangerous = true;
    }
  }
  return isDangerous;
}

function isOption(text: string): boolean {
  return text.startsWith("-") && text !== "--";
}

function optionsOf(texts: readonly string[]): Set<string> {
  const found = new Set<string>();
  texts.forEach((text, number) => {
    if (!isOption(text)) return;
    const name = partition(text, "=")[0];
    found
      .add(text)
      .add(name)
      .add(`${name}=${texts[number + 1] ?? ""}`);
    if (text.startsWith("--")) return;
    for (const letter of text.slice(1)) found.add(`-${letter}`);
  });
  return found;
}

function matches(
  rule: readonly string[],
  operands: readonly string[],
  options: ReadonlySet<string>,
  fromStart: boolean,
): boolean {
  const words = rule.filter((word) => !isOption(word));
  const isGiven = (flag: string): boolean =>
    options.has(flag) || [...options].some((option) => matchesWord(option, flag));
  if (!rule.filter(isOption).every(isGiven)) return false;
  const last = Math.min(operands.length - words.length, fromStart ? 0 : FAMILY_WORDS_MAX);
  for (let start = 0; start <= last; start += 1) {
    if (words.every((word, number) => matchesWord(operands[start + number] ?? "", word))) return true;
  }
  return false;
}

function matchesWord(text: string, pattern: string): boolean {
  return text === pattern || (pattern.includes("*") && matchesExactly(text, [pattern]));
}

/** Custom patterns of the host: they can raise a grade, never lower one. */
import type { CommandSafetyPattern } from "@windlass/protocol";

import { PART_CHARS_MAX, PATTERN_CHARS_MAX, PATTERN_INPUT_CHARS_MAX } from "../generated/shell-tables.js";
import type { ShellConfig } from "./model.js";
import { ShellReason } from "./model.js";
import { regex } from "./regex.js";
import { cut, isLonger } from "./text.js";

const CLASS = regex(String.raw`\[\^?\]?(?:\\.|[^\]\\])*\]`, "g");
const ESCAPE = regex(String.raw`\\.`, "gs");
const NOT_PORTABLE = regex(String.raw`\(\?(?![:=!]|<[=!]|<[A-Za-z])|\(\?P|\\[AZzGQEK]|[*+?}]\+|\\[pP]\{|\\[1-9]|\\k<`);
/** Sets inside sets: Python warns that their meaning will change, and other languages differ already. */
const NESTED_SET = /^\[\^?\[|\[:|--|&&|~~|\|\|/;
const REPEATED_GROUP = regex(String.raw`\)(?:[*+]|\{\d+,\d*\})`, "g");
const QUANTIFIER = regex(String.raw`(?:[*+]|\{\d*,\d*\})`);
const QUANTIFIERS = new RegExp(QUANTIFIER, "gu");
const ADJACENT = regex(String.raw`(?:\.|x)[*+](?:\(?\.|x)[*+]`);
const WIDE_REPEATS_MAX = 2;

/** Match every pattern of this platform against these texts. */
export function patternReasons(commands: readonly string[], config: ShellConfig): ShellReason[] {
  const reasons: ShellReason[] = [];
  const texts = commands.map((text) => cut(text, PATTERN_INPUT_CHARS_MAX));
  for (const pattern of config.patterns) {
    if (pattern.platform !== "all" && pattern.platform !== config.platform) continue;
    const reason = match(pattern, texts);
    if (reason !== undefined) reasons.push(reason);
  }
  return reasons;
}

function match(pattern: CommandSafetyPattern, texts: readonly string[]): ShellReason | undefined {
  const expression = compile(pattern.pattern);
  if (expression === undefined) {
    return new ShellReason(
      "unknown/pattern",
      "caution",
      `pattern ${pattern.id} cannot be used`,
      cut(pattern.pattern, PART_CHARS_MAX),
    );
  }
  for (const text of texts) {
    const found = expression.exec(text);
    if (found !== null) {
      const severity = pattern.severity === "critical" ? "dangerous" : "caution";
      const message = `matches pattern ${pattern.id}`;
      return new ShellReason(pattern.category, severity, message, cut(found[0], PART_CHARS_MAX));
    }
  }
  return undefined;
}

function compile(pattern: string): RegExp | undefined {
  if (isLonger(pattern, PATTERN_CHARS_MAX) || NOT_PORTABLE.test(pattern) || mayBacktrack(pattern)) {
    return undefined;
  }
  const sets = pattern.replace(ESCAPE, "x").match(CLASS) ?? [];
  if (sets.some((set) => NESTED_SET.test(set))) return undefined;
  try {
    const expression = regex(pattern);
    // An expression that is too big says so only when it is used.
    expression.test("");
    return expression;
  } catch {
    return undefined;
  }
}

/** Say whether matching could take long: repeats inside repeats, or many wide ones. */
export function mayBacktrack(pattern: string): boolean {
  const plain = pattern.replace(ESCAPE, "x").replace(CLASS, "x");
  for (const found of plain.matchAll(REPEATED_GROUP)) {
    const inner = plain.slice(groupStart(plain, found.index), found.index);
    if (QUANTIFIER.test(inner) || inner.includes("|") || inner.replaceAll("(?:", "").includes("?")) {
      return true;
    }
  }
  return ADJACENT.test(plain) || [...plain.matchAll(QUANTIFIERS)].length > WIDE_REPEATS_MAX + 1;
}

function groupStart(text: string, end: number): number {
  let depth = 0;
  for (let position = end; position >= 0; position -= 1) {
    if (text[position] === ")") {
      depth += 1;
    } else if (text[position] === "(") {
      depth -= 1;
      if (depth === 0) return position;
    }
  }
  return 0;
}

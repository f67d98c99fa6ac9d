/** What a policy is made of: rules, the set of them, and the facts of a call. */
import type { JsonObject, ToolMode } from "@windlass/protocol";

import { runsAnything } from "./policy-programs.js";

/** What a rule says of a call, weakest first: of two that match, the later one wins. */
export const EFFECTS = ["allow", "modify", "ask", "defer", "interrupt", "deny"] as const;
export type Effect = (typeof EFFECTS)[number];

const GRADES = ["safe", "caution", "dangerous"] as const;
/** The grade of a shell command. */
export type Severity = (typeof GRADES)[number];

/** What a session has read: content that anybody may have written, and data that must not get out. */
export type Taint = "untrusted" | "private";

export const RULES_MAX = 1_000;
export const RESERVED_PREFIXES = ["default.", "floor."];

/**
 * What is known of a tool call before it is made.
 *
 * `commands` holds the words of every simple command of a shell call, as written. Leave it out unless
 * the call is nothing but such commands joined by `;`, `&&`, `||` and `|`: with a redirection or a
 * substitution the words are not the whole story. `isOutbound` says whether the call can carry data out;
 * without it external tools, local ones that are not graded safe, and undeclared ones are taken to do so.
 */
export interface CallFacts {
  readonly tool: string;
  readonly declared?: ToolMode;
  readonly shell?: Severity;
  readonly commands?: readonly (readonly string[])[];
  readonly taint?: readonly Taint[];
  readonly isOutbound?: boolean;
  readonly arguments?: JsonObject;
}

/**
 * One rule of a policy: what it says, and of which calls.
 *
 * A rule matches a call if all that it names fits; what it leaves out fits everything. `tools` are exact
 * names in which `*` stands for any characters. `commands` are the first words of shell commands: a grant
 * needs every command of the call to start so, any other rule needs one. `tainted` is about sessions that
 * have read both untrusted content and private data.
 *
 * An allow or modify rule is a grant. It covers a dangerous shell command only with
 * `maxShell: "dangerous"`, a tainted session's way out only with `tainted: true`, and never a mode that
 * was guessed from a name.
 */
export interface Rule {
  readonly id: string;
  readonly effect: Effect;
  readonly reason?: string;
  readonly tools?: readonly string[];
  readonly modes?: readonly ToolMode[];
  readonly minShell?: Severity;
  readonly maxShell?: Severity;
  readonly commands?: readonly string[];
  readonly tainted?: boolean;
  readonly arguments?: JsonObject;
  readonly resumeAfterMs?: number;
}

/**
 * The rules that hold together; their order means nothing.
 *
 * `version` is named in every decision. `trustsNames` takes a mode guessed from a tool's name for a
 * declared one; leave it off unless you know every tool.
 */
export interface PolicySet {
  readonly rules: readonly Rule[];
  readonly version?: string;
  readonly trustsNames?: boolean;
}

/** Check a policy and return it; throws a RangeError if a rule makes no sense or would allow anything. */
export function policySet(policy: PolicySet): PolicySet {
  if (policy.rules.length > RULES_MAX) {
    throw new RangeError(`too many rules: ${policy.rules.length}, limit ${RULES_MAX}`);
  }
  const seen = new Set<string>();
  for (const rule of policy.rules) {
    checkRule(rule);
    if (seen.has(rule.id)) throw new RangeError(`two rules have the id ${rule.id}; give each its own`);
    seen.add(rule.id);
  }
  return policy;
}

function checkRule(rule: Rule): void {
  const problem = problemOfId(rule.id) ?? problemOf(rule);
  if (problem !== undefined) throw new RangeError(`rule ${rule.id}: ${problem}`);
  for (const command of rule.commands ?? []) {
    if (!COMMAND.test(command)) {
      throw new RangeError(`rule ${rule.id}: a command is plain words with one space between them: ${command}`);
    }
    if (isGrant(rule) && runsAnything(command.split(" "))) {
      throw new RangeError(
        `rule ${rule.id}: ${command} can run any program, so it cannot always be allowed; ` +
          "name the program that it should run, or ask each time",
      );
    }
  }
}

function problemOfId(id: string): string | undefined {
  const { length } = Array.from(id);
  // eslint-disable-next-line no-control-regex -- control characters are what an id must not hold
  if (length < 1 || length > 512 || /[\u0000-\u001f\u007f]/.test(id)) {
    return "an id has 1 to 512 characters, none of them a control character";
  }
  const isTaken = RESERVED_PREFIXES.some((prefix) => id.startsWith(prefix));
  return isTaken ? `ids that start with ${RESERVED_PREFIXES.join(" or ")} are taken` : undefined;
}

function problemOf(rule: Rule): string | undefined {
  if (!EFFECTS.includes(rule.effect)) return `the effect must be one of ${EFFECTS.join(", ")}`;
  if ((rule.arguments !== undefined) !== (rule.effect === "modify")) {
    return "arguments belong to modify rules, and to all of them";
  }
  if (rule.resumeAfterMs !== undefined && (rule.effect !== "defer" || rule.resumeAfterMs < 0)) {
    return "resumeAfterMs belongs to defer rules and is 0 or more";
  }
  if (rule.minShell && rule.maxShell && gradeOf(rule.minShell) > gradeOf(rule.maxShell)) {
    return "minShell is above maxShell, so it matches nothing";
  }
  return undefined;
}

/** Say whether a rule lets calls through. */
export function isGrant(rule: Rule): boolean {
  return rule.effect === "allow" || rule.effect === "modify";
}

/** Say whether the session could be made to carry private data out. */
export function isTainted(call: CallFacts): boolean {
  return call.taint !== undefined && call.taint.includes("untrusted") && call.taint.includes("private");
}

/** Say whether the rule is about this call, whose mode may be a guess. */
export function matches(rule: Rule, call: CallFacts, mode: ToolMode, isModeSure: boolean): boolean {
  return (
    (rule.tools ?? ["*"]).some((pattern) => matchesName(pattern, call.tool)) &&
    (rule.modes === undefined || (rule.modes.includes(mode) && (isModeSure || !isGrant(rule)))) &&
    fitsShell(rule, call) &&
    (rule.tainted === undefined || rule.tainted === isTainted(call))
  );
}

function fitsShell(rule: Rule, call: CallFacts): boolean {
  const { minShell, maxShell, commands = [] } = rule;
  if (call.shell === undefined) return minShell === undefined && maxShell === undefined && commands.length === 0;
  const grade = gradeOf(call.shell);
  return (
    grade >= gradeOf(minShell ?? "safe") &&
    grade <= gradeOf(maxShell ?? "dangerous") &&
    (commands.length === 0 || fitsCommands(rule, commands, call.commands ?? []))
  );
}

function fitsCommands(rule: Rule, starts: readonly string[], commands: readonly (readonly string[])[]): boolean {
  const fits = commands.map((words) =>
    starts.some((start) => start.split(" ").every((word, index) => words[index] === word)),
  );
  return isGrant(rule) ? fits.length > 0 && fits.every(Boolean) : fits.some(Boolean);
}

/** Compare a name with a pattern: exact, but `*` stands for any characters. */
export function matchesName(pattern: string, name: string): boolean {
  const [first = "", ...middle] = pattern.split("*");
  const last = middle.pop();
  if (last === undefined) return name === pattern;
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  const end = name.length - last.length;
  let at = first.length;
  for (const part of middle) {
    const found = name.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

function gradeOf(severity: Severity): number {
  return GRADES.indexOf(severity);
}

const COMMAND = /^[A-Za-z0-9_./:@+,=-]+(?: [A-Za-z0-9_./:@+,=-]+)*$/;

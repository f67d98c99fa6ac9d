/** What a policy is made of: rules, the set of them, and the facts of a call. */
import type { JsonObject } from "@windlass/protocol";
import { ToolMode } from "@windlass/protocol";

import {
  ifGiven,
  problemOfChoice,
  problemOfCommands,
  problemOfFlag,
  problemOfLabels,
  problemOfList,
  problemOfRecord,
  problemOfText,
  problemOfTexts,
} from "./policy-checks.js";
import { runsAnything } from "./policy-programs.js";

/** What a rule says of a call, weakest first: of two that match, the later one wins. */
export const EFFECTS = ["allow", "modify", "ask", "defer", "interrupt", "deny"] as const;
export type Effect = (typeof EFFECTS)[number];

const GRADES = ["safe", "caution", "dangerous"] as const;
/** The grade of a shell command. */
export type Severity = (typeof GRADES)[number];

/** What a session has read: content that anybody may have written, and data that must not get out. */
export type Taint = (typeof TAINTS)[number];
const TAINTS = ["untrusted", "private"] as const;

export const RULES_MAX = 1_000;
export const RESERVED_PREFIXES = ["default.", "floor."];

/**
 * What is known of a tool call before it is made.
 *
 * `commands` holds the words of every simple command of a shell call, as written. Leave it out unless
 * the call is nothing but such commands joined by `;`, `&&`, `||` and `|`: with a redirection or a
 * substitution the words are not the whole story. `isOutbound` says whether the call can carry data out;
 * without it every call but a declared local one that is graded safe is taken to do so.
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
 * needs every command of the call to start so, any other rule needs one. A shell call whose commands are not
 * known may run any of them: no grant by commands covers it, and every other rule about commands does.
 * `tainted` is about sessions that have read both untrusted content and private data.
 *
 * An allow or modify rule is a grant. It covers a dangerous shell command only with
 * `maxShell: "dangerous"`, and a tainted session's way out only with `tainted: true`. A grant with `modes`
 * never covers a tool that declares no mode, because its mode is only guessed from its name (unless the
 * policy trusts names); a grant without `modes` covers declared and undeclared tools alike.
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
  refuse(
    problemOfRecord(policy, "a policy") ??
      problemOfList(policy.rules, "rules", "rules") ??
      ifGiven(policy.version, (version) => problemOfText(version, "version")) ??
      ifGiven(policy.trustsNames, (flag) => problemOfFlag(flag, "trustsNames")),
  );
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

/** Check the facts of a call and return them; throws a RangeError if one is not what it should be. */
export function callFacts(call: CallFacts): CallFacts {
  refuse(
    problemOfRecord(call, "a call") ??
      problemOfText(call.tool, "tool") ??
      ifGiven(call.declared, (mode) => problemOfChoice(mode, "declared", ToolMode.options)) ??
      ifGiven(call.shell, (grade) => problemOfChoice(grade, "shell", GRADES)) ??
      ifGiven(call.commands, problemOfCommands) ??
      ifGiven(call.taint, (taint) => problemOfLabels(taint, "taint", TAINTS)) ??
      ifGiven(call.isOutbound, (flag) => problemOfFlag(flag, "isOutbound")) ??
      ifGiven(call.arguments, (given) => problemOfRecord(given, "arguments")),
  );
  return call;
}

function refuse(problem: string | undefined): void {
  if (problem !== undefined) throw new RangeError(problem);
}

function checkRule(rule: Rule): void {
  refuse(problemOfRecord(rule, "each of rules") ?? problemOfText(rule.id, "the id of a rule"));
  const problem = problemOfId(rule.id) ?? problemOfAnswer(rule) ?? problemOfScope(rule) ?? problemOfShell(rule);
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

function problemOfAnswer(rule: Rule): string | undefined {
  const problem =
    problemOfChoice(rule.effect, "effect", EFFECTS) ??
    ifGiven(rule.reason, (reason) => problemOfText(reason, "reason"));
  if (problem !== undefined) return problem;
  if ((rule.arguments !== undefined) !== (rule.effect === "modify")) {
    return "arguments belong to modify rules, and to all of them";
  }
  if (rule.resumeAfterMs !== undefined && (rule.effect !== "defer" || !isWait(rule.resumeAfterMs))) {
    return "resumeAfterMs belongs to defer rules and is a whole number of 0 or more";
  }
  return ifGiven(rule.arguments, (given) => problemOfRecord(given, "arguments"));
}

function problemOfScope(rule: Rule): string | undefined {
  const problem =
    ifGiven(rule.tools, (tools) => problemOfTexts(tools, "tools", "names")) ??
    ifGiven(rule.modes, (modes) => problemOfLabels(modes, "modes", ToolMode.options)) ??
    ifGiven(rule.tainted, (flag) => problemOfFlag(flag, "tainted"));
  if (problem !== undefined) return problem;
  if (rule.tools?.length === 0) return "tools is empty, so it matches nothing; leave it out to match every tool";
  if (rule.modes?.length === 0) return "modes is empty, so it matches nothing; leave it out to match every mode";
  return undefined;
}

function problemOfShell(rule: Rule): string | undefined {
  const problem =
    ifGiven(rule.minShell, (grade) => problemOfChoice(grade, "minShell", GRADES)) ??
    ifGiven(rule.maxShell, (grade) => problemOfChoice(grade, "maxShell", GRADES)) ??
    ifGiven(rule.commands, (commands) => problemOfTexts(commands, "commands", "commands"));
  if (problem !== undefined) return problem;
  if (rule.minShell && rule.maxShell && gradeOf(rule.minShell) > gradeOf(rule.maxShell)) {
    return "minShell is above maxShell, so it matches nothing";
  }
  return undefined;
}

function isWait(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
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
    (commands.length === 0 || isBlind(rule, call) || fitsCommands(rule, commands, call.commands ?? []))
  );
}

/** Say whether the rule holds because nobody knows what a shell call runs. */
export function isBlind(rule: Rule, call: CallFacts): boolean {
  const isUnknown = call.shell !== undefined && (call.commands ?? []).length === 0;
  return isUnknown && (rule.commands ?? []).length > 0 && !isGrant(rule);
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

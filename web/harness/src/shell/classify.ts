/** The door: from a command to a verdict, whatever the command is. */
import {
  COMMAND_CHARS_MAX,
  MESSAGES,
  NODES_MAX,
  PARSE_UNITS_MAX,
  PART_CHARS_MAX,
  REASONS_MAX,
  SCAN_UNITS_MAX,
  WORK_UNITS_MAX,
} from "../generated/shell-tables.js";
import type { Finding } from "./grade-parts.js";
import { parsed, severityOf } from "./grade-parts.js";
import { Grader } from "./grade.js";
import { literalCommands } from "./literal.js";
import type { Commands, Severity } from "./model.js";
import { ShellConfig, ShellReason, ShellVerdict } from "./model.js";
import { parseProgram } from "./parser.js";
import { patternReasons } from "./patterns.js";
import type { ShellGrammar } from "./referee.js";
import { agrees } from "./referee.js";
import { Scene } from "./scene.js";
import { cut, isLonger, strip } from "./text.js";
import { Budget, TooMuchWork } from "./tree.js";

const RANK: Readonly<Record<Severity, number>> = { safe: 0, caution: 1, dangerous: 2 };
const CONTROL_CHARS =
  "\\u034f\\u17b4\\u17b5\\u180b-\\u180f\\ufe00-\\ufe0f\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xa0\\xad\\u061c\\u115f\\u1160" +
  "\\u1680\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164\\ufeff\\uffa0\\ufff0-\\uffff\\ud800-\\udfff" +
  "\\ue000-\\uf8ff\\u{e0000}-\\u{e0fff}\\u{f0000}-\\u{10ffff}";
const CONTROL = new RegExp(`[${CONTROL_CHARS}]`, "u");
const CONTROLS = new RegExp(`[${CONTROL_CHARS}]`, "gu");
const PLAIN_EVERYWHERE = /^[A-Za-z0-9_ ./=:-]*$/;
const UNREADABLE: ReadonlySet<string> = new Set(["unknown/parse", "unknown/control", "unknown/size", "unknown/error"]);
const DEFAULT = new ShellConfig();
const REPLACEMENT = "\ufffc";

/**
 * Grade a shell command: safe, caution or dangerous, with reasons, worst first.
 *
 * Never throws: what is not understood is caution. The work is bounded by the length of the command and a
 * counter, so the same command always costs the same. Without a grammar in `config` nothing is safe.
 */
export function classifyShellCommand(command: string, config: ShellConfig = DEFAULT): ShellVerdict {
  const grader = new Grader(new Budget(WORK_UNITS_MAX));
  let extra: readonly ShellReason[] = [];
  let commands: Commands = [];
  const given: unknown = command;
  if (typeof given !== "string") {
    grader.note("unknown/type", given === null ? "null" : typeof given);
    return verdict(grader.findings, extra, commands);
  }
  try {
    commands = grade(command, config, grader);
    extra = patternReasons([command, ...grader.simpleCommands], config);
  } catch {
    // A grader that fails must not let the command through.
    grader.note("unknown/error", "");
  }
  return verdict(grader.findings, extra, commands);
}

function grade(command: string, config: ShellConfig, grader: Grader): Commands {
  let text = command;
  if (!strip(command)) {
    grader.note("unknown/empty", command);
    return [];
  }
  if (isLonger(command, COMMAND_CHARS_MAX)) {
    grader.note("unknown/size", command);
    text = cut(command, COMMAND_CHARS_MAX);
  }
  if (CONTROL.test(text)) {
    grader.note("unknown/control", command);
    text = text.replace(CONTROLS, REPLACEMENT);
  }
  if (config.platform === "windows" && !PLAIN_EVERYWHERE.test(text)) {
    // What bash takes for a quoted word, cmd and PowerShell may take for an operator.
    grader.note("unknown/parse", command);
  }
  try {
    return walk(grader, text, config.grammar);
  } catch (error) {
    if (!(error instanceof TooMuchWork)) throw error;
    grader.note("unknown/size", command);
    scanBriefly(new Grader(new Budget(SCAN_UNITS_MAX), grader.findings), text);
    return [];
  }
}

function scanBriefly(grader: Grader, text: string): void {
  try {
    grader.scan(text, new Scene());
  } catch (error) {
    if (!(error instanceof TooMuchWork)) throw error;
  }
}

function walk(grader: Grader, text: string, grammar: ShellGrammar | undefined): Commands {
  const scene = new Scene();
  const script = parsed(() => parseProgram(text, new Budget(PARSE_UNITS_MAX)));
  if (script === undefined) {
    grader.note("unknown/parse", text);
    grader.scan(text, scene);
    return [];
  }
  if (!grammar || !agrees(grammar, text, script, new Budget(NODES_MAX))) grader.note("unknown/parse", text);
  grader.runScript(script, scene);
  return literalCommands(script);
}

/** A part as a person may read it: what is unknown or invisible is an ellipsis. */
function shown(part: string): string {
  return cut(part.replace(CONTROLS, "…"), PART_CHARS_MAX);
}

function verdict(findings: readonly Finding[], extra: readonly ShellReason[], commands: Commands): ShellVerdict {
  const reasons = findings.map(
    ([category, part]) =>
      new ShellReason(category, severityOf(category), MESSAGES.get(category) ?? category, shown(part)),
  );
  const ordered = [...reasons, ...extra].sort((one, other) => RANK[other.severity] - RANK[one.severity]);
  const [worst] = ordered;
  if (!worst) return new ShellVerdict("safe", "read", [], commands);
  const isReadWrong = findings.some(([category]) => UNREADABLE.has(category));
  return new ShellVerdict(worst.severity, worst.code, ordered.slice(0, REASONS_MAX), isReadWrong ? [] : commands);
}

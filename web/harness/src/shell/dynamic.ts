/** Command words that are computed: try what they may become; never safe. */
import { DANGEROUS, HARMLESS_VARIABLES, INTERPRETERS, SHELLS } from "../generated/shell-tables.js";
import { checkArguments, gradeSuffixes } from "./commands.js";
import { fnmatchAny } from "./fnmatch.js";
import { fullRegex } from "./regex.js";
import type { Call } from "./scene.js";
import { COMPUTED, DECODED, FETCHED, Field, NAMES, SECRET, UNKNOWNS, UNSET } from "./scene.js";
import { isLonger, splitWords, strip } from "./text.js";

const DANGEROUS_ARGUMENT = fullRegex(
  "-[a-zA-Z]*(?:rf|fr|Rf|fR)[a-zA-Z]*|--no-preserve-root|--recursive|of=.*|" +
    "-delete|-exec(?:dir)?|/s|/q|-9|-KILL|--force",
);
const CODE_OPTION = fullRegex("-[a-z]*[ce]");
const PARAMETER = /\$\{?([A-Za-z_][A-Za-z0-9_]*)/g;
const VALUES_MAX = 8;
const GLOB_CHARS_MAX = 64;
const RISKY_NAMES = new Set([
  ...[...DANGEROUS.values()].flatMap(splitWords).filter((name) => !name.includes("*")),
  ...SHELLS,
  ...INTERPRETERS.keys(),
  ...["curl", "wget", "find", "xargs", "env", "eval", "chmod", "chown"],
]);

/** Grade a call whose command word is not literal; return what it may print. */
export function gradeDynamic(call: Call, head: Field): string {
  call.note("unknown/dynamic", head.raw);
  if (head.holds(FETCHED)) call.note("destructive/remote-code", head.raw);
  if (head.holds(DECODED, SECRET)) call.note("destructive/indirect", head.raw);
  if (head.isSure && strip(head.text, COMPUTED) === "" && !isNamedProgram(head)) {
    call.note("destructive/eval", head.raw);
  }
  if (call.texts.some((text) => DANGEROUS_ARGUMENT.test(text))) call.note("destructive/indirect");
  if (head.isGlob && mayBeDangerous(head.text)) call.note("destructive/indirect", head.raw);
  for (const value of candidates(call, head)) {
    if (call.engine.isDangerous([...value, ...call.args], call.scene)) call.note("destructive/indirect");
  }
  gradeCodeArgument(call);
  checkArguments(call);
  // An empty variable vanishes, and then the next word is the command.
  gradeSuffixes(call);
  return COMPUTED;
}

function parametersOf(text: string): string[] {
  return Array.from(text.matchAll(PARAMETER), (found) => found[1] ?? "");
}

function candidates(call: Call, head: Field): Field[][] {
  const found: Field[][] = [];
  if (!head.holds(...UNKNOWNS) && !head.isGlob) found.push([new Field(head.text, head.raw)]);
  for (const name of parametersOf(head.raw)) {
    for (const value of call.scene.history.get(name)?.slice(0, VALUES_MAX) ?? []) {
      const text = head.text.replaceAll(UNSET, () => value.text).replaceAll(COMPUTED, () => value.text);
      found.push(splitWords(text).map((word) => new Field(word, head.raw)));
    }
  }
  const stripped = strip(head.text, UNSET + COMPUTED + NAMES);
  if (stripped !== "" && stripped !== head.text) found.push([new Field(stripped, head.raw)]);
  return found.filter((words) => words[0]?.isKnown);
}

function isNamedProgram(head: Field): boolean {
  const names = parametersOf(head.raw);
  return names.length > 0 && names.every((name) => HARMLESS_VARIABLES.has(name));
}

function mayBeDangerous(pattern: string): boolean {
  const name = pattern.slice(pattern.lastIndexOf("/") + 1) || pattern;
  if (isLonger(name, GLOB_CHARS_MAX)) return true;
  return fnmatchAny(RISKY_NAMES, name);
}

function gradeCodeArgument(call: Call): void {
  for (const [number, option] of call.args.entries()) {
    const value = call.args[number + 1];
    if (value === undefined || !CODE_OPTION.test(option.text)) continue;
    if (call.engine.isDangerousCode(value.text, call.scene)) call.note("destructive/indirect", value.raw);
  }
}

/** Builtins that set variables. */
import { evaluateName, evaluateNumber, gradeSetting } from "./arithmetic.js";
import type { Rule } from "./commands.js";
import { decodeEscapes } from "./escapes.js";
import type { Call } from "./scene.js";
import { COMPUTED, Field, UNKNOWNS, UNSET } from "./scene.js";
import { setVariable } from "./settings.js";
import { partition, removeSuffix, startsWithAny, strip } from "./text.js";

const FORMAT = /%(?:%|([-+ #0]*[0-9*]*(?:\.[0-9*]+)?)(\([^)]*\)T|[a-zA-Z]))/g;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const READ_PLAINLY = /^-[rs]+$/;
/** The option that takes the name of a list, with the name attached. */
const READ_LIST = /^-[A-Za-z]*?a(?=.)/;
const ROUNDS_MAX = 16;

/** Report what may be a variable of the environment. */
export function noteUnset(call: Call, args: readonly Field[]): void {
  for (const arg of args) {
    if (arg.holds(UNSET)) call.note("unknown/dynamic", arg.raw);
  }
}

/** Print by a format, or set a variable. */
function printf(call: Call): string {
  let args = call.args;
  let variable = "";
  if (args[0]?.text.startsWith("-v")) {
    const attached = args[0].text.slice(2);
    variable = attached || (args[1]?.text ?? "");
    evaluateName(variable, call.scene, call.engine);
    args = args.slice(attached ? 1 : 2);
  }
  noteUnset(call, args);
  const output = format(args.map((arg) => arg.text).filter((text) => text !== "--"));
  if (variable) {
    const [name, bracket] = partition(variable, "[");
    setVariable(call, name, [new Field(output, call.raw, false, !bracket)]);
    return "";
  }
  return output;
}

function format(texts: readonly string[]): string {
  if (texts[0] === undefined) return "";
  const form = decodeEscapes(texts[0]);
  const values = texts.slice(1);
  let used = 0;
  const fill = (_: string, shape: string | undefined, letter: string | undefined): string => {
    if (letter === undefined) return "%";
    const given = values[used] ?? "";
    used += 1;
    const value = letter === "b" ? decodeEscapes(given, true) : given;
    const isPlain = !shape && (/^[sb]$/.test(letter) || (/^[diu]$/.test(letter) && /^[0-9]+$/.test(value)));
    return isPlain || !value ? value : COMPUTED;
  };
  const count = Math.max(1, [...form.matchAll(FORMAT)].filter((found) => found[2]).length);
  const rounds = Math.max(1, Math.ceil(values.length / count));
  let output = "";
  for (let round = 0; round < Math.min(rounds, ROUNDS_MAX); round += 1) output += form.replace(FORMAT, fill);
  return rounds <= ROUNDS_MAX ? output : output + COMPUTED;
}

/** Declare variables; with nothing to declare, print them. */
function declare(call: Call): string {
  const names = call.args.filter((arg) => !startsWithAny(arg.text, ["-", "+"]));
  const options = call.texts.filter((text) => text.startsWith("-")).join("");
  if (names.length === 0 || options.includes("p")) {
    if (!options.includes("f") && !options.includes("F")) call.note("read/secret");
    return COMPUTED;
  }
  for (const arg of names) declareOne(call, arg, options);
  return "";
}

function declareOne(call: Call, arg: Field, options: string): void {
  const [name, equals, value] = partition(arg.text, "=");
  evaluateName(name, call.scene, call.engine);
  const variable = removeSuffix(partition(name, "[")[0], "+");
  if (options.includes("n")) {
    call.note("unknown/redefine", arg.raw);
    call.scene.references.set(name, value);
    return;
  }
  if (options.includes("i")) call.scene.integers.add(variable);
  const isList = value.startsWith("(") || options.includes("a") || options.includes("A");
  if (isList) {
    // The parenthesis of a list is expanded even if it was quoted.
    call.engine.evaluateText(value, call.scene);
    if (UNKNOWNS.some((mark) => value.includes(mark))) call.note("unknown/dynamic", arg.raw);
  }
  if (call.name === "export" || options.includes("x")) gradeSetting(call, variable, true);
  if (equals) setVariable(call, variable, [new Field(value, arg.raw, false, arg.isSure && !isList)]);
}

/** Forget variables; a subscript is evaluated. */
function unset(call: Call): string {
  for (const arg of call.args) {
    evaluateName(arg.text, call.scene, call.engine);
    // Without PATH, programs are looked for in the working folder.
    if (arg.text === "PATH" || arg.text.startsWith("HIST")) gradeSetting(call, arg.text, false);
    call.scene.values.delete(arg.text);
    call.scene.functions.delete(arg.text);
  }
  return "";
}

/** Evaluate arithmetic. */
function let_(call: Call): string {
  for (const arg of call.args) evaluateNumber(arg.text, call.scene, call.engine);
  return "";
}

/** Read input into variables. */
function read(call: Call): string {
  const stdin = call.scene.stdin || COMPUTED;
  const text = UNKNOWNS.some((mark) => stdin.includes(mark)) ? COMPUTED : strip(stdin);
  // An option says which part of the input it is.
  const isPart = call.texts.some((option) => option.startsWith("-") && !READ_PLAINLY.test(option));
  const value = new Field(text, call.raw, false, call.name !== "mapfile" && !isPart);
  for (const given of call.texts) {
    const name = given.replace(READ_LIST, "");
    evaluateName(name, call.scene, call.engine);
    if (NAME.test(name)) setVariable(call, name, [value]);
  }
  if (call.name === "mapfile" && call.texts.some((option) => /^-[A-Za-z]*C/.test(option)))
    call.note("destructive/eval");
  return "";
}

/** getopts and wait: the shell sets the variables that are named. */
function setByShell(call: Call): string {
  for (const arg of call.args) {
    evaluateName(arg.text, call.scene, call.engine);
    if (NAME.test(arg.text)) setVariable(call, arg.text, [new Field(COMPUTED, arg.raw, false, false)]);
  }
  return "";
}

/** Drop the first positional parameters. */
function shift(call: Call): string {
  const count = call.texts[0] ?? "1";
  call.scene.positional = /^[0-9]{1,4}$/.test(count) ? call.scene.positional?.slice(Number(count)) : undefined;
  return "";
}

export const VARIABLES: ReadonlyMap<string, Rule> = new Map([
  ["printf", printf],
  ["export", declare],
  ["declare", declare],
  ["readonly", declare],
  ["unset", unset],
  ["let", let_],
  ["read", read],
  ["mapfile", read],
  ["getopts", setByShell],
  ["wait", setByShell],
  ["shift", shift],
]);

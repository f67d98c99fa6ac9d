/** Programs that run programs or program text: shells, interpreters, xargs, find. */
import {
  INTERPRETERS,
  PARALLEL_OPTIONS,
  PYTHON_MODULES,
  SCRIPT_PROGRAMS,
  SHELL_OPTIONS,
  SHELLS,
  XARGS_OPTIONS,
} from "../generated/shell-tables.js";
import type { Rule } from "./commands.js";
import { checkArguments, gradeSuffixes, gradeWrapper, isDangerousName, programName } from "./commands.js";
import { applyOptions, checkText, readDescribed, readPath, runPath, writePath } from "./effects.js";
import type { Arguments, Description } from "./options.js";
import { describe, readArguments } from "./options.js";
import { isSecretPath } from "./paths.js";
import { find } from "./rules-find.js";
import type { Call } from "./scene.js";
import { COMPUTED, DECODED, Field, fieldOf, SECRET, UNKNOWNS } from "./scene.js";
import { markInCode, markInEditorCommands, markInSql } from "./scripts.js";
import { gradeSetting } from "./arithmetic.js";
import { noteOrigin, runText } from "./stdin.js";
import { partition, splitWords, startsWithAny, strip } from "./text.js";

const DEBUGGERS: ReadonlySet<string> = new Set(["gdb", "lldb"]);
const EDITORS: ReadonlySet<string> = new Set([
  ..."vim vi nvim view rvim vimdiff ex ed red emacsclient nano".split(" "),
  ...DEBUGGERS,
]);
const DATABASES: ReadonlySet<string> = new Set(
  "sqlite3 duckdb psql mysql mariadb mongo mongosh cqlsh clickhouse-client clickhouse sqlcmd redis-cli".split(" "),
);
const TEMPLATE_STRINGS: ReadonlySet<string> = new Set(
  "node nodejs deno bun mysql mariadb sqlite3 mongosh mongo bq clickhouse-client".split(" "),
);
const SPLIT_OPTIONS: ReadonlySet<string> = new Set("-0 -d -E -e -I -i --null --delimiter --eof --replace".split(" "));
const INPUT_WORD = /^[A-Za-z0-9_./-]+\n?$/;
const REPLACED = /\{\}|\{[0-9./]*\}/;
const ITEMS_MAX = 4;

/** A shell: its `-c` text, its script, or its input is code. */
function shell(call: Call): string {
  const args = readArguments(describe(SHELL_OPTIONS), call.args);
  applyOptions(
    call,
    args.options.filter((option) => option.sign !== "$"),
  );
  const isInteractive = args.options.some((option) => option.name === "-i" || option.name === "-p");
  if (isInteractive || args.unknown.length > 0) call.note(isInteractive ? "destructive/shell" : "unknown/option");
  const code = args.options.find((option) => option.sign === "$")?.value;
  const [first] = args.operands;
  if (code) {
    const inner = call.scene.copy();
    inner.positional = args.operands.slice(1);
    if (first) inner.values.set("0", [first]);
    return runText(call, code.text, inner);
  }
  const readsInput = args.options.some((option) => option.name === "-s");
  if (readsInput || !first || first.text === "-" || first.text === "/dev/stdin") return shellInput(call, args);
  const piped = call.scene.pipes.get(first.text);
  if (piped !== undefined) {
    call.note("unknown/exec");
    return runText(call, piped, call.scene.copy());
  }
  runPath(call, first);
  return COMPUTED;
}

function shellInput(call: Call, args: Arguments): string {
  if (call.scene.stdin === undefined) {
    call.note("destructive/shell");
    return COMPUTED;
  }
  const inner = call.scene.copy();
  inner.stdin = undefined;
  inner.positional = args.operands;
  call.note("unknown/exec");
  return runText(call, call.scene.stdin, inner);
}

/** Report what program text of an interpreter does beyond computing. */
export function inspect(call: Call, text: string): void {
  call.note("unknown/inline", text);
  if (noteOrigin(call, text)) return;
  const category = markIn(call.name, text);
  if (category) call.note(category, text);
  else if (text && !strip(text, UNKNOWNS.join("") + " \n")) call.note("destructive/eval", text);
}

function markIn(name: string, text: string): string {
  if (DATABASES.has(name)) return markInSql(text);
  if (EDITORS.has(name)) return markInEditorCommands(text) || markInCode(text, false);
  return markInCode(text, !TEMPLATE_STRINGS.has(name));
}

/** An interpreter: inline text is inspected; a script or its input is code. */
function interpreter(call: Call): string {
  const description = describe(INTERPRETERS.get(call.name) ?? "");
  const args = readArguments(description, beforeScript(call, description));
  const isEditor = EDITORS.has(call.name) && !DEBUGGERS.has(call.name);
  call.note(isEditor ? "unknown/editor" : "unknown/exec");
  applyOptions(
    call,
    args.options.filter((option) => option.sign !== "%"),
  );
  const texts = args.options.flatMap((option) => (option.sign === "%" && option.value ? [option.value.text] : []));
  for (const text of texts) inspect(call, text);
  if (texts.length > 0 && args.options.some((option) => option.name === "-i" && option.sign === "?")) {
    for (const operand of args.operands) writePath(call, operand);
  }
  const readsInput = interpretOperands(call, description.operands[0] ?? "", args.operands, texts.length > 0);
  if (call.scene.stdin !== undefined && readsInput) inspect(call, call.scene.stdin);
  return call.scene.stdin !== undefined ? DECODED : COMPUTED;
}

/** Grade what an interpreter runs or opens; say whether it also runs its input. */
function interpretOperands(call: Call, kind: string, operands: readonly Field[], hasText: boolean): boolean {
  switch (kind) {
    case "script":
      return interpretScript(call, operands, hasText);
    case "sql":
      for (const operand of operands.slice(0, 1)) readPath(call, operand);
      for (const operand of operands.slice(1)) inspect(call, operand.text);
      break;
    case "path":
    case "code-path":
      editFiles(call, operands);
      break;
    case "tex":
      inspect(call, call.texts.join(" "));
      break;
    default:
      if (kind === "command" && operands.length > 0) call.engine.runWords(operands, call.scene);
      else checkArguments(call);
  }
  return true;
}

function interpretScript(call: Call, operands: readonly Field[], hasText: boolean): boolean {
  const script = operands[0];
  if (script && !hasText && script.text !== "-" && script.text !== "/dev/stdin") {
    runScriptFile(call, script);
    return false;
  }
  checkArguments(call);
  return !hasText;
}

function editFiles(call: Call, operands: readonly Field[]): void {
  for (const operand of operands) {
    if (operand.text.startsWith("+")) inspect(call, operand.text.slice(1));
    else writePath(call, operand);
  }
  checkArguments(call);
}

function runScriptFile(call: Call, script: Field): void {
  runPath(call, script);
  const program = SCRIPT_PROGRAMS.get(script.text.slice(script.text.lastIndexOf("/") + 1));
  if (program) {
    const rest = call.args.slice(indexOf(call.args, script) + 1);
    call.engine.runWords([fieldOf(program), ...rest], call.scene);
  }
}

/** Where the first field is that equals this one. */
function indexOf(fields: readonly Field[], field: Field): number {
  return fields.findIndex(
    (other) =>
      other.text === field.text &&
      other.raw === field.raw &&
      other.isGlob === field.isGlob &&
      other.isSure === field.isSure,
  );
}

/** Cut the arguments after the script: what follows belongs to it. */
function beforeScript(call: Call, description: Description): readonly Field[] {
  if (description.operands[0] !== "script") return call.args;
  const args = readArguments(description, call.args);
  if (!args.operands[0] || args.options.some((option) => option.sign === "%")) return call.args;
  return call.args.slice(0, indexOf(call.args, args.operands[0]) + 1);
}

/** Python, with the modules that are programs of their own. */
function python(call: Call): string {
  const texts = call.texts;
  const find = (test: (text: string) => boolean): number => {
    const found = texts.findIndex(test);
    return found < 0 ? texts.length : found;
  };
  const number = find((text) => /^-[bBdEiIOPqRsSuvx]*m[^\n]*$/.test(text));
  const script = find((text) => !text.startsWith("-"));
  const code = find((text) => /^-[bBdEiIOPqRsSuvx]*c[^\n]*$/.test(text));
  const option = texts[number];
  if (option === undefined || number > script || number > code) return interpreter(call);
  const attached = partition(option, "m")[2];
  const rest = call.args.slice(attached ? number + 1 : number + 2);
  return pythonModule(call, attached || (texts[number + 1] ?? ""), rest);
}

function pythonModule(call: Call, module: string, rest: readonly Field[]): string {
  switch (PYTHON_MODULES.get(module)) {
    case "read":
      for (const [number, arg] of rest.entries()) {
        if (arg.text.startsWith("-")) continue;
        if (number === 0) readPath(call, arg);
        else writePath(call, arg);
      }
      return DECODED;
    case "code":
      inspect(call, rest.map((arg) => arg.text).join(" "));
      break;
    case "run":
      call.note("destructive/shell");
      break;
    case "program":
      return call.engine.runWords([fieldOf(module), ...rest], call.scene);
    case "network":
      serve(call, rest);
      break;
    default:
      call.note("unknown/exec");
      checkArguments(call);
  }
  return COMPUTED;
}

function serve(call: Call, args: readonly Field[]): void {
  call.note("unknown/network");
  for (const arg of args) {
    checkText(call, arg);
    if (arg.text.startsWith("/") || isSecretPath(arg)) call.note("destructive/exfil", arg.raw);
  }
}

/** Set variables, then run a command; alone, print every variable. */
function env(call: Call): string {
  let args = call.args;
  while (args[0]) {
    const { text } = args[0];
    if (startsWithAny(text, ["-S", "--split-string"])) {
      const head = text.replace(/^(?:-S|--split-string)=?/, "");
      const parts = [...(head ? [head] : []), ...args.slice(1).map((arg) => arg.text)];
      return call.engine.runCode(parts.join(" "), call.scene.copy());
    }
    if (["-u", "--unset", "-C", "--chdir"].includes(text) && args[1]) {
      if (text === "-C" || text === "--chdir") call.engine.runWords([fieldOf("cd"), args[1]], call.scene);
      args = args.slice(2);
      continue;
    }
    if (/^[A-Za-z_][\p{L}\p{N}_]*=/u.test(text)) {
      gradeSetting(call, partition(text, "=")[0], true);
    } else if (!text.startsWith("-")) {
      return call.engine.runWords(args, call.scene);
    } else if (/^-[iv0]*S$/.test(text)) {
      const rest = args.slice(1).map((arg) => arg.text);
      return call.engine.runCode(rest.join(" "), call.scene.copy());
    } else if (!/^(?:-[iv0]*|--(?:ignore-environment|null|debug|unset=[\p{L}\p{N}_]+))$/u.test(text)) {
      call.note("unknown/option", text);
    }
    args = args.slice(1);
  }
  call.note("read/secret");
  return COMPUTED;
}

/** Run a command with arguments from the input. */
function xargs(call: Call): string {
  const args = readDescribed(call, XARGS_OPTIONS);
  let words: readonly Field[] = args.operands.length > 0 ? args.operands : [fieldOf("echo")];
  const replacing = args.options.find((option) => ["-I", "-i", "--replace"].includes(option.name));
  const added = inputFields(call.scene.stdin, args);
  if (added.some((found) => !found.isKnown)) call.note("unknown/dynamic");
  const inner = call.scene.copy();
  inner.stdin = undefined;
  if (replacing) {
    const mark = replacing.value?.text || "{}";
    const value = added[0]?.text ?? "";
    words = words.map(
      (word) =>
        new Field(
          word.text.replaceAll(mark, () => value),
          word.raw,
        ),
    );
  } else {
    words = [...words, ...added];
  }
  if (args.unknown.length > 0) gradeSuffixes(call);
  if (words[0] && words.length === added.length + 1 && SHELLS.has(programName(words[0].text)[0])) {
    call.note("destructive/shell");
  }
  return call.engine.runWords(words, inner);
}

/** The words of the input; where it is split by other rules than blanks, only one word is sure. */
function inputFields(stdin: string | undefined, args: Arguments): Field[] {
  const names = args.options.map((option) => option.name);
  const isSplit = names.some((name) => SPLIT_OPTIONS.has(name));
  if (stdin === undefined || names.includes("-a") || names.includes("--arg-file"))
    return [new Field(COMPUTED, "xargs")];
  if (stdin.includes(SECRET)) return [new Field(SECRET, "xargs")];
  // xargs takes quotes and backslashes for its own.
  const isHidden = [...UNKNOWNS, "'", '"', "\\"].some((mark) => stdin.includes(mark));
  if (isHidden || (isSplit && !INPUT_WORD.test(stdin))) return [new Field(COMPUTED, "xargs")];
  return splitWords(stdin).map(fieldOf);
}

/** Run a command for each item; the items follow `:::` or come from the input. */
function parallel(call: Call): string {
  const texts = readDescribed(call, PARALLEL_OPTIONS).operands.map((field) => field.text);
  const found = texts.findIndex((text) => text.startsWith(":::"));
  const cut = found < 0 ? texts.length : found;
  const command = texts.slice(0, cut).join(" ");
  const rest = texts.slice(cut + 1);
  call.note("unknown/program");
  for (const item of (rest.length > 0 ? rest : [COMPUTED]).slice(0, ITEMS_MAX)) {
    const parts = command.split(REPLACED);
    const code = parts.length > 1 ? parts.join(item) : `${command} ${item}`;
    runText(call, strip(code), call.scene.copy());
  }
  return COMPUTED;
}

/** `npx` and the like: fetch a package if needed, and run it. */
export function remoteRunner(call: Call): string {
  call.note("unknown/install");
  const word = call.texts.find((text) => !text.startsWith("-"));
  if (word !== undefined && isDangerousName(word)) call.note("destructive/wrapper");
  gradeSuffixes(call);
  checkArguments(call);
  return COMPUTED;
}

/** The dynamic linker runs the program it is given. */
function loader(call: Call): string {
  call.note("unknown/program");
  return gradeWrapper(call, "| list verify preload! audit! library-path! argv0= inhibit-cache | command");
}

export const RUNNERS: ReadonlyMap<string, Rule> = new Map<string, Rule>([
  ...[...SHELLS].map((name): [string, Rule] => [name, shell]),
  ...[...INTERPRETERS.keys()].map((name): [string, Rule] => [name, interpreter]),
  ["python", python],
  ["env", env],
  ["xargs", xargs],
  ["parallel", parallel],
  ["find", find],
  ["ld.so", loader],
]);

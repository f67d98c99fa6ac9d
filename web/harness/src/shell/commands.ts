/** One command: find out what it is, and grade it by its table or its own rule. */
import {
  ALIASES,
  CAUTIOUS,
  DANGEROUS,
  DECODERS,
  DESTRUCTIVE_VERBS,
  ESCAPE_MARKS,
  EXEC_OPTIONS,
  INTERPRETERS,
  METADATA_READERS,
  NUMBER_PRINTERS,
  PASSING_FILTERS,
  PLAIN_WRAPPERS,
  PROGRAM_FOLDERS,
  READERS,
  SEARCHERS,
  SHELL_BY_DEFAULT,
  SHORT_VERSION_PROGRAMS,
  TRANSFORMERS,
  VERSION_OPTIONS,
  VERSION_PROGRAMS,
  WIDE_SEARCHERS,
  WRAPPERS,
  WRITERS,
} from "../generated/shell-tables.js";
import { applyOperands, noteMode, readDescribed, writePath } from "./effects.js";
import { FAMILIES, gradeFamily } from "./families.js";
import type { Arguments } from "./options.js";
import { describe } from "./options.js";
import {
  isFetchedPath,
  isPolicyPath,
  isScratchPath,
  isSecretPath,
  kindOfPath,
  matchesExactly,
  splitPath,
} from "./paths.js";
import { fullRegex, regex, startRegex } from "./regex.js";
import type { Call } from "./scene.js";
import { COMPUTED, DECODED, FETCHED, Field, fieldOf, NAMES, SECRET, UNKNOWNS } from "./scene.js";
import { givesShell, holdsSql } from "./scripts.js";
import { partition, removeSuffix, splitWords, startsWithAny, strip, stripStart } from "./text.js";

export type Rule = (call: Call) => string;

const VERSIONED = fullRegex("([A-Za-z][A-Za-z+_]*?)-?[0-9][0-9.]*");
const LOADER = startRegex(String.raw`ld-(?:linux|musl).*\.so|ld\.so|ld64\.so`);
const ESCAPE = startRegex(ESCAPE_MARKS);
const ENVIRONMENT = startRegex(String.raw`env:|\$env:`, "i");
const REMOTE_SOURCE = startRegex(String.raw`(?:git\+)?[a-z]+://`);
const OUTPUT_OPTION = fullRegex(
  "-[oOwWdC]|--?(?:out|log|dump|save|export|write|dest|target|record|report|trace|profile|pid)[a-z-]*",
);
const RECURSIVE = fullRegex("-[A-Za-z]*[rR][A-Za-z]*|--recursive|--dereference-recursive");
const SECRET_SEARCH = regex(
  String.raw`passw(?:or)?d|secret|api[_-]?key|private[ _-]key|access[_-]?key|credential|\bAKIA`,
  "i",
);
const BUILDS = ["unknown/exec", "unknown/install"];
const VERB_WORDS_MAX = 3;
const INPUT_LINES_MAX = 50;
const SUFFIXES_MAX = 12;
const MODE_OPTIONS = ["-m", "--mode"];
const FILE_OPTIONS = ["-g", "--glob", "--iglob", "--include", "-G"];
const PATTERN_OPTIONS = ["-e", "-f", "--regexp", "--file", "--files"];
/** Names that are also common subcommands: at the end of an unknown program's words they prove nothing. */
const AMBIGUOUS = new Set(
  splitWords(`
    init format start open net reg sc at batch op pass import mount stop age mail mc screen expect
    trash wipe del rd halt security tc wg sg super su please eject kill finger reboot shutdown init
    vault tor import nc cmd history env test fish code less more
  `),
);
const KNOWN_NAMES = new Set(
  [ALIASES, READERS, WRITERS, WRAPPERS, INTERPRETERS, FAMILIES].flatMap((table) => [...table.keys()]),
);
const WINDOWS_NAMES = new Set(splitWords(DANGEROUS.get("destructive/windows") ?? ""));
const DANGERS = byName(DANGEROUS);
const CAUTIONS = byName(CAUTIOUS);

/** The category of each name in a table of names by category; the first one that has it counts. */
function byName(table: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map(
    [...table].reverse().flatMap(([category, names]) => splitWords(names).map((name) => [name, category])),
  );
}

/** Return the program's name, and whether it is found where programs are installed. */
export function programName(head: string): [string, boolean] {
  if (!head.includes("/") && !head.includes("\\")) return [canonical(head), true];
  const segments = splitPath(head);
  const last = segments.pop();
  if (last === undefined) return [head, false];
  const name = canonical(removeSuffix(last, ".exe"));
  const folder = "/" + segments.join("/");
  return [name, head.startsWith("/") && (PROGRAM_FOLDERS.has(folder) || `${folder}/`.includes("/lib/"))];
}

function canonical(name: string): string {
  if (KNOWN_NAMES.has(name)) return ALIASES.get(name) ?? name;
  const plain = VERSIONED.exec(name)?.[1];
  if (plain !== undefined && KNOWN_NAMES.has(plain)) return ALIASES.get(plain) ?? plain;
  if (LOADER.test(name)) return "ld.so";
  const lower = removeSuffix(name.toLowerCase(), ".exe");
  return WINDOWS_NAMES.has(lower) ? lower : name;
}

function dangerOf(name: string): string {
  for (const [pattern, category] of DANGERS) {
    if (pattern.includes("*") && matchesExactly(name, [pattern])) return category;
  }
  return DANGERS.get(name) ?? "";
}

/** Say whether a program of this name is dangerous whatever its arguments are. */
export function isDangerousName(name: string): boolean {
  return dangerOf(name) !== "";
}

/** Grade one call and return what it may print. */
export function gradeCall(call: Call, rules: ReadonlyMap<string, Rule>): string {
  const [name, isInstalled] = programName(call.name);
  if (!["test", "[["].includes(name) && call.args.some((arg) => arg.holds(SECRET))) call.note("read/secret");
  if (!isInstalled) return gradeFile(call, name);
  const named = call.withArgs(name, call.args);
  if (isVersionRequest(named)) return COMPUTED;
  if (BUILDS.includes(CAUTIONS.get(name) ?? "") && isFetchedPath("", call.scene)) {
    call.note("destructive/remote-code");
  }
  const rule = rules.get(name);
  return rule === undefined ? gradeByTable(named) : rule(named);
}

function gradeFile(call: Call, name: string): string {
  const isForeign = isScratchPath(call.name) || isFetchedPath(call.name, call.scene);
  call.note(isForeign ? "destructive/remote-code" : "unknown/exec", call.name);
  if (FAMILIES.has(name)) gradeFamily(call.withArgs(name, call.args));
  const isLocal = startsWithAny(call.name, [".", "node_modules"]) && splitPath(call.name)[0] !== "..";
  if (isDangerousName(name) && !isLocal) call.note(dangerOf(name));
  if (INTERPRETERS.has(name) && call.engine.isDangerous([fieldOf(name), ...call.args], call.scene)) {
    call.note("destructive/wrapper");
  }
  checkArguments(call);
  return COMPUTED;
}

function gradeByTable(call: Call): string {
  const name = call.name;
  const danger = dangerOf(name);
  if (danger !== "") {
    call.note(danger);
    gradeSuffixes(call);
    return COMPUTED;
  }
  const isDangerous = FAMILIES.has(name) && gradeFamily(call);
  const wrapper = WRAPPERS.get(name);
  if (wrapper !== undefined) return gradeWrapper(call, wrapper);
  const reader = READERS.get(name);
  if (reader !== undefined && !isDangerous) return gradeReader(call, reader);
  const writer = WRITERS.get(name);
  if (writer !== undefined) return gradeWriter(call, writer);
  return gradeCautious(call);
}

function isVersionRequest(call: Call): boolean {
  const text = call.args[0]?.text;
  if (text === undefined || !VERSION_PROGRAMS.has(call.name) || call.args.length !== 1) return false;
  const isShort = text === "-v" || text === "version";
  return VERSION_OPTIONS.has(text) || (isShort && SHORT_VERSION_PROGRAMS.has(call.name));
}

/** Grade a program that reads; what its table does not know is more than that. */
export function gradeReader(call: Call, description: string): string {
  const found = readDescribed(call, description);
  let kinds = describe(description).operands;
  if (
    kinds.includes("path") &&
    kinds.includes("text") &&
    found.options.some((option) => PATTERN_OPTIONS.includes(option.name))
  ) {
    kinds = ["path"];
  }
  applyOperands(call, found.operands, kinds);
  noteSecretSearch(call);
  if (SEARCHERS.has(call.name)) noteSearchedFiles(call, found);
  if (!METADATA_READERS.has(call.name) && found.operands.some(isEverything)) call.note("unknown/search");
  const hasFiles = kinds.includes("path") && found.operands.length > kinds.length - 1;
  if (SEARCHERS.has(call.name) && !hasFiles && found.operands.some(isSecretPath)) return SECRET;
  return printedBy(call.name, call.scene.stdin, hasFiles);
}

/** Report a hunt for credentials through many files. */
export function noteSecretSearch(call: Call): void {
  const searchesAll = WIDE_SEARCHERS.has(call.name) || call.texts.some((text) => RECURSIVE.test(text));
  if (SEARCHERS.has(call.name) && searchesAll && call.texts.some((text) => SECRET_SEARCH.test(text))) {
    call.note("unknown/search");
  }
}

/** A pattern that names files of credentials has them searched, hidden or not. */
function noteSearchedFiles(call: Call, found: Arguments): void {
  for (const { name, value } of found.options) {
    const isLeftOut = value?.text.startsWith("!");
    if (value === undefined || isLeftOut || !FILE_OPTIONS.includes(name)) continue;
    if (isSecretPath(new Field(value.text.replace(/(?<!\$)\$+$/, ""), value.raw, true))) {
      call.note(call.texts.includes("--files") ? "unknown/search" : "read/secret", value.raw);
    }
  }
}

/** A bare wildcard may name any file, secrets included. */
function isEverything(path: Field): boolean {
  return path.isGlob && !/[A-Za-z0-9]/.test(path.text.slice(path.text.lastIndexOf("/") + 1));
}

/** Return what a reading program prints, as far as it matters to what follows. */
export function printedBy(name: string, stdin: string | undefined, hasFiles: boolean): string {
  if (NUMBER_PRINTERS.has(name) && !hasFiles) return "1\n";
  if (DECODERS.has(name)) return DECODED;
  if (stdin === undefined || (hasFiles && stdin === "")) return COMPUTED;
  if (PASSING_FILTERS.has(name) && !hasFiles) return stdin;
  if (TRANSFORMERS.has(name)) return stdin.includes(FETCHED) ? FETCHED : DECODED;
  return COMPUTED;
}

/** Grade a program that writes the files it is told of. */
export function gradeWriter(call: Call, description: string): string {
  const found = readDescribed(call, description);
  applyOperands(call, found.operands, describe(description).operands);
  for (const { name, value } of found.options) {
    if (value !== undefined && MODE_OPTIONS.includes(name)) noteMode(call, value.text);
  }
  call.note("safe_write");
  return PASSING_FILTERS.has(call.name) ? call.scene.stdin || COMPUTED : COMPUTED;
}

/** Grade a program that runs the command in its arguments. */
export function gradeWrapper(call: Call, description: string): string {
  if (!PLAIN_WRAPPERS.has(call.name)) call.note("unknown/program");
  const found = readDescribed(call, description);
  const kinds = describe(description).operands;
  const skipped = skipOperands(call, found, kinds);
  if (skipped === kinds.length) {
    if (!found.options.some((option) => option.sign === "$")) call.note("destructive/shell");
    return COMPUTED;
  }
  const rest = found.operands.slice(skipped);
  if (found.unknown.length > 0) gradeSuffixes(call);
  if (rest.length === 0) {
    call.note(SHELL_BY_DEFAULT.has(call.name) ? "destructive/shell" : "unknown/option");
    return COMPUTED;
  }
  if (kinds[skipped] === "code") {
    call.note("unknown/endless");
    return call.engine.runCode(rest.map((field) => field.text).join(" "), call.scene.copy());
  }
  return call.engine.runWords(rest, call.scene);
}

/** Return how many operands come before the command, and report those that are written. */
function skipOperands(call: Call, found: Arguments, kinds: readonly string[]): number {
  let skipped = 0;
  while (kinds[skipped] === "text" || kinds[skipped] === "write") {
    const operand = found.operands[skipped];
    if (kinds[skipped] === "write" && operand !== undefined) writePath(call, operand);
    skipped += 1;
  }
  return skipped;
}

function gradeCautious(call: Call): string {
  const category = CAUTIONS.get(call.name) ?? "unknown/program";
  call.note(category);
  checkOptions(call);
  checkArguments(call);
  if (category === "unknown/exec" || category === "unknown/program") {
    checkVerbs(call);
    checkInput(call);
  }
  const takesCommand = ["exec", "run"].includes(call.args[0]?.text ?? "");
  if (category === "unknown/network" || category === "unknown/program" || takesCommand) gradeSuffixes(call);
  if (category === "unknown/network") {
    checkSent(call);
    return FETCHED;
  }
  return COMPUTED;
}

/** Report options that make this program run something. */
function checkOptions(call: Call): void {
  const options = splitWords(EXEC_OPTIONS.get(call.name) ?? "");
  const runs = (text: string): boolean => options.length > 0 && matchesExactly(text, options);
  for (const arg of call.args) {
    if (runs(arg.text) || runs(partition(arg.text, "=")[0])) call.note("destructive/tool-exec", arg.raw);
  }
}

/** Report a subcommand or target that says what it does: delete, drop, publish. */
function checkVerbs(call: Call): void {
  const words = call.texts.filter((text) => !text.startsWith("-"));
  for (const word of words.slice(0, VERB_WORDS_MAX)) {
    if (word.split(/[-:_.]/).some((part) => DESTRUCTIVE_VERBS.has(part)) && !word.includes("/")) {
      call.note("destructive/data", word);
    }
  }
}

/** Report an escape to a shell, or a secret's name, in the input. */
function checkInput(call: Call): void {
  for (const line of (call.scene.stdin ?? "").split("\n").slice(0, INPUT_LINES_MAX)) {
    const bare = strip(line);
    if (ESCAPE.test(bare)) call.note("destructive/tool-exec", line);
    else if (isSecretPath(fieldOf(bare))) call.note("read/secret", line);
  }
}

function checkSent(call: Call): void {
  if (call.args.some((arg) => arg.holds(COMPUTED, NAMES, DECODED, SECRET))) call.note("destructive/exfil");
}

/** Report a shell or a dangerous command inside the arguments of any program. */
export function checkArguments(call: Call): void {
  call.engine.spend(4 * call.args.length);
  call.args.forEach((arg, number) => {
    checkPath(call, arg, call.args[number - 1]?.text ?? "");
    const value = arg.text.startsWith("-") ? partition(arg.text, "=")[2] : arg.text;
    if (holdsSql(value)) call.note("destructive/data", arg.raw);
    const bare = strip(value);
    const code = stripStart(bare, "!|:@+");
    const runs = givesShell(arg.text) || ESCAPE.test(bare);
    if (runs || (bare.includes(" ") && call.engine.isDangerousCode(code, call.scene))) {
      call.note("destructive/tool-exec", arg.raw);
    }
  });
  const hasUrl = call.texts.some((text) => REMOTE_SOURCE.test(text));
  if (hasUrl && call.args.some((arg) => kindOfPath(arg, call.scene) === "outside")) {
    call.note("destructive/outside");
  }
}

/** The value in an argument, and the option it belongs to. */
function valueOf(arg: Field, before: string): [Field, string] {
  const [name, equals, attached] = partition(arg.text, "=");
  return equals !== "" && name.startsWith("-") ? [new Field(attached, arg.raw), name] : [arg, before];
}

function checkPath(call: Call, arg: Field, before: string): void {
  const [value, option] = valueOf(arg, before);
  if (isSecretPath(value) || isSecretPath(new Field(arg.raw, arg.raw)) || ENVIRONMENT.test(value.text)) {
    call.note("read/secret", arg.raw);
  }
  if (isPolicyPath(value)) call.note("destructive/policy", arg.raw);
  checkPlace(call, arg, value, option);
}

function checkPlace(call: Call, arg: Field, value: Field, option: string): void {
  const caution = CAUTIONS.get(call.name);
  const kind = kindOfPath(value, call.scene);
  if (kind === "device") call.note("destructive/device", arg.raw);
  if (REMOTE_SOURCE.test(value.text) && caution === "unknown/install") {
    call.note("destructive/remote-code", arg.raw);
  }
  if (isScratchPath(value.text) && (caution === undefined || BUILDS.includes(caution))) {
    call.note("destructive/eval", arg.raw);
  }
  if (OUTPUT_OPTION.test(option) && (kind === "outside" || kind === "device")) {
    call.note("destructive/outside", arg.raw);
  }
}

/** Try every tail of the words as a command: an unknown program may run it. */
export function gradeSuffixes(call: Call): void {
  // The trial that led here tries every tail itself.
  if (call.scene.isTrial) return;
  for (const [number, { text }] of call.args.slice(0, SUFFIXES_MAX).entries()) {
    const tail = call.args.slice(number);
    if (
      text.startsWith("-") ||
      (tail.length === 1 && AMBIGUOUS.has(text)) ||
      UNKNOWNS.some((mark) => text.includes(mark))
    ) {
      continue;
    }
    if (call.engine.isDangerous(tail, call.scene)) {
      call.note("destructive/wrapper", tail.map((field) => field.text).join(" "));
      return;
    }
  }
}

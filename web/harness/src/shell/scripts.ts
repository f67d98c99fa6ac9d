/** Small programs inside arguments: sed, awk, jq, SQL, and inline interpreter code. */
import { CODE_CHARS_MAX, CODE_MARKS, EDITOR_MARKS, SHELL_MARKS, SQL_MARKS } from "../generated/shell-tables.js";
import { regex, startRegex } from "./regex.js";
import { cut, strip } from "./text.js";

const SED_ADDRESS = regex(String.raw`(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)`, "y");
const SED_PLAIN = regex(String.raw`[pdDPnNgGhHxFz=](?=[\s;}]|$)|[qQlL]\s*\d*(?=[\s;}]|$)|[{}]`, "y");
const SED_LABEL = regex(String.raw`[:btT]\s*[\w.-]*(?=[\s;}]|$)`, "y");
const SED_FLAGS = regex("[gpiIm0-9M]*", "y");
const SED_TEXT = regex(String.raw`[aic](?:\\?\n|\\|\s)[^\n]*(?:\\\n[^\n]*)*|v\s*[\d.]*`, "y");
const SED_FILE = regex(String.raw`([rRwW])\s*([^\n;}]*)`, "y");
const SED_BRACKET = regex(String.raw`\^?\]?(?:\[[:.=][^\]]*\]|[^\]\n])*\]`, "y");
const SED_SPACE = regex(String.raw`[\s;]*(?:#[^\n]*\n?[\s;]*)*`, "y");
const SED_ADDRESS_FLAGS = regex("[IM]*", "y");
const SED_RUNS = startRegex("e|s.*[/|,#@!:][a-zA-Z0-9]*[ew]", "s");

const AWK_TOKEN = regex(String.raw`"(?:[^"\\]|\\.)*\\?(?:"|$)|#[^\n]*|\\\n|[ \t\r]+|/|[^"#/\\ \t\r]+|.`, "sy");
const AWK_REGEX = regex(String.raw`/(?:[^/\\\n\[]|\\.)+/`, "y");
const AWK_MAYBE_REGEX = regex(String.raw`/[^/\n"#]*["#]`, "y");
const AWK_BEFORE_REGEX = "(,!~&|{};=\n";
const AWK_JOINED = regex(String.raw`([,{]|&&|\|\||\bdo\b|\belse\b)[ \t]*\n`, "g");
const AWK_HIDDEN: ReadonlyMap<string, string> = new Map([
  ['"', '""'],
  ["#", ""],
  ["\\", " "],
]);
const AWK_EXEC = regex(String.raw`\bsystem\s*\(|(?<!\|)\|(?!\|)|@|\bextension\s*\(|/inet|\|&`);
const AWK_WRITE = regex(String.raw`\bprintf?\b[^;}\n]*>`);
const AWK_READ = regex(String.raw`\bgetline\b|\bclose\s*\(|\bARGV\b|\bFUNCTAB\b|\bSYMTAB\b`);
const AWK_WRITTEN = regex(String.raw`>\s*"([^"]*)"`, "g");
const AWK_READ_FROM = regex(String.raw`<\s*"([^"]*)"`, "g");
const JQ_SECRET = regex(String.raw`\$ENV\b|(?<![.\w\"$])env\b`);
const JQ_LOAD = regex(String.raw`(?<![.\w\"$])(?:import|include|input_filename|get_search_list|modulemeta)\b`);
const YQ_LOAD = regex(String.raw`(?<![.\w\"$])(?:load\w*|strenv|envsubst|eval)\b`);
const JQ_STRING = regex(String.raw`"(?:[^"\\]|\\.)*\\?(?:"|$)`, "gs");

const SQL_STATEMENT = regex(
  String.raw`\b(?:(?:drop|truncate|alter)\s+(?:table|database|schema|keyspace|index|user|role|view)|` +
    String.raw`delete\s+from|update\s+[\w.]+\s+set|insert\s+into)\b`,
  "i",
);

/** What a small program does: a category, or `read`/`write` with a path. */
export type Effect = readonly [string, string];

type Marks = readonly (readonly [string, RegExp])[];

const CODE = compile(CODE_MARKS);
const EDITOR = compile(EDITOR_MARKS);
const SQL = compile(SQL_MARKS, "i");
const SHELL = regex(SHELL_MARKS);

function compile(marks: readonly (readonly string[])[], flags = ""): Marks {
  return marks.map(([category = "", pattern = ""]) => [category, regex(pattern, flags)]);
}

function firstMark(text: string, marks: Marks): string {
  const short = cut(text, CODE_CHARS_MAX);
  return marks.find(([, pattern]) => pattern.test(short))?.[0] ?? "";
}

/** Return the category of what inline code does beyond computing, or nothing. */
export function markInCode(text: string, hasBackticks: boolean): string {
  if (hasBackticks && text.includes("`")) return "destructive/tool-exec";
  return firstMark(text, CODE) || (givesShell(text) ? "destructive/tool-exec" : "");
}

/** Return the category of what an editor's or debugger's commands do, or nothing. */
export function markInEditorCommands(text: string): string {
  return firstMark(text, EDITOR);
}

/** Return the category of what SQL or a database client's command does, or nothing. */
export function markInSql(text: string): string {
  return firstMark(text, SQL);
}

/** Say whether text in an argument would give somebody a shell. */
export function givesShell(text: string): boolean {
  return SHELL.test(cut(text, CODE_CHARS_MAX));
}

/** Say whether text is SQL that destroys or changes data. */
export function holdsSql(text: string): boolean {
  return SQL_STATEMENT.test(cut(text, CODE_CHARS_MAX));
}

/** Return what a sed script does beyond printing, as far as it can be read. */
export function sedEffects(script: string): Effect[] {
  const effects: Effect[] = [];
  let position = 0;
  while (position < script.length) {
    const start = after(SED_SPACE, script, position);
    position = sedAddresses(script, start);
    if (position >= script.length) break;
    const end = sedCommand(script, position, effects);
    if (end < 0) {
      const runs = SED_RUNS.test(script.slice(position));
      effects.push([runs ? "destructive/tool-exec" : "unknown/inline", script]);
      break;
    }
    position = end;
  }
  return effects;
}

function matchAt(pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position;
  return pattern.exec(text);
}

function after(pattern: RegExp, text: string, position: number): number {
  const found = matchAt(pattern, text, position);
  return found === null ? position : position + found[0].length;
}

function charAt(text: string, position: number): string {
  const code = text.codePointAt(position);
  return code === undefined ? "" : String.fromCodePoint(code);
}

function sedAddresses(script: string, start: number): number {
  let position = start;
  while (position < script.length) {
    const char = script.charAt(position);
    let end: number;
    if (", !\t".includes(char)) {
      end = position + 1;
    } else if (char === "/" || char === "\\") {
      const delimiter = char === "/" ? char : charAt(script, position + 1);
      const begin = position + (char === "/" ? 1 : 1 + delimiter.length);
      const close = sectionEnd(script, begin, delimiter);
      if (close < 0) return position;
      end = after(SED_ADDRESS_FLAGS, script, close);
    } else {
      end = after(SED_ADDRESS, script, position);
      if (end === position) return position;
    }
    position = end;
  }
  return position;
}

/** Return where a section ends; in an expression a bracket may hold its delimiter. */
function sectionEnd(script: string, start: number, delimiter: string, hasBrackets = true): number {
  let position = start;
  while (position < script.length) {
    const char = script.charAt(position);
    if (script.startsWith(delimiter, position)) return position + delimiter.length;
    if (char === "\\") position += 2;
    else if (char === "[" && hasBrackets) position = after(SED_BRACKET, script, position + 1);
    else position += 1;
  }
  return -1;
}

function sedCommand(script: string, position: number, effects: Effect[]): number {
  for (const pattern of [SED_PLAIN, SED_LABEL, SED_TEXT]) {
    const end = after(pattern, script, position);
    if (end > position) return end;
  }
  const found = matchAt(SED_FILE, script, position);
  if (found !== null) {
    const [whole, letter = "", path = ""] = found;
    effects.push(["rR".includes(letter) ? "read" : "write", strip(path)]);
    return position + whole.length;
  }
  const command = script.charAt(position);
  if (!"sy".includes(command) || position + 1 >= script.length) return -1;
  return sedReplacement(script, position, command === "s", effects);
}

function sedReplacement(script: string, position: number, isExpression: boolean, effects: Effect[]): number {
  const delimiter = charAt(script, position + 1);
  const middle = sectionEnd(script, position + 1 + delimiter.length, delimiter, isExpression);
  let end = middle >= 0 ? sectionEnd(script, middle, delimiter, false) : -1;
  if (end < 0 || "\n\\".includes(delimiter) || /^[\p{L}\p{N}]$/u.test(delimiter)) return -1;
  end = isExpression ? after(SED_FLAGS, script, end) : end;
  if (end < script.length && "ew".includes(script.charAt(end))) {
    const runs = script.charAt(end) === "e";
    effects.push(runs ? ["destructive/tool-exec", script] : ["write", strip(script.slice(end + 1))]);
    return script.length;
  }
  return endsCommand(script, end) ? end : -1;
}

function endsCommand(script: string, position: number): boolean {
  return position >= script.length || " \t\n;}#".includes(script.charAt(position));
}

/** Return what an awk program does beyond printing what it reads. */
export function awkEffects(program: string): Effect[] {
  const effects: Effect[] = [];
  if (program.includes("ENVIRON") || program.includes("PROCINFO")) effects.push(["read/secret", program]);
  const [code, isSure] = awkCode(program);
  if (!isSure) effects.push(["unknown/inline", program]);
  if (AWK_EXEC.test(code) || program.includes("/inet")) effects.push(["destructive/tool-exec", program]);
  if (AWK_WRITE.test(code)) {
    const targets = targetsOf(AWK_WRITTEN, program);
    for (const target of targets.length > 0 ? targets : [program]) effects.push(["write", target]);
  }
  if (AWK_READ.test(code)) {
    effects.push(["unknown/inline", program]);
    for (const target of targetsOf(AWK_READ_FROM, program)) effects.push(["read", target]);
  }
  return effects;
}

/** A program without its strings and expressions, and whether each was told from code for sure. */
function awkCode(program: string): [code: string, isSure: boolean] {
  let code = "";
  let last = "";
  let position = 0;
  let isSure = true;
  while (position < program.length) {
    const isOperand = last === "" || AWK_BEFORE_REGEX.includes(last);
    const expression = isOperand ? matchAt(AWK_REGEX, program, position) : null;
    let text = " 0 ";
    if (expression !== null) {
      position += expression[0].length;
    } else {
      isSure = isSure && matchAt(AWK_MAYBE_REGEX, program, position) === null;
      const token = matchAt(AWK_TOKEN, program, position)?.[0] ?? " ";
      position += token.length;
      text = AWK_HIDDEN.get(token.charAt(0)) ?? token;
    }
    code += text;
    last = text.replace(/[ \t\r]+$/, "").slice(-1) || last;
  }
  return [code.replace(AWK_JOINED, "$1 "), isSure];
}

function targetsOf(pattern: RegExp, program: string): string[] {
  return Array.from(program.matchAll(pattern), (found) => found[1] ?? "");
}

/** Return what a jq or yq filter reads besides its input. */
export function jqEffects(program: string): Effect[] {
  // In an interpolation or after a comment a quote may open or close a string.
  const isPlain = !program.includes("\\(") && !program.includes("#");
  const code = isPlain ? program.replace(JQ_STRING, '""') : program;
  if (JQ_SECRET.test(code)) return [["read/secret", program]];
  if (JQ_LOAD.test(code) || YQ_LOAD.test(code)) return [["unknown/inline", program]];
  return [];
}

/** Words: quotes, escapes, expansions and substitutions, as bash reads them. */
import { NESTING_MAX } from "../generated/shell-tables.js";
import { decodeEscapes } from "./escapes.js";
import {
  Arithmetic,
  ArrayLiteral,
  type Budget,
  Parameter,
  type Part,
  type Redirect,
  type Script,
  ShellSyntaxError,
  Substitution,
  Text,
  TooMuchWork,
  Word,
} from "./tree.js";

export const META = " \t\n;&|<>()";
/** An assignment at the beginning of a text. */
export const ASSIGNMENT = /^[A-Za-z_][A-Za-z0-9_]*(\[[^\]]*\])?\+?=/;

// Sticky patterns: each is matched at the cursor only.
const PLAIN = /[^ \t\n;&|<>()\\'"$`]+/y;
const BLANK = /(?:[ \t]|\\\n)+/y;
const COMMENT = /#[^\n]*/y;
const QUOTED_PLAIN = /[^\\"$`]+/y;
const BRACED_PLAIN = /[^\\'"$`}]+/y;
const SUBSCRIPT_PLAIN = /[^\\'"$`\]]+/y;
const ARITHMETIC_PLAIN = /[^\\'"$`()]+/y;
const BODY_PLAIN = /[^\\$`]+/y;
const NAME = /[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!_-]/y;
const BRACED_NAME = /[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]/y;
const BRACED_PREFIX = /[!#](?=[A-Za-z0-9_@*])/y;
const OPERATOR = /:?[-=?+]|##?|%%?|\/[/#%]?|\^\^?|,,?|@[A-Za-z]?|\*|:/y;
const CONDITION_END = /\]\](?![^ \t\n;&|<>()])/y;
const CONDITION_OPERATOR = /&&|\|\||[|&;()<>]/y;
const BACKTICKS = /`((?:[^`\\]|\\.)*)`/sy;
const ANSI_QUOTED = /\$'((?:[^'\\]|\\.)*)'/sy;

/** Match a sticky pattern at one place of the text. */
export function matchAt(pattern: RegExp, text: string, position: number): RegExpExecArray | undefined {
  pattern.lastIndex = position;
  return pattern.exec(text) ?? undefined;
}

/** A cursor over program text; `parse` reads a nested script up to its `)`. */
export class Source {
  constructor(
    readonly text: string,
    readonly budget: Budget,
    readonly parse: (source: Source) => Script,
    public pos = 0,
    public depth = 0,
    public heredocs: [redirect: Redirect, stripsTabs: boolean][] = [],
  ) {}

  /** Return the next characters without moving. */
  peek(length = 1): string {
    return this.text.slice(this.pos, this.pos + length);
  }

  /** Move past a match at the cursor and return it, or return nothing. */
  take(pattern: RegExp): string {
    const found = matchAt(pattern, this.text, this.pos);
    if (found === undefined) {
      return "";
    }
    this.pos += found[0].length;
    return found[0];
  }

  /** Move past `text`; throws ShellSyntaxError when something else is there. */
  expect(text: string): void {
    if (!this.text.startsWith(text, this.pos)) {
      throw new ShellSyntaxError(`expected ${text}`);
    }
    this.pos += text.length;
  }

  /** Go one level down; the caller comes back up by `leave`. */
  enter(): void {
    this.budget.spend();
    this.depth += 1;
    if (this.depth > NESTING_MAX) {
      throw new TooMuchWork();
    }
  }

  /** Come back up one level. */
  leave(): void {
    this.depth -= 1;
  }
}

/** Move past blanks, joined lines and a comment. */
export function skipBlank(source: Source): void {
  source.take(BLANK);
  const before = source.pos ? source.text.charAt(source.pos - 1) : "\n";
  if (source.peek() === "#" && META.includes(before)) {
    source.take(COMMENT);
  }
}

/** Read one word; it ends at an unquoted blank or operator. */
export function readWord(source: Source): Word {
  const start = source.pos;
  const parts: Part[] = [];
  while (source.pos < source.text.length) {
    const char = source.peek();
    if ("<>".includes(char) && source.peek(2).slice(1) === "(") {
      parts.push(processSubstitution(source));
    } else if (char === "(" && isArrayStart(source.text.slice(start, source.pos))) {
      parts.push(array(source));
    } else if (META.includes(char)) {
      break;
    } else {
      readPart(source, parts, PLAIN, false);
    }
  }
  if (source.pos === start) {
    throw new ShellSyntaxError("expected a word");
  }
  source.budget.spend();
  return new Word(parts, source.text.slice(start, source.pos));
}

function readParts(source: Source, closing: string, plain: RegExp, quoted: boolean): Part[] {
  const parts: Part[] = [];
  while (source.peek() !== closing) {
    if (source.pos >= source.text.length) {
      throw new ShellSyntaxError(`expected ${closing}`);
    }
    readPart(source, parts, plain, quoted);
  }
  source.pos += 1;
  return parts;
}

/** Read an expression up to `closing`, minding its parentheses. */
export function readArithmetic(source: Source, closing: string): Arithmetic {
  source.enter();
  const parts: Part[] = [];
  let openCount = 0;
  while (openCount || !source.text.startsWith(closing, source.pos)) {
    const char = source.peek();
    if (!char || (char === ")" && !openCount)) {
      throw new ShellSyntaxError(`expected ${closing}`);
    }
    if ("()".includes(char)) {
      source.budget.spend();
      openCount += char === "(" ? 1 : -1;
      parts.push(new Text(char, true));
      source.pos += 1;
    } else {
      readPart(source, parts, closing === "))" ? ARITHMETIC_PLAIN : SUBSCRIPT_PLAIN, true);
    }
  }
  source.pos += closing.length;
  source.leave();
  return new Arithmetic(parts);
}

/** Read the words of `[[ … ]]`, after `[[`; operators are words here. */
export function readCondition(source: Source): Word[] {
  const words: Word[] = [];
  for (;;) {
    while (["\n", " ", "\t"].includes(source.peek()) || source.peek(2) === "\\\n") {
      source.pos += 1;
    }
    if (matchAt(CONDITION_END, source.text, source.pos)) {
      source.pos += 2;
      return words;
    }
    const operator = source.take(CONDITION_OPERATOR);
    if (operator) {
      words.push(new Word([new Text(operator, true)], operator));
      source.budget.spend();
    } else {
      words.push(readWord(source));
    }
  }
}

/** Read all text as one word, like a here-document: quotes are plain text. */
export function readText(source: Source): Word {
  const parts: Part[] = [];
  while (source.pos < source.text.length) {
    readPart(source, parts, BODY_PLAIN, true);
  }
  return new Word(parts, source.text);
}

function readPart(source: Source, parts: Part[], plain: RegExp, quoted: boolean): void {
  const char = source.peek();
  source.budget.spend();
  if (char === "\\") {
    escape(source, parts, quoted);
  } else if (char === "'" && !quoted) {
    singleQuoted(source, parts);
  } else if (char === '"' && plain !== BODY_PLAIN) {
    source.pos += 1;
    const inner = readParts(source, '"', QUOTED_PLAIN, true);
    parts.push(...(inner.length ? inner : [new Text("", true)]));
  } else if (char === "`") {
    parts.push(backticks(source, quoted));
  } else if (char === "$") {
    dollar(source, parts, quoted);
  } else {
    parts.push(new Text(source.take(plain) || one(source), quoted));
  }
}

function singleQuoted(source: Source, parts: Part[]): void {
  const end = source.text.indexOf("'", source.pos + 1);
  if (end < 0) {
    throw new ShellSyntaxError("expected '");
  }
  parts.push(new Text(source.text.slice(source.pos + 1, end), true));
  source.pos = end + 1;
}

function one(source: Source): string {
  source.pos += 1;
  return source.text.charAt(source.pos - 1);
}

function escape(source: Source, parts: Part[], quoted: boolean): void {
  const code = source.text.codePointAt(source.pos + 1);
  let escaped = code === undefined ? "" : String.fromCodePoint(code);
  source.pos += 1 + escaped.length;
  if (escaped === "\n") {
    return;
  }
  if (quoted && !["$", "`", '"', "\\"].includes(escaped)) {
    escaped = "\\" + escaped;
  }
  parts.push(new Text(escaped || "\\", true));
}

function backticks(source: Source, quoted: boolean): Substitution {
  const found = matchAt(BACKTICKS, source.text, source.pos);
  if (found === undefined) {
    throw new ShellSyntaxError("expected `");
  }
  source.enter();
  const text = (found[1] ?? "").replace(quoted ? /\\([$`\\"])/g : /\\([$`\\])/g, "$1");
  const inner = new Source(text, source.budget, source.parse, 0, source.depth);
  const script = source.parse(inner);
  if (inner.pos < text.length) {
    throw new ShellSyntaxError("unexpected )");
  }
  source.pos += found[0].length;
  source.leave();
  return new Substitution(script, "output", quoted);
}

function processSubstitution(source: Source): Substitution {
  const kind = source.peek() === "<" ? "input-file" : "output-file";
  source.pos += 2;
  return new Substitution(nested(source, ")"), kind, true);
}

function nested(source: Source, closing: string): Script {
  source.enter();
  const script = source.parse(source);
  source.expect(closing);
  source.leave();
  return script;
}

function isArrayStart(text: string): boolean {
  return ASSIGNMENT.exec(text)?.[0] === text;
}

function array(source: Source): ArrayLiteral {
  source.pos += 1;
  const words: Word[] = [];
  for (;;) {
    skipBlank(source);
    if (source.peek() === "\n") {
      source.pos += 1;
    } else if (source.peek() === ")") {
      source.pos += 1;
      return new ArrayLiteral(words);
    } else {
      words.push(readWord(source));
    }
  }
}

function dollar(source: Source, parts: Part[], quoted: boolean): void {
  const two = source.peek(2);
  if (two === "$(") {
    parts.push(parenthesis(source, quoted));
  } else if (two === "${") {
    parts.push(braced(source, quoted));
  } else if (two === "$[") {
    source.pos += 2;
    parts.push(readArithmetic(source, "]"));
  } else if (two === "$'" && !quoted) {
    ansi(source, parts);
  } else if (source.peek(3) === "$\\\n") {
    // The shell joins the lines first, and then the dollar may begin anything.
    throw new ShellSyntaxError("a line ends after a dollar");
  } else {
    source.pos += 1;
    const name = source.take(NAME);
    if (name) {
      parts.push(new Parameter(name, "", [], "", [], quoted));
    } else if (quoted || two !== '$"') {
      parts.push(new Text("$", true));
    }
  }
}

function parenthesis(source: Source, quoted: boolean): Part {
  const { pos, depth } = source;
  if (source.peek(3) === "$((") {
    source.pos += 3;
    try {
      return readArithmetic(source, "))");
    } catch (error) {
      if (!(error instanceof ShellSyntaxError)) {
        throw error;
      }
      // `$((cmd); cmd)` is a command substitution that begins with a subshell.
      source.pos = pos;
      source.depth = depth;
    }
  }
  source.pos += 2;
  return new Substitution(nested(source, ")"), "output", quoted);
}

function braced(source: Source, quoted: boolean): Part {
  source.pos += 2;
  if ([" ", "\t", "\n", "|"].includes(source.peek())) {
    source.pos += 1;
    return new Substitution(nested(source, "}"), "output", quoted);
  }
  source.enter();
  const prefix = source.take(BRACED_PREFIX);
  const name = source.take(BRACED_NAME);
  if (!name) {
    throw new ShellSyntaxError("bad parameter expansion");
  }
  let subscript: readonly Part[] = [];
  if (source.peek() === "[") {
    source.pos += 1;
    subscript = readArithmetic(source, "]").parts;
  }
  const operator = source.take(OPERATOR);
  const argument = readParts(source, "}", BRACED_PLAIN, quoted);
  if (argument.length && !operator) {
    throw new ShellSyntaxError("bad parameter expansion");
  }
  source.leave();
  return new Parameter(name, prefix, subscript, operator, argument, quoted);
}

function ansi(source: Source, parts: Part[]): void {
  const found = matchAt(ANSI_QUOTED, source.text, source.pos);
  if (found === undefined) {
    throw new ShellSyntaxError("expected '");
  }
  const text = found[1] ?? "";
  if (text.includes("\\x{")) {
    throw new ShellSyntaxError("an escape that shells read in different ways");
  }
  source.pos += found[0].length;
  parts.push(new Text(decodeEscapes(text), true));
}

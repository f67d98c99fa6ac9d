/** The grammar of bash: from program text to a tree of commands. */
import { ASSIGNMENT, matchAt, META, readArithmetic, readCondition, readWord, skipBlank, Source } from "./lexer.js";
import { readHeredocs, takeRedirect } from "./redirects.js";
import {
  type Budget,
  Compound,
  type CompoundKind,
  Item,
  Pipeline,
  type Redirect,
  Script,
  ShellSyntaxError,
  Simple,
  Word,
} from "./tree.js";

export const RESERVED: ReadonlySet<string> = new Set(
  "if then elif else fi while until do done for select case esac in function time coproc { } ! [[ ]]".split(" "),
);

const BODY_ENDS = new Set(["then", "elif", "else", "fi", "do", "done", "esac", "}"]);
// Sticky patterns: each is matched at the cursor only.
const RESERVED_WORD = /(?:[a-z]+|\[\[|[{}!])(?![^ \t\n;&|<>()])/y;
const LIST_OPERATOR = /&&|\|\||;(?!;|&)|&(?!>)/y;
const PIPE = /\|&|\|(?!\|)/y;
const TIME_OPTION = /-p(?=[ \t])(?:[ \t]+--(?=[ \t]))?/y;
const CASE_END = /;;&|;;|;&/y;
const FUNCTION_PARENS = /[ \t]*\([ \t]*\)/y;
const COPROC_NAME = /[A-Za-z_][A-Za-z0-9_]*[ \t]+(?=[{(]|(?:while|until|for|if|case|select)[ \t])/y;
const FOR_NAME = /[A-Za-z_][A-Za-z0-9_]*(?![^ \t\n;])/y;

/**
 * Parse a whole program.
 *
 * Throws ShellSyntaxError when the text is not a program this grammar knows, TooMuchWork when the budget or
 * the nesting limit ran out.
 */
export function parseProgram(text: string, budget: Budget, depth = 0): Script {
  const source = new Source(text, budget, parseList, 0, depth);
  const script = parseList(source);
  if (source.pos < text.length || source.heredocs.length) {
    throw new ShellSyntaxError("text is left over");
  }
  return script;
}

/** Parse pipelines up to a `)`, a word that ends a body, or the end of the text. */
export function parseList(source: Source): Script {
  const items: Item[] = [];
  for (;;) {
    skipLines(source);
    if (["", ")", ";"].includes(source.peek()) || BODY_ENDS.has(reserved(source))) {
      return new Script(items);
    }
    const found = pipeline(source);
    skipBlank(source);
    const operator = source.take(LIST_OPERATOR);
    items.push(new Item(found, operator));
    if (operator === "&&" || operator === "||") {
      skipLines(source);
      if (!source.peek() || ");&|".includes(source.peek())) {
        throw new ShellSyntaxError("a command is missing");
      }
    } else if (!operator && !["\n", ")", ";", ""].includes(source.peek()) && !BODY_ENDS.has(reserved(source))) {
      throw new ShellSyntaxError("expected an operator");
    }
  }
}

function skipLines(source: Source): void {
  skipBlank(source);
  while (source.peek() === "\n") {
    source.pos += 1;
    if (source.heredocs.length) {
      readHeredocs(source);
    }
    skipBlank(source);
  }
}

function reserved(source: Source): string {
  const found = matchAt(RESERVED_WORD, source.text, source.pos);
  return found && RESERVED.has(found[0]) ? found[0] : "";
}

function pipeline(source: Source): Pipeline {
  for (;;) {
    skipBlank(source);
    const prefix = reserved(source);
    if (prefix !== "!" && prefix !== "time") {
      break;
    }
    source.pos += prefix.length;
    skipBlank(source);
    if (prefix === "time") {
      source.take(TIME_OPTION);
      skipBlank(source);
    }
    if (!source.peek() || ";&|)\n".includes(source.peek())) {
      return new Pipeline([]);
    }
  }
  const commands = [command(source)];
  skipBlank(source);
  while (source.take(PIPE)) {
    skipLines(source);
    commands.push(command(source));
    skipBlank(source);
  }
  return new Pipeline(commands);
}

function command(source: Source): Simple | Compound {
  source.enter();
  const start = source.pos;
  const found = reserved(source);
  const compound = COMPOUNDS.get(found);
  let result: Simple | Compound;
  if (compound) {
    source.pos += found.length;
    result = compound(source, start);
  } else if (source.peek() === "(") {
    result = parenthesis(source, start);
  } else if (found && !["in", "time", "!"].includes(found)) {
    throw new ShellSyntaxError(`unexpected ${found}`);
  } else {
    result = simple(source, start);
  }
  source.leave();
  return result;
}

function finish(
  source: Source,
  start: number,
  kind: CompoundKind,
  bodies: readonly Script[],
  words: readonly Word[] = [],
  name = "",
): Compound {
  const redirects: Redirect[] = [];
  skipBlank(source);
  while (takeRedirect(source, redirects)) {
    skipBlank(source);
  }
  return new Compound(kind, name, words, bodies, redirects, source.text.slice(start, source.pos));
}

function parenthesis(source: Source, start: number): Compound {
  if (source.peek(2) === "((") {
    const depth = source.depth;
    source.pos += 2;
    try {
      const parts = readArithmetic(source, "))").parts;
      return finish(source, start, "arithmetic", [], [new Word(parts, source.text.slice(start, source.pos))]);
    } catch (error) {
      if (!(error instanceof ShellSyntaxError)) {
        throw error;
      }
      // `((cmd); cmd)` is two subshells, not arithmetic.
      source.pos = start;
      source.depth = depth;
    }
  }
  source.pos += 1;
  const body = parseList(source);
  source.expect(")");
  return finish(source, start, "subshell", [filled(body)]);
}

function filled(script: Script): Script {
  if (!script.items.length) {
    throw new ShellSyntaxError("a command is missing");
  }
  return script;
}

function group(source: Source, start: number): Compound {
  const body = parseList(source);
  word(source, "}");
  return finish(source, start, "group", [filled(body)]);
}

function word(source: Source, expected: string): void {
  if (reserved(source) !== expected) {
    throw new ShellSyntaxError(`expected ${expected}`);
  }
  source.pos += expected.length;
}

function ifCommand(source: Source, start: number): Compound {
  const bodies = [filled(parseList(source))];
  word(source, "then");
  bodies.push(filled(parseList(source)));
  while (reserved(source) === "elif") {
    source.pos += "elif".length;
    bodies.push(filled(parseList(source)));
    word(source, "then");
    bodies.push(filled(parseList(source)));
  }
  if (reserved(source) === "else") {
    source.pos += "else".length;
    bodies.push(filled(parseList(source)));
  }
  word(source, "fi");
  return finish(source, start, "if", bodies);
}

function whileCommand(source: Source, start: number): Compound {
  const condition = filled(parseList(source));
  return finish(source, start, "loop", [condition, doBody(source)]);
}

function doBody(source: Source): Script {
  word(source, "do");
  const body = filled(parseList(source));
  word(source, "done");
  return body;
}

function forCommand(source: Source, start: number): Compound {
  skipBlank(source);
  if (source.peek(2) === "((") {
    source.pos += 2;
    const head = [new Word(readArithmetic(source, "))").parts, "((")];
    skipSeparator(source);
    return finish(source, start, "for", [loopBody(source)], head);
  }
  const name = source.take(FOR_NAME);
  if (!name) {
    throw new ShellSyntaxError("a loop needs a name");
  }
  skipLines(source);
  let words = [new Word([], '"$@"')];
  if (reserved(source) === "in") {
    source.pos += "in".length;
    words = loopWords(source);
  }
  skipSeparator(source);
  return finish(source, start, "for", [loopBody(source)], words, name);
}

function loopWords(source: Source): Word[] {
  const words: Word[] = [];
  skipBlank(source);
  while (source.peek() && !"\n;".includes(source.peek())) {
    words.push(readWord(source));
    skipBlank(source);
  }
  return words;
}

function skipSeparator(source: Source): void {
  skipBlank(source);
  if (source.peek() === ";") {
    source.pos += 1;
  }
  skipLines(source);
}

function loopBody(source: Source): Script {
  if (reserved(source) === "{") {
    source.pos += 1;
    const body = filled(parseList(source));
    word(source, "}");
    return body;
  }
  return doBody(source);
}

function caseCommand(source: Source, start: number): Compound {
  skipBlank(source);
  const words = [readWord(source)];
  skipLines(source);
  word(source, "in");
  const bodies: Script[] = [];
  skipLines(source);
  while (reserved(source) !== "esac") {
    words.push(...casePatterns(source));
    bodies.push(parseList(source));
    if (!source.take(CASE_END) && reserved(source) !== "esac") {
      throw new ShellSyntaxError("expected ;; or esac");
    }
    skipLines(source);
  }
  source.pos += "esac".length;
  return finish(source, start, "case", bodies, words);
}

function casePatterns(source: Source): Word[] {
  if (source.peek() === "(") {
    source.pos += 1;
  }
  const words: Word[] = [];
  for (;;) {
    skipBlank(source);
    words.push(readWord(source));
    skipBlank(source);
    if (source.peek() === ")") {
      source.pos += 1;
      return words;
    }
    source.expect("|");
  }
}

function functionCommand(source: Source, start: number): Compound {
  skipBlank(source);
  const name = readWord(source).raw;
  source.take(FUNCTION_PARENS);
  return functionBody(source, start, name);
}

function functionBody(source: Source, start: number, name: string): Compound {
  skipLines(source);
  const body = command(source);
  if (body instanceof Simple) {
    throw new ShellSyntaxError("a function needs a compound command");
  }
  const script = new Script([new Item(new Pipeline([body]), "")]);
  return new Compound("function", name, [], [script], [], source.text.slice(start, source.pos));
}

function coproc(source: Source, start: number): Compound {
  skipBlank(source);
  source.take(COPROC_NAME);
  const script = new Script([new Item(new Pipeline([command(source)]), "")]);
  return new Compound("coproc", "", [], [script], [], source.text.slice(start, source.pos));
}

function condition(source: Source, start: number): Compound {
  return finish(source, start, "condition", [], readCondition(source));
}

function simple(source: Source, start: number): Simple | Compound {
  const assigns: Word[] = [];
  const words: Word[] = [];
  const redirects: Redirect[] = [];
  let end = start;
  for (;;) {
    skipBlank(source);
    if (takeRedirect(source, redirects)) {
      end = source.pos;
      continue;
    }
    const [name] = words;
    if (source.peek() === "(" && name && words.length + assigns.length + redirects.length === 1) {
      if (!source.take(FUNCTION_PARENS)) {
        throw new ShellSyntaxError("unexpected (");
      }
      return functionBody(source, start, name.raw);
    }
    if (isCommandEnd(source)) {
      break;
    }
    const next = readWord(source);
    const isAssign = !words.length && ASSIGNMENT.test(next.raw);
    (isAssign ? assigns : words).push(next);
    end = source.pos;
  }
  if (assigns.length + words.length + redirects.length === 0) {
    throw new ShellSyntaxError("a command is missing");
  }
  return new Simple(assigns, words, redirects, source.text.slice(start, end));
}

function isCommandEnd(source: Source): boolean {
  return !source.peek() || (META.includes(source.peek()) && !["<(", ">("].includes(source.peek(2)));
}

const COMPOUNDS = new Map([
  ["{", group],
  ["if", ifCommand],
  ["while", whileCommand],
  ["until", whileCommand],
  ["for", forCommand],
  ["select", forCommand],
  ["case", caseCommand],
  ["function", functionCommand],
  ["coproc", coproc],
  ["[[", condition],
]);

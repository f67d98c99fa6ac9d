/** A second opinion: tree-sitter must see the same commands, or nothing is safe. */
import { Language, type Node, Parser, type Tree } from "web-tree-sitter";

import { RESERVED } from "./parser.js";
import {
  Arithmetic,
  ArrayLiteral,
  type Budget,
  type Compound,
  Parameter,
  type Part,
  type Redirect,
  type Script,
  Simple,
  Substitution,
  Text,
  type Word,
} from "./tree.js";

const NOT_ASCII = /\P{ASCII}/gu;
// tree-sitter has its own nodes for these, so they are no command names there.
const KEYWORDS = new Set("export declare typeset readonly local unset unsetenv test [ [[".split(" "));

/** The grammar of tree-sitter-bash, ready to parse. */
export interface ShellGrammar {
  /** Parse ASCII text; the caller deletes the tree. Undefined when there is no tree. */
  parse(text: string): Tree | undefined;
}

/**
 * Load the grammar: `wasm` is the file of tree-sitter-bash, `runtime` that of web-tree-sitter.
 *
 * Each is given as bytes, or as text that says where it is (a URL in a browser, a path in Node). Without
 * `runtime` the file next to the module of web-tree-sitter is used.
 */
export async function loadShellGrammar(
  wasm: Uint8Array | string,
  runtime?: Uint8Array | string,
): Promise<ShellGrammar> {
  await Parser.init(runtimeOptions(runtime));
  const parser = new Parser().setLanguage(await Language.load(wasm));
  return {
    parse(text) {
      // A parse that was cut short by an error would else go on with this text.
      parser.reset();
      return parser.parse(text) ?? undefined;
    },
  };
}

function runtimeOptions(runtime: Uint8Array | string | undefined): object {
  if (runtime === undefined) {
    return {};
  }
  return typeof runtime === "string" ? { locateFile: () => runtime } : { wasmBinary: runtime };
}

/** Say whether tree-sitter reads the same command words, without an error. */
export function agrees(grammar: ShellGrammar, text: string, script: Script, budget: Budget): boolean {
  const tree = grammar.parse(ascii(text));
  if (tree === undefined) {
    return false;
  }
  try {
    return matches(tree.rootNode, script, budget);
  } finally {
    tree.delete();
  }
}

function matches(root: Node, script: Script, budget: Budget): boolean {
  if (root.hasError) {
    return false;
  }
  const theirs: string[] = [];
  for (const node of nodes(root, budget)) {
    if (node.type === "command") {
      theirs.push(commandWord(node));
    }
  }
  if (theirs.some((word) => RESERVED.has(word))) {
    return false;
  }
  const ours = [...scriptWords(script)].map((word) => plain(ascii(word)));
  return names(ours).join("\0") === names(theirs).join("\0");
}

function commandWord(command: Node): string {
  const children = command.namedChildren;
  const words = children.map((child) => plain(child.text));
  const found = words.filter((_, number) => children[number]?.type === "command_name");
  if (found.length !== 1 || found[0] !== "time") {
    return found[0] ?? "";
  }
  // tree-sitter takes the reserved word `time` for a program.
  const rest = words.slice(words.indexOf("time") + 1);
  return rest.find((word) => !["-p", "--", "time"].includes(word)) ?? "";
}

function names(words: readonly string[]): string[] {
  return words.filter((word) => word && !KEYWORDS.has(word)).sort();
}

function ascii(text: string): string {
  // The scanner of tree-sitter-bash 0.25 reads beyond a table, and the process dies, on some characters
  // outside ASCII. To bash they are all just letters of a word.
  return text.replace(NOT_ASCII, "u");
}

function plain(word: string): string {
  return word.replaceAll("\\\n", "");
}

function* nodes(root: Node, budget: Budget): Generator<Node> {
  const stack = [root];
  let node = stack.pop();
  while (node !== undefined) {
    budget.spend();
    yield node;
    stack.push(...node.children);
    node = stack.pop();
  }
}

function* scriptWords(script: Script): Generator<string> {
  for (const item of script.items) {
    for (const command of item.pipeline.commands) {
      yield* command instanceof Simple ? simpleWords(command) : compoundWords(command);
    }
  }
}

function* simpleWords(command: Simple): Generator<string> {
  const first = command.words[0];
  if (first !== undefined) {
    yield first.raw;
  }
  for (const word of [...command.assigns, ...command.words]) {
    yield* wordWords(word);
  }
  yield* redirectWords(command.redirects);
}

function* compoundWords(command: Compound): Generator<string> {
  for (const word of command.words) {
    yield* wordWords(word);
  }
  for (const body of command.bodies) {
    yield* scriptWords(body);
  }
  yield* redirectWords(command.redirects);
}

function* redirectWords(redirects: readonly Redirect[]): Generator<string> {
  for (const redirect of redirects) {
    yield* wordWords(redirect.target);
    if (redirect.body !== undefined) {
      yield* wordWords(redirect.body);
    }
  }
}

function* wordWords(word: Word): Generator<string> {
  for (const part of word.parts) {
    yield* partWords(part);
  }
}

function* partWords(part: Part): Generator<string> {
  if (part instanceof Text) {
    return;
  }
  if (part instanceof Substitution) {
    yield* scriptWords(part.script);
  } else if (part instanceof ArrayLiteral) {
    for (const word of part.words) {
      yield* wordWords(word);
    }
  } else if (part instanceof Arithmetic) {
    for (const inner of part.parts) {
      yield* partWords(inner);
    }
  } else {
    part satisfies Parameter;
    for (const inner of [...part.subscript, ...part.argument]) {
      yield* partWords(inner);
    }
  }
}

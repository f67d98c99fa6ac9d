/**
 * Finds what is wrong with a JSON text: the first fault, in reading order.
 *
 * `JSON.parse` takes duplicate keys, lone surrogates, infinite and inexact numbers and any depth, so
 * this walk comes first. It is the same, fault for fault, as `codec_scan.py` in the Python package.
 */
import type { CodecErrorCode, Position, Step } from "./codec-error.js";
import {
  CodecError,
  LONE_SURROGATE_TEXT,
  NON_FINITE_TEXT,
  OUT_OF_RANGE_TEXT,
  grouped,
  pointer,
  shown,
  tooDeepText,
} from "./codec-error.js";
import type { CodecLimits } from "./limits.js";
import { ERROR_KEY_CHARS_MAX, NUMBER_CHARS_MAX } from "./limits.js";

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;
const CONSTANT = /NaN|-?Infinity/y;
const UNIT = /\\u([0-9a-fA-F]{4})/y;
const LOW = /\\u[dD][c-fC-F][0-9a-fA-F]{2}/y;
// Marks that may be named in an error: they are JSON's own, or what people write in their place.
const NAMED = "{}[]:,\"'/#";

/** Throws the first fault of the text, if it has one. */
export function scan(text: string, limits: CodecLimits): void {
  new Scan(text, limits).message();
}

class Scan {
  private at = 0;
  /** For each open array or object: the keys so far (null in an array), and the step within. */
  private readonly keys: (Set<string> | null)[] = [];
  private readonly steps: Step[] = [];

  constructor(
    private readonly text: string,
    private readonly limits: CodecLimits,
  ) {}

  /** Reads the whole text; a loop and not a recursion, so that depth costs no stack. */
  message(): void {
    if (this.next() === "") this.fail("empty", "empty message: expected one JSON value");
    do {
      if (this.opens()) continue;
      while (this.keys.length > 0 && this.closes()) {
        this.keys.pop();
        this.steps.pop();
      }
    } while (this.keys.length > 0);
    if (this.next() !== "") this.expected("the end of the message");
  }

  /** Reads one value; true if it opened a container whose first value comes next. */
  private opens(): boolean {
    const mark = this.next();
    if (mark !== "[" && mark !== "{") {
      this.scalar(mark);
      return false;
    }
    const depth = this.keys.length + 1;
    if (depth > this.limits.depthMax) this.fail("too_deep", tooDeepText(depth, this.limits));
    this.at += 1;
    if (this.next() === (mark === "[" ? "]" : "}")) {
      this.at += 1;
      return false;
    }
    if (mark === "{") {
      this.key(new Set());
    } else {
      this.keys.push(null);
      this.steps.push(0);
    }
    return true;
  }

  /** Reads what follows a value: true if the container ends, false if a value comes next. */
  private closes(): boolean {
    const keys = this.keys.at(-1) ?? null;
    const end = keys === null ? "]" : "}";
    const mark = this.next();
    if (mark !== "," && mark !== end) this.expected(`',' or '${end}'`);
    this.at += 1;
    if (mark === end) return true;
    const step = this.steps.pop();
    if (keys === null) {
      this.steps.push(Number(step) + 1);
    } else {
      this.keys.pop();
      this.next();
      this.key(keys);
    }
    return false;
  }

  /** Reads a key and its colon, and steps inside; a fault in the key itself is the object's. */
  private key(keys: Set<string>): void {
    const start = this.at;
    if (this.text[start] !== '"') this.expected("a key in double quotes");
    this.string();
    const key = textOf(this.text.slice(start, this.at));
    this.keys.push(keys);
    this.steps.push(key);
    if (keys.has(key)) {
      this.at = start;
      const name = shown(key, ERROR_KEY_CHARS_MAX);
      this.fail("duplicate_key", `duplicate key "${name}" (${pointer(this.steps)})`);
    }
    keys.add(key);
    if (this.next() !== ":") this.expected("':'");
    this.at += 1;
  }

  private scalar(mark: string): void {
    if (mark === '"') {
      this.string();
      return;
    }
    const literal = this.match(LITERAL);
    if (literal) {
      this.at += literal[0].length;
      return;
    }
    if (this.match(CONSTANT)) this.fail("non_finite", NON_FINITE_TEXT);
    const number = this.match(NUMBER);
    if (!number) this.expected("a value");
    this.number(number[0], number[1] === undefined && number[2] === undefined);
    this.at += number[0].length;
  }

  private number(token: string, isInteger: boolean): void {
    if (token.length > NUMBER_CHARS_MAX) {
      const found = `${grouped(token.length)} characters, limit ${grouped(NUMBER_CHARS_MAX)}`;
      this.fail("number_too_long", `number too long: ${found}`);
    }
    const value = Number(token);
    if (isInteger && !Number.isSafeInteger(value)) this.fail("number_out_of_range", OUT_OF_RANGE_TEXT);
    if (!Number.isFinite(value)) this.fail("non_finite", NON_FINITE_TEXT);
  }

  private string(): void {
    this.at += 1;
    for (;;) {
      // Past the end the code is NaN, which is neither a mark nor a good character.
      const code = this.text.charCodeAt(this.at);
      if (code === 0x22) break;
      if (code === 0x5c) this.escape();
      else if (code >= 0x20) this.at += 1;
      else this.expected("a closing quote");
    }
    this.at += 1;
  }

  private escape(): void {
    const short = this.text[this.at + 1] ?? "";
    if (short !== "" && '"\\/bfnrt'.includes(short)) {
      this.at += 2;
      return;
    }
    const escape = this.match(UNIT);
    if (!escape) this.expected("a valid escape");
    const [written, digits = ""] = escape;
    const unit = parseInt(digits, 16);
    this.at += written.length;
    if (unit < 0xd800 || unit > 0xdfff) return;
    if (unit >= 0xdc00 || !this.match(LOW)) {
      this.at -= written.length;
      this.fail("lone_surrogate", LONE_SURROGATE_TEXT);
    }
    this.at += written.length;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  /** Skips white space; returns the next character, or nothing at the end. */
  private next(): string {
    for (;;) {
      const mark = this.text[this.at] ?? "";
      if (mark !== " " && mark !== "\n" && mark !== "\r" && mark !== "\t") return mark;
      this.at += 1;
    }
  }

  private expected(what: string): never {
    this.fail("not_json", `not JSON: expected ${what}, found ${described(this.text[this.at])}`);
  }

  private fail(code: CodecErrorCode, text: string): never {
    const position = positionOf(this.text, this.at);
    const message = `${text}, at line ${position.line} column ${position.column}`;
    throw new CodecError(code, message, { position, path: pointer(this.steps) });
  }
}

/** The text of a good JSON string. */
function textOf(string: string): string {
  return string.includes("\\") ? String(JSON.parse(string)) : string.slice(1, -1);
}

function described(char: string | undefined): string {
  if (char === undefined) return "the end of the message";
  if (NAMED.includes(char)) return `'${char}'`;
  return char < " " ? "a control character" : "another character";
}

/** Where an index of the text is. */
export function positionOf(text: string, at: number): Position {
  const before = text.slice(0, at);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return {
    offset: utf8Bytes(before),
    line: before.split("\n").length,
    column: Array.from(line).length + 1,
  };
}

/** How many bytes a well-formed text takes as UTF-8. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    // Each half of a pair adds one byte to its own, each other character up to two.
    if (unit >= 0x80) bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

/**
 * The codec: the one strict way between text and types. The Python package has the same one, fault for fault.
 *
 * Both directions keep the same rules: UTF-8 without a byte order mark, one JSON value, no duplicate keys, no lone
 * surrogates, no NaN or infinity, no integer beyond 2**53 - 1, and the limits below. Whatever the input, the only
 * exception is `CodecError`, and it carries no payload.
 */
import type { z } from "zod";
import type { JsonValue } from "./wire.js";

// Limits of the wire, each named with its unit.

/** Bytes of one wire message: larger content travels by reference. */
export const MESSAGE_BYTES_MAX = 1_048_576;

/** Levels of arrays and objects inside one another; a bare number has none. */
export const DEPTH_MAX = 64;

/** Characters of one number as written; a double never needs more than 25. */
export const NUMBER_CHARS_MAX = 128;

/** The largest magnitude of an integer: 2**53 - 1, the last that a number holds exactly. */
export const INTEGER_MAX = Number.MAX_SAFE_INTEGER;

/** Issues that one decoding error lists. */
export const ERROR_ISSUES_MAX = 16;

/** Characters of the text of one issue. */
export const ERROR_TEXT_CHARS_MAX = 200;

/** Characters of one key that an error names. */
export const ERROR_KEY_CHARS_MAX = 64;

/** Characters of one JSON pointer in an error. */
export const ERROR_PATH_CHARS_MAX = 256;

/** The limits that a transport may choose for its own messages. */
export interface CodecLimits {
  readonly messageBytesMax: number;
  readonly depthMax: number;
}

export const DEFAULT_LIMITS: CodecLimits = { messageBytesMax: MESSAGE_BYTES_MAX, depthMax: DEPTH_MAX };

// Errors.

/** Why a message was refused; stable, the same in every language. */
export type CodecErrorCode =
  | "not_utf8"
  | "bom"
  | "empty"
  | "too_large"
  | "too_deep"
  | "not_json"
  | "non_finite"
  | "duplicate_key"
  | "lone_surrogate"
  | "number_too_long"
  | "number_out_of_range"
  | "invalid";

/** A place in a message: bytes from 0; lines and characters from 1. */
export interface Position {
  readonly offset: number;
  readonly line: number;
  readonly column: number;
}

/** One way in which a value does not fit its type, and where (a JSON pointer). */
export interface Issue {
  readonly path: string;
  readonly message: string;
}

interface Details {
  readonly position?: Position;
  readonly path?: string;
  readonly issues?: readonly Issue[];
}

/**
 * A message that the codec refuses, without any of its payload.
 *
 * `position` is set when a place in the text is to blame and `path` (a JSON pointer) when a value
 * is. `issues` is filled for the code `invalid` alone. Keys are named, cut short and made
 * printable; values never are.
 */
export class CodecError extends Error {
  override readonly name = "CodecError";
  readonly position: Position | undefined;
  readonly path: string | undefined;
  readonly issues: readonly Issue[];

  constructor(
    readonly code: CodecErrorCode,
    message: string,
    { position, path, issues = [] }: Details = {},
  ) {
    super(message);
    this.position = position;
    this.path = path;
    this.issues = issues;
  }
}

/** One step of a path: a key or an index. */
type Step = string | number;

const NON_FINITE_TEXT = "number not finite: expected one that fits a double";
const LONE_SURROGATE_TEXT = "lone surrogate in a string: expected a pair";
const OUT_OF_RANGE_TEXT = `integer out of range: limit ±${grouped(INTEGER_MAX)}, send a larger one as a string`;

/** Says how large a message is; `found` is the size in bytes, in words or digits. */
function tooLargeText(found: string, limits: CodecLimits): string {
  return `message too large: ${found} bytes, limit ${grouped(limits.messageBytesMax)}`;
}

/** Says how deep a message is. */
function tooDeepText(depth: number, limits: CodecLimits): string {
  return `message too deep: ${grouped(depth)} levels, limit ${grouped(limits.depthMax)}`;
}

/** An integer with a comma between thousands. */
function grouped(value: number): string {
  // Not `toLocaleString`: the first use of a locale takes tens of milliseconds, and a page has to wait for it.
  return String(value).replace(/\B(?=(?:[0-9]{3})+$)/gu, ",");
}

/** Text fit for an error: printable and no longer than the limit. */
function shown(text: string, charsMax: number): string {
  // A character is at most two units: what is far too long is not split into characters first.
  const chars = Array.from(text.slice(0, 2 * charsMax + 1));
  const cut = chars.length <= charsMax ? chars : [...chars.slice(0, charsMax - 1), "…"];
  return cut.map((char) => (/[\p{C}\p{Z}]/u.test(char) && char !== " " ? "\ufffd" : char)).join("");
}

/** The JSON pointer (RFC 6901) of these keys and indexes, cut to its limit. */
function pointer(steps: readonly Step[]): string {
  return shown(steps.map((step) => `/${token(step)}`).join(""), ERROR_PATH_CHARS_MAX);
}

function token(step: Step): string {
  return shown(String(step), ERROR_KEY_CHARS_MAX).replaceAll("~", "~0").replaceAll("/", "~1");
}

// Reading and writing.

// Part of every browser and of node, but not of the language this package is compiled for.
declare const TextDecoder: new (
  label: string,
  options: { fatal: boolean; ignoreBOM: boolean },
) => { decode(bytes: Uint8Array): string };

const BOM = [0xef, 0xbb, 0xbf];
const BOM_TEXT = "byte order mark: expected UTF-8 without one";
// The fewest bytes that things take as JSON. A value has a comma or a bracket beside it, but for
// the outermost; a key has its quotes and its colon, and each of its units takes one or more.
const VALUE_BYTES_MIN = 2;
const KEY_BYTES_MIN = 3;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Reads one strict JSON value; throws CodecError with the first fault in reading order. */
export function parse(data: string | Uint8Array, limits: CodecLimits = DEFAULT_LIMITS): JsonValue {
  const text = typeof data === "string" ? checkedText(data, limits) : decodedText(data, limits);
  const value = canonicalValue(text, limits);
  if (value !== undefined) return value;
  scan(text, limits);
  return JSON.parse(text) as JsonValue;
}

/** A number of as many digits as one that is out of range, or the escape of a surrogate: both are written as they are read. */
const DOUBTFUL = /(?:^|[:,[-])[0-9]{16}|\\u[dD]/u;

/**
 * The value of a text that is the JSON of its value, letter by letter; undefined of any other text, which is scanned.
 *
 * Such a text has no duplicate keys and no number that a double does not hold, because neither is written again as it
 * was read. It takes a fraction of the time of a scan, and Windlass writes its messages like this.
 */
function canonicalValue(text: string, limits: CodecLimits): JsonValue | undefined {
  if (DOUBTFUL.test(text)) return undefined;
  let value: JsonValue;
  try {
    value = JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
  return isWithinDepth(value, limits.depthMax) && JSON.stringify(value) === text ? value : undefined;
}

function isWithinDepth(value: JsonValue, levels: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  if (Array.isArray(value)) return value.every((item) => isWithinDepth(item, levels - 1));
  for (const key in value) if (!isWithinDepth(value[key] ?? null, levels - 1)) return false;
  return true;
}

/** Reads one message as a type; throws CodecError as `parse` does, or `invalid` with the issues. */
export function decode<S extends z.ZodType>(
  schema: S,
  data: string | Uint8Array,
  limits: CodecLimits = DEFAULT_LIMITS,
): z.output<S> {
  const result = schema.safeParse(parse(data, limits));
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, ERROR_ISSUES_MAX).map(toIssue);
  const first = issues[0] ?? { path: "", message: "" };
  const count = grouped(result.error.issues.length);
  const message = `invalid message: issues: ${count}, the first at ${first.path || "the top"}: ${first.message}`;
  throw new CodecError("invalid", message, { path: first.path, issues });
}

/**
 * Writes a value as compact JSON that `parse` accepts; send it as UTF-8.
 *
 * A property that is undefined is left out. Throws CodecError if the value is not JSON or breaks a limit.
 */
export function encode(value: unknown, limits: CodecLimits = DEFAULT_LIMITS): string {
  const text = new Writer(limits).write(value);
  checkTextSize(text, limits);
  return text;
}

function checkedText(text: string, limits: CodecLimits): string {
  // A unit takes at least one byte: a text that is far too large is not looked at first.
  if (text.length > limits.messageBytesMax) {
    throw new CodecError("too_large", tooLargeText(`at least ${grouped(text.length)}`, limits));
  }
  const at = text.search(LONE_SURROGATE);
  if (at >= 0) throw new CodecError("lone_surrogate", LONE_SURROGATE_TEXT, { position: positionOf(text, at) });
  checkTextSize(text, limits);
  if (text.startsWith("\ufeff")) throw new CodecError("bom", BOM_TEXT);
  return text;
}

function decodedText(bytes: Uint8Array, limits: CodecLimits): string {
  checkSize(bytes.byteLength, limits);
  if (BOM.every((byte, index) => bytes[index] === byte)) throw new CodecError("bom", BOM_TEXT);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new CodecError("not_utf8", "not UTF-8: expected UTF-8, found another byte");
  }
}

function checkTextSize(text: string, limits: CodecLimits): void {
  // A unit takes at most three bytes: most texts are small enough without counting.
  if (3 * text.length > limits.messageBytesMax) checkSize(utf8Bytes(text), limits);
}

function checkSize(size: number, limits: CodecLimits): void {
  if (size > limits.messageBytesMax) throw new CodecError("too_large", tooLargeText(grouped(size), limits));
}

function toIssue(issue: z.core.$ZodIssue): Issue {
  const steps = issue.path.map((step) => (typeof step === "symbol" ? "" : step));
  return { path: pointer(steps), message: shown(issue.message, ERROR_TEXT_CHARS_MAX) };
}

class Writer {
  private readonly steps: Step[] = [];
  private bytes = -1;

  constructor(private readonly limits: CodecLimits) {}

  write(value: unknown): string {
    this.count(VALUE_BYTES_MIN);
    switch (typeof value) {
      case "string":
        return this.string(value, 1);
      case "number":
        return this.number(value);
      case "boolean":
        return String(value);
      case "object":
        return value === null ? "null" : this.container(value);
      default:
        return this.fail("invalid", `expected a JSON value, found ${typeof value}`);
    }
  }

  private container(value: object): string {
    const depth = this.steps.length + 1;
    if (depth > this.limits.depthMax) this.fail("too_deep", tooDeepText(depth, this.limits));
    if (Array.isArray(value)) return `[${Array.from(value, (item, index) => this.inside(index, item)).join(",")}]`;
    const kind = Object.prototype.toString.call(value).slice("[object ".length, -1);
    if (kind !== "Object") this.fail("invalid", `expected a JSON value, found ${kind}`);
    const members = Object.entries(value).filter(([, item]) => item !== undefined);
    return `{${members.map(([key, item]) => `${this.string(key, KEY_BYTES_MIN)}:${this.inside(key, item)}`).join(",")}}`;
  }

  private inside(step: Step, item: unknown): string {
    this.steps.push(step);
    const text = this.write(item);
    this.steps.pop();
    return text;
  }

  /** Counts the fewest bytes that things take: what is shared many times over is not unfolded first. */
  private count(bytes: number): void {
    this.bytes += bytes;
    if (this.bytes > this.limits.messageBytesMax) {
      this.fail("too_large", tooLargeText(`more than ${grouped(this.limits.messageBytesMax)}`, this.limits));
    }
  }

  private string(text: string, quotes: number): string {
    this.count(text.length + quotes);
    if (LONE_SURROGATE.test(text)) this.fail("lone_surrogate", LONE_SURROGATE_TEXT);
    return JSON.stringify(text);
  }

  private number(value: number): string {
    if (!Number.isFinite(value)) this.fail("non_finite", NON_FINITE_TEXT);
    if (Object.is(value, -0)) return "-0.0";
    // A double this large is no exact integer; written with an exponent it is not read as one.
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : String(value);
  }

  private fail(code: CodecErrorCode, text: string): never {
    const path = pointer(this.steps);
    const issues = code === "invalid" ? [{ path, message: text }] : [];
    throw new CodecError(code, `${text}, at ${path || "the top"}`, { path, issues });
  }
}

// Scanning: the first fault of a JSON text, in reading order.
//
// `JSON.parse` takes duplicate keys, lone surrogates, infinite and inexact numbers and any depth, so
// this walk comes first.

const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const LITERAL = /true|false|null/y;
const CONSTANT = /NaN|-?Infinity/y;
const UNIT = /\\u([0-9a-fA-F]{4})/y;
const LOW = /\\u[dD][c-fC-F][0-9a-fA-F]{2}/y;
// Marks that may be named in an error: they are JSON's own, or what people write in their place.
const NAMED = "{}[]:,\"'/#";

/** Throws the first fault of the text, if it has one. */
function scan(text: string, limits: CodecLimits): void {
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

  /** Reads one value; true if it opened a container, so that its first value comes next. */
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
function positionOf(text: string, at: number): Position {
  const before = text.slice(0, at);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  return {
    offset: utf8Bytes(before),
    line: before.split("\n").length,
    column: Array.from(line).length + 1,
  };
}

/** How many bytes a well-formed text takes as UTF-8. */
function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    // Each half of a pair adds one byte to its own, each other character up to two.
    if (unit >= 0x80) bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

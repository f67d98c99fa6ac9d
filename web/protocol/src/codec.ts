/**
 * The one strict door between text and types; the twin of `codec.py`.
 *
 * Both directions keep the same rules: UTF-8 without a byte order mark, one JSON value, no duplicate
 * keys, no lone surrogates, no NaN or infinity, no integer beyond 2**53 - 1, and the limits of
 * `limits.ts`. Whatever the input, the only exception is `CodecError`, and it carries no payload.
 */
import type { z } from "zod";

import type { CodecErrorCode, Issue, Step } from "./codec-error.js";
import {
  CodecError,
  LONE_SURROGATE_TEXT,
  NON_FINITE_TEXT,
  grouped,
  pointer,
  shown,
  tooDeepText,
  tooLargeText,
} from "./codec-error.js";
import type { CodecLimits } from "./limits.js";
import { DEFAULT_LIMITS, ERROR_ISSUES_MAX, ERROR_TEXT_CHARS_MAX } from "./limits.js";
import { positionOf, scan, utf8Bytes } from "./scan.js";
import type { JsonValue } from "./wire.js";

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
  scan(text, limits);
  return JSON.parse(text) as JsonValue;
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
    // A double this large is no exact integer: with an exponent nobody reads it as one.
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? value.toExponential() : String(value);
  }

  private fail(code: CodecErrorCode, text: string): never {
    const path = pointer(this.steps);
    const issues = code === "invalid" ? [{ path, message: text }] : [];
    throw new CodecError(code, `${text}, at ${path || "the top"}`, { path, issues });
  }
}

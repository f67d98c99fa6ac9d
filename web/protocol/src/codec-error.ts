/** What the codec says when it refuses a message; the twin of `codec_errors.py`. */
import type { CodecLimits } from "./limits.js";
import { ERROR_KEY_CHARS_MAX, ERROR_PATH_CHARS_MAX, INTEGER_MAX } from "./limits.js";

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
export type Step = string | number;

export const NON_FINITE_TEXT = "number not finite: expected one that fits a double";
export const LONE_SURROGATE_TEXT = "lone surrogate in a string: expected a pair";
export const OUT_OF_RANGE_TEXT = `integer out of range: limit ±${grouped(INTEGER_MAX)}, send a larger one as a string`;

/** Says how large a message is; `found` is the size in bytes, in words or digits. */
export function tooLargeText(found: string, limits: CodecLimits): string {
  return `message too large: ${found} bytes, limit ${grouped(limits.messageBytesMax)}`;
}

/** Says how deep a message is. */
export function tooDeepText(depth: number, limits: CodecLimits): string {
  return `message too deep: ${grouped(depth)} levels, limit ${grouped(limits.depthMax)}`;
}

/** An integer with a comma between thousands. */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}

/** Text fit for an error: printable and no longer than the limit. */
export function shown(text: string, charsMax: number): string {
  // A character is at most two units: what is far too long is not split into characters first.
  const chars = Array.from(text.slice(0, 2 * charsMax + 1));
  const cut = chars.length <= charsMax ? chars : [...chars.slice(0, charsMax - 1), "…"];
  return cut.map((char) => (/[\p{C}\p{Z}]/u.test(char) && char !== " " ? "\ufffd" : char)).join("");
}

/** The JSON pointer (RFC 6901) of these keys and indexes, cut to its limit. */
export function pointer(steps: readonly Step[]): string {
  return shown(steps.map((step) => `/${token(step)}`).join(""), ERROR_PATH_CHARS_MAX);
}

function token(step: Step): string {
  return shown(String(step), ERROR_KEY_CHARS_MAX).replaceAll("~", "~0").replaceAll("/", "~1");
}

/** Every limit of the wire, named with its unit; the twin of `limits.py`. */

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

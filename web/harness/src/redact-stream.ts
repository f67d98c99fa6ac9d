/** Mask a text that comes in pieces, such as the reply of a model. */
import { isSecretKey } from "./redact-keys.js";
import { LINE_CHARS_MIN, MASK, type Registered } from "./redact-registered.js";
import { maskShapes } from "./redact-shapes.js";

export const HOLD_CHARS_MAX = 8_192; // what may still become the shape of a secret; a long JWT has 4,000

/**
 * Gives back what is safe to show of a text that comes in pieces.
 *
 * All that `feed` and `finish` return is, put together, what `Redactor.text` makes of the whole text. Held
 * back is only what may still belong to a secret:
 *
 * - Registered secrets: the end of the text, while it is the beginning of a form of a secret. That is never
 *   as long as the longest form. This rule is exact, however the text is cut into pieces.
 * - Shapes: the last unbroken run of ASCII characters, which is the current word; and what opened a secret
 *   that may go on, such as a secret's name with its sign and value, a scheme with its credentials, or the
 *   line of a header. No shape but a private key goes over a line's end; of that, nothing is held: the mask
 *   is shown at once and all is dropped up to the end of the key.
 *
 * What is open for longer than `HOLD_CHARS_MAX` is masked as it stands. If it ended in a secret, all that
 * follows is dropped up to the end of the word or the line. Only a secret that shows itself as one later
 * than that gets through: a JWT whose first two parts are longer than the limit.
 *
 * One stream is for one text; the pieces must come in order.
 */
export class MaskedStream {
  readonly #known: Registered;
  readonly #shapes = new ShapeStream();
  #before = ""; // what tells a line break in base64 from another one
  #held = "";
  #covered = 0; // so much of `#held` belongs to a secret whose mask was given back already

  constructor(known: Registered) {
    this.#known = known;
  }

  /** Take the next piece of the text; return what is safe to show now. */
  feed(piece: string): string {
    return this.#shapes.feed(this.#registered(piece, (text) => this.#known.openFrom(text)));
  }

  /** Say that the text has ended; return the rest of it. */
  finish(): string {
    const rest = this.#registered("", (text) => text.length);
    return this.#shapes.feed(rest) + this.#shapes.finish();
  }

  #registered(piece: string, openFrom: (text: string) => number): string {
    if (this.#known.isEmpty) return piece;
    const text = this.#before + this.#held + piece;
    const first = this.#before.length;
    const until = Math.max(first, openFrom(text));
    let shown = "";
    let at = first + this.#covered;
    for (const [start, end] of this.#known.spans(text)) {
      if (start >= until) break;
      if (start >= at) shown += text.slice(at, start) + MASK;
      at = Math.max(at, end);
    }
    if (at < until) shown += text.slice(at, until);
    this.#before = text.slice(Math.max(0, until - LINE_CHARS_MIN), until);
    this.#held = text.slice(until);
    this.#covered = Math.max(0, at - until);
    return shown;
  }
}

/** The part of the stream that knows shapes. */
class ShapeStream {
  #held = "";
  #dropping: RegExp | undefined; // what ends the secret that the text is in
  #hasShown = false;

  feed(piece: string): string {
    // Long pieces go in parts, so that no search is over more than a bounded text.
    let shown = "";
    for (let at = 0; at < piece.length; at += HOLD_CHARS_MAX) shown += this.#part(piece.slice(at, at + HOLD_CHARS_MAX));
    return shown;
  }

  finish(): string {
    const [shown, rest] = this.#drop(this.#held);
    this.#held = "";
    return this.#hasShown || shown !== "" ? shown + masked(rest) : maskShapes(rest);
  }

  #part(part: string): string {
    const text = this.#held + part;
    if (this.#dropping === undefined && text.length <= HOLD_CHARS_MAX && /^[!-~]*$/.test(part)) {
      this.#held = text; // the word goes on
      return "";
    }
    const [before, rest] = this.#drop(text);
    let shown = before;
    if (this.#dropping === undefined) {
      const until = openFrom(rest);
      this.#held = rest.slice(until);
      shown += masked(rest.slice(0, until)) + this.#overflow();
    }
    this.#hasShown ||= shown !== "";
    return shown;
  }

  /** Take out the secrets that may be of any length; return both sides of them. */
  #drop(given: string): readonly [shown: string, rest: string] {
    let shown = "";
    let text = given;
    for (;;) {
      if (this.#dropping !== undefined) {
        const end = this.#dropping.exec(text);
        if (end === null) {
          this.#held = text.slice(-KEY_END_CHARS_MAX);
          return [shown, ""];
        }
        this.#dropping = undefined;
        text = text.slice(end.index + end[0].length);
      }
      const begin = KEY_BEGIN.exec(text);
      if (begin === null) return [shown, text];
      shown += `${masked(text.slice(0, begin.index))}[redacted:private_key]`;
      this.#dropping = KEY_END;
      text = text.slice(begin.index + begin[0].length);
    }
  }

  /** Let go of what was held for too long. */
  #overflow(): string {
    if (this.#held.length <= HOLD_CHARS_MAX) return "";
    const held = this.#held;
    this.#held = "";
    const all = masked(held);
    const hint = MASK_AT_END.exec(all)?.[1];
    if (hint !== undefined && !held.endsWith("]")) {
      this.#dropping = HINTS_OF_LINES.has(hint) ? LINE_END : WORD_END;
      return all;
    }
    // A shape that has only begun is at the very end, but the cut must not go through one that is whole.
    const head = masked(held.slice(0, -BEGUN_CHARS_MAX));
    const tail = held.slice(-BEGUN_CHARS_MAX);
    if (head + masked(tail) !== all) return all;
    this.#held = tail;
    return head;
  }
}

/** Mask a part of a text; what must be a whole text for its shape is none here. */
function masked(part: string): string {
  return part === "" ? "" : maskShapes(`\n${part}\n`).slice(1, -1);
}

/** Return where the first thing begins that may still become a secret. */
function openFrom(text: string): number {
  let until = KEY_BEGUN.exec(text)?.index ?? text.length;
  // What is open may stand within a word, or be the value of what opened before it.
  for (let nesting = 0; nesting < NESTING_MAX; nesting += 1) {
    until = wordStart(text, until);
    const opened = openedIn(text.slice(0, until));
    if (opened === until) break;
    until = opened;
  }
  return wordStart(text, until);
}

function wordStart(text: string, end: number): number {
  let start = end;
  while (start > 0 && /[!-~]/.test(text.charAt(start - 1))) start -= 1;
  return start;
}

/** Return where a secret was opened on the last line that the text ends within. */
function openedIn(text: string): number {
  const line = Math.max(text.lastIndexOf("\n"), text.lastIndexOf("\r")) + 1;
  const last = text.slice(line);
  let first = HEADER.exec(last)?.index ?? last.length;
  const start = Math.max(0, last.length - OPENED_CHARS_MAX);
  for (const opener of OPENERS) first = Math.min(first, matchFrom(opener, last, start)?.index ?? first);
  for (const opener of NAMED_OPENERS) first = Math.min(first, namedFrom(opener, last, start) ?? first);
  return line + first;
}

function namedFrom(opener: RegExp, text: string, start: number): number | undefined {
  let match = matchFrom(opener, text, start);
  while (match !== null && !isSecretKey(match[1] ?? "")) {
    match = matchFrom(opener, text, match.index + (match[1] ?? "").length);
  }
  return match?.index;
}

function matchFrom(pattern: RegExp, text: string, start: number): RegExpExecArray | null {
  pattern.lastIndex = start;
  return pattern.exec(text);
}

const WORD_END = /(?=[ \t\r\n\f\v"'])/;
const LINE_END = /(?=[\r\n"'\\])/;
const HINTS_OF_LINES: ReadonlySet<string> = new Set([":authorization", ":cookie"]);
const MASK_AT_END = /\[redacted(:[a-z_]+|)\]$/;
const NESTING_MAX = 4;
const OPENED_CHARS_MAX = 640; // no opener but a header is longer
const BEGUN_CHARS_MAX = 256;
const KEY_END_CHARS_MAX = 80;
const KEY_BEGIN = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?=[\s\S]{0,12}?[A-Za-z0-9+/=:,-]{8})/;
const KEY_END = /-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----/;
const KEY_BEGUN = /-----BEGIN [A-Z0-9 ]{0,60}-{0,5}[\s\S]{0,20}$/;

const QUOTED = String.raw`\\{0,3}["'][^\r\n"'\\]{0,512}`;
const BARE = String.raw`[^ \t\r\n"']{0,256}`;
const HEADER =
  /(?:[Aa]uthorization|AUTHORIZATION|[Cc]ookie|COOKIE)\\{0,3}["']?[ \t]{0,4}(?:[:=][ \t]{0,4}\\{0,3}["']?[^\r\n"'\\]*)?$/;
const OPENERS = [
  String.raw`(?<![A-Za-z0-9_])(?:[Bb]earer|BEARER|[Bb]asic|BASIC)[ \t]{1,4}`,
  String.raw`(?<![A-Za-z0-9_-])(?:-u|--user|--proxy-user)(?:=|[ \t]{1,4})(?:${QUOTED}|${BARE})`,
  String.raw`[A-Za-z][A-Za-z0-9+.-]{0,20}://[^ \t\r\n"'<>/?#]{0,384}`,
].map((opener) => new RegExp(`${opener}$`, "gu"));
const NAMED_OPENERS = [
  String.raw`(?<![A-Za-z0-9_.$-])([A-Za-z0-9_.-]{2,64})\\{0,3}["']?[ \t]{0,4}` +
    String.raw`(?:(?:=>|:=|[:=])[ \t]{0,4}(?:${QUOTED}|${BARE}))?`,
  String.raw`(?<![A-Za-z0-9_-])(--[A-Za-z][A-Za-z0-9_-]{1,40})[ \t]{1,4}(?:${QUOTED}|${BARE})`,
].map((opener) => new RegExp(`${opener}$`, "gu"));

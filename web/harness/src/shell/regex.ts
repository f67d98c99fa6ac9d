/**
 * Regular expressions with the meaning they have in Python.
 *
 * Both languages write their patterns alike, and read a few things differently: what a space, a letter or a
 * line end is, which escapes and braces are allowed, how wide a look-behind may be.
 */
import { SPACE, WORD } from "./text.js";

/** A stretch of a pattern for JavaScript, and how many characters it can match. */
interface Piece {
  readonly source: string;
  readonly min: number;
  readonly max: number;
}

type PieceKind = "item" | "position" | "repeat";

const BOUNDARY = `(?<=[${WORD}])(?![${WORD}])|(?<![${WORD}])(?=[${WORD}])`;
const POSITIONS = new Map([
  ["A", "^"],
  ["Z", "$"],
  ["b", `(?:${BOUNDARY})`],
  // In a text of no characters Python finds neither.
  ["B", `(?!^$|${BOUNDARY})`],
]);
/** The insides of character classes; the classes of the upper case letters are what these leave out. */
const CLASSES = new Map([
  ["d", "\\p{Nd}"],
  ["s", SPACE],
  ["w", WORD],
]);
const CONTROLS = new Map([
  ["a", 7],
  ["f", 12],
  ["n", 10],
  ["r", 13],
  ["t", 9],
  ["v", 11],
]);
const CODE_DIGITS = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);
const GROUPS = ["?:", "?=", "?!", "?<=", "?<!"] as const;
const ANY = "[\\s\\S]";
const REPEAT = /^\{(?!\})(\d*)(?:(,)(\d*))?\}/;
const REPEATS_MAX = 4_294_967_295;
const CODE_POINT_MAX = 0x10ffff;
/** The four letters that Python takes for one when case does not matter, unlike JavaScript. */
const LETTERS_I = [0x49, 0x69, 0x130, 0x131];

/**
 * Make an expression of a pattern of Python; flags `i` and `s` are Python's, `g` and `y` JavaScript's.
 *
 * @throws SyntaxError if the pattern is not one, or uses what cannot be carried over.
 */
export function regex(pattern: string, flags = ""): RegExp {
  return compile(pattern, flags, "", "");
}

/** Make an expression that has to match from the start of the text. */
export function startRegex(pattern: string, flags = ""): RegExp {
  return compile(pattern, flags, "^(?:", ")");
}

/** Make an expression that has to match the whole text. */
export function fullRegex(pattern: string, flags = ""): RegExp {
  return compile(pattern, flags, "^(?:", ")$");
}

/** Write text as a pattern that matches it. */
export function escapeRegex(text: string): string {
  return text.replace(/[^A-Za-z0-9_]/gu, "\\$&");
}

function compile(pattern: string, flags: string, before: string, after: string): RegExp {
  const source = new Translator(pattern, flags.includes("i"), flags.includes("s")).translate();
  return new RegExp(before + source + after, "u" + flags.replace("s", ""));
}

function quote(code: number): string {
  return `\\u{${code.toString(16)}}`;
}

function sum(pieces: readonly Piece[]): Piece {
  return {
    source: pieces.map((piece) => piece.source).join(""),
    min: pieces.reduce((total, piece) => total + piece.min, 0),
    max: pieces.reduce((total, piece) => total + piece.max, 0),
  };
}

class Translator {
  private readonly chars: readonly string[];
  private position = 0;

  constructor(
    pattern: string,
    private readonly ignoresCase: boolean,
    private readonly dotIsAll: boolean,
  ) {
    this.chars = Array.from(pattern);
  }

  translate(): string {
    const found = this.choices();
    if (this.position < this.chars.length) throw new SyntaxError("unbalanced parenthesis");
    return found.source;
  }

  private peek(): string {
    return this.chars[this.position] ?? "";
  }

  private next(): string {
    const char = this.peek();
    if (char === "") throw new SyntaxError("the pattern ends early");
    this.position += 1;
    return char;
  }

  private skip(text: string): boolean {
    if (!this.rest(text.length).startsWith(text)) return false;
    this.position += text.length;
    return true;
  }

  private rest(length: number): string {
    return this.chars.slice(this.position, this.position + length).join("");
  }

  private choices(): Piece {
    const found = [this.sequence()];
    while (this.skip("|")) found.push(this.sequence());
    return {
      source: found.map((piece) => piece.source).join("|"),
      min: Math.min(...found.map((piece) => piece.min)),
      max: Math.max(...found.map((piece) => piece.max)),
    };
  }

  private sequence(): Piece {
    const pieces: Piece[] = [];
    let last: PieceKind = "position";
    while (!["", "|", ")"].includes(this.peek())) {
      const repeat = this.repeat();
      if (repeat === undefined) {
        const [piece, kind] = this.item();
        pieces.push(piece);
        last = kind;
        continue;
      }
      const piece = pieces.pop();
      if (piece === undefined || last !== "item") throw new SyntaxError("nothing to repeat");
      const max = piece.max === 0 ? 0 : piece.max * repeat.max;
      pieces.push({ source: piece.source + repeat.source, min: piece.min * repeat.min, max });
      last = "repeat";
    }
    return sum(pieces);
  }

  private repeat(): Piece | undefined {
    const bounds = this.bounds();
    if (bounds === undefined) return undefined;
    const [min, max] = bounds;
    if (max < min || min >= REPEATS_MAX || (max !== Infinity && max >= REPEATS_MAX)) {
      throw new SyntaxError("bad repeat");
    }
    if (this.peek() === "+") throw new SyntaxError("possessive repeat");
    const source = `{${min},${max === Infinity ? "" : max}}`;
    return { source: source + (this.skip("?") ? "?" : ""), min, max };
  }

  private bounds(): readonly [number, number] | undefined {
    if (this.skip("*")) return [0, Infinity];
    if (this.skip("+")) return [1, Infinity];
    if (this.skip("?")) return [0, 1];
    const found = this.peek() === "{" ? REPEAT.exec(this.chars.slice(this.position).join("")) : null;
    if (found === null) return undefined;
    this.position += found[0].length;
    const [, low = "", comma, high = ""] = found;
    if (comma === undefined) return [Number(low), Number(low)];
    return [Number(low), high === "" ? Infinity : Number(high)];
  }

  private item(): readonly [Piece, PieceKind] {
    const char = this.next();
    switch (char) {
      case "^":
        return [{ source: "^", min: 0, max: 0 }, "position"];
      case "$":
        return [{ source: "(?=\\n?$)", min: 0, max: 0 }, "position"];
      case "(":
        return [this.group(), "item"];
      case "\\":
        return this.escaped();
      case "[":
        return [{ source: this.set(), min: 1, max: 1 }, "item"];
      case ".":
        return [{ source: this.dotIsAll ? ANY : "[^\\n]", min: 1, max: 1 }, "item"];
      default:
        return [this.literal(char.codePointAt(0) ?? 0), "item"];
    }
  }

  private literal(code: number): Piece {
    const isLetterI = this.ignoresCase && LETTERS_I.includes(code);
    return { source: isLetterI ? `[${LETTERS_I.map(quote).join("")}]` : quote(code), min: 1, max: 1 };
  }

  private group(): Piece {
    const start = GROUPS.find((text) => this.skip(text)) ?? "";
    if (start === "" && this.peek() === "?") throw new SyntaxError("unknown kind of group");
    const inner = this.choices();
    if (!this.skip(")")) throw new SyntaxError("missing parenthesis");
    if (start === "" || start === "?:") return { ...inner, source: `(${start}${inner.source})` };
    if (start.startsWith("?<") && inner.min !== inner.max) {
      throw new SyntaxError("look-behind of no fixed width");
    }
    // Python can repeat what looks ahead, so it is wrapped in a plain group.
    return { source: `(?:(${start}${inner.source}))`, min: 0, max: 0 };
  }

  private escaped(): readonly [Piece, PieceKind] {
    const char = this.next();
    const position = POSITIONS.get(char);
    if (position !== undefined) return [{ source: position, min: 0, max: 0 }, "position"];
    const inside = CLASSES.get(char.toLowerCase());
    if (inside !== undefined) {
      const source = CLASSES.has(char) ? `[${inside}]` : `[^${inside}]`;
      return [{ source, min: 1, max: 1 }, "item"];
    }
    return [this.literal(this.code(char)), "item"];
  }

  /** The character that an escape stands for. */
  private code(char: string): number {
    const control = CONTROLS.get(char);
    if (control !== undefined) return control;
    const digits = CODE_DIGITS.get(char);
    if (digits !== undefined) return this.hexadecimal(digits);
    if (char === "0") {
      const octal = /^[0-7]{0,2}/.exec(this.rest(2))?.[0] ?? "";
      this.position += octal.length;
      return Number.parseInt("0" + octal, 8);
    }
    if (/[A-Za-z1-9]/.test(char)) throw new SyntaxError(`bad escape \\${char}`);
    return char.codePointAt(0) ?? 0;
  }

  private hexadecimal(digits: number): number {
    const text = this.rest(digits);
    const code = Number.parseInt(text, 16);
    if (text.length !== digits || !/^[0-9a-fA-F]+$/.test(text) || code > CODE_POINT_MAX) {
      throw new SyntaxError("bad escape of a character");
    }
    this.position += digits;
    return code;
  }

  private set(): string {
    const isNegated = this.skip("^");
    const inside: string[] = [];
    const outside: string[] = [];
    let isFirst = true;
    while (isFirst || this.peek() !== "]") {
      isFirst = false;
      const low = this.member(inside, outside);
      if (this.peek() !== "-" || this.chars[this.position + 1] === "]") {
        if (low !== undefined) this.addRange(inside, low, low);
        continue;
      }
      this.next();
      const high = this.member(inside, outside);
      if (low === undefined || high === undefined || high < low) throw new SyntaxError("bad character range");
      this.addRange(inside, low, high);
    }
    this.next();
    if (outside.length === 0) return `[${isNegated ? "^" : ""}${inside.join("")}]`;
    const choices = [`[${inside.join("")}]`, ...outside.map((text) => `[^${text}]`)].join("|");
    return isNegated ? `(?:(?!${choices})${ANY})` : `(?:${choices})`;
  }

  /** Read one member of a set: return its character, or note its class. */
  private member(inside: string[], outside: string[]): number | undefined {
    const char = this.next();
    if (char !== "\\") return char.codePointAt(0) ?? 0;
    const letter = this.next();
    const known = CLASSES.get(letter.toLowerCase());
    if (known === undefined) return letter === "b" ? 8 : this.code(letter);
    (CLASSES.has(letter) ? inside : outside).push(known);
    return undefined;
  }

  private addRange(inside: string[], low: number, high: number): void {
    inside.push(low === high ? quote(low) : `${quote(low)}-${quote(high)}`);
    if (this.ignoresCase && LETTERS_I.some((code) => low <= code && code <= high)) {
      inside.push(...LETTERS_I.map(quote));
    }
  }
}

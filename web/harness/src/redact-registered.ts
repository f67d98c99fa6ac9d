/**
 * Find registered secrets, a thousand as quickly as one.
 *
 * Every form of every secret has at least `HEAD` characters. Of these the index knows all short pieces. Looking
 * up every fourth piece of a text is enough to meet each secret in it, so the time does not grow with the number
 * of secrets, and what is looked up at one place is bounded whatever the text.
 */
import { base64FormsOf, formsOf } from "./redact-forms.js";

export const MASK = "[redacted]";
export const LINE_CHARS_MIN = 16; // no base64 is wrapped into shorter lines, and few words are so long

type Span = readonly [start: number, end: number];

/**
 * The registered secrets in all their forms.
 *
 * Base64 is also found when it is wrapped over lines of `LINE_CHARS_MIN` characters and more, with up to
 * `INDENT` blanks before each.
 */
export class Registered {
  readonly isEmpty: boolean;
  readonly #forms: Index;
  readonly #wrapped: Index;

  constructor(secrets: readonly string[] = []) {
    const base64 = secrets.flatMap(base64FormsOf);
    this.isEmpty = secrets.length === 0;
    this.#forms = new Index(new Set([...base64, ...secrets.flatMap(formsOf)]));
    this.#wrapped = new Index(new Set(base64));
  }

  /** Replace all that belongs to a secret; secrets that overlap become one mask. */
  mask(text: string): string {
    let masked = "";
    let at = 0;
    for (const [start, end] of this.spans(text)) {
      masked += text.slice(at, start) + MASK;
      at = end;
    }
    return masked + text.slice(at);
  }

  /** Return where the secrets are, in order; those that overlap are one. */
  spans(text: string): readonly Span[] {
    if (this.isEmpty) return [];
    const found: Span[] = [...this.#forms.spans(text)];
    const joined = text.replace(BREAK, "");
    const wrapped = joined.length < text.length ? [...this.#wrapped.spans(joined)] : [];
    if (wrapped.length > 0) {
      const places = keptPlaces(text);
      for (const [start, end] of wrapped) found.push([places[start] ?? 0, (places[end - 1] ?? 0) + 1]);
    }
    return union(found.sort(([a, aEnd], [b, bEnd]) => a - b || aEnd - bEnd));
  }

  /** Return where a secret may have begun that the text ends within, else its end. */
  openFrom(text: string): number {
    const first = this.#forms.openFrom(text);
    // A line break may be the beginning of the next line of base64, and may itself have just begun.
    const closed = text.slice(0, -BREAK_CHARS_MAX) + text.slice(-BREAK_CHARS_MAX).replace(BREAK_BEGUN, "");
    const joined = closed.replace(BREAK, "");
    const begun = joined.length < text.length ? this.#wrapped.openFrom(joined) : joined.length;
    return begun === joined.length ? first : Math.min(first, keptPlaces(closed)[begun] ?? first);
  }
}

/** Texts to look for, all at once. */
class Index {
  readonly #needles: ReadonlySet<string>;
  readonly #ordered: readonly string[];
  readonly #longest: number;
  readonly #tails: ReadonlySet<string>;
  readonly #heads = new Map<string, number[]>();
  readonly #pieces = new Map<string, Set<number>>();

  constructor(needles: ReadonlySet<string>) {
    this.#needles = needles;
    this.#ordered = [...needles].sort(); // by code unit, as `startsWith` and `<` see it
    this.#longest = [...needles].reduce((longest, needle) => Math.max(longest, needle.length), 0);
    this.#tails = new Set([...needles].map((needle) => needle.slice(-HEAD)));
    for (const needle of needles) {
      const head = needle.slice(0, HEAD);
      const lengths = this.#heads.get(head) ?? [];
      if (!lengths.includes(needle.length))
        this.#heads.set(
          head,
          [...lengths, needle.length].sort((a, b) => b - a),
        );
    }
    for (const head of this.#heads.keys()) {
      for (let offset = 0; offset < STRIDE; offset += 1) {
        const piece = head.slice(offset, offset + PIECE);
        this.#pieces.set(piece, (this.#pieces.get(piece) ?? new Set<number>()).add(offset));
      }
    }
  }

  /** Every place where a needle begins, with the longest that begins there. */
  *spans(text: string): Iterable<Span> {
    for (let at = 0; at + PIECE <= text.length; at += STRIDE) {
      for (const offset of this.#pieces.get(text.slice(at, at + PIECE)) ?? []) {
        const start = at - offset;
        const end = start < 0 ? start : this.#end(text, start);
        if (end > start) yield [start, end];
      }
    }
  }

  #end(text: string, start: number): number {
    for (const length of this.#heads.get(text.slice(start, start + HEAD)) ?? []) {
      const end = start + length;
      // Its last characters first: a long slice is dear.
      if (this.#tails.has(text.slice(Math.max(start, end - HEAD), end)) && this.#needles.has(text.slice(start, end)))
        return end;
    }
    return start;
  }

  /** Return the first place from where on the text begins a needle that is longer. */
  openFrom(text: string): number {
    const size = text.length;
    for (let start = Math.max(0, size - this.#longest + 1); start < size; start += 1) {
      if (size - start >= HEAD && !this.#heads.has(text.slice(start, start + HEAD))) continue;
      if (this.#after(text.slice(start))?.startsWith(text.slice(start))) return start;
    }
    return size;
  }

  /** The first needle that comes after a text in order. */
  #after(text: string): string | undefined {
    let low = 0;
    let high = this.#ordered.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ordered[middle] ?? "") <= text) low = middle + 1;
      else high = middle;
    }
    return this.#ordered[low];
  }
}

function union(spans: readonly Span[]): readonly Span[] {
  const joined: [number, number][] = [];
  for (const [start, end] of spans) {
    const last = joined.at(-1);
    if (last !== undefined && start < last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
}

/** Where each character of the joined text was before. */
function keptPlaces(text: string): readonly number[] {
  const places: number[] = [];
  let at = 0;
  for (const match of [...text.matchAll(BREAK), { index: text.length, 0: "" }]) {
    for (; at < match.index; at += 1) places.push(at);
    at += match[0].length;
  }
  return places;
}

const HEAD = 8; // the shortest secret
const PIECE = 5;
const STRIDE = 4; // so that every run of `HEAD` characters has a whole piece that is looked up
const INDENT = 8;
const LINE = `[A-Za-z0-9+/_-]{${LINE_CHARS_MIN}}`;
const BREAK = new RegExp(
  String.raw`[\n\r\\](?<=${LINE}[\n\r\\])(?:(?<=\n)|(?<=\r)\n|(?<=\\)n|(?<=\\)r\\n)[ \t]{0,${INDENT}}(?=[A-Za-z0-9+/_-])`,
  "g",
);
const BREAK_BEGUN = new RegExp(
  String.raw`(?<=${LINE})(?:\r?\n[ \t]{0,${INDENT}}|\r|(?:\\r)?\\n[ \t]{0,${INDENT}}|\\r\\?|\\)$`,
);
const BREAK_CHARS_MAX = LINE_CHARS_MIN + String.raw`\r\n`.length + INDENT;

/** Wildcard patterns, matched as Python's `fnmatch.fnmatchcase` does. */

/** A range of characters, by their numbers. */
type Range = readonly [number, number];

/** One character of a pattern: the ranges it may be in, or (if negated) may not be in; or any text at all. */
type Token = "*" | { readonly ranges: readonly Range[]; readonly isNegated: boolean };

const ANY: Token = { ranges: [], isNegated: true };
const BANG = 0x21;
const HYPHEN = 0x2d;
const STAR = 0x2a;
const QUESTION = 0x3f;
const OPEN = 0x5b;
const CLOSE = 0x5d;

/** Say whether a name matches a pattern of `*`, `?` and `[…]`. */
export function fnmatch(name: string, pattern: string): boolean {
  return matchesTokens(codesOf(name), tokensOf(codesOf(pattern)));
}

/** Say whether any of these names matches a pattern. */
export function fnmatchAny(names: Iterable<string>, pattern: string): boolean {
  const tokens = tokensOf(codesOf(pattern));
  for (const name of names) {
    if (matchesTokens(codesOf(name), tokens)) return true;
  }
  return false;
}

function matchesTokens(codes: readonly number[], tokens: readonly Token[]): boolean {
  let at = 0;
  let token = 0;
  // Where to go on after a mismatch: the last star takes one character more.
  let starToken = -1;
  let starAt = 0;
  while (at < codes.length) {
    const wanted = tokens[token];
    if (wanted === "*") {
      starToken = token;
      starAt = at;
      token += 1;
    } else if (wanted !== undefined && fits(codes[at] ?? 0, wanted)) {
      at += 1;
      token += 1;
    } else if (starToken >= 0) {
      starAt += 1;
      at = starAt;
      token = starToken + 1;
    } else {
      return false;
    }
  }
  return tokens.slice(token).every((rest) => rest === "*");
}

function codesOf(text: string): number[] {
  return Array.from(text, (char) => char.codePointAt(0) ?? 0);
}

function fits(code: number, token: Exclude<Token, "*">): boolean {
  return token.ranges.some(([low, high]) => low <= code && code <= high) !== token.isNegated;
}

function tokensOf(codes: readonly number[]): Token[] {
  const tokens: Token[] = [];
  let position = 0;
  while (position < codes.length) {
    const code = codes[position] ?? 0;
    position += 1;
    if (code === STAR) {
      if (tokens.at(-1) !== "*") tokens.push("*");
    } else if (code === QUESTION) {
      tokens.push(ANY);
    } else {
      const end = code === OPEN ? setEnd(codes, position) : -1;
      tokens.push(end < 0 ? { ranges: [[code, code]], isNegated: false } : setOf(codes.slice(position, end)));
      position = end < 0 ? position : end + 1;
    }
  }
  return tokens;
}

/** Where a set ends, or -1: then its bracket is an ordinary character. */
function setEnd(codes: readonly number[], start: number): number {
  let position = start;
  if (codes[position] === BANG) position += 1;
  if (codes[position] === CLOSE) position += 1;
  return codes.indexOf(CLOSE, position);
}

function setOf(inside: readonly number[]): Token {
  const chunks = chunksOf(inside);
  const isNegated = chunks[0]?.[0] === BANG;
  if (isNegated) chunks[0] = chunks[0]?.slice(1) ?? [];
  const ranges: Range[] = [];
  chunks.forEach((chunk, number) => {
    const before = number > 0 ? chunks[number - 1]?.at(-1) : undefined;
    const first = chunk[0];
    if (before !== undefined && first !== undefined) ranges.push([before, first]);
    for (const code of chunk) ranges.push([code, code]);
  });
  return { ranges, isNegated };
}

/** Split a set at the hyphens of its ranges; a range that is empty goes, with both its ends. */
function chunksOf(inside: readonly number[]): number[][] {
  const chunks: number[][] = [];
  let start = 0;
  let hyphen = inside.indexOf(HYPHEN, inside[0] === BANG ? 2 : 1);
  while (hyphen >= 0) {
    chunks.push(inside.slice(start, hyphen));
    start = hyphen + 1;
    hyphen = inside.indexOf(HYPHEN, hyphen + 3);
  }
  const last = inside.slice(start);
  if (last.length > 0 || chunks.length === 0) chunks.push(last);
  else chunks.at(-1)?.push(HYPHEN);
  for (let number = chunks.length - 1; number > 0; number -= 1) {
    const before = chunks[number - 1] ?? [];
    const chunk = chunks[number] ?? [];
    if ((before.at(-1) ?? 0) > (chunk[0] ?? 0)) {
      chunks.splice(number - 1, 2, [...before.slice(0, -1), ...chunk.slice(1)]);
    }
  }
  return chunks;
}

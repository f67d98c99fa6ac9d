/** The end of Markdown that is still being written: marks that are open are closed, and those without words are left out. */
import { fenceAfter } from "./markdown-split.js";

/** Where words begin anew: behind a blank line, or at a list item, a heading, a quote or a row. */
const FRESH_LINE = /^\s*(?:[-*+]\s|\d{1,9}[.)]\s|#{1,6}\s|>|\|)|^\s*$/u;
const MARK = /\\[^]|`+|\*+|_+|~{2,}/gu;
const WORD = /[\p{L}\p{N}]/u;

interface Mark {
  readonly sign: string;
  count: number;
}

/** Text whose last words look as they will when they are finished. */
export function closeTail(text: string): string {
  const start = lastWords(text);
  return start === undefined ? text : text.slice(0, start) + closed(text.slice(start));
}

/** Where the words begin that a mark may span; undefined inside a block of code. */
function lastWords(text: string): number | undefined {
  let fence: string | undefined;
  let place = 0;
  let start = 0;
  for (const line of text.split(/(?<=\n)/u)) {
    fence = fenceAfter(line, fence);
    if (FRESH_LINE.test(line)) start = place;
    place += line.length;
  }
  return fence === undefined ? start : undefined;
}

function closed(words: string): string {
  const open: Mark[] = [];
  MARK.lastIndex = 0;
  for (let found = MARK.exec(words); found !== null; found = MARK.exec(words)) {
    const [mark] = found;
    const end = found.index + mark.length;
    if (mark.startsWith("\\")) continue;
    if (mark.startsWith("`")) {
      const close = endOfCode(words, mark, end);
      if (close === undefined)
        return end === words.length ? finish(words.slice(0, found.index), open) : finish(words + mark, open);
      MARK.lastIndex = close;
      continue;
    }
    const isLeft = take(
      open,
      { sign: mark.charAt(0), count: mark.length },
      { before: words.charAt(found.index - 1), after: words.charAt(end) },
    );
    // A mark at the very end has no words yet.
    if (isLeft && end === words.length) return finish(words.slice(0, found.index), open.slice(0, -1));
  }
  return finish(words, open);
}

/** Behind the end of a piece of code; undefined if it has none. */
function endOfCode(words: string, mark: string, from: number): number | undefined {
  const runs = /`+/gu;
  runs.lastIndex = from;
  for (let found = runs.exec(words); found !== null; found = runs.exec(words))
    if (found[0] === mark) return runs.lastIndex;
  return undefined;
}

interface Beside {
  readonly before: string;
  readonly after: string;
}

/** Closes what a mark closes, or opens it; returns whether it opened something. */
function take(open: Mark[], mark: Mark, beside: Beside): boolean {
  const top = open.at(-1);
  if (top?.sign === mark.sign && canClose(mark, beside)) {
    const count = Math.min(top.count, mark.count);
    top.count -= count;
    mark.count -= count;
    if (top.count === 0) open.pop();
    return mark.count > 0 && take(open, mark, beside);
  }
  const isOpening = canOpen(mark, beside);
  if (isOpening) open.push(mark);
  return isOpening;
}

function canClose({ sign }: Mark, { before, after }: Beside): boolean {
  return before.trim() !== "" && !(sign === "_" && WORD.test(after));
}

/** A single star or a line inside a word is most often no mark. */
function canOpen({ sign, count }: Mark, { before, after }: Beside): boolean {
  const isInside = WORD.test(before) && (sign === "_" || count === 1);
  return !isInside && (after === "" || after.trim() !== "");
}

function finish(words: string, open: readonly Mark[]): string {
  return open.length === 0
    ? words
    : words.trimEnd() +
        open
          .toReversed()
          .map(({ sign, count }) => sign.repeat(count))
          .join("");
}

/** Markdown cut into parts that mean the same alone, so that only the last one is read again while it grows. */

const FENCE = /^ {0,3}(`{3,}|~{3,})/u;
/** A line that cannot belong to what stands before a blank line: no list item, no indentation, no quote. */
const FRESH = /^(?![ \t]|[-*+]\s|\d{1,9}[.)]\s|>|\|)\S/u;
/** What is said once for the whole text: link targets and footnotes. */
const DEFINITION = /^ {0,3}\[[^\]]+\]:/mu;
const FOOTNOTE = /\[\^[^\]]+\]/u;

/** The parts of a text, in order; joined by nothing they are the text again. */
export function splitMarkdown(text: string): readonly string[] {
  if (DEFINITION.test(text) || FOOTNOTE.test(text)) return [text];
  const parts: string[] = [];
  let part = "";
  let fence: string | undefined;
  let isAfterBlank = false;
  for (const line of text.split(/(?<=\n)/u)) {
    if (isAfterBlank && fence === undefined && FRESH.test(line)) {
      parts.push(part);
      part = "";
    }
    part += line;
    fence = fenceAfter(line, fence);
    isAfterBlank = line.trim() === "";
  }
  if (part !== "") parts.push(part);
  return parts;
}

/** The fence that is open behind a line. */
export function fenceAfter(line: string, fence: string | undefined): string | undefined {
  const mark = FENCE.exec(line)?.[1];
  if (fence === undefined) return mark;
  return mark?.startsWith(fence) === true && line.trim() === mark ? undefined : fence;
}

/** Two texts line by line. */

/** A line, and which of the texts has it. */
export interface DiffLine {
  readonly kind: "same" | "added" | "removed";
  readonly text: string;
}

/** Longer texts are not compared line by line: one is shown after the other. */
const LINES_MAX = 1_000;

/** What was taken away and what was added, in the order of reading. */
export function lineDiff(before: string, after: string): readonly DiffLine[] {
  const [old, next] = [linesOf(before), linesOf(after)];
  const all = (kind: DiffLine["kind"], lines: readonly string[]): readonly DiffLine[] =>
    lines.map((text) => ({ kind, text }));
  if (Math.max(old.length, next.length) > LINES_MAX) return [...all("removed", old), ...all("added", next)];
  const common = lengthsOf(old, next);
  const found: DiffLine[] = [];
  let [at, other] = [0, 0];
  while (at < old.length && other < next.length) {
    const [one, two] = [old[at] ?? "", next[other] ?? ""];
    if (one === two) {
      found.push({ kind: "same", text: one });
      at += 1;
      other += 1;
    } else if ((common[at + 1]?.[other] ?? 0) >= (common[at]?.[other + 1] ?? 0)) {
      found.push({ kind: "removed", text: one });
      at += 1;
    } else {
      found.push({ kind: "added", text: two });
      other += 1;
    }
  }
  return [...found, ...all("removed", old.slice(at)), ...all("added", next.slice(other))];
}

function linesOf(text: string): readonly string[] {
  return text === "" ? [] : text.split("\n");
}

/** How many lines are in both, from each pair of places on. */
function lengthsOf(old: readonly string[], next: readonly string[]): readonly Uint32Array[] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint32Array(next.length + 1));
  for (let at = old.length - 1; at >= 0; at -= 1) {
    for (let other = next.length - 1; other >= 0; other -= 1) {
      const row = lengths[at];
      const below = lengths[at + 1];
      if (row === undefined || below === undefined) continue;
      row[other] =
        old[at] === next[other] ? (below[other + 1] ?? 0) + 1 : Math.max(below[other] ?? 0, row[other + 1] ?? 0);
    }
  }
  return lengths;
}

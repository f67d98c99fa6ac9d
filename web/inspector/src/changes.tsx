/** Changes: of the arguments that a person approved, and of texts word by word. */
import type { JsonValue } from "@windlass/protocol";
import { CARD, classes, FOCUS, formatValue } from "@windlass/ui";
import { Fragment, useMemo, type ReactNode } from "react";

/** One argument before and after; undefined where there is none. */
export interface ChangedArgument {
  readonly name: string;
  readonly before: JsonValue | undefined;
  readonly after: JsonValue | undefined;
}

/** The arguments that differ, by name; anything that is not an object is compared whole. */
export function changedArguments(before: JsonValue, after: JsonValue): readonly ChangedArgument[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .map((name) => ({ name, before: old[name], after: now[name] }))
    .filter((change) => canonical(change.before) !== canonical(change.after));
}

function fieldsOf(value: JsonValue): Readonly<Record<string, JsonValue | undefined>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : { "": value };
}

/** JSON with sorted names: the order of members does not matter. */
function canonical(value: JsonValue | undefined): string | undefined {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name]) ?? ""}`).join()}}`;
}

interface ChangedArgumentsProps {
  readonly before: JsonValue;
  readonly after: JsonValue;
  readonly by: string | undefined;
}

/** A table of what was asked for and what was approved; signs and words, so that colour is not all. */
export function ChangedArguments({ before, after, by }: ChangedArgumentsProps): ReactNode {
  const changes = changedArguments(before, after);
  if (changes.length === 0) return null;
  return (
    <table aria-label="Changed arguments" className="w-full table-fixed border-collapse text-left text-xs">
      <caption className="mb-1 text-left text-xs font-semibold text-agent-muted">
        Changed by {by ?? "a person"} before approval
      </caption>
      <thead className="text-agent-muted">
        <tr>
          <th scope="col" className="w-1/4 p-1 font-normal">
            Argument
          </th>
          <th scope="col" className="p-1 font-normal">
            The model asked for
          </th>
          <th scope="col" className="p-1 font-normal">
            Approved
          </th>
        </tr>
      </thead>
      <tbody className="font-mono">
        {changes.map((change) => (
          <tr key={change.name} className="border-t border-agent-border align-top">
            <th scope="row" className="p-1 font-normal wrap-anywhere">
              {change.name === "" ? "(all)" : change.name}
            </th>
            <Side value={change.before} sign="−" className="text-agent-danger-text" />
            <Side value={change.after} sign="+" className="text-agent-success" />
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface SideProps {
  readonly value: JsonValue | undefined;
  readonly sign: string;
  readonly className: string;
}

function Side({ value, sign, className }: SideProps): ReactNode {
  return (
    <td className={`p-1 whitespace-pre-wrap wrap-anywhere ${className}`}>
      {value === undefined ? "–" : `${sign} ${formatValue(value)}`}
    </td>
  );
}

/** A piece of a text: in both texts, or in one of them. */
export interface Piece {
  readonly text: string;
  readonly side: "both" | "before" | "after";
}

/** Words of two texts that are compared one by one; what is longer is one piece. */
const WORDS_MAX = 2_000;

/** The pieces of two texts, by the longest words that they share in order. */
export function diffWords(before: string, after: string): readonly Piece[] {
  const [old, now] = [wordsIn(before), wordsIn(after)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  const [left, right] = [old.slice(start, old.length - end), now.slice(start, now.length - end)];
  return joined([
    { text: old.slice(0, start).join(""), side: "both" },
    ...(left.length > WORDS_MAX || right.length > WORDS_MAX
      ? [
          { text: left.join(""), side: "before" as const },
          { text: right.join(""), side: "after" as const },
        ]
      : paired(left, right)),
    { text: old.slice(old.length - end).join(""), side: "both" },
  ]);
}

function wordsIn(text: string): readonly string[] {
  // With the space before it: two texts share spaces that say nothing.
  return text.match(/\s*(?:[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_])|\s+/gu) ?? [];
}

/** Two lists side by side: what stands opposite, or one side only. */
type Aligned<T> = readonly (readonly [T, T] | readonly [T, undefined] | readonly [undefined, T])[];

/** Lines two lists up so that what stands opposite is worth the most; what is worth nothing does not stand opposite. */
export function align<T>(left: readonly T[], right: readonly T[], worth: (first: T, other: T) => number): Aligned<T> {
  const width = right.length + 1;
  const most = new Uint32Array((left.length + 1) * width);
  const at = (row: number, other: number): number => most[row * width + other] ?? 0;
  const together = (row: number, other: number): number => {
    const value = worth(left[row] as T, right[other] as T);
    return value === 0 ? 0 : value + at(row + 1, other + 1);
  };
  for (let row = left.length - 1; row >= 0; row -= 1)
    for (let other = right.length - 1; other >= 0; other -= 1)
      most[row * width + other] = Math.max(together(row, other), at(row + 1, other), at(row, other + 1));
  const rows: Aligned<T>[number][] = [];
  let [row, other] = [0, 0];
  while (row < left.length || other < right.length) {
    const [old, now] = [left[row] as T, right[other] as T];
    const [isOld, isNow] = [row < left.length, other < right.length];
    if (isOld && isNow && at(row, other) > 0 && together(row, other) === at(row, other)) {
      rows.push([old, now]);
      row += 1;
      other += 1;
    } else if (isOld && (!isNow || at(row + 1, other) >= at(row, other + 1))) {
      rows.push([old, undefined]);
      row += 1;
    } else {
      rows.push([undefined, now]);
      other += 1;
    }
  }
  return rows;
}

function paired(left: readonly string[], right: readonly string[]): readonly Piece[] {
  return align(left, right, (old, now) => (old === now ? 1 : 0)).map(([old, now]) => ({
    text: old ?? now,
    side: now === undefined ? "before" : old === undefined ? "after" : "both",
  }));
}

function joined(pieces: readonly Piece[]): readonly Piece[] {
  const merged: Piece[] = [];
  for (const piece of pieces) {
    const last = merged.at(-1);
    if (last?.side === piece.side) merged[merged.length - 1] = { ...last, text: last.text + piece.text };
    else if (piece.text !== "") merged.push(piece);
  }
  return merged;
}

const MARKS = {
  before: "rounded-xs bg-agent-danger-soft text-agent-danger-text",
  after: "rounded-xs bg-agent-success-soft text-agent-success no-underline",
} as const;

interface WordDiffProps {
  readonly before: string;
  readonly after: string;
  /** Which of both texts is shown; both of them, in one, when left out. */
  readonly side?: "before" | "after" | undefined;
}

/** Two texts in one, or one of them, with the words marked that only one of them has. */
export function WordDiff({ before, after, side }: WordDiffProps): ReactNode {
  const pieces = useMemo(() => diffWords(before, after), [before, after]);
  return pieces
    .filter((piece) => side === undefined || piece.side === "both" || piece.side === side)
    .map((piece, at) => {
      if (piece.side === "both") return <span key={at}>{piece.text}</span>;
      const trimmed = piece.text.trimStart();
      const Mark = piece.side === "before" ? "del" : "ins";
      return (
        <Fragment key={at}>
          {piece.text.slice(0, piece.text.length - trimmed.length)}
          <Mark className={MARKS[piece.side]}>{trimmed}</Mark>
        </Fragment>
      );
    });
}

/** A value of an agent that changed, word by word. */
export function ChangedValue({
  name,
  before,
  after,
}: {
  readonly name: string;
  readonly before: unknown;
  readonly after: unknown;
}): ReactNode {
  return (
    <div className={classes(CARD, "overflow-hidden")}>
      <p className="border-b border-agent-border px-3 py-1.5 text-xs font-medium">{name}</p>
      <pre
        tabIndex={0}
        role="group"
        aria-label={`Change of ${name}`}
        className={classes(
          "max-h-96 overflow-auto px-3 py-2 font-mono text-xs whitespace-pre-wrap wrap-anywhere",
          FOCUS,
        )}
      >
        <WordDiff before={textOf(before)} after={textOf(after)} />
      </pre>
    </div>
  );
}

function textOf(value: unknown): string {
  return value === undefined || value === null ? "" : formatValue(value);
}

/** Two runs side by side: what they did alike, and where they part. */
import { isKnown, type Event } from "@windlass/protocol";
import { tell } from "./tell.js";

/** Something that a run did, as far as it can be compared. */
export interface Act {
  readonly seq: number;
  readonly title: string;
  readonly detail: string;
}

/** A row of the comparison: the same, changed, or on one side only. */
export interface Pair {
  readonly first: Act | undefined;
  readonly second: Act | undefined;
  readonly isSame: boolean;
}

/** The longest runs that are compared whole; of longer ones the beginning is. */
export const ACTS_MAX = 1_500;
const COMPARED: ReadonlySet<string> = new Set([
  "message.received",
  "message.completed",
  "actions.requested",
  "policy.decided",
  "action.result",
  "input.resolved",
  "step.failed",
  "step.retrying",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.budget_exhausted",
  "subagent.completed",
]);
/** What differs between any two runs, and says nothing. */
const NUMBERS_OF_TIME = / in [\d.]+ (?:ms|s|min.*)$/u;

/** What a run did, without how long it took. */
export function actsOf(records: readonly Event[], runId: string): readonly Act[] {
  return records
    .filter((record) => record.runId === runId && isKnown(record) && COMPARED.has(record.type))
    .slice(0, ACTS_MAX)
    .map((record) => {
      const { title, detail } = tell(record);
      return {
        seq: record.seq ?? 0,
        title: title.replace(NUMBERS_OF_TIME, ""),
        detail: detail.replaceAll(runId, "(run)"),
      };
    });
}

/** Lines two lists up by what is the longest in both; acts of the same title that stand opposite are one row. */
export function pairUp(first: readonly Act[], second: readonly Act[]): readonly Pair[] {
  const lengths = lengthsOf(first, second);
  const rows: Pair[] = [];
  let [at, other] = [0, 0];
  while (at < first.length || other < second.length) {
    const [one, two] = [first[at], second[other]];
    if (
      one !== undefined &&
      two !== undefined &&
      one.title === two.title &&
      isBest(lengths, at, other, one.detail === two.detail)
    ) {
      rows.push({ first: one, second: two, isSame: one.detail === two.detail });
      at += 1;
      other += 1;
    } else if (
      one !== undefined &&
      (two === undefined || lengthAt(lengths, at + 1, other) >= lengthAt(lengths, at, other + 1))
    ) {
      rows.push({ first: one, second: undefined, isSame: false });
      at += 1;
    } else {
      rows.push({ first: undefined, second: two, isSame: false });
      other += 1;
    }
  }
  return rows;
}

type Lengths = readonly Uint32Array[];

function lengthAt(lengths: Lengths, at: number, other: number): number {
  return lengths[at]?.[other] ?? 0;
}

/** Whether taking both acts together loses nothing. */
function isBest(lengths: Lengths, at: number, other: number, isEqual: boolean): boolean {
  return lengthAt(lengths, at, other) === lengthAt(lengths, at + 1, other + 1) + weight(isEqual);
}

/** An equal act is worth more than one with the same title only. */
function weight(isEqual: boolean): number {
  return isEqual ? 3 : 2;
}

function lengthsOf(first: readonly Act[], second: readonly Act[]): Lengths {
  const lengths = Array.from({ length: first.length + 1 }, () => new Uint32Array(second.length + 1));
  for (let at = first.length - 1; at >= 0; at -= 1) {
    for (let other = second.length - 1; other >= 0; other -= 1) {
      const [one, two] = [first[at], second[other]];
      const isAlike = one !== undefined && two !== undefined && one.title === two.title;
      const together = isAlike ? lengthAt(lengths, at + 1, other + 1) + weight(one.detail === two.detail) : 0;
      const row = lengths[at];
      if (row !== undefined)
        row[other] = Math.max(together, lengthAt(lengths, at + 1, other), lengthAt(lengths, at, other + 1));
    }
  }
  return lengths;
}

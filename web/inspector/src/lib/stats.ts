/** Numbers over time, from a list of runs. */
import type { RunRow } from "@windlass/protocol/client";

/** What happened in a part of the time. */
export interface Bucket {
  readonly startMs: number;
  readonly count: number;
  readonly failed: number;
  readonly tokens: number;
  readonly costMicros: number;
  /** The middle and the slow end of how long runs took, waits included; undefined without any. */
  readonly p50Ms: number | undefined;
  readonly p95Ms: number | undefined;
}

const FAILED: ReadonlySet<string> = new Set(["failed", "budget_exhausted"]);

/** Cuts the time into equal parts and counts the runs that began in each. */
export function bucketsOf(runs: readonly RunRow[], fromMs: number, toMs: number, parts: number): readonly Bucket[] {
  const widthMs = (toMs - fromMs) / parts;
  const groups: RunRow[][] = Array.from({ length: parts }, () => []);
  for (const run of runs) {
    const at = run.startedAt == null ? NaN : Math.floor((Date.parse(run.startedAt) - fromMs) / widthMs);
    groups[at]?.push(run);
  }
  return groups.map((group, at) => bucketOf(group, fromMs + at * widthMs));
}

function bucketOf(runs: readonly RunRow[], startMs: number): Bucket {
  const took = runs.map(durationOf).filter((ms) => ms !== undefined).toSorted((one, other) => one - other);
  return {
    startMs,
    count: runs.length,
    failed: runs.filter(({ status }) => FAILED.has(status)).length,
    tokens: sum(runs.map(({ usage = {} }) => (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0))),
    costMicros: sum(runs.map(({ usage }) => usage?.costMicros ?? 0)),
    p50Ms: quantile(took, 0.5),
    p95Ms: quantile(took, 0.95),
  };
}

/** How long a run took; undefined while it goes on. */
export function durationOf({ startedAt, endedAt }: RunRow): number | undefined {
  return startedAt == null || endedAt == null ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
}

/** A value of a sorted list: so many of all are not larger. */
export function quantile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.max(Math.ceil(sorted.length * share) - 1, 0)];
}

export function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

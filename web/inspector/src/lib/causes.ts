/** What went wrong in many runs, by why it did. */
import type { Decision, DecisionRun } from "@windlass/protocol";

/** Failures with the same cause. */
export interface Cause {
  readonly cause: string;
  readonly count: number;
  /** What was chosen when it happened. */
  readonly choices: readonly string[];
  readonly runIds: readonly string[];
  /** What might help, if anything says so. */
  readonly fix: string | undefined;
  readonly lastAt: string;
}

interface Failure {
  readonly cause: string;
  readonly choice: string | undefined;
  readonly runId: string;
  readonly fix: string | undefined;
  readonly at: string;
}

const CAUSE_CHARS_MAX = 200;

/** Words without what differs each time: numbers, ids, quoted values. */
export function generalise(text: string): string {
  return text
    .replace(/\b[0-9a-f]{12,}\b/giu, "…")
    .replace(/"[^"]*"|'[^']*'/gu, "…")
    .replace(/\d+(?:[.,]\d+)*/gu, "#")
    .replace(/\s+/gu, " ")
    .trim()
    .slice(0, CAUSE_CHARS_MAX);
}

/** Failures of runs, grouped by cause; the most frequent first. */
export function groupCauses(runs: readonly DecisionRun[]): readonly Cause[] {
  const groups = new Map<string, Failure[]>();
  for (const failure of runs.flatMap(failuresOf)) groups.set(failure.cause, [...(groups.get(failure.cause) ?? []), failure]);
  return [...groups.values()].map(toCause).toSorted((one, other) => other.count - one.count || other.lastAt.localeCompare(one.lastAt));
}

/** Problems, and choices that failed without anybody calling it a problem. */
function failuresOf(run: DecisionRun): readonly Failure[] {
  const choices = new Map(run.decisions.map((decision) => [decision.id, decision.chosenOptionId]));
  const told = new Set(run.problems.map(({ decisionId }) => decisionId));
  const problems = run.problems.map((problem): Failure => ({
    cause: causeOf(problem.rootCause, problem.description),
    choice: problem.decisionId == null ? undefined : choices.get(problem.decisionId),
    runId: run.id,
    fix: problem.suggestedFix ?? undefined,
    at: problem.timestamp,
  }));
  const silent = run.decisions.filter((decision) => decision.outcome?.success === false && !told.has(decision.id));
  return [...problems, ...silent.map((decision) => failureOf(run, decision))];
}

/** The kind of a failure, and what it is about: a kind alone is too wide a group. */
function causeOf(rootCause: string | null | undefined, description: string): string {
  const words = generalise(description);
  return rootCause == null || rootCause === description ? words : `${rootCause}: ${words}`;
}

function failureOf(run: DecisionRun, { outcome, chosenOptionId, timestamp }: Decision): Failure {
  const cause = generalise(outcome?.error ?? outcome?.summary ?? "No reason was given.");
  return { cause, choice: chosenOptionId, runId: run.id, fix: undefined, at: outcome?.timestamp ?? timestamp };
}

function toCause(failures: readonly Failure[]): Cause {
  return {
    cause: failures[0]?.cause ?? "",
    count: failures.length,
    choices: [...new Set(failures.map(({ choice }) => choice).filter((choice) => choice !== undefined))],
    runIds: [...new Set(failures.map(({ runId }) => runId))],
    fix: failures.find(({ fix }) => fix !== undefined)?.fix,
    lastAt: failures.map(({ at }) => at).toSorted().at(-1) ?? "",
  };
}

/** A tool, with how often it was chosen and how often it failed. */
export interface ToolScore {
  readonly tool: string;
  readonly count: number;
  readonly failed: number;
}

/** The tools that fail most. */
export function failingTools(runs: readonly DecisionRun[]): readonly ToolScore[] {
  const scores = new Map<string, { count: number; failed: number }>();
  for (const { decisions } of runs) {
    for (const { decisionType, chosenOptionId, outcome } of decisions) {
      if (decisionType === "termination" || outcome === undefined) continue;
      const score = scores.get(chosenOptionId) ?? { count: 0, failed: 0 };
      scores.set(chosenOptionId, { count: score.count + 1, failed: score.failed + (outcome.success ? 0 : 1) });
    }
  }
  return [...scores]
    .map(([tool, score]) => ({ tool, ...score }))
    .filter(({ failed }) => failed > 0)
    .toSorted((one, other) => other.failed - one.failed);
}

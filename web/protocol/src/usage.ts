/** What a session used; the twin of the session's part of `views/usage.py`. */
import type { Event, EventDataByType, Usage } from "./generated/index.js";
import { apply, type Handlers, runIdOf } from "./handlers.js";
import { INTEGER_MAX } from "./limits.js";

/** An amount used. `delegated` is what subagents used. */
export interface Tally {
  readonly usage: Usage;
  readonly steps: number;
  readonly toolCalls: number;
  readonly delegated: Usage;
}

/** What a session used so far, and what is needed to count on. */
export interface UsageState {
  readonly session: Tally;
  /** What the newest run used. */
  readonly run: Tally;
  readonly runId?: string | undefined;
  readonly step?: string | undefined;
  /** Calls that began and have no result, each with its run: a late result does not count again. */
  readonly running: ReadonlyMap<string, string | undefined>;
}

const NOTHING: Tally = { usage: {}, steps: 0, toolCalls: 0, delegated: {} };
const MICROS = 1_000_000;
const FIELDS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
  "costMicros",
] as const;

export const NO_USAGE: UsageState = { session: NOTHING, run: NOTHING, running: new Map() };

/** Folds events of one session into what it used. What did not change is the same object as before. */
export function foldUsage(events: Iterable<Event>, state: UsageState = NO_USAGE): UsageState {
  const draft: Draft = { state };
  for (const event of events) if (event.index === undefined) apply(HANDLERS, draft, event);
  return draft.state;
}

/** Adds two amounts, up to the largest number; what neither knows is unknown. */
export function addUsage(first: Usage, second: Usage): Usage {
  const sum: Usage = {};
  for (const field of FIELDS) {
    if (first[field] === undefined && second[field] === undefined) continue;
    sum[field] = Math.min((first[field] ?? 0) + (second[field] ?? 0), INTEGER_MAX);
  }
  return sum;
}

interface Draft {
  state: UsageState;
}

function charge(draft: Draft, event: Event, amount: Partial<Tally>): void {
  const { session, run, runId } = draft.state;
  const isOfRun = (event.runId ?? runId) === runId;
  draft.state = { ...draft.state, session: plus(session, amount), run: isOfRun ? plus(run, amount) : run };
}

function plus(first: Tally, second: Partial<Tally>): Tally {
  return {
    usage: second.usage === undefined ? first.usage : addUsage(first.usage, second.usage),
    steps: first.steps + (second.steps ?? 0),
    toolCalls: first.toolCalls + (second.toolCalls ?? 0),
    delegated: second.delegated === undefined ? first.delegated : addUsage(first.delegated, second.delegated),
  };
}

function usageOf({ usage = {}, costUsd }: EventDataByType["step.completed"]): Usage {
  if (usage.costMicros !== undefined || costUsd === undefined) return usage;
  return { ...usage, costMicros: toEven(Math.min(costUsd * MICROS, INTEGER_MAX)) };
}

/** Rounds as Python does: a half goes to the even neighbour. */
function toEven(value: number): number {
  const rounded = Math.round(value);
  return rounded - value === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

const spend = (draft: Draft, data: { readonly usage?: Usage | undefined }, event: Event): void => {
  if (data.usage !== undefined) charge(draft, event, { usage: data.usage });
};

const HANDLERS: Handlers<Draft> = {
  "run.started": (draft, _, event) => {
    draft.state = { ...draft.state, runId: runIdOf(event), run: NOTHING };
  },
  "step.started": (draft, { turnId, stepIndex }, event) => {
    const step = `${stepIndex}/${turnId}`;
    if (step === draft.state.step) return;
    draft.state = { ...draft.state, step };
    charge(draft, event, { steps: 1 });
  },
  "step.completed": (draft, data, event) => {
    charge(draft, event, { usage: usageOf(data) });
  },
  "step.failed": spend,
  "step.retrying": spend,
  "compaction.completed": spend,
  "compaction.failed": spend,
  "subagent.completed": (draft, { usage }, event) => {
    if (usage !== undefined) charge(draft, event, { delegated: usage });
  },
  "action.started": (draft, { callId }, event) => {
    const { running } = draft.state;
    const runId = event.runId ?? draft.state.runId;
    if (running.has(callId) && running.get(callId) === runId) return;
    draft.state = { ...draft.state, running: new Map(running).set(callId, runId) };
    charge(draft, event, { toolCalls: 1 });
  },
  "action.result": (draft, { result, status }, event) => {
    const running = new Map(draft.state.running);
    if (running.delete(result.callId)) draft.state = { ...draft.state, running };
    else if (status !== "rejected") charge(draft, event, { toolCalls: 1 });
  },
};

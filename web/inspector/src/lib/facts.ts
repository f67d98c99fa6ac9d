/** What belongs to a record: the call it is about, or the model call it is part of. */
import {
  actionName,
  isKnown,
  type Event,
  type InputRequest,
  type KnownEvent,
  type PolicyDecision,
} from "@windlass/protocol";
import type { JsonValue } from "@windlass/protocol";

type Of<K extends KnownEvent["type"]> = Extract<KnownEvent, { type: K }>;

/** A call from the wish of the model to its result. */
export interface CallFacts {
  readonly callId: string;
  readonly name: string;
  readonly input: JsonValue;
  readonly decisions: readonly PolicyDecision[];
  readonly requests: readonly InputRequest[];
  readonly answers: readonly {
    readonly outcome: string;
    readonly by: string | undefined;
    readonly text: string | undefined;
  }[];
  readonly started: Of<"action.started">["data"] | undefined;
  readonly result: Of<"action.result">["data"] | undefined;
  readonly childSessionId: string | undefined;
}

/** One call of a model, and what it said. */
export interface StepFacts {
  readonly modelId: string | undefined;
  /** Under which its prompt is asked for. */
  readonly place: { readonly runId: string; readonly stepIndex: number } | undefined;
  /** How many messages of the history the model was sent. */
  readonly promptCount: number | undefined;
  readonly said: string;
  readonly attempts: readonly Of<"step.retrying">["data"][];
  readonly completed: Of<"step.completed">["data"] | undefined;
  readonly failed: Of<"step.failed">["data"] | undefined;
}

const STEP_TYPES: ReadonlySet<string> = new Set([
  "step.started",
  "step.completed",
  "step.failed",
  "step.retrying",
  "message.completed",
  "reasoning.completed",
  "actions.requested",
]);

/** The calls that a record is about. */
export function callsOf(record: Event): readonly string[] {
  if (!isKnown(record)) return [];
  switch (record.type) {
    case "actions.requested":
      return record.data.actions.map(({ callId }) => callId);
    case "action.result":
      return [record.data.result.callId];
    case "input.requested":
      return record.data.requests.map(({ action }) => action.callId);
    default: {
      const callId = record.data["callId"];
      return typeof callId === "string" ? [callId] : [];
    }
  }
}

/** Everything about the calls of a record, in the run and the step of it. */
export function callFacts(records: readonly Event[], record: Event): readonly CallFacts[] {
  const inStep = records.filter((one) => isSamePlace(one, record)).filter(isKnown);
  return callsOf(record).map((callId) => factsOf(inStep, callId));
}

/** The run and the step are the same; what names no step is taken by its call. */
function isSamePlace(one: Event, other: Event): boolean {
  const [first, second] = [one.data["stepIndex"], other.data["stepIndex"]];
  const isSameStep = first === undefined || second === undefined || first === second;
  return one.runId === other.runId && isSameStep;
}

function factsOf(records: readonly KnownEvent[], callId: string): CallFacts {
  const all = <K extends KnownEvent["type"]>(type: K): Of<K>[] =>
    records.filter((record): record is Of<K> => record.type === type);
  const action = all("actions.requested")
    .flatMap(({ data }) => data.actions)
    .find((one) => one.callId === callId);
  const requests = all("input.requested")
    .flatMap(({ data }) => data.requests)
    .filter((request) => request.action.callId === callId);
  const ids = new Set(requests.map(({ requestId }) => requestId));
  const answers = all("input.resolved")
    .flatMap(({ data }) => data.resolutions)
    .filter(({ requestId }) => ids.has(requestId))
    .map(({ outcome, response }) => ({ outcome, by: response?.responder, text: response?.text }));
  const started = all("action.started").find(({ data }) => data.callId === callId)?.data;
  return {
    callId,
    name: action === undefined ? (started?.toolName ?? callId) : actionName(action),
    input: action?.input ?? null,
    decisions: all("policy.decided")
      .filter(({ data }) => data.callId === callId)
      .map(({ data }) => data.decision),
    requests,
    answers,
    started,
    result: all("action.result").findLast(({ data }) => data.result.callId === callId)?.data,
    childSessionId: all("subagent.called").find(({ data }) => data.callId === callId)?.data.childSessionId,
  };
}

function placeOf({ runId, data }: Of<"step.started">): StepFacts["place"] {
  return runId === undefined ? undefined : { runId, stepIndex: data.stepIndex };
}

/** The model call of a record; undefined if it is part of none. */
export function stepFacts(records: readonly Event[], record: Event): StepFacts | undefined {
  if (!STEP_TYPES.has(record.type)) return undefined;
  const seq = record.seq ?? 0;
  const begin = records.findLast(
    (one) => one.type === "step.started" && (one.seq ?? 0) <= seq && isSamePlace(one, record),
  );
  if (begin === undefined || !isKnown(begin) || begin.type !== "step.started") return undefined;
  const from = begin.seq ?? 0;
  const end = records.findIndex(
    (one) => (one.seq ?? 0) > from && (one.type === "step.started" || one.type === "run.started"),
  );
  const inside = records.slice(from, end === -1 ? undefined : end).filter(isKnown);
  const one = <K extends KnownEvent["type"]>(type: K): Of<K> | undefined =>
    inside.find((other): other is Of<K> => other.type === type);
  return {
    modelId: begin.data.modelId,
    place: placeOf(begin),
    promptCount: begin.data.promptMessageCount,
    said: one("message.completed")?.data.message ?? "",
    attempts: inside
      .filter((other): other is Of<"step.retrying"> => other.type === "step.retrying")
      .map(({ data }) => data),
    completed: one("step.completed")?.data,
    failed: one("step.failed")?.data,
  };
}

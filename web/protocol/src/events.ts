/** Events: typed access to their data, dispatch by type for folds, and records as events. */
import { EVENT_DATA, type Event, type EventDataByType, type Record as JournalRecord } from "./generated/index.js";
import type { JsonObject } from "./wire.js";

/** An event of a known type, with its data typed: switch on `type`. */
export type KnownEvent = {
  [K in keyof EventDataByType]: Event & { readonly type: K; readonly data: EventDataByType[K] };
}[keyof EventDataByType];

/** Tells events of known types from those of a newer version. */
export function isKnown(event: Event): event is KnownEvent {
  return Object.hasOwn(EVENT_DATA, event.type);
}

/** A handler for each event type, with its data typed. Types without a handler are ignored. */
export type Handlers<D> = {
  readonly [K in keyof EventDataByType]?: (draft: D, data: EventDataByType[K], event: Event) => void;
};

/** Applies an event to a draft by its table; an unknown type changes nothing. */
export function apply<D>(handlers: Handlers<D>, draft: D, event: Event): void {
  if (!Object.hasOwn(EVENT_DATA, event.type) || !Object.hasOwn(handlers, event.type)) return;
  const handle = handlers[event.type as keyof EventDataByType];
  // The data fits the type: every event comes through the validator.
  (handle as ((draft: D, data: Event["data"], event: Event) => void) | undefined)?.(draft, event.data, event);
}

/** A record as subscribers see it. */
export function toEvent(record: JournalRecord): Event {
  const { at, eventId: id, attempt, position, type, data, sessionId, seq, runId, agentId } = record;
  return {
    type,
    data,
    meta: { at, ...given({ id, attempt, position }) },
    sessionId,
    seq,
    ...given({ runId, agentId }),
  };
}

type Given<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** The fields that have a value. */
export function given<T extends object>(fields: T): Given<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>;
}

/** The run of an event; those about a run name it in their data. */
export function runIdOf(event: Event): string | undefined {
  const runId = event.type.startsWith("run.") ? event.data["runId"] : undefined;
  return typeof runId === "string" ? runId : event.runId;
}

/** A value of the wire as JSON: its unknown fields came through the codec, and what is undefined is left out. */
export function toJson(value: object): JsonObject {
  const fields: [string, unknown][] = Object.entries(value);
  return Object.fromEntries(fields.filter(([, field]) => field !== undefined)) as JsonObject;
}

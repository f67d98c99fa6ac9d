/** Wire types of Windlass: validators, the types inferred from them, and the strict codec. */
import type { Event, EventDataByType } from "./generated/index.js";
import { EVENT_DATA } from "./generated/index.js";

export * from "./generated/index.js";
export { Json, JsonObject } from "./wire.js";
export type { JsonValue } from "./wire.js";
export { decode, encode, parse } from "./codec.js";
export { CodecError } from "./codec-error.js";
export type { CodecErrorCode, Issue, Position } from "./codec-error.js";
export * from "./limits.js";

/** An event of a known type, with its data typed: switch on `type`. */
export type KnownEvent = {
  [K in keyof EventDataByType]: Event & { readonly type: K; readonly data: EventDataByType[K] };
}[keyof EventDataByType];

/** Tells events of known types from those of a newer version. */
export function isKnown(event: Event): event is KnownEvent {
  return Object.hasOwn(EVENT_DATA, event.type);
}

/** The definitions of the wire, with a quick check where an answer has tens of thousands of items. */
import { TraceInfo as WireTraceInfo, TraceSpan } from "../generated/index.js";
import type { z } from "zod";
import { open, quickArray, type JsonValue } from "../wire.js";

export * from "../generated/index.js";
export { JsonObject } from "../wire.js";

/** A trace: each span is looked at once, and by the validators only if it does not fit. */
export const TraceInfo = open({ ...WireTraceInfo.shape, spans: quickArray(TraceSpan, isSpan) });
export type TraceInfo = z.infer<typeof TraceInfo>;

function isSpan(value: JsonValue): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { spanId, name, seq, startAt, endAt, parentId, attrs } = value;
  return (
    typeof spanId === "string" &&
    typeof name === "string" &&
    isUtc(startAt) &&
    (endAt === undefined || isUtc(endAt)) &&
    (parentId === undefined || typeof parentId === "string") &&
    (seq === undefined || (Number.isSafeInteger(seq) && Number(seq) > 0)) &&
    (attrs === undefined || (typeof attrs === "object" && attrs !== null && !Array.isArray(attrs)))
  );
}

/** A moment as the server writes it; the 29th of February is left to the validator. */
const UTC =
  /^[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}\.[0-9]{3}Z$/u;

function isUtc(value: JsonValue | undefined): boolean {
  return typeof value === "string" && UTC.test(value);
}

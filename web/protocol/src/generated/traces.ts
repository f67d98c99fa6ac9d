// Generated from spec/traces.schema.json by `make gen`. Do not edit.
/** What a run did and how long it took, in the shape of OpenTelemetry. */
import { z } from "zod";
import { JsonObject, open } from "../wire.js";
import { Positive, Timestamp } from "./common.js";

/** How a traced run ended. */
export const TraceOutcome = z.enum(["ok", "error", "budget_exhausted", "cancelled"]);
export type TraceOutcome = z.infer<typeof TraceOutcome>;

/** One run of the loop. */
export const HarnessTrace = open({
  /** Unique in the deployment. */
  traceId: z.string(),
  /** Owning session. */
  sessionId: z.string(),
  /** Owning chat. */
  chatId: z.string(),
  /** Owning user. */
  userId: z.string(),
  /** When the loop began. */
  startedAt: Timestamp,
  /** When the loop returned. */
  endedAt: Timestamp.optional(),
  /** How it ended. */
  outcome: TraceOutcome.optional(),
});
export type HarnessTrace = z.infer<typeof HarnessTrace>;

/** One unit of work, such as a model call or a tool call. */
export const TraceSpan = open({
  /** Identifier of the span. */
  spanId: z.string(),
  /** Such as llm.complete or tool.dispatch:read_file. */
  name: z.string(),
  /** Number of the record that began it, in its session. */
  seq: Positive.optional(),
  /** When it began. */
  startAt: Timestamp,
  /** When it ended. */
  endAt: Timestamp.optional(),
  /** Parent span; absent for the root. */
  parentId: z.string().optional(),
  /** Attributes such as token counts, already redacted. */
  attrs: JsonObject.optional(),
});
export type TraceSpan = z.infer<typeof TraceSpan>;

/** A moment inside a span. */
export const TraceEvent = open({
  /** Identifier of the event. */
  eventId: z.string(),
  /** The parent span. */
  spanId: z.string(),
  /** Such as policy.denied. */
  name: z.string(),
  /** When it happened. */
  at: Timestamp,
  /** Attributes, already redacted. */
  attrs: JsonObject.optional(),
});
export type TraceEvent = z.infer<typeof TraceEvent>;

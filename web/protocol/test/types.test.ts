/** Types that the type checker must infer; `tsc` fails on this file when it does not. */
import { expect, expectTypeOf, test } from "vitest";

import type {
  AssistantPart,
  Cursor,
  EventDataByType,
  JsonObject,
  JsonValue,
  KnownEvent,
  PolicyDecision,
  SidecarResponse,
  ToolCall,
} from "../src/index.js";
import { Event, isKnown } from "../src/index.js";

const META = { at: "2026-03-14T09:26:53Z" };

function shown(event: KnownEvent): string {
  switch (event.type) {
    case "message.completed":
      expectTypeOf(event.data.message).toEqualTypeOf<string | null>();
      return event.data.message ?? "(nothing)";
    case "turn.started":
      expectTypeOf(event.data.sequence).toEqualTypeOf<number>();
      return `turn ${event.data.sequence}`;
    case "action.result":
      return event.data.result.kind === "tool-result" ? event.data.result.toolName : event.data.status;
    default:
      return event.type;
  }
}

test("the type of an event narrows the type of its data", () => {
  const known = [
    {
      type: "message.completed",
      data: { message: null, finishReason: "stop", sequence: 0, stepIndex: 0, turnId: "t" },
    },
    { type: "turn.started", data: { sequence: 3, turnId: "t" } },
    { type: "session.completed" },
  ].map((event) => Event.parse({ ...event, meta: META }));
  expect(known.filter(isKnown).map(shown)).toEqual(["(nothing)", "turn 3", "session.completed"]);
});

test("an event of a newer version has an unknown type", () => {
  const event = Event.parse({ type: "planet.landed", data: { planet: "Mars" }, meta: META });
  expect(isKnown(event)).toBe(false);
  if (!isKnown(event)) {
    expectTypeOf(event.type).toEqualTypeOf<string>();
    expectTypeOf(event.data).toEqualTypeOf<JsonObject>();
  }
});

test("only event types of the specification are known to the type checker", () => {
  expectTypeOf<"turn.started">().toExtend<KnownEvent["type"]>();
  expectTypeOf<"planet.landed">().not.toExtend<KnownEvent["type"]>();
  expectTypeOf<KnownEvent["type"]>().toEqualTypeOf<keyof EventDataByType>();
});

test("closed types have no other fields and open types keep them", () => {
  expectTypeOf<keyof ToolCall>().toEqualTypeOf<"id" | "name" | "arguments" | "parentCallId">();
  expectTypeOf<Event["newField"]>().toEqualTypeOf<unknown>();
  expectTypeOf<SidecarResponse["result"]>().toEqualTypeOf<JsonValue | undefined>();
});

test("the tag of a union narrows it to one member", () => {
  expectTypeOf<Extract<PolicyDecision, { decision: "modify" }>["arguments"]>().toEqualTypeOf<JsonObject>();
  expectTypeOf<Extract<Cursor, { scope: "session" }>["seq"]>().toEqualTypeOf<number>();
  expectTypeOf<AssistantPart["type"]>().toEqualTypeOf<
    "text" | "file" | "reasoning" | "tool-call" | "tool-result" | "tool-approval-request"
  >();
});

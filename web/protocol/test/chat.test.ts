import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, it, test } from "vitest";
import { EMPTY_CHAT, foldChat, foldUsage, RecordGap, type ChatState } from "../src/chat.js";
import { Event, Record } from "../src/generated/index.js";
import { toEvent } from "../src/events.js";
import type { JsonObject } from "../src/wire.js";
import { delta, record } from "./fakes.js";

interface Case {
  readonly name: string;
  readonly records: readonly JsonObject[];
  readonly messages: readonly JsonObject[];
  readonly openCalls: JsonObject;
  readonly requests: readonly string[];
}

const file = new URL("../../../conformance/cases/chat.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: readonly Case[] };

function eventsOf({ records }: Case): Event[] {
  return records.map((one, place) => {
    const at = `2026-01-31T09:30:${String(place + 1).padStart(2, "0")}.000Z`;
    return Event.parse(toEvent(Record.parse({ sessionId: "s1", seq: place + 1, at, ...one })));
  });
}

function shown({ messages, openCalls, requests }: ChatState): unknown {
  return { messages, openCalls: Object.fromEntries(openCalls), requests: [...requests.keys()] };
}

describe.each(cases)("$name", (one) => {
  const { messages, openCalls, requests } = one;

  it("gives the same chat as everywhere", () => {
    expect(shown(foldChat(eventsOf(one)))).toStrictEqual({ messages, openCalls, requests });
  });

  it("gives the same chat in two pieces, cut anywhere, and leaves the first piece as it is", () => {
    const events = eventsOf(one);
    for (let cut = 0; cut <= events.length; cut += 1) {
      const first = foldChat(events.slice(0, cut));
      const before = JSON.stringify(shown(first));
      expect(shown(foldChat(events.slice(cut), first))).toStrictEqual({ messages, openCalls, requests });
      expect(JSON.stringify(shown(first))).toBe(before);
    }
  });
});

test("a record that is not the next one of its session is refused, and a delta is passed over", () => {
  const first = foldChat([record(1, "session.started")]);
  expect(() => foldChat([record(3, "session.started")], first)).toThrow(RecordGap);
  expect(() => foldChat([record(1, "session.started")], first)).toThrow(
    "expected record 2, found record 1 of session 's1'",
  );
  expect(() => foldChat([{ ...record(2, "session.started"), sessionId: "s2" }], first)).toThrow(RecordGap);
  expect(foldChat([delta(1, 0, "message.appended", { messageDelta: "x" })], first)).toBe(first);
  expect(foldChat([])).toBe(EMPTY_CHAT);
});

interface JournalCase {
  readonly journal: string;
  readonly changes: readonly (readonly [string, number, number])[];
  readonly digest: string;
}

function journal(name: string): JsonObject[] {
  const packed = readFileSync(new URL(`../../../tests/golden/journals/${name}`, import.meta.url));
  const lines = gunzipSync(packed).toString("utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as JsonObject);
}

function changed(records: readonly JsonObject[], changes: JournalCase["changes"]): Event[] {
  const made = [...records];
  for (const [change, at, to] of changes) {
    const [one = {}, other = {}] = [made[at], made[to]];
    if (change === "drop") made.splice(at, 1);
    else if (change === "copy") made.splice(to, 0, one);
    else [made[at], made[to]] = [other, one];
  }
  return made.map((one, place) => toEvent(Record.parse({ ...one, seq: place + 1 })));
}

/** JSON with sorted keys, as Python's `canonical` writes it. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([one], [other]) => (one < other ? -1 : 1)))
      : inner,
  );
}

test("golden journals, whole and damaged, fold to the digests of every language", () => {
  const path = new URL("../../../conformance/cases/chat-journals.json", import.meta.url);
  const { cases: journals } = JSON.parse(readFileSync(path, "utf8")) as { cases: readonly JournalCase[] };
  expect(journals.length).toBeGreaterThan(500);
  for (const { journal: name, changes, digest } of journals) {
    const events = changed(journal(name), changes);
    const { messages, openCalls, requests } = foldChat(events);
    const { session: usage } = foldUsage(events);
    const view = canonical({ messages, openCalls: [...openCalls], requests: [...requests.keys()], usage });
    const found = createHash("sha256").update(view).digest("hex").slice(0, 32);
    expect(found, `${name} with ${JSON.stringify(changes)}`).toBe(digest);
  }
});

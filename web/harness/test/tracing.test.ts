import { readFileSync } from "node:fs";
import { Record, type JsonObject } from "@windlass/protocol";
import { describe, expect, it, test } from "vitest";
import { foldTrace, Gap, type TraceOwner, type TraceState } from "../src/tracing.js";

interface Case {
  readonly name: string;
  readonly from?: number;
  readonly options?: TraceOwner;
  readonly records: readonly JsonObject[];
  readonly trace: JsonObject | null;
  readonly spans: readonly JsonObject[];
  readonly events: readonly JsonObject[];
}

const file = new URL("../../../conformance/cases/tracing.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: readonly Case[] };

function recordsOf({ from = 1, records }: Case): Record[] {
  return records.map((record, place) => {
    const second = String(place + 1).padStart(2, "0");
    const at = `2026-01-31T09:30:${second}.000Z`;
    return Record.parse({ sessionId: "s1", seq: from + place, at, ...record });
  });
}

function shown(state: TraceState): unknown {
  return { trace: state.trace ?? null, spans: state.spans, events: state.events };
}

describe.each(cases)("$name", (one) => {
  const expected = { trace: one.trace, spans: one.spans, events: one.events };

  it("gives the same trace as everywhere", () => {
    expect(shown(foldTrace(recordsOf(one), undefined, one.options))).toStrictEqual(expected);
  });

  it("gives the same trace in pieces, each stored as JSON, as at once", () => {
    const records = recordsOf(one);
    for (let cut = 0; cut <= records.length; cut += 1) {
      const first = foldTrace(records.slice(0, cut), undefined, one.options);
      const stored = JSON.parse(JSON.stringify(first)) as TraceState;
      expect(shown(foldTrace(records.slice(cut), stored))).toStrictEqual(expected);
      expect(JSON.stringify(first)).toBe(JSON.stringify(stored));
    }
  });
});

const record = (sessionId: string, seq: number): Record =>
  Record.parse({ sessionId, seq, type: "test.noted", at: "2026-01-31T09:30:00Z" });

test("a fold may begin anywhere and then takes each record in its turn", () => {
  const state = foldTrace([record("s1", 7), record("s1", 8)]);
  expect(state.seq).toBe(8);
  expect(() => foldTrace([record("s1", 10)], state)).toThrow(new Gap("s1", 9, record("s1", 10)));
  expect(() => foldTrace([record("s1", 10)], state)).toThrow(
    "expected record 9 of session 's1', found record 10; read the session again after record 8",
  );
});

test("a record of another session is refused", () => {
  const state = foldTrace([record("s1", 7)]);
  expect(() => foldTrace([record("s2", 8)], state)).toThrow("found record 8 of session 's2'");
});

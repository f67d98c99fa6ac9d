/** The examples of spec/examples; the Python side is tests/protocol/test_examples.py. */
import { readFileSync, readdirSync } from "node:fs";
import { basename } from "node:path";
import { describe, expect, test } from "vitest";
import type { z } from "zod";

import type { JsonObject, JsonValue } from "../src/index.js";
import * as protocol from "../src/index.js";

const EXAMPLES = new URL("../../../spec/examples/", import.meta.url);

function examples(folder: "valid" | "invalid"): [type: string, cases: [name: string, value: JsonValue][]][] {
  const files = readdirSync(new URL(folder, EXAMPLES)).sort();
  return files.map((file) => {
    const text = readFileSync(new URL(`${folder}/${file}`, EXAMPLES), "utf8");
    return [basename(file, ".json"), Object.entries(JSON.parse(text) as JsonObject)];
  });
}

function validator(type: string): z.ZodType {
  return (protocol as unknown as Record<string, z.ZodType>)[type] as z.ZodType;
}

/** Equal values give equal texts, whatever the order of their keys; `__proto__` is a key as any other. */
function canonical(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`);
  return `{${members.sort().join()}}`;
}

/** The one default of the wire: the data of an event or record that has none is empty. */
function withDefaults(type: string, value: JsonValue): JsonValue {
  if (type !== "Event" && type !== "Record") return value;
  return Object.fromEntries([["data", {}], ...Object.entries(value as JsonObject)]);
}

describe.each(examples("valid"))("a valid %s", (type, cases) => {
  test("is accepted", () => {
    const refused = cases.filter(([, value]) => !validator(type).safeParse(value).success);
    expect(refused.map(([name]) => name)).toEqual([]);
  });

  test("is the same after it is read and written", () => {
    for (const [name, value] of cases) {
      const read = protocol.decode(validator(type), JSON.stringify(value));
      const written = protocol.parse(protocol.encode(read));
      expect(canonical(written), name).toBe(canonical(withDefaults(type, value)));
    }
  });
});

describe.each(examples("invalid"))("an invalid %s", (type, cases) => {
  test("is refused", () => {
    const accepted = cases.filter(([, value]) => validator(type).safeParse(value).success);
    expect(accepted.map(([name]) => name)).toEqual([]);
  });
});

test("both folders show every type", () => {
  const names = examples("valid").map(([type]) => type);
  expect(names.length).toBeGreaterThan(100);
  expect(examples("invalid").map(([type]) => type)).toEqual(names);
});

test("a field named __proto__ is kept as a field and changes no prototype", () => {
  const read = protocol.decode(protocol.Usage, '{"inputTokens": 1, "__proto__": {"polluted": true}}');
  expect(Object.keys(read).sort()).toEqual(["__proto__", "inputTokens"]);
  expect("polluted" in read).toBe(false);
  expect(protocol.encode(read)).toContain('"__proto__":{"polluted":true}');
});

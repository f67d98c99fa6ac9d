import { expect, test } from "vitest";

import { isSecretKey } from "../src/redact-keys.js";
import {
  CYCLE,
  DEPTH_MAX,
  MASK,
  maskText,
  Redactor,
  sanitizeForTrace,
  SECRET_CHARS_MAX,
  SECRETS_MAX,
  TOO_DEEP,
} from "../src/redact.js";
import { readCases } from "./cases.js";

interface Case {
  readonly name: string;
  readonly keys?: readonly string[];
  readonly secret?: boolean;
  readonly secrets?: readonly string[];
  readonly text?: string;
  readonly value?: unknown;
  readonly masked?: unknown;
  readonly refused?: boolean;
  readonly chunks?: readonly string[];
  readonly shown?: readonly string[];
}

const CASES = readCases("redact") as readonly Case[];

test.each(CASES.filter((given) => given.keys))("shared names have the answer of every language: $name", (given) => {
  expect(given.keys?.filter((key) => isSecretKey(key) !== given.secret)).toEqual([]);
});

test.each(CASES.filter((given) => given.chunks))("a shared stream has the answer of every language: $name", (given) => {
  const stream = new Redactor(given.secrets).stream();
  const shown = (given.chunks ?? []).map((chunk) => stream.feed(chunk));
  expect([...shown, stream.finish()]).toEqual(given.shown);
});

test.each(CASES.filter((given) => given.text))("a text in pieces is masked like the whole: $name", (given) => {
  const redactor = new Redactor(given.secrets);
  const text = given.text ?? "";
  for (const size of [1, 2, 7]) {
    const stream = redactor.stream();
    let shown = "";
    for (let at = 0; at < text.length; at += size) shown += stream.feed(text.slice(at, at + size));
    expect(shown + stream.finish()).toBe(redactor.text(text));
  }
});

test.each(CASES.filter((given) => !given.keys && !given.chunks))(
  "a shared case has the answer of every language: $name",
  (given) => {
    if (given.refused) {
      expect(() => new Redactor(given.secrets)).toThrow(
        /register secrets of 8 to 16384 characters|takes a list of secrets, found|is not a text but of type/,
      );
      return;
    }
    const redactor = new Redactor(given.secrets);
    const input = given.text ?? given.value;
    const before = structuredClone(input);
    const masked = given.text === undefined ? redactor.value(input) : redactor.text(given.text);
    expect(masked).toEqual(given.masked ?? input);
    expect(input).toEqual(before);
    if (given.masked === undefined) expect(masked).toBe(input);
  },
);

test.each(CASES.filter((given) => given.masked))("masking twice is masking once: $name", (given) => {
  const redactor = new Redactor(given.secrets);
  expect(redactor.value(given.masked)).toBe(given.masked);
});

test("what cannot be looked into is not shown", () => {
  const value = { when: new Date(0), what: [new Map(), () => 1], none: undefined, big: 10n };
  expect(sanitizeForTrace(value)).toEqual({
    when: "[opaque:Date]",
    what: ["[opaque:Map]", "[opaque:Function]"],
    none: undefined,
    big: 10n,
  });
});

test("depth is kept up to its limit and not past it", () => {
  const nested = (depth: number): unknown[] => (depth === 1 ? [] : [nested(depth - 1)]);
  const atLimit = nested(DEPTH_MAX);
  expect(sanitizeForTrace(atLimit)).toBe(atLimit);
  expect(JSON.stringify(sanitizeForTrace(nested(DEPTH_MAX + 1)))).toContain(TOO_DEEP);
});

test("a value inside itself becomes a marker", () => {
  const loop: Record<string, unknown> = { a: 1 };
  loop["self"] = [loop, loop];
  expect(sanitizeForTrace(loop)).toEqual({ a: 1, self: [CYCLE, CYCLE] });
});

test.each(["plain", "Bearer xyz"])("a value that is shared again and again does not hang: %s", (leaf) => {
  let value: unknown = leaf;
  for (let depth = 1; depth < DEPTH_MAX; depth += 1) value = [value, value];
  let masked = sanitizeForTrace(value);
  while (Array.isArray(masked)) masked = masked[1];
  expect(masked).toBe(maskText(leaf));
});

test("a key of an object's prototype is a key like any other", () => {
  const value: unknown = JSON.parse('{"__proto__": {"password": "x"}}');
  expect(JSON.stringify(sanitizeForTrace(value))).toBe('{"__proto__":{"password":"[redacted]"}}');
});

test("a redactor does not show its secrets", () => {
  expect(JSON.stringify(new Redactor(["hunter2hunter2"]))).toBe("{}");
});

test("a map of secrets is refused, because its names are not the secrets", () => {
  const secrets = new Map([["DB_PASSWORD", "hunter2hunter2"]]) as unknown as Iterable<string>;
  expect(() => new Redactor(secrets)).toThrow("give it the values in a list");
});

test("only so many secrets of such a length can be registered", () => {
  const secrets = Array.from({ length: SECRETS_MAX + 1 }, (_, number) => `secret-${number}-xx`);
  expect(new Redactor(secrets.slice(1)).text("secret-7-xx")).toBe(MASK);
  expect(() => new Redactor(secrets)).toThrow("too many secrets to register: 1001, limit 1000");
  expect(() => new Redactor(["x".repeat(SECRET_CHARS_MAX + 1)])).toThrow("secret number 0 has 16385 characters");
});

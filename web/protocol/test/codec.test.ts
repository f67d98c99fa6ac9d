import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";
import { z } from "zod";

import type { CodecErrorCode, CodecLimits, JsonValue, Position } from "../src/index.js";
import {
  CodecError,
  DEFAULT_LIMITS,
  DEPTH_MAX,
  ERROR_ISSUES_MAX,
  ERROR_TEXT_CHARS_MAX,
  Event,
  INTEGER_MAX,
  MESSAGE_BYTES_MAX,
  SidecarRequest,
  decode,
  encode,
  parse,
} from "../src/index.js";

interface Case {
  readonly name: string;
  readonly text?: string;
  readonly bytes?: string;
  readonly parts?: readonly (readonly [string, number])[];
  readonly limits?: Partial<CodecLimits>;
  readonly ok?: JsonValue;
  readonly accepted?: boolean;
  readonly error?: CodecErrorCode;
  readonly position?: Position;
  readonly path?: string;
  readonly message?: string;
}

const SECRET = "hunter2-canary";
const file = new URL("../../../conformance/cases/codec.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { cases: Case[] };

function messageOf(test: Case): Uint8Array {
  if (test.bytes !== undefined) return Buffer.from(test.bytes, "base64");
  if (test.parts) return Buffer.from(test.parts.map(([text, times]) => text.repeat(times)).join(""));
  return Buffer.from(test.text ?? "");
}

function refusal(call: () => unknown): CodecError {
  try {
    call();
  } catch (error) {
    if (error instanceof CodecError) return error;
    throw error;
  }
  throw new Error("expected a refusal");
}

describe("the shared cases", () => {
  it.each(cases.map((test) => [test.name, test] as const))("%s", (_, test) => {
    const bytes = messageOf(test);
    const limits = { ...DEFAULT_LIMITS, ...test.limits };
    const inputs =
      test.error === "not_utf8" ? [bytes] : [bytes, new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes)];
    for (const input of inputs) {
      if (test.error === undefined) {
        const value = parse(input, limits);
        if (test.accepted === undefined) expect(value).toStrictEqual(test.ok);
        continue;
      }
      const error = refusal(() => parse(input, limits));
      expect(error.code).toBe(test.error);
      if (test.position) expect(error.position).toStrictEqual(test.position);
      if (test.path !== undefined) expect(error.path).toBe(test.path);
      if (test.message !== undefined && input === bytes) expect(error.message).toBe(test.message);
    }
  });
});

describe("parse", () => {
  it("refuses a lone surrogate with its position", () => {
    const error = refusal(() => parse('["é",\n"\ud800"]'));
    expect(error.code).toBe("lone_surrogate");
    expect(error.position).toStrictEqual({ offset: 8, line: 2, column: 2 });
  });

  it("accepts a message at the byte limit and refuses one past it", () => {
    const full = `"${"a".repeat(MESSAGE_BYTES_MAX - 2)}"`;
    expect(encode(parse(full))).toBe(full);
    expect(refusal(() => parse(`${full} `)).message).toBe(
      "message too large: at least 1,048,577 bytes, limit 1,048,576",
    );
    expect(refusal(() => parse(Buffer.from(`${full} `))).message).toBe(
      "message too large: 1,048,577 bytes, limit 1,048,576",
    );
  });

  it("reads a view of part of a buffer", () => {
    const bytes = Buffer.from("xx[1]xx");
    expect(parse(new Uint8Array(bytes.buffer, bytes.byteOffset + 2, 3))).toStrictEqual([1]);
  });

  it("keeps a key named __proto__ as a key", () => {
    const value = parse('{"__proto__":{"admin":true}}');
    expect(Object.keys(value as object)).toStrictEqual(["__proto__"]);
    expect((value as { admin?: boolean }).admin).toBeUndefined();
    expect(encode(value)).toBe('{"__proto__":{"admin":true}}');
  });
});

describe("decode", () => {
  const Order = z.strictObject({ orderId: z.string(), items: z.array(z.strictObject({ n: z.number() })).optional() });

  it("gives the value of the type", () => {
    expect(decode(Order, '{"orderId":"o","items":[{"n":1}]}')).toStrictEqual({ orderId: "o", items: [{ n: 1 }] });
  });

  it("refuses the text before the type", () => {
    expect(refusal(() => decode(Order, '{"orderId":1,"orderId":2}')).code).toBe("duplicate_key");
  });

  it("refuses a value that does not fit, with its path", () => {
    const error = refusal(() => decode(Order, '{"orderId":"o","items":[{"n":1},{}]}'));
    expect(error.code).toBe("invalid");
    expect(error.issues.map((issue) => issue.path)).toStrictEqual(["/items/1/n"]);
    expect(error.message).toMatch(/^invalid message: issues: 1, the first at \/items\/1\/n: /);
    expect(refusal(() => decode(Order, "[]")).message).toMatch(/the first at the top: /);
  });

  it.each([ERROR_ISSUES_MAX, ERROR_ISSUES_MAX + 1, ERROR_ISSUES_MAX * 1000])("lists few of %d issues", (wrong) => {
    const error = refusal(() => decode(Order, `{"orderId":"o","items":[${Array<string>(wrong).fill("1").join(",")}]}`));
    expect(error.issues).toHaveLength(ERROR_ISSUES_MAX);
  });

  it("cuts long texts and carries nothing of the payload", () => {
    const long = refusal(() => decode(Order, JSON.stringify({ orderId: "o", ["k".repeat(5000)]: 1 })));
    expect(long.issues[0]?.message).toHaveLength(ERROR_TEXT_CHARS_MAX);
    const error = refusal(() => decode(Order, JSON.stringify({ orderId: [SECRET], items: SECRET })));
    expect(JSON.stringify([error.message, error.issues, error.path, error.cause])).not.toContain(SECRET);
  });

  it.each([
    { type: "weather.changed", meta: { at: "2026-01-31T09:30:00Z" }, data: { deg: 1.5, x: [null] } },
    {
      type: "weather.changed",
      meta: { at: "2026-01-31T09:30:00Z", newMeta: { a: null } },
      data: {},
      newField: [1, { b: null }],
    },
  ])("keeps unknown events and fields through a round trip", (event) => {
    expect(parse(encode(decode(Event, JSON.stringify(event))))).toStrictEqual(event);
  });

  it.each([{}, { params: null }, { params: [1, null] }])("keeps a null that was given", (params) => {
    const message = { jsonrpc: "2.0", id: null, method: "system.ping", ...params };
    expect(parse(encode(decode(SidecarRequest, JSON.stringify(message))))).toStrictEqual(message);
  });
});

describe("encode", () => {
  it("writes compact JSON without undefined fields", () => {
    const value = { é: [1, -1.5, true, null, "a/\u2028\x7f😀\n"], gone: undefined, b: {} };
    expect(encode(value)).toBe('{"é":[1,-1.5,true,null,"a/\u2028\x7f😀\\n"],"b":{}}');
  });

  it.each([
    [1e20, "1e+20"],
    [2 ** 53, "9.007199254740992e+15"],
    [-(2 ** 60), "-1.152921504606847e+18"],
    [1e21, "1e+21"],
    [-0, "-0.0"],
    [INTEGER_MAX, "9007199254740991"],
    [1e-7, "1e-7"],
  ])("writes the number %d so that it is read back alike", (value, text) => {
    expect(encode(value)).toBe(text);
    expect(parse(text)).toBe(value);
  });

  const cyclic: unknown[] = [];
  cyclic.push(cyclic, cyclic);
  it.each([
    ["NaN", { a: [0.5, NaN] }, "non_finite", "/a/1"],
    ["an infinity", -Infinity, "non_finite", ""],
    ["a lone surrogate", { a: "\ud800" }, "lone_surrogate", "/a"],
    ["a lone surrogate in a key", { a: { "\udfff": 1 } }, "lone_surrogate", "/a"],
    ["undefined", undefined, "invalid", ""],
    ["a hole in an array", { a: [1, undefined] }, "invalid", "/a/1"],
    ["a big integer", [1n], "invalid", "/0"],
    ["a function", { a: parse }, "invalid", "/a"],
    ["a symbol", [Symbol("a")], "invalid", "/0"],
    ["a date", { a: new Date(0) }, "invalid", "/a"],
    ["a map", [new Map()], "invalid", "/0"],
    ["a list that holds itself", cyclic, "too_deep", "/0".repeat(DEPTH_MAX)],
  ] as const)("refuses %s", (_, value, code, path) => {
    const error = refusal(() => encode(value));
    expect(error.code).toBe(code);
    expect(error.path).toBe(path);
    expect(error.issues.length > 0).toBe(code === "invalid");
  });

  it("keeps the limits of reading", () => {
    const limits = { messageBytesMax: 8, depthMax: 2 };
    expect(encode("é1234", limits)).toBe('"é1234"');
    expect(encode([[1]], limits)).toBe("[[1]]");
    expect(refusal(() => encode("é12345", limits)).code).toBe("too_large");
    expect(refusal(() => encode([1, 2, 3, 4], limits)).code).toBe("too_large");
    expect(refusal(() => encode([[[]]], limits)).message).toBe("message too deep: 3 levels, limit 2, at /0/0");
  });

  let shared: unknown = "x";
  for (let level = 0; level < 18; level += 1) shared = level % 2 ? [shared, shared] : { a: shared, b: shared };
  it.each([
    ["containers", shared],
    ["a long text", Array<string>(3_000).fill("x".repeat(1_000))],
    ["a long key", Array<unknown>(1_000).fill({ ["k".repeat(1_000)]: 1 })],
  ])("refuses %s shared by many places before unfolding them", (_, value) => {
    const limits = { messageBytesMax: 10_000, depthMax: DEPTH_MAX };
    expect(refusal(() => encode(value, limits)).message).toMatch(
      /^message too large: more than 10,000 bytes, limit 10,000, at /,
    );
  });

  it.each(['{"a":[1,"e",null,{"b":"c"}]}', "[true]", '{"k":""}', '""', "10", "[[]]"])(
    "counts no more bytes than %s has",
    (text) => {
      const limits = { messageBytesMax: text.length, depthMax: DEPTH_MAX };
      expect(encode(parse(text), limits)).toBe(text);
      const small = { ...limits, messageBytesMax: text.length - 1 };
      expect(refusal(() => encode(parse(text), small)).code).toBe("too_large");
    },
  );
});

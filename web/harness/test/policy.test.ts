import type { ToolMode } from "@windlass/protocol";
import { expect, test } from "vitest";

import { decideToolMode } from "../src/policy.js";
import { readCases } from "./cases.js";

interface Case {
  readonly name: string;
  readonly names?: readonly string[];
  readonly declared?: ToolMode;
  readonly mode?: ToolMode;
}

const CASES = (readCases("policy") as readonly Case[]).filter((given) => given.mode);

test.each(CASES)("shared names have the same mode in every language: $name", (given) => {
  const modes = given.names?.map((name) => decideToolMode(name, given.declared));
  expect([...new Set(modes)]).toEqual([given.mode]);
});

test("a declared mode that is not known is refused", () => {
  expect(() => decideToolMode("get_x", "reads" as ToolMode)).toThrow(
    'declared must be one of read, safe_write, destructive, local, external, found "reads"',
  );
});

test("a name that is no string is refused, also beside a declared mode", () => {
  for (const declared of [undefined, "read"] as const) {
    expect(() => decideToolMode(null as unknown as string, declared)).toThrow("name must be a string, found null");
  }
});

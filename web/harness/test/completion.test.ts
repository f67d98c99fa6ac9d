import { expect, test } from "vitest";

import { isTerminalResult } from "../src/completion.js";
import { readCases } from "./cases.js";

interface Case {
  readonly name: string;
  readonly result: Readonly<Record<string, unknown>> | null;
  readonly terminal: boolean;
}

test.each(readCases("completion") as readonly Case[])("a shared case has the answer of every language: $name", (given) => {
  expect(isTerminalResult(given.result)).toBe(given.terminal);
});

test("a missing result is not terminal", () => {
  expect(isTerminalResult(undefined)).toBe(false);
});

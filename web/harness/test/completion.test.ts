import { expect, test } from "vitest";

import { isTerminalResult } from "../src/completion.js";
import { readCases } from "./cases.js";

interface Case {
  readonly name: string;
  readonly result: Readonly<Record<string, unknown>> | null;
  readonly terminal?: boolean;
  readonly refused?: boolean;
}

test.each(readCases("completion") as readonly Case[])(
  "a shared case has the answer of every language: $name",
  (given) => {
    if (given.refused)
      expect(() => isTerminalResult(given.result)).toThrow(/^isTerminalResult takes a tool result or null, found /);
    else expect(isTerminalResult(given.result)).toBe(given.terminal);
  },
);

test("a missing result is not terminal", () => {
  expect(isTerminalResult(undefined)).toBe(false);
});

import type { RetryClass } from "@windlass/protocol";
import { expect, test } from "vitest";

import type { ErrorFacts, RetryPolicy } from "../src/retry.js";
import { classifyError, nextRetryDelayMs, parseRetryAfterMs, retryPolicy, shouldRetry } from "../src/retry.js";
import { readCases } from "./cases.js";

interface Case {
  readonly name: string;
  readonly call: string;
  readonly policy?: Partial<RetryPolicy>;
  readonly random?: number;
  readonly retryAfterMs?: number;
  readonly attempts?: readonly number[];
  readonly delays?: readonly number[];
  readonly answers?: readonly boolean[];
  readonly retryClass?: RetryClass;
  readonly now?: string;
  readonly values?: readonly string[];
  readonly waits?: readonly (number | null)[];
  readonly facts?: readonly ErrorFacts[];
  readonly class?: RetryClass;
  readonly refused?: boolean;
}

function delays(given: Case): unknown {
  const policy = retryPolicy(given.policy);
  const { random, retryAfterMs } = given;
  const rng = random === undefined ? undefined : () => random;
  const options = retryAfterMs === undefined ? undefined : { retryAfterMs };
  return given.attempts?.map((attempt) => nextRetryDelayMs(policy, attempt, rng, options));
}

test.each(readCases("retry") as readonly Case[])("a shared case has the answer of every language: $name", (given) => {
  const now = new Date(given.now ?? "2024-01-01T00:00:00Z");
  switch (given.call) {
    case "next_retry_delay_ms":
      if (given.refused) expect(() => delays(given)).toThrow(/must be/);
      else expect(delays(given)).toEqual(given.delays);
      break;
    case "should_retry": {
      const policy = retryPolicy(given.policy);
      const retryClass = given.retryClass ?? "retryable";
      expect(given.attempts?.map((attempt) => shouldRetry(policy, attempt, retryClass))).toEqual(given.answers);
      break;
    }
    case "parse_retry_after_ms":
      expect(given.values?.map((value) => parseRetryAfterMs(value, now) ?? null)).toEqual(given.waits);
      break;
    case "classify_error":
      if (given.refused)
        expect(() => given.facts?.map(classifyError)).toThrow("kind must be one of timeout, connection, ");
      else expect([...new Set(given.facts?.map(classifyError))]).toEqual([given.class]);
      break;
    default:
      throw new Error(`unknown call ${given.call}`);
  }
});

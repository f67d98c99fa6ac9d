import { expect, test } from "vitest";

import type { Budget, BudgetState, Spend } from "../src/budget.js";
import { budgetLimit, consumeBudget, EMPTY_BUDGET, exceeded, remaining, share, wouldExceed } from "../src/budget.js";
import { readCases } from "./cases.js";

type Amounts = readonly [number, number, number, number, number];
type RawSpend = Readonly<Record<string, number | string | boolean | null>>;

interface Case {
  readonly name: string;
  readonly call: string;
  readonly limits: Budget;
  readonly spends?: readonly RawSpend[];
  readonly spend?: RawSpend;
  readonly state?: Amounts;
  readonly parts?: number;
  readonly timeline?: unknown;
  readonly names?: unknown;
  readonly output?: unknown;
  readonly refused?: boolean;
}

function stateOf([tokensUsed, stepsUsed, toolCallsUsed, costMicrosUsed, wallMsUsed]: Amounts): BudgetState {
  return { tokensUsed, stepsUsed, toolCallsUsed, costMicrosUsed, wallMsUsed };
}

function spendOf(raw: RawSpend = {}): Spend {
  return Object.fromEntries(
    Object.entries(raw).map(([name, value]) => [name, typeof value === "string" ? Number(value) : value]),
  );
}

function timeline(spends: readonly RawSpend[], limits: Budget): unknown {
  let state = EMPTY_BUDGET;
  return spends.map((spend) => {
    const [after, isExhausted] = consumeBudget(state, limits, spendOf(spend));
    state = after;
    return [...(Object.values(after) as number[]), isExhausted];
  });
}

function answer(given: Case): unknown {
  const limits = budgetLimit(spendOf(given.limits as RawSpend) as Budget);
  const state = given.state ? stateOf(given.state) : EMPTY_BUDGET;
  switch (given.call) {
    case "consume_budget":
      return timeline(given.spends ?? [], limits);
    case "exceeded":
      return exceeded(state, limits);
    case "would_exceed":
      return wouldExceed(state, limits, spendOf(given.spend));
    case "remaining":
      return remaining(state, limits);
    case "share":
      return share(state, limits, given.parts ?? 0);
    default:
      throw new Error(`unknown call ${given.call}`);
  }
}

test.each(readCases("budget") as readonly Case[])("a shared case has the answer of every language: $name", (given) => {
  if (given.refused) expect(() => answer(given)).toThrow(/must be/);
  else expect(answer(given)).toEqual(given.timeline ?? given.names ?? given.output);
});

test("a spend of nothing changes nothing", () => {
  expect(consumeBudget(EMPTY_BUDGET, {})).toEqual([EMPTY_BUDGET, false]);
});

test.each([1.5, NaN, Infinity])("a limit of %s is refused", (limit) => {
  expect(() => budgetLimit({ maxSteps: limit })).toThrow("maxSteps must be a whole number, 0 or more");
  expect(() => consumeBudget(EMPTY_BUDGET, { maxSteps: limit })).toThrow("maxSteps must be a whole number, 0 or more");
});

/**
 * Budget of a run: limits, usage so far, and whether a spend fits.
 *
 * Money is counted in whole micro-dollars (millionths of a US dollar), so that adding ten cents ten times
 * is exactly one dollar in every language.
 */
import type { BudgetName } from "@windlass/protocol";

/** The most a run may use, in whole numbers; an absent limit does not limit. */
export interface Budget {
  readonly maxTokens?: number;
  readonly maxSteps?: number;
  readonly maxToolCalls?: number;
  readonly maxCostMicros?: number;
  readonly maxWallMs?: number;
}

/** The usage of a run so far. */
export interface BudgetState {
  readonly tokensUsed: number;
  readonly stepsUsed: number;
  readonly toolCallsUsed: number;
  readonly costMicrosUsed: number;
  readonly wallMsUsed: number;
}

/** One spend; null counts 0. */
export interface Spend {
  readonly tokens?: number | null;
  readonly step?: boolean;
  readonly toolCall?: boolean;
  readonly costMicros?: number | null;
  readonly wallMs?: number | null;
}

export const EMPTY_BUDGET: BudgetState = {
  tokensUsed: 0,
  stepsUsed: 0,
  toolCallsUsed: 0,
  costMicrosUsed: 0,
  wallMsUsed: 0,
};

const ROWS = [
  ["tokens", "tokensUsed", "maxTokens"],
  ["steps", "stepsUsed", "maxSteps"],
  ["tool_calls", "toolCallsUsed", "maxToolCalls"],
  ["cost", "costMicrosUsed", "maxCostMicros"],
  ["wall", "wallMsUsed", "maxWallMs"],
] as const;

/** Check limits and return them; throws a RangeError if one is negative or not a whole number. */
export function budgetLimit(limits: Budget): Budget {
  for (const [, , name] of ROWS) {
    const limit = limits[name];
    if (limit !== undefined && !(Number.isInteger(limit) && limit >= 0)) {
      throw new RangeError(
        `${name} must be a whole number, 0 or more, found ${String(limit)}; leave it out for no limit`,
      );
    }
  }
  return limits;
}

/**
 * Add a spend; return the new state and whether any limit is exceeded.
 *
 * A limit is exceeded when more than it is used, not when it is reached. Counting goes on after that, so
 * the state stays true. Amounts that are null, negative, infinite or not a number count 0, because usage
 * figures come from providers; fractions round up. Throws a RangeError on limits that `budgetLimit` refuses.
 */
export function consumeBudget(state: BudgetState, limits: Budget, spend: Spend = {}): readonly [BudgetState, boolean] {
  const after = add(state, spend);
  return [after, exceeded(after, limits).length > 0];
}

/** Name the limits that are exceeded, in the order of `Budget`. */
export function exceeded(state: BudgetState, limits: Budget): readonly BudgetName[] {
  const checked = budgetLimit(limits); // nothing is above NaN, so such a limit would never be exceeded
  return ROWS.filter(([, used, max]) => state[used] > (checked[max] ?? Infinity)).map(([name]) => name);
}

/**
 * Name the limits that a spend would exceed; for use before the spend.
 *
 * A model call always uses tokens: give the least it will use (1 if nothing better is known), or a run
 * that stands exactly at its limit makes one call too many.
 */
export function wouldExceed(state: BudgetState, limits: Budget, spend: Spend): readonly BudgetName[] {
  return exceeded(add(state, spend), limits);
}

/** Return what may still be used, never below 0; an absent limit stays absent. */
export function remaining(state: BudgetState, limits: Budget): Budget {
  return mapLimits(limits, (limit, used) => Math.max(0, limit - state[used]));
}

/**
 * Return the limits of one of `parts` equal subagents.
 *
 * All shares together never exceed what remains. Time is not divided: subagents run side by side.
 * Throws a RangeError if `parts` is less than 1.
 */
export function share(state: BudgetState, limits: Budget, parts: number): Budget {
  if (!(Number.isInteger(parts) && parts >= 1)) throw new RangeError(`parts must be 1 or more, found ${parts}`);
  return mapLimits(remaining(state, limits), (left, used) => (used === "wallMsUsed" ? left : Math.floor(left / parts)));
}

function mapLimits(limits: Budget, change: (limit: number, used: keyof BudgetState) => number): Budget {
  const changed: { -readonly [name in keyof Budget]: number } = {};
  for (const [, used, max] of ROWS) {
    const limit = limits[max];
    if (limit !== undefined) changed[max] = change(limit, used);
  }
  return changed;
}

function add(state: BudgetState, spend: Spend): BudgetState {
  return {
    tokensUsed: state.tokensUsed + amount(spend.tokens),
    stepsUsed: state.stepsUsed + (spend.step ? 1 : 0),
    toolCallsUsed: state.toolCallsUsed + (spend.toolCall ? 1 : 0),
    costMicrosUsed: state.costMicrosUsed + amount(spend.costMicros),
    wallMsUsed: state.wallMsUsed + amount(spend.wallMs),
  };
}

function amount(value: number | null | undefined): number {
  return typeof value === "number" && value > 0 && value < Infinity ? Math.ceil(value) : 0;
}

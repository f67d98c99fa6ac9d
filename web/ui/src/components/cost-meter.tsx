import { addUsage, type BudgetLimits, type Tally } from "@windlass/protocol";
import { Progress } from "radix-ui";
import type { ReactNode } from "react";
import { formatCost, formatCount } from "../format.js";
import { classes } from "./styles.js";

/** What was used, and how much may be. */
export interface CostMeterProps {
  readonly usage: Tally;
  readonly budget?: BudgetLimits | undefined;
  readonly className?: string | undefined;
}

const NEAR = 0.8;
const FULL = 100;

/** Tokens and money that were used, those of subagents included; with a budget, how much of it. */
export function CostMeter({ usage, budget, className }: CostMeterProps): ReactNode {
  const { inputTokens = 0, outputTokens = 0, costMicros } = addUsage(usage.usage, usage.delegated);
  const parts = [
    `${formatCount(inputTokens)} in`,
    `${formatCount(outputTokens)} out`,
    ...(usage.toolCalls > 0 ? [usage.toolCalls === 1 ? "1 call" : `${formatCount(usage.toolCalls)} calls`] : []),
    ...(costMicros === undefined ? [] : [formatCost(costMicros)]),
  ];
  const share = shareOf(budget, {
    tokens: inputTokens + outputTokens,
    costMicros: costMicros ?? 0,
    steps: usage.steps,
    toolCalls: usage.toolCalls,
  });
  return (
    <div className={classes("flex flex-col gap-1 text-xs text-agent-muted", className)}>
      <span aria-label={`Used: ${parts.join(", ")}`}>{parts.join(" · ")}</span>
      {share !== undefined && (
        <Progress.Root
          value={Math.round(share * FULL)}
          max={FULL}
          aria-label="Part of the budget that is used"
          className="h-1.5 w-32 overflow-hidden rounded bg-agent-raised"
        >
          <Progress.Indicator
            className={classes("h-full", share >= NEAR ? "bg-agent-danger" : "bg-agent-accent")}
            style={{ width: `${share * FULL}%` }}
          />
        </Progress.Root>
      )}
    </div>
  );
}

interface Used {
  readonly tokens: number;
  readonly costMicros: number;
  readonly steps: number;
  readonly toolCalls: number;
}

/** The largest part of any limit that is used, from 0 to 1. */
function shareOf(budget: BudgetLimits | undefined, used: Used): number | undefined {
  if (budget === undefined) return undefined;
  const pairs: readonly (readonly [number, number | undefined])[] = [
    [used.tokens, budget.maxTokens],
    [used.costMicros, budget.maxCostMicros],
    [used.steps, budget.maxSteps],
    [used.toolCalls, budget.maxToolCalls],
  ];
  const shares = pairs.flatMap(([amount, limit]) => (limit === undefined ? [] : [limit === 0 ? 1 : amount / limit]));
  return shares.length === 0 ? undefined : Math.min(Math.max(...shares), 1);
}

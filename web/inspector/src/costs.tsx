/** Where the money of a run went: models and subagents, steps, tools and their results. */
import { useQuery } from "@tanstack/react-query";
import type { StepCost, Usage } from "@windlass/protocol";
import { formatCost, formatCount, formatPercent } from "@windlass/ui";
import type { ReactNode } from "react";
import { Empty, Failure, Loading } from "./parts.js";
import { costsQuery } from "./queries.js";
import { lossOf } from "./records.js";

/** The steps that are shown: those that cost most. */
const STEPS_MAX = 50;

function amountOf({ costMicros }: Usage): string {
  return costMicros === undefined ? "no price" : formatCost(costMicros);
}

/** The share of the input that came from the cache of the provider. */
export function cachedShare({ inputTokens = 0, cacheReadTokens = 0 }: Usage): string {
  return inputTokens === 0 ? "–" : formatPercent(cacheReadTokens / inputTokens);
}

/** What a model call was billed for, the most expensive part first; before it, what it paid for again. */
export function billOf({ price, loss }: StepCost): string {
  const parts = [...(price?.parts ?? [])].sort((left, other) => other.micros - left.micros);
  const bill =
    parts.length > 0
      ? parts.map(
          ({ unit, count, micros }) => `${formatCount(count)} ${unit.replaceAll("_", " ")} ${formatCost(micros)}`,
        )
      : price?.gap === undefined
        ? []
        : [`no price: ${price.gap}`];
  return [...(loss === undefined ? [] : [lossOf(loss)]), ...bill].join(", ");
}

const tokensOf = (usage: Usage): readonly string[] => [
  amountOf(usage),
  formatCount(usage.inputTokens ?? 0),
  cachedShare(usage),
  formatCount(usage.outputTokens ?? 0),
];

interface SheetProps {
  readonly label: string;
  /** The heads of the columns; the first and the last have text, all others numbers. */
  readonly heads: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** A small table of amounts. */
function Sheet({ label, heads, rows }: SheetProps): ReactNode {
  if (rows.length === 0) return null;
  return (
    <section>
      <h2 className="px-1 pb-1 font-semibold">{label}</h2>
      <table aria-label={label} className="w-full border-collapse text-left text-sm tabular-nums">
        <thead className="text-xs text-agent-muted">
          <tr className="border-b border-agent-border">
            {heads.map((head, at) => (
              <th key={head} scope="col" className={`px-1 py-1 font-semibold ${at === 0 ? "" : "text-right"}`}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([name = "", ...cells], row) => (
            <tr key={`${row} ${name}`} className="border-b border-agent-border">
              <th scope="row" className="px-1 py-1 font-normal wrap-anywhere">
                {name}
              </th>
              {cells.map((cell, at) => (
                <td key={heads[at + 1]} className="px-1 py-1 text-right">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface CostsProps {
  readonly runId: string;
  readonly isLive: boolean;
}

/** The costs of a run. */
export function Costs({ runId, isLive }: CostsProps): ReactNode {
  const { data, error, refetch } = useQuery(costsQuery(runId, isLive));
  if (error !== null) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (data.steps.length === 0) return <Empty title="No model has answered yet." />;
  const steps = [...data.steps].sort((step, other) => (other.usage.costMicros ?? 0) - (step.usage.costMicros ?? 0));
  return (
    // A region that scrolls can be reached with the keyboard.
    <div role="region" aria-label="Costs" tabIndex={0} className="min-h-0 flex-1 space-y-5 overflow-auto p-4">
      <Sheet
        label="Models and subagents"
        heads={["Name", "Cost", "Input", "Cached", "Output"]}
        rows={[...data.models, ...data.subagents].map(({ name, usage }) => [name, ...tokensOf(usage)])}
      />
      <Sheet
        label="Results of tools in later prompts"
        heads={["Tool", "Cost", "Results", "Tokens", "Tokens paid for"]}
        rows={data.tools.map(({ tool, calls, resultTokens, promptTokens, costMicros }) => [
          tool,
          formatCost(costMicros),
          ...[calls, resultTokens, promptTokens].map((count) => formatCount(count)),
        ])}
      />
      <Sheet
        label="The results that cost most"
        heads={["Result", "Cost", "Tokens", "Times paid"]}
        rows={data.results.map(({ tool, callId, tokens, prompts, costMicros }) => [
          `${tool} ${callId}`,
          formatCost(costMicros),
          formatCount(tokens),
          formatCount(prompts),
        ])}
      />
      <Sheet
        label="The model calls that cost most"
        heads={["Model call", "Cost", "Input", "Cached", "Output", "Billed for"]}
        rows={steps
          .slice(0, STEPS_MAX)
          .map((step) => [`${step.stepIndex + 1} ${step.modelId}`, ...tokensOf(step.usage), billOf(step)])}
      />
    </div>
  );
}

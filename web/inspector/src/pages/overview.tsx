import { useQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { CARD, classes, formatCost, formatCount, formatDuration } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { failingTools } from "../lib/causes.js";
import { formatShort } from "../lib/format.js";
import { OVERVIEW_RUNS_MAX, runsSinceQuery } from "../lib/queries.js";
import { useQueryState } from "../lib/router.js";
import { bucketsOf, durationOf, quantile, sum, type Bucket } from "../lib/stats.js";
import { useRecentDecisions } from "../lib/use-recent-decisions.js";
import { Empty, Failure, Heading, Loading, Select, TextLink, useNow } from "../parts/basics.js";
import { Plot } from "../parts/plot.js";
import { Foot } from "../parts/shell.js";
import { RunLine } from "./sessions.js";

const HOUR_MS = 3_600_000;
const RANGES = { "1h": HOUR_MS, "24h": 24 * HOUR_MS, "7d": 168 * HOUR_MS, "30d": 720 * HOUR_MS } as const;
type Range = keyof typeof RANGES;
const PARTS = 30;
const WAITING_MAX = 10;
const TOOLS_MAX = 8;

/** How it goes: how much, how fast, how well, and what waits. */
export function OverviewPage(): ReactNode {
  const [query, change] = useQueryState();
  const range = readRange(query.get("range"));
  const { data, error, refetch } = useQuery(runsSinceQuery(RANGES[range]));
  return (
    <>
      <Heading title="Overview">
        <Select label="Time" value={range} options={Object.keys(RANGES).map((one) => [one, `last ${one}`])} onChange={(next) => { change({ range: next }); }} />
      </Heading>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Loading />}
      {data !== undefined && <Body runs={data} range={range} />}
      <div className="flex flex-wrap gap-2 border-t border-agent-border p-3 sm:hidden"><Foot /></div>
    </>
  );
}

function readRange(text: string | null): Range {
  return text !== null && Object.hasOwn(RANGES, text) ? (text as Range) : "24h";
}

function Body({ runs, range }: { readonly runs: readonly RunRow[]; readonly range: Range }): ReactNode {
  const now = useNow();
  const buckets = useMemo(() => bucketsOf(runs, now - RANGES[range], now, PARTS), [runs, now, range]);
  if (runs.length === 0) {
    return (
      <Empty title={`Nothing ran in the last ${range}.`}>
        <p>Throughput, latency, errors, tokens and cost appear here with the first run. <TextLink href="/chat">Begin one</TextLink>, or look at a longer time.</p>
      </Empty>
    );
  }
  const waiting = runs.filter(({ status }) => status === "waiting");
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-6 overflow-y-auto p-4">
      {runs.length >= OVERVIEW_RUNS_MAX && <p className="text-xs text-agent-muted">Of the newest {formatCount(OVERVIEW_RUNS_MAX)} runs.</p>}
      <Plots buckets={buckets} runs={runs} range={range} />
      <div className="grid gap-6 lg:grid-cols-2">
        <section aria-labelledby="waiting-title" className={classes(CARD, "min-w-0")}>
          <h2 id="waiting-title" className="px-4 py-3 text-sm font-semibold">Waiting runs ({waiting.length})</h2>
          {waiting.length === 0 ? <p className="px-4 pb-4 text-sm text-agent-muted">Nothing waits for anybody.</p> : <p className="px-4 pb-2 text-sm"><TextLink href="/approvals">Answer what they ask</TextLink></p>}
          <ul>{waiting.slice(0, WAITING_MAX).map((run) => <li key={run.runId}><RunLine run={run} now={now} isNarrow /></li>)}</ul>
        </section>
        <FailingTools />
      </div>
    </div>
  );
}

function Plots({ buckets, runs, range }: { readonly buckets: readonly Bucket[]; readonly runs: readonly RunRow[]; readonly range: Range }): ReactNode {
  const ends = [`${range} ago`, "now"] as const;
  const failed = sum(buckets.map((bucket) => bucket.failed));
  const took = runs.map(durationOf).filter((ms) => ms !== undefined).toSorted((one, other) => one - other);
  const whole = { tokens: sum(buckets.map(({ tokens }) => tokens)), cost: sum(buckets.map(({ costMicros }) => costMicros)) };
  return (
    <div className="grid grid-cols-[repeat(auto-fit,minmax(min(15rem,100%),1fr))] gap-4">
      <Plot title="Runs" total={formatCount(runs.length)} kind="bars" format={formatCount} ends={ends} series={[{ label: "begun", values: buckets.map(({ count }) => count), color: "text-agent-accent" }]} />
      <Plot
        title="Time they took"
        total={`p50 ${formatDuration(quantile(took, 0.5) ?? 0)}`}
        kind="lines"
        format={formatDuration}
        ends={ends}
        series={[
          { label: "p95", values: buckets.map(({ p95Ms }) => p95Ms), color: "text-agent-warning" },
          { label: "p50", values: buckets.map(({ p50Ms }) => p50Ms), color: "text-agent-accent" },
        ]}
      />
      <Plot title="Failed" total={`${formatCount(failed)} (${Math.round((failed / Math.max(runs.length, 1)) * 100)} %)`} kind="bars" format={formatCount} ends={ends} series={[{ label: "failed", values: buckets.map((bucket) => bucket.failed), color: "text-agent-danger" }]} />
      <Plot title="Tokens" total={formatShort(whole.tokens)} kind="bars" format={formatShort} ends={ends} series={[{ label: "tokens", values: buckets.map(({ tokens }) => tokens), color: "text-agent-accent" }]} />
      <Plot title="Cost" total={formatCost(whole.cost)} kind="bars" format={formatCost} ends={ends} series={[{ label: "cost", values: buckets.map(({ costMicros }) => costMicros), color: "text-agent-success" }]} />
    </div>
  );
}

function FailingTools(): ReactNode {
  const { runs, isLoading } = useRecentDecisions(undefined);
  const tools = useMemo(() => failingTools(runs).slice(0, TOOLS_MAX), [runs]);
  return (
    <section aria-labelledby="tools-title" className={classes(CARD, "min-w-0 p-4")}>
      <h2 id="tools-title" className="mb-2 text-sm font-semibold">Tools that fail</h2>
      {tools.length === 0 && <p className="text-sm text-agent-muted">{isLoading ? "Looking…" : `None did in the newest ${runs.length} runs.`}</p>}
      <ul className="flex flex-col gap-2 text-sm">
        {tools.map(({ tool, count, failed }) => (
          <li key={tool} className="flex items-center gap-3">
            <span className="min-w-0 flex-1 truncate font-mono">{tool}</span>
            <span className="text-agent-danger-text">{failed} of {count}</span>
          </li>
        ))}
      </ul>
      {tools.length > 0 && <p className="mt-3 text-sm"><TextLink href="/decisions?view=failures">Failures by cause</TextLink></p>}
    </section>
  );
}

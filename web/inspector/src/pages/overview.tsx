import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { RunNumbers, Stats, StatsBucket } from "@windlass/protocol/client";
import { CARD, classes, formatCost, formatCount, formatDuration } from "@windlass/ui";
import { useId, type ReactNode } from "react";
import { formatShort, plural } from "../lib/format.js";
import { agentsQuery, runsQuery, statsQuery } from "../lib/queries.js";
import { useQueryState } from "../lib/router.js";
import { Ago, Empty, Failure, Heading, Loading, Select, TextLink, useNow } from "../parts/basics.js";
import { Plot } from "../parts/plot.js";
import { Foot } from "../parts/shell.js";
import { RunLine } from "./sessions.js";

const HOUR_MS = 3_600_000;
const RANGES = { "1h": HOUR_MS, "24h": 24 * HOUR_MS, "7d": 168 * HOUR_MS, "30d": 720 * HOUR_MS } as const;
type Range = keyof typeof RANGES;
/** Divides every range into parts of whole seconds. */
const PARTS = 60;
const WAITING_MAX = 8;
const TOOLS_MAX = 8;

/** How it goes: how much, how fast, how well, and what waits. */
export function OverviewPage(): ReactNode {
  const [query, change] = useQueryState();
  const range = readRange(query.get("range"));
  const agent = query.get("agent") ?? "";
  const agents = useQuery(agentsQuery);
  const { data, error, refetch } = useQuery(statsQuery(RANGES[range], PARTS, agent === "" ? undefined : agent));
  return (
    <>
      <Heading title="Overview">
        <div className="flex flex-wrap items-center gap-3">
          <Select
            label="Agent"
            value={agent}
            options={[["", "all"], ...(agents.data ?? []).map(({ agentId }) => [agentId, agentId] as const)]}
            onChange={(next) => {
              change({ agent: next });
            }}
          />
          <Select
            label="Time"
            value={range}
            options={Object.keys(RANGES).map((one) => [one, `last ${one}`])}
            onChange={(next) => {
              change({ range: next });
            }}
          />
        </div>
      </Heading>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Loading />}
      {data !== undefined && <Body stats={data} range={range} />}
      <div className="flex flex-wrap gap-2 border-t border-agent-border p-3 sm:hidden">
        <Foot />
      </div>
    </>
  );
}

function readRange(text: string | null): Range {
  return text !== null && Object.hasOwn(RANGES, text) ? (text as Range) : "24h";
}

function Body({ stats, range }: { readonly stats: Stats; readonly range: Range }): ReactNode {
  if (stats.total.runs === 0 && stats.waiting.runs === 0) {
    return (
      <Empty title={`Nothing ran in the last ${range}.`}>
        <p>
          Throughput, latency, errors, tokens and cost appear here with the first run.{" "}
          <TextLink href="/chat">Begin one</TextLink>, or look at a longer time.
        </p>
      </Empty>
    );
  }
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-4 overflow-y-auto p-4">
      <Plots stats={stats} range={range} />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Waiting waiting={stats.waiting} />
        <FailingTools tools={stats.failingTools} range={range} />
      </div>
    </div>
  );
}

function Plots({ stats: { total, buckets }, range }: { readonly stats: Stats; readonly range: Range }): ReactNode {
  const ends = [`${range} ago`, "now"] as const;
  const of = (pick: (bucket: StatsBucket) => number | undefined): readonly (number | undefined)[] => buckets.map(pick);
  const share = Math.round((total.failed / Math.max(total.runs, 1)) * 100);
  return (
    <div className="grid grid-cols-2 gap-4 max-sm:gap-2 lg:grid-cols-6">
      <Plot
        className="lg:col-span-2"
        title="Runs"
        total={formatCount(total.runs)}
        kind="bars"
        format={formatCount}
        ends={ends}
        series={[{ label: "begun", values: of(({ runs }) => runs), color: "text-agent-accent" }]}
      />
      <Plot
        className="lg:col-span-2"
        title="Failed"
        total={`${formatCount(total.failed)} · ${share} %`}
        kind="bars"
        format={formatCount}
        ends={ends}
        series={[{ label: "failed", values: of(({ failed }) => failed), color: "text-agent-danger" }]}
      />
      <Plot
        className="lg:col-span-2"
        title="Time they took, p50"
        total={total.p50Ms === undefined ? "–" : formatDuration(total.p50Ms)}
        kind="lines"
        format={formatDuration}
        ends={ends}
        series={[
          { label: "p95", values: of(({ p95Ms }) => p95Ms), color: "text-agent-warning" },
          { label: "p50", values: of(({ p50Ms }) => p50Ms), color: "text-agent-accent" },
        ]}
      />
      <Plot
        className="lg:col-span-3"
        title="Tokens"
        total={formatShort(tokensOf(total))}
        kind="bars"
        format={formatShort}
        ends={ends}
        series={[{ label: "tokens", values: of(tokensOf), color: "text-agent-accent" }]}
      />
      <Plot
        className="max-lg:col-span-2 lg:col-span-3"
        title="Cost"
        total={formatCost(total.costMicros)}
        kind="bars"
        format={formatCost}
        ends={ends}
        series={[{ label: "cost", values: of(({ costMicros }) => costMicros), color: "text-agent-success" }]}
      />
    </div>
  );
}

function tokensOf({ inputTokens, outputTokens }: RunNumbers): number {
  return inputTokens + outputTokens;
}

/** A box with a title, and what belongs beside it. */
function Panel({
  title,
  aside,
  children,
}: {
  readonly title: string;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id} className={classes(CARD, "min-w-0 overflow-hidden")}>
      <div className="flex flex-wrap items-baseline justify-between gap-2 px-4 py-3">
        <h2 id={id} className="text-sm font-semibold">
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  );
}

function Waiting({ waiting }: { readonly waiting: Stats["waiting"] }): ReactNode {
  const now = useNow();
  const { data } = useInfiniteQuery(runsQuery({ status: "waiting" }));
  const shown = data?.pages[0]?.runs.slice(0, WAITING_MAX) ?? [];
  const aside = waiting.requests > 0 && (
    <p className="text-xs text-agent-muted">
      <TextLink href="/approvals">Answer {plural(waiting.requests, "request")}</TextLink>
      {waiting.oldestAskedAt !== undefined && (
        <>
          , the oldest asked <Ago at={waiting.oldestAskedAt} nowMs={now} />
        </>
      )}
    </p>
  );
  return (
    <Panel title={`Waiting runs (${formatCount(waiting.runs)})`} aside={aside}>
      {waiting.runs === 0 && <p className="px-4 pb-4 text-sm text-agent-muted">Nothing waits for anybody.</p>}
      <ul className="border-agent-border not-empty:border-t">
        {shown.map((run) => (
          <li key={run.runId} className="not-last:border-b border-agent-border">
            <RunLine run={run} now={now} isNarrow />
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function FailingTools({ tools, range }: { readonly tools: Stats["failingTools"]; readonly range: Range }): ReactNode {
  const shown = tools.slice(0, TOOLS_MAX);
  const most = Math.max(...shown.map(({ failed }) => failed), 1);
  return (
    <Panel
      title="Tools that fail"
      aside={
        <p className="text-xs">
          <TextLink href="/decisions?view=failures">Failures by cause</TextLink>
        </p>
      }
    >
      {shown.length === 0 && <p className="px-4 pb-4 text-sm text-agent-muted">None did in the last {range}.</p>}
      <ul className="flex flex-col gap-3 px-4 pb-4 text-sm empty:hidden">
        {shown.map(({ tool, calls, failed }) => (
          <li key={tool} className="flex flex-col gap-1">
            <span className="flex justify-between gap-3">
              <span className="min-w-0 truncate font-mono text-xs">{tool}</span>
              <span className="shrink-0 text-xs">
                <span className="text-agent-danger-text">{formatCount(failed)}</span>
                <span className="text-agent-muted"> of {formatCount(calls)} calls</span>
              </span>
            </span>
            <span aria-hidden className="h-1.5 rounded bg-agent-raised">
              <span className="block h-full rounded bg-agent-danger" style={{ width: `${(failed / most) * 100}%` }} />
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** Counts, durations and cost of runs. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { RunNumbers, Stats, StatsBucket } from "@windlass/protocol/client";
import { CARD, classes, formatCost, formatCount, formatDuration, formatShort, plural } from "@windlass/ui";
import { useId, type ReactNode } from "react";
import { Ago, Empty, Failure, Heading, Loading, Select, TextLink, useNow } from "../parts.js";
import { agentsQuery, runsQuery, statsQuery } from "../queries.js";
import { useQueryState } from "../router.js";
import { Foot } from "../shell.js";
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
  const { data } = useInfiniteQuery(runsQuery({ filter: { status: "waiting" } }));
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
      {waiting.runs === 0 && <p className="px-4 pb-4 text-sm text-agent-muted">No run is waiting.</p>}
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

// Small plots, drawn as SVG.

const WIDTH = 240;
const HEIGHT = 64;
const GAP = 1;
/** Dots at the ends are seen whole. */
const EDGE = 3;

/** A row of values over time. */
interface Series {
  readonly label: string;
  /** One for each part of the time; undefined where there is none. */
  readonly values: readonly (number | undefined)[];
  /** A class for what is drawn. */
  readonly color: string;
}

interface PlotProps {
  readonly title: string;
  /** The number that sums it up. */
  readonly total: string;
  readonly series: readonly Series[];
  readonly kind: "bars" | "lines";
  readonly format: (value: number) => string;
  /** Labels of the two ends of the axis. */
  readonly ends: readonly [from: string, until: string];
  readonly className?: string | undefined;
}

function mostOf(values: Series["values"]): number {
  return Math.max(...values.filter((value) => value !== undefined), 0);
}

/** A plot with its numbers in words: what cannot be seen is in the label. */
function Plot({ title, total, series, kind, format, ends, className }: PlotProps): ReactNode {
  const most = Math.max(...series.map(({ values }) => mostOf(values)), 0);
  const words = series.map(({ label, values }) => `${label}: at most ${format(mostOf(values))}`).join("; ");
  return (
    <figure className={classes(CARD, "flex min-w-0 flex-col gap-3 p-4 max-sm:p-3", className)}>
      <figcaption className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span className="text-xs text-agent-muted">{title}</span>
        {series.length > 1 && (
          <span className="flex gap-3 text-xs text-agent-muted">
            {series.map(({ label, color }) => (
              <span key={label} className="inline-flex items-center gap-1.5">
                <span aria-hidden className={classes("size-2 rounded-full bg-current", color)} />
                {label}
              </span>
            ))}
          </span>
        )}
        <span className="w-full text-xl font-semibold tabular-nums">{total}</span>
      </figcaption>
      <div className="relative">
        <svg
          role="img"
          aria-label={`${title}, ${total}. ${words}`}
          viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
          preserveAspectRatio="none"
          className="h-24 w-full"
        >
          <line
            x1="0"
            x2={WIDTH}
            y1="0.5"
            y2="0.5"
            className="stroke-agent-border"
            strokeWidth="1"
            strokeDasharray="2 4"
            vectorEffect="non-scaling-stroke"
          />
          {series.map((one) =>
            kind === "bars" ? (
              <Bars key={one.label} series={one} most={most} />
            ) : (
              <Line key={one.label} series={one} most={most} />
            ),
          )}
          <line
            x1="0"
            x2={WIDTH}
            y1={HEIGHT - 0.5}
            y2={HEIGHT - 0.5}
            className="stroke-agent-border"
            strokeWidth="1"
            vectorEffect="non-scaling-stroke"
          />
        </svg>
        {most > 0 && (
          <span aria-hidden className="absolute top-1 left-0 rounded bg-agent-surface pr-1 text-xs text-agent-muted">
            {format(most)}
          </span>
        )}
      </div>
      <p className="flex justify-between gap-2 text-xs text-agent-muted">
        <span>{ends[0]}</span>
        <span>{ends[1]}</span>
      </p>
    </figure>
  );
}

interface DrawnProps {
  readonly series: Series;
  readonly most: number;
}

function Bars({ series: { values, color }, most }: DrawnProps): ReactNode {
  const width = WIDTH / Math.max(values.length, 1);
  return (
    <g className={color} fill="currentColor">
      {values.map((value, at) => {
        const height = most === 0 ? 0 : ((value ?? 0) / most) * (HEIGHT - 2);
        return height === 0 ? null : (
          <rect
            key={at}
            x={at * width + GAP / 2}
            y={HEIGHT - height}
            width={Math.max(width - GAP, 0.5)}
            height={height}
          />
        );
      })}
    </g>
  );
}

/** A line through what is there; a lonely value is a dot. */
function Line({ series: { values, color }, most }: DrawnProps): ReactNode {
  const step = (WIDTH - 2 * EDGE) / Math.max(values.length - 1, 1);
  const points = values.map((value, at) =>
    value === undefined
      ? undefined
      : ([EDGE + at * step, HEIGHT - 2 - (most === 0 ? 0 : (value / most) * (HEIGHT - 6))] as const),
  );
  const path = points
    .map((point, at) =>
      point === undefined
        ? ""
        : `${points[at - 1] === undefined ? "M" : "L"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`,
    )
    .join("");
  const dots = points
    .filter((point, at) => point !== undefined && points[at - 1] === undefined && points[at + 1] === undefined)
    .filter((point) => point !== undefined);
  return (
    <g className={color} fill="none" stroke="currentColor" strokeWidth="2" strokeLinecap="round" strokeLinejoin="round">
      <path d={path} vectorEffect="non-scaling-stroke" />
      {dots.map(([x, y]) => (
        <path key={x} d={`M${x.toFixed(1)} ${y.toFixed(1)}h0.01`} strokeWidth="5" vectorEffect="non-scaling-stroke" />
      ))}
    </g>
  );
}

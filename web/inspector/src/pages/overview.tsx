/** Counts, durations and cost of runs. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { Approval, RunNumbers, Stats, StatsBucket, ToolBucket, ToolGroup } from "@windlass/protocol/client";
import {
  Chip,
  classes,
  CARD,
  cut,
  formatAgo,
  formatCost,
  formatCount,
  formatDuration,
  formatPercent,
  formatShort,
  Panel,
  plural,
  shortHash,
} from "@windlass/ui";
import { useId, useMemo, type ReactNode } from "react";
import { Chart, colorOf, Swatch, type ChartSeries } from "../chart.js";
import { Empty, Failure, Heading, Loading, Select, TextLink, useNow } from "../parts.js";
import { agentsQuery, approvalsQuery, failuresQuery, runsQuery, statsQuery } from "../queries.js";
import { navigate, to, useQueryState } from "../router.js";
import { Foot } from "../shell.js";

const HOUR_MS = 3_600_000;
const RANGES = { "1h": HOUR_MS, "24h": 24 * HOUR_MS, "7d": 168 * HOUR_MS, "30d": 720 * HOUR_MS } as const;
type Range = keyof typeof RANGES;
const SPLITS = ["agent", "model", "version", "tool"] as const;
type Split = (typeof SPLITS)[number];
/** Divides every range into parts of whole seconds. */
const PARTS = 48;
const TOOLS_MAX = 6;
const CAUSES_MAX = 6;
/** Fewer calls than this say little about how often a tool fails. */
const CALLS_ENOUGH = 5;

/** How it goes: how much, how fast, how well, and what waits. */
export function OverviewPage(): ReactNode {
  const [query, change] = useQueryState();
  const range = readRange(query.get("range"));
  const agent = query.get("agent") ?? "";
  const split = SPLITS.find((one) => one === query.get("split"));
  const isCompared = query.get("compare") !== "no";
  const agents = useQuery(agentsQuery);
  const wanted = { agent: agent === "" ? undefined : agent, split };
  const { data, error, refetch } = useQuery(statsQuery(RANGES[range], PARTS, wanted));
  const before = useQuery({
    ...statsQuery(RANGES[range], PARTS, { agent: wanted.agent, isBefore: true }),
    enabled: isCompared,
  });
  return (
    <>
      <Heading title="Overview">
        <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
          <Select
            label="Agent"
            value={agent}
            options={[["", "all"], ...(agents.data ?? []).map(({ agentId }) => [agentId, agentId] as const)]}
            onChange={(next) => {
              change({ agent: next });
            }}
          />
          <Select
            label="Split"
            value={split ?? ""}
            options={[["", "none"], ...SPLITS.map((one) => [one, one] as const)]}
            onChange={(next) => {
              change({ split: next });
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
          <Chip
            isOn={isCompared}
            onChange={(isOn) => {
              change({ compare: isOn ? undefined : "no" });
            }}
          >
            compare with {range} before
          </Chip>
        </div>
      </Heading>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Loading />}
      {data !== undefined && (
        <Body
          stats={data}
          before={isCompared ? before.data?.total : undefined}
          range={range}
          agent={wanted.agent}
          split={split}
        />
      )}
      <div className="flex flex-wrap gap-2 border-t border-agent-border p-3 sm:hidden">
        <Foot />
      </div>
    </>
  );
}

function readRange(text: string | null): Range {
  return text !== null && Object.hasOwn(RANGES, text) ? (text as Range) : "24h";
}

interface BodyProps {
  readonly stats: Stats;
  /** The same time before this one. */
  readonly before: RunNumbers | undefined;
  readonly range: Range;
  readonly agent: string | undefined;
  readonly split: Split | undefined;
}

function Body(props: BodyProps): ReactNode {
  const { stats, range, agent } = props;
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
    <div className="flex min-h-0 flex-1 flex-col gap-3 overflow-y-auto p-4">
      <Charts {...props} />
      <div className="grid items-start gap-3 md:grid-cols-2 2xl:grid-cols-4">
        <NeedsPeople />
        <Durability stats={stats} range={range} agent={agent} />
        <ToolsByRate tools={stats.failingTools} range={range} />
        <Causes agent={agent} />
      </div>
    </div>
  );
}

type Measure = (numbers: RunNumbers) => number | undefined;

/** The rows of a chart: one, or one for each group and one for all others. */
export function seriesOf(stats: Stats, pick: Measure, label: string): readonly ChartSeries[] {
  const of = (buckets: readonly StatsBucket[]): readonly (number | undefined)[] => buckets.map(pick);
  const { groups } = stats;
  if (groups === undefined || groups.length === 0) return [{ label, values: of(stats.buckets) }];
  const rows = groups.map(({ name, buckets }) => ({ label: nameOf(name), values: of(buckets) }));
  const rest = stats.buckets.map(
    (bucket, at) => (pick(bucket) ?? 0) - rows.reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
  );
  return rest.some((value) => value > 0) ? [...rows, { label: "others", values: rest }] : rows;
}

/** A version by the start of its fingerprint; agents and models as they are. */
function nameOf(name: string): string {
  return name.startsWith("sha256:") ? shortHash(name) : cut(name, 28);
}

/** How a number changed, in words for everyone and a sign for those who see it; undefined if it did not. */
export function changeOf(now: number | undefined, before: number | undefined): string | undefined {
  if (now === undefined || before === undefined || before === 0 || now === before) return undefined;
  const share = Math.round((now / before - 1) * 100);
  return share === 0 ? undefined : `${share > 0 ? "▲" : "▼"} ${formatCount(Math.abs(share))} %`;
}

/** How the share of failed runs changed: in points, not in percent of a percent. */
export function pointsOf(now: RunNumbers, before: RunNumbers | undefined): string | undefined {
  if (before === undefined || before.runs === 0) return undefined;
  const points = Math.round((failedShare(now) - failedShare(before)) * 1_000) / 10;
  return points === 0 ? undefined : `${points > 0 ? "▲" : "▼"} ${Math.abs(points)} points`;
}

const failedShare = ({ failed, runs }: RunNumbers): number => failed / Math.max(runs, 1);

function tokensOf({ inputTokens, outputTokens }: RunNumbers): number {
  return inputTokens + outputTokens;
}

function Charts({ stats, before, agent, split }: BodyProps): ReactNode {
  const { total } = stats;
  const times = useMemo(() => stats.buckets.map(({ at }) => Date.parse(at) / 1_000), [stats.buckets]);
  const rows = useMemo(() => {
    const lines: readonly ChartSeries[] =
      stats.groups === undefined
        ? [
            { label: "p50", values: stats.buckets.map(({ p50Ms }) => p50Ms) },
            { label: "p95", values: stats.buckets.map(({ p95Ms }) => p95Ms), color: "text-agent-kind-wait" },
          ]
        : stats.groups
            .map(({ name, buckets }) => ({ label: nameOf(name), values: buckets.map(({ p50Ms }) => p50Ms) }))
            .filter(({ values }) => values.some((value) => value !== undefined));
    const failed = seriesOf(stats, (one) => one.failed, "failed");
    return {
      runs: seriesOf(stats, (one) => one.runs, "runs"),
      failed: split === undefined ? failed.map((one) => ({ ...one, color: "text-agent-danger" })) : failed,
      lines,
      tokens: seriesOf(stats, tokensOf, "tokens"),
      cost: seriesOf(stats, (one) => one.costMicros, "cost").map((one) =>
        split === undefined ? { ...one, color: "text-agent-kind-tool" } : one,
      ),
    };
  }, [stats, split]);
  const shared = {
    times,
    bucketS: stats.bucketS,
    open: (at: number, status?: string): void => {
      const from = times[at];
      if (from === undefined) return;
      const moment = (seconds: number): string => new Date(seconds * 1_000).toISOString();
      navigate(to(["runs"], { agent, status, since: moment(from), until: moment(from + stats.bucketS) }));
    },
  };
  return (
    <div className="grid gap-3 md:grid-cols-2 xl:grid-cols-6">
      {stats.tools === undefined ? (
        <RunFigures {...shared} stats={stats} before={before} rows={rows} />
      ) : (
        <ToolFigures {...shared} tools={stats.tools} />
      )}
      <Figure
        {...shared}
        className="xl:col-span-3"
        title="Cost"
        total={formatCost(total.costMicros)}
        change={changeOf(total.costMicros, before?.costMicros)}
        about={total.runs === 0 ? undefined : `${formatCost(total.costMicros / total.runs)} a run`}
        kind="bars"
        format={formatCost}
        series={rows.cost}
      />
      <Figure
        {...shared}
        className="md:max-xl:col-span-2 xl:col-span-3"
        title="Tokens"
        total={formatShort(tokensOf(total))}
        change={changeOf(tokensOf(total), before === undefined ? undefined : tokensOf(before))}
        about={`${formatShort(total.inputTokens)} in, ${formatShort(total.outputTokens)} out`}
        kind="bars"
        format={formatShort}
        series={rows.tokens}
      />
    </div>
  );
}

type Shared = Pick<FigureProps, "times" | "bucketS" | "open">;

/** How many runs, how many of them failed, and how long they took. */
function RunFigures({
  stats: { total },
  before,
  rows,
  ...shared
}: Shared &
  Pick<BodyProps, "stats" | "before"> & {
    readonly rows: Readonly<Record<"runs" | "failed" | "lines", readonly ChartSeries[]>>;
  }): ReactNode {
  return (
    <>
      <Figure
        {...shared}
        className="xl:col-span-2"
        title="Runs"
        total={formatCount(total.runs)}
        change={changeOf(total.runs, before?.runs)}
        kind="bars"
        format={formatShort}
        series={rows.runs}
      />
      <Figure
        {...shared}
        className="xl:col-span-2"
        title="Failed"
        total={formatPercent(failedShare(total))}
        change={pointsOf(total, before)}
        about={`${formatCount(total.failed)} of ${formatCount(total.runs)}`}
        kind="bars"
        format={formatShort}
        series={rows.failed}
        status="failed"
      />
      <Figure
        {...shared}
        className="xl:col-span-2"
        title="Time to answer"
        total={total.p50Ms === undefined ? "–" : `p50 ${formatDuration(total.p50Ms)}`}
        change={changeOf(total.p50Ms, before?.p50Ms)}
        about={total.p95Ms === undefined ? undefined : `p95 ${formatDuration(total.p95Ms)}`}
        kind="lines"
        format={formatDuration}
        series={rows.lines}
      />
    </>
  );
}

/** The rows of a chart of calls, one for each tool. */
export function toolSeries(
  tools: readonly ToolGroup[],
  pick: (bucket: ToolBucket) => number | undefined,
): readonly ChartSeries[] {
  return tools
    .map(({ tool, buckets }) => ({ label: nameOf(tool), values: buckets.map(pick) }))
    .filter(({ values }) => values.some((value) => value !== undefined && value > 0));
}

/** The calls of the tools that are called most: how many, how many of them failed, and how long they took. */
function ToolFigures({ tools, ...shared }: Shared & { readonly tools: readonly ToolGroup[] }): ReactNode {
  const rows = useMemo(
    () => ({
      calls: toolSeries(tools, ({ calls }) => calls),
      failed: toolSeries(tools, ({ failed }) => failed),
      means: toolSeries(tools, ({ meanMs }) => meanMs),
    }),
    [tools],
  );
  const calls = tools.reduce((sum, one) => sum + one.calls, 0);
  const failed = tools.reduce((sum, one) => sum + one.failed, 0);
  const slowest = tools.toSorted((one, other) => (other.meanMs ?? 0) - (one.meanMs ?? 0))[0];
  return (
    <>
      <Figure
        {...shared}
        className="xl:col-span-2"
        title="Calls"
        total={formatCount(calls)}
        about={`of ${plural(tools.length, "tool")}`}
        kind="bars"
        format={formatShort}
        series={rows.calls}
      />
      <Figure
        {...shared}
        className="xl:col-span-2"
        title="Failed calls"
        total={formatPercent(failed / Math.max(calls, 1))}
        about={`${formatCount(failed)} of ${formatCount(calls)}`}
        kind="bars"
        format={formatShort}
        series={rows.failed}
      />
      <Figure
        {...shared}
        className="xl:col-span-2"
        title="Mean time of a call"
        total={slowest?.meanMs === undefined ? "–" : formatDuration(slowest.meanMs)}
        about={slowest === undefined ? undefined : `${nameOf(slowest.tool)}, the slowest`}
        kind="lines"
        format={formatDuration}
        series={rows.means}
      />
    </>
  );
}

interface FigureProps {
  readonly title: string;
  /** The number that sums it up. */
  readonly total: string;
  /** How that changed from the time before. */
  readonly change?: string | undefined;
  readonly about?: string | undefined;
  readonly kind: "bars" | "lines";
  readonly format: (value: number) => string;
  readonly series: readonly ChartSeries[];
  readonly times: readonly number[];
  readonly bucketS: number;
  readonly open: (at: number, status?: string) => void;
  /** Which of the runs are meant. */
  readonly status?: string | undefined;
  readonly className?: string | undefined;
}

/** A number, how it changed, and its course over time. */
function Figure({ title, total, change, about, status, open, className, ...chart }: FigureProps): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id} className={classes(CARD, "flex min-w-0 flex-col gap-1 px-4 py-3", className)}>
      <div className="flex flex-wrap items-center justify-between gap-x-3">
        <h2 id={id} className="text-sm text-agent-muted">
          {title}
        </h2>
        {chart.series.length > 1 && (
          <ul aria-hidden className="flex min-w-0 flex-wrap gap-x-3 text-xs text-agent-muted">
            {chart.series.map((one, at) => (
              <li key={one.label} className="inline-flex items-center gap-1.5">
                <Swatch color={colorOf(one, at)} />
                {one.label}
              </li>
            ))}
          </ul>
        )}
      </div>
      <p className="flex flex-wrap items-baseline gap-x-2 text-xs text-agent-muted tabular-nums">
        <span className="text-number font-bold text-agent-text">{total}</span>
        {change !== undefined && <span title="against the time before">{change}</span>}
        {about !== undefined && <span>{about}</span>}
      </p>
      <Chart
        label={title}
        {...chart}
        onPick={(at) => {
          open(at, status);
        }}
      />
    </section>
  );
}

const ROW = "flex min-h-agent-row items-center justify-between gap-3 not-last:border-b border-agent-border";
const WANTS: readonly (readonly [kind: string, word: string])[] = [
  ["recovery", "interrupted call"],
  ["approval", "approval"],
  ["question", "question"],
  ["authorization", "authorization"],
];

/** What waits for people, by kind. */
export function waitingByKind(
  requests: readonly Approval[],
): readonly { readonly kind: string; readonly word: string; readonly count: number; readonly oldest: string }[] {
  return WANTS.flatMap(([kind, word]) => {
    const found = requests.filter(({ request }) => (request.kind ?? "approval") === kind);
    const oldest = found.map(({ askedAt }) => askedAt ?? "").toSorted()[0];
    return oldest === undefined ? [] : [{ kind, word, count: found.length, oldest }];
  });
}

function NeedsPeople(): ReactNode {
  const now = useNow();
  const { data } = useQuery(approvalsQuery);
  const rows = waitingByKind(data?.requests ?? []);
  return (
    <Panel title="Needs people" aside={<TextLink href="/approvals">Inbox</TextLink>}>
      {rows.length === 0 && <p className="text-sm text-agent-muted">Nothing waits for a person.</p>}
      <ul>
        {rows.map(({ kind, word, count, oldest }) => (
          <li key={kind} className={ROW}>
            <TextLink href={to(["approvals"], { kind })}>{plural(count, word)}</TextLink>
            {oldest !== "" && <span className="text-agent-muted">oldest {formatAgo(oldest, now)}</span>}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** What the journal was good for: runs that outlived their process, and runs that are kept while they wait. */
function Durability({ stats, range, agent }: Pick<BodyProps, "stats" | "range" | "agent">): ReactNode {
  const { data } = useInfiniteQuery(runsQuery({ time: range, filter: { agent, crashed: true } }));
  const page = data?.pages[0];
  const crashed = page === undefined ? "–" : `${formatCount(page.runs.length)}${page.next == null ? "" : "+"}`;
  return (
    <Panel title="Durability">
      <ul>
        <li className={ROW}>
          <TextLink href={to(["runs"], { crashed: 1, time: range, agent, subagents: 1 })}>
            Runs that survived a crash
          </TextLink>
          <span className="tabular-nums">{crashed}</span>
        </li>
        <li className={ROW}>
          <TextLink href={to(["runs"], { status: "waiting", agent })}>Runs kept while they wait</TextLink>
          <span className="tabular-nums">{formatCount(stats.waiting.runs)}</span>
        </li>
      </ul>
    </Panel>
  );
}

function ToolsByRate({ tools, range }: { readonly tools: Stats["failingTools"]; readonly range: Range }): ReactNode {
  const shown = tools.slice(0, TOOLS_MAX);
  return (
    <Panel
      title="Tools by failure rate"
      aside={<TextLink href={to(["overview"], { split: "tool", range })}>Over time</TextLink>}
    >
      {shown.length === 0 && <p className="text-sm text-agent-muted">No call failed in the last {range}.</p>}
      <ul>
        {shown.map(({ tool, calls, failed }) => (
          <li key={tool} className={ROW}>
            <span className="min-w-0 flex-1 truncate font-mono text-xs">{tool}</span>
            <span className="shrink-0 text-agent-muted tabular-nums">
              {formatCount(failed)} of {formatCount(calls)}
              {calls < CALLS_ENOUGH && ", few calls"}
            </span>
            <span className="w-12 shrink-0 text-right tabular-nums">{formatPercent(failed / Math.max(calls, 1))}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Causes({ agent }: { readonly agent: string | undefined }): ReactNode {
  const { data } = useQuery(failuresQuery(agent));
  const causes = (data?.groups ?? [])
    .flatMap((group) => group.causes)
    .toSorted((one, other) => other.count - one.count)
    .slice(0, CAUSES_MAX);
  return (
    <Panel
      title="Why runs fail"
      aside={<TextLink href={to(["decisions"], { view: "failures", agent })}>By cause</TextLink>}
    >
      {data !== undefined && causes.length === 0 && <p className="text-sm text-agent-muted">None failed.</p>}
      <ul>
        {causes.map(({ told, count }) => (
          <li key={told} className={ROW}>
            <TextLink
              href={to(["decisions"], { view: "failures", agent, cause: told })}
              className="min-w-0 flex-1 truncate"
              title={told}
            >
              {told}
            </TextLink>
            <span className="shrink-0 tabular-nums">{formatCount(count)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

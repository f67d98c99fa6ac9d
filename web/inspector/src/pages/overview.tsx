/** Counts, durations and cost of runs. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { Approval, LimitInfo, RunNumbers, Stats, ToolBucket, ToolGroup } from "@windlass/protocol/client";
import {
  Button,
  CARD,
  Chip,
  CHIPS,
  classes,
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
  type TableColumn,
} from "@windlass/ui";
import { ChartColumn, Table2 } from "lucide-react";
import { useId, useMemo, useState, type ReactNode } from "react";
import { CALLED, GROUPED, SEARCH, TIMES, to, type ListTime } from "../addresses.js";
import {
  Chart,
  colorOf,
  intervalOf,
  niceCount,
  niceMicros,
  niceMs,
  Swatch,
  valueAt,
  type ChartProps,
  type ChartSeries,
} from "../chart.js";
import { cachedShare } from "../costs.js";
import { AgentSelect, Select } from "../form.js";
import { column, Table } from "../list.js";
import { Command, Empty, Failure, Heading, Loading, TextLink, useNow } from "../parts.js";
import {
  agentsQuery,
  approvalsQuery,
  failuresQuery,
  limitsQuery,
  runsQuery,
  statsQuery,
  TIMES_MS,
} from "../queries.js";
import { navigate, useSearch } from "../router.js";
import { causesOf, causeWords } from "./failures.js";

/** The ways to split a chart. A subagent is counted with the run that it works for, but its model by itself. */
const SPLITS = {
  agent: "by agent",
  user: "by user",
  model: "by model",
  version: "by version",
  tool: "by tool",
} as const;
type Split = keyof typeof SPLITS;
/** Divides every range into parts of whole seconds. */
const PARTS = 48;
const TOOLS_MAX = 6;
const CAUSES_MAX = 6;
/** Fewer calls than this say little about how often a tool fails. */
const CALLS_ENOUGH = 5;

/** Counts, failures, durations and cost of runs over time, and the requests that wait. */
export function OverviewPage(): ReactNode {
  const [{ range, agent, compare }, change, set] = useSearch(SEARCH.overview);
  const isCompared = compare !== "no";
  const { data, error, refetch } = useQuery(statsQuery(TIMES_MS[range], PARTS, { agent }));
  const before = useQuery({
    ...statsQuery(TIMES_MS[range], PARTS, { agent, isBefore: true }),
    enabled: isCompared,
  });
  return (
    <>
      <Heading title="Overview">
        <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
          <AgentSelect all="all" value={agent} onChange={set("agent")} />
          <Select
            label="Time"
            value={range}
            options={TIMES.map((time) => [time, `last ${time}`] as const)}
            onChange={set("range")}
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
        <Body stats={data} before={isCompared ? before.data?.total : undefined} range={range} agent={agent} />
      )}
    </>
  );
}

interface BodyProps {
  readonly stats: Stats;
  /** The same time before this one. */
  readonly before: RunNumbers | undefined;
  readonly range: ListTime;
  readonly agent: string | undefined;
}

function Body(props: BodyProps): ReactNode {
  const { stats, range, agent } = props;
  if (stats.total.runs === 0 && stats.waiting.runs === 0) {
    return <NoRuns range={range} agent={agent} />;
  }
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-3 overflow-y-auto p-4">
      <div className="grid gap-3 md:grid-cols-2">
        <RunsFigure {...props} />
        <FailedFigure {...props} />
        <TimeFigure {...props} />
        <CostFigure {...props} />
      </div>
      <div className="grid gap-3 md:grid-cols-2 xl:grid-cols-3">
        <NeedsPeople />
        <Limits />
        <ToolsByRate tools={stats.failingTools} range={range} />
        <Durability stats={stats} range={range} agent={agent} />
      </div>
      <div className="grid gap-3 md:grid-cols-2">
        <TokensFigure {...props} />
        <Causes agent={agent} range={range} />
      </div>
    </div>
  );
}

function NoRuns({ range, agent }: Pick<BodyProps, "range" | "agent">): ReactNode {
  const agents = useQuery(agentsQuery);
  const name = agent ?? agents.data?.[0]?.agentId ?? "AGENT";
  const body = JSON.stringify({ agent: name, message: "Hello" });
  return (
    <Empty title={`Nothing ran in the last ${range}.`}>
      <p>
        Runs, failures, durations, tokens and cost over time appear here with the first run.{" "}
        <TextLink href="/chat">Begin one</TextLink>, or look at a longer time.
      </p>
      <Command
        title="Start a run"
        text={`curl ${location.origin}/v1/sessions -H 'content-type: application/json' -d '${body}'`}
      />
    </Empty>
  );
}

/** The rows of a chart: one, or one for each group and one for all others. */
export function seriesOf(
  stats: Stats,
  pick: (numbers: RunNumbers) => number,
  label: string,
  format: (value: number) => string = formatCount,
): readonly ChartSeries[] {
  const { groups } = stats;
  if (groups === undefined || groups.length === 0) return [{ label, values: stats.buckets.map(pick) }];
  const rows = groups.map(({ name, buckets, total }) => ({
    label: nameOf(name),
    values: buckets.map(pick),
    total: format(pick(total)),
  }));
  const rest = stats.buckets.map(
    (bucket, at) => pick(bucket) - rows.reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
  );
  if (!rest.some((value) => value > 0)) return rows;
  return [...rows, { label: "others", values: rest, total: format(rest.reduce((sum, value) => sum + value, 0)) }];
}

/** Runs or calls, and how many of them failed. */
interface Tally {
  readonly count: number;
  readonly failed: number;
}

/** The share that failed, interval by interval; the counts stand beside it. Nothing ran, nothing is drawn. */
export function rateRow(label: string, buckets: readonly Tally[], total?: Tally): ChartSeries {
  return {
    label,
    values: buckets.map(({ count, failed }) => (count === 0 ? undefined : failed / count)),
    notes: buckets.map(({ count, failed }) =>
      count === 0 ? undefined : `${formatCount(failed)} of ${formatCount(count)}`,
    ),
    total: total && formatPercent(total.failed / Math.max(total.count, 1)),
  };
}

const tallyOf = ({ runs, failed }: RunNumbers): Tally => ({ count: runs, failed });

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

/** The charts, by the names of their splits in the address. */
type PanelName = "runs" | "failed" | "time" | "cost" | "tokens";

/** The statistics of a chart, split as its panel says. */
interface Shown {
  readonly stats: Stats;
  readonly split: Split | undefined;
  /** The calls of tools, if it is split by them. */
  readonly tools: readonly ToolGroup[] | undefined;
  readonly figure: Pick<FigureProps, "name" | "splits" | "split" | "onSplit" | "times" | "bucketS" | "open">;
}

/** Each panel has a split of its own, kept in the address. Panels with the same one share a request. */
function useSplit(name: PanelName, splits: readonly Split[], { stats, range, agent }: BodyProps): Shown {
  const [search, change] = useSearch(SEARCH.overview);
  const split = search[`${name}-by`];
  const { data } = useQuery({
    ...statsQuery(TIMES_MS[range], PARTS, { agent, split }),
    enabled: split !== undefined,
  });
  // Until the split is here, the whole is shown.
  const isHere = split === "tool" ? data?.tools !== undefined : data?.groups !== undefined;
  const counted = split !== undefined && isHere ? (data ?? stats) : stats;
  const times = useMemo(() => counted.buckets.map(({ at }) => Date.parse(at) / 1_000), [counted.buckets]);
  return {
    stats: counted,
    split: counted === stats ? undefined : split,
    tools: counted === stats || split !== "tool" ? undefined : counted.tools,
    figure: {
      name,
      splits,
      split,
      onSplit: (next) => {
        change({ [`${name}-by`]: next });
      },
      times,
      bucketS: counted.bucketS,
      open: (at, status) => {
        const from = times[at];
        if (from === undefined) return;
        const moment = (seconds: number): string => new Date(seconds * 1_000).toISOString();
        navigate(to("runs", [], { agent, status, since: moment(from), until: moment(from + counted.bucketS) }));
      },
    },
  };
}

function RunsFigure(props: BodyProps): ReactNode {
  const { stats, tools, figure } = useSplit("runs", CALLED, props);
  const series = useMemo(
    () =>
      tools === undefined
        ? seriesOf(stats, ({ runs }) => runs, "runs")
        : toolSeries(tools, ({ calls }) => calls, formatCount),
    [stats, tools],
  );
  const { total } = stats;
  return (
    <Figure
      {...figure}
      title={tools === undefined ? "Runs" : "Calls"}
      total={formatCount(tools === undefined ? total.runs : sumOf(tools, ({ calls }) => calls))}
      change={tools === undefined ? changeOf(total.runs, props.before?.runs) : undefined}
      kind="bars"
      format={formatShort}
      scale={niceCount}
      series={series}
    />
  );
}

/** The share of runs that failed, or of calls. Shares cannot stand on each other: groups are lines. */
function FailedFigure(props: BodyProps): ReactNode {
  const { stats, tools, split, figure } = useSplit("failed", CALLED, props);
  const series = useMemo((): readonly ChartSeries[] => {
    if (tools !== undefined)
      return tools
        .filter(({ failed }) => failed > 0)
        .map((tool) => rateRow(nameOf(tool.tool), tool.buckets.map(callsOf), callsOf(tool)));
    if (stats.groups === undefined)
      return [{ ...rateRow("failed", stats.buckets.map(tallyOf)), color: "text-agent-danger" }];
    return stats.groups.map(({ name, buckets, total }) => rateRow(nameOf(name), buckets.map(tallyOf), tallyOf(total)));
  }, [stats, tools]);
  const { count, failed }: Tally =
    tools === undefined
      ? tallyOf(stats.total)
      : { count: sumOf(tools, ({ calls }) => calls), failed: sumOf(tools, (tool) => tool.failed) };
  return (
    <Figure
      {...figure}
      title={tools === undefined ? "Failed" : "Failed calls"}
      total={formatPercent(failed / Math.max(count, 1))}
      change={tools === undefined ? pointsOf(stats.total, props.before) : undefined}
      about={`${formatCount(failed)} of ${formatCount(count)}`}
      kind={split === undefined ? "bars" : "lines"}
      format={formatPercent}
      series={series}
      status={tools === undefined ? "failed" : undefined}
    />
  );
}

function TimeFigure(props: BodyProps): ReactNode {
  const { stats, tools, figure } = useSplit("time", CALLED, props);
  const series = useMemo((): readonly ChartSeries[] => {
    if (tools !== undefined) return toolSeries(tools, ({ meanMs }) => meanMs, formatDuration);
    if (stats.groups === undefined)
      return [
        { label: "p50", values: stats.buckets.map(({ p50Ms }) => p50Ms) },
        {
          label: "p95",
          values: stats.buckets.map(({ p95Ms }) => p95Ms),
          total: stats.total.p95Ms === undefined ? undefined : formatDuration(stats.total.p95Ms),
          color: "text-agent-kind-wait",
        },
      ];
    return stats.groups
      .map(({ name, buckets, total }) => ({
        label: nameOf(name),
        values: buckets.map(({ p50Ms }) => p50Ms),
        total: total.p50Ms === undefined ? undefined : formatDuration(total.p50Ms),
      }))
      .filter(({ values }) => values.some((value) => value !== undefined));
  }, [stats, tools]);
  const { p50Ms } = stats.total;
  const slowest = tools?.toSorted((tool, other) => (other.meanMs ?? 0) - (tool.meanMs ?? 0))[0];
  const [title, total] =
    tools === undefined
      ? ["Time to answer", p50Ms === undefined ? "–" : `p50 ${formatDuration(p50Ms)}`]
      : ["Mean time of a call", slowest?.meanMs === undefined ? "–" : formatDuration(slowest.meanMs)];
  return (
    <Figure
      {...figure}
      title={title}
      total={total}
      change={tools === undefined ? changeOf(p50Ms, props.before?.p50Ms) : undefined}
      about={slowest === undefined ? undefined : `${nameOf(slowest.tool)}, the slowest`}
      kind="lines"
      format={formatDuration}
      scale={niceMs}
      series={series}
    />
  );
}

function CostFigure(props: BodyProps): ReactNode {
  const { stats, split, figure } = useSplit("cost", GROUPED, props);
  const series = useMemo(() => {
    const rows = seriesOf(stats, ({ costMicros }) => costMicros, "cost", formatCost);
    return split === undefined ? rows.map((row) => ({ ...row, color: "text-agent-kind-tool" })) : rows;
  }, [stats, split]);
  const { costMicros, runs } = stats.total;
  return (
    <Figure
      {...figure}
      title="Cost"
      total={formatCost(costMicros)}
      change={changeOf(costMicros, props.before?.costMicros)}
      about={runs === 0 ? undefined : `${formatCost(costMicros / runs)} a run`}
      kind="bars"
      format={formatCost}
      scale={niceMicros}
      series={series}
    />
  );
}

/** How much of the input came from caches; empty if nothing did. */
export function cachedWords(numbers: RunNumbers): string {
  return (numbers.cacheReadTokens ?? 0) > 0 ? ` (${cachedShare(numbers)} cached)` : "";
}

function TokensFigure(props: BodyProps): ReactNode {
  const { stats, figure } = useSplit("tokens", GROUPED, props);
  const series = useMemo(() => seriesOf(stats, tokensOf, "tokens", formatShort), [stats]);
  const { total } = stats;
  const before = props.before === undefined ? undefined : tokensOf(props.before);
  return (
    <Figure
      {...figure}
      title="Tokens"
      total={formatShort(tokensOf(total))}
      change={changeOf(tokensOf(total), before)}
      about={`${formatShort(total.inputTokens)} in${cachedWords(total)}, ${formatShort(total.outputTokens)} out`}
      kind="bars"
      format={formatShort}
      scale={niceCount}
      series={series}
    />
  );
}

const callsOf = ({ calls, failed }: { readonly calls: number; readonly failed: number }): Tally => ({
  count: calls,
  failed,
});

function sumOf<T>(all: readonly T[], pick: (item: T) => number): number {
  return all.reduce((sum, item) => sum + pick(item), 0);
}

/** The rows of a chart of calls, one for each tool that has a value. */
export function toolSeries(
  tools: readonly ToolGroup[],
  pick: (calls: Pick<ToolBucket, "calls" | "failed" | "meanMs">) => number | undefined,
  format: (value: number) => string,
): readonly ChartSeries[] {
  return tools
    .map((tool) => {
      const total = pick(tool);
      return {
        label: nameOf(tool.tool),
        values: tool.buckets.map(pick),
        total: total === undefined ? undefined : format(total),
      };
    })
    .filter(({ values }) => values.some((value) => value !== undefined && value > 0));
}

interface FigureProps extends Omit<ChartProps, "label" | "onPick"> {
  readonly name: PanelName;
  readonly title: string;
  /** The number that sums it up. */
  readonly total: string;
  /** How that changed from the time before. */
  readonly change?: string | undefined;
  readonly about?: string | undefined;
  readonly splits: readonly Split[];
  readonly split: Split | undefined;
  readonly onSplit: (split: string) => void;
  readonly open: (at: number, status?: "failed") => void;
  /** Which of the runs are meant. */
  readonly status?: "failed" | undefined;
}

/** A number, how it changed, and its course over time as a chart or as a table. */
function Figure(props: FigureProps): ReactNode {
  const { name, title, total, change, about, splits, split, onSplit, open, status, ...chart } = props;
  const id = useId();
  const [isTable, setIsTable] = useState(false);
  const onPick = (at: number): void => {
    open(at, status);
  };
  const Other = isTable ? ChartColumn : Table2;
  const other = isTable ? "Show as a chart" : "Show as a table";
  return (
    <section aria-labelledby={id} className={classes(CARD, "flex min-w-0 flex-col gap-1 px-4 py-3")}>
      <div className="flex items-center gap-x-1.5">
        <h2 id={id} className="mr-auto text-sm text-agent-muted">
          {title}
        </h2>
        <select
          aria-label={`Split of ${title.toLowerCase()}`}
          className={classes(CHIPS.off, "field-sizing-content border-agent-field! bg-agent-bg!")}
          value={split ?? ""}
          onChange={(event) => {
            onSplit(event.target.value);
          }}
        >
          <option value="">no split</option>
          {splits.map((split) => (
            <option key={split} value={split}>
              {SPLITS[split]}
            </option>
          ))}
        </select>
        <Button
          variant="quiet"
          aria-label={`${other}: ${title.toLowerCase()}`}
          title={other}
          className="min-h-6! px-1.5! py-0!"
          onClick={() => {
            setIsTable(!isTable);
          }}
        >
          <Other aria-hidden size={14} />
        </Button>
      </div>
      <div className="flex flex-wrap items-baseline gap-x-3 text-xs text-agent-muted tabular-nums">
        <p className="flex flex-wrap items-baseline gap-x-2">
          <span className="text-number font-bold text-agent-text">{total}</span>
          {change !== undefined && <span title="against the time before">{change}</span>}
          {about !== undefined && <span>{about}</span>}
        </p>
        {(chart.series.length > 1 || chart.series[0]?.total !== undefined) && (
          <ul className="flex min-w-0 flex-wrap gap-x-3">
            {chart.series.map((line, at) => (
              <li key={line.label} className="inline-flex items-center gap-1.5">
                <Swatch color={colorOf(line, at)} />
                {line.label}
                {line.total !== undefined && <span className="font-semibold text-agent-text">{line.total}</span>}
              </li>
            ))}
          </ul>
        )}
      </div>
      {isTable ? (
        <IntervalTable {...chart} name={name} label={title} onPick={onPick} />
      ) : (
        <Chart label={title} {...chart} onPick={onPick} />
      )}
    </section>
  );
}

/** The intervals of a chart as rows, the newest first. */
function IntervalTable(props: ChartProps & { readonly name: PanelName }): ReactNode {
  const { name, label, times, bucketS, series, format, onPick } = props;
  const rows = useMemo(() => times.map((_, at) => at).toReversed(), [times]);
  const columns = useMemo(
    (): readonly TableColumn<number>[] => [
      column("interval", "Interval", { width: 150, share: 1 }, (at) => intervalOf(times[at] ?? 0, bucketS)),
      ...series.map((line) =>
        column<number>(line.label, line.label, { width: 110, isNumber: true }, (at) => valueAt(line, at, format)),
      ),
    ],
    [times, bucketS, series, format],
  );
  return (
    <div className="-mx-4 -mb-3 flex h-52 flex-col border-t border-agent-border">
      <Table
        name={`overview-${name}`}
        label={`${label}: intervals`}
        rows={rows}
        columns={columns}
        keyOf={String}
        onOpen={onPick}
      />
    </div>
  );
}

const ROW = "flex min-h-agent-row items-center justify-between gap-3 not-last:border-b border-agent-border";
const WANTS: readonly (readonly [kind: string, word: string])[] = [
  ["recovery", "interrupted call"],
  ["approval", "approval"],
  ["question", "question"],
  ["authorization", "authorization"],
];

/** Requests that wait for people, by kind. */
export function waitingByKind(
  requests: readonly Approval[],
): readonly { readonly kind: string; readonly word: string; readonly count: number; readonly oldest: string }[] {
  return WANTS.flatMap(([kind, word]) => {
    const ofKind = requests.filter(({ request }) => (request.kind ?? "approval") === kind);
    const oldest = ofKind.map(({ askedAt }) => askedAt ?? "").toSorted()[0];
    return oldest === undefined ? [] : [{ kind, word, count: ofKind.length, oldest }];
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
            <TextLink href={to("approvals", [], { kind })}>{plural(count, word)}</TextLink>
            {oldest !== "" && <span className="text-agent-muted">oldest {formatAgo(oldest, now)}</span>}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** The amounts of a limit: of money, of tokens, or of both. */
function amountsOf(costMicros: number | undefined, tokens: number | undefined): string {
  const money = costMicros === undefined ? [] : [formatCost(costMicros)];
  return [...money, ...(tokens === undefined ? [] : [`${formatShort(tokens)} tokens`])].join(", ");
}

/** What is left of a limit, and of how much; a limit of each run is never used up. */
export function leftOf(limit: LimitInfo): string {
  const most = amountsOf(limit.maxCostMicros, limit.maxTokens);
  if (limit.period === undefined) return `${most} a ${limit.per}`;
  return `${amountsOf(limit.costMicrosLeft, limit.tokensLeft)} of ${most}`;
}

/** For whom a limit is: the owner or agent of a purse, or those that the limit names. */
export function scopeOf({ subject, owner, agent }: LimitInfo): string {
  return subject ?? [owner, agent].filter((name) => name !== undefined).join(" ");
}

function Limits(): ReactNode {
  const { data } = useQuery(limitsQuery);
  const limits = data?.limits ?? [];
  if (limits.length === 0) return null;
  return (
    <Panel title="Limits: what is left">
      <ul>
        {limits.map((limit) => (
          <li key={`${limit.name}/${limit.subject ?? ""}`} className={ROW}>
            <span className="min-w-0 flex-1 truncate">
              {limit.name} <span className="text-agent-muted">{scopeOf(limit)}</span>
            </span>
            <span
              className="shrink-0 tabular-nums"
              title={limit.endsAt === undefined ? undefined : `begins anew at ${limit.endsAt}`}
            >
              {leftOf(limit)}
            </span>
          </li>
        ))}
        {data?.next === undefined ? null : <li className={ROW}>windlass limits list shows the others.</li>}
      </ul>
    </Panel>
  );
}

/** Runs that outlived their process, and calls that are kept while they wait. */
function Durability({ stats, range, agent }: Pick<BodyProps, "stats" | "range" | "agent">): ReactNode {
  const now = useNow();
  const { data } = useInfiniteQuery(runsQuery({ time: range, filter: { agent, crashed: true } }));
  const page = data?.pages[0];
  const crashed = page === undefined ? "–" : `${formatCount(page.runs.length)}${page.next == null ? "" : "+"}`;
  const { requests, oldestAskedAt } = stats.waiting;
  const waited = oldestAskedAt === undefined ? "–" : formatDuration(Math.max(now - Date.parse(oldestAskedAt), 0));
  return (
    <Panel title="Durability">
      <ul>
        <li className={ROW}>
          <TextLink href={to("runs", [], { crashed: "1", time: range, agent, subagents: "1" })}>
            Runs that survived a crash
          </TextLink>
          <span className="tabular-nums">{crashed}</span>
        </li>
        <li className={ROW}>
          <TextLink href={to("approvals")}>Calls parked for a person</TextLink>
          <span className="tabular-nums">{formatCount(requests)}</span>
        </li>
        <li className={ROW}>
          <span>Longest wait so far</span>
          <span className="tabular-nums">{waited}</span>
        </li>
      </ul>
    </Panel>
  );
}

function ToolsByRate({ tools, range }: { readonly tools: Stats["failingTools"]; readonly range: ListTime }): ReactNode {
  const shown = tools.slice(0, TOOLS_MAX);
  return (
    <Panel
      title="Tools by failure rate"
      aside={
        <TextLink href={to("overview", [], { range, "runs-by": "tool", "failed-by": "tool", "time-by": "tool" })}>
          Over time
        </TextLink>
      }
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

function Causes({ agent, range }: Pick<BodyProps, "agent" | "range">): ReactNode {
  const { data } = useQuery(failuresQuery(agent, range));
  const causes = causesOf(data).slice(0, CAUSES_MAX);
  const page = { view: "failures", agent, time: range } as const;
  return (
    <Panel title="Why runs fail" aside={<TextLink href={to("decisions", [], page)}>By cause</TextLink>}>
      {data !== undefined && causes.length === 0 && (
        <p className="text-sm text-agent-muted">No run failed in the last {range}.</p>
      )}
      <ul>
        {causes.map(({ kind, told: message, count }) => (
          <li key={`${kind} ${message}`} className={ROW}>
            <TextLink
              href={to("decisions", [], { ...page, cause: message })}
              className="min-w-0 flex-1 truncate"
              title={message}
            >
              {causeWords(message)}
            </TextLink>
            <span className="shrink-0 tabular-nums">{formatCount(count)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

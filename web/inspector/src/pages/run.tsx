/** One run. */
import { useQuery } from "@tanstack/react-query";
import type { Event, RunResult, TraceSpan } from "@windlass/protocol";
import type { RunInfo, TraceInfo } from "@windlass/protocol/client";
import {
  classes,
  DecisionCard,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  sentence,
  spanRows,
  type SpanRow,
  useSession,
  shortId,
} from "@windlass/ui";
import { useCallback, useMemo, useState, type ReactNode } from "react";
import { client } from "../auth.js";
import {
  ButtonLink,
  Empty,
  Failure,
  Heading,
  Loading,
  Select,
  SMALL_DANGER,
  Status,
  Tabs,
  useNow,
  VirtualList,
} from "../parts.js";
import { decisionsQuery, isOver, recentRunsQuery, runQuery, traceQuery } from "../queries.js";
import { isStory } from "../records.js";
import { navigate, to, useQueryState } from "../router.js";
import { JournalView, RecordPanel } from "../journal.js";

const SECOND_MS = 1_000;

/** A run: its story, its spans, its decisions and its records. */
export function RunPage({ runId }: { readonly runId: string }): ReactNode {
  const run = useQuery(runQuery(runId));
  const sessionId = run.data?.run.sessionId;
  const journal = useSession(sessionId);
  const [query, change] = useQueryState();
  const at = Number(query.get("at") ?? "0") || undefined;
  const onSelect = useCallback(
    (seq: number) => {
      change({ at: seq });
    },
    [change],
  );
  const records = useMemo(() => journal.records.filter((record) => record.runId === runId), [journal.records, runId]);
  const error = run.error ?? journal.error;
  const beside = (view: ReactNode): ReactNode => (
    <div className="flex min-h-0 flex-1 flex-col lg:flex-row">
      {view}
      <RecordPanel
        records={journal.records}
        seq={at}
        sessionId={sessionId ?? ""}
        onClose={() => {
          change({ at: undefined });
        }}
      />
    </div>
  );
  return (
    <>
      <Heading
        title={`Run ${shortId(runId)}`}
        parent={parentOf(sessionId)}
        facts={run.data !== undefined && <RunFacts info={run.data} />}
      >
        {run.data !== undefined && <Links info={run.data} />}
      </Heading>
      {error != null && <Failure error={error} onRetry={() => void run.refetch()} />}
      {run.data?.result?.error !== undefined && <Trouble result={run.data.result} />}
      {run.data !== undefined && (
        <Views info={run.data} records={records} selected={at} onSelect={onSelect} beside={beside} />
      )}
    </>
  );
}

function parentOf(sessionId: string | undefined): { readonly label: string; readonly href: string } {
  return sessionId === undefined
    ? { label: "Runs", href: "/sessions?list=runs" }
    : { label: "Session", href: to(["sessions", sessionId]) };
}

interface ViewsProps extends ViewProps {
  readonly info: RunInfo;
  readonly records: readonly Event[];
  /** Puts the details next to a view. */
  readonly beside: (view: ReactNode) => ReactNode;
}

function Views({ info: { run }, records, selected, onSelect, beside }: ViewsProps): ReactNode {
  const [query, change] = useQueryState();
  const { runId } = run;
  const isLive = !isOver(run.status);
  return (
    <Tabs
      label="Views of the run"
      value={query.get("view") ?? "timeline"}
      onChange={(view) => {
        change({ view, filter: undefined }, { push: true });
      }}
      tabs={[
        {
          id: "timeline",
          label: "Timeline",
          content: () => beside(<Story records={records} selected={selected} onSelect={onSelect} />),
        },
        {
          id: "waterfall",
          label: "Waterfall",
          content: () => beside(<Spans runId={runId} isLive={isLive} selected={selected} onSelect={onSelect} />),
        },
        { id: "decisions", label: "Decisions", content: () => <Decisions runId={runId} isLive={isLive} /> },
        {
          id: "journal",
          label: "Records",
          content: () => beside(<JournalView records={records} isRaw selected={selected} onSelect={onSelect} />),
        },
      ]}
    />
  );
}

function Links({ info }: { readonly info: RunInfo }): ReactNode {
  const { runId, sessionId, agentId, status } = info.run;
  const [error, setError] = useState<string>();
  const others = useQuery(recentRunsQuery(agentId));
  const stop = (): void => {
    client.cancelRun(runId).catch((failure: unknown) => {
      setError(failure instanceof Error ? failure.message : String(failure));
    });
  };
  return (
    <div className="flex flex-wrap items-center gap-2 text-sm">
      {sessionId !== undefined && <ButtonLink href={to(["chat", sessionId])}>Chat</ButtonLink>}
      <Select
        label="Compare with"
        value=""
        options={[
          ["", "another run"],
          ...(others.data ?? [])
            .filter((one) => one.runId !== runId)
            .map((one) => [one.runId, `${shortId(one.runId)} ${one.status}`] as const),
        ]}
        onChange={(other) => {
          if (other !== "") navigate(to(["diff", runId, other]));
        }}
      />
      {!isOver(status) && (
        <button type="button" className={SMALL_DANGER} onClick={stop}>
          Cancel the run
        </button>
      )}
      {error !== undefined && (
        <span role="alert" className="text-agent-danger-text">
          {sentence(error)}
        </span>
      )}
    </div>
  );
}

function RunFacts({ info: { run, result } }: { readonly info: RunInfo }): ReactNode {
  const usage = result?.usage;
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  const facts = [
    run.agentId,
    run.modelId,
    tokens > 0 ? `${formatCount(tokens)} tokens` : "",
    usage?.costMicros === undefined ? "" : formatCost(usage.costMicros),
  ];
  return (
    <>
      <Status status={run.status} />
      <span className="min-w-0 truncate text-xs text-agent-muted">
        {facts.filter((fact) => fact !== "").join(" · ")}
      </span>
    </>
  );
}

function Trouble({ result }: { readonly result: RunResult }): ReactNode {
  return (
    <p
      role="note"
      className="border-b border-l-4 border-agent-border border-l-agent-danger px-4 py-2 text-sm break-words"
    >
      <strong>{result.error?.code}</strong> {sentence(result.error?.message ?? "")}
    </p>
  );
}

interface ViewProps {
  readonly selected: number | undefined;
  readonly onSelect: (seq: number) => void;
}

function Story({ records, ...rest }: ViewProps & { readonly records: readonly Event[] }): ReactNode {
  const story = useMemo(() => records.filter(isStory), [records]);
  return <JournalView records={story} isRaw={false} {...rest} />;
}

function Spans({
  runId,
  isLive,
  selected,
  onSelect,
}: ViewProps & { readonly runId: string; readonly isLive: boolean }): ReactNode {
  const { data, error } = useQuery(traceQuery(runId, isLive));
  const now = useNow(SECOND_MS);
  if (error !== null) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  return <Waterfall trace={data} nowMs={isLive ? now : undefined} selected={selected} onSelect={onSelect} />;
}

function Decisions({ runId, isLive }: { readonly runId: string; readonly isLive: boolean }): ReactNode {
  const { data, error } = useQuery(decisionsQuery(runId, isLive));
  if (error !== null) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  if (data.decisions.length === 0)
    return (
      <Empty title="It has not chosen anything yet.">
        <p>Each tool call and each final answer is a choice, with the options that were there.</p>
      </Empty>
    );
  return (
    <div className="min-h-0 flex-1 overflow-y-auto p-4">
      <p className="mb-4 text-sm text-agent-muted">{data.narrative}</p>
      <ol className="flex max-w-3xl flex-col gap-3">
        {data.decisions.map((decision) => (
          <li key={decision.id}>
            <DecisionCard decision={decision} />
          </li>
        ))}
      </ol>
    </div>
  );
}

const ROW_PX = 28;
const FULL = 100;
const MIN_PERCENT = 0.4;
const INDENT_REM = 0.9;

interface WaterfallProps {
  readonly trace: TraceInfo;
  readonly nowMs: number | undefined;
  readonly selected: number | undefined;
  readonly onSelect: (seq: number) => void;
}

/** The record with which a span began: its id ends with the number. */
export function seqOfSpan({ spanId }: TraceSpan): number | undefined {
  const found = /\/(?:turn|step|call|wait)\/(\d+)(?:\.\d+)?$/u.exec(spanId)?.[1];
  return found === undefined ? undefined : Number(found);
}

/** Spans on one axis of time: what ran when, and how long. */
function Waterfall({ trace, nowMs, selected, onSelect }: WaterfallProps): ReactNode {
  const rows = useMemo(() => spanRows(trace.spans, nowMs), [trace.spans, nowMs]);
  const wholeMs = useMemo(
    () => rows.reduce((most, { startMs, durationMs }) => Math.max(most, startMs + durationMs), 1),
    [rows],
  );
  const at = rows.findIndex(({ span }) => selected !== undefined && seqOfSpan(span) === selected);
  if (rows.length === 0)
    return (
      <Empty title="No spans yet.">
        <p>Model calls, tool calls and waits appear here as soon as they begin.</p>
      </Empty>
    );
  const select = (row: SpanRow | undefined): void => {
    const seq = row === undefined ? undefined : seqOfSpan(row.span);
    onSelect(seq ?? FIRST_SEQ);
  };
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      <p className="flex justify-between px-4 py-1 text-xs text-agent-muted">
        <span>0</span>
        <span>{formatDuration(wholeMs)}</span>
      </p>
      <p className="px-4 pb-1 text-xs text-agent-muted">
        From record to record: the time of a call has the writing of its records in it. The timeline tells how long the
        tool alone took.
      </p>
      <VirtualList
        items={rows}
        label="Spans"
        keyOf={({ span }) => span.spanId}
        rowPx={ROW_PX}
        selected={at}
        onSelect={(next) => {
          select(rows[next]);
        }}
        render={(row) => (
          <Bar
            row={row}
            wholeMs={wholeMs}
            isSelected={selected !== undefined && seqOfSpan(row.span) === selected}
            onSelect={() => {
              select(row);
            }}
          />
        )}
      />
    </div>
  );
}

const FIRST_SEQ = 1;

interface BarProps {
  readonly row: SpanRow;
  readonly wholeMs: number;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
}

function Bar({ row, wholeMs, isSelected, onSelect }: BarProps): ReactNode {
  const { span, depth, startMs, durationMs, isOpen } = row;
  const took = isOpen ? "still running" : formatDuration(durationMs);
  const left = Math.min((startMs / wholeMs) * FULL, FULL - MIN_PERCENT);
  const width = Math.min(Math.max((durationMs / wholeMs) * FULL, MIN_PERCENT), FULL - left);
  return (
    <button
      type="button"
      aria-current={isSelected}
      onClick={onSelect}
      className={classes(
        "flex h-7 w-full cursor-pointer items-center gap-2 px-4 text-left text-xs",
        isSelected ? "bg-agent-raised" : "hover:bg-agent-surface",
        FOCUS,
      )}
    >
      <span className="w-2/5 min-w-0 shrink-0 truncate font-mono" style={{ paddingLeft: `${depth * INDENT_REM}rem` }}>
        {span.name}
      </span>
      <span className="sr-only">after {formatDuration(startMs)}, took</span>
      <span aria-hidden className="relative h-3 flex-1 rounded bg-agent-raised">
        <span
          className={classes("absolute top-0 h-3 rounded", colorOf(span), isOpen && "motion-safe:animate-pulse")}
          style={{ left: `${left}%`, width: `${width}%` }}
        />
      </span>
      <span className="w-20 shrink-0 text-right text-agent-muted">{took}</span>
    </button>
  );
}

function colorOf({ name, attrs }: TraceSpan): string {
  if (attrs?.["error"] !== undefined || attrs?.["status"] === "failed") return "bg-agent-danger";
  if (name.startsWith("tool.")) return "bg-agent-success";
  return name.startsWith("wait") ? "bg-agent-warning" : "bg-agent-accent";
}

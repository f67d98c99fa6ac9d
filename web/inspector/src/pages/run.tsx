import { useQuery } from "@tanstack/react-query";
import type { Event, RunResult } from "@windlass/protocol";
import type { RunInfo } from "@windlass/protocol/client";
import { DecisionCard, formatCost, formatCount, sentence } from "@windlass/ui";
import { useCallback, useMemo, useState, type ReactNode } from "react";
import { client } from "../lib/api.js";
import { shortId } from "../lib/format.js";
import { decisionsQuery, isOver, recentRunsQuery, runQuery, traceQuery } from "../lib/queries.js";
import { useJournal } from "../lib/records.js";
import { navigate, to, useQueryState } from "../lib/router.js";
import { isStory } from "../lib/tell.js";
import { ButtonLink, Empty, Failure, Heading, Loading, Select, Status, useNow } from "../parts/basics.js";
import { JournalView } from "../parts/journal-view.js";
import { RecordPanel } from "../parts/record-panel.js";
import { SMALL_DANGER } from "../parts/styles.js";
import { Tabs } from "../parts/tabs.js";
import { Waterfall } from "../parts/waterfall.js";

const SECOND_MS = 1_000;

/** A run: its story, its spans, its decisions and its records. */
export function RunPage({ runId }: { readonly runId: string }): ReactNode {
  const run = useQuery(runQuery(runId));
  const sessionId = run.data?.run.sessionId;
  const journal = useJournal(sessionId);
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

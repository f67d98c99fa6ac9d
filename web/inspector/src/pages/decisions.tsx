/** Decisions, failures, versions and proposals. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { DecisionRun } from "@windlass/protocol";
import type { RunRow } from "@windlass/protocol/client";
import { CARD, classes, DecisionCard, FOCUS, shortId } from "@windlass/ui";
import { useCallback, useMemo, type ReactNode } from "react";
import {
  Ago,
  ButtonLink,
  Empty,
  Failure,
  Heading,
  Loading,
  Select,
  Status,
  Tabs,
  TextLink,
  useNow,
  VirtualList,
} from "../parts.js";
import { agentsQuery, decisionsQuery, isOver, runsQuery } from "../queries.js";
import { Link, to, useQueryState } from "../router.js";
import { Failures } from "./failures.js";
import { Proposals } from "./proposals.js";
import { Versions } from "./versions.js";

const ROW_PX = 53;
/** About how high a decision is. */
const DECISION_PX = 150;

/** Decisions of agents, failures by cause, versions compared, and proposed changes. */
export function DecisionsPage(): ReactNode {
  const [query, change] = useQueryState();
  const agent = query.get("agent") ?? "";
  const agents = useQuery(agentsQuery);
  const wanted = agent === "" ? undefined : agent;
  return (
    <>
      <Heading title="Decisions">
        <Select
          label="Agent"
          value={agent}
          options={[["", "any"], ...(agents.data ?? []).map(({ agentId }) => [agentId, agentId] as const)]}
          onChange={(next) => {
            change({ agent: next, run: undefined, old: undefined, new: undefined, proposal: undefined });
          }}
        />
      </Heading>
      <Tabs
        label="Views of decisions"
        value={query.get("view") ?? "choices"}
        onChange={(view) => {
          change({ view }, { push: true });
        }}
        tabs={[
          {
            id: "choices",
            label: "Choices",
            content: () => <Choices agent={wanted} selected={query.get("run") ?? undefined} />,
          },
          { id: "failures", label: "Failures by cause", content: () => <Failures agent={wanted} /> },
          {
            id: "versions",
            label: "Versions",
            content: () => <Versions agent={wanted ?? agents.data?.[0]?.agentId} />,
          },
          { id: "proposals", label: "Proposals", content: () => <Proposals agent={wanted} /> },
        ]}
      />
    </>
  );
}

function Choices({
  agent,
  selected,
}: {
  readonly agent: string | undefined;
  readonly selected: string | undefined;
}): ReactNode {
  const now = useNow();
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    runsQuery({ filter: { agent } }),
  );
  const runs = useMemo(
    () => data?.pages.flatMap((page) => page.runs).filter(({ startedAt }) => startedAt != null),
    [data],
  );
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  if (error !== null && runs === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (runs === undefined) return <Loading />;
  if (runs.length === 0) return <NoDecisions />;
  const current = selected ?? runs[0]?.runId;
  return (
    <div className="flex min-h-0 flex-1 flex-col md:flex-row">
      <nav
        aria-label="Runs"
        className="flex shrink-0 flex-col border-agent-border max-md:h-44 max-md:border-b md:w-80 md:border-r"
      >
        <VirtualList
          items={runs}
          label="Runs, the newest first"
          keyOf={({ runId }) => runId}
          rowPx={ROW_PX}
          onEnd={onEnd}
          render={(run) => <RunChoice run={run} agent={agent} now={now} isCurrent={run.runId === current} />}
        />
      </nav>
      {current !== undefined && (
        <Ledger
          key={current}
          runId={current}
          isLive={runs.some(({ runId, status }) => runId === current && !isOver(status))}
        />
      )}
    </div>
  );
}

function RunChoice({
  run,
  agent,
  now,
  isCurrent,
}: {
  readonly run: RunRow;
  readonly agent: string | undefined;
  readonly now: number;
  readonly isCurrent: boolean;
}): ReactNode {
  return (
    <Link
      href={to(["decisions"], { agent, run: run.runId })}
      aria-current={isCurrent ? "true" : undefined}
      className={classes(
        "flex flex-col gap-1 px-4 py-2 text-sm",
        isCurrent ? "bg-agent-raised" : "hover:bg-agent-surface",
        FOCUS,
      )}
    >
      <span className="flex justify-between gap-2">
        <span className="truncate">{run.agentId}</span>
        <span className="text-xs text-agent-muted">
          {run.startedAt != null && <Ago at={run.startedAt} nowMs={now} />}
        </span>
      </span>
      <span className="flex items-center justify-between gap-2">
        <Status status={run.status} />
        <span className="font-mono text-xs text-agent-muted">{shortId(run.runId)}</span>
      </span>
    </Link>
  );
}

function Ledger({ runId, isLive }: { readonly runId: string; readonly isLive: boolean }): ReactNode {
  const {
    data: run,
    error,
    refetch,
    hasNextPage,
    isFetchingNextPage,
    fetchNextPage,
  } = useInfiniteQuery(decisionsQuery(runId, isLive));
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  return (
    <section aria-label="Decisions of the run" className="flex min-h-0 min-w-0 flex-1 flex-col">
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {run === undefined && error === null && <Loading />}
      {run !== undefined && <Chosen run={run} isWhole={!hasNextPage} onEnd={onEnd} />}
    </section>
  );
}

/** A row of the ledger of a run. */
type LedgerRow =
  | { readonly kind: "decision"; readonly decision: DecisionRun["decisions"][number] }
  | { readonly kind: "problem"; readonly problem: DecisionRun["problems"][number] };

interface ChosenProps {
  readonly run: DecisionRun;
  /** Whether all decisions are here: problems are behind the last one. */
  readonly isWhole: boolean;
  readonly onEnd: () => void;
}

function Chosen({ run, isWhole, onEnd }: ChosenProps): ReactNode {
  const rows = useMemo(
    (): LedgerRow[] => [
      ...run.decisions.map((decision) => ({ kind: "decision" as const, decision })),
      ...(isWhole ? run.problems.map((problem) => ({ kind: "problem" as const, problem })) : []),
    ],
    [run, isWhole],
  );
  return (
    <>
      <div className="flex max-w-3xl items-start justify-between gap-3 p-4">
        <div className="min-w-0 text-sm">
          {run.goalDescription != null && <p className="font-medium wrap-anywhere">{run.goalDescription}</p>}
          <p className="wrap-anywhere text-agent-muted">{run.narrative}</p>
          {rows.length === 0 && <p className="text-agent-muted">It has chosen nothing.</p>}
        </div>
        <ButtonLink href={to(["runs", run.id])} className="shrink-0">
          Open the run
        </ButtonLink>
      </div>
      {rows.length > 0 && (
        <VirtualList
          items={rows}
          label="Decisions, then problems"
          keyOf={(row) => (row.kind === "decision" ? row.decision.id : row.problem.id)}
          count={run.metrics.totalDecisions + run.problems.length}
          rowPx={DECISION_PX}
          onEnd={onEnd}
          render={(row) => (
            <div className="max-w-3xl px-4 pb-3">
              {row.kind === "decision" ? <DecisionCard decision={row.decision} /> : <Problem problem={row.problem} />}
            </div>
          )}
        />
      )}
    </>
  );
}

function Problem({ problem }: { readonly problem: DecisionRun["problems"][number] }): ReactNode {
  return (
    <p className={classes(CARD, "border-l-4 border-l-agent-danger p-3 text-sm")}>
      Problem: <strong>{problem.severity}</strong> {problem.description}
      {problem.rootCause != null && <span className="block text-xs text-agent-muted">Cause: {problem.rootCause}</span>}
      {problem.suggestedFix != null && (
        <span className="block text-xs text-agent-muted">Suggested fix: {problem.suggestedFix}</span>
      )}
    </p>
  );
}

function NoDecisions(): ReactNode {
  return (
    <Empty title="No agent has chosen anything yet.">
      <p>
        Each tool call and each final answer is recorded as a choice: the options that were there, the one that was
        taken, and what came of it.
      </p>
      <p>
        <TextLink href="/chat">Ask an agent for something</TextLink>, then look here.
      </p>
    </Empty>
  );
}

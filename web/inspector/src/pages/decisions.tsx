/** Decisions, failures, versions and proposals. */
import { useQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { DataTable, shortId, useColumns, type TableColumn } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { TIMES } from "../filters.js";
import { Ledger } from "../ledger.js";
import { Ago, ButtonLink, Empty, Failure, Heading, Loading, RunStatus, Select, TextLink, useNow } from "../parts.js";
import { agentsQuery, isOver, timeIn, useStartedRuns } from "../queries.js";
import { to, useQueryState } from "../router.js";
import { Failures } from "./failures.js";
import { Proposals } from "./proposals.js";
import { Versions } from "./versions.js";

/** The views of the page besides the decisions; each has an entry in the navigation. */
const TITLES: ReadonlyMap<string, string> = new Map([
  ["failures", "Failures"],
  ["versions", "Versions"],
  ["proposals", "Proposals"],
]);

/** Decisions of agents, failures by cause, versions compared, and proposed changes. */
export function DecisionsPage(): ReactNode {
  const [query, change] = useQueryState();
  const agent = query.get("agent") ?? "";
  const agents = useQuery(agentsQuery);
  const wanted = agent === "" ? undefined : agent;
  const view = query.get("view") ?? "";
  return (
    <>
      <Heading title={TITLES.get(view) ?? "Decisions"}>
        <Select
          label="Agent"
          value={agent}
          options={[["", "any"], ...(agents.data ?? []).map(({ agentId }) => [agentId, agentId] as const)]}
          onChange={(next) => {
            change({
              agent: next,
              run: undefined,
              decision: undefined,
              cause: undefined,
              old: undefined,
              new: undefined,
              proposal: undefined,
            });
          }}
        />
        {view === "failures" && (
          <Select
            label="Time"
            isLabelHidden
            value={query.get("time") ?? ""}
            options={TIMES}
            onChange={(time) => {
              change({ time, cause: undefined });
            }}
          />
        )}
      </Heading>
      {view === "failures" ? (
        <Failures agent={wanted} time={timeIn(query.get("time"))} />
      ) : view === "versions" && wanted === undefined && agents.data === undefined ? (
        agents.error === null ? (
          <Loading />
        ) : (
          <Failure error={agents.error} onRetry={() => void agents.refetch()} />
        )
      ) : view === "versions" ? (
        <Versions agent={wanted ?? agents.data?.[0]?.agentId} />
      ) : view === "proposals" ? (
        <Proposals agent={wanted} />
      ) : (
        <Choices agent={wanted} selected={query.get("run") ?? undefined} />
      )}
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
  const [, change] = useQueryState();
  const layout = useColumns("decision-runs");
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [now]);
  const { runs, error, refetch, hasNextPage, onEnd } = useStartedRuns(agent);
  if (error !== null && runs === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (runs === undefined) return <Loading />;
  if (runs.length === 0) return hasNextPage ? <Loading /> : <NoDecisions />;
  const current = selected ?? runs[0]?.runId;
  return (
    <div className="flex min-h-0 flex-1 flex-col md:flex-row">
      <div className="flex shrink-0 flex-col border-agent-border max-md:h-44 max-md:border-b md:w-80 md:border-r xl:w-100 2xl:w-136">
        <DataTable
          label="Runs, the newest first"
          rows={runs}
          columns={columns}
          keyOf={({ runId }) => runId}
          opened={current}
          onOpen={({ runId }) => {
            change({ run: runId, decision: undefined });
          }}
          onEnd={onEnd}
          layout={layout}
        />
      </div>
      {current !== undefined && (
        <Ledger
          key={current}
          runId={current}
          isLive={runs.some(({ runId, status }) => runId === current && !isOver(status))}
          action={
            <ButtonLink href={to(["runs", current])} className="shrink-0">
              Open the run
            </ButtonLink>
          }
        />
      )}
    </div>
  );
}

function columnsAt(now: number): readonly TableColumn<RunRow>[] {
  return [
    {
      id: "input",
      label: "Run",
      width: 120,
      share: 1,
      cell: ({ runId, input }) => (
        <span className="font-semibold" title={input}>
          {input || shortId(runId)}
        </span>
      ),
    },
    { id: "agent", label: "Agent", width: 76, fromPx: 480, cell: ({ agentId }) => agentId },
    { id: "status", label: "Status", width: 150, cell: (run) => <RunStatus run={run} /> },
    {
      id: "started",
      label: "Started",
      width: 90,
      fromPx: 480,
      cell: ({ startedAt }) => startedAt !== undefined && <Ago at={startedAt} nowMs={now} />,
    },
  ];
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

/** Decisions, failures, versions and proposals. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { DataTable, shortId, useColumns, type TableColumn } from "@windlass/ui";
import { useCallback, useMemo, type ReactNode } from "react";
import { Ledger } from "../ledger.js";
import { ButtonLink, Empty, Failure, Heading, Loading, RunStatus, Select, Tabs, TextLink } from "../parts.js";
import { agentsQuery, isOver, runsQuery } from "../queries.js";
import { to, useQueryState } from "../router.js";
import { Failures } from "./failures.js";
import { Proposals } from "./proposals.js";
import { Versions } from "./versions.js";

/** The views of the page, and the names of what they show. */
const TITLES: ReadonlyMap<string, string> = new Map([
  ["choices", "Decisions"],
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
  const view = query.get("view") ?? "choices";
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
      </Heading>
      <Tabs
        label="Views of decisions"
        value={view}
        onChange={(next) => {
          change({ view: next }, { push: true });
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
            content: () =>
              wanted === undefined && agents.data === undefined ? (
                agents.error === null ? (
                  <Loading />
                ) : (
                  <Failure error={agents.error} onRetry={() => void agents.refetch()} />
                )
              ) : (
                <Versions agent={wanted ?? agents.data?.[0]?.agentId} />
              ),
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
  const [, change] = useQueryState();
  const layout = useColumns("decision-runs");
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    runsQuery({ filter: { agent, subagents: false } }),
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
      <div className="flex shrink-0 flex-col border-agent-border max-md:h-44 max-md:border-b md:w-80 md:border-r xl:w-100">
        <DataTable
          label="Runs, the newest first"
          rows={runs}
          columns={RUNS}
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

const RUNS: readonly TableColumn<RunRow>[] = [
  {
    id: "input",
    label: "Run",
    width: 120,
    share: 1,
    cell: ({ runId, agentId, input }) => (
      <span title={input}>
        <span className="font-semibold">{input || shortId(runId)}</span>{" "}
        <span className="text-agent-muted">{agentId}</span>
      </span>
    ),
  },
  { id: "status", label: "Status", width: 150, cell: (run) => <RunStatus run={run} /> },
];

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

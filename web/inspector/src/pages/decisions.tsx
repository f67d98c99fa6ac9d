/** Decisions, failures, versions and proposals. */
import { useQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { shortId, type TableColumn } from "@windlass/ui";
import type { ReactNode } from "react";
import { SEARCH, to } from "../addresses.js";
import { TIME_CHOICES } from "../filters.js";
import { AgentSelect, Select } from "../form.js";
import { Ledger } from "../ledger.js";
import { column, Table } from "../list.js";
import { Ago, ButtonLink, Empty, Heading, Loading, Pending, RunStatus, TextLink } from "../parts.js";
import { agentsQuery, isOver, useStartedRuns } from "../queries.js";
import { useSearch } from "../router.js";
import { Failures } from "./failures.js";
import { Proposals } from "./proposals.js";
import { Versions } from "./versions.js";

/** The views of the page besides the decisions; each has an entry in the navigation. */
const TITLES = { failures: "Failures", versions: "Versions", proposals: "Proposals" } as const;

/** What is chosen among the things of an agent. */
const NOTHING_CHOSEN = {
  run: undefined,
  decision: undefined,
  cause: undefined,
  old: undefined,
  new: undefined,
  proposal: undefined,
};

/** Decisions of agents, failures by cause, versions compared, and proposed changes. */
export function DecisionsPage(): ReactNode {
  const [{ view, agent, time }, change] = useSearch(SEARCH.decisions);
  return (
    <>
      <Heading title={view === undefined ? "Decisions" : TITLES[view]}>
        <AgentSelect
          value={agent}
          onChange={(next) => {
            change({ agent: next, ...NOTHING_CHOSEN });
          }}
        />
        {view === "failures" && (
          <Select
            label="Time"
            isLabelHidden
            value={time}
            options={TIME_CHOICES}
            onChange={(next) => {
              change({ time: next, cause: undefined });
            }}
          />
        )}
      </Heading>
      {view === "failures" ? (
        <Failures agent={agent} time={time} />
      ) : view === "versions" ? (
        <VersionsOfAgent agent={agent} />
      ) : view === "proposals" ? (
        <Proposals agent={agent} />
      ) : (
        <Choices agent={agent} />
      )}
    </>
  );
}

interface ViewProps {
  readonly agent: string | undefined;
}

/** The versions of an agent; of the first one if none is chosen. */
function VersionsOfAgent({ agent }: ViewProps): ReactNode {
  const agents = useQuery(agentsQuery);
  if (agent === undefined && agents.data === undefined) return <Pending of={agents} />;
  return <Versions agent={agent ?? agents.data?.[0]?.agentId} />;
}

function Choices({ agent }: ViewProps): ReactNode {
  const [{ run: selected }, change] = useSearch(SEARCH.decisions);
  const list = useStartedRuns(agent);
  const { runs, hasNextPage, onEnd } = list;
  if (runs === undefined) return <Pending of={list} />;
  if (runs.length === 0) return hasNextPage ? <Loading /> : <NoDecisions />;
  const current = selected ?? runs[0]?.runId;
  return (
    <div className="flex min-h-0 flex-1 flex-col md:flex-row">
      <div className="flex shrink-0 flex-col border-agent-border max-md:h-44 max-md:border-b md:w-80 md:border-r xl:w-100 2xl:w-136">
        <Table
          name="decision-runs"
          label="Runs, the newest first"
          rows={runs}
          columns={COLUMNS}
          keyOf={({ runId }) => runId}
          opened={current}
          onOpen={({ runId }) => {
            change({ run: runId, decision: undefined });
          }}
          onEnd={onEnd}
        />
      </div>
      {current !== undefined && (
        <Ledger
          key={current}
          runId={current}
          isLive={runs.some(({ runId, status }) => runId === current && !isOver(status))}
          action={
            <ButtonLink href={to("run", [current])} className="shrink-0">
              Open the run
            </ButtonLink>
          }
        />
      )}
    </div>
  );
}

const COLUMNS: readonly TableColumn<RunRow>[] = [
  column("input", "Run", { width: 120, share: 1 }, ({ runId, input }) => (
    <span className="font-semibold" title={input}>
      {input || shortId(runId)}
    </span>
  )),
  column("agent", "Agent", { width: 76, fromPx: 480 }, ({ agentId }) => agentId),
  column("status", "Status", { width: 150 }, (run) => <RunStatus run={run} />),
  column("started", "Started", { width: 90, fromPx: 480 }, ({ startedAt }) => <Ago at={startedAt} />),
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

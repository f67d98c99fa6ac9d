import { useQuery } from "@tanstack/react-query";
import type { DecisionRun } from "@windlass/protocol";
import { CARD, classes, cut, DecisionCard, FOCUS } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { groupCauses, type Cause } from "../lib/causes.js";
import { shortId } from "../lib/format.js";
import { agentsQuery } from "../lib/queries.js";
import { Link, to, useQueryState } from "../lib/router.js";
import { useRecentDecisions } from "../lib/use-recent-decisions.js";
import { Ago, Empty, Failure, Heading, Loading, Select, Status, TextLink, useNow } from "../parts/basics.js";
import { Tabs } from "../parts/tabs.js";

const RUNS_SHOWN_MAX = 12;

/** What agents chose, among what, and what came of it; failures by their cause. */
export function DecisionsPage(): ReactNode {
  const [query, change] = useQueryState();
  const agent = query.get("agent") ?? "";
  const agents = useQuery(agentsQuery);
  const { runs, isLoading, error } = useRecentDecisions(agent === "" ? undefined : agent);
  const causes = useMemo(() => groupCauses(runs), [runs]);
  const body = (view: ReactNode): ReactNode => (isLoading && runs.length === 0 ? <Loading /> : view);
  return (
    <>
      <Heading title="Decisions">
        <p className="text-xs text-agent-muted">of the newest {runs.length} runs</p>
        <Select label="Agent" value={agent} options={[["", "any"], ...(agents.data ?? []).map(({ agentId }) => [agentId, agentId] as const)]} onChange={(next) => { change({ agent: next, run: undefined }); }} />
      </Heading>
      {error !== undefined && <Failure error={error} />}
      <Tabs
        label="Views of decisions"
        value={query.get("view") ?? "choices"}
        onChange={(view) => { change({ view }, { push: true }); }}
        tabs={[
          { id: "choices", label: "Choices", content: () => body(<Choices runs={runs} selected={query.get("run") ?? undefined} />) },
          { id: "failures", label: `Failures by cause (${causes.length})`, content: () => body(<Failures causes={causes} selected={query.get("cause") ?? undefined} onSelect={(cause) => { change({ cause }); }} />) },
        ]}
      />
    </>
  );
}

function Choices({ runs, selected }: { readonly runs: readonly DecisionRun[]; readonly selected: string | undefined }): ReactNode {
  const now = useNow();
  if (runs.length === 0) return <NoDecisions />;
  const run = runs.find(({ id }) => id === selected) ?? runs[0];
  return (
    <div className="flex min-h-0 flex-1 flex-col md:flex-row">
      <nav aria-label="Runs" className="shrink-0 overflow-y-auto border-agent-border max-md:max-h-44 max-md:border-b md:w-80 md:border-r">
        <ul>
          {runs.map((one) => (
            <li key={one.id}>
              <Link
                href={to(["decisions"], { run: one.id })}
                aria-current={one === run ? "true" : undefined}
                className={classes("flex flex-col gap-0.5 px-4 py-2 text-sm", one === run ? "bg-agent-raised" : "hover:bg-agent-surface", FOCUS)}
              >
                <span className="truncate">{one.goalDescription ?? one.agentId ?? shortId(one.id)}</span>
                <span className="flex justify-between gap-2 text-xs text-agent-muted">
                  <Status status={one.status} />
                  <span>{one.metrics.totalDecisions === 1 ? "1 choice" : `${one.metrics.totalDecisions} choices`}{one.metrics.failedDecisions > 0 && `, ${one.metrics.failedDecisions} failed`}</span>
                  <Ago at={one.startedAt} nowMs={now} />
                </span>
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      {run !== undefined && <Ledger run={run} />}
    </div>
  );
}

function Ledger({ run }: { readonly run: DecisionRun }): ReactNode {
  return (
    <section aria-label="Decisions of the run" className="min-h-0 min-w-0 flex-1 overflow-y-auto p-4">
      <p className="mb-1 text-sm">{run.narrative}</p>
      <p className="mb-4 text-sm"><TextLink href={to(["runs", run.id])}>Open the run</TextLink></p>
      <ol className="flex max-w-3xl flex-col gap-3">
        {run.decisions.map((decision) => <li key={decision.id}><DecisionCard decision={decision} /></li>)}
        {run.decisions.length === 0 && <li className="text-sm text-agent-muted">It chose nothing.</li>}
      </ol>
      {run.problems.length > 0 && (
        <section aria-label="Problems" className="mt-6 flex max-w-3xl flex-col gap-2">
          <h2 className="text-sm font-semibold">Problems</h2>
          {run.problems.map((problem) => (
            <p key={problem.id} className={classes(CARD, "border-l-4 border-l-agent-danger p-3 text-sm break-words")}>
              <strong>{problem.severity}</strong> {problem.description}
              {problem.rootCause != null && <span className="block text-xs text-agent-muted">Cause: {problem.rootCause}</span>}
              {problem.suggestedFix != null && <span className="block text-xs text-agent-muted">What may help: {problem.suggestedFix}</span>}
            </p>
          ))}
        </section>
      )}
    </section>
  );
}

interface FailuresProps {
  readonly causes: readonly Cause[];
  readonly selected: string | undefined;
  readonly onSelect: (cause: string | undefined) => void;
}

function Failures({ causes, selected, onSelect }: FailuresProps): ReactNode {
  const now = useNow();
  if (causes.length === 0) return <Empty title="Nothing failed in these runs."><p>Failed calls, refused calls and reported problems are grouped here by why they happened.</p></Empty>;
  return (
    <ul className="flex min-h-0 flex-1 flex-col gap-3 overflow-y-auto p-4">
      {causes.map((cause) => (
        <li key={cause.cause} className={classes(CARD, "max-w-4xl")}>
          <details open={cause.cause === selected} onToggle={(event) => { if (event.currentTarget.open) onSelect(cause.cause); else if (cause.cause === selected) onSelect(undefined); }}>
            <summary className={classes("flex cursor-pointer items-baseline gap-3 rounded-lg px-4 py-3 text-sm", FOCUS)}>
              <span className="shrink-0 font-semibold text-agent-danger-text">{cause.count}×</span>
              <span className="min-w-0 flex-1 break-words">{cause.cause}</span>
              <span className="hidden shrink-0 text-xs text-agent-muted sm:block">{cut(cause.choices.join(", "), 60)}</span>
              <span className="shrink-0 text-xs text-agent-muted"><Ago at={cause.lastAt} nowMs={now} /></span>
            </summary>
            <div className="flex flex-col gap-2 px-4 pb-4 text-sm">
              {cause.fix !== undefined && <p>What may help: {cause.fix}</p>}
              <p className="flex flex-wrap gap-3">
                {cause.runIds.slice(0, RUNS_SHOWN_MAX).map((runId) => <TextLink key={runId} href={to(["runs", runId], { view: "decisions" })}>{shortId(runId)}</TextLink>)}
                {cause.runIds.length > RUNS_SHOWN_MAX && <span className="text-agent-muted">and {cause.runIds.length - RUNS_SHOWN_MAX} more</span>}
              </p>
            </div>
          </details>
        </li>
      ))}
    </ul>
  );
}

function NoDecisions(): ReactNode {
  return (
    <Empty title="No agent has chosen anything yet.">
      <p>Each tool call and each final answer is recorded as a choice: the options that were there, the one that was taken, and what came of it.</p>
      <p><TextLink href="/chat">Ask an agent for something</TextLink>, then look here.</p>
    </Empty>
  );
}

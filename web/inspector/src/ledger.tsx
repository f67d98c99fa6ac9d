/** The decisions of a run as a table, with the chosen one beside it. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { DecisionRun } from "@windlass/protocol";
import {
  Badge,
  CARD,
  classes,
  DecisionCard,
  formatDuration,
  formatMoment,
  inOneLine,
  type TableColumn,
} from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { LEDGER } from "./addresses.js";
import { column, SidePanel, Table, textCell } from "./list.js";
import { Empty, Failure, kindWords, orDash, Pending } from "./parts.js";
import { decisionsQuery, useNextPage } from "./queries.js";
import { useSearch } from "./router.js";

type Decision = DecisionRun["decisions"][number];
type Problem = DecisionRun["problems"][number];
type Row =
  | { readonly id: string; readonly decision: Decision; readonly problem?: undefined }
  | { readonly id: string; readonly problem: Problem; readonly decision?: undefined };

interface LedgerProps {
  readonly runId: string;
  readonly isLive: boolean;
  /** Stands beside the words about the run. */
  readonly action?: ReactNode;
}

/** The decisions of a run, then its problems; the address names the row that is open. */
export function Ledger({ runId, isLive, action }: LedgerProps): ReactNode {
  const list = useInfiniteQuery(decisionsQuery(runId, isLive));
  const { data: run, error, refetch, hasNextPage } = list;
  const [search, , set] = useSearch(LEDGER);
  const onEnd = useNextPage(list, run?.decisions.length);
  const rows = useMemo(
    (): readonly Row[] => [
      ...(run?.decisions ?? []).map((decision) => ({ id: decision.id, decision })),
      // Problems are behind the last decision.
      ...(hasNextPage ? [] : (run?.problems ?? []).map((problem) => ({ id: problem.id, problem }))),
    ],
    [run, hasNextPage],
  );
  const opened = rows.find(({ id }) => id === search.decision);
  if (run === undefined) return <Pending of={list} />;
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col lg:flex-row">
      <section aria-label="Decisions of the run" className="flex min-h-0 min-w-0 flex-1 flex-col">
        {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
        <div className="flex items-start justify-between gap-3 border-b border-agent-border px-4 py-2">
          <p className="min-w-0 self-center wrap-anywhere text-agent-muted">{run.narrative}</p>
          {action}
        </div>
        {rows.length === 0 ? (
          <Empty title="It has not chosen anything yet.">
            <p>Each tool call and each final answer is a choice, with the options that were there.</p>
          </Empty>
        ) : (
          <Table
            name="ledger"
            label="Decisions"
            rows={rows}
            count={run.metrics.totalDecisions + run.problems.length}
            columns={COLUMNS}
            keyOf={({ id }) => id}
            opened={opened?.id}
            onKey={set("decision")}
            onEnd={onEnd}
          />
        )}
      </section>
      {opened !== undefined && (
        <SidePanel
          key={opened.id}
          kind="Decision"
          title={opened.problem === undefined ? wantedBy(opened.decision) : `Problem: ${opened.problem.severity}`}
          onClose={set("decision", undefined)}
        >
          {opened.problem === undefined ? (
            <DecisionCard decision={opened.decision} />
          ) : (
            <ProblemCard problem={opened.problem} />
          )}
        </SidePanel>
      )}
    </div>
  );
}

function wantedBy({ intent, decisionType }: Decision): string {
  return intent === "" ? kindWords(decisionType) : intent;
}

function chosenBy({ options, chosenOptionId }: Decision): string {
  const { actionParams, description = chosenOptionId } = options.find(({ id }) => id === chosenOptionId) ?? {};
  return actionParams === undefined ? description : inOneLine(actionParams);
}

const MUTED = "text-agent-muted";

const COLUMNS: readonly TableColumn<Row>[] = [
  column("decision", "Decision", { width: 140, share: 1 }, ({ decision, problem }) => (
    <span className="font-semibold">{problem === undefined ? wantedBy(decision) : `Problem: ${problem.severity}`}</span>
  )),
  column("chosen", "Chose", { width: 140, share: 2, fromPx: 620 }, ({ decision, problem }) =>
    textCell(problem === undefined ? chosenBy(decision) : problem.description),
  ),
  column("why", "Why", { width: 140, share: 2, fromPx: 980 }, ({ decision, problem }) =>
    textCell(problem === undefined ? decision.reasoning : (problem.rootCause ?? ""), MUTED),
  ),
  column("result", "Result", { width: 90 }, ({ decision, problem }) => {
    if (problem !== undefined) return null;
    const { outcome } = decision;
    if (outcome === undefined) return <Badge>open</Badge>;
    return <Badge tone={outcome.success ? "good" : "bad"}>{outcome.success ? "worked" : "failed"}</Badge>;
  }),
  column("options", "Options", { width: 76, isNumber: true, fromPx: 820 }, ({ decision }) => decision?.options.length),
  column("time", "Time", { width: 80, isNumber: true, fromPx: 480 }, ({ decision }) =>
    orDash(decision?.outcome?.latencyMs, formatDuration),
  ),
  column("when", "When", { width: 176, fromPx: 900 }, ({ decision, problem }) => (
    <time className={classes(MUTED, "tabular-nums")}>{formatMoment((decision ?? problem).timestamp)}</time>
  )),
];

function ProblemCard({ problem }: { readonly problem: Problem }): ReactNode {
  return (
    <div className={classes(CARD, "flex flex-col gap-2 border-l-4 border-l-agent-danger p-3 text-sm")}>
      <p>{problem.description}</p>
      {problem.rootCause != null && <p className={MUTED}>Cause: {problem.rootCause}</p>}
      {problem.suggestedFix != null && <p className={MUTED}>Suggested fix: {problem.suggestedFix}</p>}
    </div>
  );
}

/** Failures by cause. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { Failures as FailureGroups, FailureCause, RunRow } from "@windlass/protocol/client";
import { formatCount, formatPercent, plural, sentence, shortId, withoutClass, type TableColumn } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { SEARCH, to, type ListTime } from "../addresses.js";
import { Beside, column, SidePanel, Table } from "../list.js";
import { Ago, Empty, Failure, kindWords, Loading, Pending, RowLink, TextLink } from "../parts.js";
import { failuresQuery, runsByIdQuery, useNextPage } from "../queries.js";
import { useSearch } from "../router.js";

/** Names of failure kinds, with advice. */
const KINDS: Readonly<Record<string, readonly [title: string, advice: string]>> = {
  cancelled: ["Cancelled by a person", "Look at what it was doing when it was stopped."],
  interrupted: ["It was cut off", "The process ended in the middle, and the run was not taken up again."],
  repeated_call: [
    "It went in circles",
    "The same call came again and again. Say in the instructions what to do when it does not help.",
  ],
  stall: ["It made no progress", "Give it a smaller task, or a tool for what is missing."],
  budget: ["The budget was used up", "Raise the budget, or find out what used it: the run shows each step's tokens."],
  output_contract: ["The output did not fit its schema", "Make the schema simpler, or describe its fields."],
  denied: [
    "Policy or a person said no",
    "If it should be allowed, change the policy; else say so in the instructions.",
  ],
  timeout: ["It took too long", "Raise the limit of the tool, or make the tool answer sooner."],
  provider: ["The model could not be reached", "Look at the provider's status, the key and the limits of rate."],
  invalid_arguments: ["Arguments did not fit", "Describe the tool's arguments better; examples help."],
  tool_error: ["A tool failed", "The words are the tool's own: fix the tool, or say when not to use it."],
  goal_missed: ["It ended without reaching its goal", "Read what it said last, and what it could have done instead."],
  unknown: ["No reason is known", "Open a run and look at its last records."],
};

/** A cause with the kind of failure that it is. */
interface Cause extends FailureCause {
  readonly kind: string;
}

/** The causes of failures, the most frequent first. */
export function causesOf(failures: FailureGroups | undefined): readonly Cause[] {
  return (failures?.groups ?? [])
    .flatMap(({ kind, causes }) => causes.map((cause) => ({ ...cause, kind })))
    .toSorted((left, other) => other.count - left.count);
}

/** The words of an error, without the class that a program raised. */
export function causeWords(message: string): string {
  return sentence(withoutClass(message));
}

interface FailuresProps {
  readonly agent: string | undefined;
  readonly time: ListTime | undefined;
}

/** Why runs failed, the most frequent reason first. */
export function Failures({ agent, time }: FailuresProps): ReactNode {
  const failures = useQuery(failuresQuery(agent, time));
  const { data } = failures;
  const [search, change, set] = useSearch(SEARCH.decisions);
  const rows = useMemo(() => causesOf(data), [data]);
  const columns = useMemo(() => columnsOf(data?.failed ?? 0), [data?.failed]);
  if (data === undefined) return <Pending of={failures} />;
  if (data.groups.length === 0) return <NoFailures runs={data.runs} time={time} />;
  const opened = rows.find(({ told: message }) => message === search.cause);
  return (
    <Beside
      panel={
        opened !== undefined && (
          <SidePanel key={opened.told} kind="Cause" title={causeWords(opened.told)} onClose={set("cause", undefined)}>
            <p className="text-agent-muted">{KINDS[opened.kind]?.[1]}</p>
            <RunsOf runIds={opened.runIds} />
          </SidePanel>
        )
      }
    >
      <p className="border-b border-agent-border px-4 py-2 text-agent-muted">
        {formatCount(data.failed)} of {data.isAll ? "" : "the newest "}
        {plural(data.runs, "ended run")} did not succeed: they failed, were cancelled, used up their budget, or missed
        their goal.
      </p>
      <Table
        name="failures"
        label="Causes of failures"
        rows={rows}
        columns={columns}
        keyOf={({ told: message, kind }) => `${kind} ${message}`}
        opened={opened && `${opened.kind} ${opened.told}`}
        onOpen={({ told: message }) => {
          change({ cause: message });
        }}
      />
    </Beside>
  );
}

function NoFailures({ runs, time }: Pick<FailuresProps, "time"> & { readonly runs: number }): ReactNode {
  const title =
    runs === 0
      ? time === undefined
        ? "No run has ended yet."
        : "No run ended in this time."
      : runs === 1
        ? "The one run did not fail."
        : `None of ${formatCount(runs)} runs failed.`;
  return (
    <Empty title={title}>
      <p>
        Runs that fail are grouped here by why they did, with the newest of each to look into. A call that failed in a
        run that went well is in <TextLink href="/overview">the overview</TextLink>, under the tools.
      </p>
    </Empty>
  );
}

/** The causes, the most frequent first; `failed` is how many runs failed. */
function columnsOf(failed: number): readonly TableColumn<Cause>[] {
  return [
    column("cause", "Cause", { width: 200, share: 3 }, ({ told: message }) => (
      <span className="font-semibold" title={message}>
        {causeWords(message)}
      </span>
    )),
    column("kind", "Kind", { width: 200, share: 1, fromPx: 620 }, ({ kind }) => (
      <span className="text-agent-muted">{KINDS[kind]?.[0] ?? kindWords(kind)}</span>
    )),
    column("runs", "Runs", { width: 72, isNumber: true }, ({ count }) => formatCount(count)),
    column("share", "Of failures", { width: 96, isNumber: true, fromPx: 480 }, ({ count }) =>
      formatPercent(count / Math.max(failed, 1)),
    ),
    column(
      "newest",
      "Newest run",
      { width: 110, fromPx: 760 },
      ({ runIds: [newest] }) =>
        newest !== undefined && <TextLink href={to("run", [newest])}>{shortId(newest)}</TextLink>,
    ),
  ];
}

/** The runs of a cause, newest first, read page by page. */
function RunsOf({ runIds }: { readonly runIds: readonly string[] }): ReactNode {
  const list = useInfiniteQuery(runsByIdQuery(runIds));
  const { data: rows, error, refetch } = list;
  const onEnd = useNextPage(list, rows?.length);
  return (
    <div className="-mx-4 flex min-h-60 flex-1 flex-col border-t border-agent-border">
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : (
        <Table
          name="cause-runs"
          label="Runs of the cause"
          rows={rows}
          count={runIds.length}
          columns={RUN_COLUMNS}
          keyOf={({ runId }) => runId}
          hrefOf={({ runId }) => to("run", [runId])}
          onEnd={onEnd}
        />
      )}
    </div>
  );
}

const RUN_COLUMNS: readonly TableColumn<RunRow>[] = [
  column("input", "Run", { width: 160, share: 1 }, ({ runId, input }) => (
    <RowLink href={to("run", [runId])}>{input || shortId(runId)}</RowLink>
  )),
  column("started", "Started", { width: 100 }, ({ at = "", startedAt = at }) =>
    startedAt === "" ? "–" : <Ago at={startedAt} />,
  ),
];

/** The list of runs. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { formatCost, formatDuration, plural, shortId, type TableColumn } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { AddToDataset } from "../add-to-dataset.js";
import { DeleteSessions } from "../bulk.js";
import { sharedView } from "../filters.js";
import { ListPage, useView } from "../list-page.js";
import {
  Ago,
  ButtonLink,
  Crashes,
  Empty,
  kindWords,
  lastWords,
  RowLink,
  RunStatus,
  shortTokens,
  TextLink,
} from "../parts.js";
import { runsQuery, type RunView } from "../queries.js";
import { to } from "../router.js";

/** The view of an address. */
export function viewOf(query: URLSearchParams): RunView {
  const { time, filter, values } = sharedView(query);
  return {
    time,
    filter: {
      ...filter,
      durationMin: values.number("seconds", 1_000),
      subagents: query.get("subagents") === "1" ? undefined : false,
      sort: values.one("sort", ["duration", "cost"]),
    },
  };
}

export function RunsPage(): ReactNode {
  const view = useView(viewOf);
  const pages = useInfiniteQuery(runsQuery(view));
  const rows = useMemo(() => pages.data?.pages.flatMap(({ runs }) => runs), [pages.data]);
  return (
    <ListPage
      list="runs"
      title="Runs"
      noun="run"
      view={view}
      sortedBy="started"
      pages={pages}
      rows={rows}
      total={pages.data?.pages[0]?.total}
      idOf={({ runId }) => runId}
      columnsAt={columnsAt}
      actions={(picked, clear) => <Actions picked={picked} clear={clear} />}
      empty={
        <Empty title="There are no runs yet.">
          <p>
            Each message to an agent begins a run. <TextLink href="/chat">Begin one in the chat</TextLink>
          </p>
        </Empty>
      }
    />
  );
}

function Actions({ picked, clear }: { readonly picked: readonly RunRow[]; readonly clear: () => void }): ReactNode {
  const sessions = [...new Set(picked.map(({ sessionId }) => sessionId))];
  return (
    <>
      {picked.length === 2 && (
        <ButtonLink href={to(["diff", picked[1]?.runId ?? "", picked[0]?.runId ?? ""])}>Compare the two</ButtonLink>
      )}
      <AddToDataset runIds={picked.map(({ runId }) => runId)} />
      <DeleteSessions count={picked.length} sessionIds={sessions} onDone={clear}>
        A run is a part of its session: {plural(sessions.length, "session")} with all runs, records and files are
        deleted.
      </DeleteSessions>
    </>
  );
}

const COLORLESS = "text-agent-muted";

function columnsAt(now: number): readonly TableColumn<RunRow>[] {
  return [
    {
      id: "input",
      label: "Input",
      width: 130,
      share: 1,
      cell: ({ runId, input }) => <RowLink href={to(["runs", runId])}>{input || shortId(runId)}</RowLink>,
    },
    {
      id: "output",
      label: "Output, error, or what it waits for",
      width: 170,
      share: 1,
      fromPx: 860,
      cell: (run) => (
        <span className={COLORLESS} title={lastWords(run)}>
          {lastWords(run)}
        </span>
      ),
    },
    { id: "agent", label: "Agent", width: 76, fromPx: 640, cell: ({ agentId }) => agentId },
    {
      id: "status",
      label: "Status",
      width: 192,
      cell: (run) => (
        <span className="flex items-center gap-1.5">
          <RunStatus run={run} />
          <Crashes count={run.crashes ?? 0} isShort />
        </span>
      ),
    },
    {
      id: "duration",
      label: "Time",
      width: 86,
      isNumber: true,
      isSortable: true,
      fromPx: 560,
      cell: (run) => (spanOf(run, now) === undefined ? "–" : formatDuration(spanOf(run, now) ?? 0)),
    },
    {
      id: "tokens",
      label: "Tokens",
      width: 68,
      isNumber: true,
      fromPx: 760,
      cell: ({ usage }) => shortTokens(usage),
    },
    {
      id: "cost",
      label: "Cost",
      width: 74,
      isNumber: true,
      isSortable: true,
      fromPx: 700,
      cell: ({ usage }) => (usage.costMicros === undefined ? "–" : formatCost(usage.costMicros)),
    },
    {
      id: "feedback",
      label: "Feedback",
      width: 92,
      fromPx: 1_080,
      cell: ({ rating = 0, tags = [] }) => (
        <span title={tags.join(", ")}>
          {rating !== 0 && (rating > 0 ? "+1 " : "−1 ")}
          <span className={COLORLESS}>{tags.join(", ")}</span>
        </span>
      ),
    },
    {
      id: "error",
      label: "Error",
      width: 130,
      isHidden: true,
      cell: ({ error = "" }) => kindWords(error),
    },
    {
      id: "version",
      label: "Version",
      width: 110,
      isHidden: true,
      cell: ({ packageFingerprint = "" }) => <code className="font-mono text-xs">{shortId(packageFingerprint)}</code>,
    },
    {
      id: "run",
      label: "Run",
      width: 110,
      isHidden: true,
      cell: ({ runId }) => <code className="font-mono text-xs">{shortId(runId)}</code>,
    },
    {
      id: "started",
      label: "Started",
      width: 96,
      isSortable: true,
      fromPx: 480,
      cell: ({ at = "", startedAt = at }) => (startedAt === "" ? "–" : <Ago at={startedAt} nowMs={now} />),
    },
  ];
}

/** How long a run took, or has been going on; undefined while it is queued. */
function spanOf({ startedAt, endedAt }: RunRow, now: number): number | undefined {
  if (startedAt === undefined) return undefined;
  return Math.max(0, (endedAt === undefined ? now : Date.parse(endedAt)) - Date.parse(startedAt));
}

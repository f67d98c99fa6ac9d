/** The list of runs. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { formatCost, formatDuration, plural, shortId, type TableColumn } from "@windlass/ui";
import type { ReactNode } from "react";
import { AddToDataset } from "../add-to-dataset.js";
import { to } from "../addresses.js";
import { amountIn, sharedFilter, type ListSearch } from "../filters.js";
import { DeleteSessions, ListPage, useView } from "../list-page.js";
import { codeCell, column, textCell, useRows } from "../list.js";
import {
  Ago,
  ButtonLink,
  Crashes,
  Empty,
  kindWords,
  lastWords,
  orDash,
  RowLink,
  RunStatus,
  shortTokens,
  TextLink,
  useNow,
} from "../parts.js";
import { runsQuery, type RunView } from "../queries.js";
import { oneOf } from "../router.js";

const SORTS = oneOf(["duration", "cost"]);

/** The view of an address. */
export function viewOf(search: ListSearch): RunView {
  return {
    time: search.time,
    filter: {
      ...sharedFilter(search),
      durationMin: amountIn(search.seconds, 1_000),
      subagents: search.subagents === "1" ? undefined : false,
      sort: SORTS(search.sort),
    },
  };
}

export function RunsPage(): ReactNode {
  const view = useView(viewOf);
  return (
    <ListPage
      list="runs"
      title="Runs"
      noun="run"
      view={view}
      sortedBy="started"
      pages={useRows(useInfiniteQuery(runsQuery(view)), "runs")}
      idOf={({ runId }) => runId}
      columns={COLUMNS}
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
  const [newer, older] = picked;
  return (
    <>
      {newer !== undefined && older !== undefined && picked.length === 2 && (
        <ButtonLink href={to("diff", [older.runId, newer.runId])}>Compare the two</ButtonLink>
      )}
      <AddToDataset runIds={picked.map(({ runId }) => runId)} />
      <DeleteSessions count={picked.length} sessionIds={sessions} onDone={clear}>
        A run is a part of its session: {plural(sessions.length, "session")} with all runs, records and files are
        deleted.
      </DeleteSessions>
    </>
  );
}

const MUTED = "text-agent-muted";

const COLUMNS: readonly TableColumn<RunRow>[] = [
  column("input", "Input", { width: 130, share: 1 }, ({ runId, input }) => (
    <RowLink href={to("run", [runId])}>{input || shortId(runId)}</RowLink>
  )),
  column("output", "Output, error, or what it waits for", { width: 170, share: 1, fromPx: 860 }, (run) =>
    textCell(lastWords(run), MUTED),
  ),
  column("agent", "Agent", { width: 76, fromPx: 640 }, ({ agentId }) => agentId),
  column("status", "Status", { width: 192 }, (run) => (
    <span className="flex items-center gap-1.5">
      <RunStatus run={run} />
      <Crashes count={run.crashes ?? 0} isShort />
    </span>
  )),
  column("duration", "Time", { width: 86, isNumber: true, isSortable: true, fromPx: 560 }, (run) => (
    <Duration run={run} />
  )),
  column("tokens", "Tokens", { width: 68, isNumber: true, fromPx: 760 }, ({ usage }) => shortTokens(usage)),
  column("cost", "Cost", { width: 74, isNumber: true, isSortable: true, fromPx: 700 }, ({ usage }) =>
    orDash(usage.costMicros, formatCost),
  ),
  column("feedback", "Feedback", { width: 92, fromPx: 1_080 }, ({ rating = 0, tags = [] }) => (
    <span title={tags.join(", ")}>
      {rating !== 0 && (rating > 0 ? "+1 " : "−1 ")}
      <span className={MUTED}>{tags.join(", ")}</span>
    </span>
  )),
  column("error", "Error", { width: 130, isHidden: true }, ({ error = "" }) => kindWords(error)),
  column("version", "Version", { width: 110, isHidden: true }, ({ packageFingerprint = "" }) =>
    codeCell(shortId(packageFingerprint)),
  ),
  column("run", "Run", { width: 110, isHidden: true }, ({ runId }) => codeCell(shortId(runId))),
  column("started", "Started", { width: 96, isSortable: true, fromPx: 480 }, ({ at = "", startedAt = at }) =>
    startedAt === "" ? "–" : <Ago at={startedAt} />,
  ),
];

/** How long a run took, or has been going on; a dash while it is queued. */
function Duration({ run: { startedAt, endedAt } }: { readonly run: RunRow }): ReactNode {
  const now = useNow();
  return orDash(startedAt, (begun) =>
    formatDuration(Math.max(0, (endedAt === undefined ? now : Date.parse(endedAt)) - Date.parse(begun))),
  );
}

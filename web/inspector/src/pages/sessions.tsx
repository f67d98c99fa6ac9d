/** The list of sessions. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { SessionInfo } from "@windlass/protocol/client";
import { formatCost, shortId, type TableColumn } from "@windlass/ui";
import type { ReactNode } from "react";
import { to } from "../addresses.js";
import { sharedFilter, type ListSearch } from "../filters.js";
import { DeleteSessions, ListPage, useView } from "../list-page.js";
import { codeCell, column, textCell, useRows } from "../list.js";
import { Ago, Code, Crashes, Empty, lastWords, orDash, RowLink, RunStatus, shortTokens, TextLink } from "../parts.js";
import { sessionsQuery, type SessionView } from "../queries.js";
import { oneOf } from "../router.js";

const SORTS = oneOf(["created", "cost"]);

/** The view of an address. */
function viewOf(search: ListSearch): SessionView {
  return {
    time: search.time,
    filter: {
      ...sharedFilter(search),
      subagents: search.subagents === "1" ? true : undefined,
      sort: SORTS(search.sort) ?? "updated",
    },
  };
}

export function SessionsPage(): ReactNode {
  const view = useView(viewOf);
  return (
    <ListPage
      list="sessions"
      title="Sessions"
      noun="session"
      view={view}
      sortedBy="updated"
      pages={useRows(useInfiniteQuery(sessionsQuery(view)), "sessions")}
      idOf={({ sessionId }) => sessionId}
      columns={COLUMNS}
      actions={(picked, clear) => (
        <DeleteSessions count={picked.length} sessionIds={picked.map(({ sessionId }) => sessionId)} onDone={clear}>
          Their runs, records and files are deleted with them.
        </DeleteSessions>
      )}
      empty={<NoSessions />}
    />
  );
}

const MUTED = "text-agent-muted";

const COLUMNS: readonly TableColumn<SessionInfo>[] = [
  column("title", "Session", { width: 130, share: 1 }, ({ sessionId, title, predecessorId, parentSessionId }) => (
    <>
      <RowLink href={to("session", [sessionId])}>{title || "Untitled"}</RowLink>
      {predecessorId !== undefined && <span className={MUTED}> fork</span>}
      {parentSessionId !== undefined && <span className={MUTED}> subagent</span>}
    </>
  )),
  column("output", "Output, error, or what it waits for", { width: 170, share: 1, fromPx: 860 }, (session) =>
    textCell(lastWords(session), MUTED),
  ),
  column("agent", "Agent", { width: 76, fromPx: 640 }, ({ agentId }) => agentId),
  column("status", "Status", { width: 208 }, ({ status = "idle", waitsOn, crashes = 0 }) => (
    <span className="flex items-center gap-1.5">
      <RunStatus run={{ status, waitsOn }} />
      <Crashes count={crashes} isShort />
    </span>
  )),
  column("runs", "Runs", { width: 60, isNumber: true, fromPx: 760 }, ({ runCount }) => runCount),
  column("tokens", "Tokens", { width: 68, isNumber: true, fromPx: 820 }, ({ usage }) => shortTokens(usage)),
  column("cost", "Cost", { width: 74, isNumber: true, isSortable: true, fromPx: 700 }, ({ usage }) =>
    orDash(usage?.costMicros, formatCost),
  ),
  column("id", "Id", { width: 110, isHidden: true }, ({ sessionId }) => codeCell(shortId(sessionId))),
  column("created", "Began", { width: 96, isSortable: true, fromPx: 1_080 }, ({ createdAt }) => <Ago at={createdAt} />),
  column("updated", "Active", { width: 96, isSortable: true, fromPx: 480 }, ({ updatedAt }) => <Ago at={updatedAt} />),
];

function NoSessions(): ReactNode {
  return (
    <Empty title="There are no sessions yet.">
      <p>
        A session is a conversation with its whole journal. <TextLink href="/chat">Begin one in the chat</TextLink>, or
        from a program:
      </p>
      <p>
        <Code>{`curl ${location.origin}/v1/sessions -H 'content-type: application/json' -d '{"message": "Use weather."}'`}</Code>
      </p>
    </Empty>
  );
}

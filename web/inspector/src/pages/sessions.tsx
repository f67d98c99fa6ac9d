/** The list of sessions. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { SessionInfo } from "@windlass/protocol/client";
import { formatCost, shortId, type TableColumn } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { DeleteSessions } from "../bulk.js";
import { sharedView } from "../filters.js";
import { ListPage, useView } from "../list-page.js";
import { Ago, Code, Crashes, Empty, lastWords, RowLink, RunStatus, shortTokens, TextLink } from "../parts.js";
import { sessionsQuery, type SessionView } from "../queries.js";
import { to } from "../router.js";

/** The view of an address. */
export function viewOf(query: URLSearchParams): SessionView {
  const { time, filter, values } = sharedView(query);
  return {
    time,
    filter: {
      ...filter,
      subagents: query.get("subagents") === "1" ? true : undefined,
      sort: values.one("sort", ["created", "cost"]) ?? "updated",
    },
  };
}

export function SessionsPage(): ReactNode {
  const view = useView(viewOf);
  const pages = useInfiniteQuery(sessionsQuery(view));
  const rows = useMemo(() => pages.data?.pages.flatMap(({ sessions }) => sessions), [pages.data]);
  return (
    <ListPage
      list="sessions"
      title="Sessions"
      noun="session"
      view={view}
      sortedBy="updated"
      pages={pages}
      rows={rows}
      total={pages.data?.pages[0]?.total}
      idOf={({ sessionId }) => sessionId}
      columnsAt={columnsAt}
      actions={(picked, clear) => (
        <DeleteSessions count={picked.length} sessionIds={picked.map(({ sessionId }) => sessionId)} onDone={clear}>
          Their runs, records and files are deleted with them.
        </DeleteSessions>
      )}
      empty={<NoSessions />}
    />
  );
}

function columnsAt(now: number): readonly TableColumn<SessionInfo>[] {
  return [
    {
      id: "title",
      label: "Session",
      width: 130,
      share: 1,
      cell: ({ sessionId, title, predecessorId, parentSessionId }) => (
        <>
          <RowLink href={to(["sessions", sessionId])}>{title || "Untitled"}</RowLink>
          {predecessorId !== undefined && <span className="text-agent-muted"> fork</span>}
          {parentSessionId !== undefined && <span className="text-agent-muted"> subagent</span>}
        </>
      ),
    },
    {
      id: "output",
      label: "Output, error, or what it waits for",
      width: 170,
      share: 1,
      fromPx: 860,
      cell: (session) => (
        <span className="text-agent-muted" title={lastWords(session)}>
          {lastWords(session)}
        </span>
      ),
    },
    { id: "agent", label: "Agent", width: 76, fromPx: 640, cell: ({ agentId }) => agentId },
    {
      id: "status",
      label: "Status",
      width: 208,
      cell: (session) => (
        <span className="flex items-center gap-1.5">
          <RunStatus run={{ status: session.status ?? "idle", waitsOn: session.waitsOn }} />
          <Crashes count={session.crashes ?? 0} isShort />
        </span>
      ),
    },
    { id: "runs", label: "Runs", width: 60, isNumber: true, fromPx: 760, cell: ({ runCount }) => runCount },
    {
      id: "tokens",
      label: "Tokens",
      width: 68,
      isNumber: true,
      fromPx: 820,
      cell: ({ usage }) => shortTokens(usage),
    },
    {
      id: "cost",
      label: "Cost",
      width: 74,
      isNumber: true,
      isSortable: true,
      fromPx: 700,
      cell: ({ usage }) => (usage?.costMicros === undefined ? "–" : formatCost(usage.costMicros)),
    },
    {
      id: "id",
      label: "Id",
      width: 110,
      isHidden: true,
      cell: ({ sessionId }) => <code className="font-mono text-xs">{shortId(sessionId)}</code>,
    },
    {
      id: "created",
      label: "Began",
      width: 96,
      isSortable: true,
      fromPx: 1_080,
      cell: ({ createdAt }) => createdAt !== undefined && <Ago at={createdAt} nowMs={now} />,
    },
    {
      id: "updated",
      label: "Active",
      width: 96,
      isSortable: true,
      fromPx: 480,
      cell: ({ updatedAt }) => updatedAt !== undefined && <Ago at={updatedAt} nowMs={now} />,
    },
  ];
}

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

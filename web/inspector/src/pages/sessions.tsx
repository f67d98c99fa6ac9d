/** The list of sessions, and a run as a line of a list. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { Usage } from "@windlass/protocol";
import type { RunRow, SessionInfo } from "@windlass/protocol/client";
import {
  classes,
  ColumnMenu,
  DataTable,
  FOCUS,
  formatCost,
  formatDuration,
  formatShort,
  shortId,
  useColumns,
  type TableColumn,
  type TableSort,
} from "@windlass/ui";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { DeleteSessions, ExportButton } from "../bulk.js";
import { Filters, isFiltered, sharedView } from "../filters.js";
import {
  Ago,
  Code,
  Crashes,
  Empty,
  Failure,
  Heading,
  Listed,
  Loading,
  RowLink,
  RunStatus,
  TextLink,
  useNow,
} from "../parts.js";
import { sessionsQuery, useNextPage, type SessionView } from "../queries.js";
import { Link, navigate, to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

/** What the server is asked for by an address. */
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

/** All sessions: found, sorted and paged by the server; the address is the view. */
export function SessionsPage(): ReactNode {
  const [query, change] = useQueryState();
  const layout = useColumns("sessions");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => {
      search.current?.focus();
    },
  });
  const address = useDeferredValue(query.toString());
  const view = useMemo(() => viewOf(new URLSearchParams(address)), [address]);
  const list = useInfiniteQuery(sessionsQuery(view));
  const { data, error, refetch, hasNextPage } = list;
  const items = useMemo(() => data?.pages.flatMap(({ sessions }) => sessions), [data]);
  const picked = items?.filter(({ sessionId }) => chosen.has(sessionId)) ?? [];
  useEffect(() => {
    setChosen(new Set());
  }, [address]);
  const onEnd = useNextPage(list, items?.length);
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [now]);
  const sort: TableSort = { id: view.filter.sort ?? "updated", isAscending: view.filter.ascending === true };
  return (
    <>
      <Heading
        title="Sessions"
        facts={
          items !== undefined && (
            <Listed count={items.length} noun="session" hasMore={hasNextPage} total={data?.pages[0]?.total} />
          )
        }
      >
        <div className="flex flex-wrap items-center gap-2">
          <ExportButton name="sessions" chosen={picked} all={items} />
          {picked.length > 0 && (
            <DeleteSessions
              count={picked.length}
              sessionIds={picked.map(({ sessionId }) => sessionId)}
              onDone={() => {
                setChosen(new Set());
              }}
            >
              Their runs, records and files are deleted with them.
            </DeleteSessions>
          )}
          <ColumnMenu columns={columns} layout={layout} />
        </div>
      </Heading>
      <Filters list="sessions" query={query} change={change} search={search} />
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {items === undefined ? (
        error === null && <Loading />
      ) : items.length === 0 && !hasNextPage ? (
        <NoSessions isFiltered={isFiltered(query)} isSearch={query.has("text")} />
      ) : (
        <DataTable
          label="Sessions"
          rows={items}
          columns={columns}
          keyOf={({ sessionId }) => sessionId}
          onOpen={({ sessionId }) => {
            navigate(to(["sessions", sessionId]));
          }}
          sort={sort}
          onSort={({ id, isAscending }) => {
            change({ sort: id === "updated" ? undefined : id, up: isAscending ? 1 : undefined });
          }}
          chosen={chosen}
          onChoose={setChosen}
          onEnd={onEnd}
          layout={layout}
        />
      )}
    </>
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
      label: "Output, or what it waits for",
      width: 170,
      share: 1,
      fromPx: 860,
      cell: ({ output }) => (
        <span className="text-agent-muted" title={output}>
          {output}
        </span>
      ),
    },
    { id: "agent", label: "Agent", width: 76, fromPx: 640, cell: ({ agentId }) => agentId },
    {
      id: "status",
      label: "Status",
      width: 192,
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

function shortTokens(usage: Usage | undefined): string {
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return tokens === 0 ? "–" : formatShort(tokens);
}

const ROW = "flex items-center gap-4 px-4 py-2 text-sm hover:bg-agent-surface";
const AGENT = "hidden w-28 shrink-0 truncate md:block";
const NUMBER = "hidden w-20 shrink-0 text-right text-xs tabular-nums text-agent-muted lg:block";
const STATE = "w-44 shrink-0 max-sm:w-auto";
const WHEN = "hidden w-20 shrink-0 text-right text-xs text-agent-muted sm:block";

function NoSessions({ isFiltered, isSearch }: { readonly isFiltered: boolean; readonly isSearch: boolean }): ReactNode {
  if (isFiltered)
    return (
      <Empty title="No session fits.">
        <p>
          {isSearch && "Search looks at the beginnings of words in messages, answers and names of tools. "}
          <TextLink href="/sessions">Show all sessions</TextLink>
        </p>
      </Empty>
    );
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

/** A run in a list; a narrow one leaves out how much and how long. */
export function RunLine({
  run,
  now,
  isNarrow = false,
}: {
  readonly run: RunRow;
  readonly now: number;
  readonly isNarrow?: boolean;
}): ReactNode {
  const { runId, agentId, startedAt, usage, input } = run;
  const tookMs = durationOf(run);
  return (
    <Link href={to(["runs", runId])} className={classes(ROW, FOCUS)}>
      <span className="min-w-0 flex-1">
        <span className={classes("block truncate", (input ?? "") === "" && "font-mono text-xs")}>
          {input || shortId(runId)}
        </span>
        <span className={classes("block truncate text-xs text-agent-muted", !isNarrow && "md:hidden")}>{agentId}</span>
      </span>
      {!isNarrow && <span className={AGENT}>{agentId}</span>}
      {!isNarrow && <span className={NUMBER}>{tookMs === undefined ? "–" : formatDuration(tookMs)}</span>}
      {!isNarrow && <span className={NUMBER}>{shortTokens(usage)}</span>}
      {!isNarrow && (
        <span className={NUMBER}>{usage.costMicros === undefined ? "–" : formatCost(usage.costMicros)}</span>
      )}
      <span className={isNarrow ? "" : STATE}>
        <RunStatus run={run} />
      </span>
      <span className={WHEN}>{startedAt != null && <Ago at={startedAt} nowMs={now} />}</span>
    </Link>
  );
}

/** How long a run took; undefined while it goes on. */
function durationOf({ startedAt, endedAt }: RunRow): number | undefined {
  return startedAt == null || endedAt == null ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
}

/** The list of sessions, and a run as a line of a list. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { Usage } from "@windlass/protocol";
import type { RunRow, SessionInfo } from "@windlass/protocol/client";
import {
  classes,
  ColumnMenu,
  DataTable,
  FIELD,
  FOCUS,
  formatCost,
  formatDuration,
  formatShort,
  shortId,
  useColumns,
  type TableColumn,
} from "@windlass/ui";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { DeleteSessions, ExportButton } from "../bulk.js";
import {
  Ago,
  Code,
  Empty,
  Failure,
  Heading,
  Listed,
  Loading,
  RowLink,
  Select,
  Status,
  TextLink,
  useNow,
} from "../parts.js";
import { agentsQuery, sessionsQuery } from "../queries.js";
import { Link, navigate, to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

const STATUSES = ["running", "waiting", "completed", "failed", "cancelled", "budget_exhausted"] as const;

/** All sessions: live, searchable, however many. */
export function SessionsPage(): ReactNode {
  const [query, change] = useQueryState();
  const agents = useQuery(agentsQuery);
  const layout = useColumns("sessions");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => {
      search.current?.focus();
    },
  });
  const status = STATUSES.find((one) => one === query.get("status"));
  const agent = query.get("agent") ?? "";
  const text = query.get("text") ?? "";
  const subagents = query.get("subagents") === "1";
  const words = useDeferredValue(text.trim());
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    sessionsQuery({ text: orNone(words), status, agent: orNone(agent), subagents: subagents ? true : undefined }),
  );
  const items = useMemo(() => data?.pages.flatMap(({ sessions }) => sessions), [data]);
  const picked = items?.filter(({ sessionId }) => chosen.has(sessionId)) ?? [];
  useEffect(() => {
    setChosen(new Set());
  }, [words, status, agent, subagents]);
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [now]);
  return (
    <>
      <Heading
        title="Sessions"
        facts={items !== undefined && <Listed count={items.length} noun="session" hasMore={hasNextPage} />}
      >
        <div className="flex flex-wrap items-center gap-3">
          <input
            ref={search}
            type="search"
            aria-label="Search messages and tools"
            placeholder="Search messages  /"
            className={classes(FIELD, "w-48!")}
            value={text}
            onChange={(event) => {
              change({ text: event.target.value });
            }}
          />
          <Select
            label="Status"
            value={status ?? ""}
            options={[["", "any"], ...STATUSES.map((one) => [one, one.replaceAll("_", " ")] as const)]}
            onChange={(next) => {
              change({ status: next });
            }}
          />
          <Select
            label="Agent"
            value={agent}
            options={[["", "any"], ...(agents.data ?? []).map(({ agentId }) => [agentId, agentId] as const)]}
            onChange={(next) => {
              change({ agent: next });
            }}
          />
          <label className="inline-flex items-center gap-2 text-xs text-agent-muted">
            <input
              type="checkbox"
              checked={subagents}
              onChange={(event) => {
                change({ subagents: event.target.checked ? 1 : undefined });
              }}
            />
            Subagents
          </label>
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
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {items === undefined ? (
        error === null && <Loading />
      ) : items.length === 0 ? (
        <NoSessions isFiltered={text !== "" || status !== undefined || agent !== ""} />
      ) : (
        <DataTable
          label="Sessions, the newest first"
          rows={items}
          columns={columns}
          keyOf={({ sessionId }) => sessionId}
          onOpen={({ sessionId }) => {
            navigate(to(["sessions", sessionId]));
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
      width: 180,
      share: 1,
      cell: ({ sessionId, title, predecessorId, parentSessionId }) => (
        <>
          <RowLink href={to(["sessions", sessionId])}>{title == null || title === "" ? "Untitled" : title}</RowLink>
          {predecessorId != null && <span className="text-agent-muted"> fork</span>}
          {parentSessionId != null && <span className="text-agent-muted"> subagent</span>}
        </>
      ),
    },
    { id: "agent", label: "Agent", width: 110, fromPx: 640, cell: ({ agentId = "" }) => agentId },
    {
      id: "status",
      label: "Status",
      width: 160,
      cell: ({ status, requestCount = 0 }) => (
        <Status status={status ?? "idle"} words={requestCount > 0 ? "waiting for you" : undefined} />
      ),
    },
    { id: "runs", label: "Runs", width: 64, isNumber: true, fromPx: 760, cell: ({ runCount = 0 }) => runCount },
    {
      id: "tokens",
      label: "Tokens",
      width: 76,
      isNumber: true,
      fromPx: 820,
      cell: ({ usage }) => shortTokens(usage),
    },
    {
      id: "cost",
      label: "Cost",
      width: 80,
      isNumber: true,
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
      id: "updated",
      label: "When",
      width: 100,
      fromPx: 480,
      cell: ({ updatedAt }) => updatedAt != null && <Ago at={updatedAt} nowMs={now} />,
    },
  ];
}

function shortTokens(usage: Usage | undefined): string {
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return tokens === 0 ? "–" : formatShort(tokens);
}

function orNone(text: string): string | undefined {
  return text === "" ? undefined : text;
}

const ROW = "flex items-center gap-4 px-4 py-2 text-sm hover:bg-agent-surface";
const AGENT = "hidden w-28 shrink-0 truncate md:block";
const NUMBER = "hidden w-20 shrink-0 text-right text-xs tabular-nums text-agent-muted lg:block";
const STATE = "w-28 shrink-0 max-sm:w-auto";
const WHEN = "hidden w-20 shrink-0 text-right text-xs text-agent-muted sm:block";

function NoSessions({ isFiltered }: { readonly isFiltered: boolean }): ReactNode {
  if (isFiltered)
    return (
      <Empty title="Nothing fits.">
        <p>
          Search looks at the beginnings of words in messages, answers and names of tools.{" "}
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
  const { runId, agentId, status, startedAt, usage, input } = run;
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
        <Status status={status} />
      </span>
      <span className={WHEN}>{startedAt != null && <Ago at={startedAt} nowMs={now} />}</span>
    </Link>
  );
}

/** How long a run took; undefined while it goes on. */
function durationOf({ startedAt, endedAt }: RunRow): number | undefined {
  return startedAt == null || endedAt == null ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
}

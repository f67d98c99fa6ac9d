/** Lists of sessions and runs. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { RunStatus, Usage } from "@windlass/protocol";
import type { RunRow, SessionInfo } from "@windlass/protocol/client";
import { classes, FOCUS, formatCost, formatDuration, formatShort, shortId } from "@windlass/ui";
import { useCallback, useDeferredValue, useMemo, useRef, type ReactNode } from "react";
import {
  Ago,
  Code,
  Empty,
  Failure,
  Heading,
  Loading,
  Select,
  SMALL_FIELD,
  Status,
  Tabs,
  TextLink,
  useNow,
  VirtualList,
} from "../parts.js";
import { agentsQuery, runsQuery, sessionsQuery } from "../queries.js";
import { Link, to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

const STATUSES = ["running", "waiting", "completed", "failed", "cancelled", "budget_exhausted"] as const;
const ROW_PX = 57;

/** All sessions and all runs: live, searchable, however many. */
export function SessionsPage(): ReactNode {
  const [query, change] = useQueryState();
  const agents = useQuery(agentsQuery);
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => {
      search.current?.focus();
    },
  });
  const isRuns = query.get("list") === "runs";
  const status = STATUSES.find((one) => one === query.get("status"));
  const agent = query.get("agent") ?? "";
  return (
    <>
      <Heading title={isRuns ? "Runs" : "Sessions"}>
        <div className="flex flex-wrap items-center gap-3">
          {!isRuns && (
            <input
              ref={search}
              type="search"
              aria-label="Search messages and tools"
              placeholder="Search messages  /"
              className={classes(SMALL_FIELD, "w-48!")}
              value={query.get("text") ?? ""}
              onChange={(event) => {
                change({ text: event.target.value });
              }}
            />
          )}
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
          {!isRuns && (
            <label className="inline-flex items-center gap-2 text-xs text-agent-muted">
              <input
                type="checkbox"
                checked={query.get("subagents") === "1"}
                onChange={(event) => {
                  change({ subagents: event.target.checked ? 1 : undefined });
                }}
              />
              Subagents
            </label>
          )}
        </div>
      </Heading>
      <Tabs
        label="Lists"
        value={isRuns ? "runs" : "sessions"}
        onChange={(list) => {
          change({ list: list === "runs" ? "runs" : undefined, text: undefined }, { push: true });
        }}
        tabs={[
          {
            id: "sessions",
            label: "Sessions",
            content: () => (
              <Sessions
                text={query.get("text") ?? ""}
                status={status}
                agent={agent}
                subagents={query.get("subagents") === "1"}
              />
            ),
          },
          { id: "runs", label: "Runs", content: () => <Runs status={status} agent={agent} /> },
        ]}
      />
    </>
  );
}

interface Filter {
  readonly text: string;
  readonly status: RunStatus | undefined;
  readonly agent: string;
  readonly subagents: boolean;
}

function Sessions({ text, status, agent, subagents }: Filter): ReactNode {
  const words = useDeferredValue(text.trim());
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    sessionsQuery({ text: orNone(words), status, agent: orNone(agent), subagents: subagents ? true : undefined }),
  );
  const items = useMemo(() => data?.pages.flatMap(({ sessions }) => sessions), [data]);
  const now = useNow();
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  if (error !== null && items === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (items === undefined) return <Loading />;
  if (items.length === 0) return <NoSessions isFiltered={text !== "" || status !== undefined || agent !== ""} />;
  return (
    <>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      <Columns first="Session" third="Runs" />
      <VirtualList
        items={items}
        label="Sessions, the newest first"
        keyOf={({ sessionId }) => sessionId}
        rowPx={ROW_PX}
        onEnd={onEnd}
        render={(session) => <SessionRow session={session} now={now} />}
      />
      <p role="status" className="border-t border-agent-border px-4 py-1 text-xs text-agent-muted">
        {items.length.toLocaleString("en-US")}
        {hasNextPage ? " and more" : ""} sessions
      </p>
    </>
  );
}

function orNone(text: string): string | undefined {
  return text === "" ? undefined : text;
}

const ROW = "flex items-center gap-4 px-4 py-2 text-sm hover:bg-agent-surface";
const AGENT = "hidden w-28 shrink-0 truncate md:block";
const NUMBER = "hidden w-20 shrink-0 text-right text-xs tabular-nums text-agent-muted lg:block";
const STATE = "w-28 shrink-0 max-sm:w-auto";
const WHEN = "hidden w-20 shrink-0 text-right text-xs text-agent-muted sm:block";

/** Column headings; each row repeats them for screen readers. */
function Columns({ first, third }: { readonly first: string; readonly third: string }): ReactNode {
  return (
    <div
      aria-hidden
      className="hidden items-center gap-4 border-b border-agent-border bg-agent-surface px-4 py-1.5 text-xs text-agent-muted sm:flex"
    >
      <span className="min-w-0 flex-1">{first}</span>
      <span className={AGENT}>Agent</span>
      <span className={NUMBER}>{third}</span>
      <span className={NUMBER}>Tokens</span>
      <span className={NUMBER}>Cost</span>
      <span className={STATE}>Status</span>
      <span className={WHEN}>When</span>
    </div>
  );
}

function SessionRow({ session, now }: { readonly session: SessionInfo; readonly now: number }): ReactNode {
  const { sessionId, title, agentId = "", status, updatedAt, usage, runCount = 0 } = session;
  return (
    <Link href={to(["sessions", sessionId])} className={classes(ROW, "border-b border-agent-border", FOCUS)}>
      <span className="min-w-0 flex-1">
        <span className="block truncate font-medium">{title == null || title === "" ? "Untitled" : title}</span>
        <span className="block truncate text-xs text-agent-muted">{about(session)}</span>
      </span>
      <span className={AGENT}>{agentId}</span>
      <span className={NUMBER}>
        {runCount}
        <span className="sr-only">{runCount === 1 ? " run" : " runs"}</span>
      </span>
      <Used usage={usage} />
      <span className={STATE}>
        <Status status={status ?? "idle"} />
      </span>
      <span className={WHEN}>{updatedAt != null && <Ago at={updatedAt} nowMs={now} />}</span>
    </Link>
  );
}

function about({ sessionId, agentId, requestCount = 0, predecessorId, parentSessionId }: SessionInfo): ReactNode {
  const parts = [
    requestCount > 0 ? `${requestCount} waiting for you` : "",
    predecessorId == null ? "" : "fork",
    parentSessionId == null ? "" : "subagent",
  ].filter((part) => part !== "");
  return (
    <>
      <span className="font-mono">{shortId(sessionId)}</span>
      {agentId !== undefined && <span className="md:hidden"> · {agentId}</span>}
      {parts.map((part) => ` · ${part}`)}
    </>
  );
}

function Used({ usage }: { readonly usage: Usage | undefined }): ReactNode {
  const tokens = (usage?.inputTokens ?? 0) + (usage?.outputTokens ?? 0);
  return (
    <>
      <span className={NUMBER}>
        {tokens === 0 ? (
          "–"
        ) : (
          <>
            {formatShort(tokens)}
            <span className="sr-only"> tokens</span>
          </>
        )}
      </span>
      <span className={NUMBER}>{usage?.costMicros === undefined ? "–" : formatCost(usage.costMicros)}</span>
    </>
  );
}

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

function Runs({ status, agent }: { readonly status: RunStatus | undefined; readonly agent: string }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    runsQuery({ status, agent: orNone(agent) }),
  );
  const items = useMemo(() => data?.pages.flatMap(({ runs }) => runs), [data]);
  const now = useNow();
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  if (error !== null && items === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (items === undefined) return <Loading />;
  if (items.length === 0) return <NoSessions isFiltered={status !== undefined || agent !== ""} />;
  return (
    <>
      <Columns first="Run" third="Time" />
      <VirtualList
        items={items}
        label="Runs, the newest first"
        keyOf={({ runId }) => runId}
        rowPx={ROW_PX}
        onEnd={onEnd}
        render={(run) => (
          <div className="border-b border-agent-border">
            <RunLine run={run} now={now} />
          </div>
        )}
      />
      <p role="status" className="border-t border-agent-border px-4 py-1 text-xs text-agent-muted">
        {items.length.toLocaleString("en-US")}
        {hasNextPage ? " and more" : ""} runs
      </p>
    </>
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
  const { runId, agentId, status, startedAt, usage } = run;
  const tookMs = durationOf(run);
  return (
    <Link href={to(["runs", runId])} className={classes(ROW, FOCUS)}>
      <span className="min-w-0 flex-1">
        <span className="block truncate font-mono text-xs">{shortId(runId)}</span>
        <span className={classes("block truncate text-xs text-agent-muted", !isNarrow && "md:hidden")}>{agentId}</span>
      </span>
      {!isNarrow && <span className={AGENT}>{agentId}</span>}
      {!isNarrow && <span className={NUMBER}>{tookMs === undefined ? "–" : formatDuration(tookMs)}</span>}
      {!isNarrow && <Used usage={usage} />}
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

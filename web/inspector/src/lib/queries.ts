/** What pages ask the server for; the same question is asked once. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import type { RunStatus } from "@windlass/protocol";
import type { RunRow } from "@windlass/protocol/client";
import { client } from "./api.js";

/** Items on a page of a list: as many as the server gives at once. */
export const PAGE = 200;
const LIVE_MS = 2_000;
const SLOW_MS = 10_000;
/** From so many pages on a list is asked for again less often. */
const PAGES_FEW = 3;

export const agentsQuery = queryOptions({
  queryKey: ["agents"],
  queryFn: ({ signal }) => client.agents({ signal }),
  staleTime: 60_000,
});

export const approvalsQuery = queryOptions({
  queryKey: ["approvals"],
  queryFn: ({ signal }) => client.approvals({ limit: PAGE }, { signal }),
  refetchInterval: LIVE_MS,
});

/** Which sessions are wanted. */
export interface SessionFilter {
  readonly text?: string | undefined;
  readonly status?: RunStatus | undefined;
  readonly agent?: string | undefined;
  readonly subagents?: boolean | undefined;
}

export const sessionsQuery = (filter: SessionFilter) =>
  infiniteQueryOptions({
    queryKey: ["sessions", filter],
    queryFn: ({ signal, pageParam }) => client.listSessions({ ...filter, after: pageParam, limit: PAGE }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next ?? undefined,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) <= PAGES_FEW ? LIVE_MS : SLOW_MS),
  });

export const recentSessionsQuery = queryOptions({
  queryKey: ["sessions", "recent"],
  queryFn: async ({ signal }) => (await client.listSessions({ limit: 30 }, { signal })).sessions,
  refetchInterval: LIVE_MS * 2,
});

export const sessionQuery = (sessionId: string) =>
  queryOptions({
    queryKey: ["session", sessionId],
    queryFn: ({ signal }) => client.getSession(sessionId, { signal }),
    refetchInterval: LIVE_MS,
  });

export const runsOfSessionQuery = (sessionId: string) =>
  queryOptions({
    queryKey: ["runs", "session", sessionId],
    queryFn: async ({ signal }) => (await client.listRuns({ session: sessionId, limit: PAGE }, { signal })).runs,
    refetchInterval: LIVE_MS,
  });

const OVER: ReadonlySet<string> = new Set(["completed", "failed", "cancelled", "budget_exhausted"]);

/** Whether nothing more happens in a run. */
export function isOver(status: string): boolean {
  return OVER.has(status);
}

export const runQuery = (runId: string) =>
  queryOptions({
    queryKey: ["run", runId],
    queryFn: ({ signal }) => client.getRun(runId, { signal }),
    refetchInterval: ({ state }) => (state.data !== undefined && isOver(state.data.run.status) ? false : LIVE_MS),
  });

export const traceQuery = (runId: string, isLive: boolean) =>
  queryOptions({
    queryKey: ["trace", runId, isLive],
    queryFn: ({ signal }) => client.trace(runId, { signal }),
    refetchInterval: isLive ? LIVE_MS : false,
    staleTime: isLive ? 0 : Infinity,
  });

export const decisionsQuery = (runId: string, isLive: boolean) =>
  queryOptions({
    queryKey: ["decisions", runId, isLive],
    queryFn: ({ signal }) => client.decisions(runId, { signal }),
    refetchInterval: isLive ? SLOW_MS : false,
    staleTime: isLive ? 0 : Infinity,
  });

export const toolsQuery = queryOptions({
  queryKey: ["tools"],
  queryFn: ({ signal }) => client.tools({ signal }),
  staleTime: 60_000,
});

/** Which runs are wanted. */
export interface RunFilter {
  readonly status?: RunStatus | undefined;
  readonly agent?: string | undefined;
}

export const runsQuery = (filter: RunFilter) =>
  infiniteQueryOptions({
    queryKey: ["runs", "all", filter],
    queryFn: ({ signal, pageParam }) => client.listRuns({ ...filter, after: pageParam, limit: PAGE }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next ?? undefined,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) <= PAGES_FEW ? LIVE_MS : SLOW_MS),
  });

export const recentRunsQuery = (agent: string | undefined) =>
  queryOptions({
    queryKey: ["runs", "recent", agent],
    queryFn: async ({ signal }) => (await client.listRuns({ agent, limit: 50 }, { signal })).runs,
    staleTime: SLOW_MS,
    refetchInterval: SLOW_MS,
  });

/** Runs that the overview looks at, at most. */
export const OVERVIEW_RUNS_MAX = 5 * PAGE;

/** Runs that began since a moment, newest first, up to a limit. */
export const runsSinceQuery = (rangeMs: number) =>
  queryOptions({
    queryKey: ["runs", "since", rangeMs],
    queryFn: async ({ signal }): Promise<readonly RunRow[]> => {
      const from = new Date(Date.now() - rangeMs).toISOString();
      const found: RunRow[] = [];
      let after: string | undefined;
      do {
        const page = await client.listRuns({ after, limit: PAGE }, { signal });
        found.push(...page.runs);
        after = page.next ?? undefined;
      } while (after !== undefined && found.length < OVERVIEW_RUNS_MAX && (found.at(-1)?.startedAt ?? from) >= from);
      return found.filter(({ startedAt }) => startedAt == null || startedAt >= from);
    },
    refetchInterval: SLOW_MS,
  });

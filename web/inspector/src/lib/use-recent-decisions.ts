import { useQueries, useQuery, type UseQueryResult } from "@tanstack/react-query";
import type { DecisionRun } from "@windlass/protocol";
import { decisionsQuery, isOver, recentRunsQuery } from "./queries.js";

/** Decisions of the newest runs. */
export interface RecentDecisions {
  readonly runs: readonly DecisionRun[];
  readonly isLoading: boolean;
  readonly error: Error | undefined;
}

/** The decisions of the newest runs, of one agent or of all. The server tells them run by run; what is over is asked for once. */
export function useRecentDecisions(agent: string | undefined): RecentDecisions {
  const recent = useQuery(recentRunsQuery(agent));
  const begun = (recent.data ?? []).filter(({ startedAt }) => startedAt != null);
  const decisions = useQueries({ queries: begun.map(({ runId, status }) => decisionsQuery(runId, !isOver(status))), combine });
  return { ...decisions, isLoading: recent.isLoading || decisions.isLoading, error: recent.error ?? decisions.error };
}

function combine(results: readonly UseQueryResult<DecisionRun>[]): RecentDecisions {
  return {
    runs: results.map(({ data }) => data).filter((run) => run !== undefined),
    isLoading: results.some(({ isLoading }) => isLoading),
    error: results.find(({ error }) => error !== null)?.error ?? undefined,
  };
}

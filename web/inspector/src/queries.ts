/** Queries to the server, and the feed over all sessions that says when lists are stale. */
import {
  infiniteQueryOptions,
  keepPreviousData,
  queryOptions,
  useInfiniteQuery,
  useQueryClient,
  type Query,
  type QueryClient,
} from "@tanstack/react-query";
import { useCallback, useEffect, useMemo } from "react";
import { isKnown, type DecisionRun, type Event, type TraceInfo } from "@windlass/protocol";
import type { KnownCall } from "@windlass/ui";
import type { ExperimentsListQuery, ProposalList, RunsListQuery, SessionsListQuery } from "@windlass/protocol/client";
import type { ListTime } from "./addresses.js";
import { client, door } from "./auth.js";

/** Event types that change lists. */
const TYPES = [
  "session.started",
  "session.forked",
  "message.received",
  "step.completed",
  "run.started",
  "run.waiting",
  "run.resumed",
  "run.cancel_requested",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.budget_exhausted",
  "input.requested",
  "input.resolved",
] as const;
/** Queries that those events make stale, by the first part of their keys. */
const LISTS: ReadonlySet<unknown> = new Set(["sessions", "session", "runs", "run", "approvals"]);
/** However much happens, lists are asked for at most so often. */
const THROTTLE_MS = 400;
/** A list that follows is asked for all the same, but seldom. */
const SELDOM_MS = 30_000;
/** A list with more pages than this is not read again with every event. */
const PAGES_FEW = 3;

let isOpen = false;

/** How often to ask for something that the feed tells about; often where there is no feed. */
function pollMs(withoutFeedMs: number): number {
  return isOpen ? SELDOM_MS : withoutFeedMs;
}

/** How many pages of a list are here; 1 of anything else. */
function pageCount(data: unknown): number {
  return typeof data === "object" && data !== null && "pages" in data && Array.isArray(data.pages)
    ? data.pages.length
    : 1;
}

function isList({ queryKey, state }: Query): boolean {
  return LISTS.has(queryKey[0]) && pageCount(state.data) <= PAGES_FEW;
}

/** Follows the sessions of the user while the page is seen; hidden windows hold no connection. */
export function useLive(): void {
  const queries = useQueryClient();
  useEffect(() => {
    let stop: AbortController | undefined;
    const look = (): void => {
      if (document.visibilityState === "hidden") {
        stop?.abort();
        stop = undefined;
      } else if (stop === undefined) {
        stop = new AbortController();
        void follow(queries, stop.signal);
      }
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      stop?.abort();
    };
  }, [queries]);
}

/** Lists that are stale are asked for again, but not with every event. */
class Refresher {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly queries: QueryClient) {}

  readonly refresh = (): void => {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      void this.queries.invalidateQueries({ predicate: isList });
    }, THROTTLE_MS);
  };

  readonly setOpen = (now: boolean): void => {
    if (isOpen !== now) this.refresh();
    isOpen = now;
  };

  stop(): void {
    this.setOpen(false);
    clearTimeout(this.timer);
  }
}

/** One window of the browser reads the feed, and tells the others; when it is closed, another one goes on. */
async function follow(queries: QueryClient, signal: AbortSignal): Promise<void> {
  const lists = new Refresher(queries);
  const name = await channelName();
  if (name === undefined || signal.aborted) return;
  const others = new BroadcastChannel(name);
  const role = { isLeader: false };
  others.onmessage = ({ data }) => {
    if (data === "changed") lists.refresh();
    else if (data !== "who") lists.setOpen(data === true);
    else if (role.isLeader) others.postMessage(isOpen);
  };
  others.postMessage("who");
  try {
    await navigator.locks.request(name, { signal }, async () => {
      role.isLeader = true;
      lists.refresh();
      const onState = ({ status }: { readonly status: string }): void => {
        lists.setOpen(status === "open");
        others.postMessage(isOpen);
      };
      const events = client.allEvents({ types: TYPES, signal, onState });
      while ((await events.next()).done !== true) {
        lists.refresh();
        others.postMessage("changed");
      }
    });
  } catch {
    // Without a feed, because the server has none or the page is left: lists are asked for again and again.
  } finally {
    if (role.isLeader) others.postMessage(false);
    others.close();
    lists.stop();
  }
}

/** Windows with the same key share a channel; undefined where the browser has no locks, as over plain HTTP. */
async function channelName(): Promise<string | undefined> {
  if (!("locks" in navigator)) return undefined;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(door.key ?? ""));
  return `windlass-lists-${Array.from(new Uint8Array(digest).slice(0, 8)).join("-")}`;
}

// Queries.

/** The pages of a list, as far as they are read. */
export interface Pages {
  readonly hasNextPage: boolean;
  readonly isFetchingNextPage: boolean;
  readonly fetchNextPage: () => Promise<unknown>;
}

/**
 * Reads the next page, for a list that comes to its end.
 *
 * A page may be empty and have a next one: it is read at once while there are no rows.
 */
export function useNextPage({ hasNextPage, isFetchingNextPage, fetchNextPage }: Pages, rows: number | undefined) {
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  useEffect(() => {
    if (rows === 0) onEnd();
  }, [rows, onEnd]);
  return onEnd;
}

/** A function that has queries asked again, by the beginnings of their keys; what waits for it has their answers. */
export function useRefresh(...keys: readonly (readonly unknown[])[]): () => Promise<unknown> {
  const queries = useQueryClient();
  return () => Promise.all(keys.map((queryKey) => queries.invalidateQueries({ queryKey })));
}

/** Runs that have started, the newest first, without those of subagents. */
export function useStartedRuns(agent?: string) {
  const list = useInfiniteQuery(runsQuery({ filter: { agent, subagents: false } }));
  const { data, error, refetch, hasNextPage } = list;
  const runs = useMemo(
    () => data?.pages.flatMap((page) => page.runs).filter(({ startedAt }) => startedAt !== undefined),
    [data],
  );
  return { runs, error, refetch, hasNextPage, onEnd: useNextPage(list, runs?.length) };
}

/** Reads all pages of a short list, joined. */
async function wholeList<P extends { readonly next?: string | undefined }>(
  ask: (after: string | undefined) => Promise<P>,
  join: (head: P, page: P) => P,
): Promise<P> {
  let whole = await ask(undefined);
  while (whole.next !== undefined) whole = join(whole, await ask(whole.next));
  return whole;
}

/** A list of which each page names where the next one begins. */
const BY_CURSOR = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: ({ next }: { readonly next?: string | null | undefined }) => next ?? undefined,
};

/** Items on a page of a list: as many as the server gives at once. */
const PAGE = 200;
const LIVE_MS = 2_000;
const SLOW_MS = 10_000;

/** A list that goes on: a short one is asked for often, a long one seldom. */
function listMs(data: unknown): number {
  return pageCount(data) <= PAGES_FEW ? pollMs(LIVE_MS) : pollMs(SLOW_MS);
}

export const agentsQuery = queryOptions({
  queryKey: ["agents"],
  queryFn: async ({ signal }) => (await client.agents.list({ signal })).agents,
  staleTime: 60_000,
});

export const healthQuery = queryOptions({
  queryKey: ["health"],
  queryFn: ({ signal }) => client.server.health({ signal }),
});

export const approvalsQuery = queryOptions({
  queryKey: ["approvals"],
  queryFn: ({ signal }) => client.approvals.list({ limit: PAGE }, { signal }),
  refetchInterval: () => pollMs(LIVE_MS),
});

/** A filter and an order of sessions, and the time of their last change. */
export interface SessionView {
  readonly filter: SessionsListQuery;
  readonly time?: ListTime | undefined;
}

export const sessionsQuery = ({ filter, time }: SessionView) =>
  infiniteQueryOptions({
    queryKey: ["sessions", "all", filter, time],
    queryFn: ({ signal, pageParam }) =>
      client.sessions.list({ ...filter, ...pageAt(pageParam), since: sinceOf(time) ?? filter.since }, { signal }),
    placeholderData: keepPreviousData,
    ...BY_CURSOR,
    refetchInterval: ({ state }) => listMs(state.data),
  });

export const recentSessionsQuery = queryOptions({
  queryKey: ["sessions", "recent"],
  queryFn: async ({ signal }) => (await client.sessions.list({ limit: 30 }, { signal })).sessions,
  refetchInterval: () => pollMs(LIVE_MS * 2),
});

/** Titles of waiting sessions, by their ids. */
export const waitingTitlesQuery = queryOptions({
  queryKey: ["sessions", "waiting", "titles"],
  queryFn: async ({ signal }): Promise<ReadonlyMap<string, string>> => {
    const { sessions } = await client.sessions.list({ status: "waiting", limit: PAGE }, { signal });
    return new Map(sessions.map(({ sessionId, title }) => [sessionId, title]));
  },
  refetchInterval: () => pollMs(SLOW_MS),
});

export const sessionQuery = (sessionId: string) =>
  queryOptions({
    queryKey: ["session", sessionId],
    queryFn: ({ signal }) => client.sessions.get(sessionId, { signal }),
    refetchInterval: () => pollMs(LIVE_MS),
  });

export const runsOfSessionQuery = (sessionId: string) =>
  queryOptions({
    queryKey: ["runs", "session", sessionId],
    queryFn: async ({ signal }) => (await client.runs.list({ session: sessionId, limit: PAGE }, { signal })).runs,
    refetchInterval: () => pollMs(LIVE_MS),
  });

const OVER: ReadonlySet<string> = new Set(["completed", "failed", "cancelled", "budget_exhausted"]);

/** Whether nothing more happens in a run. */
export function isOver(status: string): boolean {
  return OVER.has(status);
}

export const runQuery = (runId: string) =>
  queryOptions({
    queryKey: ["run", runId],
    queryFn: ({ signal }) => client.runs.get(runId, { signal }),
    refetchInterval: ({ state }) =>
      state.data !== undefined && isOver(state.data.run.status) ? false : pollMs(LIVE_MS),
  });

/** The feedback on a run, its steps and its answers, oldest first. */
export const feedbackQuery = (runId: string) =>
  queryOptions({
    queryKey: ["feedback", runId],
    queryFn: async ({ signal }) => {
      const whole = await wholeList(
        (after) => client.runs.feedback(runId, { after }, { signal }),
        (head, page) => ({ ...page, feedback: [...head.feedback, ...page.feedback] }),
      );
      return whole.feedback;
    },
    staleTime: SLOW_MS,
  });

/** The calls that an undo of a run would reverse. */
export const undoQuery = (runId: string) =>
  queryOptions({
    queryKey: ["undo", runId],
    queryFn: ({ signal }) => client.runs.undoPlan(runId, { signal }),
    staleTime: 0,
    gcTime: 0,
  });

/** Where the money of a run went; it grows until the run ends. */
export const costsQuery = (runId: string, isLive: boolean) =>
  queryOptions({
    queryKey: ["costs", runId, isLive],
    queryFn: ({ signal }) => client.runs.costs(runId, { signal }),
    refetchInterval: isLive ? LIVE_MS : false,
  });

/** A trace grows until its run ends: after the first answer, only spans that are new or changed are asked for. */
export const traceQuery = (runId: string) =>
  queryOptions({
    queryKey: ["trace", runId],
    queryFn: async ({ signal, client: queries }): Promise<TraceInfo> => {
      const cached = queries.getQueryData<TraceInfo>(["trace", runId]);
      // No page shows the events, and a long run has as many as spans.
      const answer = await client.runs.trace(runId, { events: false, after: cached?.seq }, { signal });
      return cached?.seq === undefined ? answer : withNew(cached, answer);
    },
    // Spans that did not change are the same objects already.
    structuralSharing: false,
    refetchInterval: ({ state }) => (state.data?.trace.endedAt === undefined ? LIVE_MS : false),
    staleTime: ({ state }) => (state.data?.trace.endedAt === undefined ? 0 : Infinity),
  });

/** A trace with the spans that an answer has of it; itself if there are none. */
export function withNew(cached: TraceInfo, answer: TraceInfo): TraceInfo {
  if (answer.spans.length === 0 && answer.trace.endedAt === cached.trace.endedAt) return cached;
  const fresh = new Map(answer.spans.map((span) => [span.spanId, span]));
  const spans = cached.spans.map((span) => {
    const next = fresh.get(span.spanId) ?? span;
    fresh.delete(span.spanId);
    return next;
  });
  return { ...answer, spans: [...spans, ...fresh.values()] };
}

const DECISIONS = 100;

/** The decisions of a run, page by page; as one run. */
export const decisionsQuery = (runId: string, isLive: boolean) =>
  infiniteQueryOptions({
    queryKey: ["decisions", runId, isLive],
    queryFn: ({ signal, pageParam }) =>
      client.runs.decisions(runId, { after: pageParam, limit: DECISIONS }, { signal }),
    initialPageParam: 0,
    getNextPageParam: ({ metrics, decisions }, _, after) =>
      decisions.length > 0 && after + decisions.length < metrics.totalDecisions ? after + decisions.length : undefined,
    select: ({ pages }): DecisionRun | undefined => {
      const newest = pages.at(-1);
      return newest && { ...newest, decisions: pages.flatMap(({ decisions }) => decisions) };
    },
    refetchInterval: isLive ? SLOW_MS : false,
    staleTime: isLive ? 0 : Infinity,
  });

/** Facts of the journal about the call that a request names, and the last messages of its run. */
export interface AskedAbout {
  readonly known: KnownCall;
  readonly said: readonly Said[];
}

/** A message of the run that asks. */
export interface Said {
  readonly id: string;
  readonly isUser: boolean;
  readonly text: string;
  /** Whether the call that is asked about came with it. */
  readonly isAbout: boolean;
}

const SAID_MAX = 6;

/** Read from the records of the run once: a request that waits does not change. */
export const askedAboutQuery = (runId: string, requestId: string, callId: string) =>
  queryOptions({
    queryKey: ["asked", runId, requestId],
    queryFn: async ({ signal }): Promise<AskedAbout> => {
      const records: Event[] = [];
      for await (const { event } of client.runEvents(runId, { follow: false, signal })) records.push(event);
      return aboutCall(records, callId);
    },
    staleTime: Infinity,
  });

/** Reads the facts about a call out of the records of its run. */
export function aboutCall(records: readonly Event[], callId: string): AskedAbout {
  let facts: KnownCall = {};
  let spoken: number | undefined;
  const messages: Said[] = [];
  const requestIds = new Set<string>();
  for (const record of records.filter(isKnown)) {
    const id = String(record.seq ?? messages.length);
    if (record.type === "message.received")
      messages.push({ id, isUser: true, text: record.data.message, isAbout: false });
    else if (record.type === "message.completed" && (record.data.message ?? "") !== "") {
      messages.push({ id, isUser: false, text: record.data.message ?? "", isAbout: false });
      spoken = record.data.stepIndex;
    } else if (record.type === "actions.requested" && record.data.actions.some((action) => action.callId === callId)) {
      // The words of the step, if it had any, come with its calls.
      const message = spoken === record.data.stepIndex ? messages.pop() : undefined;
      messages.push({ id, isUser: false, text: message?.text ?? "", isAbout: true });
    }
    if (record.type === "input.requested" && record.data.childSessionId === undefined)
      for (const { requestId, action } of record.data.requests) if (action.callId === callId) requestIds.add(requestId);
    if (record.type === "action.started" && record.data.callId === callId) {
      const { idempotencyKey } = record.data;
      facts = { ...facts, startedAt: record.meta.at, attempt: (facts.attempt ?? 0) + 1, idempotencyKey };
    }
    if (record.type === "input.resolved")
      for (const { requestId, outcome, response } of record.data.resolutions)
        if (requestIds.has(requestId) && outcome === "approved")
          facts = { ...facts, answer: { outcome, at: record.meta.at, by: response?.responder, isChanged: false } };
  }
  return { known: facts, said: messages.slice(-SAID_MAX) };
}

export const toolsQuery = queryOptions({
  queryKey: ["tools"],
  queryFn: async ({ signal }) => (await client.tools.list({ signal })).tools,
  staleTime: 60_000,
});

/** A filter and an order of runs, and the time of their start. */
export interface RunView {
  readonly filter: RunsListQuery;
  readonly time?: ListTime | undefined;
}

const HOUR_MS = 3_600_000;
/** Times that end now, in milliseconds. */
export const TIMES_MS: Readonly<Record<ListTime, number>> = {
  "1h": HOUR_MS,
  "24h": 24 * HOUR_MS,
  "7d": 168 * HOUR_MS,
  "30d": 720 * HOUR_MS,
};

function sinceOf(time: ListTime | undefined): string | undefined {
  return time === undefined ? undefined : new Date(Date.now() - TIMES_MS[time]).toISOString();
}

/** A page of a list; with the first one comes how many rows there are. */
function pageAt(after: string | undefined) {
  return { after, limit: PAGE, total: after === undefined ? true : undefined };
}

export const runsQuery = ({ filter, time }: RunView) =>
  infiniteQueryOptions({
    queryKey: ["runs", "all", filter, time],
    queryFn: ({ signal, pageParam }) =>
      client.runs.list({ ...filter, ...pageAt(pageParam), since: sinceOf(time) ?? filter.since }, { signal }),
    placeholderData: keepPreviousData,
    ...BY_CURSOR,
    refetchInterval: ({ state }) => listMs(state.data),
  });

/** Runs that one request names: at most so many, in an address that the server takes. */
const NAMED = 100;
const NAMED_BYTES = 6_000;

/** The ids that one request names, from one on. */
export function namedFrom(runIds: readonly string[], from: number): readonly string[] {
  let bytes = 0;
  const rest = runIds.slice(from, from + NAMED);
  const end = rest.findIndex((id) => (bytes += encodeURIComponent(`${id}\n`).length) > NAMED_BYTES);
  return end === -1 ? rest : rest.slice(0, Math.max(end, 1));
}

/** Runs by their ids, as far as they are read. */
export const runsByIdQuery = (runIds: readonly string[]) =>
  infiniteQueryOptions({
    queryKey: ["runs", "named", runIds],
    queryFn: async ({ signal, pageParam }) =>
      (await client.runs.list({ runs: namedFrom(runIds, pageParam).join("\n"), limit: NAMED }, { signal })).runs,
    initialPageParam: 0,
    getNextPageParam: (_, __, from) => {
      const next = from + namedFrom(runIds, from).length;
      return next < runIds.length ? next : undefined;
    },
    select: ({ pages }) => pages.flat(),
    staleTime: SLOW_MS,
  });

/** The newest runs of an agent, of all or with these words. */
export const recentRunsQuery = (agent: string | undefined, text?: string) =>
  queryOptions({
    queryKey: ["runs", "recent", agent, text],
    queryFn: async ({ signal }) => (await client.runs.list({ agent, text, limit: 50 }, { signal })).runs,
    staleTime: SLOW_MS,
    refetchInterval: SLOW_MS,
  });

/** Which runs are counted, and how. */
interface StatsWish {
  readonly agent?: string | undefined;
  readonly split?: "agent" | "user" | "model" | "version" | "tool" | undefined;
  /** Whether the same time before is meant. */
  readonly isBefore?: boolean | undefined;
}

/** Long times change little and are read from many runs: a day is asked for every ten seconds, a month every five minutes. */
const statsMs = (rangeMs: number, isBefore: boolean): number =>
  Math.max(isBefore ? 6 * SLOW_MS : SLOW_MS, rangeMs / 8_640);

/** Runs over a time that ends now, or where that begins, cut into parts. */
export const statsQuery = (rangeMs: number, parts: number, { agent, split, isBefore = false }: StatsWish) =>
  queryOptions({
    queryKey: ["stats", rangeMs, parts, agent, split, isBefore],
    queryFn: ({ signal }) => {
      const bucket = Math.ceil(rangeMs / parts / 1_000);
      // Whole parts: the newest one grows, and none of the others moves.
      const now = Math.ceil(Date.now() / 1_000 / bucket) * bucket;
      const to = isBefore ? now - bucket * parts : now;
      const at = (seconds: number): string => new Date(seconds * 1_000).toISOString();
      return client.runs.stats({ since: at(to - bucket * parts), until: at(to), bucket, agent, split }, { signal });
    },
    staleTime: SLOW_MS,
    refetchInterval: statsMs(rangeMs, isBefore),
    placeholderData: keepPreviousData,
  });

/** What is left of the limits for people and teams. */
export const limitsQuery = queryOptions({
  queryKey: ["limits"],
  queryFn: ({ signal }) => client.limits.list({ limit: 50 }, { signal }),
  refetchInterval: SLOW_MS,
  placeholderData: keepPreviousData,
});

const RUNS_FEW = 1_000;

/** Why runs failed: those that started in a time that ends now, or all. Many runs are read seldom. */
export const failuresQuery = (agent: string | undefined, time: ListTime | undefined) =>
  queryOptions({
    queryKey: ["failures", agent, time],
    queryFn: ({ signal }) => client.runs.failures({ agent, since: sinceOf(time) }, { signal }),
    refetchInterval: ({ state }) => ((state.data?.runs ?? 0) <= RUNS_FEW ? SLOW_MS : 6 * SLOW_MS),
    placeholderData: keepPreviousData,
  });

export const versionsQuery = (agent: string) =>
  queryOptions({
    queryKey: ["versions", agent],
    queryFn: ({ signal }) =>
      wholeList(
        (after) => client.agents.versions({ agent, after }, { signal }),
        (head, page) => ({ ...page, versions: [...head.versions, ...page.versions] }),
      ),
    staleTime: SLOW_MS,
  });

export const compareQuery = (agent: string, old: string, next: string) =>
  queryOptions({
    queryKey: ["compare", agent, old, next],
    queryFn: ({ signal }) => client.agents.compare({ agent, old, new: next }, { signal }),
    staleTime: SLOW_MS,
  });

export const proposalsQuery = (agent: string | undefined) =>
  queryOptions({
    queryKey: ["proposals", agent],
    queryFn: ({ signal }) =>
      wholeList(
        (after) => client.proposals.list({ agent, after }, { signal }),
        (head, page) => ({ ...page, proposals: [...head.proposals, ...page.proposals] }),
      ),
    refetchInterval: ({ state }) => (isWorking(state.data) ? LIVE_MS : SLOW_MS),
  });

function isWorking(list: ProposalList | undefined): boolean {
  const work = [...(list?.work ?? []), ...(list?.proposals ?? []).flatMap((proposal) => proposal.work)];
  return work.some(({ status }) => status === "working");
}

/** The prompt of a step; it never changes. */
export const promptQuery = (runId: string, stepIndex: number) =>
  queryOptions({
    queryKey: ["prompt", runId, stepIndex],
    queryFn: ({ signal }) => client.runs.prompt(runId, stepIndex, { signal }),
    staleTime: Infinity,
  });

/** The parts of a step that the playground can change. */
export const playgroundQuery = (runId: string, stepIndex: number) =>
  queryOptions({
    queryKey: ["playground", runId, stepIndex],
    queryFn: ({ signal }) => client.runs.draft(runId, stepIndex, { signal }),
    staleTime: Infinity,
  });

/** The last record at which a fork may begin, up to one; undefined if there is none. */
export const safePointQuery = (sessionId: string, seq: number) =>
  queryOptions({
    queryKey: ["safe-point", sessionId, seq],
    queryFn: async ({ signal }) =>
      (await client.sessions.safePoints(sessionId, { before: seq + 1, limit: 1 }, { signal })).safePoints.at(-1) ??
      null,
    staleTime: Infinity,
    enabled: seq > 0,
  });

// Evaluations, schedules and deliveries.

export const experimentsQuery = (filter: ExperimentsListQuery) =>
  infiniteQueryOptions({
    queryKey: ["experiments", filter],
    queryFn: ({ signal, pageParam }) =>
      client.experiments.list({ ...filter, after: pageParam, limit: PAGE }, { signal }),
    placeholderData: keepPreviousData,
    ...BY_CURSOR,
    refetchInterval: ({ state }) =>
      state.data?.pages.some(({ experiments }) => experiments.some(({ endedAt }) => endedAt === undefined)) === true
        ? LIVE_MS
        : SLOW_MS,
  });

/** An experiment with its attempts, which are more until it ends. */
export const experimentQuery = (experimentId: string) =>
  queryOptions({
    queryKey: ["experiment", experimentId],
    queryFn: ({ signal }) => client.experiments.get(experimentId, { signal }),
    refetchInterval: ({ state }) => (state.data?.experiment.endedAt === undefined ? LIVE_MS : SLOW_MS),
  });

export const experimentsComparedQuery = (experimentId: string, old: string) =>
  queryOptions({
    queryKey: ["experiment", experimentId, "against", old],
    queryFn: ({ signal }) => client.experiments.compare(experimentId, { old }, { signal }),
    staleTime: SLOW_MS,
  });

export const datasetsQuery = queryOptions({
  queryKey: ["datasets"],
  queryFn: ({ signal }) => client.datasets.list({ limit: PAGE }, { signal }),
  staleTime: SLOW_MS,
});

export const datasetQuery = (name: string) =>
  infiniteQueryOptions({
    queryKey: ["dataset", name],
    queryFn: ({ signal, pageParam }) => client.datasets.get(name, { after: pageParam, limit: PAGE }, { signal }),
    ...BY_CURSOR,
  });

export const schedulesQuery = queryOptions({
  queryKey: ["schedules"],
  queryFn: ({ signal }) => client.schedules.list({ limit: PAGE }, { signal }),
  refetchInterval: SLOW_MS,
});

export const ticksQuery = (name: string) =>
  queryOptions({
    queryKey: ["schedules", name, "ticks"],
    queryFn: ({ signal }) => client.schedules.ticks(name, { signal }),
    refetchInterval: SLOW_MS,
  });

export const deliveriesQuery = (dead: boolean) =>
  infiniteQueryOptions({
    queryKey: ["deliveries", dead],
    queryFn: ({ signal, pageParam }) => client.deliveries.list({ dead, after: pageParam, limit: PAGE }, { signal }),
    ...BY_CURSOR,
    refetchInterval: SLOW_MS,
  });

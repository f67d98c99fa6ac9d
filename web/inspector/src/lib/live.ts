/** Lists that follow what happens: one feed over all sessions says when they are worth asking for again. */
import { useQueryClient, type Query, type QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { client } from "./api.js";

/** What changes a list. */
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
/** Questions whose answers those change, by the beginning of their keys. */
const LISTS: ReadonlySet<unknown> = new Set(["sessions", "session", "runs", "run", "approvals"]);
/** However much happens, lists are asked for at most so often. */
const THROTTLE_MS = 400;
/** A list that follows is asked for all the same, but seldom. */
const SELDOM_MS = 30_000;
/** A list with more pages than this is not read again with every event. */
export const PAGES_FEW = 3;

let isOpen = false;

/** How often to ask for something that the feed tells about; often where there is no feed. */
export function pollMs(withoutFeedMs: number): number {
  return isOpen ? SELDOM_MS : withoutFeedMs;
}

/** How many pages of a list are here; 1 of anything else. */
export function pageCount(data: unknown): number {
  return typeof data === "object" && data !== null && "pages" in data && Array.isArray(data.pages)
    ? data.pages.length
    : 1;
}

function isList({ queryKey, state }: Query): boolean {
  return LISTS.has(queryKey[0]) && pageCount(state.data) <= PAGES_FEW;
}

/**
 * Follows the sessions of the user while the page is seen.
 *
 * A browser has few connections to one server, for all its tabs together: those that nobody looks at hold none.
 */
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

async function follow(queries: QueryClient, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const refresh = (): void => {
    timer ??= setTimeout(() => {
      timer = undefined;
      void queries.invalidateQueries({ predicate: isList });
    }, THROTTLE_MS);
  };
  const setOpen = (now: boolean): void => {
    if (isOpen !== now) refresh();
    isOpen = now;
  };
  try {
    const onState = ({ status }: { readonly status: string }): void => {
      setOpen(status === "open");
    };
    const events = client.allEvents({ types: TYPES, signal, onState });
    while ((await events.next()).done !== true) refresh();
  } catch {
    // Without a feed, because the server has none or the page is left: lists are asked for again and again.
  } finally {
    setOpen(false);
    if (signal.aborted) clearTimeout(timer);
  }
}

/** Access to the server: the API key of the tab, the client that sends it, and the login page. */
import { QueryClient } from "@tanstack/react-query";
import type { Event } from "@windlass/protocol";
import { ApiError, Client, ConnectionError, type FeedItem, type FeedOptions } from "@windlass/protocol/client";
import {
  BUTTONS,
  CARD,
  classes,
  FIELD,
  httpTransport,
  sentence,
  type Transport,
  type WatchOptions,
} from "@windlass/ui";
import { useId, useState, useSyncExternalStore, type ReactNode } from "react";
import { Code } from "./parts.js";
import { tabTexts } from "./storage.js";

const KEY = "windlass.key";
const RETRIES_MAX = 3;

type Listener = () => void;

/** Whether the server wants a key. The key itself lives as long as the tab, and nowhere else. */
class Door {
  private readonly listeners = new Set<Listener>();
  /** Counts the keys that were given: what was loaded with another one is loaded again. */
  private state = { isClosed: false, entries: 0 };

  readonly subscribe = (listener: Listener): Listener => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly getState = (): { readonly isClosed: boolean; readonly entries: number } => this.state;

  get key(): string | undefined {
    return tabTexts.get(KEY);
  }

  /** The server refused the key, or the lack of one. */
  close(): void {
    if (!this.state.isClosed) this.change({ ...this.state, isClosed: true });
  }

  /** Goes in with a key that the server takes. */
  open(key: string): void {
    tabTexts.set(KEY, key);
    this.change({ isClosed: false, entries: this.state.entries + 1 });
  }

  /** Forgets the key, and what was written with it. */
  leave(): void {
    tabTexts.clear();
    this.change({ isClosed: true, entries: this.state.entries });
  }

  private change(state: typeof this.state): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }
}

export const door = new Door();

/** Whether the server wants a key, as it changes. */
export function useDoor(): ReturnType<Door["getState"]> {
  return useSyncExternalStore(door.subscribe, door.getState);
}

const watchedFetch: typeof fetch = async (...request) => {
  const response = await fetch(...request);
  if (response.status === 401) door.close();
  return response;
};

export const client = new Client({ token: () => door.key, fetch: watchedFetch });

/**
 * Streams of sessions that all windows of one browser hold open at once.
 *
 * Over HTTP/1.1 a browser has six connections to a server, for all its windows together: one is for the feed of the
 * lists, and one is left for everything else.
 */
const STREAMS_MAX = 4;
/** How often a window without a stream asks what is new. */
const POLL_MS = 1_000;

/** Takes a place for a stream; undefined if all are taken. The lock ends with its window, however that ends. */
async function takePlace(): Promise<(() => void) | undefined> {
  if (!("locks" in navigator)) return () => undefined;
  for (let at = 0; at < STREAMS_MAX; at += 1) {
    const leave = await new Promise<(() => void) | undefined>((resolve) => {
      void navigator.locks.request(`windlass-stream-${at}`, { ifAvailable: true }, (lock) => {
        if (lock === null) {
          resolve(undefined);
          return undefined;
        }
        return new Promise<void>(resolve);
      });
    });
    if (leave !== undefined) return leave;
  }
  return undefined;
}

type Open = (options: FeedOptions) => AsyncIterable<FeedItem>;

/** Events that are streamed if there is a place for a stream, and else asked for again and again. */
async function* shared(
  open: Open,
  watch: WatchOptions,
  isLast: (event: Event) => boolean,
): AsyncGenerator<FeedItem, void, undefined> {
  let { after } = watch;
  let isOver = false;
  while (!isOver && watch.signal?.aborted !== true) {
    const leave = await takePlace();
    try {
      for await (const item of open({ ...watch, after, follow: leave !== undefined })) {
        after = item.cursor ?? after;
        isOver ||= isLast(item.event);
        yield item;
      }
    } finally {
      leave?.();
    }
    if (!isOver) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const RUN_ENDS: ReadonlySet<string> = new Set(["run.completed", "run.failed", "run.cancelled", "run.budget_exhausted"]);

const direct = httpTransport(client);

export const transport: Transport = {
  ...direct,
  events: (sessionId, watch) =>
    // A page has an end: it needs no place of its own.
    watch.before !== undefined
      ? direct.events(sessionId, watch)
      : shared(
          (options) => client.sessionEvents(sessionId, options),
          watch,
          () => false,
        ),
  runEvents: (runId, watch) =>
    shared(
      (options) => client.runEvents(runId, options),
      watch,
      ({ type }) => RUN_ENDS.has(type),
    ),
};

/** Throws if the server does not take a key. */
async function tryKey(key: string): Promise<void> {
  await new Client({ token: key }).agents.list();
}

function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof ApiError && error.isPassing);
}

/** Waits for the Retry-After of the server. */
function waitMs(attempt: number, error: unknown): number {
  const retryAfterMs = error instanceof ApiError ? error.retryAfterMs : undefined;
  return retryAfterMs ?? Math.min(500 * 2 ** attempt, 8_000);
}

export function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        retry: (count, error) => count < RETRIES_MAX && isPassing(error),
        retryDelay: waitMs,
        staleTime: 1_000,
        networkMode: "always",
      },
      mutations: { networkMode: "always" },
    },
  });
}

/** Asks for a key. It is kept for this tab only, and sent to this server only. */
export function Login(): ReactNode {
  const id = useId();
  const [key, setKey] = useState("");
  const [error, setError] = useState<string>();
  const [isTrying, setIsTrying] = useState(false);
  const enter = async (): Promise<void> => {
    setIsTrying(true);
    setError(undefined);
    try {
      await tryKey(key.trim());
      door.open(key.trim());
    } catch (failure) {
      setError(reasonFor(failure));
    } finally {
      setIsTrying(false);
    }
  };
  return (
    <main className="flex h-full items-center justify-center p-4">
      <form
        className={classes(CARD, "flex w-full max-w-md flex-col gap-4 p-6")}
        onSubmit={(event) => {
          event.preventDefault();
          void enter();
        }}
      >
        <h1 className="text-lg font-semibold">This server wants a key</h1>
        <p className="text-sm text-agent-muted">
          The operator of the server makes one with <Code>windlass keys add ID USER</Code>. It stays in this tab until
          you close it.
        </p>
        <div className="flex flex-col gap-1">
          <label htmlFor={id} className="text-xs text-agent-muted">
            API key
          </label>
          <input
            id={id}
            type="password"
            autoComplete="off"
            spellCheck={false}
            className={FIELD}
            value={key}
            aria-invalid={error !== undefined}
            aria-describedby={`${id}-error`}
            onChange={(event) => {
              setKey(event.target.value);
            }}
          />
        </div>
        <p id={`${id}-error`} role="alert" className="text-sm text-agent-danger-text empty:hidden">
          {error}
        </p>
        <button type="submit" className={BUTTONS.primary} disabled={isTrying || key.trim() === ""}>
          Enter
        </button>
      </form>
    </main>
  );
}

function reasonFor(failure: unknown): string {
  if (failure instanceof ApiError && failure.kind === "unauthorized")
    return "The server does not take this key. It may be mistyped, expired or revoked.";
  return failure instanceof Error ? sentence(failure.message) : "The server could not be asked.";
}

/** The server that this app came from, and the key with which it is asked. */
import { QueryClient } from "@tanstack/react-query";
import { ApiError, Client, ConnectionError } from "@windlass/protocol/client";
import { httpTransport } from "@windlass/ui";
import { useSyncExternalStore } from "react";

const PLACE = "windlass.key";
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
    return sessionStorage.getItem(PLACE) ?? undefined;
  }

  /** The server refused the key, or the lack of one. */
  close(): void {
    if (!this.state.isClosed) this.change({ ...this.state, isClosed: true });
  }

  /** Goes in with a key that the server takes. */
  open(key: string): void {
    sessionStorage.setItem(PLACE, key);
    this.change({ isClosed: false, entries: this.state.entries + 1 });
  }

  /** Forgets the key. */
  leave(): void {
    sessionStorage.removeItem(PLACE);
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
export const transport = httpTransport(client);

/** Throws if the server does not take a key. */
export async function tryKey(key: string): Promise<void> {
  await new Client({ token: key }).agents();
}

function isPassing(error: unknown): boolean {
  return error instanceof ConnectionError || (error instanceof ApiError && error.isPassing);
}

/** Waits as long as the server wants to be left alone. */
function waitMs(attempt: number, error: unknown): number {
  const asked = error instanceof ApiError ? error.retryAfterMs : undefined;
  return asked ?? Math.min(500 * 2 ** attempt, 8_000);
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

/** One press of a button is one request, however often the network repeats it. */
export function newKey(): string {
  return crypto.randomUUID();
}

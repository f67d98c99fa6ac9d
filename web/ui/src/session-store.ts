/** One session as its viewers see it: fed by a transport, read by React. */
import {
  chatItems,
  EMPTY_CONVERSATION,
  reduceConversation,
  type ChatItem,
  type Conversation,
  type Event,
} from "@windlass/protocol";
import type { FeedState } from "@windlass/protocol/client";
import type { Transport } from "./transport.js";

/** What is shown of a session. A new object whenever something changed. */
export interface SessionView {
  readonly conversation: Conversation;
  readonly items: readonly ChatItem[];
  readonly connection: FeedState;
  /** How often the connection came back after it broke. */
  readonly reconnects: number;
  /** Why the feed ended for good. */
  readonly error: Error | undefined;
}

/** Runs something soon; returns what takes that back. */
export type Schedule = (run: () => void) => () => void;

/** How often a view changes at most: often enough to look like writing. */
export const FLUSH_MS = 33;
/** Events that wait to be shown; then the feed is read no further until they are. */
export const EVENTS_PENDING_MAX = 1_024;

export const EMPTY_VIEW: SessionView = {
  conversation: EMPTY_CONVERSATION,
  items: [],
  connection: { status: "connecting" },
  reconnects: 0,
  error: undefined,
};

/** A timer: it goes on in a page that is not seen, where frames do not. */
export const scheduleSoon: Schedule = (run) => {
  const timer = setTimeout(run, FLUSH_MS);
  return () => {
    clearTimeout(timer);
  };
};

/**
 * Follows a session while somebody watches.
 *
 * The first subscriber opens the feed and the last closes it. Who comes back goes on behind the last event that was
 * shown. Events are shown in batches, so that a fast model does not draw the page a thousand times.
 */
export class SessionStore {
  private view = EMPTY_VIEW;
  private readonly listeners = new Set<() => void>();
  private stop: AbortController | undefined;
  private cursor: string | undefined;
  private isBroken = false;
  private pending: { readonly event: Event; readonly cursor: string | undefined }[] = [];
  private cancelFlush: (() => void) | undefined;
  private onFlushed: (() => void) | undefined;

  constructor(
    private readonly transport: Transport,
    private readonly sessionId: string,
    private readonly schedule: Schedule = scheduleSoon,
  ) {}

  /** Whether nobody watches. */
  get isIdle(): boolean {
    return this.listeners.size === 0;
  }

  readonly getView = (): SessionView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.stop === undefined) this.start();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.close();
    };
  };

  private start(): void {
    const stop = (this.stop = new AbortController());
    void this.follow(stop).catch((error: unknown) => {
      if (stop.signal.aborted) return;
      this.flushOr(stop);
      this.fail(error);
    });
  }

  private fail(error: unknown): void {
    this.change({ error: error instanceof Error ? error : new Error(String(error)) });
  }

  /** Shows what waits; what does not fit together ends the feed. */
  private flushOr(stop: AbortController): void {
    try {
      this.flush();
    } catch (error) {
      stop.abort();
      this.fail(error);
    }
  }

  private close(): void {
    this.stop?.abort();
    this.stop = undefined;
    this.cancelFlush?.();
    this.cancelFlush = undefined;
    this.pending = [];
    this.onFlushed?.();
  }

  private async follow(stop: AbortController): Promise<void> {
    const { signal } = stop;
    const onState = (connection: FeedState): void => {
      if (signal.aborted) return;
      const isBack = this.isBroken && connection.status === "open";
      if (connection.status !== "connecting") this.isBroken = connection.status === "waiting";
      this.change({ connection, reconnects: this.view.reconnects + (isBack ? 1 : 0) });
    };
    for await (const item of this.transport.events(this.sessionId, { after: this.cursor, signal, onState })) {
      if (signal.aborted) return;
      this.pending.push(item);
      this.cancelFlush ??= this.schedule(() => {
        this.flushOr(stop);
      });
      if (this.pending.length >= EVENTS_PENDING_MAX) await new Promise<void>((resolve) => (this.onFlushed = resolve));
    }
  }

  private flush(): void {
    this.cancelFlush?.();
    this.cancelFlush = undefined;
    const { pending } = this;
    this.pending = [];
    this.onFlushed?.();
    if (pending.length === 0) return;
    this.cursor = pending.at(-1)?.cursor ?? this.cursor;
    const conversation = reduceConversation(
      this.view.conversation,
      pending.map(({ event }) => event),
    );
    this.change({ conversation, items: chatItems(conversation, this.view.items) });
  }

  private change(changes: Partial<SessionView>): void {
    this.view = { ...this.view, ...changes };
    for (const listener of this.listeners) listener();
  }
}

/** Sessions in React: one store for each journal, shared by all components below a provider. */
import {
  chatItems,
  conversationFrom,
  EMPTY_CONVERSATION,
  isPageStart,
  reduceConversation,
  type AgentSession,
  type AgentSessionChange,
  type ChatItem,
  type Conversation,
  type Event,
} from "@windlass/protocol";
import type { FeedItem, FeedState, SessionInfo } from "@windlass/protocol/client";
import {
  createContext,
  createElement,
  use,
  useCallback,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
  type ReactNode,
} from "react";
import { Unsupported, type SessionWish, type Transport, type WatchOptions } from "./transport.js";
import { toError, useAsync } from "./data.js";

/** The state of a session that components show. A new object after each change. */
export interface SessionView {
  readonly conversation: Conversation;
  readonly items: readonly ChatItem[];
  /** The records that were read; live deltas are not among them. */
  readonly records: readonly Event[];
  /** Whether there are records before them, which `loadEarlier` of the store reads. */
  readonly hasEarlier: boolean;
  readonly connection: FeedState;
  /** How often the connection came back after it broke. */
  readonly reconnects: number;
  /** Why the feed ended for good. */
  readonly error: Error | undefined;
}

/** Schedules a callback; returns a function that cancels it. */
type Schedule = (run: () => void) => () => void;

/** How often a view changes at most: often enough to look like writing. */
const FLUSH_MS = 33;
/** Events that wait to be shown; at this limit the feed is not read further until they are shown. */
export const EVENTS_PENDING_MAX = 1_024;
/** Records of a page of a session, from its end: about a hundred kilobytes. */
export const PAGE_RECORDS = 200;

const EMPTY_VIEW: SessionView = {
  conversation: EMPTY_CONVERSATION,
  items: [],
  records: [],
  hasEarlier: false,
  connection: { status: "connecting" },
  reconnects: 0,
  error: undefined,
};

/** A timer: unlike animation frames it also runs in a hidden page. */
const scheduleSoon: Schedule = (run) => {
  const timer = setTimeout(run, FLUSH_MS);
  return () => {
    clearTimeout(timer);
  };
};

/**
 * Follows the journal of a session, or the part of a run, while it has subscribers.
 *
 * The first subscriber opens the feed and the last closes it; a later one continues after the last event that was
 * shown. The feed of a session starts with its newest records; `loadEarlier` reads those before. While the page is
 * hidden the feed is closed. Events are shown in batches, so that a fast model does not draw the page a thousand times.
 */
export class JournalStore {
  private view = EMPTY_VIEW;
  private readonly listeners = new Set<() => void>();
  private stop: AbortController | undefined;
  private cursor: string | undefined;
  private isBroken = false;
  private pending: { readonly event: Event; readonly cursor: string | undefined }[] = [];
  private cancelFlush: (() => void) | undefined;
  private onFlushed: (() => void) | undefined;
  private earlier: Promise<void> | undefined;

  constructor(
    /** Opens the feed behind a cursor. */
    private readonly open: (watch: WatchOptions) => AsyncIterable<FeedItem>,
    private readonly schedule: Schedule = scheduleSoon,
    /** Whether the feed has every record of a session; that of a run has its own, and makes no conversation. */
    private readonly isWhole = true,
  ) {}

  /** Whether it has no subscribers. */
  get isIdle(): boolean {
    return this.listeners.size === 0;
  }

  readonly getView = (): SessionView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    if (this.listeners.size === 1) document.addEventListener("visibilitychange", this.look);
    this.look();
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      document.removeEventListener("visibilitychange", this.look);
      this.close();
    };
  };

  /** Opens the feed, or closes it while the page is hidden: a browser has few connections for all its windows. */
  private readonly look = (): void => {
    const isHidden = document.visibilityState === "hidden";
    if (isHidden) this.close();
    else if (this.stop === undefined) this.start();
  };

  private start(): void {
    const stop = (this.stop = new AbortController());
    if (this.view.error !== undefined) this.view = { ...this.view, error: undefined };
    void this.follow(stop).catch((error: unknown) => {
      if (stop.signal.aborted) return;
      this.flushOr(stop);
      this.fail(error);
    });
  }

  private fail(error: unknown): void {
    this.change({ error: error instanceof Error ? error : new Error(String(error)) });
  }

  /** Shows the pending events; a gap in them ends the feed. */
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
    const last = this.isWhole && this.cursor === undefined ? PAGE_RECORDS : undefined;
    for await (const item of this.open({ after: this.cursor, last, signal, onState })) {
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
    const isFirst = this.isWhole && this.view.records.length === 0;
    // A step of more records than a page has no beginning here: it is shown as it is.
    if (isFirst && pending.length < PAGE_RECORDS && !hasStart(pending.map(({ event }) => event))) return;
    this.pending = [];
    this.onFlushed?.();
    if (pending.length === 0) return;
    this.cursor = pending.at(-1)?.cursor ?? this.cursor;
    const waiting = pending.map(({ event }) => event);
    const events = isFirst ? fromPageStart(waiting) : waiting;
    const seq = this.view.records.at(-1)?.seq ?? 0;
    const first = isFirst ? events[0] : undefined;
    const before = first === undefined ? this.view.conversation : conversationFrom(first);
    const conversation = this.isWhole ? reduceConversation(before, events) : before;
    const fresh = events.filter((event) => event.index === undefined && (event.seq ?? 0) > seq);
    const records = fresh.length === 0 ? this.view.records : [...this.view.records, ...fresh];
    const items = this.isWhole ? chatItems(conversation, this.view.items) : this.view.items;
    this.change({ conversation, items, records, hasEarlier: this.isWhole && (records[0]?.seq ?? 1) > 1 });
  }

  /** Reads the page before the first record, or everything before it; while that is under way, nothing more. */
  readonly loadEarlier = (isAll = false): Promise<void> => {
    const first = this.view.records[0]?.seq ?? 1;
    const signal = this.stop?.signal;
    if (first <= 1 || signal === undefined) return Promise.resolve();
    this.earlier ??= this.readBefore({ before: first, last: isAll ? undefined : PAGE_RECORDS, signal })
      .catch((error: unknown) => {
        if (!signal.aborted) this.fail(error);
      })
      .finally(() => (this.earlier = undefined));
    return this.earlier;
  };

  /**
   * Reads the newest run from its first message on, and returns the rows.
   *
   * The first message is missing if the earlier records cannot be read; then the view has the error.
   */
  readonly loadRun = async (): Promise<readonly ChatItem[]> => {
    for (let first = Infinity; this.view.hasEarlier && !this.view.items.some(isOpening);) {
      const start = this.view.records[0]?.seq ?? 1;
      if (start >= first) break;
      first = start;
      await this.loadEarlier();
    }
    return this.view.items;
  };

  private async readBefore(watch: WatchOptions): Promise<void> {
    const events: Event[] = [];
    for await (const { event } of this.open(watch)) if (isBefore(event, watch.before)) events.push(event);
    const records = [...fromPageStart(events), ...this.view.records];
    const first = records[0];
    if (first === undefined) return;
    // Folded anew: what a record means depends on those before it.
    const folded = reduceConversation(conversationFrom(first), records);
    const conversation = { ...folded, live: this.view.conversation.live };
    const items = chatItems(conversation, this.view.items);
    this.change({ conversation, items, records, hasEarlier: (first.seq ?? 1) > 1 });
  }

  private change(changes: Partial<SessionView>): void {
    this.view = { ...this.view, ...changes };
    for (const listener of this.listeners) listener();
  }
}

/** Whether a run began with a row: a message that did not go to the run under way. */
export function isOpening(item: ChatItem): boolean {
  return item.kind === "message" && item.input?.isOpening === true;
}

/** Whether a record belongs to a page; a feed that breaks behind its last record goes on with the next one. */
function isBefore({ seq, index }: Event, before = Infinity): boolean {
  return index === undefined && seq !== undefined && seq < before;
}

function hasStart(events: readonly Event[]): boolean {
  return events[0]?.seq === 1 || events.some(isPageStart);
}

/** Leaves out records before the first run or step that is whole. */
function fromPageStart(events: readonly Event[]): readonly Event[] {
  if (events[0]?.seq === 1) return events;
  const at = events.findIndex(isPageStart);
  return at === -1 ? events : events.slice(at);
}

// Scope: the transport of a tree, and the stores of its sessions.

interface Scope {
  readonly transport: Transport;
  /** The store of a session: its feed is read once, however many components show it. */
  readonly store: (sessionId: string) => JournalStore;
  /** The store of a run, which has the records of the run alone. */
  readonly runStore: (runId: string) => JournalStore;
}

/** Sessions that a tree keeps, so that they are shown at once when they are opened again. */
export const SESSIONS_KEPT_MAX = 32;
/** Records of all sessions that are kept and not shown: about thirty megabytes. */
export const RECORDS_KEPT_MAX = 50_000;

const ScopeContext = createContext<Scope | undefined>(undefined);

/** Gives a transport to everything below. */
export function AgentProvider({
  transport,
  children,
}: {
  readonly transport: Transport;
  readonly children?: ReactNode;
}): ReactNode {
  const scope = useMemo(() => scopeOf(transport), [transport]);
  return createElement(ScopeContext, { value: scope }, children);
}

/** The scope of the given transport, or else of the nearest provider. */
export function useScope(transport?: Transport): Scope {
  const around = use(ScopeContext);
  const own = useMemo(
    () => (transport === undefined || transport === around?.transport ? undefined : scopeOf(transport)),
    [transport, around],
  );
  const scope = own ?? around;
  if (scope === undefined) throw new Error("no transport: put an AgentProvider around the component, or give it one");
  return scope;
}

/** The transport of the nearest provider. */
export function useTransport(transport?: Transport): Transport {
  return useScope(transport).transport;
}

function scopeOf(transport: Transport): Scope {
  const stores = new Map<string, JournalStore>();
  const storeOf = (key: string, make: () => JournalStore): JournalStore => {
    const existing = stores.get(key);
    if (existing !== undefined) return existing;
    forget(stores);
    const store = make();
    stores.set(key, store);
    return store;
  };
  return {
    transport,
    store: (sessionId) =>
      storeOf(`session ${sessionId}`, () => new JournalStore((watch) => transport.events(sessionId, watch))),
    runStore: (runId) =>
      storeOf(
        `run ${runId}`,
        () => new JournalStore((watch) => transport.runEvents?.(runId, watch) ?? NO_EVENTS, scheduleSoon, false),
      ),
  };
}

/** Forgets the oldest sessions without subscribers, until there is room for one more. */
function forget(stores: Map<string, JournalStore>): void {
  const idle = [...stores].filter(([, store]) => store.isIdle);
  let records = idle.reduce((sum, [, store]) => sum + store.getView().records.length, 0);
  for (const [key, store] of idle) {
    if (stores.size < SESSIONS_KEPT_MAX && records <= RECORDS_KEPT_MAX) return;
    stores.delete(key);
    records -= store.getView().records.length;
  }
}

const NOTHING = (): (() => void) => () => undefined;

/** How much of a session to read, and from where. */
export interface SessionOptions {
  readonly transport?: Transport | undefined;
  /** Whether to read all of it; otherwise it is read from the end, page by page. */
  readonly isWhole?: boolean | undefined;
}

/** A session as it happens, with the way to its earlier records. */
export interface SessionPages extends SessionView {
  readonly loadEarlier: () => Promise<void>;
  /** Reads the newest run from its first message on, and returns the rows. */
  readonly loadRun: () => Promise<readonly ChatItem[]>;
}

const NOTHING_EARLIER = (): Promise<void> => Promise.resolve();
const NO_ROWS = (): Promise<readonly ChatItem[]> => Promise.resolve([]);

/** A session as it happens; nothing while there is no id. */
export function useSession(sessionId: string | undefined, options: SessionOptions = {}): SessionPages {
  const { transport, isWhole = false } = options;
  const store = useScope(transport);
  const journal = sessionId === undefined ? undefined : store.store(sessionId);
  const getView = journal?.getView ?? (() => EMPTY_VIEW);
  const view = useSyncExternalStore(journal?.subscribe ?? NOTHING, getView, getView);
  const { hasEarlier } = view;
  useEffect(() => {
    if (isWhole && hasEarlier) void journal?.loadEarlier(true);
  }, [isWhole, hasEarlier, journal]);
  const loadEarlier = journal?.loadEarlier;
  const loadRun = journal?.loadRun ?? NO_ROWS;
  return useMemo(() => {
    const { connection, reconnects, error } = view;
    // A reader of all records folds them from the first one: until that is here, there are none.
    const shown = isWhole && view.hasEarlier ? { ...EMPTY_VIEW, connection, reconnects, error } : view;
    return { ...shown, loadEarlier: loadEarlier === undefined ? NOTHING_EARLIER : () => loadEarlier(), loadRun };
  }, [view, isWhole, loadEarlier, loadRun]);
}

const NO_EVENTS: AsyncIterable<FeedItem> = {
  [Symbol.asyncIterator]: () => ({
    next: () => Promise.reject(new Unsupported("this transport has no events of runs")),
  }),
};

/** The records of a run as they come, without those of other runs; nothing while there is no id. */
export function useRunRecords(
  runId: string | undefined,
  transport?: Transport,
): Pick<SessionView, "records" | "error" | "connection"> {
  const scope = useScope(transport);
  const journal = runId === undefined ? undefined : scope.runStore(runId);
  const getView = journal?.getView ?? (() => EMPTY_VIEW);
  return useSyncExternalStore(journal?.subscribe ?? NOTHING, getView, getView);
}

/** The sessions, and the one that is open. */
export interface AgentSessions {
  readonly sessions: readonly SessionInfo[];
  /** The session that was made or resumed last. */
  readonly current: string | undefined;
  /** The current session with its stage; it follows the journal of the session. */
  readonly session: AgentSession | undefined;
  readonly isLoading: boolean;
  readonly error: Error | undefined;
  /** Begins a session and opens it; returns its id. */
  readonly create: (wish?: SessionWish) => Promise<string>;
  /** Opens a session. */
  readonly resume: (sessionId: string) => void;
  /** Changes the stage of the current session; fields that are absent stay as they are. */
  readonly update: (change: AgentSessionChange) => Promise<AgentSession>;
  readonly refresh: () => Promise<void>;
}

const NONE: readonly SessionInfo[] = [];

/** The sessions of a transport: to list, begin and resume them. */
export function useAgentSession(options: { readonly transport?: Transport | undefined } = {}): AgentSessions {
  const scope = useScope(options.transport);
  const { transport } = scope;
  const [current, setCurrent] = useState<string>();
  const [failure, setFailure] = useState<Error>();
  const load = useCallback((signal: AbortSignal) => transport.listSessions({ signal }), [transport]);
  const { data, isLoading, error, refresh } = useAsync(load);

  const create = useCallback(
    async (wish: SessionWish = {}): Promise<string> => {
      setFailure(undefined);
      try {
        const { sessionId } = await transport.createSession(wish);
        setCurrent(sessionId);
        void refresh();
        return sessionId;
      } catch (error) {
        setFailure(toError(error));
        throw error;
      }
    },
    [transport, refresh],
  );
  const read = useMemo(
    () => (current === undefined ? undefined : (signal: AbortSignal) => transport.agentSession(current, { signal })),
    [transport, current],
  );
  const { data: session, error: unread, refresh: reread } = useAsync(read);
  const changed = useLastChange(scope, current);
  useEffect(() => {
    if (changed !== undefined) void reread();
  }, [changed, reread]);

  const update = useCallback(
    async (change: AgentSessionChange): Promise<AgentSession> => {
      if (current === undefined) throw new Error("no session: create or resume one first");
      const after = await transport.updateAgentSession(current, change);
      await reread();
      return after;
    },
    [transport, current, reread],
  );
  return {
    sessions: data ?? NONE,
    current,
    session,
    isLoading,
    error: failure ?? error ?? unread,
    create,
    resume: setCurrent,
    update,
    refresh,
  };
}

/** Records after which an AgentSession may be another. */
const CHANGES = new Set([
  "session.state_changed",
  "run.started",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.budget_exhausted",
]);

const NEVER = (): (() => void) => () => undefined;

/** The number of the last record that changes the AgentSession. */
function useLastChange({ store }: Scope, sessionId: string | undefined): number | undefined {
  const journal = useMemo(() => (sessionId === undefined ? undefined : store(sessionId)), [store, sessionId]);
  const last = (): number | undefined => journal?.getView().records.findLast(({ type }) => CHANGES.has(type))?.seq;
  return useSyncExternalStore(journal?.subscribe ?? NEVER, last);
}

/** A feed of events that goes on through cuts and restarts: nothing twice, nothing missing, in order. */
import { createParser, type EventSourceMessage } from "eventsource-parser";
import {
  ApiError,
  backoffMs,
  ConnectionError,
  DEFAULT_BACKOFF,
  ProtocolError,
  reasonOf,
  systemClock,
  toApiError,
  type Backoff,
  type Chance,
  type Clock,
} from "./connection.js";
import { CodecError, decode, MESSAGE_BYTES_MAX } from "../codec.js";
import { Event } from "../generated/index.js";
import type { JsonObject } from "../wire.js";

/** An event, and the cursor behind it: who resumes there gets what comes after. */
export interface FeedItem {
  readonly event: Event;
  readonly cursor: string | undefined;
}

/** The state of the connection, for display. */
export type FeedState =
  | { readonly status: "connecting" }
  | { readonly status: "open" }
  /** It broke or was refused, and is tried again after the wait. */
  | { readonly status: "waiting"; readonly delayMs: number; readonly error: Error | undefined };

/** Where the events come from. */
export interface FeedSource {
  /** Opens the stream after a cursor, or at its beginning. Rejects if the server cannot be reached. */
  connect(after: string | undefined, signal: AbortSignal): Promise<Response>;
  /** The scope. Only the feed of a session has every record. */
  readonly scope: "session" | "run" | "all";
}

/** How to read a feed. */
export interface FeedOptions {
  /** The cursor behind the last event that was seen; the beginning when absent. */
  readonly after?: string | undefined;
  /** Of a session: starts with the newest records, this many of them; with a cursor it has no meaning. */
  readonly last?: number | undefined;
  /** Of a session: ends before this record; together with `follow: false`. */
  readonly before?: number | undefined;
  /** Whether to wait for what is yet to come; yes when absent. */
  readonly follow?: boolean | undefined;
  /** Ends the feed: the reader gets its reason as an error. */
  readonly signal?: AbortSignal | undefined;
  /** Told whenever the connection changes. */
  readonly onState?: ((state: FeedState) => void) | undefined;
  /** Attempts in a row that may fail before the error is the reader's; no limit when absent. */
  readonly attemptsMax?: number | undefined;
  /** How long a connection may be silent; the server sends a heartbeat well within it. */
  readonly idleMs?: number | undefined;
  readonly backoff?: Backoff | undefined;
  readonly clock?: Clock | undefined;
  readonly chance?: Chance | undefined;
}

export const FEED_IDLE_MS = 45_000;
/** A record that is missing may have been cut off; one that is missing this often in a row is not there. */
export const FEED_GAPS_MAX = 3;

const DONE = "[DONE]";
const RUN_ENDS = new Set(["run.completed", "run.failed", "run.cancelled", "run.budget_exhausted"]);

/**
 * Reads a feed.
 *
 * The body is read only as fast as the events are taken. A connection that breaks, falls silent or is closed by a
 * server that goes away is opened again behind the last event. Throws ApiError if the server refuses for good (a
 * 429 or 5xx is waited out), ProtocolError if what it sends is no feed, and the signal's reason once it is aborted.
 */
export async function* readFeed(
  source: FeedSource,
  options: FeedOptions = {},
): AsyncGenerator<FeedItem, void, undefined> {
  const feed = new Feed(source, options);
  try {
    for (;;) {
      yield* feed.connection();
      if (feed.isOver) return;
      await feed.pause();
    }
  } finally {
    feed.close();
  }
}

class Feed {
  isOver = false;
  private cursor: string | undefined;
  private readonly place: FeedPlace;
  private readonly clock: Clock;
  private readonly left = new AbortController();
  private readonly signal: AbortSignal;
  private failures = 0;
  private gaps = 0;
  private hasEnded = false;
  private retryMs: number | undefined;
  private error: Error | undefined;

  constructor(
    private readonly source: FeedSource,
    private readonly options: FeedOptions,
  ) {
    this.cursor = options.after;
    const isFromStart = options.after === undefined && options.last === undefined;
    this.place = new FeedPlace(source.scope === "session", isFromStart);
    this.clock = options.clock ?? systemClock;
    this.signal = options.signal === undefined ? this.left.signal : AbortSignal.any([options.signal, this.left.signal]);
  }

  /** Yields what one connection brings. */
  async *connection(): AsyncGenerator<FeedItem, void, undefined> {
    this.error = undefined;
    try {
      const body = await this.open();
      if (body === undefined) return;
      yield* this.read(body);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Waits before the next connection. */
  async pause(): Promise<void> {
    const { backoff = DEFAULT_BACKOFF, chance = Math.random } = this.options;
    const asked = this.error instanceof ApiError ? this.error.retryAfterMs : this.retryMs;
    const delayMs = Math.max(asked ?? 0, backoffMs(this.failures, backoff, chance));
    this.retryMs = undefined;
    this.options.onState?.({ status: "waiting", delayMs, error: this.error });
    await this.clock.sleep(delayMs, this.signal);
  }

  close(): void {
    this.left.abort();
  }

  private async open(): Promise<ReadableStream<Uint8Array> | undefined> {
    this.signal.throwIfAborted();
    this.options.onState?.({ status: "connecting" });
    const response = await this.source.connect(this.cursor, this.signal);
    // The standard's way to say that there is nothing more to come back for.
    if (response.status === 204) {
      this.isOver = true;
      return undefined;
    }
    if (!response.ok) throw await toApiError(response, this.clock.now());
    const type = response.headers.get("content-type") ?? "";
    if (!type.startsWith("text/event-stream") || response.body === null) {
      throw new ProtocolError(`expected text/event-stream, found ${type === "" ? "no content type" : type}`);
    }
    // Where the feed begins, for a reconnect before the first event.
    this.cursor = response.headers.get("windlass-cursor") ?? this.cursor;
    this.options.onState?.({ status: "open" });
    return response.body;
  }

  private async *read(body: ReadableStream<Uint8Array>): AsyncGenerator<FeedItem, void, undefined> {
    const notes: SseNotes = {
      onRetry: (ms) => (this.retryMs = ms),
      onHeartbeat: () => (this.failures = 0),
    };
    const timing = { clock: this.clock, idleMs: this.options.idleMs ?? FEED_IDLE_MS };
    for await (const message of readSse(body, notes, timing)) {
      if (message.event === "reconnect") {
        this.retryMs = readHint(message.data) ?? this.retryMs;
        return;
      }
      if (message.event === "end" || message.data === DONE) {
        this.isOver = true;
        return;
      }
      if (message.event === "error") throw toStreamError(message.data);
      const item = this.take(message);
      if (item !== undefined) yield item;
    }
    // A clean end ends what has an end; anything else is a server that went away.
    this.isOver = this.options.follow === false || this.hasEnded;
    // One that opens and closes for ever is not asked ever faster.
    this.failures += 1;
  }

  private take(message: EventSourceMessage): FeedItem | undefined {
    const event = readEvent(message.data);
    // Numbers are those of a session: over many of them the cursor alone tells what was seen.
    switch (this.source.scope === "all" ? "new" : this.place.take(event)) {
      case "gap":
        throw new Missing();
      case "seen":
        this.cursor = message.id ?? this.cursor;
        return undefined;
      case "new":
        this.failures = this.gaps = 0;
        this.cursor = message.id ?? this.cursor;
        // Its last deliveries may come behind the end of a run, and then nothing.
        this.hasEnded ||= this.source.scope === "run" && RUN_ENDS.has(event.type);
        return { event, cursor: this.cursor };
    }
  }

  private fail(error: unknown): void {
    if (this.signal.aborted) throw reasonOf(this.signal);
    if (error instanceof Missing && ++this.gaps >= FEED_GAPS_MAX) {
      throw new ProtocolError("a record is missing in the feed, however often it is read");
    }
    if (!isPassing(error)) throw error;
    this.failures += 1;
    if (this.failures > (this.options.attemptsMax ?? Infinity)) throw error;
    this.error = error;
  }
}

/** An event came before the record that it follows. */
class Missing extends ConnectionError {
  constructor() {
    super("a record is missing in the feed");
  }
}

function isPassing(error: unknown): error is Error {
  return error instanceof ApiError ? error.isPassing : error instanceof ConnectionError;
}

function readEvent(data: string): Event {
  try {
    return decode(Event, data);
  } catch (error) {
    if (error instanceof CodecError) throw new ProtocolError(`not an event: ${error.message}`);
    throw error;
  }
}

/** A stream that was under way ends with a problem document. */
function toStreamError(data: string): ApiError {
  const problem = readObject(data);
  const { status } = problem;
  return new ApiError(typeof status === "number" ? status : 500, problem);
}

function readHint(data: string): number | undefined {
  const hint = readObject(data)["retryMs"];
  return typeof hint === "number" && hint >= 0 ? hint : undefined;
}

function readObject(data: string): JsonObject {
  try {
    const value: unknown = JSON.parse(data);
    return typeof value === "object" && value !== null ? (value as JsonObject) : {};
  } catch {
    return {};
  }
}

// Position in a feed: which events are new, seen or missing.

/** How an event relates to the position: new, seen before, or after a gap. */
type Verdict = "new" | "seen" | "gap";

/**
 * Keeps count of what was read.
 *
 * Records have numbers without gaps in their session. Live deltas have a number in their step, which begins again
 * with each `step.started`. In the feed of one run the records of other runs are left out, so numbers may be
 * missing there.
 */
class FeedPlace {
  private seq: number | undefined;
  private index = -1;

  /** `fromStart` says that the feed begins with record 1; `hasAll` that no record is left out. */
  constructor(
    private readonly hasAll: boolean,
    fromStart: boolean,
  ) {
    this.seq = fromStart ? 0 : undefined;
  }

  /** Takes the next event in, unless it was seen before or something is missing before it. */
  take(event: Event): Verdict {
    if (event.seq === undefined) return "new";
    return event.index === undefined ? this.record(event.seq, event.type) : this.delta(event.index);
  }

  private record(seq: number, type: string): Verdict {
    if (this.seq !== undefined) {
      if (seq <= this.seq) return "seen";
      if (this.hasAll && seq > this.seq + 1) return "gap";
    }
    this.seq = seq;
    if (type === "step.started") this.index = -1;
    return "new";
  }

  private delta(index: number): Verdict {
    if (index <= this.index) return "seen";
    this.index = index;
    return "new";
  }
}

// Server-sent events of a response body, read only as fast as the caller takes them.

/** Characters of one event with its fields: a message of the wire, and room for what stands around it. */
const SSE_EVENT_CHARS_MAX = MESSAGE_BYTES_MAX + 65_536;

/** Fields of a stream other than events. */
interface SseNotes {
  /** The server wants this wait before the next connection. */
  onRetry(ms: number): void;
  /** The server is there, and has nothing to say. */
  onHeartbeat(): void;
}

/** How long a connection may say nothing, and who tells the time. */
interface SseTiming {
  readonly clock: Clock;
  readonly idleMs: number;
}

/**
 * Yields the events of a body. An event that was cut off is not one.
 *
 * The next piece of the body is read when every event of the last one was taken: a slow reader slows the server.
 * Throws ConnectionError if the body breaks or says nothing for `idleMs`, ProtocolError if an event is too large.
 */
async function* readSse(
  body: ReadableStream<Uint8Array>,
  notes: SseNotes,
  timing: SseTiming,
): AsyncGenerator<EventSourceMessage, void, undefined> {
  const reader = body.getReader();
  const text = new TextDecoder();
  let ready: EventSourceMessage[] = [];
  let fault: Error | undefined;
  const parser = createParser({
    maxBufferSize: SSE_EVENT_CHARS_MAX,
    onEvent: (event) => ready.push(event),
    onRetry: (ms) => {
      notes.onRetry(ms);
    },
    onComment: () => {
      notes.onHeartbeat();
    },
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") {
        fault = new ProtocolError(`event too large: limit ${SSE_EVENT_CHARS_MAX.toLocaleString("en-US")} characters`);
      }
    },
  });
  try {
    for (;;) {
      const { done, value } = await readWithin(reader, timing);
      if (done) return;
      parser.feed(text.decode(value, { stream: true }));
      const events = ready;
      ready = [];
      yield* events;
      if (fault !== undefined) throw fault;
    }
  } finally {
    // Not awaited: a body that hangs must not delay the caller.
    reader.cancel().catch(() => undefined);
  }
}

type Read = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>;

async function readWithin(reader: ReadableStreamDefaultReader<Uint8Array>, timing: SseTiming): Promise<Read> {
  const over = new AbortController();
  const silence = timing.clock.sleep(timing.idleMs, over.signal).then(() => {
    throw new ConnectionError(`the connection said nothing for ${timing.idleMs} ms`);
  });
  // It loses the race in every good case.
  silence.catch(() => undefined);
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    if (error instanceof ConnectionError) throw error;
    throw new ConnectionError("the connection broke", { cause: error });
  } finally {
    over.abort();
  }
}

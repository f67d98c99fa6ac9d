/** Server-sent events out of the body of an answer, read only as fast as somebody takes them. */
import { createParser, type EventSourceMessage } from "eventsource-parser";

import { ConnectionError, ProtocolError } from "./api-error.js";
import type { Clock } from "./clock.js";
import { MESSAGE_BYTES_MAX } from "./limits.js";

/** Characters of one event with its fields: a message of the wire, and room for what stands around it. */
export const SSE_EVENT_CHARS_MAX = MESSAGE_BYTES_MAX + 65_536;

/** What a stream says apart from its events. */
export interface SseNotes {
  /** The server wants this wait before the next connection. */
  onRetry(ms: number): void;
  /** The server is there, and has nothing to say. */
  onHeartbeat(): void;
}

/** How long a connection may say nothing, and who tells the time. */
export interface SseTiming {
  readonly clock: Clock;
  readonly idleMs: number;
}

/**
 * Yields the events of a body. An event that was cut off is not one.
 *
 * The next piece of the body is read when every event of the last one was taken: a slow reader slows the server.
 * Throws ConnectionError if the body breaks or says nothing for `idleMs`, ProtocolError if an event is too large.
 */
export async function* readSse(
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
    // Nobody waits for this: a body that hangs must not hold up whoever leaves it.
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

/** The journal of a session, as it grows. */
import { EMPTY_CONVERSATION, reduceConversation, type Conversation, type Event } from "@windlass/protocol";
import type { FeedState } from "@windlass/protocol/client";
import { useEffect, useState } from "react";
import { client } from "./api.js";

/** What is known of a journal. */
export interface Journal {
  readonly records: readonly Event[];
  readonly connection: FeedState;
  readonly error: Error | undefined;
}

const NOTHING: Journal = { records: [], connection: { status: "connecting" }, error: undefined };
/** Records are shown in batches: a long journal comes in few. */
const FLUSH_MS = 60;

/** Reads a journal, and goes on as it grows; live words between records are left out. */
export function useJournal(sessionId: string | undefined): Journal {
  const [journal, setJournal] = useState(NOTHING);
  useEffect(() => {
    setJournal(NOTHING);
    if (sessionId === undefined) return;
    const stop = new AbortController();
    let pending: Event[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const change = (next: Partial<Journal>): void => {
      if (!stop.signal.aborted) setJournal((before) => ({ ...before, ...next }));
    };
    const flush = (): void => {
      const batch = pending;
      pending = [];
      timer = undefined;
      if (!stop.signal.aborted) setJournal((before) => ({ ...before, records: [...before.records, ...batch] }));
    };
    const follow = async (): Promise<void> => {
      const onState = (connection: FeedState): void => {
        change({ connection });
      };
      for await (const { event } of client.sessionEvents(sessionId, { signal: stop.signal, onState })) {
        if (event.index !== undefined) continue;
        pending.push(event);
        timer ??= setTimeout(flush, FLUSH_MS);
      }
    };
    follow().catch((error: unknown) => {
      change({ error: error instanceof Error ? error : new Error(String(error)) });
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [sessionId]);
  return journal;
}

const STEP = 250;

/**
 * A session as it was after any record.
 *
 * It remembers every so manieth state, so that going back and forth in a long journal folds a few records only.
 */
export class TimeMachine {
  private readonly known = new Map<number, Conversation>([[0, EMPTY_CONVERSATION]]);

  /** The conversation after a record; `records` may have grown since last time. */
  at(records: readonly Event[], seq: number): Conversation {
    const wanted = Math.min(Math.max(seq, 0), records.length);
    let place = Math.floor(wanted / STEP) * STEP;
    while (!this.known.has(place)) place -= STEP;
    let state = this.known.get(place) ?? EMPTY_CONVERSATION;
    while (place < wanted) {
      const next = Math.min(place + STEP, wanted);
      state = reduceConversation(state, records.slice(place, next));
      place = next;
      if (place % STEP === 0) this.known.set(place, state);
    }
    return state;
  }
}

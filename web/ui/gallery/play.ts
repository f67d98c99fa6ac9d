/** A simulated agent: a transport without a server. */
import { textOfContent, type Event, type JsonObject, type UserContent } from "@windlass/protocol";
import type { FeedItem } from "@windlass/protocol/client";
import { Unsupported, type Transport, type WatchOptions } from "../src/index.js";

export const AT = "2026-01-31T09:30:00.000Z";
const PIECE_MS = 40;

/** The behaviour of a simulated session. */
export interface PlayOptions {
  /** The connection is away, and tried again. */
  readonly isAway?: boolean;
  /** The feed is refused. */
  readonly refusal?: string;
}

/** The records of a session, written one after the other. */
export class Journal {
  readonly events: Event[] = [];
  private seq = 0;
  private index = 0;
  private turn = -1;

  private get step(): JsonObject {
    return { sequence: this.turn, turnId: `turn_${this.turn}`, stepIndex: 0 };
  }

  add(type: string, data: JsonObject = {}): this {
    if (type === "step.started") this.index = 0;
    this.events.push({ type, data, meta: { at: AT }, sessionId: "s1", seq: ++this.seq, runId: "r1", agentId: "clerk" });
    return this;
  }

  /** Words of the answer as they are written. */
  piece(messageDelta: string): this {
    const data = { ...this.step, messageDelta };
    this.events.push({
      type: "message.appended",
      data,
      meta: { at: AT },
      sessionId: "s1",
      seq: this.seq,
      runId: "r1",
      index: this.index++,
    });
    return this;
  }

  /** A run that begins with a message of a user. */
  begin(message: string, parts?: readonly JsonObject[]): this {
    if (this.seq === 0) this.add("session.started");
    this.turn += 1;
    const { sequence, turnId } = this.step;
    return this.add("run.started", { runId: "r1", agentId: "clerk" })
      .add("message.received", {
        message,
        sequence,
        turnId,
        ...(parts === undefined ? {} : { parts: [...parts] }),
      } as JsonObject)
      .add("step.started", this.step);
  }

  /** A call that a person is asked about. */
  ask(toolName: string, input: JsonObject): this {
    const action = { kind: "tool-call", callId: toolName, toolName, input };
    const options = [
      { id: "approve", label: "Approve", style: "primary" },
      { id: "deny", label: "Deny", style: "danger" },
    ];
    const request = {
      requestId: toolName,
      action,
      prompt: `Run ${toolName}? Payments need a person's consent.`,
      kind: "approval",
      display: "confirmation",
      options,
    };
    return this.add("message.completed", { ...this.step, message: "I will pay now.", finishReason: "tool-calls" })
      .add("actions.requested", { ...this.step, actions: [action] })
      .add("step.completed", {
        ...this.step,
        finishReason: "tool-calls",
        usage: { inputTokens: 310, outputTokens: 40 },
      })
      .add("input.requested", { ...this.step, requests: [request] })
      .add("run.waiting", { runId: "r1", on: "input" });
  }

  /** A run that breaks off. */
  fail(code: string, text: string): this {
    const error = { code, kind: "provider_failure", retry: "retryable", message: text };
    return this.add("run.failed", { runId: "r1", error });
  }

  /** A run that ends with words of the agent. */
  end(message: string): this {
    return this.add("message.completed", { ...this.step, message, finishReason: "stop" })
      .add("step.completed", {
        ...this.step,
        finishReason: "stop",
        usage: { inputTokens: 1_240, outputTokens: 86, costMicros: 2_300 },
      })
      .add("run.completed", { runId: "r1" });
  }
}

/** A transport to one session, which answers every message. */
export function play(journal: Journal, { isAway = false, refusal }: PlayOptions = {}): Transport {
  const listeners = new Set<() => void>();
  const tell = (change: () => void): void => {
    change();
    for (const listener of listeners) listener();
  };
  const none = (): Promise<never> => Promise.reject(new Unsupported("the gallery has no server"));
  return {
    features: { steer: true, decisions: false, attachments: true },
    createSession: ({ message = "" }) => {
      answer(message, journal, tell);
      return Promise.resolve({ sessionId: "s1", runId: "r1" });
    },
    send: (_, message) => {
      answer(message, journal, tell);
      return Promise.resolve({ sessionId: "s1", runId: "r1" });
    },
    events: (_, watch) => follow(journal, { listeners, watch, isAway, refusal }),
    cancel: () => {
      tell(() => journal.add("run.cancelled", { runId: "r1", reason: "Stopped by the user." }));
      return Promise.resolve();
    },
    answer: () => Promise.resolve(),
    approvals: () => Promise.resolve([]),
    listSessions: () => Promise.resolve([]),
    agentSession: none,
    updateAgentSession: none,
    run: none,
    trace: none,
    decisions: none,
  };
}

interface Reader {
  readonly listeners: Set<() => void>;
  readonly watch: WatchOptions;
  readonly isAway: boolean;
  readonly refusal: string | undefined;
}

async function* follow(
  { events }: Journal,
  { listeners, watch, isAway, refusal }: Reader,
): AsyncGenerator<FeedItem, void, undefined> {
  const { signal, onState } = watch;
  if (refusal !== undefined) throw new Error(refusal);
  onState?.(isAway ? { status: "waiting", delayMs: 1_000, error: undefined } : { status: "open" });
  for (let at = Number(watch.after ?? "0"); signal?.aborted !== true;) {
    const event = events[at];
    if (event !== undefined) {
      at += 1;
      yield { event, cursor: String(at) };
      continue;
    }
    await new Promise<void>((resolve) => {
      const go = (): void => {
        listeners.delete(go);
        signal?.removeEventListener("abort", go);
        resolve();
      };
      listeners.add(go);
      signal?.addEventListener("abort", go, { once: true });
    });
  }
}

/** Says what was said, a word at a time. */
function answer(content: UserContent, journal: Journal, tell: (change: () => void) => void): void {
  const message = textOfContent(content);
  const words = `You said: *${message}*. This gallery has no server, so that is all.`.split(/(?<= )/u);
  tell(() => journal.begin(message));
  words.forEach((word, at) =>
    setTimeout(
      () => {
        tell(() => journal.piece(word));
      },
      PIECE_MS * (at + 1),
    ),
  );
  setTimeout(
    () => {
      tell(() => journal.end(words.join("")));
    },
    PIECE_MS * (words.length + 1),
  );
}

import "./dom.js";
import { textOfContent, type AgentSession, type InputResponse } from "@windlass/protocol";
import { Queue, type FeedItem, type FeedState } from "@windlass/protocol/client";
import { act, renderHook, waitFor } from "@testing-library/react";
import { createElement, type ReactNode } from "react";
import { beforeEach, describe, expect, it, test, vi } from "vitest";
import {
  AgentProvider,
  EVENTS_PENDING_MAX,
  RECORDS_KEPT_MAX,
  SESSIONS_KEPT_MAX,
  JournalStore,
  PAGE_RECORDS,
  useSession,
  useAgentSession,
  useScope,
  useTransport,
} from "../src/session.js";
import { useApprovals } from "../src/requests.js";
import { useAsync, useDecisions, useRun, useTrace } from "../src/data.js";
import { useChatStream } from "../src/chat.js";
import { useToolCallStatus, type ToolCallFacts } from "../src/messages.js";
import type { Transport, WatchOptions } from "../src/transport.js";
import { delta, record } from "../../protocol/test/fakes.js";
import { APPROVAL, CALL, TRACE } from "./samples.js";

const STEP = { sequence: 0, turnId: "t0", stepIndex: 0 };
const said = (seq: number, message: string) => record(seq, "message.received", { message, sequence: 0, turnId: "t0" });

/** A transport that does what the test says. */
class Stage {
  readonly watched: (string | undefined)[] = [];
  readonly answers: InputResponse[] = [];
  readonly cancelled: string[] = [];
  readonly sent: string[] = [];
  session: AgentSession = {
    sessionId: "s1",
    userId: "ada",
    chatId: "c1",
    currentStage: "START",
    isActive: true,
    createdAt: "2026-01-31T09:30:00Z",
    updatedAt: "2026-01-31T09:30:00Z",
  };
  queue = new Queue<FeedItem>(1_000_000);
  onState: ((state: FeedState) => void) | undefined;
  private count = 0;

  readonly transport: Transport = {
    features: { steer: true, decisions: true, attachments: true },
    createSession: ({ message }) => {
      this.sent.push(`new: ${textOfContent(message ?? "")}`);
      return Promise.resolve({ sessionId: "s1", runId: "r1" });
    },
    listSessions: () => Promise.resolve([{ sessionId: "s1" }]),
    agentSession: (sessionId) => Promise.resolve({ ...this.session, sessionId }),
    updateAgentSession: (sessionId, change) => {
      this.session = Object.assign({}, this.session, change);
      return Promise.resolve({ ...this.session, sessionId });
    },
    events: (_, { after, onState, signal }) => {
      this.watched.push(after);
      this.onState = onState;
      const { queue } = this;
      signal?.addEventListener("abort", () => {
        queue.end();
      });
      return queue;
    },
    send: (sessionId, message) => {
      this.sent.push(`${sessionId}: ${textOfContent(message)}`);
      return Promise.resolve({ sessionId, runId: "r2" });
    },
    cancel: (runId) => Promise.resolve(void this.cancelled.push(runId)),
    answer: (_, response) => Promise.resolve(void this.answers.push(response)),
    approvals: () => Promise.resolve(this.answers.length > 0 ? [] : [{ request: APPROVAL, sessionId: "s1" }]),
    run: (runId) =>
      Promise.resolve({ runId, status: this.cancelled.includes(runId) ? "cancelled" : "running", requests: [] }),
    trace: () => Promise.resolve(TRACE),
    decisions: () => Promise.reject(new Error("no such run")),
  };

  readonly wrapper = ({ children }: { readonly children: ReactNode }): ReactNode =>
    createElement(AgentProvider, { transport: this.transport }, children);

  tell(...events: readonly FeedItem["event"][]): void {
    for (const event of events) this.queue.push({ event, cursor: `c${++this.count}` });
  }
}

let stage: Stage;
beforeEach(() => {
  stage = new Stage();
});

describe("a chat", () => {
  it("begins a session with the first message, shows it at once, and then the answer", async () => {
    const onSession = vi.fn();
    const { result } = renderHook(() => useChatStream({ onSession }), { wrapper: stage.wrapper });
    expect(result.current).toMatchObject({ isStreaming: false, items: [], sessionId: undefined });
    await act(() => result.current.sendUserMessage("go"));
    expect(onSession).toHaveBeenCalledWith("s1");
    expect(result.current.isStreaming).toBe(true);
    expect(result.current.items.map(({ id }) => id)).toEqual(["pending"]);
    stage.tell(record(1, "run.started", { runId: "r1", agentId: "a" }), said(2, "go"));
    await waitFor(() => {
      expect(result.current.items.map(({ id }) => id)).toEqual(["s1/2"]);
    });
    stage.tell(record(3, "run.completed", { runId: "r1" }));
    await waitFor(() => {
      expect(result.current.isStreaming).toBe(false);
    });
    await act(() => result.current.sendUserMessage("more"));
    expect(stage.sent).toEqual(["new: go", "s1: more"]);
    expect(result.current.isStreaming).toBe(true);
  });

  it("cancels the running run, also before its first event", async () => {
    const { result } = renderHook(() => useChatStream(), { wrapper: stage.wrapper });
    await act(() => result.current.cancel());
    await act(() => result.current.sendUserMessage("go"));
    await act(() => result.current.cancel());
    expect(stage.cancelled).toEqual(["r1"]);
    expect(result.current).toMatchObject({ isStreaming: false, items: [] });
    stage.tell(record(1, "run.started", { runId: "r7", agentId: "a" }), said(2, "go"));
    await waitFor(() => {
      expect(result.current.messages).toHaveLength(1);
    });
    await act(() => result.current.cancel());
    expect(stage.cancelled).toEqual(["r1", "r7"]);
  });

  it("of another session shows nothing of the one before, also if its answer comes later", async () => {
    const onSession = vi.fn();
    const initialProps: { sessionId: string | undefined } = { sessionId: "s1" };
    const { result, rerender } = renderHook(({ sessionId }) => useChatStream({ sessionId, onSession }), {
      wrapper: stage.wrapper,
      initialProps,
    });
    await act(() => result.current.sendUserMessage("to the first"));
    expect(result.current.items.map(({ id }) => id)).toEqual(["pending"]);
    rerender({ sessionId: "s2" });
    expect(result.current).toMatchObject({ isStreaming: false, items: [] });
    await act(() => result.current.cancel());
    expect(stage.cancelled).toEqual([]);
    rerender({ sessionId: "s1" });
    expect(result.current.items.map(({ id }) => id)).toEqual(["pending"]);

    // A new chat is new, and the session that it begins is not opened over one that was chosen meanwhile.
    rerender({ sessionId: undefined });
    expect(result.current).toMatchObject({ sessionId: undefined, items: [] });
    const sending = result.current.sendUserMessage("to a new one");
    rerender({ sessionId: "s2" });
    await act(() => sending);
    expect(onSession).not.toHaveBeenCalled();
    expect(result.current).toMatchObject({ sessionId: "s2", items: [] });

    // A failure is told where it happened.
    stage.transport.send = () => Promise.reject(new Error("refused"));
    const late = result.current.sendUserMessage("refused").catch(() => undefined);
    rerender({ sessionId: "s3" });
    await act(() => late);
    expect(result.current.error).toBeUndefined();
  });

  it("keeps local messages in front, and passes answers on", async () => {
    const hello = { id: "x", role: "system", content: "hello", createdAt: "" } as const;
    const { result } = renderHook(() => useChatStream({ sessionId: "s1", initialMessages: [hello] }), {
      wrapper: stage.wrapper,
    });
    stage.tell(said(1, "go"));
    await waitFor(() => {
      expect(result.current.messages.map(({ content }) => content)).toEqual(["hello", "go"]);
    });
    act(() => {
      result.current.appendMessage({ ...hello, id: "y", content: "again" });
    });
    expect(result.current.items.map(({ id }) => id)).toEqual(["x", "y", "s1/1"]);
    act(() => {
      result.current.setMessages([]);
    });
    expect(result.current.items.map(({ id }) => id)).toEqual(["s1/1"]);
    await act(() => result.current.answer({ requestId: "q1", optionId: "approve" }));
    expect(stage.answers).toEqual([{ requestId: "q1", optionId: "approve" }]);
  });

  it("keeps what was said in its session when another one is opened, and begins anew without one", async () => {
    const onSession = vi.fn();
    const initialProps: { sessionId: string | undefined } = { sessionId: "s1" };
    const { result, rerender } = renderHook(({ sessionId }) => useChatStream({ sessionId, onSession }), {
      wrapper: stage.wrapper,
      initialProps,
    });
    await act(() => result.current.sendUserMessage("go"));
    rerender({ sessionId: "s2" });
    expect(result.current).toMatchObject({ isStreaming: false, items: [] });
    rerender({ sessionId: "s1" });
    expect(result.current.items.map(({ id }) => id)).toEqual(["pending"]);
    // A session that is begun while another one is opened does not take its place.
    rerender({ sessionId: undefined });
    let begun = (): void => undefined;
    stage.transport.createSession = () =>
      new Promise((resolve) => {
        begun = () => {
          resolve({ sessionId: "s3", runId: "r3" });
        };
      });
    let sending: Promise<void> | undefined;
    act(() => {
      sending = result.current.sendUserMessage("new");
    });
    rerender({ sessionId: "s2" });
    expect(result.current.items).toEqual([]);
    await act(async () => {
      begun();
      await sending;
    });
    expect(onSession).not.toHaveBeenCalled();
    rerender({ sessionId: undefined });
    expect(result.current).toMatchObject({ sessionId: undefined, isStreaming: false, items: [] });
  });

  it("shows a transport error, and the message is not pending", async () => {
    stage.transport.createSession = () => Promise.reject(new Error("away"));
    const { result } = renderHook(() => useChatStream(), { wrapper: stage.wrapper });
    await act(() => expect(result.current.sendUserMessage("go")).rejects.toThrow("away"));
    expect(result.current).toMatchObject({ isStreaming: false, items: [], error: { message: "away" } });
  });
});

describe("a store of a session", () => {
  const drain = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it("shows events in batches, reads no further than it can show, and resumes", async () => {
    const runs: (() => void)[] = [];
    const store = new JournalStore(
      (watch) => stage.transport.events("s1", watch),
      (run) => {
        runs.push(run);
        return () => undefined;
      },
    );
    const listener = vi.fn();
    const leave = store.subscribe(listener);
    const many = Array.from({ length: EVENTS_PENDING_MAX + 10 }, (_, at) => said(at + 1, `m${at}`));
    stage.tell(...many);
    await drain();
    expect([runs.length, listener.mock.calls.length]).toEqual([1, 0]);
    runs.pop()?.();
    expect(store.getView().items).toHaveLength(EVENTS_PENDING_MAX);
    expect(listener).toHaveBeenCalledTimes(1);
    await drain();
    runs.pop()?.();
    expect(store.getView().items).toHaveLength(EVENTS_PENDING_MAX + 10);
    leave();
    stage.queue = new Queue(10);
    const leaveAgain = store.subscribe(listener);
    expect(stage.watched).toEqual([undefined, `c${EVENTS_PENDING_MAX + 10}`]);
    expect(store.getView().items).toHaveLength(EVENTS_PENDING_MAX + 10);
    leaveAgain();
  });

  it("holds no connection while the page is hidden, and goes on behind what it has shown", async () => {
    const store = new JournalStore(
      (watch) => stage.transport.events("s1", watch),
      (run) => {
        queueMicrotask(run);
        return () => undefined;
      },
    );
    const show = (visibilityState: string): void => {
      Object.defineProperty(document, "visibilityState", { configurable: true, value: visibilityState });
      document.dispatchEvent(new Event("visibilitychange"));
    };
    const leave = store.subscribe(() => undefined);
    stage.tell(said(1, "a"));
    await drain();
    show("hidden");
    stage.queue = new Queue(10);
    expect(stage.watched).toEqual([undefined]);
    show("visible");
    expect(stage.watched).toEqual([undefined, "c1"]);
    stage.tell(said(2, "b"));
    await drain();
    expect(store.getView().items).toHaveLength(2);
    leave();
    show("visible");
    expect(stage.watched).toHaveLength(2);
  });

  it("starts at the end, with the first run or step that is whole, and puts earlier pages in front", async () => {
    const all = [
      record(1, "session.started", {}),
      ...[0, 1, 2].flatMap((at) => [
        record(at * 3 + 2, "run.started", { runId: `r${at}`, agentId: "clerk", turnId: `t${at}` }),
        record(at * 3 + 3, "message.received", { message: `m${at}`, sequence: at, turnId: `t${at}` }),
        record(at * 3 + 4, "run.completed", { runId: `r${at}`, output: "ok" }),
      ]),
    ];
    const asked: (readonly [number | undefined, number | undefined])[] = [];
    const open = async function* ({ last, before = Infinity }: WatchOptions): AsyncGenerator<FeedItem> {
      asked.push([before, last]);
      // Four records are a page here, and a feed that broke sends one more than was wanted.
      const page = all.filter(({ seq = 0 }) => seq < before).slice(last === undefined ? 0 : -4);
      const more = before === Infinity ? [] : all.filter(({ seq }) => seq === before);
      for (const event of [...page, ...more]) yield { event, cursor: `c${event.seq ?? 0}` };
      if (before === Infinity) await new Promise(() => undefined);
    };
    const store = new JournalStore(open, (run) => {
      queueMicrotask(run);
      return () => undefined;
    });
    const leave = store.subscribe(() => undefined);
    const shown = (): unknown[] => {
      const { items, records, hasEarlier } = store.getView();
      return [items.map((item) => (item.kind === "message" ? item.message.content : "")), records[0]?.seq, hasEarlier];
    };
    await drain();
    expect(shown()).toEqual([["m2"], 8, true]);
    await Promise.all([store.loadEarlier(), store.loadEarlier()]);
    expect(shown()).toEqual([["m1", "m2"], 5, true]);
    await store.loadEarlier(true);
    expect(shown()).toEqual([["m0", "m1", "m2"], 1, false]);
    await store.loadEarlier();
    expect(asked).toEqual([
      [Infinity, PAGE_RECORDS],
      [8, PAGE_RECORDS],
      [5, undefined],
    ]);
    leave();
  });

  it("that is wanted whole shows nothing before its first record is here", async () => {
    const asked: (number | undefined)[] = [];
    const events: Transport["events"] = async function* (_, { before }) {
      asked.push(before);
      const seqs = before === undefined ? [2, 3] : [1];
      for (const seq of seqs) {
        const event =
          seq === 2 ? record(2, "run.started", { runId: "r1", agentId: "a", turnId: "t0" }) : said(seq, "m");
        yield { event, cursor: `c${seq}` };
      }
      if (before === undefined) await new Promise(() => undefined);
    };
    const transport = { ...stage.transport, events };
    const firsts = new Set<number | undefined>();
    const { result } = renderHook(() => {
      const view = useSession("s1", { transport, isWhole: true });
      firsts.add(view.records[0]?.seq);
      return view;
    });
    await waitFor(() => {
      expect(result.current.records).toHaveLength(3);
    });
    expect([...firsts]).toEqual([undefined, 1]);
    expect(asked).toEqual([undefined, 2]);
  });

  it("of a run has its records, which have gaps, and no conversation", async () => {
    const store = new JournalStore(
      (watch) => stage.transport.events("s1", watch),
      (run) => {
        queueMicrotask(run);
        return () => undefined;
      },
      false,
    );
    const leave = store.subscribe(() => undefined);
    stage.tell(said(5, "a"), said(9, "b"));
    await drain();
    expect(store.getView().records.map(({ seq }) => seq)).toEqual([5, 9]);
    expect(store.getView()).toMatchObject({ items: [], error: undefined });
    leave();
  });

  it("reports the connection state, and why a feed ended", async () => {
    const store = new JournalStore(
      (watch) => stage.transport.events("s1", watch),
      (run) => {
        queueMicrotask(run);
        return () => undefined;
      },
    );
    store.subscribe(() => undefined);
    stage.onState?.({ status: "open" });
    expect(store.getView().connection).toEqual({ status: "open" });
    stage.tell(said(1, "a"), record(2, "step.started", STEP), delta(2, 0, "message.appended", { messageDelta: "x" }));
    stage.queue.end(new Error("no such session"));
    await drain();
    expect(store.getView()).toMatchObject({ error: { message: "no such session" } });
    expect(store.getView().items).toHaveLength(2);
  });

  it("keeps each record once and no deltas, and forgets an error when it is watched again", async () => {
    const store = new JournalStore(
      (watch) => stage.transport.events("s1", watch),
      (run) => {
        queueMicrotask(run);
        return () => undefined;
      },
    );
    const leave = store.subscribe(() => undefined);
    const records = [said(1, "a"), record(2, "step.started", STEP)];
    stage.tell(...records, delta(2, 0, "message.appended", { messageDelta: "x" }));
    stage.queue.end(new Error("away"));
    await drain();
    expect(store.getView()).toMatchObject({ records, error: { message: "away" } });
    leave();
    stage.queue = new Queue(10);
    store.subscribe(() => undefined);
    stage.tell(...records, said(3, "b"));
    await drain();
    expect(store.getView().error).toBeUndefined();
    expect(store.getView().records.map(({ seq }) => seq)).toEqual([1, 2, 3]);
  });

  it("ends with an error when a record is missing", async () => {
    const store = new JournalStore(
      (watch) => stage.transport.events("s1", watch),
      (run) => {
        queueMicrotask(run);
        return () => undefined;
      },
    );
    store.subscribe(() => undefined);
    stage.tell(said(1, "a"), said(3, "b"));
    await drain();
    expect(store.getView().error?.name).toBe("RecordGap");
  });
});

test("sessions without a subscriber are evicted, the oldest first", () => {
  const { store } = renderHook(() => useScope(), { wrapper: stage.wrapper }).result.current;
  const watched = store("watched");
  const leave = watched.subscribe(() => undefined);
  const [oldest, next] = [store("oldest"), store("next")];
  for (let at = 3; at <= SESSIONS_KEPT_MAX; at += 1) store(`s${at}`);
  expect(store("watched")).toBe(watched);
  expect(store("next")).toBe(next);
  expect(store("oldest")).not.toBe(oldest);
  // Few sessions with many records are too many as well.
  const again = store("next");
  const records = Array.from({ length: RECORDS_KEPT_MAX + 1 }, (_, at) => said(at + 1, "a"));
  vi.spyOn(again, "getView").mockReturnValue({ ...again.getView(), records });
  store("one more");
  expect(store("watched")).toBe(watched);
  expect(store("next")).not.toBe(again);
  leave();
});

test("a component without a transport throws an error with advice", () => {
  vi.spyOn(console, "error").mockImplementation(() => undefined);
  expect(() => renderHook(() => useTransport())).toThrow("put an AgentProvider around the component");
  vi.restoreAllMocks();
});

test("sessions are listed, begun and resumed", async () => {
  const { result } = renderHook(() => useAgentSession({ transport: stage.transport }));
  expect(result.current.isLoading).toBe(true);
  await waitFor(() => {
    expect(result.current.sessions).toEqual([{ sessionId: "s1" }]);
  });
  await act(() => result.current.create({ agent: "a" }));
  expect(result.current.current).toBe("s1");
  act(() => {
    result.current.resume("s9");
  });
  expect(result.current.current).toBe("s9");
  stage.transport.createSession = () => Promise.reject(new Error("full"));
  await act(() => expect(result.current.create()).rejects.toThrow("full"));
  expect(result.current.error?.message).toBe("full");
});

test("the current session has a stage that follows its journal and can be changed", async () => {
  const { result } = renderHook(() => useAgentSession({ transport: stage.transport }));
  expect(result.current.session).toBeUndefined();
  await expect(result.current.update({ currentStage: "B" })).rejects.toThrow("create or resume one first");
  act(() => {
    result.current.resume("s1");
  });
  await waitFor(() => {
    expect(result.current.session).toMatchObject({ sessionId: "s1", userId: "ada", currentStage: "START" });
  });
  await act(() => result.current.update({ currentStage: "PLANNING", nextStage: "PAYING" }));
  expect(result.current.session).toMatchObject({ currentStage: "PLANNING", nextStage: "PAYING" });
  // Another client changes it: the feed says so.
  stage.session = { ...stage.session, currentStage: "PAYING" };
  stage.tell(record(1, "session.state_changed", { set: { "windlass.session.currentStage": "PAYING" } }));
  await waitFor(() => {
    expect(result.current.session?.currentStage).toBe("PAYING");
  });
  stage.session = { ...stage.session, isActive: false };
  stage.tell(record(2, "run.completed", { runId: "r1" }));
  await waitFor(() => {
    expect(result.current.session?.isActive).toBe(false);
  });
});

describe("approvals", () => {
  it("of all sessions are loaded, and loaded again after an answer", async () => {
    const { result } = renderHook(() => useApprovals(), { wrapper: stage.wrapper });
    await waitFor(() => {
      expect(result.current.approvals).toHaveLength(1);
    });
    const [first] = result.current.approvals;
    await act(() =>
      first === undefined ? Promise.reject(new Error("none")) : result.current.answer(first, { optionId: "deny" }),
    );
    expect(stage.answers).toEqual([{ requestId: "q1", optionId: "deny" }]);
    expect(result.current.approvals).toEqual([]);
  });

  it("of a session appear as they are requested", async () => {
    const { result } = renderHook(() => useApprovals({ sessionId: "s1" }), { wrapper: stage.wrapper });
    stage.tell(record(1, "input.requested", { ...STEP, requests: [JSON.parse(JSON.stringify(APPROVAL)) as never] }));
    await waitFor(() => {
      expect(result.current.approvals).toMatchObject([{ sessionId: "s1", request: { requestId: "q1" } }]);
    });
  });
});

test("a run is loaded and cancelled; traces are loaded; failures are reported", async () => {
  const { result } = renderHook(
    () => ({ run: useRun("r1"), trace: useTrace("r1"), decisions: useDecisions("r1"), none: useRun(undefined) }),
    {
      wrapper: stage.wrapper,
    },
  );
  await waitFor(() => {
    expect(result.current.run.data?.status).toBe("running");
  });
  expect(result.current.trace.data).toBe(TRACE);
  expect(result.current.decisions).toMatchObject({
    data: undefined,
    isLoading: false,
    error: { message: "no such run" },
  });
  await act(() => result.current.run.cancel());
  expect(result.current.run.data?.status).toBe("cancelled");
  await act(() => result.current.none.cancel());
  expect(result.current.none).toMatchObject({ data: undefined, isLoading: false });
});

test("something that goes on is asked for again, after a failure too, until it is over", async () => {
  vi.useFakeTimers();
  try {
    const answers = [
      () => Promise.reject(new Error("not begun")),
      () => Promise.resolve("half"),
      () => Promise.resolve("all"),
    ];
    let asked = 0;
    const load = (): Promise<string> => answers[asked++]?.() ?? Promise.reject(new Error("asked too often"));
    const isOver = (data: string): boolean => data === "all";
    const { result } = renderHook(() => useAsync(load, 1_000, isOver));
    const seen: unknown[] = [];
    for (let at = 0; at < 5; at += 1) {
      await act(() => vi.advanceTimersByTimeAsync(at === 0 ? 0 : 1_000));
      seen.push(result.current.error?.message ?? result.current.data);
    }
    expect(seen).toEqual(["not begun", "half", "all", "all", "all"]);
  } finally {
    vi.useRealTimers();
  }
});

test("a response to an outdated query is dropped", async () => {
  const answers: ((text: string) => void)[] = [];
  const loads = ["a", "b"].map(() => () => new Promise<string>((resolve) => answers.push(resolve)));
  const { result, rerender } = renderHook(({ at }) => useAsync(loads[at]), { initialProps: { at: 0 } });
  rerender({ at: 1 });
  await act(async () => {
    answers[1]?.("second");
    await Promise.resolve();
    answers[0]?.("first");
  });
  expect(result.current.data).toBe("second");
});

test.each<[string, ToolCallFacts, object]>([
  [
    "in a row",
    { ...CALL, status: "waiting" },
    { status: "waiting", requiresApproval: true, isDestructive: true, isOver: false },
  ],
  [
    "without a result",
    { call: CALL.call },
    { status: "requested", requiresApproval: false, isDestructive: false, isOver: false },
  ],
  [
    "that succeeded",
    { call: CALL.call, result: { success: true }, mode: "read" },
    { status: "succeeded", isDestructive: false, isOver: true },
  ],
  [
    "that failed",
    { call: CALL.call, result: { success: false }, mode: "local" },
    { status: "failed", isDestructive: true, isOver: true },
  ],
])("the status of a call %s", (_, facts, expected) => {
  expect(renderHook(() => useToolCallStatus(facts)).result.current).toMatchObject(expected);
});

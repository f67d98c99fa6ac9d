import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { PassThrough } from "node:stream";
import { fileURLToPath } from "node:url";
import { MessageChannel } from "node:worker_threads";
import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import { chatItems, EMPTY_CONVERSATION, reduceConversation } from "../src/conversation.js";
import {
  childDuplex,
  FRAME_CHARS_MAX,
  portDuplex,
  RpcClosed,
  RpcError,
  RpcPeer,
  type Duplex,
  type MessagePortLike,
} from "../src/client/rpc.js";
import { Queue, SidecarClient, streamNumbers, type StreamNotice } from "../src/client/sidecar.js";
import type { JsonObject } from "../src/wire.js";
import { JumpingClock } from "./fakes.js";

let child: ChildProcessWithoutNullStreams;
let peer: RpcPeer;
let faults: Error[];

beforeEach(() => {
  child = spawn(process.execPath, [fileURLToPath(new URL("fake-sidecar.mjs", import.meta.url))]);
  faults = [];
  peer = new RpcPeer(childDuplex(child), { onFault: (error) => faults.push(error) });
});
afterEach(async () => {
  peer.close();
  await peer.closed;
});

const failure = (promise: Promise<unknown>): Promise<unknown> => promise.then(String, (error: unknown) => error);

describe("calls to a process", () => {
  it("get their own answers, many at once", async () => {
    const calls = Array.from({ length: 200 }, (_, n) => peer.call("test.echo", { n, text: "ü🌍\n" }));
    expect(await Promise.all(calls)).toEqual(calls.map((_, n) => ({ n, text: "ü🌍\n" })));
  });

  it("that are refused carry the reason", async () => {
    const error = await failure(peer.call("test.fail"));
    expect(error).toBeInstanceOf(RpcError);
    expect(error).toMatchObject({ code: -32_002, kind: "policy_denied", message: "not like this", data: { why: 1 } });
    expect(await failure(peer.call("no.such"))).toMatchObject({ kind: "method_not_found" });
  });

  it("under way end when the process dies, and later ones at once", async () => {
    const silent = failure(peer.call("test.silent"));
    await failure(peer.call("test.exit"));
    expect(await silent).toBeInstanceOf(RpcClosed);
    expect(await failure(peer.call("system.ping"))).toBeInstanceOf(RpcClosed);
    peer.notify("test.echo");
  });

  it("can be given up, and are given up after a time", async () => {
    const stop = new AbortController();
    const silent = failure(peer.call("test.silent", {}, { signal: stop.signal }));
    const reason = new Error("enough");
    stop.abort(reason);
    expect(await silent).toBe(reason);
    expect(await failure(peer.call("test.echo", {}, { signal: stop.signal }))).toBe(reason);
    expect(await peer.call("test.echo", { still: "there" }, { timeoutMs: 60_000 })).toEqual({ still: "there" });
    const hasty = new RpcPeer(idle(), { clock: new JumpingClock() });
    expect(await failure(hasty.call("test.silent", {}, { timeoutMs: 5 }))).toMatchObject({ kind: "timeout" });
  });

  it("go on after malformed frames", async () => {
    expect(await peer.call("test.noise")).toBeNull();
    expect(faults).toHaveLength(3);
    expect(await peer.call("test.echo", { n: 1 })).toEqual({ n: 1 });
  });

  it("bring frames together that arrive byte by byte, and take batches apart", async () => {
    const told: JsonObject[] = [];
    const end = peer.on("test.told", (params) => told.push(params));
    await peer.call("test.halves");
    await peer.call("test.batch");
    expect(told).toEqual([{ text: "Grüß 🌍" }, { n: 1 }, { n: 2 }]);
    end();
    await peer.call("test.batch");
    expect(told).toHaveLength(3);
  });
});

describe("calls of the process", () => {
  it("are answered by their handlers", async () => {
    peer.handle("host.add", ({ a, b }) => Number(a) + Number(b));
    expect(await peer.call("test.ask", { method: "host.add", params: { a: 1, b: 2 } })).toBe(3);
  });

  it.each([
    ["have no handler", "host.none", { code: -32_601, kind: "method_not_found" }],
    ["fail", "host.fail", { code: -32_603, message: "no such thing", kind: "internal" }],
    ["are refused", "host.refuse", { code: -32_002, message: "no", kind: "policy_denied" }],
    ["give no JSON", "host.broken", { code: -32_603, kind: "internal" }],
  ])("that %s get an error", async (_, method, error) => {
    peer.handle("host.fail", () => Promise.reject(new Error("no such thing")));
    peer.handle("host.refuse", () => Promise.reject(new RpcError(-32_002, "no", "policy_denied")));
    peer.handle("host.broken", () => Number.NaN);
    expect(await peer.call("test.ask", { method, params: {} })).toMatchObject({ error });
  });

  it("that are withdrawn abort their handler, and are not answered", async () => {
    const aborted = new Promise((resolve) => {
      peer.handle("host.slow", (_, signal) => {
        return new Promise((end) => {
          signal.addEventListener("abort", () => {
            resolve(true);
            end(null);
          });
        });
      });
    });
    await peer.call("test.withdraw");
    expect(await aborted).toBe(true);
  });
});

test("a listener that fails does not stop the others", async () => {
  const told: JsonObject[] = [];
  peer.on("test.told", () => {
    throw new Error("mine");
  });
  peer.on("test.told", (params) => told.push(params));
  await peer.call("test.batch");
  expect([told.length, faults.length]).toEqual([2, 2]);
});

test("a port carries the same frames", async () => {
  const { port1, port2 } = new MessageChannel();
  const here = new RpcPeer(portDuplex(port1 as unknown as MessagePortLike));
  const there = new RpcPeer(portDuplex(port2 as unknown as MessagePortLike));
  there.handle("double", ({ n }) => Number(n) * 2);
  expect(await here.call("double", { n: 21 })).toBe(42);
  there.close();
  await here.closed;
  expect(await failure(here.call("double"))).toBeInstanceOf(RpcClosed);
});

test("a port that is closed here ends the calls under way, also where a page gets no close event", async () => {
  const { port1, port2 } = new MessageChannel();
  const gone = new Promise((resolve) => port2.once("close", resolve));
  const page = { addEventListener: () => undefined, postMessage: () => undefined, close: port1.close.bind(port1) };
  const here = new RpcPeer(portDuplex(page));
  const call = failure(here.call("x"));
  here.close();
  expect(await here.closed).toBeUndefined();
  expect(await call).toBeInstanceOf(RpcClosed);
  await gone;
});

test("a message of a port that is no text ends the connection on both sides", async () => {
  const { port1, port2 } = new MessageChannel();
  const gone = new Promise((resolve) => port2.once("close", resolve));
  const here = new RpcPeer(portDuplex(port1 as unknown as MessagePortLike));
  port2.postMessage({ jsonrpc: "2.0" });
  expect(await here.closed).toMatchObject({ name: "ProtocolError" });
  await gone;
});

test.each([
  ["is too long", new Uint8Array(FRAME_CHARS_MAX + 1).fill(97)],
  ["is no UTF-8", new Uint8Array([0xff, 0xfe])],
])("a line that %s ends the connection", async (_, bytes) => {
  const stdout = new PassThrough();
  const broken = new RpcPeer(childDuplex({ stdin: new PassThrough(), stdout }));
  const call = failure(broken.call("x"));
  stdout.write(bytes);
  expect(await broken.closed).toMatchObject({ name: "ProtocolError" });
  expect(await call).toBeInstanceOf(RpcClosed);
});

test("a queue without a reader ends with an error after its items", async () => {
  const queue = new Queue<number>(2);
  for (const n of [1, 2, 3, 4]) queue.push(n);
  const found: number[] = [];
  const error = await failure(
    (async () => {
      for await (const n of queue) found.push(n);
    })(),
  );
  expect(found).toEqual([1, 2]);
  expect(error).toBeInstanceOf(RangeError);
});

describe("the client of the sidecar", () => {
  let count = 0;
  const open = (more = {}): SidecarClient => new SidecarClient(peer, { newId: () => `st-${++count}`, ...more });
  const ask = (content: string) =>
    ({ provider: "demo", model: "guide", messages: [{ role: "user", content }], requestInput: true }) as const;

  async function read(notices: AsyncIterable<StreamNotice>): Promise<StreamNotice[]> {
    const found: StreamNotice[] = [];
    for await (const notice of notices) found.push(notice);
    return found;
  }

  it("calls methods that it has no function for", async () => {
    expect(await open().request("test.echo", { n: 1, none: undefined })).toEqual({ n: 1 });
  });

  it("gets health, creates sessions, fetches traces", async () => {
    const client = open();
    expect(await client.ping()).toMatchObject({ status: "ok" });
    expect(await client.createSession({ chatId: "c" })).toMatchObject({ sessionId: "made", chatId: "c" });
    expect((await client.trace("t")).spans).toHaveLength(1);
  });

  it("reads a stream to its end", async () => {
    const { streamId, notices } = await open().stream(ask("go"));
    const found = await read(notices);
    expect(found.at(-1)).toEqual({ type: "done", done: { streamId, ok: true } });
    expect(found.filter(({ type }) => type === "chunk")).toHaveLength(10);
  });

  it("executes tools of the host", async () => {
    const client = open({
      onToolCall: (call: { name: string }) => Promise.resolve({ success: true, data: `${call.name} here` }),
    });
    const { notices } = await client.stream({ ...ask("go"), tools: [{ name: "pay" }] });
    const results = (await read(notices)).flatMap((notice) =>
      notice.type === "chunk" ? (notice.chunk.toolResult ?? []) : [],
    );
    expect(results).toMatchObject([{ id: "c1", success: true, data: "pay here" }]);
  });

  it("ends its streams with an error when the sidecar dies", async () => {
    const client = open();
    const { notices } = await client.stream(ask("ask"));
    const end = failure(read(notices));
    await failure(peer.call("test.exit"));
    expect(await end).toBeInstanceOf(RpcClosed);
  });

  /** Reads two runs of one session as a conversation; the first is left to its end. */
  async function follow(
    content: string,
    decide: (client: SidecarClient, streamId: string) => Promise<void>,
  ): Promise<string[]> {
    const client = open();
    const numbered = streamNumbers();
    let state = EMPTY_CONVERSATION;
    for (const words of ["go", content]) {
      const { streamId, notices } = await client.stream({ ...ask(words), shape: "events" });
      for await (const notice of notices) {
        if (notice.type !== "event") continue;
        state = reduceConversation(state, [numbered(notice.event)]);
        if (notice.event.type === "run.waiting") await decide(client, streamId);
      }
    }
    expect(state.live).toBeUndefined();
    expect(state.chat.requests.size).toBe(0);
    const rows = chatItems(state).map((item) => {
      if (item.kind !== "message") return item.kind === "note" ? `${item.note.kind}: ${item.note.text}` : item.id;
      return `${item.message.role}: ${item.message.content}${item.calls.map((view) => ` [${view.status}]`).join("")}`;
    });
    expect(rows.slice(0, 3)).toEqual(["user: go", "assistant: Let me see. 🌍 [succeeded]", "assistant: All paid."]);
    return rows.slice(3);
  }

  it("gives events for a conversation: text, calls, an approval, a retried answer", async () => {
    const rows = await follow("ask", (client, streamId) =>
      client.answer(streamId, { requestId: "q1", optionId: "approve" }),
    );
    expect(rows).toEqual(["user: ask", "assistant: Let me see. 🌍 [succeeded]", "assistant: All paid."]);
  });

  it("ends a stream, and keeps its text", async () => {
    const rows = await follow("ask", (client, streamId) => client.cancel(streamId));
    expect(rows).toEqual(["user: ask", "assistant: Let me see. 🌍 [abandoned]", "cancelled: Stopped."]);
  });

  it("reports why a stream failed, and keeps its text", async () => {
    const rows = await follow("fail", () => Promise.resolve());
    expect(rows.slice(2)).toEqual(["partial: All paid.", "error: the model is gone"]);
  });
});

/** A duplex on which nothing ever comes. */
function idle(): Duplex {
  return { send: () => undefined, listen: () => undefined, close: () => undefined };
}

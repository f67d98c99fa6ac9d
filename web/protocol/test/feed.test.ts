import { afterEach, beforeEach, describe, expect, it, test } from "vitest";
import { ApiError, ConnectionError, ProtocolError } from "../src/client/connection.js";
import { FEED_GAPS_MAX, type FeedItem, type FeedOptions, type FeedState } from "../src/client/feed.js";
import type { Event } from "../src/generated/index.js";
import { Client } from "../src/client/http.js";
import { delta, frame, JumpingClock, record, Scene, stream } from "./fakes.js";

const STEP = { sequence: 0, turnId: "t0", stepIndex: 0 };
const WHOLE: readonly Event[] = [
  record(1, "session.started"),
  record(2, "message.received", { message: "Grüß dich 🌍", sequence: 0, turnId: "t0" }),
  record(3, "step.started", STEP),
  delta(3, 0, "message.appended", { messageDelta: "Hal", messageSoFar: "Hal" }),
  delta(3, 2, "message.appended", { messageDelta: "lo 🌍" }),
  record(4, "message.completed", { ...STEP, message: "Hallo 🌍", finishReason: "stop" }),
  record(5, "run.completed", { runId: "r1" }),
];
const FRAMES = WHOLE.map((event) => frame(event));

/** The frames behind a cursor. */
function after(cursor: string | null): readonly string[] {
  const seen = FRAMES.findIndex((text) => text.startsWith(`id: ${cursor ?? ""}\n`));
  return FRAMES.slice(seen + 1);
}

let scene: Scene;
let clock: JumpingClock;
let client: Client;

beforeEach(async () => {
  scene = new Scene();
  clock = new JumpingClock();
  await scene.open();
  client = new Client({ baseUrl: scene.baseUrl, clock });
});
afterEach(() => scene.close());

const options = (more: FeedOptions = {}): FeedOptions => ({ clock, chance: () => 0.5, ...more });

async function take(feed: AsyncIterable<FeedItem>, count: number): Promise<Event[]> {
  const events: Event[] = [];
  for await (const { event } of feed) if (events.push(event) === count) break;
  return events;
}

async function failure(feed: AsyncIterable<FeedItem>): Promise<unknown> {
  return take(feed, 1_000).then(
    (events) => `no error, ${events.length} events`,
    (error: unknown) => error,
  );
}

describe("a feed that is cut", () => {
  const bytes = Buffer.from(FRAMES.join(""));
  const offsets = Array.from({ length: bytes.length }, (_, offset) => offset);

  it.each([
    [
      "the connection breaks",
      (socket: { destroy(): void }) => {
        socket.destroy();
      },
    ],
    ["the body ends", undefined],
  ])(
    "brings every event once, wherever %s",
    async (_, breakOff) => {
      for (const offset of offsets) {
        let isFirst = true;
        scene.answer = (request, response, url) => {
          const rest = Buffer.from(after(url.searchParams.get("after")).join(""));
          stream(response);
          if (!isFirst) {
            response.write(rest);
            return;
          }
          isFirst = false;
          if (breakOff === undefined) response.end(rest.subarray(0, offset));
          else
            response.write(rest.subarray(0, offset), () => {
              breakOff(request.socket);
            });
          if (offset === 0 && breakOff !== undefined) breakOff(request.socket);
        };
        const found = await take(client.sessionEvents("s1", options()), WHOLE.length);
        expect(found, `cut after ${offset} bytes`).toEqual(WHOLE);
      }
    },
    60_000,
  );

  it("brings every event once when the server repeats everything from the beginning each time", async () => {
    let length = 0;
    scene.answer = (request, response) => {
      length += 137;
      stream(response).write(bytes.subarray(0, length), () => request.socket.destroy());
    };
    expect(await take(client.sessionEvents("s1", options()), WHOLE.length)).toEqual(WHOLE);
    expect(scene.requests.length).toBeGreaterThan(5);
  });

  it("resumes after the given cursor", async () => {
    scene.answer = (_, response, url) => stream(response).write(after(url.searchParams.get("after")).join(""));
    const first = client.sessionEvents("s1", options());
    const { value } = await first.next();
    await first.return();
    expect(value?.cursor).toBe("c.1");
    const found = await take(client.sessionEvents("s1", options({ after: value?.cursor })), WHOLE.length - 1);
    expect(found).toEqual(WHOLE.slice(1));
  });

  it("resumes when the server returns on the same port", async () => {
    scene.answer = (_, response) => stream(response).write(FRAMES.slice(0, 3).join(""));
    const feed = client.sessionEvents("s1", options());
    const found = await take({ [Symbol.asyncIterator]: () => ({ next: () => feed.next() }) }, 3);
    const port = Number(new URL(scene.baseUrl).port);
    await scene.close();
    const next = feed.next();
    scene = new Scene();
    scene.answer = (_, response, url) => stream(response).write(after(url.searchParams.get("after")).join(""));
    await scene.open(port);
    const { value } = await next;
    found.push((value as FeedItem).event, ...(await take(feed, 3)));
    expect(found).toEqual(WHOLE);
  });
});

describe("control frames of the server", () => {
  it.each([
    ["as it goes", 'event: reconnect\ndata: {"retryMs":1500}\n\n'],
    ["in a field of the stream", "retry: 1500\n\n"],
    ["in words that are none, as long as is usual", "event: reconnect\ndata: soon\n\n"],
  ])("waits as long as a server asks %s", async (how, text) => {
    scene.answer = (_, response) => {
      const isFirst = scene.requests.length === 1;
      stream(response);
      if (isFirst) response.end(`${FRAMES[0] ?? ""}${text}`);
      else response.write(FRAMES.slice(1).join(""));
    };
    const backoff = { baseMs: 100, maxMs: 1_000 };
    expect(await take(client.sessionEvents("s1", options({ backoff, chance: () => 0 })), WHOLE.length)).toEqual(WHOLE);
    expect(clock.waits).toEqual([how.endsWith("usual") ? 50 : 1_500]);
  });

  it.each([
    ["429", "7", 7_000],
    ["503", "Sat, 31 Jan 2026 09:30:30 GMT", 30_000],
  ])("waits out a %s as long as Retry-After %s says", async (status, retryAfter, delayMs) => {
    scene.answer = (_, response) => {
      if (scene.requests.length === 1) response.writeHead(Number(status), { "retry-after": retryAfter }).end();
      else stream(response).write(FRAMES.join(""));
    };
    expect(await take(client.sessionEvents("s1", options()), WHOLE.length)).toEqual(WHOLE);
    expect(clock.waits).toEqual([delayMs]);
  });

  it.each([
    [401, "unauthorized"],
    [403, "denied"],
    [404, "not_found"],
    [410, "cursor_expired"],
    [422, "rejected"],
  ])("a %i ends the feed with its problem", async (status, kind) => {
    scene.answer = (_, response) => {
      const problem = JSON.stringify({ status, code: "some_code", detail: "there is no such session" });
      response.writeHead(status, { "content-type": "application/problem+json" }).end(problem);
    };
    const error = await failure(client.sessionEvents("s1", options()));
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status, kind, code: "some_code", message: "there is no such session" });
    expect(scene.requests).toHaveLength(1);
  });

  it("a problem in the middle of a stream ends it", async () => {
    scene.answer = (_, response) =>
      stream(response).end(`${FRAMES[0] ?? ""}event: error\ndata: {"status":410,"code":"cursor_expired"}\n\n`);
    expect(await failure(client.sessionEvents("s1", options()))).toMatchObject({ kind: "cursor_expired" });
  });

  it("204 ends a feed that has nothing more", async () => {
    scene.answer = (_, response) => response.writeHead(204).end();
    expect(await take(client.sessionEvents("s1", options()), 1)).toEqual([]);
  });

  it("a feed that is not followed ends where the journal ends", async () => {
    scene.answer = (_, response) => stream(response).end(FRAMES.join(""));
    expect(await take(client.sessionEvents("s1", options({ follow: false })), 1_000)).toEqual(WHOLE);
    expect(scene.requests.map((url) => url.search)).toEqual(["?follow=false"]);
  });

  it("the feed of a run ends with it, and records of other runs may be left out", async () => {
    const events = [
      record(4, "run.started", { runId: "r1", agentId: "a" }),
      record(9, "run.completed", { runId: "r1" }),
    ];
    const last = record(11, "hook.completed", { hookId: "h", point: "run.ended", status: "completed" });
    scene.answer = (_, response) => stream(response).end([...events, last].map((event) => frame(event)).join(""));
    expect(await take(client.runEvents("r1", options()), 1_000)).toEqual([...events, last]);
    expect(scene.requests).toHaveLength(1);
  });
});

describe("a server that is at fault", () => {
  it("ends the feed with an error when a record stays missing", async () => {
    scene.answer = (_, response) => stream(response).write((FRAMES[0] ?? "") + FRAMES.slice(2).join(""));
    const error = await failure(client.sessionEvents("s1", options()));
    expect(error).toBeInstanceOf(ProtocolError);
    expect(scene.requests).toHaveLength(FEED_GAPS_MAX);
    expect(scene.requests.at(-1)?.searchParams.get("after")).toBe("c.1");
  });

  it.each([
    ["is no event", "data: {}\n\n"],
    ["is no JSON", "data: {\n\n"],
    ["is too large", `data: ${"x".repeat(1_200_000)}`],
  ])("ends the feed when what it sends %s", async (_, text) => {
    scene.answer = (_request, response) => stream(response).write(text);
    expect(await failure(client.sessionEvents("s1", options()))).toBeInstanceOf(ProtocolError);
  });

  it("ends the feed when the answer is not a stream", async () => {
    scene.answer = (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>");
    expect(await failure(client.sessionEvents("s1", options()))).toBeInstanceOf(ProtocolError);
  });

  it("is retried with growing delays, and given up after the attempt limit", async () => {
    scene.answer = (_, response) => response.writeHead(500).end();
    const backoff = { baseMs: 100, maxMs: 1_000 };
    const error = await failure(client.sessionEvents("s1", options({ attemptsMax: 5, backoff, chance: () => 0 })));
    expect(error).toMatchObject({ name: "ApiError", kind: "failed" });
    expect(clock.waits).toEqual([50, 100, 200, 400, 500]);
  });

  it("is retried with growing delays when it opens streams and closes them at once", async () => {
    scene.answer = (_, response) =>
      scene.requests.length < 5 ? stream(response).end() : response.writeHead(204).end();
    await take(client.sessionEvents("s1", options({ backoff: { baseMs: 100, maxMs: 1_000 }, chance: () => 0 })), 1);
    expect(clock.waits).toEqual([50, 100, 200, 400]);
  });

  it("counts attempts anew after each event", async () => {
    scene.answer = (request, response, url) => {
      const [first = ""] = after(url.searchParams.get("after"));
      if (scene.requests.length % 2 === 0) request.socket.destroy();
      else stream(response).write(first, () => request.socket.destroy());
    };
    expect(await take(client.sessionEvents("s1", options({ attemptsMax: 2 })), WHOLE.length)).toEqual(WHOLE);
  });

  it("is disconnected after a silence, and a heartbeat ends the silence", async () => {
    const states: FeedState[] = [];
    scene.answer = (_, response) => {
      stream(response);
      if (scene.requests.length === 1) response.write(": waiting\n\n");
      else response.write(FRAMES.join(""));
    };
    // The second wait is the one behind the heartbeat.
    clock.onHeld = (count) => {
      if (count === 2)
        queueMicrotask(() => {
          clock.runOut();
        });
    };
    const feed = client.sessionEvents("s1", options({ onState: (state) => states.push(state) }));
    expect(await take(feed, WHOLE.length)).toEqual(WHOLE);
    expect(states.map(({ status }) => status)).toEqual(["connecting", "open", "waiting", "connecting", "open"]);
    expect(states[2]).toMatchObject({ error: expect.any(ConnectionError) as ConnectionError });
  });
});

describe("a reader", () => {
  it("that is slow stops the server from sending", async () => {
    const large = Array.from({ length: 400 }, (_, at) =>
      frame(record(at + 1, "message.received", { message: "x".repeat(100_000), sequence: 0, turnId: "t" })),
    );
    let sent = 0;
    scene.answer = (_, response) => {
      stream(response);
      const push = (): void => {
        while (sent < large.length) if (!response.write(large[sent++] ?? "")) return void response.once("drain", push);
      };
      push();
    };
    const feed = client.sessionEvents("s1", options());
    await feed.next();
    // Until the server has had nothing to do for a while.
    let before = -1;
    while (before !== sent) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(sent).toBeLessThan(large.length / 2);
    expect(await take(feed, large.length - 1)).toHaveLength(large.length - 1);
  });

  it("that leaves closes the connection", async () => {
    const closed = new Promise((resolve) => {
      scene.answer = (request, response) => {
        request.socket.on("close", resolve);
        stream(response).write(FRAMES.join(""));
      };
    });
    await take(client.sessionEvents("s1", options()), 2);
    await closed;
  });

  it.each(["while it reads", "while it waits to connect again", "before it begins"])(
    "that aborts %s gets its reason",
    async (when) => {
      const stop = new AbortController();
      const reason = new Error("enough");
      scene.answer = (_, response) => (when === "while it reads" ? stream(response) : response.writeHead(500).end());
      if (when === "before it begins") stop.abort(reason);
      const onState = ({ status }: FeedState): void => {
        if (status === (when === "while it reads" ? "open" : "waiting"))
          queueMicrotask(() => {
            stop.abort(reason);
          });
      };
      const slow = new JumpingClock(0);
      const feed = client.sessionEvents("s1", options({ signal: stop.signal, onState, clock: slow }));
      expect(await failure(feed)).toBe(reason);
    },
  );
});

test("a key is sent as a bearer token, and asked for before each attempt", async () => {
  let count = 0;
  const keyed = new Client({ baseUrl: scene.baseUrl, clock, token: () => `key-${++count}` });
  scene.answer = (_, response) => {
    if (scene.requests.length === 1) response.writeHead(503).end();
    else stream(response).write(FRAMES.join(""));
  };
  await take(keyed.sessionEvents("a/b ?", options()), 1);
  expect(scene.headers.map(({ authorization }) => authorization)).toEqual(["Bearer key-1", "Bearer key-2"]);
  expect(scene.requests[0]?.pathname).toBe("/v1/sessions/a%2Fb%20%3F/events");
});

describe("the feed of all sessions", () => {
  it("begins now, goes on from there even if it breaks before the first event, and numbers of sessions do not matter", async () => {
    let connections = 0;
    scene.answer = (_, response) => {
      connections += 1;
      response.writeHead(200, { "content-type": "text/event-stream", "windlass-cursor": "a.7" });
      response.flushHeaders();
      if (connections === 1) {
        response.destroy();
        return;
      }
      const other = { ...record(1, "session.started"), sessionId: "s2" };
      response.write(frame(record(9, "run.completed", { runId: "r1" }), "a.8") + frame(other, "a.9"));
    };
    const events = await take(client.allEvents(options({ after: undefined })), 2);
    expect(events.map(({ sessionId, seq }) => [sessionId, seq])).toEqual([
      ["s1", 9],
      ["s2", 1],
    ]);
    expect(scene.requests.map(({ pathname, searchParams }) => [pathname, searchParams.get("after")])).toEqual([
      ["/v1/events", "now"],
      ["/v1/events", "a.7"],
    ]);
  });

  it("names the types that are wanted", async () => {
    scene.answer = (_, response) => {
      stream(response).write(frame(record(1, "session.started"), "a.1"));
    };
    await take(client.allEvents({ ...options(), types: ["session.started", "run.failed"], after: "a.0" }), 1);
    expect(scene.requests[0]?.search).toBe("?types=session.started%2Crun.failed&after=a.0");
  });
});

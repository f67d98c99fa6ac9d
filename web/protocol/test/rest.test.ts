import { afterEach, beforeEach, expect, it, test } from "vitest";
import {
  ApiError,
  backoffMs,
  ConnectionError,
  ProtocolError,
  readRetryAfter,
  systemClock,
} from "../src/client/connection.js";
import { Client } from "../src/client/http.js";
import { Scene } from "./fakes.js";

let scene: Scene;
let client: Client;
let asked: { method: string; path: string; body: unknown; key: string | undefined }[];
let answer: { status: number; body: unknown };

beforeEach(async () => {
  scene = new Scene();
  await scene.open();
  client = new Client({ baseUrl: scene.baseUrl });
  asked = [];
  answer = { status: 202, body: { sessionId: "s1", runId: "r1" } };
  scene.answer = (request, response, url) => {
    let text = "";
    request.on("data", (piece: Buffer) => (text += piece.toString()));
    request.on("end", () => {
      const key = request.headers["idempotency-key"];
      const body: unknown = text === "" ? undefined : JSON.parse(text);
      asked.push({
        method: request.method ?? "",
        path: url.pathname + url.search,
        body,
        key: key as string | undefined,
      });
      const type = answer.status < 400 ? "application/json" : "application/problem+json";
      response.writeHead(answer.status, { "content-type": type }).end(JSON.stringify(answer.body));
    });
  };
});
afterEach(() => scene.close());

const AT = "2026-01-31T09:30:00.000Z";
const SESSION = {
  sessionId: "s1",
  title: "",
  agentId: "a",
  status: "idle",
  createdAt: AT,
  updatedAt: AT,
  runCount: 0,
  requestCount: 0,
  usage: {},
  rootSessionId: "s1",
};
const SETTLED = {
  requestId: "approval:r1",
  sessionId: "s1",
  runId: "r1",
  outcome: "denied",
  at: "2026-01-01T00:00:00.000Z",
};
const AGENT_SESSION = {
  sessionId: "s1",
  userId: "ann",
  chatId: "c1",
  currentStage: "START",
  isActive: true,
  createdAt: AT,
  updatedAt: AT,
};
const SCHEDULE = {
  name: "n",
  agent: "a",
  message: "Go.",
  everyS: 5,
  timezone: "UTC",
  missed: "once",
  overlap: "skip",
  jitterS: 0,
  isPaused: false,
  started: 0,
  skipped: 0,
  queued: 0,
};
const TRACE = { traceId: "r1", sessionId: "s1", chatId: "s1", userId: "ann", startedAt: AT };

const failure = (promise: Promise<unknown>): Promise<unknown> => promise.then(String, (error: unknown) => error);

it("refuses a line that is too long, and ends the request", async () => {
  const closed = new Promise<void>((resolve) => {
    scene.answer = (_, response) => {
      response.on("close", resolve);
      const write = (): void => {
        if (!response.destroyed) response.write("x".repeat(65_536), write);
      };
      write();
    };
  });
  const lines = client.sessions.export("s1");
  const error = await failure(lines.next());
  expect(error).toBeInstanceOf(ProtocolError);
  expect((error as Error).message).toBe("line too long: limit 4,194,304 characters");
  await closed;
});

it("continues a failed run", async () => {
  answer = { status: 202, body: { sessionId: "s1", runId: "retry:r1" } };
  expect((await client.runs.retry("r1")).runId).toBe("retry:r1");
  expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual(["POST /v1/runs/r1/retry"]);
});

it("continues a failed run with a larger budget", async () => {
  answer = { status: 202, body: { sessionId: "s1", runId: "retry:r1" } };
  await client.runs.retry("r1", { budget: { maxSteps: 40 } });
  expect(asked.map(({ body }) => body)).toEqual([{ budget: { maxSteps: 40 } }]);
});

it("lists what an undo would reverse, and undoes a run", async () => {
  const call = {
    callId: "c1",
    toolName: "book",
    arguments: { city: "Oslo" },
    status: "reversible",
    undoName: "unbook",
  };
  answer = { status: 200, body: { runId: "r1", calls: [call] } };
  expect((await client.runs.undoPlan("r1")).calls).toEqual([call]);
  answer = { status: 202, body: { sessionId: "s1", runId: "undo:r1" } };
  expect((await client.runs.undo("r1", { idempotencyKey: "k1" })).runId).toBe("undo:r1");
  expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "GET /v1/runs/r1/undo",
    "POST /v1/runs/r1/undo",
  ]);
});

it("begins sessions, sends messages, answers, cancels and compacts", async () => {
  await client.sessions.create({ agent: "a", message: "go", context: undefined }, { idempotencyKey: "k1" });
  await client.sessions.steer("s/1", { message: "more" });
  await client.sessions.answer("s1", { responses: [{ requestId: "q", optionId: "approve" }] });
  await client.approvals.answer("q", { optionId: "deny", text: "no" });
  await client.runs.cancel("r1", { reason: "too slow" });
  await client.runs.cancel("r1");
  await client.sessions.compact("s1");
  await client.sessions.cancel("s1");
  answer = { status: 201, body: SESSION };
  await client.sessions.fork("s1", { at: 7 });
  answer = { status: 200, body: { deleted: ["s1"] } };
  expect((await client.sessions.delete("s1")).deleted).toEqual(["s1"]);
  expect(await client.sessions.export("s1").next()).toEqual({ done: false, value: '{"deleted":["s1"]}' });
  expect(asked.map(({ method, path, body }) => [method, path, body])).toEqual([
    ["POST", "/v1/sessions", { agent: "a", message: "go" }],
    ["POST", "/v1/sessions/s%2F1/messages", { message: "more", delivery: "steer" }],
    ["POST", "/v1/sessions/s1/messages", { responses: [{ requestId: "q", optionId: "approve" }] }],
    ["POST", "/v1/approvals/q", { optionId: "deny", text: "no" }],
    ["POST", "/v1/runs/r1/cancel", { reason: "too slow" }],
    ["POST", "/v1/runs/r1/cancel", {}],
    ["POST", "/v1/sessions/s1/compact", undefined],
    ["POST", "/v1/sessions/s1/cancel", {}],
    ["POST", "/v1/sessions/s1/fork", { at: 7 }],
    ["DELETE", "/v1/sessions/s1", undefined],
    ["GET", "/v1/sessions/s1/export", undefined],
  ]);
  expect(asked[0]?.key).toBe("k1");
  const keyless = asked.filter(({ key }) => key === undefined).map(({ path }) => path);
  expect(keyless).toEqual(["/v1/runs/r1/cancel", "/v1/runs/r1/cancel", "/v1/sessions/s1/export"]);
});

it.each([
  ["a lost answer", 0, 5],
  ["a server that is away for a moment", 503, 5],
  ["a refusal", 409, 1],
])("repeats a request that writes with its key after %s", async (_, status, attempts) => {
  const clock = { now: () => 0, sleep: () => Promise.resolve() };
  const keys: unknown[] = [];
  scene.answer = (request, response) => {
    keys.push(request.headers["idempotency-key"]);
    if (status === 0) request.socket.destroy();
    else response.writeHead(status, { "content-type": "application/problem+json", "retry-after": "1" }).end("{}");
  };
  const patient = new Client({ baseUrl: scene.baseUrl, clock });
  await expect(patient.sessions.delete("s1")).rejects.toThrow();
  expect(keys).toHaveLength(attempts);
  expect(new Set(keys).size).toBe(1);
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/u);
  keys.length = 0;
  await expect(patient.sessions.get("s1")).rejects.toThrow();
  expect(keys).toEqual([undefined]);
});

it.each([
  ["/v1/sessions?limit=5&text=a+b", (c: Client) => c.sessions.list({ limit: 5, text: "a b" }), { sessions: [] }],
  ["/v1/sessions/s1", (c: Client) => c.sessions.get("s1"), SESSION],
  ["/v1/sessions/s1/history", (c: Client) => c.sessions.history("s1"), { messages: [] }],
  ["/v1/sessions/s1/agent-session", (c: Client) => c.agentSessions.get("s1"), AGENT_SESSION],
  [
    "/v1/agent-sessions?chatId=c1&activeOnly=true",
    (c: Client) => c.agentSessions.list({ chatId: "c1", activeOnly: true }),
    { sessions: [AGENT_SESSION] },
  ],
  ["/v1/runs/r1/trace", (c: Client) => c.runs.trace("r1"), { trace: TRACE, spans: [], events: [] }],
  ["/v1/approvals", (c: Client) => c.approvals.list(), { requests: [] }],
  ["/v1/approvals/approval%3Ar1", (c: Client) => c.approvals.get("approval:r1"), { settled: SETTLED }],
  ["/v1/runs?session=s1&status=failed", (c: Client) => c.runs.list({ session: "s1", status: "failed" }), { runs: [] }],
  ["/v1/refused-starts?agent=a", (c: Client) => c.runs.refused({ agent: "a" }), { refusedStarts: [] }],
  ["/v1/schedules?limit=5", (c: Client) => c.schedules.list({ limit: 5 }), { schedules: [] }],
  ["/v1/schedules", (c: Client) => c.schedules.put({ name: "n", agent: "a", message: "Go.", everyS: 5 }), SCHEDULE],
  ["/v1/schedules/n/pause", (c: Client) => c.schedules.pause("n"), SCHEDULE],
  ["/v1/schedules/n/resume", (c: Client) => c.schedules.resume("n"), SCHEDULE],
  ["/v1/schedules/n", (c: Client) => c.schedules.delete("n"), { deleted: ["n"] }],
  ["/v1/health", (c: Client) => c.server.health(), { status: "ok", version: "0.1.0" }],
])("reads %s", async (path, read, body) => {
  answer = { status: 200, body };
  expect(await read(client)).toEqual(body);
  expect(asked.map((one) => one.path)).toEqual([path]);
});

it("reads runs, agents and tools", async () => {
  const run = {
    runId: "r",
    agentId: "a",
    status: "running",
    packageId: "p",
    packageFingerprint: "f",
    routeId: "x",
    modelId: "m",
  };
  answer = { status: 200, body: { run: { ...run, cancellationRequested: false }, requests: [] } };
  expect(await client.runs.get("r")).toMatchObject({ run, requests: [] });
  answer = { status: 200, body: { agents: [{ agentId: "a", description: "", model: "m", tools: [], subagents: [] }] } };
  expect((await client.agents.list()).agents).toHaveLength(1);
  answer = { status: 200, body: { tools: [] } };
  expect((await client.tools.list()).tools).toEqual([]);
});

it("reports a refusal with the text of the server", async () => {
  answer = { status: 409, body: { detail: "the run has ended", code: "conflict", ids: { runId: "r1" } } };
  const error = await failure(client.runs.cancel("r1"));
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ kind: "conflict", code: "conflict", message: "the run has ended", isPassing: false });
});

it.each([
  ["no server is listening", () => new Client({ baseUrl: "http://127.0.0.1:1" }).server.health(), ConnectionError],
  ["the answer is another one", () => client.sessions.get("s"), ProtocolError],
])("fails when %s", async (_, call, kind) => {
  answer = { status: 200, body: { something: "else" } };
  expect(await failure(call())).toBeInstanceOf(kind);
});

it("can be aborted", async () => {
  const stop = new AbortController();
  const reason = new Error("enough");
  scene.answer = () => {
    stop.abort(reason);
  };
  expect(await failure(client.server.health({ signal: stop.signal }))).toBe(reason);
});

test("Retry-After is seconds or a date, and anything else is ignored", () => {
  const now = Date.parse("2026-01-31T09:30:00Z");
  const moments = ["5", " 0 ", "Sat, 31 Jan 2026 09:30:02 GMT", "Sat, 31 Jan 2026 09:29:00 GMT", "soon", null];
  expect(moments.map((text) => readRetryAfter(text, now))).toEqual([5_000, 0, 2_000, 0, undefined, undefined]);
});

test("delays double up to their limit, and half of each is random", () => {
  const backoff = { baseMs: 100, maxMs: 1_000 };
  expect([0, 1, 2, 3, 4, 5, 1_000].map((n) => backoffMs(n, backoff, () => 0))).toEqual([
    50, 50, 100, 200, 400, 500, 500,
  ]);
  expect([1, 5].map((n) => backoffMs(n, backoff, () => 0.999))).toEqual([100, 1_000]);
});

test("the clock of the machine waits, and stops waiting", async () => {
  const before = Date.now();
  const now = systemClock.now();
  expect(now).toBeGreaterThanOrEqual(before);
  expect(now).toBeLessThanOrEqual(Date.now());
  await systemClock.sleep(1, new AbortController().signal);
  const stop = new AbortController();
  const wait = failure(systemClock.sleep(600_000, stop.signal));
  stop.abort();
  expect(await wait).toMatchObject({ name: "AbortError" });
  expect(await failure(systemClock.sleep(600_000, stop.signal))).toMatchObject({ name: "AbortError" });
});

it("queries many runs, and decides proposals", async () => {
  const numbers = {
    runs: 1,
    completed: 1,
    failed: 0,
    cancelled: 0,
    open: 0,
    inputTokens: 3,
    outputTokens: 4,
    costMicros: 5,
  };
  const at = "2026-01-31T09:30:00.000Z";
  const proposal = {
    id: "p1",
    goalId: "g",
    agentId: "a",
    baseFingerprint: "sha256:1",
    fingerprint: "sha256:2",
    changes: [],
    differences: [],
    rationale: "",
    evidence: [],
    at,
  };
  const say = (body: unknown): void => {
    answer = { status: 200, body };
  };
  say({
    since: at,
    until: at,
    bucketS: 60,
    total: numbers,
    buckets: [{ at, ...numbers }],
    waiting: { runs: 0, requests: 0 },
    failingTools: [],
  });
  expect((await client.runs.stats({ agent: "a", bucket: 60 })).buckets[0]?.runs).toBe(1);
  say({
    runs: 1,
    failed: 1,
    isAll: true,
    groups: [{ kind: "a_new_kind", count: 1, causes: [{ told: "x", count: 1, runIds: ["r1"] }] }],
  });
  expect((await client.runs.failures()).groups[0]?.kind).toBe("a_new_kind");
  say({ agentId: "a", versions: [] });
  expect((await client.agents.versions({ agent: "a" })).versions).toEqual([]);
  say({
    agentId: "a",
    comparison: {
      old: { fingerprint: "1", runs: 0, succeeded: 0 },
      new: { fingerprint: "2", runs: 0, succeeded: 0 },
      verdict: "unclear",
    },
  });
  expect((await client.agents.compare({ agent: "a", old: "1", new: "2" })).comparison.verdict).toBe("unclear");
  say({ proposals: [{ proposal, status: "open", work: [] }], work: [] });
  expect((await client.proposals.list({ status: "open" })).proposals[0]?.work).toEqual([]);
  say({ proposalId: "p2" });
  expect((await client.proposals.create({ goal: "g" })).proposalId).toBe("p2");
  await client.proposals.check("p1");
  say({
    proposal,
    status: "refused",
    work: [],
    settled: { proposalId: "p1", isAccepted: false, by: "ann", reason: "no" },
    settledAt: at,
  });
  expect((await client.proposals.refuse("p1", { reason: "no", fingerprint: "sha256:2" })).settled?.by).toBe("ann");
  say({
    runId: "r1",
    sessionId: "s1",
    stepIndex: 0,
    seq: 5,
    modelId: "m",
    system: "",
    tools: [],
    messages: [{ role: "user", content: "x", isError: false }],
    unknown: [],
  });
  expect((await client.runs.prompt("r1", 0)).unknown).toEqual([]);
  say({ safePoints: [3, 9] });
  expect((await client.sessions.safePoints("s1", { before: 10, limit: 2 })).safePoints).toEqual([3, 9]);
  expect(asked.map(({ method, path, body }) => [method, path, body].filter((part) => part !== undefined))).toEqual([
    ["GET", "/v1/stats?agent=a&bucket=60"],
    ["GET", "/v1/failures"],
    ["GET", "/v1/versions?agent=a"],
    ["GET", "/v1/compare?agent=a&old=1&new=2"],
    ["GET", "/v1/proposals?status=open"],
    ["POST", "/v1/proposals", { goal: "g" }],
    ["POST", "/v1/proposals/p1/check", {}],
    ["POST", "/v1/proposals/p1/refuse", { reason: "no", fingerprint: "sha256:2" }],
    ["GET", "/v1/runs/r1/steps/0/prompt"],
    ["GET", "/v1/sessions/s1/safe-points?before=10&limit=2"],
  ]);
});

const SPAN = {
  spanId: "r",
  name: "run",
  startAt: "2026-01-31T09:30:00.250Z",
  seq: 1,
  attrs: { more: [1] },
  kept: true,
};

it.each([
  ["as it is", SPAN, undefined],
  ["of another zone", { ...SPAN, endAt: "2026-01-31T09:30:00+02:00" }, undefined],
  ["of the last day of a month", { ...SPAN, endAt: "2024-02-29T09:30:00.000Z" }, undefined],
  ["of a day that is none", { ...SPAN, endAt: "2026-02-30T09:30:00.250Z" }, "/spans/1/endAt"],
  ["of an hour that is none", { ...SPAN, startAt: "2026-01-01T24:30:00.250Z" }, "/spans/1/startAt"],
  ["without an id", { ...SPAN, spanId: 1 }, "/spans/1/spanId"],
  ["without a name", { ...SPAN, name: null }, "/spans/1/name"],
  ["of record 0", { ...SPAN, seq: 0 }, "/spans/1/seq"],
  ["of half a record", { ...SPAN, seq: 1.5 }, "/spans/1/seq"],
  ["under a number", { ...SPAN, parentId: 1 }, "/spans/1/parentId"],
  ["with a list of attributes", { ...SPAN, attrs: [] }, "/spans/1/attrs"],
  ["that is none", null, "/spans/1"],
])("a span %s is read or refused, and kept whole", async (_, span, fault) => {
  const trace = { traceId: "r", sessionId: "s", chatId: "s", userId: "", startedAt: SPAN.startAt };
  answer = { status: 200, body: { trace, spans: [SPAN, span], events: [], seq: 7 } };
  const read = client.runs.trace("r", { events: false, after: 3 });
  if (fault === undefined) expect(await read).toStrictEqual(answer.body);
  else await expect(read).rejects.toThrow(fault);
  expect(asked[0]?.path).toBe("/v1/runs/r/trace?events=false&after=3");
});

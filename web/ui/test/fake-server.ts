/** A server for tests: one session, driven by the same script as the test sidecar. */
import type { Event, JsonObject } from "@windlass/protocol";
import type { ServerResponse } from "node:http";
import { delta, frame, record, Scene, stream } from "../../protocol/test/fakes.js";

const STEP = { sequence: 0, turnId: "t0", stepIndex: 0 };
const NEXT = { ...STEP, stepIndex: 1 };
const CALL = { kind: "tool-call", callId: "c1", toolName: "pay", input: { cents: 5 } };
const OPTIONS = [
  { id: "approve", label: "Approve", style: "primary" },
  { id: "deny", label: "Deny", style: "danger" },
];
const REQUEST = {
  requestId: "q1",
  action: CALL,
  prompt: "Pay?",
  display: "confirmation",
  kind: "approval",
  options: OPTIONS,
};

export class FakeServer {
  readonly scene = new Scene();
  readonly asked: { readonly method: string; readonly path: string; readonly body: JsonObject }[] = [];
  private readonly frames: string[] = [];
  private readonly readers = new Set<ServerResponse>();
  private session: JsonObject = {
    sessionId: "s1",
    chatId: "s1",
    userId: "ada",
    currentStage: "START",
    isActive: true,
    createdAt: "2026-01-31T09:30:00Z",
    updatedAt: "2026-01-31T09:30:00Z",
  };
  private seq = 0;
  private index = 0;
  private words = "";

  async open(): Promise<string> {
    this.scene.answer = (request, response, url) => {
      if (url.pathname.endsWith("/events")) {
        this.watch(response, url.searchParams.get("after"));
        return;
      }
      let text = "";
      request.on("data", (piece: Buffer) => (text += piece.toString()));
      request.on("end", () => {
        const body = (text === "" ? {} : JSON.parse(text)) as JsonObject;
        this.asked.push({ method: request.method ?? "", path: url.pathname, body });
        const { status, answer } = this.answer(request.method ?? "", url.pathname, body);
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
      });
    };
    await this.scene.open();
    return this.scene.baseUrl;
  }

  /** Breaks every open stream. */
  cut(): void {
    for (const reader of this.readers) reader.destroy();
    this.readers.clear();
  }

  private answer(method: string, path: string, body: JsonObject): { readonly status: number; readonly answer: object } {
    if (path === "/v1/sessions/s1/agent-session") {
      this.session = { ...this.session, ...body };
      return { status: 200, answer: this.session };
    }
    if (method === "GET" && path === "/v1/sessions") return { status: 200, answer: { sessions: [] } };
    const status = this.handle(path, body);
    if (status === 202) return { status, answer: { sessionId: "s1", runId: "r1" } };
    return { status, answer: { status, detail: "there is no such thing" } };
  }

  private handle(path: string, body: JsonObject): number {
    if (path === "/v1/sessions") this.create(body);
    else if (path === "/v1/runs/r1/cancel") this.say("run.cancelled", { runId: "r1" });
    else if (path === "/v1/sessions/s1/messages" && "responses" in body) this.approved();
    else return 404;
    return 202;
  }

  private create({ message, ...document }: JsonObject): void {
    this.session = { ...this.session, ...document };
    this.begin(message as string);
  }

  private begin(message: string): void {
    this.words = message;
    this.say("session.started");
    this.say("run.started", { runId: "r1", agentId: "a" });
    this.say("message.received", { message, sequence: 0, turnId: "t0" });
    this.say("step.started", STEP);
    this.live({ messageDelta: "Let me " });
    this.live({ messageDelta: "see. 🌍" });
    if (message === "hang") return;
    this.say("message.completed", { ...STEP, message: "Let me see. 🌍", finishReason: "tool-calls" });
    this.say("actions.requested", { ...STEP, actions: [CALL] });
    this.say("step.completed", { ...STEP, finishReason: "tool-calls", usage: { inputTokens: 3, outputTokens: 4 } });
    if (message === "ask") {
      this.say("input.requested", { ...STEP, requests: [REQUEST] });
      this.say("run.waiting", { runId: "r1", on: "input" });
    } else {
      this.approved();
    }
  }

  private approved(): void {
    if (this.words === "ask") {
      const resolution = { requestId: "q1", outcome: "approved", kind: "approval" };
      this.say("input.resolved", { ...STEP, resolutions: [resolution] });
      this.say("run.resumed", { runId: "r1", reason: "input" });
    }
    const result = { kind: "tool-result", callId: "c1", toolName: "pay", output: "paid" };
    this.say("action.result", { ...STEP, result, status: "completed" });
    this.say("step.started", NEXT);
    this.live({ messageDelta: "All paid.", stepIndex: 1 });
    if (this.words === "fail") {
      const error = { code: "unavailable", kind: "provider_failure", retry: "retryable", message: "the model is gone" };
      this.say("run.failed", { runId: "r1", error });
      return;
    }
    this.say("message.completed", { ...NEXT, message: "All paid.", finishReason: "stop" });
    this.say("run.completed", { runId: "r1" });
  }

  private say(type: string, data: JsonObject = {}): void {
    if (type === "step.started") this.index = 0;
    this.add(record(++this.seq, type, data));
  }

  private live(data: JsonObject): void {
    this.add(delta(this.seq, this.index++, "message.appended", data));
  }

  private add(event: Event): void {
    const text = frame(event, `c.${this.frames.length + 1}`);
    this.frames.push(text);
    for (const reader of this.readers) reader.write(text);
  }

  private watch(response: ServerResponse, after: string | null): void {
    const seen = after === null ? 0 : Number(after.slice("c.".length));
    stream(response).write(this.frames.slice(seen).join(""));
    this.readers.add(response);
    response.on("close", () => this.readers.delete(response));
  }
}

/** An editor: the official client, and `windlass acp` as its child process. */
import { client, methods, ndJsonStream, PROTOCOL_VERSION, type ClientConnection } from "@agentclientprotocol/sdk";
import type {
  PromptRequest,
  RequestPermissionRequest,
  RequestPermissionResponse,
  SessionUpdate,
} from "@agentclientprotocol/sdk";
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PYTHON = process.env["PYTHON"] ?? join(ROOT, ".venv/bin/python");

type Answer = (request: RequestPermissionRequest) => RequestPermissionResponse | Promise<RequestPermissionResponse>;

export const choose =
  (optionId: string): Answer =>
  () => ({ outcome: { outcome: "selected", optionId } });

/** A person who never answers. */
export const silent: Answer = () => new Promise(() => undefined);

export interface Options {
  readonly agents?: string;
  readonly pace?: string;
  readonly answer?: Answer;
}

export class Editor {
  readonly updates: SessionUpdate[] = [];
  readonly asked: RequestPermissionRequest[] = [];
  answer: Answer;
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly connection: ClientConnection;
  private waiting: (() => void)[] = [];
  private complaints = "";

  constructor(folder: string, { agents = "windlass.demo:agent", pace = "0", answer = silent }: Options = {}) {
    this.answer = answer;
    const env = { ...process.env, WINDLASS_DEMO_PACE: pace, WINDLASS_DURABILITY: "process" };
    this.child = spawn(PYTHON, ["-m", "windlass_cli", "--agents", agents, "acp"], { cwd: folder, env });
    this.child.stderr.on("data", (data: Buffer) => (this.complaints += data.toString()));
    const stream = ndJsonStream(
      Writable.toWeb(this.child.stdin) as WritableStream<Uint8Array>,
      Readable.toWeb(this.child.stdout) as ReadableStream<Uint8Array>,
    );
    this.connection = client({ name: "tests" })
      .onNotification(methods.client.session.update, ({ params }) => {
        this.updates.push(params.update);
        this.wake();
      })
      .onRequest(methods.client.session.requestPermission, ({ params }) => {
        this.asked.push(params);
        this.wake();
        return this.answer(params);
      })
      .connect(stream);
  }

  get agent(): ClientConnection["agent"] {
    return this.connection.agent;
  }

  async open(): Promise<this> {
    await this.agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
    return this;
  }

  async newSession(): Promise<string> {
    return (await this.agent.request(methods.agent.session.new, { cwd: "/", mcpServers: [] })).sessionId;
  }

  async prompt(sessionId: string, text: string): Promise<string> {
    const params: PromptRequest = { sessionId, prompt: [{ type: "text", text }] };
    return (await this.agent.request<"session/prompt">(methods.agent.session.prompt, params)).stopReason;
  }

  /** Waits until something is so; every update and every question is a reason to look again. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo()) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  /** The text of one role, joined. */
  said(kind: "agent_message_chunk" | "user_message_chunk"): string {
    const chunks = this.updates.filter((one) => one.sessionUpdate === kind);
    return chunks
      .map((one) => ("content" in one && one.content && "text" in one.content ? one.content.text : ""))
      .join("");
  }

  /** How a call went: its states in their order. */
  call(name: string): readonly (string | null | undefined)[] {
    const begun = this.updates.find((one) => one.sessionUpdate === "tool_call" && one.title === name);
    if (begun?.sessionUpdate !== "tool_call") return [];
    const later = this.updates.filter(
      (one) => one.sessionUpdate === "tool_call_update" && one.toolCallId === begun.toolCallId,
    );
    return [begun.status, ...later.map((one) => (one.sessionUpdate === "tool_call_update" ? one.status : null))];
  }

  /** Ends the agent as a power cut does, or by closing its input; returns how it ended. */
  async end(how: "SIGKILL" | "close"): Promise<number | null> {
    const gone = new Promise<number | null>((resolve) => this.child.once("exit", resolve));
    if (how === "SIGKILL") this.child.kill(how);
    else this.child.stdin.end();
    const code = await gone;
    this.connection.close();
    if (this.complaints.includes("Traceback")) throw new Error(this.complaints);
    return code;
  }

  private wake(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const resolve of waiting) resolve();
  }
}

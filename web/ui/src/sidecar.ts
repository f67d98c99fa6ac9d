/** Transport to a sidecar on this machine. */
import {
  EMPTY_CONVERSATION,
  reduceConversation,
  textOfContent,
  type AgentSession,
  type AgentSessionChange,
  type Conversation,
  type Event,
  type InputResponse,
  type JsonObject,
  type UserContent,
} from "@windlass/protocol";
import {
  Queue,
  streamNumbers,
  type Approval,
  type ChatRequest,
  type ChatStream,
  type FeedItem,
  type SessionInfo,
  type SidecarClient,
} from "@windlass/protocol/client";
import {
  Unsupported,
  type CallOptions,
  type RunFacts,
  type Sent,
  type SessionWish,
  type Transport,
  type WatchOptions,
} from "./transport.js";

/** Unread events of one reader; more than a session ever has at once. */
const EVENTS_WAITING_MAX = 1_000_000;

/** The model that answers, and its tools. */
export type SidecarModel = Omit<ChatRequest, "messages" | "sessionId" | "streamId" | "requestInput" | "shape">;

/** Options of the transport. */
export interface SidecarTransportOptions {
  /** The chat that sessions are filed under. */
  readonly chatId?: string | undefined;
  /** Milliseconds since 1970; that of the machine when absent. */
  readonly now?: (() => number) | undefined;
}

/**
 * Makes a transport to a sidecar.
 *
 * It shows the runs that were started through it. Earlier runs of a session, and runs that another program started,
 * are in the journal of the sidecar but are not shown.
 */
export function sidecarTransport(
  client: SidecarClient,
  model: SidecarModel,
  options: SidecarTransportOptions = {},
): Transport {
  return new SidecarTransport(client, model, options);
}

class SidecarTransport implements Transport {
  readonly features = { steer: false, decisions: false, attachments: false };
  private readonly talks = new Map<string, Talk>();

  constructor(
    private readonly client: SidecarClient,
    private readonly model: SidecarModel,
    private readonly options: SidecarTransportOptions,
  ) {}

  async createSession(wish: SessionWish, options?: CallOptions): Promise<Sent> {
    const { message, chatId = this.options.chatId ?? "chat", currentStage, scenario, stageData, projectId } = wish;
    const document = { chatId, currentStage, scenario, stageData, projectId };
    const { sessionId } = await this.client.createSession(document, options);
    return message === undefined ? { sessionId } : this.send(sessionId, message, options);
  }

  async listSessions(options?: CallOptions): Promise<readonly SessionInfo[]> {
    return (await this.client.listSessions({}, options)).map((session) => this.info(session));
  }

  agentSession(sessionId: string, options?: CallOptions): Promise<AgentSession> {
    return this.client.resumeSession(sessionId, options);
  }

  updateAgentSession(sessionId: string, change: AgentSessionChange, options?: CallOptions): Promise<AgentSession> {
    return this.client.updateSession(sessionId, change, options);
  }

  events(sessionId: string, options: WatchOptions): AsyncIterable<FeedItem> {
    return this.talk(sessionId).watch(options);
  }

  async send(sessionId: string, content: UserContent, options?: CallOptions): Promise<Sent> {
    const message = textOfContent(content);
    const talk = this.talk(sessionId);
    const messages = [{ role: "user", content: message }] as const;
    const request = { ...this.model, sessionId, messages, requestInput: true, shape: "events" } as const;
    const stream = await this.client.stream(request, options);
    talk.follow(stream, message);
    return { sessionId, runId: stream.streamId };
  }

  async cancel(runId: string, options?: CallOptions): Promise<void> {
    await this.client.cancel(runId, options);
  }

  async answer(sessionId: string, response: InputResponse, options?: CallOptions): Promise<void> {
    await this.client.answer(this.talk(sessionId).runId, response, options);
  }

  approvals(): Promise<readonly Approval[]> {
    return Promise.resolve([...this.talks.values()].flatMap((talk) => talk.approvals()));
  }

  run(runId: string): Promise<RunFacts> {
    for (const talk of this.talks.values()) {
      const facts = talk.facts(runId);
      if (facts !== undefined) return Promise.resolve(facts);
    }
    return Promise.reject(
      new Unsupported("this run was not started through this transport; the sidecar describes no other runs"),
    );
  }

  trace(runId: string, options?: CallOptions): ReturnType<Transport["trace"]> {
    return this.client.trace(runId, options);
  }

  decisions(): ReturnType<Transport["decisions"]> {
    return Promise.reject(new Unsupported("the sidecar has no decisions of runs"));
  }

  private talk(sessionId: string): Talk {
    const existing = this.talks.get(sessionId);
    if (existing !== undefined) return existing;
    const talk = new Talk(sessionId, this.options.now ?? Date.now);
    this.talks.set(sessionId, talk);
    return talk;
  }

  private info({ sessionId, createdAt, updatedAt }: AgentSession): SessionInfo {
    const { run, chat } = this.talks.get(sessionId)?.state ?? EMPTY_CONVERSATION;
    return {
      sessionId,
      createdAt,
      updatedAt,
      title: chat.messages[0]?.content,
      status: run?.status,
      agentId: run?.agentId,
    };
  }
}

/** The conversation of one session, and its readers. */
class Talk {
  state: Conversation = EMPTY_CONVERSATION;
  private readonly items: FeedItem[] = [];
  private readonly readers = new Set<Queue<FeedItem>>();
  private readonly numbered = streamNumbers();
  /** The stream that is being read; the next one waits for it. */
  private last: Promise<void> = Promise.resolve();

  constructor(
    private readonly sessionId: string,
    private readonly now: () => number,
  ) {}

  get runId(): string {
    return this.state.run?.runId ?? "";
  }

  follow(stream: ChatStream, message: string): void {
    this.last = this.last.then(() => this.read(stream, message));
  }

  async *watch({ after, signal, onState }: WatchOptions): AsyncGenerator<FeedItem, void, undefined> {
    const queue = new Queue<FeedItem>(EVENTS_WAITING_MAX);
    for (const item of this.items.slice(after === undefined ? 0 : Number(after))) queue.push(item);
    this.readers.add(queue);
    const stop = (): void => {
      queue.end();
    };
    signal?.addEventListener("abort", stop, { once: true });
    try {
      if (signal?.aborted === true) return;
      onState?.({ status: "open" });
      yield* queue;
    } finally {
      this.readers.delete(queue);
      signal?.removeEventListener("abort", stop);
    }
  }

  approvals(): Approval[] {
    const { sessionId, runId } = this;
    return [...this.state.chat.requests.values()].map((request) => ({ request, sessionId, runId }));
  }

  facts(runId: string): RunFacts | undefined {
    const { run, chat, usage } = this.state;
    if (run?.runId !== runId) return undefined;
    const output = chat.messages.findLast((message) => message.role === "assistant")?.content;
    const { status, error, agentId } = run;
    const requests = [...chat.requests.values()];
    return { runId, sessionId: this.sessionId, agentId, status, output, error, usage: usage.run.usage, requests };
  }

  private async read({ streamId, notices }: ChatStream, message: string): Promise<void> {
    try {
      for await (const notice of notices) {
        if (notice.type === "event") this.add(notice.event);
        else if (notice.type === "error") this.breakOff(streamId, message, notice.error.message);
      }
    } catch (error) {
      this.breakOff(streamId, message, error instanceof Error ? error.message : "the stream broke");
    }
  }

  /** The stream ended before its run did: the run is shown as failed, with the message that it was to answer. */
  private breakOff(runId: string, message: string, reason: string): void {
    const event = (type: string, data: JsonObject): void => {
      const meta = { at: new Date(this.now()).toISOString() };
      this.add({ type, data, meta, sessionId: this.sessionId, runId });
    };
    if (this.runId !== runId) {
      event("run.started", { runId, agentId: "sidecar" });
      event("message.received", { message, sequence: 0, turnId: runId });
    }
    const error = { code: "unavailable", kind: "provider_failure", retry: "retryable", message: reason };
    event("run.failed", { runId, error });
  }

  private add(raw: Event): void {
    const event = this.numbered(raw);
    this.state = reduceConversation(this.state, [event]);
    const item = { event, cursor: String(this.items.length + 1) };
    this.items.push(item);
    for (const reader of this.readers) reader.push(item);
  }
}

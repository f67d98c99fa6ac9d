/** Agents in a sidecar on this machine: the same transport, over its streams. */
import {
  EMPTY_CONVERSATION,
  reduceConversation,
  textOfContent,
  type AgentSession,
  type Conversation,
  type Event,
  type InputResponse,
  type UserContent,
} from "@windlass/protocol";
import {
  Queue,
  StreamTeller,
  type Approval,
  type ChatRequest,
  type FeedItem,
  type SessionInfo,
  type SidecarClient,
} from "@windlass/protocol/client";
import {
  Unsupported,
  type CallOptions,
  type RunFacts,
  type Sent,
  type Transport,
  type WatchOptions,
} from "./transport.js";

/** Events that wait for one reader; more than a session ever has at once. */
const EVENTS_WAITING_MAX = 1_000_000;

/** Which model answers, and with which tools. */
export type SidecarModel = Omit<ChatRequest, "messages" | "sessionId" | "streamId" | "requestInput">;

/** What a host may decide besides. */
export interface SidecarTransportOptions {
  /** The chat that sessions are filed under. */
  readonly chatId?: string | undefined;
  /** Milliseconds since 1970; that of the machine when absent. */
  readonly now?: (() => number) | undefined;
}

/**
 * Makes a transport to a sidecar.
 *
 * It remembers what was said through it: a session that another program spoke in is shown from now on only, and
 * what a run of an earlier program does is not shown. The sidecar keeps all of it.
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

  async createSession(wish: { readonly message?: UserContent | undefined }, options?: CallOptions): Promise<Sent> {
    const { sessionId } = await this.client.createSession({ chatId: this.options.chatId ?? "chat" }, options);
    return wish.message === undefined ? { sessionId } : this.send(sessionId, wish.message, options);
  }

  async listSessions(options?: CallOptions): Promise<readonly SessionInfo[]> {
    return (await this.client.listSessions({}, options)).map((session) => this.info(session));
  }

  events(sessionId: string, options: WatchOptions): AsyncIterable<FeedItem> {
    return this.talk(sessionId).watch(options);
  }

  async send(sessionId: string, content: UserContent, options?: CallOptions): Promise<Sent> {
    const message = textOfContent(content);
    const talk = this.talk(sessionId);
    const messages = [{ role: "user", content: message }] as const;
    const stream = await this.client.stream({ ...this.model, sessionId, messages, requestInput: true }, options);
    talk.follow(stream, message);
    return { sessionId, runId: stream.streamId };
  }

  async cancel(runId: string, options?: CallOptions): Promise<void> {
    await this.client.cancel(runId, options);
  }

  async answer(sessionId: string, response: InputResponse, options?: CallOptions): Promise<void> {
    const talk = this.talk(sessionId);
    await this.client.answer(talk.runId, response, options);
    talk.answered(response);
  }

  approvals(): Promise<readonly Approval[]> {
    return Promise.resolve([...this.talks.values()].flatMap((talk) => talk.approvals()));
  }

  run(runId: string): Promise<RunFacts> {
    for (const talk of this.talks.values()) {
      const found = talk.facts(runId);
      if (found !== undefined) return Promise.resolve(found);
    }
    return Promise.reject(new Unsupported("the sidecar tells of runs only to whoever started them"));
  }

  trace(runId: string, options?: CallOptions): ReturnType<Transport["trace"]> {
    return this.client.trace(runId, options);
  }

  decisions(): ReturnType<Transport["decisions"]> {
    return Promise.reject(new Unsupported("the sidecar does not tell what a run chose"));
  }

  private talk(sessionId: string): Talk {
    const known = this.talks.get(sessionId);
    if (known !== undefined) return known;
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

/** What was said in one session, and those who watch it. */
class Talk {
  state: Conversation = EMPTY_CONVERSATION;
  private readonly items: FeedItem[] = [];
  private readonly readers = new Set<Queue<FeedItem>>();
  private readonly teller: StreamTeller;
  /** The stream that is being told; the next one waits for it. */
  private last: Promise<void> = Promise.resolve();

  constructor(
    private readonly sessionId: string,
    now: () => number,
  ) {
    this.teller = new StreamTeller(sessionId, () => new Date(now()).toISOString());
  }

  get runId(): string {
    return this.state.run?.runId ?? "";
  }

  follow(stream: Awaited<ReturnType<SidecarClient["stream"]>>, message: string): void {
    this.last = this.last.then(() => this.tell(stream, message));
  }

  answered(response: InputResponse): void {
    this.add(this.teller.answered(response));
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

  private async tell(stream: Awaited<ReturnType<SidecarClient["stream"]>>, message: string): Promise<void> {
    const { streamId, notices } = stream;
    this.add(this.teller.begin(streamId, message));
    try {
      for await (const notice of notices) this.add(this.teller.told(notice));
    } catch (error) {
      const text = error instanceof Error ? error.message : "the stream broke";
      this.add(this.teller.told({ type: "error", error: { streamId, kind: "transport_closed", message: text } }));
      this.add(this.teller.told({ type: "done", done: { streamId, ok: false } }));
    }
  }

  private add(events: readonly Event[]): void {
    this.state = reduceConversation(this.state, events);
    for (const event of events) {
      const item = { event, cursor: String(this.items.length + 1) };
      this.items.push(item);
      for (const reader of this.readers) reader.push(item);
    }
  }
}

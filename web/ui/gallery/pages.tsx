/** The pages: one for each component, with the states that it can be in. */
import type { CallStatus, CallView, InputRequest } from "@windlass/protocol";
import { useState, type ReactNode } from "react";
import {
  AgentProvider,
  ApprovalCard,
  Arguments,
  Badge,
  Button,
  ChatPanel,
  Chip,
  CodeView,
  ColumnMenu,
  Composer,
  Connection,
  CopyButton,
  CostMeter,
  DataTable,
  DecisionCard,
  Dialog,
  EditButton,
  Markdown,
  MessageList,
  OrchestrationPlanCard,
  Facts,
  Fields,
  InterruptedCard,
  JsonView,
  Panel,
  QuestionCard,
  RepeatDialog,
  RequestCard,
  SessionList,
  SSEStreamView,
  ToolCallRenderer,
  TraceTree,
  useArgumentDraft,
  useChatStream,
  type Transport,
  useColumns,
  type TableColumn,
} from "../src/index.js";
import { DECISION, events, message, QUESTION, TRACE } from "../test/samples.js";
import { Journal, play, type PlayOptions } from "./play.js";
import { approval, call, DECEIT, HOSTILE, live, LONG, longTalk, MARKDOWN, TALK, withCalls } from "./samples.js";

/** A component in one state. */
export interface GalleryState {
  readonly name: string;
  readonly about?: string;
  readonly draw: () => ReactNode;
}

/** A component, and what it can look like. */
export interface GalleryPage {
  readonly name: string;
  readonly about: string;
  readonly states: readonly GalleryState[];
}

/** Accepts an answer after a delay. */
const onAnswer = (): Promise<void> => Promise.resolve();
const onRefused = (): Promise<void> => Promise.reject(new Error("The server is away. Try again in a moment."));
const NOW_MS = Date.parse("2026-01-31T09:30:00Z");

const chat: GalleryPage = {
  name: "ChatPanel",
  about:
    "A whole chat over a transport: what was said, what is asked, where to write, and the way to stop. Write something: a played agent answers.",
  states: [
    { name: "Empty", draw: () => <Chat title="New chat" journal={new Journal()} isNew /> },
    {
      name: "Streaming",
      about: "An answer that is being written.",
      draw: () => (
        <Chat
          title="Being written"
          journal={new Journal()
            .begin("Tell me about fjords.")
            .piece("A fjord is a long, ")
            .piece("narrow inlet with **steep si")}
        />
      ),
    },
    {
      name: "Asks",
      about: "A call that a person must agree to.",
      draw: () => (
        <Chat
          title="Asks for consent"
          journal={new Journal().begin("Pay the hotel.").ask("pay_hotel", { cents: 129_00, to: "Fjord Inn" })}
        />
      ),
    },
    {
      name: "Error",
      about: "A run that failed: what was written stays.",
      draw: () => (
        <Chat
          title="Broken off"
          journal={new Journal()
            .begin("Tell me all.")
            .piece("First of all, ")
            .fail("unavailable", "The model is gone.")}
        />
      ),
    },
    {
      name: "Away",
      about: "The connection broke.",
      draw: () => (
        <Chat title="Away" journal={new Journal().begin("Are you there?").end("Yes.")} options={{ isAway: true }} />
      ),
    },
    {
      name: "Refused",
      draw: () => (
        <Chat
          title="Refused"
          journal={new Journal()}
          options={{ refusal: "This session is not there, or not yours." }}
        />
      ),
    },
    {
      name: "Long",
      about: "160 messages; those in view are drawn.",
      draw: () => <Chat title="Long" journal={longTalk()} />,
    },
    {
      name: "Hostile",
      about: "A model that means harm: nothing of it runs.",
      draw: () => <Chat title="Hostile" journal={new Journal().begin("<img src=x onerror=alert(1)>").end(HOSTILE)} />,
    },
  ],
};

interface ChatProps {
  readonly title: string;
  readonly journal: Journal;
  readonly options?: PlayOptions;
  readonly isNew?: boolean;
}

function Chat({ title, journal, options, isNew = false }: ChatProps): ReactNode {
  const [transport] = useState(() => play(journal, options));
  return (
    <AgentProvider transport={transport}>
      <div className="h-96 overflow-hidden rounded-lg border border-agent-border">
        <ChatPanel title={title} sessionId={isNew ? undefined : "s1"} />
      </div>
    </AgentProvider>
  );
}

const composer: GalleryPage = {
  name: "Composer",
  about:
    "Where to write. While the agent works, words go to the run under way or wait for it; after a run that failed they can be said again.",
  states: [
    { name: "Empty", draw: () => <Written journal={new Journal()} /> },
    { name: "With a draft", draw: () => <Written journal={new Journal()} draft="Book the train to Bergen." /> },
    { name: "While the agent works", draw: () => <Written journal={new Journal().begin("Hello").piece("Hel")} /> },
    {
      name: "After a failure",
      draw: () => <Written journal={new Journal().begin("Hello").fail("unavailable", "gone")} />,
    },
    { name: "Not connected", draw: () => <Written journal={new Journal()} draft="Hello?" isReady={false} /> },
    { name: "Long", draw: () => <Written journal={new Journal()} draft={LONG} /> },
  ],
};

function Written({
  journal,
  ...rest
}: {
  readonly journal: Journal;
  readonly draft?: string;
  readonly isReady?: boolean;
}): ReactNode {
  const [transport] = useState(() => play(journal));
  return (
    <AgentProvider transport={transport}>
      <OneComposer {...rest} />
    </AgentProvider>
  );
}

function OneComposer(props: { readonly draft?: string; readonly isReady?: boolean }): ReactNode {
  return (
    <div className="rounded-lg border border-agent-border">
      <Composer chat={useChatStream({ sessionId: "s1" })} {...props} />
    </div>
  );
}

const connection: GalleryPage = {
  name: "Connection",
  about: "Says that the connection is away, for as long as it is. Otherwise nothing is seen of it.",
  states: [
    { name: "Away", draw: () => <Line isAway /> },
    { name: "There", draw: () => <Line isAway={false} /> },
  ],
};

function Line({ isAway }: { readonly isAway: boolean }): ReactNode {
  const [transport] = useState(() => play(new Journal(), { isAway }));
  return (
    <AgentProvider transport={transport}>
      <OneLine />
    </AgentProvider>
  );
}

function OneLine(): ReactNode {
  return <Connection chat={useChatStream({ sessionId: "s1" })} />;
}

const list: GalleryPage = {
  name: "MessageList",
  about: "The rows of a conversation, at its newest end until the reader scrolls away. Long ones draw what is in view.",
  states: [
    { name: "Empty", draw: () => <Rows label="Nothing said" items={[]} /> },
    { name: "A talk", draw: () => <Rows label="A talk" items={TALK} /> },
    {
      name: "Streaming",
      draw: () => (
        <Rows
          label="Being written"
          items={[
            message(1, "user", "Tell me."),
            live(message(2, "assistant", "A fjord is a long, narrow inlet with **steep si")),
          ]}
        />
      ),
    },
    {
      name: "Parallel calls and a request",
      draw: () => (
        <Rows
          label="Parallel calls"
          items={[
            withCalls(message(1, "assistant", "I look at both, and pay."), [
              call("weather_oslo"),
              call("weather_bergen", { status: "running", result: undefined, progress: undefined }),
              call("pay_ferry", {
                status: "waiting",
                result: undefined,
                progress: undefined,
                request: approval("pay_ferry", { cents: 4_900 }),
              }),
            ]),
            { kind: "request", id: "q", request: { ...QUESTION, requestId: "q-of-subagent" } },
          ]}
        />
      ),
    },
    {
      name: "Errors and notes",
      draw: () => (
        <Rows
          label="Errors"
          items={[
            { kind: "note", id: "1", note: { kind: "compacted", id: "1", at: 0, text: "" } },
            {
              kind: "note",
              id: "2",
              note: {
                kind: "error",
                id: "2",
                at: 0,
                code: "rate_limited",
                text: "The provider wants fewer requests.",
                isPassing: true,
              },
            },
            { kind: "note", id: "3", note: { kind: "partial", id: "3", at: 0, text: "Half a *sentence that" } },
            {
              kind: "note",
              id: "4",
              note: {
                kind: "error",
                id: "4",
                at: 0,
                code: "unavailable",
                text: "The model is gone.",
                isPassing: false,
              },
            },
            { kind: "note", id: "5", note: { kind: "cancelled", id: "5", at: 0, text: "The run was stopped." } },
          ]}
        />
      ),
    },
    {
      name: "Long",
      about: "2,000 messages.",
      draw: () => (
        <Rows
          label="Long"
          items={Array.from({ length: 2_000 }, (_, at) =>
            message(at, at % 2 === 0 ? "user" : "assistant", at % 25 === 1 ? MARKDOWN : `Message ${at + 1}`),
          )}
        />
      ),
    },
    {
      name: "Hostile",
      draw: () => <Rows label="Hostile" items={[message(1, "user", HOSTILE), message(2, "assistant", HOSTILE)]} />,
    },
  ],
};

function Rows({
  label,
  items,
}: Pick<Parameters<typeof MessageList>[0], "items"> & { readonly label: string }): ReactNode {
  const empty = <p className="py-8 text-center text-sm text-agent-muted">Nothing was said yet.</p>;
  return (
    <div className="flex h-80 flex-col overflow-hidden rounded-lg border border-agent-border">
      <MessageList label={label} items={items} onAnswer={onAnswer} empty={empty} />
    </div>
  );
}

const markdown: GalleryPage = {
  name: "Markdown",
  about:
    "What a model wrote. It can format, and nothing else: no HTML, no images, links to http, https and mailto alone.",
  states: [
    { name: "Everything", draw: () => <Markdown text={MARKDOWN} /> },
    {
      name: "Streaming",
      about: "Cut in the middle of a table and of a block of code.",
      draw: () => <Markdown text={"| a | b |\n|---|---|\n| 1 | 2\n\n```py\nprint("} />,
    },
    { name: "Long", draw: () => <Markdown text={LONG} /> },
    { name: "Hostile", draw: () => <Markdown text={HOSTILE} /> },
  ],
};

const STATUSES: readonly CallStatus[] = [
  "writing",
  "requested",
  "running",
  "succeeded",
  "failed",
  "denied",
  "abandoned",
];

const tool: GalleryPage = {
  name: "ToolCallRenderer",
  about: "A call with its arguments, how it goes, and what came of it. Tool output is plain text.",
  states: [
    {
      name: "Every status",
      draw: () => STATUSES.map((status) => <ToolCallRenderer key={status} view={inStatus(status)} />),
    },
    {
      name: "Waits for consent",
      draw: () => (
        <ToolCallRenderer
          view={call("pay_train", {
            status: "waiting",
            result: undefined,
            progress: undefined,
            request: approval("pay_train", { cents: 9_900 }),
          })}
          onAnswer={onAnswer}
        />
      ),
    },
    { name: "Open", draw: () => <ToolCallRenderer view={call("weather")} isOpen /> },
    { name: "Error", draw: () => <ToolCallRenderer view={failed("lookup", "no station answers in Oslo")} isOpen /> },
    {
      name: "Subagent",
      draw: () => (
        <ToolCallRenderer
          view={call("delegate", {
            status: "running",
            result: undefined,
            progress: undefined,
            subagent: { callId: "delegate", name: "scout", status: "running", childSessionId: "s2" },
          })}
          isOpen
        />
      ),
    },
    {
      name: "Long",
      draw: () => (
        <ToolCallRenderer
          view={call("read_a_file_whose_name_is_longer_than_any_line_of_a_small_telephone_can_be", {
            result: result(`${LONG}\n`.repeat(20)),
          })}
          isOpen
        />
      ),
    },
    {
      name: "Hostile",
      draw: () => (
        <ToolCallRenderer
          view={call("fetch", {
            call: { id: "fetch", name: "fetch", arguments: { text: HOSTILE } },
            result: result(HOSTILE),
          })}
          isOpen
        />
      ),
    },
  ],
};

function inStatus(status: CallStatus): CallView {
  if (status === "succeeded") return call(status);
  const inputText = status === "writing" ? '{"city": "Ber' : undefined;
  return status === "failed"
    ? failed(status, "no station answers")
    : call(status, { status, result: undefined, progress: undefined, inputText });
}

function result(content: string): NonNullable<CallView["result"]> {
  return {
    id: "m/x",
    role: "tool",
    content,
    createdAt: "2026-01-31T09:30:00Z",
    toolResult: { success: true, data: content },
  };
}

function failed(name: string, error: string): CallView {
  return call(name, { status: "failed", result: { ...result(error), toolResult: { success: false, error } } });
}

const consent: GalleryPage = {
  name: "ApprovalCard",
  about:
    "Asks for consent to exactly one call. The answer carries the digest of the arguments: consent to something else does not count.",
  states: [
    {
      name: "Open",
      draw: () => (
        <ApprovalCard
          request={approval("pay_inn", { cents: 129_00, to: "Fjord Inn", note: "two nights" })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Lapses soon",
      draw: () => (
        <ApprovalCard
          request={approval("pay_bus", { cents: 400 }, { expiresAt: "2026-01-31T09:35:00Z" })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Has lapsed",
      draw: () => (
        <ApprovalCard
          request={approval("pay_boat", { cents: 400 }, { expiresAt: "2026-01-31T09:00:00Z" })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Error",
      about: "Answer it: it does not get through.",
      draw: () => <ApprovalCard request={approval("pay_late", { cents: 1 })} onAnswer={onRefused} nowMs={NOW_MS} />,
    },
    {
      name: "Long",
      draw: () => (
        <ApprovalCard
          request={approval("write_file", { path: "notes.md", content: `${LONG} ${LONG}` })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Hostile",
      about: "Signs that turn words around, hide or push them out of sight are shown for what they are.",
      draw: () => (
        <ApprovalCard
          request={approval("open_file", { ...DECEIT, html: "<img src=x onerror=alert(1)>" })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
  ],
};

function asks(prompt: string, changes: Partial<InputRequest> = {}): InputRequest {
  return { ...QUESTION, requestId: prompt.slice(0, 40), prompt, ...changes };
}

const question: GalleryPage = {
  name: "QuestionCard",
  about: "Asks a question: options to pick from, words, or both.",
  states: [
    { name: "Options and words", draw: () => <QuestionCard request={QUESTION} onAnswer={onAnswer} nowMs={NOW_MS} /> },
    {
      name: "Words alone",
      draw: () => (
        <QuestionCard
          request={asks("What is your name?", { options: undefined, display: "text" })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Has lapsed",
      draw: () => (
        <QuestionCard
          request={asks("Now or later?", { expiresAt: "2026-01-31T09:00:00Z" })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Error",
      about: "Answer it: it does not get through.",
      draw: () => <QuestionCard request={asks("Does it work?")} onAnswer={onRefused} nowMs={NOW_MS} />,
    },
    {
      name: "Long",
      draw: () => (
        <QuestionCard
          request={asks(LONG, {
            options: Array.from({ length: 8 }, (_, at) => ({
              id: String(at),
              label: `Option ${at + 1}`,
              description: LONG.slice(0, 200),
            })),
          })}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    { name: "Hostile", draw: () => <QuestionCard request={asks(HOSTILE)} onAnswer={onAnswer} nowMs={NOW_MS} /> },
  ],
};

const interruptedRequest: InputRequest = {
  ...QUESTION,
  action: {
    kind: "tool-call",
    callId: "c2",
    toolName: "refund",
    input: { order: 771, reason: "Never arrived.\nTwice.", hostile: HOSTILE },
  },
  prompt: "The call of refund was interrupted before its result was known.",
  kind: "recovery",
  options: [
    { id: "retry", label: "Run it again", description: "If the first call took effect, it happens twice." },
    { id: "skip", label: "Skip it", description: "Calls nothing." },
    { id: "supply", label: "Supply its result", description: "The agent goes on with what you write." },
  ],
};

const interrupted: GalleryPage = {
  name: "InterruptedCard",
  about: "What became of a call that was begun and has no result: what is known, and what each answer risks.",
  states: [
    {
      name: "Known",
      draw: () => (
        <InterruptedCard
          request={interruptedRequest}
          known={{ startedAt: "2026-01-31T09:30:00Z", attempt: 2, idempotencyKey: "r1/0/c2" }}
          onAnswer={onAnswer}
          nowMs={NOW_MS}
        />
      ),
    },
    {
      name: "Unknown",
      draw: () => <InterruptedCard request={interruptedRequest} onAnswer={onAnswer} nowMs={NOW_MS} />,
    },
  ],
};

const fields: GalleryPage = {
  name: "Fields",
  about: "A value by its fields, every character as it is.",
  states: [
    { name: "An object", draw: () => <Fields label="An object" value={{ ...DECEIT, count: 3, html: HOSTILE }} /> },
    { name: "A list", draw: () => <Fields label="A list" value={[1, "two", null]} /> },
  ],
};

const facts: GalleryPage = {
  name: "Facts",
  about: "Names and values in two columns.",
  states: [
    {
      name: "Some",
      draw: () => (
        <Facts
          facts={[
            ["begun", "Sat 31 Jan 2026"],
            ["key sent", "r1/0/c2"],
          ]}
        />
      ),
    },
  ],
};

const request: GalleryPage = {
  name: "RequestCard",
  about: "Whatever is asked: an approval as an ApprovalCard, anything else as a QuestionCard.",
  states: [
    {
      name: "Approval",
      draw: () => (
        <RequestCard request={approval("delete_all", { folder: "/tmp/old" })} onAnswer={onAnswer} nowMs={NOW_MS} />
      ),
    },
    { name: "Question", draw: () => <RequestCard request={asks("Which one?")} onAnswer={onAnswer} nowMs={NOW_MS} /> },
  ],
};

const plan: GalleryPage = {
  name: "OrchestrationPlanCard",
  about: "Who works on what, and how far it is.",
  states: [
    { name: "Empty", draw: () => <OrchestrationPlanCard title="Nothing planned" steps={[]} /> },
    {
      name: "Under way",
      draw: () => (
        <OrchestrationPlanCard
          title="Plan a trip"
          steps={[
            { id: "1", title: "scout", status: "completed", detail: "Found three trains and a ferry." },
            { id: "2", title: "clerk", status: "running" },
            { id: "3", title: "critic", status: "failed", detail: "The model is gone." },
            { id: "4", title: "writer", status: "pending" },
          ]}
        />
      ),
    },
    {
      name: "Long",
      draw: () => (
        <OrchestrationPlanCard
          title="Many"
          steps={Array.from({ length: 12 }, (_, at) => ({
            id: String(at),
            title: `${"agent-".repeat(at === 3 ? 30 : 1)}${at}`,
            status: "completed",
            detail: LONG,
          }))}
        />
      ),
    },
    {
      name: "Hostile",
      draw: () => (
        <OrchestrationPlanCard
          title="<b>Hostile</b>"
          steps={[{ id: "1", title: "<script>1</script>", status: "running", detail: HOSTILE }]}
        />
      ),
    },
  ],
};

const stream: GalleryPage = {
  name: "SSEStreamView",
  about: "Every event of a feed, raw: its number, its type, its time, and its data on demand.",
  states: [
    { name: "Empty", draw: () => <SSEStreamView label="No events" events={[]} className="h-24" /> },
    { name: "Some", draw: () => <SSEStreamView label="Some events" events={events(12)} className="h-72" /> },
    {
      name: "Long",
      about: "10,000 events; those in view are drawn.",
      draw: () => <SSEStreamView label="Many events" events={events(10_000)} className="h-72" />,
    },
    {
      name: "Hostile",
      draw: () => (
        <SSEStreamView
          label="Hostile events"
          events={[
            {
              type: `<b>${"x".repeat(200)}</b>`,
              data: { text: HOSTILE },
              meta: { at: "2026-01-31T09:30:00.123Z" },
              seq: 1,
            },
          ]}
          className="h-72"
        />
      ),
    },
  ],
};

const trace: GalleryPage = {
  name: "TraceTree",
  about: "What a run did, inside what, and where time, tokens and money went. Arrow keys go from span to span.",
  states: [
    { name: "Empty", draw: () => <TraceTree traces={[{ spans: [], events: [] }]} /> },
    { name: "A run under way", draw: () => <TraceTree traces={[TRACE]} className="h-72" /> },
    { name: "Long", draw: () => <TraceTree traces={[{ spans: manySpans(), events: [] }]} className="h-72" /> },
    {
      name: "Hostile",
      draw: () => (
        <TraceTree
          className="h-72"
          traces={[
            {
              spans: [
                {
                  spanId: "x",
                  name: `<img src=x onerror=alert(1)>${"y".repeat(200)}`,
                  startAt: "2026-01-31T09:30:00Z",
                  endAt: "2026-01-31T09:30:01Z",
                  attrs: { error: HOSTILE },
                },
              ],
              events: [],
            },
          ]}
        />
      ),
    },
  ],
};

function manySpans(): (typeof TRACE)["spans"] {
  const at = (ms: number): string => new Date(NOW_MS + ms).toISOString();
  const parts = Array.from({ length: 60 }, (_, n) => ({
    spanId: `s${n}`,
    parentId: "root",
    name: n % 3 === 0 ? "llm.complete" : `tool.dispatch:lookup_${n}`,
    startAt: at(n * 100),
    endAt: at(n * 100 + 30 + ((n * 37) % 200)),
  }));
  return [{ spanId: "root", name: "run", startAt: at(0), endAt: at(6_200) }, ...parts];
}

const decision: GalleryPage = {
  name: "DecisionCard",
  about: "A choice that an agent made: what it wanted, what it could have done, what came of it.",
  states: [
    { name: "It failed", draw: () => <DecisionCard decision={DECISION} /> },
    {
      name: "It worked",
      draw: () => (
        <DecisionCard
          decision={{
            ...DECISION,
            intent: "Book the train",
            outcome: { success: true, summary: "Seat 14, coach 3.", latencyMs: 420 },
            evaluation: undefined,
          }}
        />
      ),
    },
    {
      name: "Nothing came of it yet",
      draw: () => (
        <DecisionCard
          decision={{ ...DECISION, intent: "Ask the clerk", outcome: undefined, evaluation: undefined, options: [] }}
        />
      ),
    },
    {
      name: "Long",
      draw: () => <DecisionCard decision={{ ...DECISION, intent: LONG.slice(0, 300), reasoning: LONG }} />,
    },
    {
      name: "Hostile",
      draw: () => (
        <DecisionCard
          decision={{
            ...DECISION,
            intent: "<b>Hostile</b>",
            chosenOptionId: "x".repeat(200),
            reasoning: HOSTILE,
            outcome: { success: false, error: HOSTILE },
          }}
        />
      ),
    },
  ],
};

const cost: GalleryPage = {
  name: "CostMeter",
  about: "Tokens and money that were used, those of subagents included; with a budget, how much of it.",
  states: [
    { name: "Empty", draw: () => <CostMeter usage={{ usage: {}, steps: 0, toolCalls: 0, delegated: {} }} /> },
    { name: "Used", draw: () => <CostMeter usage={USED} /> },
    { name: "Well within its budget", draw: () => <CostMeter usage={USED} budget={{ maxSteps: 20 }} /> },
    {
      name: "Nearly used up",
      draw: () => <CostMeter usage={USED} budget={{ maxToolCalls: 4, maxCostMicros: 10_000 }} />,
    },
    {
      name: "Long",
      draw: () => (
        <CostMeter
          usage={{
            usage: { inputTokens: 123_456_789, outputTokens: 98_765_432, costMicros: 4_321_000_000 },
            steps: 9_999,
            toolCalls: 99_999,
            delegated: {},
          }}
          budget={{ maxTokens: 1_000_000_000 }}
        />
      ),
    },
  ],
};

const USED = {
  usage: { inputTokens: 12_400, outputTokens: 860, costMicros: 6_300 },
  steps: 4,
  toolCalls: 3,
  delegated: { costMicros: 700 },
};

const copy: GalleryPage = {
  name: "CopyButton",
  about: "Copies a text, and says so.",
  states: [
    { name: "Ready", draw: () => <CopyButton text="A text to copy." /> },
    { name: "With words of its own", draw: () => <CopyButton text="{}" label="Copy record" /> },
  ],
};

const button: GalleryPage = {
  name: "Button",
  about: "A button, by how much it matters.",
  states: [
    {
      name: "Each kind",
      draw: () => (
        <p className="flex flex-wrap gap-2">
          {(["default", "primary", "danger", "quiet"] as const).map((variant) => (
            <Button key={variant} variant={variant}>
              {variant}
            </Button>
          ))}
        </p>
      ),
    },
    { name: "Disabled", draw: () => <Button disabled>Not now</Button> },
  ],
};

const badge: GalleryPage = {
  name: "Badge",
  about: "A state in a word.",
  states: [
    {
      name: "Each tone",
      draw: () => (
        <p className="flex flex-wrap gap-2">
          {(["good", "bad", "wait", "info", "plain"] as const).map((tone) => (
            <Badge key={tone} tone={tone}>
              {tone}
            </Badge>
          ))}
        </p>
      ),
    },
  ],
};

const chip: GalleryPage = {
  name: "Chip",
  about: "A choice that is on or off.",
  states: [{ name: "On and off", draw: () => <Chips /> }],
};

function Chips(): ReactNode {
  const [isOn, setIsOn] = useState(true);
  return (
    <p className="flex gap-2">
      <Chip isOn={isOn} onChange={setIsOn}>
        fold waits
      </Chip>
      <Chip
        isOn={!isOn}
        onChange={(next) => {
          setIsOn(!next);
        }}
      >
        errors only
      </Chip>
    </p>
  );
}

const panel: GalleryPage = {
  name: "Panel",
  about: "A box with a title.",
  states: [
    {
      name: "With something beside the title",
      draw: () => (
        <Panel title="Needs people" aside={<Badge tone="wait">3</Badge>}>
          Three approvals wait.
        </Panel>
      ),
    },
  ],
};

const dialog: GalleryPage = {
  name: "Dialog",
  about: "Holds the focus until it is closed.",
  states: [{ name: "Opened by a button", draw: () => <Opener /> }],
};

function Opener(): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button
        onClick={() => {
          setIsOpen(true);
        }}
      >
        Stop the run…
      </Button>
      <Dialog
        title="Stop the run?"
        isOpen={isOpen}
        onClose={() => {
          setIsOpen(false);
        }}
      >
        What was said stays.
      </Dialog>
    </>
  );
}

const repeat: GalleryPage = {
  name: "RepeatDialog",
  about: "Names the calls that may be made a second time, before a message is sent again.",
  states: [
    { name: "One call", draw: () => <Repeater calls={[call("pay")]} /> },
    { name: "Hostile", draw: () => <Repeater calls={[call(HOSTILE)]} /> },
  ],
};

function Repeater({ calls }: { readonly calls: readonly CallView[] }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button
        onClick={() => {
          setIsOpen(true);
        }}
      >
        Ask again…
      </Button>
      <RepeatDialog
        calls={calls}
        isOpen={isOpen}
        onClose={() => {
          setIsOpen(false);
        }}
        onRepeat={() => undefined}
      />
    </>
  );
}

const code: GalleryPage = {
  name: "CodeView",
  about: "A text as it is, with its language in colour.",
  states: [
    { name: "Python", draw: () => <CodeView title="python" language="python" text={PYTHON} /> },
    { name: "No language", draw: () => <CodeView title="Log" text="begun, then nothing" /> },
    { name: "Long", draw: () => <CodeView title="Long log" text={LONG.repeat(200)} /> },
    { name: "Hostile", draw: () => <CodeView title="Hostile log" language="html" text={HOSTILE} /> },
  ],
};

const PYTHON =
  'def refund(order: int) -> str:\n    # Once: the key is sent along.\n    return f"re_{order}" if order > 0 else None\n';

const changed: GalleryPage = {
  name: "Arguments",
  about: "Arguments of a call, which may be changed before it is approved.",
  states: [{ name: "To change", draw: () => <Changed isOpen={false} /> }],
};

const editing: GalleryPage = {
  name: "EditButton",
  about: "Opens arguments for changes.",
  states: [{ name: "Above its arguments", draw: () => <Changed isOpen /> }],
};

function Changed({ isOpen }: { readonly isOpen: boolean }): ReactNode {
  const input = { cents: 4990, reason: "The lamp arrived broken.\nTwice." };
  const draft = useArgumentDraft(input);
  return (
    <>
      {isOpen && <EditButton input={input} draft={draft} />}
      <Arguments input={input} draft={draft} label="Arguments of refund" />
    </>
  );
}

const sessions: GalleryPage = {
  name: "SessionList",
  about: "The sessions of a user, the newest first.",
  states: [
    {
      name: "Sessions",
      draw: () => <SessionList transport={withSessions()} current="s1" onSelect={() => undefined} />,
    },
  ],
};

function withSessions(): Transport {
  const at = "2026-01-31T09:30:00.000Z";
  const one = { agentId: "clerk", createdAt: at, updatedAt: at, runCount: 1, requestCount: 0, usage: {} };
  const listed = [
    { ...one, sessionId: "s1", rootSessionId: "s1", title: "Book the hotel", status: "waiting" as const },
    { ...one, sessionId: "s2", rootSessionId: "s2", title: "", status: "completed" as const },
  ];
  return { ...play(new Journal()), listSessions: () => Promise.resolve(listed) };
}

interface Sale {
  readonly name: string;
  readonly cents: number;
}

const SALES: readonly Sale[] = [
  { name: "Rope", cents: 990 },
  { name: "Anchor", cents: 12_500 },
];
const COLUMNS: readonly TableColumn<Sale>[] = [
  { id: "name", label: "Name", width: 160, cell: ({ name }) => name },
  { id: "cents", label: "Cents", width: 90, isNumber: true, cell: ({ cents }) => cents },
];

const table: GalleryPage = {
  name: "DataTable",
  about: "Rows of data, with columns that can be sorted, hidden and resized.",
  states: [{ name: "Rows", draw: () => <Sales /> }],
};

const columns: GalleryPage = {
  name: "ColumnMenu",
  about: "The columns of a table that are shown.",
  states: [{ name: "Closed", draw: () => <SalesColumns /> }],
};

function Sales(): ReactNode {
  const layout = useColumns("gallery");
  return (
    <div className="flex h-40 flex-col">
      <DataTable
        label="Sales"
        rows={SALES}
        columns={COLUMNS}
        keyOf={({ name }) => name}
        onOpen={() => undefined}
        layout={layout}
      />
    </div>
  );
}

function SalesColumns(): ReactNode {
  return <ColumnMenu columns={COLUMNS} layout={useColumns("gallery")} />;
}

const json: GalleryPage = {
  name: "JsonView",
  about: "A value as JSON.",
  states: [{ name: "A result", draw: () => <JsonView title="Result" value={{ receipt: "re_8841", cents: 4990 }} /> }],
};

export const PAGES: readonly GalleryPage[] = [
  chat,
  composer,
  connection,
  list,
  markdown,
  tool,
  consent,
  question,
  interrupted,
  fields,
  facts,
  request,
  plan,
  stream,
  trace,
  decision,
  cost,
  copy,
  button,
  badge,
  chip,
  panel,
  dialog,
  repeat,
  code,
  json,
  changed,
  editing,
  sessions,
  table,
  columns,
];

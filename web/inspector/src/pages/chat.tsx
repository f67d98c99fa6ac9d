/** A chat with an agent. */
import { useQuery } from "@tanstack/react-query";
import type { CallStatus, CallView, ChatMessage } from "@windlass/protocol";
import type { AgentInfo, RunRow, SessionInfo } from "@windlass/protocol/client";
import {
  Badge,
  Button,
  CARD,
  changingCalls,
  classes,
  Composer,
  Connection,
  CopyButton,
  CostMeter,
  cut,
  FOCUS,
  formatDuration,
  MessageList,
  OrchestrationPlanCard,
  planOf,
  plural,
  RepeatDialog,
  sentence,
  useChatStream,
  useTransport,
  type ChatStream,
  type MessageItem,
  type Transport,
} from "@windlass/ui";
import { Activity, Hourglass, RotateCcw, ScrollText, SquarePen, Wrench, type LucideIcon } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { Judgement } from "../judging.js";
import { forkAtMessage } from "../records.js";
import { agentsQuery, healthQuery, recentSessionsQuery, runsOfSessionQuery, sessionQuery } from "../queries.js";
import { SEARCH, to } from "../addresses.js";
import { Link, navigate, useSearch } from "../router.js";
import { Select } from "../form.js";
import { Ago, ButtonLink, Code, Failure, Heading, RunStatus } from "../parts.js";
import { tabTexts } from "../storage.js";

/** A chat with any agent. */
export function ChatPage({ sessionId }: { readonly sessionId: string | undefined }): ReactNode {
  const [{ agent, drill }] = useSearch(SEARCH.chat);
  const [begun, setBegun] = useState<{ readonly sessionId: string; readonly key: string }>();
  const [count, setCount] = useState(0);
  const isDrill = useRef(false);
  // The chat that began a session goes on showing it: its address changes, and nothing flickers.
  const key = begun !== undefined && begun.sessionId === sessionId ? begun.key : (sessionId ?? `new-${count}`);
  const onSession = useCallback(
    (id: string) => {
      setBegun({ sessionId: id, key });
      setCount((before) => before + 1);
      navigate(to("chat", [id], { drill: isDrill.current ? "1" : undefined }), { replace: true });
      isDrill.current = false;
    },
    [key],
  );
  return (
    <div className="flex min-h-0 flex-1">
      <Recent current={sessionId} />
      <Chat
        key={key}
        sessionId={sessionId}
        wanted={agent}
        isDrill={drill !== undefined}
        onDrill={() => {
          isDrill.current = true;
        }}
        onSession={onSession}
      />
    </div>
  );
}

interface ChatProps {
  readonly sessionId: string | undefined;
  readonly wanted: string | undefined;
  /** Whether the session is one to end the server in. */
  readonly isDrill: boolean;
  /** Called before such a session is begun. */
  readonly onDrill: () => void;
  readonly onSession: (sessionId: string) => void;
}

// Words that were not sent yet: they survive a reload and a key that is asked for again, and are in no address.

const DRAFTS = "windlass.draft.";

function draftOf(sessionId: string | undefined): string {
  return tabTexts.get(DRAFTS + (sessionId ?? "")) ?? "";
}

function keepDraft(sessionId: string | undefined, text: string): void {
  tabTexts.set(DRAFTS + (sessionId ?? ""), text);
}

function Chat({ sessionId, wanted: wantedAgent, isDrill, onDrill, onSession }: ChatProps): ReactNode {
  const agents = useQuery(agentsQuery);
  const agent = agents.data?.find(({ agentId }) => agentId === wantedAgent) ?? agents.data?.[0];
  const chat = useChatStream({ sessionId, agent: agent?.agentId, onSession });
  const { actions, error: forkError, question } = useFork(chat);
  const plan = planOf(chat.conversation);
  const troubles = [loadingError(agents), forkError, chat.error].filter((error) => error != null);
  const isNew = sessionId === undefined;
  return (
    <section aria-label="Chat" className="flex min-h-0 min-w-0 flex-1 flex-col">
      {isNew ? (
        <NewHeading agents={agents.data ?? []} agent={agent} />
      ) : (
        <SessionHeading chat={chat} sessionId={sessionId} />
      )}
      <Connection chat={chat} />
      <MessageList
        items={chat.items}
        onAnswer={chat.answer}
        reconnects={chat.reconnects}
        onEarlier={chat.hasEarlier ? chat.loadEarlier : undefined}
        actions={actions}
        label="Conversation"
        empty={
          isNew && (
            <Welcome
              agent={agent}
              onSay={({ words: text, kind }) => {
                if (kind === "agent") onDrill();
                chat.sendUserMessage(text).catch(() => undefined);
              }}
            />
          )
        }
      />
      {question}
      {isDrill && !isNew && <Drill chat={chat} />}
      {plan.length > 1 && chat.isStreaming && <OrchestrationPlanCard steps={plan} className="mx-4 mb-2" />}
      {troubles.map((error) => (
        <Failure key={error.message} error={error} />
      ))}
      <Composer
        chat={chat}
        draft={draftOf(sessionId)}
        onDraft={(text) => {
          keepDraft(sessionId, text);
        }}
        placeholder={agent === undefined || !isNew ? undefined : `Message ${agent.agentId}…`}
        isReady={!isNew || agent !== undefined}
        isFocused={isNew}
      />
    </section>
  );
}

/** The error of a first load; data that is here already stays if it cannot be loaded again. */
function loadingError({
  isLoadingError,
  error,
}: {
  readonly isLoadingError: boolean;
  readonly error: Error | null;
}): Error | null {
  return isLoadingError ? error : null;
}

/** Actions of a message: forks of the session that begin there; with it, the question whether calls may be repeated. */
function useFork(chat: ChatStream): {
  readonly actions: ((item: MessageItem) => ReactNode) | undefined;
  readonly error: Error | undefined;
  readonly question: ReactNode;
} {
  const { sessionId } = chat;
  const transport = useTransport();
  const [error, setError] = useState<Error>();
  const [repeat, setRepeat] = useState<Repeat>();
  // The actions stay the same while the chat grows: rows are not drawn again for them.
  const now = useRef(chat);
  useEffect(() => {
    now.current = chat;
  });
  const actions = useMemo(() => {
    if (sessionId === undefined) return undefined;
    // A second click is no second copy.
    let isForking = false;
    const attempt = (copy: Copy, message: ChatMessage) => (): void => {
      if (isForking) return;
      isForking = true;
      setError(undefined);
      copy(sessionId, message, () => now.current.conversation.run?.agentId, transport).then(
        navigate,
        (failure: unknown) => {
          isForking = false;
          setError(toError(failure));
        },
      );
    };
    // Calls of the original stay made; the copy does not know of them.
    const warn = (messageId: string, work: () => void): void => {
      const calls = changingCalls(now.current.items, messageId);
      if (calls.length === 0) work();
      else setRepeat({ calls, work });
    };
    const again = (messageId: string): void => {
      try {
        const message = askedBefore(now.current, messageId);
        const { inputs } = now.current.conversation;
        warn(message.id, attempt(askAgain(inputs.get(message.id)?.content ?? message.content), message));
      } catch (failure) {
        setError(toError(failure));
      }
    };
    return (item: MessageItem) => (
      <ItemActions
        sessionId={sessionId}
        item={item}
        onFork={() => {
          const fork = attempt(forkTo, item.message);
          if (item.message.role === "user") warn(item.id, fork);
          else fork();
        }}
        onAgain={() => {
          again(item.message.id);
        }}
      />
    );
  }, [sessionId, transport]);
  const question = (
    <RepeatDialog
      calls={repeat?.calls ?? []}
      isOpen={repeat !== undefined}
      onClose={() => {
        setRepeat(undefined);
      }}
      onRepeat={() => {
        repeat?.work();
      }}
    />
  );
  return { actions, error, question };
}

/** Copies a session up to a message; returns the address of the copy. */
type Copy = (
  sessionId: string,
  message: ChatMessage,
  agent: () => string | undefined,
  transport: Transport,
) => Promise<string>;

/** A message of the user can be changed in the copy. */
const forkTo: Copy = async (sessionId, message, agent) => {
  const id = await forkAtMessage(sessionId, message);
  if (message.role === "user") keepDraft(id, message.content);
  return id === undefined ? to("chat", [], { agent: agent() }) : to("chat", [id]);
};

/** The message is sent again in the copy. */
const askAgain =
  (content: Parameters<Transport["send"]>[1]): Copy =>
  async (sessionId, message, agent, transport) => {
    const id = await forkAtMessage(sessionId, message);
    const begun = await (id === undefined
      ? transport.createSession({ agent: agent(), message: content })
      : transport.send(id, content));
    return to("chat", [begun.sessionId]);
  };

/** Work that may make calls a second time. */
interface Repeat {
  readonly calls: readonly CallView[];
  readonly work: () => void;
}

function toError(failure: unknown): Error {
  return failure instanceof Error ? failure : new Error(String(failure));
}

/** The message of the user before an answer, to send it again. Throws if it is not here. */
function askedBefore({ messages, conversation: { inputs } }: ChatStream, messageId: string): ChatMessage {
  const at = messages.findIndex(({ id }) => id === messageId);
  // The context that a hook adds is a message without content.
  const question = messages
    .slice(0, Math.max(at, 0))
    .findLast(({ id, role, content }) => role === "user" && (inputs.get(id)?.content ?? content) !== "");
  if (question === undefined)
    throw new Error("The question of this answer is not here yet. Scroll up to it, then repeat.");
  return question;
}

/** The run that was under way at a moment: the last that had begun. */
export function runAt(runs: readonly Pick<RunRow, "runId" | "startedAt">[], at: string): string | undefined {
  return runs
    .filter(({ startedAt }) => startedAt !== undefined && startedAt <= at)
    .toSorted((left, other) => ((left.startedAt ?? "") < (other.startedAt ?? "") ? -1 : 1))
    .at(-1)?.runId;
}

/** Thumbs, a score, a note and tags on an answer. */
function AnswerFeedback({ sessionId, messageId, at }: Readonly<Record<"sessionId" | "messageId" | "at", string>>) {
  const { data = [] } = useQuery(runsOfSessionQuery(sessionId));
  const runId = runAt(data, at);
  return runId === undefined ? null : <Judgement runId={runId} messageId={messageId} what="this answer" />;
}

interface NewHeadingProps {
  readonly agents: readonly AgentInfo[];
  readonly agent: AgentInfo | undefined;
}

function NewHeading({ agents, agent }: NewHeadingProps): ReactNode {
  return (
    <Heading title="New chat">
      {agents.length > 0 && (
        <Select
          label="Agent"
          value={agent?.agentId}
          options={agents.map(({ agentId, problem }) => [
            agentId,
            problem === undefined ? agentId : `${agentId} (not set up)`,
          ])}
          onChange={(id) => {
            navigate(to("chat", [], { agent: id }), { replace: true });
          }}
        />
      )}
    </Heading>
  );
}

function SessionHeading({ chat, sessionId }: { readonly chat: ChatStream; readonly sessionId: string }): ReactNode {
  const { run } = chat.conversation;
  const session = useQuery(sessionQuery(sessionId));
  // A long chat is read from its end: the server knows what all of it has cost.
  const tally = session.data && { usage: session.data.usage, steps: 0, toolCalls: 0, delegated: {} };
  const usage = chat.hasEarlier ? tally : chat.conversation.usage.session;
  const agent = run?.agentId ?? session.data?.agentId;
  return (
    <Heading
      title={titleOf(chat, session.data?.title)}
      facts={run !== undefined && <RunStatus run={{ status: run.status, waitsOn: waitsOn(chat) }} />}
      isTight
    >
      <div className="flex items-center gap-2 text-sm max-sm:w-full">
        <p className="mr-2 flex min-w-0 flex-1 items-center gap-x-1 text-xs text-agent-muted">
          {agent !== undefined && agent !== "" && <span className="max-w-28 shrink-0 truncate">{agent} ·</span>}
          {usage !== undefined && <CostMeter usage={usage} className="min-w-0 truncate" />}
        </p>
        <Branches sessionId={sessionId} />
        {run !== undefined && <HeadingLink href={to("run", [run.runId])} label="Run" icon={Activity} />}
        <HeadingLink href={to("session", [sessionId])} label="Journal" icon={ScrollText} />
        <HeadingLink href="/chat" label="New chat" icon={SquarePen} className="lg:hidden" />
      </div>
    </Heading>
  );
}

/** The thing that its run waits for, as lists of runs name it: recovery for an interrupted call, not input. */
function waitsOn({ conversation: { run, chat } }: ChatStream): string | undefined {
  const isInterrupted = [...chat.requests.values()].some(({ kind }) => kind === "recovery");
  return run?.waitsOn === "input" && isInterrupted ? "recovery" : run?.waitsOn;
}

/** The title of the chat: that of its session, or its first message. */
function titleOf({ messages, hasEarlier }: ChatStream, title: string | undefined): string {
  if (title !== undefined && title !== "") return title;
  const first = hasEarlier ? undefined : messages.find(({ role }) => role === "user");
  return first === undefined || first.content === "" ? "Chat" : cut(first.content, TITLE_CHARS_MAX);
}

const TITLE_CHARS_MAX = 120;

/** A link in words, and on a phone as a sign. */
function HeadingLink({
  href,
  label,
  icon: Icon,
  className,
}: {
  readonly href: string;
  readonly label: string;
  readonly icon: LucideIcon;
  readonly className?: string;
}): ReactNode {
  return (
    <ButtonLink href={href} title={label} className={classes("max-sm:px-2!", className)}>
      <Icon aria-hidden className="size-4 sm:hidden" />
      <span className="max-sm:sr-only">{label}</span>
    </ButtonLink>
  );
}

/** A session among the copies of one conversation. */
interface Branch {
  readonly sessionId: string;
  readonly label: string;
}

/** The sessions that share a conversation with one: what it was copied from, its copies, and other copies of its origin. */
export function branchesOf(
  current: Pick<SessionInfo, "sessionId" | "predecessorId" | "predecessorSeq">,
  others: readonly Pick<SessionInfo, "sessionId" | "predecessorId" | "predecessorSeq" | "title">[],
): readonly Branch[] {
  const origin = current.predecessorId ?? current.sessionId;
  const isListed = others.some(({ sessionId }) => sessionId === current.sessionId)
    ? others
    : [{ ...current, title: "" }, ...others];
  const copies = isListed
    .filter(
      ({ sessionId, predecessorId }) =>
        predecessorId === origin || predecessorId === current.sessionId || sessionId === current.sessionId,
    )
    .filter(({ sessionId }) => sessionId !== origin);
  if (copies.length === 0) return [];
  return [
    { sessionId: origin, label: "original" },
    // The oldest copy of a record is the first.
    ...copies.map(({ sessionId, predecessorSeq = 0 }, at) => {
      const alike = copies.slice(at + 1).filter((other) => (other.predecessorSeq ?? 0) === predecessorSeq).length;
      return { sessionId, label: `from record ${predecessorSeq}${alike === 0 ? "" : ` (${alike + 1})`}` };
    }),
  ];
}

/** Switches between the copies of a conversation; nothing for a session without copies. */
function Branches({ sessionId }: { readonly sessionId: string }): ReactNode {
  const { data: session } = useQuery(sessionQuery(sessionId));
  const { data: recent } = useQuery(recentSessionsQuery);
  if (session === undefined) return null;
  const branches = branchesOf(session, recent ?? []);
  if (branches.length === 0) return null;
  return (
    <Select
      label="Branch"
      value={sessionId}
      options={branches.map((branch) => [branch.sessionId, branch.label])}
      onChange={(next = sessionId) => {
        navigate(to("chat", [next]));
      }}
    />
  );
}

const UNDER_WAY: ReadonlySet<CallStatus> = new Set(["writing", "requested", "waiting", "running"]);

const QUIET = "min-h-6! px-1.5! py-0! text-xs!";

interface ActionsProps {
  readonly sessionId: string;
  readonly item: MessageItem;
  readonly onFork: () => void;
  readonly onAgain: () => void;
}

function ItemActions(props: ActionsProps): ReactNode {
  const { id, role, content, createdAt } = props.item.message;
  return (
    <>
      {role === "assistant" && content !== "" && (
        <AnswerFeedback sessionId={props.sessionId} messageId={id} at={createdAt} />
      )}
      <Actions {...props} />
    </>
  );
}

function Actions({ item, onFork, onAgain }: ActionsProps): ReactNode {
  const isOwn = item.message.role === "user";
  // A fork begins where nothing is under way.
  const isOpen = item.calls.some(({ status }) => UNDER_WAY.has(status));
  if (item.isLive || item.id === "pending" || isOpen) return null;
  return (
    <>
      {!isOwn && item.message.content !== "" && item.calls.length === 0 && (
        <Button
          variant="quiet"
          className={QUIET}
          title="Ask the same again in a copy of this session"
          onClick={onAgain}
        >
          Regenerate
        </Button>
      )}
      <Button
        variant="quiet"
        className={QUIET}
        title={
          isOwn
            ? "Begin a copy of this session in front of this message, and say something else"
            : "Begin a copy of this session that ends here"
        }
        onClick={onFork}
      >
        {isOwn ? "Fork and edit" : "Fork from here"}
      </Button>
    </>
  );
}

/** A thing to try, for the agent that plays a model. */
interface Example {
  readonly kind: "tool" | "wait" | "agent";
  readonly title: string;
  readonly words: string;
  readonly about: string;
}

const EXAMPLES: readonly Example[] = [
  {
    kind: "tool",
    title: "Use a tool",
    words: "How is the weather in Oslo?",
    about: "The model asks for a tool, reads its result and answers. Open the run afterwards.",
  },
  {
    kind: "wait",
    title: "Ask a person",
    words: "Pay the hotel.",
    about: "The run stops at your approval, for a minute or a month.",
  },
  {
    kind: "agent",
    title: "Crash drill",
    words: "Look at the weather in Oslo, then pay.",
    about: "End the server in the middle with kill -9, start it again, and read what survived. The chat says how.",
  },
];
const ICONS = {
  tool: [Wrench, "bg-agent-kind-tool"],
  wait: [Hourglass, "bg-agent-kind-wait"],
  agent: [RotateCcw, "bg-agent-kind-agent"],
} as const;

function Welcome({
  agent,
  onSay,
}: {
  readonly agent: AgentInfo | undefined;
  readonly onSay: (example: Example) => void;
}): ReactNode {
  if (agent === undefined) return null;
  const { description, tools, model, problem } = agent;
  const isDemo = model.startsWith("demo/") && tools.includes("weather") && tools.includes("pay");
  return (
    <div className="flex min-h-[60dvh] flex-col justify-center gap-5 py-6">
      <div>
        <h2 className="text-number font-bold">
          {problem !== undefined
            ? "This agent cannot run yet."
            : isDemo
              ? "Try to break it."
              : "Say something to begin."}
        </h2>
        <p className="mt-1 text-agent-muted">
          {description}
          {problem === undefined &&
            " Each step is written down before it counts, so you may stop the server at any moment."}
        </p>
      </div>
      {problem !== undefined && <NotSetUp problem={problem} />}
      {isDemo ? (
        <ul className="grid gap-3 md:grid-cols-3">
          {EXAMPLES.map((example) => (
            <li key={example.title} className="flex">
              <ExampleCard example={example} onSay={onSay} />
            </li>
          ))}
        </ul>
      ) : (
        tools.length > 0 && (
          <p className="text-agent-muted">
            It has these tools:{" "}
            {tools.map((tool, at) => (
              <span key={tool}>
                {at > 0 && ", "}
                <Code>{tool}</Code>
              </span>
            ))}
            .
          </p>
        )
      )}
      {isDemo && (
        <p className="flex flex-wrap items-center gap-x-2 text-xs text-agent-muted">
          Your own agent: <Code>{OWN_AGENT}</Code> <CopyButton text={OWN_AGENT} label="Copy command" />
        </p>
      )}
    </div>
  );
}

const OWN_AGENT = "windlass init shop && cd shop && windlass dev";

function ExampleCard({
  example,
  onSay,
}: {
  readonly example: Example;
  readonly onSay: (example: Example) => void;
}): ReactNode {
  const { kind, title, words: text, about } = example;
  const [Icon, color] = ICONS[kind];
  return (
    <button
      type="button"
      className={classes(
        CARD,
        "flex w-full cursor-pointer flex-col gap-1 p-4 text-left transition-colors duration-agent hover:border-agent-accent",
        kind === "agent" && "border-agent-accent!",
        FOCUS,
      )}
      onClick={() => {
        onSay(example);
      }}
    >
      <span aria-hidden className={classes("mb-1 flex size-5 items-center justify-center rounded", color)}>
        <Icon className="size-3.5 text-agent-bg" strokeWidth={2.5} />
      </span>
      <span className="text-xs font-semibold text-agent-muted">{title}</span>
      <span className="font-semibold">“{text}”</span>
      <span className="mt-1 text-agent-muted">{about}</span>
    </button>
  );
}

/** The records and results of a chat when its connection broke. */
interface Before {
  readonly atMs: number;
  readonly recordCount: number;
  /** Calls with a result: how often each was begun. */
  readonly done: ReadonlyMap<string, number>;
  readonly names: readonly string[];
  /** Whether the run only waited for a person: then a crash ends no work. */
  readonly isWaiting: boolean;
}

/** Counts the records and results of a chat, to be compared with those after a crash. */
function beforeCrash({ items, conversation }: Pick<ChatStream, "items" | "conversation">, atMs: number): Before {
  const calls = callsOf(items);
  const done = calls.filter(({ status }) => status === "succeeded");
  return {
    atMs,
    recordCount: conversation.chat.seq,
    done: new Map(done.map(({ key, progress }) => [key, progress?.attempt ?? 1])),
    names: done.map(({ call }) => call.name),
    isWaiting: calls.some(({ status }) => status === "waiting"),
  };
}

/** Sentences about the records, results and requests that survived a crash, and the calls that were made again. */
function survived(before: Before, { items }: Pick<ChatStream, "items">, nowMs: number): readonly string[] {
  const calls = callsOf(items);
  const again = calls.filter(({ key, progress }) => (progress?.attempt ?? 1) > (before.done.get(key) ?? Infinity));
  const waiting = calls.filter(({ status }) => status === "waiting").map(({ call }) => call.name);
  return [
    `The server is back after ${formatDuration(Math.max(nowMs - before.atMs, 0))}.`,
    `${plural(before.recordCount, "record")} from before the crash are in the journal.`,
    ...(before.names.length === 0
      ? []
      : [`The result of ${before.names.join(" and ")} was kept; calls made again: ${again.length}.`]),
    ...(before.isWaiting ? ["The run was waiting, so no work was cut off, and lists do not mark it."] : []),
    ...(waiting.length === 0 ? [] : [`The request about ${waiting.join(" and ")} waits for you as before.`]),
  ];
}

function callsOf(items: ChatStream["items"]): readonly CallView[] {
  return items.flatMap((item) => (item.kind === "message" ? item.calls : []));
}

/** The crash drill: how to end the server, that it is gone, and what survived. */
function Drill({ chat }: { readonly chat: ChatStream }): ReactNode {
  const isAway = chat.connection.status === "waiting";
  const { data: server } = useQuery(healthQuery);
  const [before, setBefore] = useState<Before>();
  const [backMs, setBackMs] = useState<number>();
  const now = useRef(chat);
  useEffect(() => {
    now.current = chat;
  });
  useEffect(() => {
    if (isAway) {
      setBefore((earlier) => earlier ?? beforeCrash(now.current, Date.now()));
      setBackMs(undefined);
    } else setBackMs(Date.now());
  }, [isAway]);
  const command = `kill -9 ${server?.pid ?? "PID"}`;
  const step = before === undefined ? 1 : isAway || backMs === undefined ? 2 : 3;
  return (
    <div
      role="status"
      aria-label="Crash drill"
      className="mx-auto mb-3 flex w-full max-w-3xl flex-wrap items-center gap-x-2 gap-y-1 rounded-lg border border-agent-accent px-4 py-3 max-md:mx-3 max-md:w-auto"
    >
      <Badge tone={step === 3 ? "good" : "info"}>
        {step === 3 ? "Crash drill, 3 of 3: nothing was lost" : `Crash drill, ${step} of 3`}
      </Badge>
      {step === 1 && (
        <>
          <span>End the server now, in another terminal:</span>
          <Code>{command}</Code>
          <CopyButton text={command} label="Copy command" />
        </>
      )}
      {step === 2 && <span>The server is gone. Start it again with the command that you started it with.</span>}
      {step === 3 && before !== undefined && (
        <span className="min-w-0 flex-1 basis-80">{survived(before, chat, backMs ?? before.atMs).join(" ")}</span>
      )}
    </div>
  );
}

/** The line that sets a variable which the words of a problem name; undefined if they name none. */
export function fixFor(problem: string): string | undefined {
  const variable = /set the variable ([A-Z][A-Z0-9_]+)/u.exec(problem)?.[1];
  const install = /run (pip install \S+|uv \S+ \S+)/u.exec(problem)?.[1];
  return variable === undefined ? install : `export ${variable}=`;
}

/** That an agent cannot run yet, and what to do about it: before anything is said to it. */
function NotSetUp({ problem }: { readonly problem: string }): ReactNode {
  const fix = fixFor(problem);
  return (
    <div role="note" className="flex flex-col gap-1 rounded-lg bg-agent-warning-soft px-4 py-3">
      <p className="wrap-anywhere text-agent-warning">{sentence(problem)}</p>
      {fix !== undefined && (
        <p className="flex flex-wrap items-center gap-2">
          <Code>{fix}</Code> <CopyButton text={fix} label="Copy the fix" />
          <span className="text-xs text-agent-muted">then start the server again</span>
        </p>
      )}
    </div>
  );
}

function Recent({ current }: { readonly current: string | undefined }): ReactNode {
  const { data } = useQuery(recentSessionsQuery);
  // Its place is kept while it is read, so that nothing moves.
  return (
    <nav
      aria-label="Recent chats"
      className="hidden w-60 shrink-0 flex-col overflow-y-auto border-r border-agent-border lg:flex"
    >
      <p className="flex min-h-14 items-center justify-between px-4 py-2 text-sm">
        <span className="font-medium">Recent</span>
        <ButtonLink href="/chat">New chat</ButtonLink>
      </p>
      {data?.length === 0 && <p className="px-4 text-xs text-agent-muted">No chats yet.</p>}
      <ul>
        {(data ?? []).map((session) => (
          <li key={session.sessionId}>
            <Link
              href={to("chat", [session.sessionId])}
              aria-current={session.sessionId === current ? "page" : undefined}
              className={classes(
                "mx-2 flex flex-col gap-1 rounded-md px-2 py-2 text-sm hover:bg-agent-raised",
                session.sessionId === current && "bg-agent-accent-soft",
                FOCUS,
              )}
            >
              <span className="truncate">{session.title === "" ? "Untitled" : session.title}</span>
              <span className="flex items-center justify-between gap-2 text-xs text-agent-muted">
                <RunStatus run={session} />
                <Ago at={session.createdAt} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

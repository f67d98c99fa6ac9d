/** A chat with an agent. */
import { useQuery } from "@tanstack/react-query";
import type { CallStatus } from "@windlass/protocol";
import type { AgentInfo, RunRow, SessionInfo } from "@windlass/protocol/client";
import {
  Button,
  CARD,
  classes,
  Composer,
  Connection,
  CopyButton,
  CostMeter,
  FOCUS,
  MessageList,
  OrchestrationPlanCard,
  planOf,
  sentence,
  shortId,
  useChatStream,
  type ChatStream,
  type MessageItem,
} from "@windlass/ui";
import { Hourglass, RotateCcw, Wrench } from "lucide-react";
import { useCallback, useMemo, useState, type ReactNode } from "react";
import { Judgement } from "../judging.js";
import { forkAtMessage } from "../records.js";
import { agentsQuery, recentSessionsQuery, runsOfSessionQuery, sessionQuery } from "../queries.js";
import { Link, navigate, to, usePlace } from "../router.js";
import { Ago, ButtonLink, Code, Failure, Heading, Select, Status, useNow } from "../parts.js";

/** A chat with any agent. */
export function ChatPage({ sessionId }: { readonly sessionId: string | undefined }): ReactNode {
  const { query } = usePlace();
  const [begun, setBegun] = useState<{ readonly sessionId: string; readonly key: string }>();
  const [count, setCount] = useState(0);
  // The chat that began a session goes on showing it: its address changes, and nothing flickers.
  const key = begun !== undefined && begun.sessionId === sessionId ? begun.key : (sessionId ?? `new-${count}`);
  const onSession = useCallback(
    (id: string) => {
      setBegun({ sessionId: id, key });
      setCount((before) => before + 1);
      navigate(to(["chat", id]), { replace: true });
    },
    [key],
  );
  return (
    <div className="flex min-h-0 flex-1">
      <Recent current={sessionId} />
      <Chat key={key} sessionId={sessionId} wanted={query.get("agent") ?? undefined} onSession={onSession} />
    </div>
  );
}

interface ChatProps {
  readonly sessionId: string | undefined;
  readonly wanted: string | undefined;
  readonly onSession: (sessionId: string) => void;
}

// Words that were not sent yet: they survive a reload and a key that is asked for again, and are in no address.

const DRAFTS = "windlass.draft.";

function draftOf(sessionId: string | undefined): string {
  return sessionStorage.getItem(DRAFTS + (sessionId ?? "")) ?? "";
}

function keepDraft(sessionId: string | undefined, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(DRAFTS + (sessionId ?? ""));
    else sessionStorage.setItem(DRAFTS + (sessionId ?? ""), text);
  } catch {
    // There is no room: it lasts as long as the page.
  }
}

function Chat({ sessionId, wanted, onSession }: ChatProps): ReactNode {
  const agents = useQuery(agentsQuery);
  const agent = agents.data?.find(({ agentId }) => agentId === wanted) ?? agents.data?.[0];
  const chat = useChatStream({ sessionId, agent: agent?.agentId, onSession });
  const { actions, error: forkError } = useFork(sessionId, chat.conversation.run?.agentId);
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
              onSay={(words) => {
                chat.sendUserMessage(words).catch(() => undefined);
              }}
            />
          )
        }
      />
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

/** Why something is not here; what is here already is good enough if it cannot be asked for again. */
function loadingError({
  isLoadingError,
  error,
}: {
  readonly isLoadingError: boolean;
  readonly error: Error | null;
}): Error | null {
  return isLoadingError ? error : null;
}

/** Actions of a message: forks of the session that begin there. */
function useFork(
  sessionId: string | undefined,
  agent: string | undefined,
): { readonly actions: ((item: MessageItem) => ReactNode) | undefined; readonly error: Error | undefined } {
  const [error, setError] = useState<Error>();
  const actions = useMemo(() => {
    if (sessionId === undefined) return undefined;
    // A second click is no second copy.
    let isForking = false;
    const fork = (item: MessageItem): void => {
      if (isForking) return;
      isForking = true;
      setError(undefined);
      const draft = item.message.role === "user" ? item.message.content : undefined;
      forkAtMessage(sessionId, item.message).then(
        (id) => {
          if (draft !== undefined) keepDraft(id, draft);
          navigate(id === undefined ? to(["chat"], { agent }) : to(["chat", id]));
        },
        (failure: unknown) => {
          isForking = false;
          setError(failure instanceof Error ? failure : new Error(String(failure)));
        },
      );
    };
    return (item: MessageItem) => (
      <>
        {item.message.role === "assistant" && item.message.content !== "" && (
          <AnswerFeedback sessionId={sessionId} messageId={item.message.id} at={item.message.createdAt} />
        )}
        <Actions item={item} onFork={fork} />
      </>
    );
  }, [sessionId, agent]);
  return { actions, error };
}

/** The run that was under way at a moment: the last that had begun. */
export function runAt(runs: readonly Pick<RunRow, "runId" | "startedAt">[], at: string): string | undefined {
  return runs
    .filter(({ startedAt }) => startedAt !== undefined && startedAt <= at)
    .toSorted((one, other) => ((one.startedAt ?? "") < (other.startedAt ?? "") ? -1 : 1))
    .at(-1)?.runId;
}

/** Thumbs, a score, a note and tags on an answer. */
function AnswerFeedback({
  sessionId,
  messageId,
  at,
}: {
  readonly sessionId: string;
  readonly messageId: string;
  readonly at: string;
}): ReactNode {
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
          value={agent?.agentId ?? ""}
          options={agents.map(({ agentId, problem }) => [
            agentId,
            problem === undefined ? agentId : `${agentId} (not set up)`,
          ])}
          onChange={(id) => {
            navigate(to(["chat"], { agent: id }), { replace: true });
          }}
        />
      )}
    </Heading>
  );
}

function SessionHeading({ chat, sessionId }: { readonly chat: ChatStream; readonly sessionId: string }): ReactNode {
  const { run } = chat.conversation;
  // A long chat is read from its end: the server knows what all of it has cost.
  const session = useQuery({ ...sessionQuery(sessionId), enabled: chat.hasEarlier });
  const known = session.data && { usage: session.data.usage, steps: 0, toolCalls: 0, delegated: {} };
  const usage = chat.hasEarlier ? known : chat.conversation.usage.session;
  return (
    <Heading
      title={run?.agentId === undefined ? "Chat" : `Chat with ${run.agentId}`}
      facts={run !== undefined && <Status status={run.status} />}
    >
      <div className="flex flex-wrap items-center gap-2 text-sm">
        <Branches sessionId={sessionId} />
        {usage !== undefined && <CostMeter usage={usage} className="mr-2" />}
        {run !== undefined && <ButtonLink href={to(["runs", run.runId])}>Run</ButtonLink>}
        <ButtonLink href={to(["sessions", sessionId])}>Journal</ButtonLink>
        <ButtonLink href="/chat" className="lg:hidden">
          New chat
        </ButtonLink>
      </div>
    </Heading>
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
  const known = others.some(({ sessionId }) => sessionId === current.sessionId)
    ? others
    : [{ ...current, title: "" }, ...others];
  const copies = known
    .filter(
      ({ sessionId, predecessorId }) =>
        predecessorId === origin || predecessorId === current.sessionId || sessionId === current.sessionId,
    )
    .filter(({ sessionId }) => sessionId !== origin);
  if (copies.length === 0) return [];
  return [
    { sessionId: origin, label: "original" },
    ...copies.map(({ sessionId, predecessorSeq }) => ({
      sessionId,
      label: `copy ${shortId(sessionId)}, from record ${predecessorSeq ?? 0}`,
    })),
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
      onChange={(next) => {
        navigate(to(["chat", next]));
      }}
    />
  );
}

const UNDER_WAY: ReadonlySet<CallStatus> = new Set(["writing", "requested", "waiting", "running"]);

function Actions({
  item,
  onFork,
}: {
  readonly item: MessageItem;
  readonly onFork: (item: MessageItem) => void;
}): ReactNode {
  const isOwn = item.message.role === "user";
  // A fork begins where nothing is under way.
  const isOpen = item.calls.some(({ status }) => UNDER_WAY.has(status));
  if (item.isLive || item.id === "pending" || isOpen) return null;
  return (
    <Button
      variant="quiet"
      className="min-h-6! px-1.5! py-0! text-xs!"
      title={
        isOwn
          ? "Begin a copy of this session in front of this message, and say something else"
          : "Begin a copy of this session that ends here"
      }
      onClick={() => {
        onFork(item);
      }}
    >
      {isOwn ? "Fork and edit" : "Fork from here"}
    </Button>
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
    about: "One model call, one tool, one answer. Open the run afterwards.",
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
    words: "Take the tour.",
    about:
      "It uses each tool in turn. End the server in the middle, with kill -9 if you like, start it again, and read here what survived.",
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
  readonly onSay: (words: string) => void;
}): ReactNode {
  if (agent === undefined) return null;
  const { description, tools, model, problem } = agent;
  const isDemo = model.startsWith("demo/") && tools.includes("weather") && tools.includes("pay");
  return (
    <div className="flex min-h-[60dvh] flex-col justify-center gap-5 py-6">
      <div>
        <h2 className="text-number font-bold">{isDemo ? "Try to break it." : "Say something to begin."}</h2>
        <p className="mt-1 text-agent-muted">
          {description} Each step is written down before it counts, so you may stop the server at any moment.
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
  example: { kind, title, words, about },
  onSay,
}: {
  readonly example: Example;
  readonly onSay: (words: string) => void;
}): ReactNode {
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
        onSay(words);
      }}
    >
      <span aria-hidden className={classes("mb-1 flex size-5 items-center justify-center rounded", color)}>
        <Icon className="size-3.5 text-agent-bg" strokeWidth={2.5} />
      </span>
      <span className="text-xs font-semibold text-agent-muted">{title}</span>
      <span className="font-semibold">“{words}”</span>
      <span className="mt-1 text-agent-muted">{about}</span>
    </button>
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
      <p className="font-semibold text-agent-warning">This agent cannot run yet.</p>
      <p className="wrap-anywhere">{sentence(problem)}</p>
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
  const now = useNow();
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
              href={to(["chat", session.sessionId])}
              aria-current={session.sessionId === current ? "page" : undefined}
              className={classes(
                "mx-2 flex flex-col gap-1 rounded-md px-2 py-2 text-sm hover:bg-agent-raised",
                session.sessionId === current && "bg-agent-accent-soft",
                FOCUS,
              )}
            >
              <span className="truncate">{session.title === "" ? "Untitled" : session.title}</span>
              <span className="flex items-center justify-between gap-2 text-xs text-agent-muted">
                <Status status={session.status} />
                <Ago at={session.createdAt} nowMs={now} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

import {
  attachmentsOf,
  isRunning,
  textOfContent,
  type ChatItem,
  type ChatMessage,
  type Conversation,
  type InputResponse,
  type UserContent,
} from "@windlass/protocol";
import type { FeedState } from "@windlass/protocol/client";
import { useCallback, useMemo, useState } from "react";
import { useTransport } from "../context.js";
import type { Transport } from "../transport.js";
import { toError } from "./use-async.js";
import { useErrorUntil } from "./use-error-until.js";
import { useSession } from "./use-session.js";

/** Where to chat. */
export interface ChatStreamOptions {
  readonly transport?: Transport | undefined;
  /** The session to go on with; the first message begins one when absent. */
  readonly sessionId?: string | undefined;
  /** The agent of a session that is begun here. */
  readonly agent?: string | undefined;
  /** Messages that are shown before those of the session; the agent does not see them. */
  readonly initialMessages?: readonly ChatMessage[] | undefined;
  /** Told of the session that the first message began. */
  readonly onSession?: ((sessionId: string) => void) | undefined;
}

/** A chat, and what can be done in it. */
export interface ChatStream {
  readonly sessionId: string | undefined;
  readonly messages: readonly ChatMessage[];
  /** The rows to draw: messages with their calls, notes, requests, and what is being written. */
  readonly items: readonly ChatItem[];
  readonly conversation: Conversation;
  /** Whether a run is under way, or a message is on its way. */
  readonly isStreaming: boolean;
  /** Whether words may go to the run under way; else they wait for it to end. */
  readonly canSteer: boolean;
  /** Whether files may come with a message. */
  readonly canAttach: boolean;
  readonly connection: FeedState;
  /** How often the connection came back after it broke. */
  readonly reconnects: number;
  /** What went wrong last on the way to the agent, until the connection is back; what went wrong in a run is in the items. */
  readonly error: Error | undefined;
  /** Says something. Rejects if it did not get through; it may then be said again. */
  readonly sendUserMessage: (content: UserContent, delivery?: "queue" | "steer") => Promise<void>;
  /** Ends the run where it runs; what was said stays. */
  readonly cancel: () => Promise<void>;
  /** Answers an approval or a question. */
  readonly answer: (response: InputResponse) => Promise<void>;
  readonly setMessages: (messages: readonly ChatMessage[]) => void;
  readonly appendMessage: (message: ChatMessage) => void;
}

interface Pending {
  readonly content: UserContent;
  /** Messages of the user that were there before. */
  readonly after: number;
  readonly runId?: string | undefined;
}

const NO_MESSAGES: readonly ChatMessage[] = [];

/** A chat with an agent: its messages as they are written, and ways to speak, answer and stop. */
export function useChatStream(options: ChatStreamOptions = {}): ChatStream {
  const { agent, initialMessages = NO_MESSAGES, onSession } = options;
  const transport = useTransport(options.transport);
  const [begun, setBegun] = useState<string>();
  const sessionId = options.sessionId ?? begun;
  const view = useSession(sessionId, options.transport);
  const [local, setMessages] = useState(initialMessages);
  const [pending, setPending] = useState<Pending>();
  const [error, setError] = useErrorUntil(view.reconnects);
  const { conversation } = view;
  const said = useMemo(
    () => conversation.chat.messages.filter(({ role }) => role === "user").length,
    [conversation.chat.messages],
  );
  const isPending = pending !== undefined && said <= pending.after;
  const runId = isRunning(conversation) ? conversation.run?.runId : isPending ? pending.runId : undefined;

  const attempt = useCallback(
    async (work: () => Promise<void>): Promise<void> => {
      setError(undefined);
      try {
        await work();
      } catch (failure) {
        setError(toError(failure));
        throw failure;
      }
    },
    [setError],
  );

  const sendUserMessage = useCallback(
    (content: UserContent, delivery?: "queue" | "steer") =>
      attempt(async () => {
        setPending({ content, after: said });
        try {
          const sent = await (sessionId === undefined
            ? transport.createSession({ agent, message: content })
            : transport.send(sessionId, content, { delivery }));
          setPending((before) => before && { ...before, runId: sent.runId });
          if (sessionId !== undefined) return;
          setBegun(sent.sessionId);
          onSession?.(sent.sessionId);
        } catch (failure) {
          setPending(undefined);
          throw failure;
        }
      }),
    [attempt, transport, sessionId, agent, said, onSession],
  );

  const cancel = useCallback(
    () =>
      attempt(async () => {
        if (runId === undefined) return;
        await transport.cancel(runId);
        // A run that is ended before its turn never takes its message in.
        setPending(undefined);
      }),
    [attempt, transport, runId],
  );
  const answer = useCallback(
    (response: InputResponse) =>
      attempt(() => (sessionId === undefined ? Promise.resolve() : transport.answer(sessionId, response))),
    [attempt, transport, sessionId],
  );
  const appendMessage = useCallback((message: ChatMessage) => {
    setMessages((before) => [...before, message]);
  }, []);

  const items = useItems(local, view.items, isPending ? pending.content : undefined);
  const messages = useMemo(() => [...local, ...conversation.chat.messages], [local, conversation.chat.messages]);
  return {
    sessionId,
    messages,
    items,
    conversation,
    isStreaming: isPending || isRunning(conversation),
    canSteer: transport.features.steer,
    canAttach: transport.features.attachments,
    connection: view.connection,
    reconnects: view.reconnects,
    error: error ?? view.error,
    sendUserMessage,
    cancel,
    answer,
    setMessages,
    appendMessage,
  };
}

/** The rows of a session, behind local messages and in front of what was just said. */
function useItems(
  local: readonly ChatMessage[],
  items: readonly ChatItem[],
  pending: UserContent | undefined,
): readonly ChatItem[] {
  const before = useMemo(() => local.map(rowOf), [local]);
  const after = useMemo(() => (pending === undefined ? [] : [pendingRow(pending)]), [pending]);
  return useMemo(
    () => (before.length === 0 && after.length === 0 ? items : [...before, ...items, ...after]),
    [before, items, after],
  );
}

function pendingRow(content: UserContent): ChatItem {
  const row = rowOf({ id: "pending", role: "user", content: textOfContent(content), createdAt: "" });
  return typeof content === "string" ? row : ({ ...row, attachments: attachmentsOf(content) } as ChatItem);
}

function rowOf(message: ChatMessage): ChatItem {
  return { kind: "message", id: message.id, message, calls: [], isLive: false };
}

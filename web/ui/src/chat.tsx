/** A chat: the hook that runs it, the panel, the composer and the cost meter. */
import {
  addUsage,
  attachmentsOf,
  isRunning,
  textOfContent,
  type Attachment,
  type BudgetLimits,
  type CallView,
  type ChatItem,
  type ChatMessage,
  type Conversation,
  type InputResponse,
  type Tally,
  type UserContent,
  type UserPart,
} from "@windlass/protocol";
import type { FeedState } from "@windlass/protocol/client";
import {
  useCallback,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
  type DragEvent,
  type KeyboardEvent,
  type ReactNode,
} from "react";
import { Progress } from "radix-ui";
import { isOpening, useSession, useTransport } from "./session.js";
import type { Transport } from "./transport.js";
import { toError, useErrorUntil } from "./data.js";
import { useWording } from "./labels.js";
import { MessageList, OrchestrationPlanCard, planOf, type ToolRenderer } from "./messages.js";
import { Button, Dialog } from "./primitives.js";
import { Fields } from "./requests.js";
import { BUTTONS, classes, FIELD, FOCUS } from "./styles.js";

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
  /** The conversation, from the first message that was read. */
  readonly conversation: Conversation;
  /** Whether there are earlier messages, which `loadEarlier` reads; until then the usage is not that of all. */
  readonly hasEarlier: boolean;
  readonly loadEarlier: () => Promise<void>;
  /** Reads the newest run from its first message on, and returns the rows of the session. */
  readonly loadRun: () => Promise<readonly ChatItem[]>;
  /** Whether a run is under way, or a message is on its way. */
  readonly isStreaming: boolean;
  /** Whether words may go to the run under way; else they wait for it to end. */
  readonly canSteer: boolean;
  /** Whether files may come with a message. */
  readonly canAttach: boolean;
  readonly connection: FeedState;
  /** How often the connection came back after it broke. */
  readonly reconnects: number;
  /** The last failure of a request or of the connection, until the connection is back. Failures of runs are in `items`. */
  readonly error: Error | undefined;
  /** Says something. Rejects if it did not get through; it may then be said again. */
  readonly sendUserMessage: (content: UserContent, delivery?: "queue" | "steer") => Promise<void>;
  /** Ends the run where it runs; what was said stays. */
  readonly cancel: () => Promise<void>;
  /** Continues the failed run in a new one, which repeats no call that has a result; absent unless that is possible. */
  readonly resume: (() => Promise<void>) | undefined;
  /** Answers an approval or a question. */
  readonly answer: (response: InputResponse) => Promise<void>;
  readonly setMessages: (messages: readonly ChatMessage[]) => void;
  readonly appendMessage: (message: ChatMessage) => void;
}

interface Pending {
  /** Of which session; undefined of the one that it begins. */
  readonly sessionId: string | undefined;
  readonly content: UserContent;
  /** Messages of the user that were there before. */
  readonly after: number;
  readonly runId?: string | undefined;
}

const NO_MESSAGES: readonly ChatMessage[] = [];

/** A chat with an agent: its messages as they are written, and ways to speak, answer and stop. */
export function useChatStream(options: ChatStreamOptions = {}): ChatStream {
  const { initialMessages = NO_MESSAGES } = options;
  const transport = useTransport(options.transport);
  const [sessionId, setBegun] = useShown(options.sessionId);
  const view = useSession(sessionId, { transport: options.transport });
  const [local, setMessages] = useState(initialMessages);
  const { error, attempt, isShown } = useAttempts(sessionId, view.reconnects);
  const { conversation } = view;
  const { pending, isPending, setPending, sendUserMessage } = useSending(options, {
    transport,
    sessionId,
    conversation,
    attempt,
    isShown,
    onBegun: setBegun,
  });
  const runId = isRunning(conversation) ? conversation.run?.runId : isPending ? pending?.runId : undefined;

  const cancel = useCallback(
    () =>
      attempt(async () => {
        if (runId === undefined) return;
        await transport.cancel(runId);
        // A run that is ended before its turn never takes its message in.
        setPending(undefined);
      }),
    [attempt, transport, runId, setPending],
  );
  const { run } = conversation;
  const failedId = run?.status === "failed" && transport.retry !== undefined && !isPending ? run.runId : undefined;
  const resume = useCallback(
    () =>
      attempt(async () => {
        if (failedId !== undefined) await transport.retry?.(failedId);
      }),
    [attempt, transport, failedId],
  );
  const answer = useCallback(
    (response: InputResponse) =>
      attempt(() => (sessionId === undefined ? Promise.resolve() : transport.answer(sessionId, response))),
    [attempt, transport, sessionId],
  );
  const appendMessage = useCallback((message: ChatMessage) => {
    setMessages((before) => [...before, message]);
  }, []);

  const items = useItems(local, view.items, isPending ? pending?.content : undefined);
  const messages = useMemo(() => [...local, ...conversation.chat.messages], [local, conversation.chat.messages]);
  return {
    sessionId,
    messages,
    items,
    conversation,
    hasEarlier: view.hasEarlier,
    loadEarlier: view.loadEarlier,
    loadRun: view.loadRun,
    isStreaming: isPending || isRunning(conversation),
    canSteer: transport.features.steer,
    canAttach: transport.features.attachments,
    connection: view.connection,
    reconnects: view.reconnects,
    error: error ?? view.error,
    sendUserMessage,
    cancel,
    resume: failedId === undefined ? undefined : resume,
    answer,
    setMessages,
    appendMessage,
  };
}

type Attempt = (work: () => Promise<void>) => Promise<void>;

interface Attempts {
  /** The failure of the last request of the session that is shown, until the connection is back. */
  readonly error: Error | undefined;
  /** Does a request and keeps its failure. */
  readonly attempt: Attempt;
  readonly isShown: (sessionId: string | undefined) => boolean;
}

function useAttempts(sessionId: string | undefined, reconnects: number): Attempts {
  const [error, setError] = useErrorUntil(`${reconnects} ${sessionId ?? ""}`);
  const isShown = useIsShown(sessionId);
  const attempt = useCallback(
    async (work: () => Promise<void>): Promise<void> => {
      setError(undefined);
      try {
        await work();
      } catch (failure) {
        if (isShown(sessionId)) setError(toError(failure));
        throw failure;
      }
    },
    [setError, isShown, sessionId],
  );
  return { error, attempt, isShown };
}

interface SendingParts {
  readonly transport: Transport;
  readonly sessionId: string | undefined;
  readonly conversation: Conversation;
  readonly attempt: Attempt;
  readonly isShown: (sessionId: string | undefined) => boolean;
  readonly onBegun: (sessionId: string) => void;
}

interface Sending {
  readonly pending: Pending | undefined;
  /** Whether the pending message is one of this session, and the session does not have it yet. */
  readonly isPending: boolean;
  readonly setPending: (pending: Pending | undefined) => void;
  readonly sendUserMessage: ChatStream["sendUserMessage"];
}

/** The message that is on its way; the first one begins a session. */
function useSending(
  { agent, onSession }: ChatStreamOptions,
  { transport, sessionId, conversation, attempt, isShown, onBegun }: SendingParts,
): Sending {
  const [pending, setPending] = useState<Pending>();
  const { messages } = conversation.chat;
  const userCount = useMemo(() => messages.filter(({ role }) => role === "user").length, [messages]);
  const sendUserMessage = useCallback(
    (content: UserContent, delivery?: "queue" | "steer") =>
      attempt(async () => {
        setPending({ sessionId, content, after: userCount });
        try {
          const sent = await (sessionId === undefined
            ? transport.createSession({ agent, message: content })
            : transport.send(sessionId, content, { delivery }));
          setPending((now) =>
            now?.content === content ? { ...now, sessionId: sessionId ?? sent.sessionId, runId: sent.runId } : now,
          );
          // A reader who has gone on to another session stays there.
          if (sessionId !== undefined || !isShown(sessionId)) return;
          onBegun(sent.sessionId);
          onSession?.(sent.sessionId);
        } catch (failure) {
          setPending((now) => (now?.content === content ? undefined : now));
          throw failure;
        }
      }),
    [attempt, transport, sessionId, agent, userCount, onSession, isShown, onBegun],
  );
  const isPending = pending !== undefined && pending.sessionId === sessionId && userCount <= pending.after;
  return { pending, isPending, setPending, sendUserMessage };
}

/** The session that is shown, and a way to tell which one was begun here; that one is left with the next that is given. */
function useShown(openedId: string | undefined): readonly [string | undefined, (sessionId: string) => void] {
  const [begun, setBegun] = useState<string>();
  const [before, setBefore] = useState(openedId);
  if (before !== openedId) {
    setBefore(openedId);
    if (openedId === undefined) setBegun(undefined);
  }
  const left = before !== undefined && openedId === undefined;
  return [openedId ?? (left ? undefined : begun), setBegun];
}

/** Tells whether a session is still the one that is shown: an answer may come after the reader has gone on. */
function useIsShown(sessionId: string | undefined): (other: string | undefined) => boolean {
  const shown = useRef<string | null | undefined>(null);
  useEffect(() => {
    shown.current = sessionId;
    return () => {
      shown.current = null;
    };
  }, [sessionId]);
  return useCallback((other) => shown.current === other, []);
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
  return typeof content === "string" ? row : ({ ...row, attachments: filesOf(content) } as ChatItem);
}

function rowOf(message: ChatMessage): ChatItem {
  return { kind: "message", id: message.id, message, calls: [], isLive: false };
}

/** A chat to show. */
export interface ChatPanelProps extends ChatStreamOptions {
  readonly title?: string | undefined;
  readonly placeholder?: string | undefined;
  /** Shown before anything is said. */
  readonly empty?: ReactNode;
  readonly renderers?: Readonly<Record<string, ToolRenderer>> | undefined;
  readonly className?: string | undefined;
}

/** A whole chat: what was said, what is asked, where to write, and the way to stop. */
export function ChatPanel(props: ChatPanelProps): ReactNode {
  const { labels } = useWording();
  const { title = labels.chat.title, placeholder, empty = <Empty />, renderers, className, ...options } = props;
  const chat = useChatStream(options);
  const id = useId();
  const plan = planOf(chat.conversation);
  return (
    <section
      aria-labelledby={id}
      className={classes("flex h-full min-h-0 flex-col bg-agent-bg text-agent-text", className)}
    >
      <header className="flex flex-wrap items-center justify-between gap-2 border-b border-agent-border px-4 py-2">
        <h2 id={id} className="text-sm font-semibold">
          {title}
        </h2>
        {!chat.hasEarlier && <CostMeter usage={chat.conversation.usage.session} />}
      </header>
      <Connection chat={chat} />
      <MessageList
        items={chat.items}
        onAnswer={chat.answer}
        renderers={renderers}
        reconnects={chat.reconnects}
        onEarlier={chat.hasEarlier ? chat.loadEarlier : undefined}
        empty={empty}
        label={title}
      />
      {plan.length > 1 && chat.isStreaming && <OrchestrationPlanCard steps={plan} className="mx-4 mb-2" />}
      {chat.error !== undefined && (
        <p role="alert" className="border-t border-agent-border px-4 py-2 text-sm text-agent-danger-text">
          {labels.common.error(chat.error)}
        </p>
      )}
      <Composer chat={chat} placeholder={placeholder} />
    </section>
  );
}

function Empty(): ReactNode {
  return <p className="py-8 text-center text-sm text-agent-muted">{useWording().labels.chat.empty}</p>;
}

/** Says that the connection is away, for as long as it is. */
export function Connection({ chat }: { readonly chat: ChatStream }): ReactNode {
  const { away } = useWording().labels.chat;
  const isAway = chat.sessionId !== undefined && chat.connection.status === "waiting";
  return (
    <p role="status" className={classes(isAway ? "bg-agent-raised px-4 py-1 text-xs text-agent-warning" : "sr-only")}>
      {isAway ? away : ""}
    </p>
  );
}

/** Where to write, and to whom it goes. */
export interface ComposerProps {
  readonly chat: ChatStream;
  /** The initial text. */
  readonly draft?: string | undefined;
  /** Told of the text as it is written, to keep it; empty once it is sent, and the text again if it could not be. */
  readonly onDraft?: ((text: string) => void) | undefined;
  readonly placeholder?: string | undefined;
  /** Whether it is known whom to speak to; yes when absent. */
  readonly isReady?: boolean | undefined;
  /** Whether the field has the focus from the start, where there is a keyboard. */
  readonly isFocused?: boolean | undefined;
}

const ENDED_BADLY: ReadonlySet<string> = new Set(["failed", "cancelled", "budget_exhausted"]);
const NO_FILES: readonly File[] = [];

/**
 * Where to write.
 *
 * While the agent works, words go to the run under way, or wait for it to end; where the transport cannot speak to a
 * run they wait. Files are dropped, pasted or chosen. A message that could not be sent returns to the field.
 */
export function Composer({
  chat,
  draft = "",
  onDraft,
  placeholder,
  isReady = true,
  isFocused = false,
}: ComposerProps): ReactNode {
  const labels = useWording().labels.chat;
  const { text, setText, files, setFiles, say } = useDraft(chat, draft, onDraft);
  const [isStopping, setIsStopping] = useState(false);
  const isTooLarge = bytesOf(files) > ATTACHED_BYTES_MAX;
  const canSend = isReady && !isTooLarge && (text.trim() !== "" || files.length > 0);
  const isSteering = isWorking(chat) && chat.canSteer;
  const send = (): void => {
    if (canSend) say(isSteering ? "steer" : undefined);
  };
  const attach = (list: FileList | null): boolean => {
    const added = chat.canAttach ? [...(list ?? [])] : [];
    if (added.length > 0) setFiles((now) => [...now, ...added]);
    return added.length > 0;
  };
  const stop = (): void => {
    setIsStopping(true);
  };
  return (
    <form
      className="border-t border-agent-border p-3"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event: DragEvent) => {
        if (chat.canAttach && event.dataTransfer.types.includes("Files")) event.preventDefault();
      }}
      onDrop={(event: DragEvent) => {
        if (attach(event.dataTransfer.files)) event.preventDefault();
      }}
    >
      <div className="mx-auto flex max-w-3xl flex-col gap-2">
        <Attachments files={files} onFiles={setFiles} />
        <div className="flex flex-wrap items-end gap-2">
          {chat.canAttach && <AttachButton onFiles={attach} />}
          <MessageField
            isFocused={isFocused}
            placeholder={isSteering ? labels.steerPlaceholder : (placeholder ?? labels.placeholder)}
            text={text}
            onText={setText}
            onSend={send}
            onStop={isWorking(chat) ? stop : undefined}
            onFiles={attach}
          />
          <span aria-hidden className="flex-1 sm:hidden" />
          <Buttons
            chat={chat}
            canSend={canSend}
            isSteering={isSteering}
            onQueue={() => {
              say("queue");
            }}
            onStop={stop}
          />
        </div>
      </div>
      <StopDialog
        chat={chat}
        isOpen={isStopping && isWorking(chat)}
        onClose={() => {
          setIsStopping(false);
        }}
      />
    </form>
  );
}

interface MessageFieldProps {
  readonly isFocused: boolean;
  readonly placeholder: string;
  readonly text: string;
  readonly onText: (text: string) => void;
  readonly onSend: () => void;
  /** What Escape does; without it the field loses the focus, so that the keys of the page are heard again. */
  readonly onStop: (() => void) | undefined;
  /** Takes files that were pasted; returns whether there are any. */
  readonly onFiles: (files: FileList) => boolean;
}

function MessageField({ isFocused, placeholder, text, onText, onSend, onStop, onFiles }: MessageFieldProps): ReactNode {
  const labels = useWording().labels.chat;
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    // On a phone the focus would open a keyboard over half of the page.
    if (isFocused && matchMedia("(pointer: fine)").matches) field.current?.focus({ preventScroll: true });
  }, [isFocused]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      onSend();
    } else if (event.key === "Escape") {
      if (onStop === undefined) field.current?.blur();
      else onStop();
    }
  };
  return (
    <>
      <label htmlFor={id} className="sr-only">
        {labels.message}
      </label>
      <textarea
        ref={field}
        id={id}
        rows={2}
        className={classes(FIELD, "min-w-40 flex-1 resize-none max-sm:order-first max-sm:basis-full")}
        placeholder={placeholder}
        value={text}
        aria-describedby={`${id}-help`}
        onChange={(event) => {
          onText(event.target.value);
        }}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          if (onFiles(event.clipboardData.files)) event.preventDefault();
        }}
      />
      <span id={`${id}-help`} className="sr-only">
        {labels.help}
      </span>
    </>
  );
}

function bytesOf(files: readonly File[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}

/** The files of a message that is being written, and whether they are too large to be sent. */
function Attachments({
  files,
  onFiles,
}: {
  readonly files: readonly File[];
  readonly onFiles: (files: readonly File[]) => void;
}): ReactNode {
  const { labels, formatBytes } = useWording();
  const bytes = bytesOf(files);
  return (
    <>
      {files.length > 0 && (
        <Files
          files={files}
          onRemove={(removed) => {
            onFiles(files.filter((file) => file !== removed));
          }}
        />
      )}
      {bytes > ATTACHED_BYTES_MAX && (
        <p role="alert" className="text-sm text-agent-danger-text">
          {labels.chat.filesTooLarge(formatBytes(ATTACHED_BYTES_MAX), formatBytes(Math.ceil(bytes / 1_000) * 1_000))}
        </p>
      )}
    </>
  );
}

function isWorking(chat: ChatStream): boolean {
  return chat.isStreaming && chat.sessionId !== undefined;
}

/** Asks before a run is ended: that cannot be taken back. It closes by itself when the run ends first. */
function StopDialog({
  chat,
  isOpen,
  onClose,
}: {
  readonly chat: ChatStream;
  readonly isOpen: boolean;
  readonly onClose: () => void;
}): ReactNode {
  const labels = useWording().labels.chat;
  return (
    <Dialog title={labels.stopTitle} isOpen={isOpen} onClose={onClose}>
      <p className="text-sm text-agent-muted">{labels.stopText}</p>
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{labels.stopNo}</Button>
        <Button
          variant="danger"
          onClick={() => {
            onClose();
            chat.cancel().catch(() => undefined);
          }}
        >
          {labels.stopYes}
        </Button>
      </div>
    </Dialog>
  );
}

/** The message that is being written, with its files. */
function useDraft(chat: ChatStream, draft: string, onDraft: ComposerProps["onDraft"]) {
  const [text, setNow] = useState(draft);
  const latest = useRef(text);
  const setText = (next: string): void => {
    latest.current = next;
    setNow(next);
    onDraft?.(next);
  };
  const [files, setFiles] = useState(NO_FILES);
  const say = (delivery?: "queue" | "steer"): void => {
    setText("");
    setFiles(NO_FILES);
    contentOf(text, files)
      .then((content) => chat.sendUserMessage(content, delivery))
      .catch(() => {
        // Unless something else was written meanwhile.
        if (latest.current === "") setText(text);
        setFiles((now) => (now.length === 0 ? files : now));
      });
  };
  return { text, setText, files, setFiles, say };
}

interface ButtonsProps {
  readonly chat: ChatStream;
  readonly canSend: boolean;
  readonly isSteering: boolean;
  readonly onQueue: () => void;
  readonly onStop: () => void;
}

function Buttons({ chat, canSend, isSteering, onQueue, onStop }: ButtonsProps): ReactNode {
  const labels = useWording().labels.chat;
  return (
    <>
      {isWorking(chat) ? (
        <Button variant="danger" onClick={onStop}>
          {labels.stop}
        </Button>
      ) : (
        <AfterFailure chat={chat} />
      )}
      {isSteering && (
        <button
          type="button"
          className={BUTTONS.default}
          disabled={!canSend}
          title={labels.queueTitle}
          onClick={onQueue}
        >
          {labels.queue}
        </button>
      )}
      <button type="submit" className={BUTTONS.primary} disabled={!canSend}>
        {isSteering ? labels.steer : labels.send}
      </button>
    </>
  );
}

function AttachButton({ onFiles }: { readonly onFiles: (files: FileList | null) => void }): ReactNode {
  const labels = useWording().labels.chat;
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        className={BUTTONS.default}
        aria-label={labels.attach}
        title={labels.attachTitle}
        onClick={() => {
          field.current?.click();
        }}
      >
        <svg
          aria-hidden
          viewBox="0 0 24 24"
          className="size-4"
          fill="none"
          stroke="currentColor"
          strokeWidth="2"
          strokeLinecap="round"
          strokeLinejoin="round"
        >
          <path d="M20 11.5l-8.2 8.2a5 5 0 0 1-7.1-7.1l8.5-8.5a3.3 3.3 0 0 1 4.7 4.7l-8.4 8.4a1.7 1.7 0 0 1-2.4-2.4l7.6-7.6" />
        </svg>
      </button>
      <input
        ref={field}
        type="file"
        multiple
        hidden
        aria-label={labels.attachField}
        onChange={(event) => {
          onFiles(event.target.files);
          // The same file may be chosen again.
          event.target.value = "";
        }}
      />
    </>
  );
}

function Files({
  files,
  onRemove,
}: {
  readonly files: readonly File[];
  readonly onRemove: (file: File) => void;
}): ReactNode {
  const { labels, formatBytes } = useWording();
  return (
    <ul aria-label={labels.chat.files} className="flex flex-wrap gap-2">
      {files.map((file, at) => (
        <li
          key={at}
          className="flex max-w-full items-center gap-2 rounded-md border border-agent-border bg-agent-surface py-1 pr-1 pl-2 text-xs"
        >
          <span className="truncate">{file.name}</span>
          <span className="shrink-0 text-agent-muted">{formatBytes(file.size)}</span>
          <button
            type="button"
            aria-label={labels.chat.removeFile(file.name)}
            className={classes(
              "flex size-6 cursor-pointer items-center justify-center rounded hover:bg-agent-raised",
              FOCUS,
            )}
            onClick={() => {
              onRemove(file);
            }}
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

/** Continues a run that did not get to its end, or says the same again in a new run. */
function AfterFailure({ chat }: { readonly chat: ChatStream }): ReactNode {
  const labels = useWording().labels.chat;
  const [pendingRepeat, setAsked] = useState<Repeat>();
  const [isLoading, setIsLoading] = useState(false);
  const { resume, conversation } = chat;
  const { run } = conversation;
  if (run === undefined || !ENDED_BADLY.has(run.status)) return null;
  const repeat = repeatOf(chat.items);
  const send = ({ content }: Repeat): void => {
    chat.sendUserMessage(content).catch(() => undefined);
  };
  const askAgain = (whole: Repeat | undefined): void => {
    if (whole === undefined || isEmpty(whole.content)) return;
    if (whole.calls.length === 0) send(whole);
    else setAsked(whole);
  };
  const loadAndAsk = async (): Promise<void> => {
    setIsLoading(true);
    const items = await chat.loadRun();
    setIsLoading(false);
    askAgain(repeatOf(items));
  };
  return (
    <>
      {resume !== undefined && (
        <button
          type="button"
          className={BUTTONS.default}
          title={labels.resumeTitle}
          onClick={() => {
            resume().catch(() => undefined);
          }}
        >
          {labels.resume}
        </button>
      )}
      {(repeat === undefined ? chat.hasEarlier : !isEmpty(repeat.content)) && (
        <button
          type="button"
          className={BUTTONS.default}
          title={labels.againTitle(titleOf(repeat?.content ?? ""))}
          disabled={isLoading}
          onClick={() => {
            if (repeat === undefined) void loadAndAsk();
            else askAgain(repeat);
          }}
        >
          {labels.again}
        </button>
      )}
      <RepeatDialog
        calls={pendingRepeat?.calls ?? []}
        isOpen={pendingRepeat !== undefined}
        onClose={() => {
          setAsked(undefined);
        }}
        onRepeat={() => {
          if (pendingRepeat !== undefined) send(pendingRepeat);
        }}
      />
    </>
  );
}

/** The messages of a run as one message, and the calls of the run that may be made again when it is sent. */
interface Repeat {
  readonly content: UserContent;
  readonly calls: readonly CallView[];
}

/** The messages and calls of the newest run, and of the failed runs that it continues; undefined if its start is not here. */
function repeatOf(items: readonly ChatItem[]): Repeat | undefined {
  const opening = items.findLast(isOpening);
  if (opening === undefined) return undefined;
  const contents = items
    .slice(items.indexOf(opening))
    .flatMap((item) => (item.kind === "message" && item.input !== undefined ? [item.input.content] : []));
  return { content: joined(contents), calls: changingCalls(items, opening.id) };
}

/** Several messages as one: a text, or the parts of all where there are files. */
function joined(contents: readonly UserContent[]): UserContent {
  const filled = contents.filter((content) => !isEmpty(content));
  if (filled.every((content) => typeof content === "string")) return filled.join("\n\n");
  return filled.flatMap((content): readonly UserPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content,
  );
}

function isEmpty(content: UserContent): boolean {
  return textOfContent(content) === "" && filesOf(content).length === 0;
}

/** The text of a message, or the names of its files. */
function titleOf(content: UserContent): string {
  const names = filesOf(content).map(({ name }) => name);
  return textOfContent(content) || names.join(", ");
}

function filesOf(content: UserContent): readonly Attachment[] {
  return typeof content === "string" ? [] : attachmentsOf(content);
}

/**
 * The calls that answered a message and may have changed something: every call that was begun and does not only read.
 *
 * They are those of the rows after the message up to the next message that begins a run: messages to the run under way
 * and answers to its questions are passed over.
 */
export function changingCalls(items: readonly ChatItem[], messageId: string): readonly CallView[] {
  const behind = items.slice(items.findIndex(({ id }) => id === messageId) + 1);
  const end = behind.findIndex(isOpening);
  return behind
    .slice(0, end === -1 ? undefined : end)
    .flatMap((item) => (item.kind === "message" ? item.calls.filter(mayHaveChanged) : []));
}

function mayHaveChanged({ progress, subagent }: CallView): boolean {
  return subagent !== undefined || (progress?.startedAt !== undefined && progress.mode !== "read");
}

/** The question whether a message is sent again, although the calls that answered it may be made again. */
export interface RepeatDialogProps {
  readonly calls: readonly CallView[];
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly onRepeat: () => void;
}

/** Asks before calls that may have changed something are made a second time; it names them with their arguments. */
export function RepeatDialog({ calls, isOpen, onClose, onRepeat }: RepeatDialogProps): ReactNode {
  const labels = useWording().labels.chat;
  return (
    <Dialog title={labels.againQuestion} isOpen={isOpen} onClose={onClose}>
      <p className="text-sm text-agent-muted">{labels.againText}</p>
      <ul aria-label={labels.againCalls} className="flex max-h-80 flex-col gap-2 overflow-y-auto">
        {calls.map(({ key, call }) => (
          <li key={key} className="rounded-md border border-agent-border p-3">
            <p className="mb-1 font-mono text-xs font-medium wrap-anywhere">{call.name}</p>
            <Fields value={call.arguments} label={call.name} />
          </li>
        ))}
      </ul>
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>{labels.againNo}</Button>
        <Button
          variant="danger"
          onClick={() => {
            onClose();
            onRepeat();
          }}
        >
          {labels.again}
        </Button>
      </div>
    </Dialog>
  );
}

// Files of a message that is being written.

/** A message with its files is one request; in base64 a file takes a third more. */
const ATTACHED_BYTES_MAX = 700_000;

/** The bytes of a file as an address that holds them. */
function dataAddress(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      resolve(typeof reader.result === "string" ? reader.result : "");
    };
    reader.onerror = () => {
      reject(new Error(`${file.name} cannot be read.`));
    };
    reader.readAsDataURL(file);
  });
}

/** Words and files as the content of a message. */
async function contentOf(text: string, files: readonly File[]): Promise<UserContent> {
  if (files.length === 0) return text;
  const parts = await Promise.all(files.map(partOf));
  return text.trim() === "" ? parts : [{ type: "text", text }, ...parts];
}

async function partOf(file: File): Promise<UserPart> {
  const data = await dataAddress(file);
  const mediaType = file.type === "" ? "application/octet-stream" : file.type;
  return mediaType.startsWith("image/")
    ? { type: "image", image: data, mediaType }
    : { type: "file", data, mediaType, filename: file.name };
}

/** Usage to show, and the budget. */
export interface CostMeterProps {
  readonly usage: Tally;
  readonly budget?: BudgetLimits | undefined;
  readonly className?: string | undefined;
}

const NEAR = 0.8;
const FULL = 100;

/** Tokens and money that were used, those of subagents included; with a budget, how much of it. */
export function CostMeter({ usage, budget, className }: CostMeterProps): ReactNode {
  const {
    labels: { cost: labels },
    formatCost,
    formatCount,
  } = useWording();
  const { inputTokens = 0, outputTokens = 0, costMicros } = addUsage(usage.usage, usage.delegated);
  const parts = [
    labels.input(formatCount(inputTokens)),
    labels.output(formatCount(outputTokens)),
    ...(usage.toolCalls > 0 ? [labels.calls(usage.toolCalls, formatCount(usage.toolCalls))] : []),
    ...(costMicros === undefined ? [] : [formatCost(costMicros)]),
  ];
  const share = shareOf(budget, {
    tokens: inputTokens + outputTokens,
    costMicros: costMicros ?? 0,
    steps: usage.steps,
    toolCalls: usage.toolCalls,
  });
  return (
    <div className={classes("flex flex-col gap-1 text-xs text-agent-muted", className)}>
      <span aria-label={labels.used(parts)}>{parts.join(" · ")}</span>
      {share !== undefined && (
        <Progress.Root
          value={Math.round(share * FULL)}
          max={FULL}
          aria-label={labels.budget}
          className="h-1.5 w-32 overflow-hidden rounded bg-agent-raised"
        >
          <Progress.Indicator
            className={classes("h-full", share >= NEAR ? "bg-agent-danger" : "bg-agent-accent")}
            style={{ width: `${share * FULL}%` }}
          />
        </Progress.Root>
      )}
    </div>
  );
}

interface Used {
  readonly tokens: number;
  readonly costMicros: number;
  readonly steps: number;
  readonly toolCalls: number;
}

/** The largest part of any limit that is used, from 0 to 1. */
function shareOf(budget: BudgetLimits | undefined, used: Used): number | undefined {
  if (budget === undefined) return undefined;
  const pairs: readonly (readonly [number, number | undefined])[] = [
    [used.tokens, budget.maxTokens],
    [used.costMicros, budget.maxCostMicros],
    [used.steps, budget.maxSteps],
    [used.toolCalls, budget.maxToolCalls],
  ];
  const shares = pairs.flatMap(([amount, limit]) => (limit === undefined ? [] : [limit === 0 ? 1 : amount / limit]));
  return shares.length === 0 ? undefined : Math.min(Math.max(...shares), 1);
}

/** Messages of a conversation: the list, its rows, tool calls and the plan of subagents. */
import type {
  Attachment,
  CallAnswer,
  CallStatus,
  CallView,
  ChatItem,
  Conversation,
  InputResponse,
  Note,
  ToolCall,
  ToolMode,
  ToolResult,
} from "@windlass/protocol";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  Fragment,
  memo,
  useCallback,
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type ComponentType,
  type ReactNode,
} from "react";
import { Collapsible } from "radix-ui";
import { cut, formatValue, inOneLine, undisguised } from "./format.js";
import { labelOf, useWording, type Wording } from "./labels.js";
import { Badge, Button, CodeView, CopyButton, type Tone } from "./primitives.js";
import { BUTTONS, CARD, classes, FOCUS } from "./styles.js";
import { Markdown } from "./markdown.js";
import { RequestCard } from "./requests.js";

/** The rows to show. */
export interface MessageListProps extends RowOptions {
  readonly items: readonly ChatItem[];
  /** Shown when there are no rows. */
  readonly empty?: ReactNode;
  /** Reads earlier rows when the reader comes near the first; absent when there are none. */
  readonly onEarlier?: (() => Promise<void> | void) | undefined;
  readonly label?: string | undefined;
  /** From how many rows on only those in view are drawn. */
  readonly virtualFrom?: number | undefined;
  readonly className?: string | undefined;
}

const VIRTUAL_FROM = 60;
const ROW_PX = 96;
const OVERSCAN = 8;
/** The room for the button above the first row. */
const BUTTON_PX = 48;
/** How close to the end counts as being there. */
const NEAR_PX = 80;
/** How close to the first row earlier ones are read. */
const EARLIER_PX = 600;
/** Input events that scroll. */
const TOUCHES = ["wheel", "touchmove", "keydown", "pointerdown"] as const;
const ANNOUNCED_CHARS_MAX = 400;

/**
 * The rows of a conversation, at its newest end until the reader scrolls away.
 *
 * The list itself announces nothing: rows come and go as it scrolls, and words come in pieces. A hidden line beside
 * it says each finished message once.
 */
export function MessageList(props: MessageListProps): ReactNode {
  const wording = useWording();
  const labels = wording.labels.messages;
  const { items, empty, onEarlier, label = labels.label, virtualFrom = VIRTUAL_FROM, className, ...options } = props;
  // State and not a ref: the rows inside are ready before a ref of what is around them is.
  const [frame, setFrame] = useState<HTMLDivElement | null>(null);
  const { isAtEnd, toEnd, onScroll } = useStickToEnd(frame, items);
  // A list that grows at its beginning keeps one kind of rows, so that its reader stays where they are.
  const [isPaged, setPaged] = useState(onEarlier !== undefined);
  if (onEarlier !== undefined && !isPaged) setPaged(true);
  const Rows = isPaged || items.length >= virtualFrom ? VirtualRows : PlainRows;
  return (
    <div className={classes("relative min-h-0 flex-1", className)}>
      <div
        ref={setFrame}
        role="log"
        aria-live="off"
        aria-label={label}
        tabIndex={0}
        onScroll={() => {
          onScroll();
          const isNear = frame !== null && frame.scrollTop < EARLIER_PX && frame.clientHeight > 0;
          if (isNear) void onEarlier?.();
        }}
        className={classes("h-full overflow-y-auto overscroll-contain px-4 pt-3 pb-6", FOCUS)}
      >
        <div className="mx-auto max-w-3xl">
          {items.length === 0 ? empty : <Rows items={items} options={options} frame={frame} onEarlier={onEarlier} />}
        </div>
      </div>
      {!isAtEnd && items.length > 0 && (
        <button
          type="button"
          className={classes(BUTTONS.default, "absolute bottom-3 left-1/2 -translate-x-1/2 shadow")}
          onClick={toEnd}
        >
          {labels.newest}
        </button>
      )}
      <p className="sr-only" role="status">
        {announcement(items, wording)}
      </p>
    </div>
  );
}

interface RowsProps extends Pick<MessageListProps, "items" | "onEarlier"> {
  readonly options: RowOptions;
  readonly frame: HTMLDivElement | null;
}

function PlainRows({ items, options }: RowsProps): ReactNode {
  return (
    <div className="flex flex-col gap-6">
      {items.map((item) => (
        <Row key={item.id} item={item} {...options} />
      ))}
    </div>
  );
}

/**
 * The rows in view.
 *
 * Anchored at their end: the row at the top edge stays where it is when earlier rows come, the button above them goes
 * or rows are measured.
 */
function VirtualRows({ items, options, frame, onEarlier }: RowsProps): ReactNode {
  const { earlier } = useWording().labels.messages;
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (at) => items[at]?.id ?? at,
    anchorTo: "end",
    paddingStart: onEarlier === undefined ? 0 : BUTTON_PX,
  });
  return (
    <div className="relative w-full" style={{ height: rows.getTotalSize() }}>
      {onEarlier !== undefined && (
        <p className="text-center">
          <Button onClick={() => void onEarlier()}>{earlier}</Button>
        </p>
      )}
      {rows.getVirtualItems().map(({ index, key, start }) => {
        const item = items[index];
        return (
          <div
            key={key}
            ref={rows.measureElement}
            data-index={index}
            className="absolute top-0 left-0 w-full pb-6"
            style={{ transform: `translateY(${start}px)` }}
          >
            {item !== undefined && <Row item={item} {...options} />}
          </div>
        );
      })}
    </div>
  );
}

interface Stick {
  readonly isAtEnd: boolean;
  readonly toEnd: () => void;
  readonly onScroll: () => void;
}

/** Keeps the end in view while rows are added, until the reader scrolls away from it. */
function useStickToEnd(frame: HTMLDivElement | null, items: readonly ChatItem[]): Stick {
  const [isAtEnd, setIsAtEnd] = useState(true);
  const isStuck = useRef(true);
  const isTouched = useRef(false);
  const toEnd = useCallback(() => {
    if (frame === null) return;
    isStuck.current = true;
    setIsAtEnd(true);
    frame.scrollTop = frame.scrollHeight;
    isTouched.current = false;
  }, [frame]);
  const onScroll = useCallback(() => {
    if (frame === null) return;
    // Measuring rows moves the end as well: only a scroll by the reader counts as leaving it.
    if (frame.scrollHeight - frame.scrollTop - frame.clientHeight <= NEAR_PX) isStuck.current = true;
    else if (isTouched.current) isStuck.current = false;
    setIsAtEnd(isStuck.current);
  }, [frame]);
  useLayoutEffect(() => {
    if (isStuck.current) toEnd();
  }, [items, toEnd]);
  useEffect(() => {
    // Rows are measured after they are drawn, and grow with what is written into them.
    const content = frame?.firstElementChild;
    if (content === null || content === undefined || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => {
      if (isStuck.current) toEnd();
    });
    observer.observe(content);
    return () => {
      observer.disconnect();
    };
  }, [frame, toEnd]);
  useEffect(() => {
    if (frame === null) return;
    const onTouch = (): void => {
      isTouched.current = true;
    };
    for (const name of TOUCHES) frame.addEventListener(name, onTouch, { passive: true });
    return () => {
      for (const name of TOUCHES) frame.removeEventListener(name, onTouch);
    };
  }, [frame]);
  return { isAtEnd, toEnd, onScroll };
}

/** The text for screen readers: the newest finished message, or the newest request. */
function announcement(items: readonly ChatItem[], wording: Wording): string {
  const { asks } = wording.labels.messages;
  const last = items.at(-1);
  if (last === undefined) return "";
  if (last.kind === "note") return noteText(last.note, wording);
  if (last.kind === "request") return asks(last.request.prompt);
  const request = last.calls.find((view) => view.request !== undefined)?.request;
  if (request !== undefined) return asks(request.prompt);
  return last.isLive || last.message.role === "user" ? "" : cut(last.message.content, ANNOUNCED_CHARS_MAX);
}

/** A note in words. */
function noteText(note: Note, { labels: { messages: labels }, formatCount }: Wording): string {
  switch (note.kind) {
    case "partial":
      return note.text;
    case "error":
      return labels.error(note);
    case "cancelled":
      return labels.cancelled(note.text);
    case "recovered":
      return labels.recovered(note.keptCount, formatCount(note.keptCount));
    case "compacted":
      return labels.compacted;
  }
}

/** How rows are drawn. */
export interface RowOptions {
  readonly onAnswer?: ((response: InputResponse) => Promise<void> | void) | undefined;
  readonly renderers?: Readonly<Record<string, ToolRenderer>> | undefined;
  /** Number of reconnects: errors from before a reconnect are hidden. */
  readonly reconnects?: number | undefined;
  /** Draws actions below a message. Give the same function each time. */
  readonly actions?: ((item: MessageItem) => ReactNode) | undefined;
}

/** One row of a conversation. Drawn again only when it changed. */
const Row = memo(function Row({ item, ...options }: RowOptions & { readonly item: ChatItem }): ReactNode {
  switch (item.kind) {
    case "message":
      return <Message item={item} {...options} />;
    case "note":
      return <NoteRow note={item.note} />;
    case "request":
      return options.onAnswer === undefined ? null : (
        <RequestCard request={item.request} onAnswer={options.onAnswer} reconnects={options.reconnects} />
      );
  }
});

export type MessageItem = Extract<ChatItem, { kind: "message" }>;

function Message({
  item,
  onAnswer,
  renderers,
  reconnects,
  actions,
}: RowOptions & { readonly item: MessageItem }): ReactNode {
  const {
    labels: { messages: labels },
    formatClock,
    formatWhen,
  } = useWording();
  const { message, calls, reasoning = "", attachments, isLive } = item;
  const isUser = message.role === "user";
  return (
    <article
      aria-label={isUser ? labels.byUser : labels.byAgent}
      aria-busy={isLive}
      className={classes("group/row relative flex flex-col", isUser && "items-end")}
    >
      <div
        className={classes(
          "min-w-0 max-w-full text-sm text-agent-text",
          isUser && "max-w-[85%] rounded-2xl bg-agent-raised px-4 py-2",
          !isUser && "w-full",
        )}
      >
        {reasoning !== "" && <Reasoning text={reasoning} isLive={isLive && message.content === ""} />}
        <Words text={message.content} isUser={isUser} isLive={isLive} />
        <Attachments attachments={attachments} />
        {isLive && message.content === "" && (
          <span
            aria-hidden
            className="inline-block h-4 w-1.5 translate-y-0.5 bg-agent-accent motion-safe:animate-pulse"
          />
        )}
        <Calls calls={calls} onAnswer={onAnswer} renderers={renderers} reconnects={reconnects} />
      </div>
      {!isLive && message.createdAt !== "" && (
        <div className={classes(ACTIONS, isUser ? "justify-end [@media(hover:hover)]:right-2" : "left-0")}>
          <time dateTime={message.createdAt} title={formatWhen(message.createdAt)}>
            {formatClock(message.createdAt)}
          </time>
          {message.content !== "" && <CopyButton text={message.content} label={labels.copy} />}
          {actions?.(item)}
        </div>
      )}
    </article>
  );
}

/** The row below a message: in the gap while a pointer is over the message; where there is none, in a place of its own. */
const ACTIONS =
  "flex max-w-full flex-wrap items-center gap-x-2 text-xs text-agent-muted group-focus-within/row:opacity-100 group-hover/row:opacity-100 [@media(hover:hover)]:absolute [@media(hover:hover)]:top-full [@media(hover:hover)]:flex-nowrap [@media(hover:hover)]:opacity-0";

/** The calls of a message; those that a program made are below the call of the program. */
function Calls({
  calls,
  parentId,
  ...options
}: Pick<RowOptions, "onAnswer" | "renderers" | "reconnects"> & {
  readonly calls: readonly CallView[];
  readonly parentId?: string;
}): ReactNode {
  const labels = useWording().labels.calls;
  const ids = new Set(calls.map((view) => view.call.id));
  const shown = calls.filter(({ call: { parentCallId } }) =>
    parentId === undefined ? parentCallId === undefined || !ids.has(parentCallId) : parentCallId === parentId,
  );
  return shown.map((view) => {
    const { id, name } = view.call;
    const isProgram = parentId === undefined && calls.some(({ call }) => call.parentCallId === id);
    return (
      <Fragment key={view.key}>
        <ToolCallRenderer view={view} {...options} />
        {isProgram && (
          <div role="group" aria-label={labels.of(name)} className="ml-3 border-l border-agent-border pl-3">
            <Calls calls={calls} parentId={id} {...options} />
          </div>
        )}
      </Fragment>
    );
  });
}

function Words({
  text,
  isUser,
  isLive,
}: {
  readonly text: string;
  readonly isUser: boolean;
  readonly isLive: boolean;
}): ReactNode {
  if (text === "") return null;
  return isUser ? (
    <p className="whitespace-pre-wrap break-words">{undisguised(text)}</p>
  ) : (
    <Markdown text={text} isLive={isLive} />
  );
}

/** The names of attachments. Only the model reads the files; the page does not open them. */
function Attachments({ attachments }: { readonly attachments: readonly Attachment[] | undefined }): ReactNode {
  const { labels, formatBytes } = useWording();
  if (attachments === undefined) return null;
  return (
    <ul aria-label={labels.messages.attachments} className="mt-1 flex flex-wrap gap-1.5">
      {attachments.map(({ name, mediaType, bytes }, at) => (
        <li
          key={at}
          className="max-w-full truncate rounded-md border border-agent-border bg-agent-bg px-2 py-0.5 text-xs"
          title={mediaType}
        >
          {name} <span className="text-agent-muted">{bytes === undefined ? mediaType : formatBytes(bytes)}</span>
        </li>
      ))}
    </ul>
  );
}

function Reasoning({ text, isLive }: { readonly text: string; readonly isLive: boolean }): ReactNode {
  const labels = useWording().labels.messages;
  return (
    <Collapsible.Root className="mb-2 text-xs text-agent-muted">
      <Collapsible.Trigger className={classes("cursor-pointer rounded underline decoration-dotted", FOCUS)}>
        {isLive ? labels.thinking : labels.reasoning}
      </Collapsible.Trigger>
      <Collapsible.Content className="mt-1 border-l-2 border-agent-border pl-3 whitespace-pre-wrap break-words">
        {undisguised(text)}
      </Collapsible.Content>
    </Collapsible.Root>
  );
}

function NoteRow({ note }: { readonly note: Note }): ReactNode {
  const wording = useWording();
  const labels = wording.labels.messages;
  const text = noteText(note, wording);
  switch (note.kind) {
    case "partial":
      return (
        <article aria-label={labels.partial} className="text-sm text-agent-text">
          <Markdown text={text} />
          <p className="mt-1 text-xs text-agent-muted">{labels.cutOff}</p>
        </article>
      );
    case "error":
      return (
        <p
          className={classes(
            "border-l-4 pl-3 text-sm",
            note.isPassing ? "border-l-agent-warning text-agent-muted" : "border-l-agent-danger text-agent-danger-text",
          )}
        >
          {text}
        </p>
      );
    case "cancelled":
      return <p className="text-sm text-agent-muted">{text}</p>;
    case "recovered":
      return (
        <p className="flex flex-wrap items-center gap-2 text-xs text-agent-muted">
          <Badge tone="info">{labels.survived}</Badge>
          {text}
        </p>
      );
    case "compacted":
      return <p className="border-t border-agent-border pt-1 text-center text-xs text-agent-muted">{text}</p>;
  }
}

/** Draws the calls of one tool. */
export type ToolRenderer = ComponentType<{ readonly view: CallView }>;

/** A call to draw. */
export interface ToolCallProps {
  readonly view: CallView;
  readonly onAnswer?: ((response: InputResponse) => Promise<void> | void) | undefined;
  /** Draws the inside of calls, by the name of the tool. */
  readonly renderers?: Readonly<Record<string, ToolRenderer>> | undefined;
  readonly isOpen?: boolean | undefined;
  /** How often the connection came back. */
  readonly reconnects?: number | undefined;
}

const SHOWN: Readonly<Record<CallStatus, { readonly sign: string; readonly color: string }>> = {
  writing: { sign: "…", color: "text-agent-muted" },
  requested: { sign: "○", color: "text-agent-muted" },
  waiting: { sign: "?", color: "text-agent-warning" },
  running: { sign: "▸", color: "text-agent-accent-text" },
  succeeded: { sign: "✓", color: "text-agent-success" },
  failed: { sign: "✕", color: "text-agent-danger-text" },
  denied: { sign: "⊘", color: "text-agent-danger-text" },
  stopped: { sign: "■", color: "text-agent-muted" },
  abandoned: { sign: "–", color: "text-agent-muted" },
};

/** A call with its arguments, status and result. Tool output is plain text. */
export const ToolCallRenderer = memo(function ToolCallRenderer({
  view,
  onAnswer,
  renderers,
  isOpen,
  reconnects,
}: ToolCallProps): ReactNode {
  const { requiresApproval } = useToolCallStatus(view);
  const { call, request } = view;
  const Own = renderers !== undefined && Object.hasOwn(renderers, call.name) ? renderers[call.name] : undefined;
  const isAsked = requiresApproval && request !== undefined && onAnswer !== undefined;
  return (
    <div data-call={call.id} className={classes(CARD, "my-2 text-sm", isAsked && "border-l-4 border-l-agent-warning")}>
      <Collapsible.Root defaultOpen={isOpen ?? false}>
        <Collapsible.Trigger
          className={classes("flex w-full cursor-pointer items-center gap-2 rounded-lg px-3 py-2 text-left", FOCUS)}
        >
          <Header view={view} />
        </Collapsible.Trigger>
        <Collapsible.Content className="flex flex-col gap-2 px-3 pb-3">
          {Own === undefined ? <Inside view={view} isAsked={isAsked} /> : <Own view={view} />}
        </Collapsible.Content>
      </Collapsible.Root>
      {isAsked && (
        <div className="px-3 pb-3">
          <RequestCard
            key={request.requestId}
            request={request}
            known={view.progress}
            isBare
            onAnswer={onAnswer}
            reconnects={reconnects}
          />
        </div>
      )}
    </div>
  );
});

function Header({ view }: { readonly view: CallView }): ReactNode {
  const { isDestructive } = useToolCallStatus(view);
  const { call, status, progress, subagent } = view;
  const {
    labels: { calls: labels },
    formatDuration,
    visible,
  } = useWording();
  const { sign, color } = SHOWN[status];
  const requestKind = status === "waiting" ? view.request?.kind : undefined;
  const isUnknown = status === "stopped" && progress?.isUnknown === true;
  const text =
    requestKind !== undefined ? labels.waits[requestKind] : isUnknown ? labels.unknown : labels.status[status];
  const name = subagent === undefined || subagent.name === call.name ? call.name : `${call.name} → ${subagent.name}`;
  return (
    <>
      <span
        aria-hidden
        className={classes("w-4 text-center", color, status === "running" && "motion-safe:animate-pulse")}
      >
        {sign}
      </span>
      <span className="min-w-0 flex-1 truncate">
        <span className="font-mono">{name === "" ? labels.unnamed : name}</span>{" "}
        <span className="text-xs text-agent-muted">{inOneLine(call.arguments, visible)}</span>
      </span>
      {progress?.answer !== undefined && <Answered answer={progress.answer} />}
      {isDestructive && (
        <span className="rounded bg-agent-raised px-1.5 text-xs text-agent-danger-text">
          {labelOf(labels.modes, progress?.mode ?? "")}
        </span>
      )}
      <span className={classes("text-xs", color)}>{text}</span>
      {progress?.durationMs !== undefined && (
        <span className="text-xs text-agent-muted">{formatDuration(progress.durationMs)}</span>
      )}
    </>
  );
}

const ANSWERS: Readonly<Partial<Record<CallAnswer["outcome"], Tone>>> = { approved: "good", denied: "bad" };

/** What a person said about the call: it stays with the call. */
function Answered({ answer: { outcome, isChanged, by } }: { readonly answer: CallAnswer }): ReactNode {
  const { answer, outcomes } = useWording().labels.calls;
  const who = by === undefined ? undefined : cut(by, 24);
  return <Badge tone={ANSWERS[outcome] ?? "plain"}>{answer(labelOf(outcomes, outcome), isChanged, who)}</Badge>;
}

/** A call that waits for approval shows its arguments in the request card. */
function Inside({ view, isAsked }: { readonly view: CallView; readonly isAsked: boolean }): ReactNode {
  const { call, inputText, progress, result, subagent } = view;
  const {
    labels: { calls: labels },
    formatWhen,
    visible,
  } = useWording();
  const answer = progress?.answer;
  return (
    <>
      {!isAsked && <CodeView title={labels.arguments} text={inputText ?? formatValue(call.arguments)} />}
      {answer !== undefined && (
        <p className="text-xs text-agent-muted">
          {labels.answeredAt(formatWhen(answer.at), answer.text === undefined ? undefined : visible(answer.text))}
        </p>
      )}
      {progress?.partial !== undefined && <CodeView title={labels.partial} text={formatValue(progress.partial)} />}
      {result !== undefined && (
        <CodeView
          title={
            result.toolResult?.success === true
              ? labels.result
              : view.status === "stopped"
                ? labels.stopped
                : labels.error
          }
          text={result.content}
        />
      )}
      {subagent?.childSessionId !== undefined && (
        <p className="text-xs text-agent-muted">{labels.session(subagent.childSessionId)}</p>
      )}
    </>
  );
}

/** A call: as a row has it, or by its parts. */
export type ToolCallFacts =
  | CallView
  | { readonly call: ToolCall; readonly result?: ToolResult | undefined; readonly mode?: ToolMode | undefined };

/** How a call stands. */
export interface ToolCallStatus {
  readonly status: CallStatus;
  /** The mode of the tool, when it is known. */
  readonly mode: ToolMode | undefined;
  /** Whether a person must say yes before it goes on. */
  readonly requiresApproval: boolean;
  readonly isDestructive: boolean;
  /** Whether nothing more will come of it. */
  readonly isOver: boolean;
}

const OVER: ReadonlySet<CallStatus> = new Set(["succeeded", "failed", "denied", "stopped", "abandoned"]);

/** The status of a call, for components that draw it. */
export function useToolCallStatus(facts: ToolCallFacts): ToolCallStatus {
  return useMemo(() => {
    const status = "status" in facts ? facts.status : statusOf(facts.result);
    const mode = "status" in facts ? facts.progress?.mode : facts.mode;
    const isDestructive = mode === "destructive" || mode === "local";
    return { status, mode, requiresApproval: status === "waiting", isDestructive, isOver: OVER.has(status) };
  }, [facts]);
}

function statusOf(result: ToolResult | undefined): CallStatus {
  if (result === undefined) return "requested";
  return result.success ? "succeeded" : "failed";
}

/** One piece of work of a plan. */
export interface PlanStep {
  readonly id: string;
  readonly title: string;
  readonly status: "pending" | "running" | "completed" | "failed";
  readonly detail?: string | undefined;
}

/** A plan to show. */
export interface OrchestrationPlanCardProps {
  readonly steps: readonly PlanStep[];
  readonly title?: string | undefined;
  readonly className?: string | undefined;
}

const SIGNS: Readonly<Record<PlanStep["status"], readonly [string, string]>> = {
  pending: ["○", "text-agent-muted"],
  running: ["▸", "text-agent-accent-text motion-safe:animate-pulse"],
  completed: ["✓", "text-agent-success"],
  failed: ["✕", "text-agent-danger-text"],
};

/** The subagents of a conversation as the steps of a plan, in the order in which they were called. */
export function planOf({ subagents }: Conversation): readonly PlanStep[] {
  return [...subagents.values()].map(({ callId, name, status, output }) => ({
    id: callId,
    title: name,
    status,
    detail: output,
  }));
}

/** Who works on what, and how far it is. */
export function OrchestrationPlanCard({ steps, title, className }: OrchestrationPlanCardProps): ReactNode {
  const id = useId();
  const {
    labels: { plan: labels },
    formatCount,
  } = useWording();
  const doneCount = steps.filter(({ status }) => status === "completed").length;
  return (
    <div role="group" aria-labelledby={id} className={classes(CARD, "p-3 text-sm", className)}>
      <p id={id} className="mb-2 font-semibold">
        {title ?? labels.title}{" "}
        <span className="font-normal text-agent-muted">
          {labels.done(formatCount(doneCount), formatCount(steps.length))}
        </span>
      </p>
      <ol className="flex flex-col gap-1">
        {steps.map((step) => {
          const [sign, color] = SIGNS[step.status];
          return (
            <li key={step.id} className="flex gap-2">
              <span aria-hidden className={classes("w-4 text-center", color)}>
                {sign}
              </span>
              <span className="min-w-0">
                {step.title} <span className="text-xs text-agent-muted">{labels.status[step.status]}</span>
                {step.detail !== undefined && step.detail !== "" && (
                  <span className="line-clamp-2 block text-xs text-agent-muted">{step.detail}</span>
                )}
              </span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

import type { Attachment, ChatItem, InputResponse, Note } from "@windlass/protocol";
import { Collapsible } from "radix-ui";
import { memo, type ReactNode } from "react";
import { Markdown } from "./markdown.js";
import { RequestCard } from "./request-card.js";
import { formatBytes, sentence } from "../format.js";
import { classes, FOCUS } from "./styles.js";
import { ToolCallRenderer, type ToolRenderer } from "./tool-call.js";

/** How rows are drawn. */
export interface RowOptions {
  readonly onAnswer?: ((response: InputResponse) => Promise<void> | void) | undefined;
  readonly renderers?: Readonly<Record<string, ToolRenderer>> | undefined;
  /** How often the connection came back: what did not get through before is no longer told. */
  readonly reconnects?: number | undefined;
  /** What can be done with a message, drawn below it. Give the same function each time. */
  readonly actions?: ((item: MessageItem) => ReactNode) | undefined;
}

/** One row of a conversation. Drawn again only when it changed. */
export const Row = memo(function Row({ item, ...options }: RowOptions & { readonly item: ChatItem }): ReactNode {
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
  const { message, calls, reasoning = "", attachments, isLive } = item;
  const isUser = message.role === "user";
  return (
    <article
      aria-label={isUser ? "You said" : "The agent said"}
      aria-busy={isLive}
      className={classes("group/row flex", isUser && "justify-end")}
    >
      <div
        className={classes(
          "relative min-w-0 max-w-full text-sm text-agent-text",
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
        {calls.map((view) => (
          <ToolCallRenderer
            key={view.key}
            view={view}
            onAnswer={onAnswer}
            renderers={renderers}
            reconnects={reconnects}
          />
        ))}
        <div className={classes("absolute top-full", isUser ? "right-2" : "left-0")}>{actions?.(item)}</div>
      </div>
    </article>
  );
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
  return isUser ? <p className="whitespace-pre-wrap break-words">{text}</p> : <Markdown text={text} isLive={isLive} />;
}

/** What came with a message, by its name: it is shown to the model, and nothing here opens it. */
function Attachments({ attachments }: { readonly attachments: readonly Attachment[] | undefined }): ReactNode {
  if (attachments === undefined) return null;
  return (
    <ul aria-label="Attachments" className="mt-1 flex flex-wrap gap-1.5">
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
  return (
    <Collapsible.Root className="mb-2 text-xs text-agent-muted">
      <Collapsible.Trigger className={classes("cursor-pointer rounded underline decoration-dotted", FOCUS)}>
        {isLive ? "Thinking…" : "What it thought"}
      </Collapsible.Trigger>
      <Collapsible.Content className="mt-1 border-l-2 border-agent-border pl-3 whitespace-pre-wrap break-words">
        {text}
      </Collapsible.Content>
    </Collapsible.Root>
  );
}

function NoteRow({ note }: { readonly note: Note }): ReactNode {
  switch (note.kind) {
    case "partial":
      return (
        <article aria-label="The agent began to say" className="text-sm text-agent-text">
          <Markdown text={note.text} />
          <p className="mt-1 text-xs text-agent-muted">It did not get further.</p>
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
          {note.isPassing ? `${sentence(note.text)} It is tried again.` : sentence(note.text)}
        </p>
      );
    case "cancelled":
      return <p className="text-sm text-agent-muted">{note.text}</p>;
    case "compacted":
      return (
        <p className="border-t border-agent-border pt-1 text-center text-xs text-agent-muted">
          Older messages were summarised for the model.
        </p>
      );
  }
}

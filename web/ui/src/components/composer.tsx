import {
  useId,
  useRef,
  useState,
  type ClipboardEvent,
  type DragEvent,
  type KeyboardEvent,
  type ReactNode,
} from "react";
import { formatBytes } from "../format.js";
import type { ChatStream } from "../hooks/use-chat-stream.js";
import { contentOf, troubleWith } from "./attach.js";
import { BUTTONS, classes, FIELD, FOCUS } from "./styles.js";

/** Where to write, and to whom it goes. */
export interface ComposerProps {
  readonly chat: ChatStream;
  /** What the field holds at first. */
  readonly draft?: string | undefined;
  readonly placeholder?: string | undefined;
  /** Whether it is known whom to speak to; yes when absent. */
  readonly isReady?: boolean | undefined;
}

const ENDED_BADLY: ReadonlySet<string> = new Set(["failed", "cancelled", "budget_exhausted"]);
const NO_FILES: readonly File[] = [];

/**
 * Where to write.
 *
 * While the agent works, words go to the run under way, or wait for it to end; where the transport cannot speak to a
 * run they wait. Files are dropped, pasted or chosen. What did not get through is given back.
 */
export function Composer({
  chat,
  draft = "",
  placeholder = "Say something",
  isReady = true,
}: ComposerProps): ReactNode {
  const { text, setText, files, setFiles, say } = useDraft(chat, draft);
  const id = useId();
  const trouble = troubleWith(files);
  const canSend = isReady && trouble === undefined && (text.trim() !== "" || files.length > 0);
  const isSteering = isWorking(chat) && chat.canSteer;
  const send = (): void => {
    if (canSend) say(isSteering ? "steer" : undefined);
  };
  const attach = (given: FileList | null): boolean => {
    const found = chat.canAttach ? [...(given ?? [])] : [];
    if (found.length > 0) setFiles((now) => [...now, ...found]);
    return found.length > 0;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && chat.isStreaming) {
      stop(chat);
    }
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
        {files.length > 0 && (
          <Files
            files={files}
            onRemove={(gone) => {
              setFiles((now) => now.filter((file) => file !== gone));
            }}
          />
        )}
        {trouble !== undefined && (
          <p role="alert" className="text-sm text-agent-danger-text">
            {trouble} Remove some, or give the agent a way to fetch them.
          </p>
        )}
        <div className="flex flex-wrap items-end gap-2">
          {chat.canAttach && <AttachButton onFiles={attach} />}
          <label htmlFor={id} className="sr-only">
            Message
          </label>
          <textarea
            id={id}
            rows={2}
            className={classes(FIELD, "min-w-40 flex-1 resize-none max-sm:order-first max-sm:basis-full")}
            placeholder={isSteering ? "Steer the run under way" : placeholder}
            value={text}
            aria-describedby={`${id}-help`}
            onChange={(event) => {
              setText(event.target.value);
            }}
            onKeyDown={onKeyDown}
            onPaste={(event: ClipboardEvent) => {
              if (attach(event.clipboardData.files)) event.preventDefault();
            }}
          />
          <span id={`${id}-help`} className="sr-only">
            Enter sends, Shift and Enter begins a line, Escape stops the agent.
          </span>
          <span aria-hidden className="flex-1 sm:hidden" />
          <Buttons
            chat={chat}
            canSend={canSend}
            isSteering={isSteering}
            onQueue={() => {
              say("queue");
            }}
          />
        </div>
      </div>
    </form>
  );
}

function isWorking(chat: ChatStream): boolean {
  return chat.isStreaming && chat.sessionId !== undefined;
}

function stop(chat: ChatStream): void {
  chat.cancel().catch(() => undefined);
}

/** What is being written, with its files. */
function useDraft(chat: ChatStream, draft: string) {
  const [text, setText] = useState(draft);
  const [files, setFiles] = useState(NO_FILES);
  const say = (delivery?: "queue" | "steer"): void => {
    setText("");
    setFiles(NO_FILES);
    contentOf(text, files)
      .then((content) => chat.sendUserMessage(content, delivery))
      .catch(() => {
        // Unless something else was written meanwhile.
        setText((now) => (now === "" ? text : now));
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
}

function Buttons({ chat, canSend, isSteering, onQueue }: ButtonsProps): ReactNode {
  return (
    <>
      {isWorking(chat) ? (
        <button
          type="button"
          className={BUTTONS.danger}
          onClick={() => {
            stop(chat);
          }}
        >
          Stop
        </button>
      ) : (
        <Retry chat={chat} />
      )}
      {isSteering && (
        <button
          type="button"
          className={BUTTONS.default}
          disabled={!canSend}
          title="Say it when the run has ended"
          onClick={onQueue}
        >
          Queue
        </button>
      )}
      <button type="submit" className={BUTTONS.primary} disabled={!canSend}>
        {isSteering ? "Steer" : "Send"}
      </button>
    </>
  );
}

function AttachButton({ onFiles }: { readonly onFiles: (files: FileList | null) => void }): ReactNode {
  const field = useRef<HTMLInputElement>(null);
  return (
    <>
      <button
        type="button"
        className={BUTTONS.default}
        aria-label="Attach files"
        title="Attach files; they may also be dropped or pasted"
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
        aria-label="Files to attach"
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
  return (
    <ul aria-label="Files to send" className="flex flex-wrap gap-2">
      {files.map((file, at) => (
        <li
          key={at}
          className="flex max-w-full items-center gap-2 rounded-md border border-agent-border bg-agent-surface py-1 pr-1 pl-2 text-xs"
        >
          <span className="truncate">{file.name}</span>
          <span className="shrink-0 text-agent-muted">{formatBytes(file.size)}</span>
          <button
            type="button"
            aria-label={`Remove ${file.name}`}
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

/** Says the same again after a run that did not get to its end. */
function Retry({ chat }: { readonly chat: ChatStream }): ReactNode {
  const { run } = chat.conversation;
  const words = chat.messages.findLast(({ role }) => role === "user")?.content ?? "";
  if (run === undefined || words === "" || !ENDED_BADLY.has(run.status)) return null;
  return (
    <button
      type="button"
      className={BUTTONS.default}
      title={`Say again: ${words}`}
      onClick={() => {
        chat.sendUserMessage(words).catch(() => undefined);
      }}
    >
      Retry
    </button>
  );
}

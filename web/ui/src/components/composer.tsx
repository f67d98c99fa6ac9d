import { useId, useState, type KeyboardEvent, type ReactNode } from "react";
import type { ChatStream } from "../hooks/use-chat-stream.js";
import { BUTTONS, classes, FIELD } from "./styles.js";

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

/**
 * Where to write.
 *
 * While the agent works, words go to the run under way, or wait for it to end; where the transport cannot speak to a
 * run they wait. What did not get through is given back.
 */
export function Composer({ chat, draft = "", placeholder = "Say something", isReady = true }: ComposerProps): ReactNode {
  const [text, setText] = useState(draft);
  const id = useId();
  const canSend = isReady && text.trim() !== "";
  const isWorking = chat.isStreaming && chat.sessionId !== undefined;
  const isSteering = isWorking && chat.canSteer;
  const say = (words: string, delivery?: "queue" | "steer"): void => {
    setText("");
    // Unless something else was written meanwhile.
    chat.sendUserMessage(words, delivery).catch(() => {
      setText((now) => (now === "" ? words : now));
    });
  };
  const send = (): void => {
    if (canSend) say(text, isSteering ? "steer" : undefined);
  };
  const stop = (): void => {
    chat.cancel().catch(() => undefined);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape" && chat.isStreaming) {
      stop();
    }
  };
  return (
    <form
      className="flex flex-wrap items-end gap-2 border-t border-agent-border p-3"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label htmlFor={id} className="sr-only">Message</label>
      <textarea
        id={id}
        rows={2}
        className={classes(FIELD, "min-w-48 flex-1 resize-none")}
        placeholder={isSteering ? "Steer the run under way" : placeholder}
        value={text}
        aria-describedby={`${id}-help`}
        onChange={(event) => { setText(event.target.value); }}
        onKeyDown={onKeyDown}
      />
      <span id={`${id}-help`} className="sr-only">Enter sends, Shift and Enter begins a line, Escape stops the agent.</span>
      {!isWorking && <Retry chat={chat} onRetry={say} />}
      {isWorking && <button type="button" className={BUTTONS.danger} onClick={stop}>Stop</button>}
      {isSteering && <button type="button" className={BUTTONS.default} disabled={!canSend} title="Say it when the run has ended" onClick={() => { say(text, "queue"); }}>Queue</button>}
      <button type="submit" className={BUTTONS.primary} disabled={!canSend}>{isSteering ? "Steer" : "Send"}</button>
    </form>
  );
}

/** Says the same again after a run that did not get to its end. */
function Retry({ chat, onRetry }: { readonly chat: ChatStream; readonly onRetry: (words: string) => void }): ReactNode {
  const { run } = chat.conversation;
  const last = chat.messages.findLast(({ role }) => role === "user");
  if (run === undefined || last === undefined || !ENDED_BADLY.has(run.status)) return null;
  return <button type="button" className={BUTTONS.default} title={`Say again: ${last.content}`} onClick={() => { onRetry(last.content); }}>Retry</button>;
}

import { useId, type ReactNode } from "react";
import { sentence } from "../format.js";
import { useChatStream, type ChatStream, type ChatStreamOptions } from "../hooks/use-chat-stream.js";
import { Composer } from "./composer.js";
import { CostMeter } from "./cost-meter.js";
import { MessageList } from "./message-list.js";
import { planOf, OrchestrationPlanCard } from "./orchestration-plan-card.js";
import { classes } from "./styles.js";
import type { ToolRenderer } from "./tool-call.js";

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
  const { title = "Chat", placeholder, empty = <Empty />, renderers, className, ...options } = props;
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
        <CostMeter usage={chat.conversation.usage.session} />
      </header>
      <Connection chat={chat} />
      <MessageList
        items={chat.items}
        onAnswer={chat.answer}
        renderers={renderers}
        reconnects={chat.reconnects}
        empty={empty}
        label={title}
      />
      {plan.length > 1 && chat.isStreaming && <OrchestrationPlanCard steps={plan} className="mx-4 mb-2" />}
      {chat.error !== undefined && (
        <p role="alert" className="border-t border-agent-border px-4 py-2 text-sm text-agent-danger-text">
          {sentence(chat.error.message)}
        </p>
      )}
      <Composer chat={chat} placeholder={placeholder} />
    </section>
  );
}

function Empty(): ReactNode {
  return <p className="py-8 text-center text-sm text-agent-muted">Nothing was said yet. Write below to begin.</p>;
}

/** Says that the connection is away, for as long as it is. */
export function Connection({ chat }: { readonly chat: ChatStream }): ReactNode {
  const isAway = chat.sessionId !== undefined && chat.connection.status === "waiting";
  return (
    <p role="status" className={classes(isAway ? "bg-agent-raised px-4 py-1 text-xs text-agent-warning" : "sr-only")}>
      {isAway ? "The connection broke. Reconnecting; nothing is lost." : ""}
    </p>
  );
}

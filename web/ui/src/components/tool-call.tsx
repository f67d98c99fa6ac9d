import type { CallStatus, CallView, InputResponse } from "@windlass/protocol";
import { Collapsible } from "radix-ui";
import { memo, type ComponentType, type ReactNode } from "react";
import { cut, formatDuration, formatValue } from "../format.js";
import { useToolCallStatus } from "../hooks/use-tool-call-status.js";
import { RequestCard } from "./request-card.js";
import { CARD, classes, CODE, FOCUS } from "./styles.js";

/** What draws a call of one tool in a way of its own. */
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

const SHOWN: Readonly<Record<CallStatus, { readonly sign: string; readonly text: string; readonly color: string }>> = {
  writing: { sign: "…", text: "being written", color: "text-agent-muted" },
  requested: { sign: "○", text: "requested", color: "text-agent-muted" },
  waiting: { sign: "?", text: "waits for approval", color: "text-agent-warning" },
  running: { sign: "▸", text: "running", color: "text-agent-accent-text" },
  succeeded: { sign: "✓", text: "done", color: "text-agent-success" },
  failed: { sign: "✕", text: "failed", color: "text-agent-danger-text" },
  denied: { sign: "⊘", text: "denied", color: "text-agent-danger-text" },
  abandoned: { sign: "–", text: "never finished", color: "text-agent-muted" },
};
const RESULT_CHARS_MAX = 20_000;

/** A call with its arguments, how it goes, and what came of it. What tools say is text and nothing else. */
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
    <div className={classes(CARD, "my-2 text-sm")}>
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
          <RequestCard key={request.requestId} request={request} onAnswer={onAnswer} reconnects={reconnects} />
        </div>
      )}
    </div>
  );
});

function Header({ view }: { readonly view: CallView }): ReactNode {
  const { isDestructive } = useToolCallStatus(view);
  const { call, status, progress, subagent } = view;
  const { sign, text, color } = SHOWN[status];
  const name = subagent === undefined || subagent.name === call.name ? call.name : `${call.name} → ${subagent.name}`;
  return (
    <>
      <span
        aria-hidden
        className={classes("w-4 text-center", color, status === "running" && "motion-safe:animate-pulse")}
      >
        {sign}
      </span>
      <span className="min-w-0 flex-1 truncate font-mono">{name === "" ? "a tool" : name}</span>
      {isDestructive && (
        <span className="rounded bg-agent-raised px-1.5 text-xs text-agent-danger-text">{progress?.mode}</span>
      )}
      <span className={classes("text-xs", color)}>{text}</span>
      {progress?.durationMs !== undefined && (
        <span className="text-xs text-agent-muted">{formatDuration(progress.durationMs)}</span>
      )}
    </>
  );
}

/** What is asked for consent shows the arguments already. */
function Inside({ view, isAsked }: { readonly view: CallView; readonly isAsked: boolean }): ReactNode {
  const { call, inputText, progress, result, subagent } = view;
  return (
    <>
      {!isAsked && <Block title="Arguments" text={inputText ?? formatValue(call.arguments)} />}
      {progress?.partial !== undefined && <Block title="So far" text={formatValue(progress.partial)} />}
      {result !== undefined && (
        <Block title={result.toolResult?.success === true ? "Result" : "Error"} text={result.content} />
      )}
      {subagent?.childSessionId !== undefined && (
        <p className="text-xs text-agent-muted">Session {subagent.childSessionId}</p>
      )}
    </>
  );
}

function Block({ title, text }: { readonly title: string; readonly text: string }): ReactNode {
  return (
    <div>
      <p className="mb-1 text-xs text-agent-muted">{title}</p>
      <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label={title}>
        {cut(text, RESULT_CHARS_MAX)}
      </pre>
    </div>
  );
}

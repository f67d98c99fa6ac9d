/** The sessions of a user as a list to choose from. */
import { useMemo, type ReactNode } from "react";
import { useAsync } from "./data.js";
import { labelOf, useWording } from "./labels.js";
import { Badge, type Tone } from "./primitives.js";
import { useTransport } from "./session.js";
import { classes, FOCUS } from "./styles.js";
import type { Transport } from "./transport.js";

/** Which sessions, and who is told of a choice. */
export interface SessionListProps {
  readonly transport?: Transport | undefined;
  /** The session that is open. */
  readonly current?: string | undefined;
  readonly onSelect: (sessionId: string) => void;
  /** How often to ask again; 10 s when absent. */
  readonly pollMs?: number | undefined;
  readonly className?: string | undefined;
}

const POLL_MS = 10_000;
const TONES: Readonly<Record<string, Tone>> = {
  completed: "good",
  failed: "bad",
  budget_exhausted: "bad",
  waiting: "wait",
  running: "info",
};

/** Sessions, the newest first, with where each of them is. Give its choice to a chat as `sessionId`: that survives a reload. */
export function SessionList({
  transport: ownTransport,
  current,
  onSelect,
  pollMs = POLL_MS,
  className,
}: SessionListProps): ReactNode {
  const transport = useTransport(ownTransport);
  const { labels, formatClock, formatWhen } = useWording();
  const load = useMemo(() => (signal: AbortSignal) => transport.listSessions({ signal }), [transport]);
  const { data, error } = useAsync(load, pollMs);
  return (
    <nav aria-label={labels.sessions.label} className={classes("flex flex-col text-agent-text", className)}>
      {error !== undefined && (
        <p role="alert" className="p-2 text-sm text-agent-danger-text">
          {labels.common.error(error)}
        </p>
      )}
      {data?.length === 0 && <p className="p-2 text-sm text-agent-muted">{labels.sessions.empty}</p>}
      <ul>
        {(data ?? []).map(({ sessionId, title, status = "idle", requestCount = 0, createdAt }) => (
          <li key={sessionId}>
            <button
              type="button"
              aria-current={sessionId === current}
              className={classes(
                "flex w-full cursor-pointer flex-col gap-1 rounded-md px-2 py-2 text-left text-sm",
                sessionId === current ? "bg-agent-accent-soft" : "hover:bg-agent-raised",
                FOCUS,
              )}
              onClick={() => {
                onSelect(sessionId);
              }}
            >
              <span className="w-full truncate">{title === "" ? labels.sessions.untitled : title}</span>
              <span className="flex w-full items-center justify-between gap-2 text-xs text-agent-muted">
                <Badge tone={TONES[status] ?? "plain"}>
                  {status === "waiting" && requestCount > 0
                    ? labels.sessions.waitsForYou
                    : labelOf(labels.sessions.status, status)}
                </Badge>
                {createdAt !== undefined && (
                  <time dateTime={createdAt} title={formatWhen(createdAt)} className="truncate">
                    {formatClock(createdAt)}
                  </time>
                )}
              </span>
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

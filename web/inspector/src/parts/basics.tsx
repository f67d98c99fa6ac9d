/** Small things that every page is made of. */
import { ApiError, ConnectionError, ProtocolError } from "@windlass/protocol/client";
import { BUTTONS, CARD, classes, FOCUS, sentence } from "@windlass/ui";
import { useEffect, useId, useState, type ComponentPropsWithoutRef, type ReactNode } from "react";
import { formatAgo } from "../lib/format.js";
import { Link } from "../lib/router.js";
import { SMALL_BUTTON, SMALL_FIELD } from "./styles.js";

const TICK_MS = 15_000;

interface HeadingProps {
  readonly title: string;
  /** What stands in front of the title: where it belongs. */
  readonly parent?: { readonly label: string; readonly href: string } | undefined;
  /** What is told beside the title. */
  readonly facts?: ReactNode;
  /** What can be done or chosen. */
  readonly children?: ReactNode;
}

/** The heading of a page; it is the title of the tab as well. */
export function Heading({ title, parent, facts, children }: HeadingProps): ReactNode {
  useEffect(() => {
    document.title = `${title} · Windlass`;
  }, [title]);
  return (
    <header className="flex min-h-14 flex-wrap items-center gap-x-4 gap-y-2 border-b border-agent-border px-4 py-2">
      <div className="flex min-w-0 flex-1 basis-60 flex-wrap items-center gap-x-3 gap-y-1">
        <div className="max-w-full min-w-0">
          {parent !== undefined && (
            <Link
              href={parent.href}
              className={classes(
                "block w-fit rounded text-xs text-agent-muted hover:text-agent-text hover:underline",
                FOCUS,
              )}
            >
              {parent.label}
            </Link>
          )}
          <h1 className="truncate text-base font-semibold" title={title}>
            {title}
          </h1>
        </div>
        {facts}
      </div>
      {children}
    </header>
  );
}

/** Says what would be here, and how to get it. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ReactNode }): ReactNode {
  return (
    <div className="mx-auto flex max-w-prose flex-col gap-3 px-6 py-12 text-center text-sm text-agent-muted">
      <p className="text-base font-medium text-agent-text">{title}</p>
      {children}
    </div>
  );
}

/** Code that a reader may type. */
export function Code({ children }: { readonly children: ReactNode }): ReactNode {
  return (
    <code className="rounded bg-agent-code px-1.5 py-0.5 font-mono text-[0.9em] wrap-anywhere text-agent-text">
      {children}
    </code>
  );
}

/** What went wrong, and what to do about it. */
export function Failure({
  error,
  onRetry,
}: {
  readonly error: Error;
  readonly onRetry?: (() => void) | undefined;
}): ReactNode {
  return (
    <div role="alert" className={classes(CARD, "m-4 flex flex-col gap-2 border-l-4 border-l-agent-danger p-4 text-sm")}>
      <p className="font-medium">{sentence(error.message)}</p>
      <p className="text-agent-muted">{adviceFor(error)}</p>
      {onRetry !== undefined && (
        <p>
          <button type="button" className={BUTTONS.default} onClick={onRetry}>
            Try again
          </button>
        </p>
      )}
    </div>
  );
}

const ADVICE: Readonly<Partial<Record<ApiError["kind"], string>>> = {
  unauthorized: "Give a key that the server takes.",
  denied: "A policy of the server forbids it: ask whoever runs it.",
  not_found: "It was deleted, or belongs to somebody else. The address may also be mistyped.",
  conflict: "Something changed meanwhile. Look at it again, then decide.",
  rate_limited: "The server wants fewer requests. It is asked again by itself in a moment.",
  unavailable: "The server is busy or starting. It is asked again by itself in a moment.",
  ambiguous: "It may have happened all the same. Look before you repeat it.",
};

function adviceFor(error: Error): string {
  if (error instanceof ApiError) return ADVICE[error.kind] ?? "If it stays so, look into the log of the server.";
  if (error instanceof ConnectionError)
    return "Is the server running? Start it again: nothing that was written is lost.";
  if (error instanceof ProtocolError) return "The server speaks another version than this page. Load the page anew.";
  return "If it stays so, load the page anew.";
}

/** That something is on its way; it is not seen if that takes no time. */
export function Loading({ label = "Loading" }: { readonly label?: string }): ReactNode {
  const [isSlow, setIsSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => {
      setIsSlow(true);
    }, 150);
    return () => {
      clearTimeout(timer);
    };
  }, []);
  return (
    <p role="status" className="min-h-24 px-4 py-8 text-center text-sm text-agent-muted motion-safe:animate-pulse">
      {isSlow && `${label}…`}
    </p>
  );
}

const COLORS: Readonly<Record<string, string>> = {
  running: "text-agent-accent-text bg-agent-accent/10",
  waiting: "text-agent-warning bg-agent-warning/10",
  cancelling: "text-agent-warning bg-agent-warning/10",
  completed: "text-agent-success bg-agent-success/10",
  accepted: "text-agent-success bg-agent-success/10",
  applied: "text-agent-success bg-agent-success/10",
  better: "text-agent-success bg-agent-success/10",
  failed: "text-agent-danger-text bg-agent-danger/10",
  refused: "text-agent-danger-text bg-agent-danger/10",
  worse: "text-agent-danger-text bg-agent-danger/10",
  budget_exhausted: "text-agent-danger-text bg-agent-danger/10",
  open: "text-agent-warning bg-agent-warning/10",
};
const SIGNS: Readonly<Record<string, string>> = {
  pending: "○",
  running: "▸",
  waiting: "?",
  cancelling: "◌",
  completed: "✓",
  failed: "✕",
  cancelled: "–",
  budget_exhausted: "✕",
  idle: "○",
  open: "?",
  accepted: "✓",
  applied: "✓",
  refused: "✕",
  better: "✓",
  worse: "✕",
  unclear: "~",
  working: "▸",
};

/** Where a run, a session or a proposal is; a sign and a word, so that colour is not all. */
export function Status({ status }: { readonly status: string }): ReactNode {
  return (
    <span
      data-status={status}
      className={classes(
        "inline-flex shrink-0 items-center gap-1 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap",
        COLORS[status] ?? "bg-agent-raised text-agent-muted",
      )}
    >
      <span aria-hidden className={classes(status === "running" && "motion-safe:animate-pulse")}>
        {SIGNS[status] ?? "·"}
      </span>
      {status.replaceAll("_", " ")}
    </span>
  );
}

/** The moment, again and again, for what tells how long ago something was. */
export function useNow(tickMs = TICK_MS): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => {
      setNow(Date.now());
    }, tickMs);
    return () => {
      clearInterval(timer);
    };
  }, [tickMs]);
  return now;
}

/** How long ago something was; the exact moment is in its title. */
export function Ago({ at, nowMs }: { readonly at: string; readonly nowMs: number }): ReactNode {
  // What has happened is never to come, though clocks differ and the moment is that of the last tick.
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()} className="whitespace-nowrap">
      {formatAgo(at, Math.max(nowMs, Date.parse(at)))}
    </time>
  );
}

/** A link in a text. */
export function TextLink(props: ComponentPropsWithoutRef<typeof Link>): ReactNode {
  const { className, ...rest } = props;
  return (
    <Link className={classes("rounded text-agent-link underline underline-offset-2", FOCUS, className)} {...rest} />
  );
}

/** A link that stands by itself, beside buttons. */
export function ButtonLink(props: ComponentPropsWithoutRef<typeof Link>): ReactNode {
  const { className, ...rest } = props;
  return <Link className={classes(SMALL_BUTTON, className)} {...rest} />;
}

interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly onChange: (value: string) => void;
}

/** A choice of few things. The browser's own, so that phones and screen readers know it. */
export function Select({ label, value, options, onChange }: SelectProps): ReactNode {
  const id = useId();
  return (
    <span className="inline-flex items-center gap-2 text-xs text-agent-muted">
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        className={classes(SMALL_FIELD, "max-w-44")}
        value={value}
        onChange={(event) => {
          onChange(event.target.value);
        }}
      >
        {options.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}

/** Facts in two columns: a name, and what is to be told. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [label: string, value: ReactNode])[];
}): ReactNode {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-sm">
      {facts.map(([label, value]) => (
        <div key={label} className="contents">
          <dt className="text-agent-muted">{label}</dt>
          <dd className="min-w-0 wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

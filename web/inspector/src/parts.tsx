/** Small parts that pages share: styles, texts, states, links, tabs and a list of any length. */
import {
  Badge,
  BUTTONS,
  CARD,
  classes,
  CodeView,
  FIELD,
  FOCUS,
  formatAgo,
  formatShort,
  formatWhen,
  plural,
  sentence,
  undisguised,
  type Tone,
} from "@windlass/ui";
import { Check, Circle, Equal, Hourglass, Play, RotateCcw, Square, X, type LucideIcon } from "lucide-react";
import type { Estimate, Usage } from "@windlass/protocol";
import { ApiError, ConnectionError, ProtocolError, type RunRow } from "@windlass/protocol/client";
import { useEffect, useRef, useState, type ComponentPropsWithoutRef, type KeyboardEvent, type ReactNode } from "react";
import { Tabs as Radix } from "radix-ui";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Link } from "./router.js";

/** A field as wide as its content. */
export const SMALL_FIELD = `${FIELD} w-auto!`;

/** A hint at a key: for those who have a keyboard. */
export const KEY_HINT = "max-sm:hidden pointer-coarse:hidden";

const TICK_MS = 15_000;

interface HeadingProps {
  readonly title: string;
  /** A link above the title. */
  readonly parent?: { readonly label: string; readonly href: string } | undefined;
  /** Content beside the title. */
  readonly facts?: ReactNode;
  /** A line below the title. */
  readonly about?: ReactNode;
  /** Whether the title gives way to what is beside it, so that both stay on one line of a phone. */
  readonly isTight?: boolean | undefined;
  /** Actions and filters. */
  readonly children?: ReactNode;
}

/** How sure a number is. None of them can be less than 0, whatever the mathematics of few runs says. */
export function rangeOf(estimate: Estimate | undefined, format: (value: number) => string): string | undefined {
  if (estimate?.low === undefined || estimate.high === undefined) return undefined;
  return `${format(Math.max(estimate.low, 0))} to ${format(estimate.high)}`;
}

/** The heading of a page; it is the title of the tab as well. */
export function Heading({ title: ownTitle, parent, facts, about, isTight = false, children }: HeadingProps): ReactNode {
  const title = undisguised(ownTitle);
  useEffect(() => {
    document.title = `${title} · Windlass`;
  }, [title]);
  return (
    <header className="flex min-h-13 flex-wrap items-center gap-x-4 gap-y-2 border-b border-agent-border px-4 py-2">
      <div
        className={classes(
          "flex max-w-full min-w-0 flex-1 basis-60 items-center gap-x-3 gap-y-1",
          !isTight && "max-sm:flex-wrap",
        )}
      >
        <div className="flex max-w-full min-w-0 items-baseline gap-2">
          {parent !== undefined && (
            <Link
              href={parent.href}
              className={classes(
                "shrink-0 rounded text-sm text-agent-muted hover:text-agent-text hover:underline",
                FOCUS,
              )}
            >
              {parent.label} <span aria-hidden>/</span>
            </Link>
          )}
          <h1 className="truncate text-base font-semibold" title={title}>
            {title}
          </h1>
        </div>
        {facts}
      </div>
      {children}
      {about !== undefined && about !== false && (
        <div className="-mt-1 w-full text-xs text-agent-muted tabular-nums">{about}</div>
      )}
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

/** Code that fills an empty page: a command, or settings. */
export function Command({
  title,
  text,
  what = "command",
}: Readonly<Record<"title" | "text", string>> & Copied): ReactNode {
  return (
    <div className="text-left">
      <CodeView title={title} text={text} copyLabel={`Copy the ${what}`} />
    </div>
  );
}

interface Copied {
  readonly what?: "command" | "settings";
}

/** Code that a reader may type. */
export function Code({ children }: { readonly children: ReactNode }): ReactNode {
  return (
    <code className="rounded bg-agent-code px-1.5 py-0.5 font-mono text-[0.9em] wrap-anywhere text-agent-text">
      {children}
    </code>
  );
}

/** An error, with advice. */
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

/** A question to the server that has no answer yet: that it is on its way, or why there is none. */
export function Pending({ of: { error, refetch } }: { readonly of: Asked }): ReactNode {
  return error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />;
}

/** A question to the server, as far as its failure is concerned. */
export interface Asked {
  readonly error: Error | null;
  readonly refetch: () => Promise<unknown>;
}

const ADVICE: Readonly<Partial<Record<ApiError["kind"], string>>> = {
  unauthorized: "Enter a valid API key.",
  denied: "A policy of the server forbids it. Ask the operator of the server.",
  not_found: "It was deleted, belongs to another user, or the address is mistyped.",
  cursor_expired: "It was deleted, or its oldest records are no longer kept. Reload the page to see what there is.",
  conflict: "It changed in the meantime. Look at it again, then decide.",
  rate_limited: "Too many requests. The page retries automatically in a moment.",
  unavailable: "The server is busy or starting. The page retries automatically in a moment.",
  ambiguous: "The request may have taken effect. Check before you repeat it.",
};

function adviceFor(error: Error): string {
  if (error instanceof ApiError) {
    // The server asks to come back when waiting helps; without that, its words say what must be set up.
    if (error.kind === "unavailable" && error.retryAfterMs === undefined)
      return "The server is not set up for this. Change its settings, start it again, then repeat the request.";
    return ADVICE[error.kind] ?? "If it persists, look into the log of the server.";
  }
  if (error instanceof ConnectionError) return "Is the server running? Start it again: no recorded data is lost.";
  if (error instanceof ProtocolError) return "The server has another version than this page. Reload the page.";
  return "If it persists, reload the page.";
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

const STATES: Readonly<Record<string, readonly [tone: Tone, icon: LucideIcon]>> = {
  pending: ["plain", Circle],
  idle: ["plain", Circle],
  running: ["info", Play],
  working: ["info", Play],
  waiting: ["wait", Hourglass],
  open: ["wait", Hourglass],
  cancelling: ["wait", Square],
  cancelled: ["plain", Square],
  completed: ["good", Check],
  accepted: ["good", Check],
  applied: ["good", Check],
  better: ["good", Check],
  failed: ["bad", X],
  refused: ["bad", X],
  worse: ["bad", X],
  budget_exhausted: ["bad", X],
  unclear: ["plain", Equal],
};
/** Statuses that say more in other words than in their names. */
const STATUS_WORDS: ReadonlyMap<string, string> = new Map([
  ["pending", "queued"],
  ["budget_exhausted", "budget used up"],
]);
/** Words for a run that waits, by the thing that it waits for. Maps, and no objects: an address may name any word. */
export const WAITS: ReadonlyMap<string, string> = new Map([
  ["person", "waiting for a person"],
  ["input", "waiting for you"],
  ["recovery", "needs a decision"],
  ["subagent", "waiting for subagents"],
  ["provider", "waiting for provider"],
  ["timer", "waiting for a timer"],
  ["budget", "waiting for budget"],
]);

/** A status in words. */
export function statusWords(status: string): string {
  return STATUS_WORDS.get(status) ?? kindWords(status);
}

/** A kind of error, decision or part in words. */
export function kindWords(kind: string): string {
  return kind.replaceAll("_", " ");
}

/** A number of few characters; a dash if it is not known. */
export function orDash<T>(value: T | undefined, format: (value: T) => ReactNode): ReactNode {
  return value === undefined ? "–" : format(value);
}

/** Input and output tokens in few characters. */
export function shortTokens({ inputTokens = 0, outputTokens = 0 }: Usage = {}): string {
  const tokens = inputTokens + outputTokens;
  return tokens === 0 ? "–" : formatShort(tokens);
}

/** Where a run is, or the newest run of a session. */
type RunState = Pick<RunRow, "waitsOn"> & { readonly status: string };

/** Where a run, a session or a proposal is; an icon and a word, so that colour is not all. */
export function Status({
  status,
  words: text,
}: {
  readonly status: string;
  /** Other words than its name, such as what is waited for. */
  readonly words?: string | undefined;
}): ReactNode {
  const [tone, Icon] = STATES[status] ?? ["plain", Circle];
  return (
    <Badge tone={tone} data-status={status}>
      <Icon
        aria-hidden
        strokeWidth={2.5}
        className={classes("size-3", status === "running" && "motion-safe:animate-pulse")}
      />
      {text ?? statusWords(status)}
    </Badge>
  );
}

/** What a row of a list shows of its run last: what it waits for, why it failed, or its answer. */
export function lastWords(
  row: Partial<Record<"waitsFor" | "errorMessage" | "output", string | undefined>>,
): string | undefined {
  return row.waitsFor ?? row.errorMessage ?? row.output;
}

/** Where a run is, with what it waits for. */
export function RunStatus({ run: { status, waitsOn } }: { readonly run: RunState }): ReactNode {
  return (
    <Status
      status={status}
      words={waitsOn === undefined ? undefined : (WAITS.get(waitsOn) ?? `waiting for ${waitsOn}`)}
    />
  );
}

/** That a run went on after the end of its process; nothing of a run without a crash. */
export function Crashes({
  count,
  isShort = false,
}: {
  readonly count: number;
  /** Whether there is room for a sign and the number alone. */
  readonly isShort?: boolean;
}): ReactNode {
  if (count === 0) return null;
  const text = `survived ${plural(count, "crash")}`;
  return (
    <Badge tone="info" title={text}>
      <RotateCcw aria-hidden strokeWidth={2.5} className="size-3" />
      {isShort ? (
        <>
          <span aria-hidden>{count}</span>
          <span className="sr-only">{text}</span>
        </>
      ) : (
        text
      )}
    </Badge>
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

/** How long ago something was, by a clock of its own; the exact moment is in its title. Nothing of no moment. */
export function Ago({ at, tickMs }: { readonly at: string | undefined; readonly tickMs?: number }): ReactNode {
  const now = useNow(tickMs);
  if (at === undefined) return null;
  // A past moment is never shown as future, although clocks differ and `now` is that of the last tick.
  return (
    <time dateTime={at} title={formatWhen(at)} className="whitespace-nowrap">
      {formatAgo(at, Math.max(now, Date.parse(at)))}
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

/** The name of a row of a table, which leads to what the row is about. Keys open the row itself. */
export function RowLink({ href, children }: { readonly href: string; readonly children: string }): ReactNode {
  const text = undisguised(children);
  return (
    <Link href={href} tabIndex={-1} title={text} className={classes("rounded font-semibold hover:underline", FOCUS)}>
      {text}
    </Link>
  );
}

/** A link that stands by itself, beside buttons. */
export function ButtonLink(props: ComponentPropsWithoutRef<typeof Link>): ReactNode {
  const { className, ...rest } = props;
  return <Link className={classes(BUTTONS.default, className)} {...rest} />;
}

interface TabsProps<K extends string> {
  readonly label: string;
  /** Views of the same thing. */
  readonly tabs: readonly { readonly id: K; readonly label: string; readonly content: () => ReactNode }[];
  readonly value: NoInfer<K>;
  readonly onChange: (id: NoInfer<K>) => void;
}

/** Views to choose from; arrow keys go between them. Only the one that is seen is drawn. */
export function Tabs<const K extends string>({ tabs, value, onChange, label }: TabsProps<K>): ReactNode {
  const current = tabs.find(({ id }) => id === value) ?? tabs[0];
  return (
    <Radix.Root
      value={current?.id ?? ""}
      onValueChange={(id) => {
        onChange(id as K);
      }}
      className="flex min-h-0 flex-1 flex-col"
    >
      <Radix.List
        aria-label={label}
        className="flex gap-4.5 overflow-x-auto border-b border-agent-border px-4 max-sm:gap-3"
      >
        {tabs.map(({ id, label: text }) => (
          <Radix.Trigger
            key={id}
            value={id}
            className={classes(
              "min-h-9 shrink-0 cursor-pointer border-b-2 border-transparent text-sm whitespace-nowrap text-agent-muted hover:text-agent-text data-[state=active]:border-agent-accent data-[state=active]:font-semibold data-[state=active]:text-agent-text",
              FOCUS,
              // Inside: what scrolls sideways cuts off what sticks out above.
              "focus-visible:-outline-offset-2!",
            )}
          >
            {text}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map(({ id, content }) => (
        <Radix.Content key={id} value={id} tabIndex={-1} className="flex min-h-0 flex-1 flex-col outline-none">
          {content()}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}

interface VirtualListProps<T> {
  readonly items: readonly T[];
  readonly label: string;
  /** Names an item; it stays the same as the list grows. */
  readonly keyOf: (item: T) => string | number;
  readonly render: (item: T, at: number) => ReactNode;
  /** About how high a row is, pixels. */
  readonly rowPx: number;
  /** How many there are, if more than are here. */
  readonly count?: number | undefined;
  /** The row that should be seen. */
  readonly selected?: number | undefined;
  /** Called by the arrow keys, Home and End. */
  readonly onSelect?: ((at: number) => void) | undefined;
  /** Called when the end is near. */
  readonly onEnd?: (() => void) | undefined;
  readonly className?: string | undefined;
}

const OVERSCAN = 10;
const NEAR_END = 20;

/** A list of any length, of which only what is seen is drawn. Arrow keys go from row to row. */
export function VirtualList<T>(props: VirtualListProps<T>): ReactNode {
  const { items, label, keyOf, render, rowPx, count = items.length, selected, onSelect, onEnd, className } = props;
  const frame = useRef<HTMLDivElement>(null);
  const wantsFocus = useRef(false);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowPx,
    overscan: OVERSCAN,
    getItemKey: (at) => {
      const item = items[at];
      return item === undefined ? at : keyOf(item);
    },
  });
  // The list moves to what is selected, not with every record that comes.
  const list = useRef(rows);
  useEffect(() => {
    list.current = rows;
  });
  const drawn = rows.getVirtualItems();
  const last = drawn.at(-1)?.index ?? 0;
  const hasItems = items.length > 0;
  useEffect(() => {
    if (hasItems && last >= items.length - NEAR_END) onEnd?.();
  }, [hasItems, last, items.length, onEnd]);
  useEffect(() => {
    if (selected === undefined || selected < 0 || !hasItems) return;
    list.current.scrollToIndex(selected, { align: "auto" });
  }, [selected, hasItems]);
  useEffect(() => {
    if (!wantsFocus.current || selected === undefined) return;
    const row = frame.current?.querySelector<HTMLElement>(`[data-index="${selected}"] :is(a, button)`);
    if (row === null || row === undefined) return;
    wantsFocus.current = false;
    row.focus({ preventScroll: true });
  }, [selected, drawn]);
  const onKeyDown = (event: KeyboardEvent): void => {
    const from = selected === undefined || selected < 0 ? -1 : selected;
    const next = { ArrowDown: from + 1, ArrowUp: from - 1, Home: 0, End: items.length - 1 }[event.key];
    if (onSelect === undefined || next === undefined) return;
    event.preventDefault();
    wantsFocus.current = true;
    onSelect(Math.min(Math.max(next, 0), items.length - 1));
  };
  return (
    <div ref={frame} className={classes("min-h-0 flex-1 overflow-auto", className)} onKeyDown={onKeyDown}>
      <div role="list" aria-label={label} className="relative w-full" style={{ height: rows.getTotalSize() }}>
        {drawn.map(({ index, key, start }) => {
          const item = items[index];
          return (
            <div
              key={key}
              role="listitem"
              aria-setsize={count}
              aria-posinset={index + 1}
              ref={rows.measureElement}
              data-index={index}
              className="absolute top-0 left-0 w-full"
              style={{ transform: `translateY(${start}px)` }}
            >
              {item !== undefined && render(item, index)}
            </div>
          );
        })}
      </div>
    </div>
  );
}

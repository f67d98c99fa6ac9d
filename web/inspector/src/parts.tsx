/** Small parts that pages share: styles, texts, links, tabs and lists. */
import {
  Badge,
  Button,
  BUTTONS,
  CARD,
  classes,
  Dialog,
  FIELD,
  FOCUS,
  formatAgo,
  formatCount,
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
import {
  useEffect,
  useId,
  useRef,
  useState,
  type ComponentPropsWithoutRef,
  type KeyboardEvent,
  type ReactNode,
} from "react";
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

/** How many rows of a list are here. */
export function Listed({
  count,
  noun,
  hasMore,
  total,
}: {
  readonly count: number;
  readonly noun: string;
  readonly hasMore: boolean;
  /** How many there are, as the server counts: up to one more than `COUNTED_MAX`. */
  readonly total?: number | undefined;
}): ReactNode {
  return (
    <span role="status" className="text-xs text-agent-muted tabular-nums">
      {total === undefined
        ? `${plural(count, noun)}${hasMore ? " and more" : ""}`
        : total > COUNTED_MAX
          ? `${formatCount(COUNTED_MAX)}+ ${noun}s`
          : plural(total, noun)}
    </span>
  );
}

/** Rows that the server counts one by one. */
const COUNTED_MAX = 10_000;

/** The chosen row of a list, beside it; on a narrow screen, below it. */
export function SidePanel({
  kind,
  title,
  onClose,
  children,
}: {
  /** What the panel shows, in a word: "Case". */
  readonly kind: string;
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <aside
      aria-label={kind}
      className="flex min-h-0 shrink-0 flex-col gap-3 overflow-y-auto border-agent-border p-4 text-sm max-lg:max-h-[60%] max-lg:border-t lg:w-104 lg:border-l"
    >
      <div className="flex items-start justify-between gap-2">
        <h2 className="min-w-0 font-semibold wrap-anywhere">{title}</h2>
        <button
          type="button"
          aria-label={`Close the ${kind.toLowerCase()}`}
          className={classes(BUTTONS.quiet, "px-1.5")}
          onClick={onClose}
        >
          <X aria-hidden size={16} />
        </button>
      </div>
      {children}
    </aside>
  );
}

/** Tags in a field, with commas between them. */
export function tagsIn(text: string): string[] {
  return [...new Set(text.split(",").map((tag) => tag.trim()))].filter((tag) => tag !== "");
}

/** A field for tags; `tagsIn` reads them out of its text. */
export function TagsField({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
}): ReactNode {
  return (
    <label className="flex flex-col gap-1">
      Tags, with commas between them
      <input
        className={FIELD}
        value={value}
        onChange={(event) => {
          onChange(event.target.value);
        }}
      />
    </label>
  );
}

const NOTE_CHARS_MAX = 4_000;

/** A field for why something is judged as it is. */
export function NoteField({
  value,
  onChange,
}: {
  readonly value: string;
  readonly onChange: (value: string) => void;
}): ReactNode {
  return (
    <label className="flex flex-col gap-1">
      Note
      <textarea
        className={FIELD}
        rows={3}
        maxLength={NOTE_CHARS_MAX}
        value={value}
        onChange={(event) => {
          onChange(event.target.value);
        }}
      />
    </label>
  );
}

/** Gives a text to the browser to keep as a file. */
export function download(text: string, name: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** How sure a number is. None of them can be less than 0, whatever the mathematics of few runs says. */
export function rangeOf(estimate: Estimate | undefined, format: (value: number) => string): string | undefined {
  if (estimate?.low === undefined || estimate.high === undefined) return undefined;
  return `${format(Math.max(estimate.low, 0))} to ${format(estimate.high)}`;
}

/** The heading of a page; it is the title of the tab as well. */
export function Heading({ title: given, parent, facts, about, isTight = false, children }: HeadingProps): ReactNode {
  const title = undisguised(given);
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
  words,
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
      {words ?? statusWords(status)}
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
  const words = `survived ${plural(count, "crash")}`;
  return (
    <Badge tone="info" title={words}>
      <RotateCcw aria-hidden strokeWidth={2.5} className="size-3" />
      {isShort ? (
        <>
          <span aria-hidden>{count}</span>
          <span className="sr-only">{words}</span>
        </>
      ) : (
        words
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

/** How long ago something was; the exact moment is in its title. */
export function Ago({ at, nowMs }: { readonly at: string; readonly nowMs: number }): ReactNode {
  // A past moment is never shown as future, although clocks differ and `nowMs` is that of the last tick.
  return (
    <time dateTime={at} title={formatWhen(at)} className="whitespace-nowrap">
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

/** The name of a row of a table, which leads to what the row is about. Keys open the row itself. */
export function RowLink({ href, children }: { readonly href: string; readonly children: string }): ReactNode {
  const words = undisguised(children);
  return (
    <Link href={href} tabIndex={-1} title={words} className={classes("rounded font-semibold hover:underline", FOCUS)}>
      {words}
    </Link>
  );
}

/** A link that stands by itself, beside buttons. */
export function ButtonLink(props: ComponentPropsWithoutRef<typeof Link>): ReactNode {
  const { className, ...rest } = props;
  return <Link className={classes(BUTTONS.default, className)} {...rest} />;
}

interface SelectProps {
  readonly label: string;
  /** Whether its first choice says what it is for. */
  readonly isLabelHidden?: boolean | undefined;
  readonly value: string;
  readonly options: readonly (readonly [value: string, label: string])[];
  readonly onChange: (value: string) => void;
}

/** A choice of few things. The browser's own, so that phones and screen readers know it. */
export function Select({ label, isLabelHidden = false, value, options, onChange }: SelectProps): ReactNode {
  const id = useId();
  return (
    <span className="inline-flex items-center gap-2 text-xs text-agent-muted">
      <label htmlFor={id} className={isLabelHidden ? "sr-only" : undefined}>
        {label}
      </label>
      <select
        id={id}
        className={isLabelHidden ? classes(FIELD, "w-28!") : classes(SMALL_FIELD, "max-w-44")}
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

/** One of several views of the same thing. */
interface Tab {
  readonly id: string;
  readonly label: string;
  readonly content: () => ReactNode;
}

interface TabsProps {
  readonly tabs: readonly Tab[];
  readonly value: string;
  readonly onChange: (id: string) => void;
  readonly label: string;
}

/** Views to choose from; arrow keys go between them. Only the one that is seen is drawn. */
export function Tabs({ tabs, value, onChange, label }: TabsProps): ReactNode {
  const current = tabs.find(({ id }) => id === value) ?? tabs[0];
  return (
    <Radix.Root value={current?.id ?? ""} onValueChange={onChange} className="flex min-h-0 flex-1 flex-col">
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
export function VirtualList<T>({
  items,
  label,
  keyOf,
  render,
  rowPx,
  count = items.length,
  selected,
  onSelect,
  onEnd,
  className,
}: VirtualListProps<T>): ReactNode {
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

interface ConfirmProps {
  readonly title: string;
  /** The label of the confirming button. */
  readonly action: string;
  readonly isOpen: boolean;
  readonly isBusy: boolean;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
  /** The consequences. */
  readonly children: ReactNode;
}

/** Asks once more before something that cannot be taken back. */
export function Confirm({ title, action, isOpen, isBusy, onConfirm, onClose, children }: ConfirmProps): ReactNode {
  return (
    <Dialog title={title} isOpen={isOpen} onClose={onClose}>
      <div className="flex flex-col gap-2 text-agent-muted">{children}</div>
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Keep it</Button>
        <Button variant="danger" disabled={isBusy} onClick={onConfirm}>
          {action}
        </Button>
      </div>
    </Dialog>
  );
}

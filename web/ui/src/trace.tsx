/** The trace of a run as a tree on a time axis, and its events in order. */
import type { Event } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  Bot,
  ChevronRight,
  Circle,
  CodeXml,
  Hourglass,
  Maximize2,
  Minus,
  Plus,
  Sparkles,
  Wrench,
  type LucideIcon,
} from "lucide-react";
import {
  memo,
  useEffect,
  useId,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
} from "react";
import { formatValue } from "./format.js";
import { useWording } from "./labels.js";
import {
  axisOf,
  isCause,
  isFailed,
  isFound,
  rowsOf,
  ticksOf,
  traceShape,
  type Axis,
  type SpanKind,
  type SpanStatus,
  type TraceNode,
  type TraceRow,
} from "./spans.js";
import { Badge, Chip, type Tone } from "./primitives.js";
import { CHIPS, classes, CODE, FIELD, FOCUS } from "./styles.js";

/** A trace to show. */
export interface TraceTreeProps {
  /** The trace of the run, and those of its subagents. */
  readonly traces: readonly TraceInfo[];
  /** The moment that open spans reach to, in milliseconds since 1970; the end of the last one when absent. */
  readonly nowMs?: number | undefined;
  /** The span that is selected, by its id. */
  readonly selected?: string | undefined;
  readonly onSelect?: ((node: TraceNode) => void) | undefined;
  /** The field for words to find, for a key that leads to it. */
  readonly findRef?: RefObject<HTMLInputElement | null> | undefined;
  readonly className?: string | undefined;
}

/** What part of the axis is seen, as parts of the whole. */
interface Zoom {
  readonly from: number;
  readonly size: number;
}

const ROW_PX = 32;
const OVERSCAN = 12;
const INDENT_REM = 1.1;
const WHOLE: Zoom = { from: 0, size: 1 };
const ZOOM_STEP = 2;
const ZOOM_SIZE_MIN = 0.002;
const TICKS = 2;
const TICKS_UNTIL = 0.55;

/**
 * The spans of a run as a tree on a time axis.
 *
 * Arrow keys move, open and close; the plus, minus and zero keys zoom. Waits are folded, so that work is seen.
 */
export function TraceTree({ traces, nowMs, selected, onSelect, findRef, className }: TraceTreeProps): ReactNode {
  const wording = useWording();
  const labels = wording.labels.trace;
  const shape = useMemo(() => traceShape(traces, nowMs, wording), [traces, nowMs, wording]);
  const [closed, setClosed] = useState<ReadonlySet<string>>(NONE_CLOSED);
  const [filter, setFilter] = useState(ALL_SPANS);
  const [isFolded, setIsFolded] = useState(true);
  const [isFollowing, setIsFollowing] = useState(false);
  const [zoom, setZoom] = useState(WHOLE);
  const all = useMemo(() => rowsOf(shape.roots, { closed: NONE_CLOSED }), [shape.roots]);
  const rows = useMemo(
    () => (closed.size === 0 && filter === ALL_SPANS ? all : rowsOf(shape.roots, { closed, ...filter })),
    [all, shape.roots, closed, filter],
  );
  const failedCount = useMemo(() => all.filter(({ node }) => isFailed(node)).length, [all]);
  const axis = useMemo(() => axisOf(shape, isFolded), [shape, isFolded]);
  const at = useMemo(
    () => (selected === undefined ? -1 : rows.findIndex(({ node }) => node.id === selected)),
    [rows, selected],
  );
  const select = (node: TraceNode | undefined): void => {
    if (node !== undefined) onSelect?.(node);
  };
  const nextFailed = (): void => {
    const next = nextNode(all, isCause, selected);
    if (next !== undefined) setClosed(NONE_CLOSED);
    select(next);
  };
  const zoomBy = (factor: number): void => {
    const row = rows[at];
    if (factor === 0) setZoom(WHOLE);
    else setZoom((before) => zoomed(before, factor, row === undefined ? undefined : middleOf(row.node, axis)));
  };
  if (all.length === 0) return <p className="p-4 text-sm text-agent-muted">{labels.empty}</p>;
  return (
    <div className={classes("@container flex min-h-0 min-w-0 flex-1 flex-col text-agent-text", className)}>
      <div className="flex items-center gap-2 px-4 py-2 text-xs @max-lg:flex-wrap">
        <SpanFilters
          filter={filter}
          onFilter={setFilter}
          failedCount={failedCount}
          findRef={findRef}
          onNextHit={() => {
            select(nextNode(rows, (node) => isFound(node, filter.find), selected));
          }}
          onNextFailed={nextFailed}
        />
        <Chip isOn={isFolded} onChange={setIsFolded}>
          {labels.fold}
        </Chip>
        {nowMs !== undefined && (
          <Chip isOn={isFollowing} onChange={setIsFollowing}>
            {labels.follow}
          </Chip>
        )}
        <ZoomButtons zoom={zoom} onZoom={zoomBy} />
      </div>
      <Head axis={axis} zoom={zoom} count={rows.length} allCount={all.length} />
      {rows.length === 0 ? (
        <p className="p-4 text-sm text-agent-muted">{labels.none}</p>
      ) : (
        <Rows
          rows={rows}
          at={at}
          axis={axis}
          zoom={zoom}
          find={filter.find}
          isFollowing={isFollowing && nowMs !== undefined}
          onSelect={select}
          onToggle={(node, isOpen) => {
            setClosed((before) => toggled(before, node.id, isOpen));
          }}
          onZoom={zoomBy}
        />
      )}
    </div>
  );
}

function toggled(closed: ReadonlySet<string>, id: string, isOpen: boolean): ReadonlySet<string> {
  const after = new Set(closed);
  if (isOpen) after.delete(id);
  else after.add(id);
  return after;
}

/** The next row that matches behind that of an id; the first one after the last. */
function nextNode(
  rows: readonly TraceRow[],
  matches: (node: TraceNode) => boolean,
  id: string | undefined,
): TraceNode | undefined {
  const from = rows.findIndex(({ node }) => node.id === id);
  const next = rows.find(({ node }, at) => at > from && matches(node)) ?? rows.find(({ node }) => matches(node));
  return next?.node;
}

/** Which spans are seen. */
interface SpanFilter {
  readonly find: string;
  readonly failedOnly: boolean;
}

const ALL_SPANS: SpanFilter = { find: "", failedOnly: false };

function SpanFilters({
  filter,
  onFilter,
  failedCount,
  findRef,
  onNextHit,
  onNextFailed,
}: Pick<TraceTreeProps, "findRef"> & {
  readonly filter: SpanFilter;
  readonly onFilter: (filter: SpanFilter) => void;
  readonly failedCount: number;
  readonly onNextHit: () => void;
  readonly onNextFailed: () => void;
}): ReactNode {
  const {
    labels: { trace: labels },
    formatCount,
  } = useWording();
  const change = (next: Partial<SpanFilter>): void => {
    const { find, failedOnly } = { ...filter, ...next };
    onFilter(find === "" && !failedOnly ? ALL_SPANS : { find, failedOnly });
  };
  return (
    <>
      <input
        ref={findRef}
        type="search"
        aria-label={labels.find}
        placeholder={labels.findPlaceholder}
        className={classes(FIELD, "w-56! min-w-28 shrink")}
        value={filter.find}
        onChange={(event) => {
          change({ find: event.target.value });
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") onNextHit();
        }}
      />
      <Chip
        isOn={filter.failedOnly}
        onChange={(failedOnly) => {
          change({ failedOnly });
        }}
        isDisabled={failedCount === 0}
      >
        {labels.errors(formatCount(failedCount))}
      </Chip>
      {failedCount > 0 && (
        <button type="button" className={CHIPS.off} onClick={onNextFailed}>
          {labels.nextError}
        </button>
      )}
    </>
  );
}

/** Buttons that change the zoom by a factor; 0 shows the whole axis. */
function ZoomButtons({ zoom, onZoom }: { readonly zoom: Zoom; readonly onZoom: (factor: number) => void }): ReactNode {
  const labels = useWording().labels.trace;
  return (
    <span className="ml-auto flex items-center gap-1" role="group" aria-label={labels.zoom}>
      <ZoomButton
        label={labels.zoomOut}
        shortcut="-"
        icon={Minus}
        isDisabled={zoom.size === 1}
        onPress={() => {
          onZoom(1 / ZOOM_STEP);
        }}
      />
      <ZoomButton
        label={labels.zoomIn}
        shortcut="+"
        icon={Plus}
        isDisabled={zoom.size <= ZOOM_SIZE_MIN}
        onPress={() => {
          onZoom(ZOOM_STEP);
        }}
      />
      <ZoomButton
        label={labels.zoomAll}
        shortcut="0"
        icon={Maximize2}
        isDisabled={zoom.size === 1}
        onPress={() => {
          onZoom(0);
        }}
      />
    </span>
  );
}

const NONE_CLOSED: ReadonlySet<string> = new Set();

function middleOf(node: TraceNode, axis: Axis): number {
  return (axis.at(node.startMs) + axis.at(node.endMs)) / 2 / axis.wholeMs;
}

/** A smaller or larger part of the axis, around a place; around its own middle when none is given. */
function zoomed({ from, size }: Zoom, factor: number, around: number | undefined): Zoom {
  const next = Math.min(Math.max(size / factor, ZOOM_SIZE_MIN), 1);
  const middle = around ?? from + size / 2;
  return { from: Math.min(Math.max(middle - next / 2, 0), 1 - next), size: next };
}

function ZoomButton({
  label,
  shortcut,
  icon: Icon,
  isDisabled,
  onPress,
}: {
  readonly label: string;
  readonly shortcut: string;
  readonly icon: LucideIcon;
  readonly isDisabled: boolean;
  readonly onPress: () => void;
}): ReactNode {
  const { key } = useWording().labels.trace;
  return (
    <button
      type="button"
      aria-label={label}
      title={key(label, shortcut)}
      aria-keyshortcuts={shortcut}
      disabled={isDisabled}
      className={classes(
        "flex size-6 cursor-pointer items-center justify-center rounded-md border border-agent-field disabled:cursor-default disabled:opacity-60 pointer-coarse:size-9",
        FOCUS,
      )}
      onClick={onPress}
    >
      <Icon aria-hidden className="size-3.5" />
    </button>
  );
}

const NUMBER = "w-13 shrink-0 truncate text-right tabular-nums @max-lg:hidden";
const TIME = "w-18 shrink-0 truncate text-right tabular-nums";
const BARS = "relative h-full w-1/4 max-w-80 min-w-16 shrink-0 @5xl:w-1/3 @max-md:hidden";

/** Names of columns, and the ticks of the axis. */
function Head({
  axis,
  zoom,
  count,
  allCount,
}: {
  readonly axis: Axis;
  readonly zoom: Zoom;
  readonly count: number;
  readonly allCount: number;
}): ReactNode {
  const {
    labels: { trace: labels },
    formatCount,
    formatDuration,
  } = useWording();
  const all = labels.count(allCount, formatCount(allCount));
  const from = zoom.from * axis.wholeMs;
  const size = zoom.size * axis.wholeMs;
  return (
    <div className="flex h-8 items-center gap-2 border-b border-agent-border px-4 text-xs font-semibold text-agent-muted">
      <span role="status" className="min-w-0 flex-1 truncate tabular-nums">
        {count === allCount ? all : labels.countOf(formatCount(count), all)}
      </span>
      <span aria-hidden className={NUMBER}>
        {labels.tokensColumn}
      </span>
      <span aria-hidden className={NUMBER}>
        {labels.costColumn}
      </span>
      <span aria-hidden className={TIME}>
        {labels.timeColumn}
      </span>
      <span aria-hidden className={BARS}>
        {/* The end has a name of its own; a tick near it has no room for one. */}
        {ticksOf(from, from + size * TICKS_UNTIL, TICKS, formatDuration).map(([ms, label]) => (
          <span
            key={ms}
            className="absolute bottom-0 border-l border-agent-border pb-1 pl-1 font-normal whitespace-nowrap tabular-nums"
            style={{ left: `${((ms - from) / size) * 100}%` }}
          >
            {label}
          </span>
        ))}
        <span className="absolute right-0 bottom-0 pb-1 font-normal whitespace-nowrap tabular-nums">
          {formatDuration(from + size)}
        </span>
      </span>
    </div>
  );
}

interface RowsProps {
  readonly rows: readonly TraceRow[];
  readonly at: number;
  readonly axis: Axis;
  readonly zoom: Zoom;
  readonly find: string;
  readonly isFollowing: boolean;
  readonly onSelect: (node: TraceNode | undefined) => void;
  readonly onToggle: (node: TraceNode, isOpen: boolean) => void;
  readonly onZoom: (factor: number) => void;
}

/** The rows in view. The tree has the focus, and names the selected row: rows come and go as it is scrolled. */
function Rows({ rows, at, axis, zoom, find, isFollowing, onSelect, onToggle, onZoom }: RowsProps): ReactNode {
  const { spans } = useWording().labels.trace;
  const frame = useRef<HTMLDivElement>(null);
  const id = useId();
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => rows[index]?.node.id ?? index,
    initialRect: { width: 1, height: 20 * ROW_PX },
  });
  const newest = useRef(list);
  useEffect(() => {
    newest.current = list;
  });
  useEffect(() => {
    if (at >= 0) newest.current.scrollToIndex(at, { align: "auto" });
  }, [at]);
  useEffect(() => {
    if (isFollowing) newest.current.scrollToIndex(rows.length - 1, { align: "end" });
  }, [isFollowing, rows.length]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = actionOf(event.key, rows, at);
    if (act === undefined) return;
    event.preventDefault();
    if (typeof act === "number") onSelect(rows[act]?.node);
    else if ("zoom" in act) onZoom(act.zoom);
    else onToggle(act.node, act.isOpen);
  };
  const drawn = list.getVirtualItems();
  const isDrawn = drawn.some(({ index }) => index === at);
  return (
    <div
      ref={frame}
      role="tree"
      aria-label={spans}
      tabIndex={0}
      aria-activedescendant={isDrawn ? `${id}-${at}` : undefined}
      className={classes("min-h-0 flex-1 overflow-auto", FOCUS, "focus-visible:-outline-offset-2!")}
      onKeyDown={onKeyDown}
    >
      <div role="presentation" className="relative w-full" style={{ height: list.getTotalSize() }}>
        {drawn.map(({ index, key, start }) => {
          const row = rows[index];
          if (row === undefined) return null;
          return (
            <div
              key={key}
              id={`${id}-${index}`}
              role="treeitem"
              aria-level={row.depth + 1}
              aria-selected={index === at}
              aria-expanded={row.node.children.length === 0 ? undefined : row.isOpen}
              className={classes(
                "absolute top-0 left-0 flex h-8 w-full cursor-pointer items-center gap-2 border-b border-agent-border px-4 text-xs",
                index === at ? "bg-agent-accent-soft" : "hover:bg-agent-surface",
                find !== "" && isFound(row.node, find) && "font-semibold",
              )}
              style={{ transform: `translateY(${start}px)` }}
              onClick={() => {
                onSelect(row.node);
              }}
            >
              <Cells row={row} axis={axis} zoom={zoom} onToggle={onToggle} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

type Act = number | { readonly zoom: number } | { readonly node: TraceNode; readonly isOpen: boolean };

/** What a key does: a row to go to, a zoom, or a branch to open or close. */
function actionOf(key: string, rows: readonly TraceRow[], at: number): Act | undefined {
  const row = rows[at];
  switch (key) {
    case "ArrowDown":
      return Math.min(at + 1, rows.length - 1);
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "Home":
      return 0;
    case "End":
      return rows.length - 1;
    case "ArrowRight":
      if (row === undefined || row.node.children.length === 0) return undefined;
      return row.isOpen ? at + 1 : { node: row.node, isOpen: true };
    case "ArrowLeft":
      if (row === undefined) return undefined;
      if (row.isOpen && row.node.children.length > 0) return { node: row.node, isOpen: false };
      return row.parentAt < 0 ? undefined : row.parentAt;
    case "+":
    case "=":
      return { zoom: ZOOM_STEP };
    case "-":
      return { zoom: 1 / ZOOM_STEP };
    case "0":
      return { zoom: 0 };
    default:
      return undefined;
  }
}

const ICONS: Readonly<Record<SpanKind, readonly [LucideIcon, string]>> = {
  agent: [Bot, "bg-agent-kind-agent"],
  model: [Sparkles, "bg-agent-kind-model"],
  tool: [Wrench, "bg-agent-kind-tool"],
  code: [CodeXml, "bg-agent-kind-code"],
  wait: [Hourglass, "bg-agent-kind-wait"],
  other: [Circle, "bg-agent-muted"],
};
/** Spans that are not simply done. */
const STATES: Readonly<Partial<Record<SpanStatus, Tone>>> = {
  running: "info",
  waiting: "wait",
  interrupted: "bad",
  failed: "bad",
  denied: "bad",
  stopped: "plain",
  skipped: "plain",
};

/** The icon of a kind of span, on its colour. */
function KindIcon({ kind }: { readonly kind: SpanKind }): ReactNode {
  const [Icon, color] = ICONS[kind];
  return (
    <span aria-hidden className={classes("flex size-4.5 shrink-0 items-center justify-center rounded", color)}>
      <Icon className="size-3 text-agent-bg" strokeWidth={2.5} />
    </span>
  );
}

/** How a span is, in words; nothing about one that is done. */
function SpanState({ node: { status, attempt } }: { readonly node: TraceNode }): ReactNode {
  const {
    labels: { trace: labels },
    formatCount,
  } = useWording();
  const tone = STATES[status];
  return (
    <>
      {tone !== undefined && <Badge tone={tone}>{labels.status[status]}</Badge>}
      {attempt > 1 && <Badge tone="wait">{labels.attempt(formatCount(attempt))}</Badge>}
    </>
  );
}

const Cells = memo(function Cells({
  row: { node, depth, isOpen },
  axis,
  zoom,
  onToggle,
}: {
  readonly row: TraceRow;
  readonly axis: Axis;
  readonly zoom: Zoom;
  readonly onToggle: (node: TraceNode, isOpen: boolean) => void;
}): ReactNode {
  const { name, about, kind, tokens, costMicros, startMs, endMs, waitsMs, status } = node;
  const {
    labels: { trace: labels },
    formatCost,
    formatDuration,
    formatShort,
  } = useWording();
  return (
    <>
      <span className="flex min-w-0 flex-1 items-center gap-2" style={{ paddingLeft: `${depth * INDENT_REM}rem` }}>
        {/* A place to point at; keys open and close the row. */}
        <span
          aria-hidden
          className="flex size-4 shrink-0 items-center"
          onClick={(event) => {
            if (node.children.length === 0) return;
            event.stopPropagation();
            onToggle(node, !isOpen);
          }}
        >
          {node.children.length > 0 && (
            <ChevronRight className={classes("size-4 text-agent-muted", isOpen && "rotate-90")} />
          )}
        </span>
        <KindIcon kind={kind} />
        <span className="sr-only">{labels.kinds[kind]} </span>
        <span className="max-w-[60%] shrink-0 truncate font-semibold">{name}</span>
        <SpanState node={node} />
        <span className="min-w-0 flex-1 truncate font-normal text-agent-muted" title={about}>
          {about}
        </span>
      </span>
      <span className={NUMBER}>
        {tokens > 0 && (
          <>
            {formatShort(tokens)}
            <span className="sr-only"> {labels.tokens}</span>
          </>
        )}
      </span>
      <span className={NUMBER}>{costMicros === undefined ? "" : formatCost(costMicros)}</span>
      <span className={TIME}>{formatDuration(endMs - startMs)}</span>
      <Bar
        from={axis.at(startMs)}
        to={axis.at(endMs)}
        waitsFrom={status === "waiting" ? axis.at(waitsMs ?? startMs) : undefined}
        axis={axis}
        zoom={zoom}
        kind={kind}
        isLive={status === "running"}
      />
    </>
  );
});

function Bar({
  from,
  to,
  waitsFrom,
  axis,
  zoom,
  kind,
  isLive,
}: {
  readonly from: number;
  readonly to: number;
  /** Since when it waits: from there on the bar has the colour of waits. */
  readonly waitsFrom: number | undefined;
  readonly axis: Axis;
  readonly zoom: Zoom;
  readonly kind: SpanKind;
  readonly isLive: boolean;
}): ReactNode {
  const part = (ms: number): number => Math.min(Math.max((ms / axis.wholeMs - zoom.from) / zoom.size, 0), 1) * 100;
  const [left, right] = [part(from), part(to)];
  const waits = waitsFrom === undefined ? undefined : part(waitsFrom);
  const isOutside = right === left && (left === 0 || left === 100) && zoom.size < 1;
  return (
    <span aria-hidden className={BARS}>
      {!isOutside && (
        <span
          className={classes(
            "absolute top-1/2 h-2.5 min-w-0.5 -translate-y-1/2 rounded-xs",
            ICONS[kind][1],
            kind === "agent" && "opacity-40",
            isLive && "motion-safe:animate-pulse",
          )}
          style={{ left: `min(${left}%, 100% - 2px)`, width: `${right - left}%` }}
        />
      )}
      {!isOutside && waits !== undefined && (
        <span
          className={classes("absolute top-1/2 h-2.5 min-w-0.5 -translate-y-1/2 rounded-xs", ICONS.wait[1])}
          style={{ left: `min(${waits}%, 100% - 2px)`, width: `${right - waits}%` }}
        />
      )}
    </span>
  );
}

// Raw events.

/** Events, in the order in which they came. */
export interface SSEStreamViewProps {
  readonly events: readonly Event[];
  readonly label?: string | undefined;
  readonly className?: string | undefined;
}

const EVENT_ROW_PX = 32;

/** Every event of a feed, raw: its number, its type, its time, and its data on demand. */
export function SSEStreamView({ events, label: ownLabel, className }: SSEStreamViewProps): ReactNode {
  const {
    labels: { events: labels },
    formatCount,
  } = useWording();
  const label = ownLabel ?? labels.label;
  const frame = useRef<HTMLDivElement>(null);
  const [filter, setFilter] = useState("");
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const shown = filter === "" ? events : events.filter((event) => event.type.includes(filter));
  const rows = useVirtualizer({
    count: shown.length,
    getScrollElement: () => frame.current,
    estimateSize: () => EVENT_ROW_PX,
    overscan: OVERSCAN,
    initialRect: { width: 1, height: 20 * EVENT_ROW_PX },
  });
  const toggle = (key: string): void => {
    setOpen((before) => {
      const after = new Set(before);
      if (!after.delete(key)) after.add(key);
      return after;
    });
  };
  return (
    <section aria-label={label} className={classes("flex min-h-0 flex-col gap-2 text-agent-text", className)}>
      <input
        type="search"
        className={FIELD}
        placeholder={labels.filter}
        aria-label={labels.filter}
        value={filter}
        onChange={(event) => {
          setFilter(event.target.value);
        }}
      />
      <div
        ref={frame}
        className={classes("min-h-0 flex-1 overflow-auto", FOCUS)}
        tabIndex={0}
        role="group"
        aria-label={labels.rows(label, shown.length, formatCount(shown.length))}
      >
        <div className="relative w-full" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, start }) => {
            const event = shown[index];
            if (event === undefined) return null;
            const key = keyOf(event, index);
            return (
              <div
                key={key}
                ref={rows.measureElement}
                data-index={index}
                className="absolute top-0 left-0 w-full"
                style={{ transform: `translateY(${start}px)` }}
              >
                <EventRow
                  event={event}
                  isOpen={open.has(key)}
                  onToggle={() => {
                    toggle(key);
                  }}
                />
              </div>
            );
          })}
        </div>
      </div>
    </section>
  );
}

interface EventRowProps {
  readonly event: Event;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
}

const EventRow = memo(function EventRow({ event, isOpen, onToggle }: EventRowProps): ReactNode {
  const { formatMoment } = useWording();
  const position = event.index === undefined ? `${event.seq ?? ""}` : `${event.seq ?? ""}.${event.index}`;
  return (
    <div className="border-b border-agent-border">
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={onToggle}
        className={classes("flex w-full cursor-pointer gap-3 px-2 py-1 text-left font-mono text-xs", FOCUS)}
      >
        <span className="w-16 shrink-0 text-right text-agent-muted">{position}</span>
        <span className="min-w-0 flex-1 truncate">{event.type}</span>
        <time dateTime={event.meta.at} className="shrink-0 text-agent-muted">
          {formatMoment(event.meta.at)}
        </time>
      </button>
      {isOpen && <pre className={CODE}>{formatValue(event.data)}</pre>}
    </div>
  );
});

function keyOf({ seq, index }: Event, at: number): string {
  return seq === undefined ? `at-${at}` : `${seq}.${index ?? "r"}`;
}

/** The trace of a run as a waterfall, and its events in order. */
import type { Event, TraceEvent, TraceSpan } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { memo, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { useVirtualizer } from "@tanstack/react-virtual";
import { formatDuration, formatMoment, formatValue } from "./format.js";
import { classes, CODE, FIELD, FOCUS } from "./styles.js";

/** A trace to show. */
export interface TraceWaterfallProps {
  readonly trace: TraceInfo;
  /** The moment that open spans reach to, in milliseconds since 1970; the end of the last one when absent. */
  readonly nowMs?: number | undefined;
  readonly onSelect?: ((span: TraceSpan) => void) | undefined;
  readonly className?: string | undefined;
}

/** A span with its place. */
export interface SpanRow {
  readonly span: TraceSpan;
  readonly depth: number;
  readonly startMs: number;
  readonly durationMs: number;
  readonly isOpen: boolean;
}

const MIN_PERCENT = 0.4;
const FULL = 100;
const INDENT_REM = 0.9;

/** The spans of a trace in the order of a reader: each under its parent, siblings by time. */
export function spanRows(spans: readonly TraceSpan[], nowMs?: number): readonly SpanRow[] {
  const ids = new Set(spans.map(({ spanId }) => spanId));
  const children = new Map<string, TraceSpan[]>();
  for (const span of spans) {
    const parentId = span.parentId !== undefined && ids.has(span.parentId) ? span.parentId : "";
    children.set(parentId, [...(children.get(parentId) ?? []), span]);
  }
  const times = spans.map((span) => ({ start: Date.parse(span.startAt), end: Date.parse(span.endAt ?? span.startAt) }));
  const zero = Math.min(...times.map(({ start }) => start));
  const last = nowMs ?? Math.max(...times.map(({ end }) => end));
  const rows: SpanRow[] = [];
  const add = (parentId: string, depth: number): void => {
    const sorted = (children.get(parentId) ?? []).toSorted((a, b) => Date.parse(a.startAt) - Date.parse(b.startAt));
    for (const span of sorted) {
      const start = Date.parse(span.startAt);
      const end = span.endAt === undefined ? last : Date.parse(span.endAt);
      rows.push({
        span,
        depth,
        startMs: start - zero,
        durationMs: Math.max(end - start, 0),
        isOpen: span.endAt === undefined,
      });
      add(span.spanId, depth + 1);
    }
  };
  add("", 0);
  return rows;
}

/** The spans of a run on a time axis. Arrow keys move from span to span. */
export function TraceWaterfall({ trace, nowMs, onSelect, className }: TraceWaterfallProps): ReactNode {
  const rows = useMemo(() => spanRows(trace.spans, nowMs), [trace.spans, nowMs]);
  const [selectedId, setSelectedId] = useState<string>();
  const list = useRef<HTMLOListElement>(null);
  const wholeMs = Math.max(...rows.map(({ startMs, durationMs }) => startMs + durationMs), 1);
  const selected = rows.find(({ span }) => span.spanId === selectedId);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const buttons = [...(list.current?.querySelectorAll("button") ?? [])];
    buttons[buttons.indexOf(document.activeElement as HTMLButtonElement) + step]?.focus();
  };
  if (rows.length === 0) return <p className="text-sm text-agent-muted">No spans yet.</p>;
  return (
    <div className={classes("flex flex-col gap-3 text-agent-text", className)}>
      <ol ref={list} aria-label="Spans" onKeyDown={onKeyDown} className="flex flex-col">
        {rows.map((row) => (
          <li key={row.span.spanId}>
            <Bar
              row={row}
              wholeMs={wholeMs}
              isSelected={row.span.spanId === selectedId}
              onSelect={() => {
                setSelectedId(row.span.spanId);
                onSelect?.(row.span);
              }}
            />
          </li>
        ))}
      </ol>
      {selected !== undefined && (
        <Details row={selected} events={trace.events.filter(({ spanId }) => spanId === selectedId)} />
      )}
    </div>
  );
}

interface BarProps {
  readonly row: SpanRow;
  readonly wholeMs: number;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
}

function Bar({ row, wholeMs, isSelected, onSelect }: BarProps): ReactNode {
  const { span, depth, startMs, durationMs, isOpen } = row;
  const took = isOpen ? "still running" : formatDuration(durationMs);
  const width = Math.max((durationMs / wholeMs) * FULL, MIN_PERCENT);
  return (
    <button
      type="button"
      aria-pressed={isSelected}
      onClick={onSelect}
      className={classes(
        "flex w-full cursor-pointer items-center gap-2 rounded px-1 py-0.5 text-left text-xs",
        isSelected && "bg-agent-raised",
        FOCUS,
      )}
    >
      <span className="w-2/5 min-w-0 truncate font-mono" style={{ paddingLeft: `${depth * INDENT_REM}rem` }}>
        {span.name}
      </span>
      <span className="sr-only">, after {formatDuration(startMs)}, </span>
      <span aria-hidden className="relative h-3 flex-1 rounded bg-agent-raised">
        <span
          className={classes("absolute top-0 h-3 rounded", colorOf(span), isOpen && "motion-safe:animate-pulse")}
          style={{
            left: `${Math.min((startMs / wholeMs) * FULL, FULL - MIN_PERCENT)}%`,
            width: `${width}%`,
            maxWidth: "100%",
          }}
        />
      </span>
      <span className="w-20 shrink-0 text-right text-agent-muted">{took}</span>
    </button>
  );
}

function colorOf({ name, attrs }: TraceSpan): string {
  if (attrs?.["error"] !== undefined || attrs?.["status"] === "failed") return "bg-agent-danger";
  if (name.startsWith("tool.")) return "bg-agent-success";
  return name.startsWith("wait") ? "bg-agent-warning" : "bg-agent-accent";
}

function Details({ row, events }: { readonly row: SpanRow; readonly events: readonly TraceEvent[] }): ReactNode {
  return (
    <div role="group" aria-label={`Details of ${row.span.name}`} className="flex flex-col gap-2">
      <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label="Attributes">
        {formatValue(row.span.attrs ?? {})}
      </pre>
      {events.length > 0 && (
        <ul className="text-xs text-agent-muted">
          {events.map((event) => (
            <li key={event.eventId}>
              <time dateTime={event.at}>{formatMoment(event.at)}</time> {event.name}
            </li>
          ))}
        </ul>
      )}
    </div>
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
const OVERSCAN = 12;

/** Every event of a feed, raw: its number, its type, its time, and its data on demand. */
export function SSEStreamView({ events, label = "Events", className }: SSEStreamViewProps): ReactNode {
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
        placeholder="Filter by type"
        aria-label="Filter by type"
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
        aria-label={`${label}: ${shown.length} rows`}
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
  const place = event.index === undefined ? `${event.seq ?? ""}` : `${event.seq ?? ""}.${event.index}`;
  return (
    <div className="border-b border-agent-border">
      <button
        type="button"
        aria-expanded={isOpen}
        onClick={onToggle}
        className={classes("flex w-full cursor-pointer gap-3 px-2 py-1 text-left font-mono text-xs", FOCUS)}
      >
        <span className="w-16 shrink-0 text-right text-agent-muted">{place}</span>
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

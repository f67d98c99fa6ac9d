import type { Event } from "@windlass/protocol";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useRef, useState, type ReactNode } from "react";
import { formatValue } from "../format.js";
import { classes, CODE, FIELD, FOCUS } from "./styles.js";

/** Events to show, as they came. */
export interface SSEStreamViewProps {
  readonly events: readonly Event[];
  readonly label?: string | undefined;
  readonly className?: string | undefined;
}

const ROW_PX = 32;
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
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    initialRect: { width: 1, height: 20 * ROW_PX },
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
          {event.meta.at.slice(11, 23)}
        </time>
      </button>
      {isOpen && <pre className={CODE}>{formatValue(event.data)}</pre>}
    </div>
  );
});

function keyOf({ seq, index }: Event, at: number): string {
  return seq === undefined ? `at-${at}` : `${seq}.${index ?? "r"}`;
}

import type { TraceSpan } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { classes, FOCUS, formatDuration, spanRows, type SpanRow } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { Empty } from "./basics.js";
import { VirtualList } from "./virtual-list.js";

const ROW_PX = 28;
const FULL = 100;
const MIN_PERCENT = 0.4;
const INDENT_REM = 0.9;

interface WaterfallProps {
  readonly trace: TraceInfo;
  readonly nowMs: number | undefined;
  readonly selected: number | undefined;
  readonly onSelect: (seq: number) => void;
}

/** The record with which a span began: its id ends with the number. */
export function seqOfSpan({ spanId }: TraceSpan): number | undefined {
  const found = /\/(?:turn|step|call|wait)\/(\d+)(?:\.\d+)?$/u.exec(spanId)?.[1];
  return found === undefined ? undefined : Number(found);
}

/** Spans on one axis of time: what ran when, and how long. */
export function Waterfall({ trace, nowMs, selected, onSelect }: WaterfallProps): ReactNode {
  const rows = useMemo(() => spanRows(trace.spans, nowMs), [trace.spans, nowMs]);
  const wholeMs = useMemo(
    () => rows.reduce((most, { startMs, durationMs }) => Math.max(most, startMs + durationMs), 1),
    [rows],
  );
  const at = rows.findIndex(({ span }) => selected !== undefined && seqOfSpan(span) === selected);
  if (rows.length === 0)
    return (
      <Empty title="Nothing was traced yet.">
        <p>Model calls, tool calls and waits appear here as soon as they begin.</p>
      </Empty>
    );
  const select = (row: SpanRow | undefined): void => {
    const seq = row === undefined ? undefined : seqOfSpan(row.span);
    onSelect(seq ?? FIRST_SEQ);
  };
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      <p className="flex justify-between px-4 py-1 text-xs text-agent-muted">
        <span>0</span>
        <span>{formatDuration(wholeMs)}</span>
      </p>
      <p className="px-4 pb-1 text-xs text-agent-muted">
        From record to record: the time of a call has the writing of its records in it. The timeline tells how long the
        tool alone took.
      </p>
      <VirtualList
        items={rows}
        label="Spans"
        keyOf={({ span }) => span.spanId}
        rowPx={ROW_PX}
        selected={at}
        onSelect={(next) => {
          select(rows[next]);
        }}
        render={(row) => (
          <Bar
            row={row}
            wholeMs={wholeMs}
            isSelected={selected !== undefined && seqOfSpan(row.span) === selected}
            onSelect={() => {
              select(row);
            }}
          />
        )}
      />
    </div>
  );
}

const FIRST_SEQ = 1;

interface BarProps {
  readonly row: SpanRow;
  readonly wholeMs: number;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
}

function Bar({ row, wholeMs, isSelected, onSelect }: BarProps): ReactNode {
  const { span, depth, startMs, durationMs, isOpen } = row;
  const took = isOpen ? "still running" : formatDuration(durationMs);
  const left = Math.min((startMs / wholeMs) * FULL, FULL - MIN_PERCENT);
  const width = Math.min(Math.max((durationMs / wholeMs) * FULL, MIN_PERCENT), FULL - left);
  return (
    <button
      type="button"
      aria-current={isSelected}
      onClick={onSelect}
      className={classes(
        "flex h-7 w-full cursor-pointer items-center gap-2 px-4 text-left text-xs",
        isSelected ? "bg-agent-raised" : "hover:bg-agent-surface",
        FOCUS,
      )}
    >
      <span className="w-2/5 min-w-0 shrink-0 truncate font-mono" style={{ paddingLeft: `${depth * INDENT_REM}rem` }}>
        {span.name}
      </span>
      <span className="sr-only">after {formatDuration(startMs)}, took</span>
      <span aria-hidden className="relative h-3 flex-1 rounded bg-agent-raised">
        <span
          className={classes("absolute top-0 h-3 rounded", colorOf(span), isOpen && "motion-safe:animate-pulse")}
          style={{ left: `${left}%`, width: `${width}%` }}
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

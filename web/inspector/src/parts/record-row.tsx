import type { Event } from "@windlass/protocol";
import { classes, FOCUS } from "@windlass/ui";
import { memo, type ReactNode } from "react";
import { formatMoment } from "../lib/format.js";
import { tell, type Tone } from "../lib/tell.js";

const TONES: Readonly<Record<Tone, string>> = {
  plain: "border-l-agent-border",
  model: "border-l-agent-accent",
  tool: "border-l-agent-success",
  wait: "border-l-agent-warning",
  good: "border-l-agent-success",
  bad: "border-l-agent-danger",
};
const TEXTS: Readonly<Partial<Record<Tone, string>>> = {
  bad: "text-agent-danger-text",
  wait: "text-agent-warning",
  good: "text-agent-success",
};
const INDENT_REM = 1.25;

interface RecordRowProps {
  readonly record: Event;
  readonly isSelected: boolean;
  readonly onSelect: (seq: number) => void;
  /** In words, or as the journal has it. */
  readonly isRaw?: boolean;
}

/** One record of a journal. */
export const RecordRow = memo(function RecordRow({
  record,
  isSelected,
  onSelect,
  isRaw = false,
}: RecordRowProps): ReactNode {
  const { title, detail, tone, depth } = tell(record);
  const seq = record.seq ?? 0;
  return (
    <button
      type="button"
      aria-current={isSelected}
      onClick={() => {
        onSelect(seq);
      }}
      className={classes(
        "flex min-h-8 w-full cursor-pointer items-baseline gap-3 px-3 py-1 text-left text-sm",
        isSelected ? "bg-agent-raised" : "hover:bg-agent-surface",
        FOCUS,
      )}
    >
      <span className="w-12 shrink-0 text-right font-mono text-xs text-agent-muted">{seq}</span>
      <span
        className={classes("flex min-w-0 flex-1 items-baseline gap-2 border-l-2 pl-3", TONES[tone])}
        style={isRaw ? undefined : { marginLeft: `${depth * INDENT_REM}rem` }}
      >
        <span className={classes("shrink-0 max-w-[60%] truncate", isRaw ? "font-mono text-xs" : TEXTS[tone])}>
          {isRaw ? record.type : title}
        </span>
        <span className="min-w-0 flex-1 truncate text-xs text-agent-muted">
          {isRaw ? JSON.stringify(record.data).slice(0, 200) : detail}
        </span>
      </span>
      <time dateTime={record.meta.at} className="hidden shrink-0 font-mono text-xs text-agent-muted sm:block">
        {formatMoment(record.meta.at)}
      </time>
    </button>
  );
});

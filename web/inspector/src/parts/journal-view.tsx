import type { Event } from "@windlass/protocol";
import { classes } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { useQueryState } from "../lib/router.js";
import { Empty } from "./basics.js";
import { RecordRow } from "./record-row.js";
import { SMALL_FIELD } from "./styles.js";
import { VirtualList } from "./virtual-list.js";

const ROW_PX = 32;

interface JournalViewProps {
  readonly records: readonly Event[];
  /** As the journal has them, or in words. */
  readonly isRaw: boolean;
  readonly selected: number | undefined;
  readonly onSelect: (seq: number) => void;
}

/** Records as rows, with a filter over everything in them. */
export function JournalView({ records, isRaw, selected, onSelect }: JournalViewProps): ReactNode {
  const [query, change] = useQueryState();
  const filter = query.get("filter") ?? "";
  const shown = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    return wanted === ""
      ? records
      : records.filter((record) =>
          JSON.stringify([record.seq, record.type, record.data]).toLowerCase().includes(wanted),
        );
  }, [records, filter]);
  const at = useMemo(
    () => (selected === undefined ? -1 : shown.findIndex(({ seq }) => seq === selected)),
    [shown, selected],
  );
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      <div className="flex items-center gap-3 px-4 py-2">
        <input
          type="search"
          aria-label="Filter records"
          placeholder="Filter: a type, a tool, any text"
          className={classes(SMALL_FIELD, "min-w-60")}
          value={filter}
          onChange={(event) => {
            change({ filter: event.target.value });
          }}
        />
        <p role="status" className="text-xs whitespace-nowrap text-agent-muted">
          {shown.length.toLocaleString("en-US")} of {records.length.toLocaleString("en-US")}
        </p>
      </div>
      {shown.length === 0 ? (
        <Empty title={records.length === 0 ? "No records yet." : "No record fits."} />
      ) : (
        <VirtualList
          items={shown}
          label="Records"
          keyOf={({ seq }) => seq ?? 0}
          rowPx={ROW_PX}
          selected={at}
          onSelect={(next) => {
            const seq = shown[next]?.seq;
            if (seq !== undefined) onSelect(seq);
          }}
          render={(record) => (
            <RecordRow record={record} isRaw={isRaw} isSelected={record.seq === selected} onSelect={onSelect} />
          )}
        />
      )}
    </div>
  );
}

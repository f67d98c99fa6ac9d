import { useVirtualizer } from "@tanstack/react-virtual";
import { classes } from "@windlass/ui";
import { useEffect, useRef, type KeyboardEvent, type ReactNode } from "react";

interface VirtualListProps<T> {
  readonly items: readonly T[];
  readonly label: string;
  /** Names an item; it stays the same as the list grows. */
  readonly keyOf: (item: T) => string | number;
  readonly render: (item: T, at: number) => ReactNode;
  /** About how high a row is, pixels. */
  readonly rowPx: number;
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
              aria-setsize={items.length}
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

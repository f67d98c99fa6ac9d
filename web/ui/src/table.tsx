/** A table of any length: sorted by the server, columns that are chosen and resized, rows reached by keys. */
import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp, Columns3 } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import {
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
} from "react";
import { useWording } from "./labels.js";
import { BUTTONS, classes, FOCUS } from "./styles.js";

/** A column of a table. */
export interface TableColumn<T> {
  readonly id: string;
  readonly label: string;
  readonly cell: (row: T) => ReactNode;
  /** Its width, pixels; a flexible one is at least so wide. */
  readonly width: number;
  /** Takes a share of what is left, unless a person has set its width; 2 takes twice as much as 1. */
  readonly share?: number;
  readonly isNumber?: boolean;
  readonly isSortable?: boolean;
  /** It is shown where the table has at least so many pixels. */
  readonly fromPx?: number;
  /** Whether it is left out until it is chosen. */
  readonly isHidden?: boolean;
}

/** The column that rows are sorted by. */
export interface TableSort {
  readonly id: string;
  readonly isAscending: boolean;
}

export interface DataTableProps<T> {
  readonly label: string;
  readonly rows: readonly T[];
  /** How many rows there are, if more than are here. */
  readonly count?: number | undefined;
  readonly columns: readonly TableColumn<T>[];
  /** Names a row; it stays the same as the table grows. */
  readonly keyOf: (row: T) => string;
  /** Opens a row: a click on it, or Enter. */
  readonly onOpen: (row: T) => void;
  /** The key of the row that is open beside the table. */
  readonly opened?: string | undefined;
  readonly sort?: TableSort | undefined;
  readonly onSort?: ((sort: TableSort) => void) | undefined;
  /** The keys of the chosen rows; without it rows cannot be chosen. */
  readonly chosen?: ReadonlySet<string> | undefined;
  readonly onChoose?: ((chosen: ReadonlySet<string>) => void) | undefined;
  /** Called when the end is near. */
  readonly onEnd?: (() => void) | undefined;
  /** The choice of columns, as `useColumns` returns it. */
  readonly layout: ColumnLayout;
}

/** Which columns are shown, and how wide; it is kept in the browser under a name. */
export interface ColumnLayout {
  readonly shown: Readonly<Record<string, boolean>>;
  readonly widths: Readonly<Record<string, number>>;
  readonly change: (next: Partial<Pick<ColumnLayout, "shown" | "widths">>) => void;
}

const ROW_PX = 33;
const OVERSCAN = 12;
const NEAR_END = 20;
const WIDTH_MIN = 48;
const WIDTH_MAX = 900;
const STEP_PX = 16;

/** The columns that a person chose, also after a reload. */
export function useColumns(name: string): ColumnLayout {
  const key = `windlass-columns-${name}`;
  const [choice, setKept] = useState(() => layoutIn(read(key)));
  const change = useCallback(
    (next: Partial<Pick<ColumnLayout, "shown" | "widths">>) => {
      setKept((before) => {
        const after = { ...before, ...next };
        write(key, JSON.stringify(after));
        return after;
      });
    },
    [key],
  );
  return useMemo(() => ({ ...choice, change }), [choice, change]);
}

function layoutIn(text: string | null): Pick<ColumnLayout, "shown" | "widths"> {
  try {
    const stored: unknown = JSON.parse(text ?? "{}");
    const { shown, widths } = (stored ?? {}) as { shown?: Record<string, boolean>; widths?: Record<string, number> };
    return { shown: { ...shown }, widths: { ...widths } };
  } catch {
    return { shown: {}, widths: {} };
  }
}

// A browser may forbid its storage: then the choice lasts as long as the page.
function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, text: string): void {
  try {
    localStorage.setItem(key, text);
  } catch {
    return;
  }
}

function isShown<T>({ id, isHidden = false }: TableColumn<T>, { shown }: ColumnLayout): boolean {
  return shown[id] ?? !isHidden;
}

/** A menu of the columns of a table. */
export function ColumnMenu<T>({
  columns,
  layout,
  className,
}: {
  readonly columns: readonly TableColumn<T>[];
  readonly layout: ColumnLayout;
  readonly className?: string | undefined;
}): ReactNode {
  const { table } = useWording().labels;
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger className={classes(BUTTONS.default, className)}>
        <Columns3 aria-hidden size={14} /> {table.columns}
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="end"
          sideOffset={4}
          className="z-20 max-h-[70vh] min-w-44 overflow-auto rounded-md border border-agent-border bg-agent-bg p-1 text-sm text-agent-text shadow-lg"
        >
          {columns.slice(1).map((column) => (
            <DropdownMenu.CheckboxItem
              key={column.id}
              checked={isShown(column, layout)}
              onSelect={(event) => {
                event.preventDefault();
              }}
              onCheckedChange={(isOn) => {
                layout.change({ shown: { ...layout.shown, [column.id]: isOn } });
              }}
              className="flex min-h-8 cursor-pointer items-center gap-2 rounded px-2 outline-none data-[highlighted]:bg-agent-raised"
            >
              <span aria-hidden className="w-4">
                <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
              </span>
              {column.label}
            </DropdownMenu.CheckboxItem>
          ))}
          <DropdownMenu.Separator className="my-1 h-px bg-agent-border" />
          <DropdownMenu.Item
            onSelect={() => {
              layout.change({ shown: {}, widths: {} });
            }}
            className="flex min-h-8 cursor-pointer items-center rounded px-2 outline-none data-[highlighted]:bg-agent-raised"
          >
            {table.reset}
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

/** A column as it is drawn. */
interface DrawnColumn<T> {
  readonly column: TableColumn<T>;
  readonly widthPx: number;
  /** Whether a person has set its width: then it takes no share of what is left. */
  readonly isFixed: boolean;
}

function drawnColumns<T>(columns: readonly TableColumn<T>[], layout: ColumnLayout, tablePx: number): DrawnColumn<T>[] {
  return columns
    .filter((column, at) => at === 0 || (isShown(column, layout) && tablePx >= (column.fromPx ?? 0)))
    .map((column) => {
      const width = layout.widths[column.id];
      return { column, widthPx: clampWidth(width ?? column.width), isFixed: width !== undefined };
    });
}

function clampWidth(px: number): number {
  return Math.min(Math.max(px, WIDTH_MIN), WIDTH_MAX);
}

/** The style of the grid of head and rows; both are equally wide, also where columns need more room than there is. */
function gridStyle<T>(columns: readonly DrawnColumn<T>[], hasBoxes: boolean): GridStyle {
  const tracks = columns.map(({ column: { share }, widthPx, isFixed }) =>
    share === undefined || isFixed ? `${widthPx}px` : `minmax(${widthPx}px, ${share}fr)`,
  );
  const sum = columns.reduce((total, { widthPx }) => total + widthPx, hasBoxes ? 60 : 24);
  return {
    minWidth: `max(100%, ${sum}px)`,
    gridTemplateColumns: [...(hasBoxes ? ["36px"] : []), ...tracks].join(" "),
  };
}

interface GridStyle {
  readonly minWidth: string;
  readonly gridTemplateColumns: string;
}

/** A table of which only the rows that are seen are drawn. Arrow keys go from row to row, Enter opens, Space chooses. */
export function DataTable<T>(props: DataTableProps<T>): ReactNode {
  const { label, rows, count = rows.length, keyOf, onOpen, opened, chosen, onChoose, onEnd } = props;
  const frame = useRef<HTMLDivElement>(null);
  const columns = drawnColumns(props.columns, props.layout, useWidth(frame));
  const { minWidth, gridTemplateColumns } = gridStyle(columns, chosen !== undefined);
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (at) => (rows[at] === undefined ? at : keyOf(rows[at])),
  });
  const drawn = list.getVirtualItems();
  const last = drawn.at(-1)?.index ?? 0;
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - NEAR_END) onEnd?.();
  }, [last, rows.length, onEnd]);
  const choose = (row: T): void => {
    const key = keyOf(row);
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    onChoose?.(next);
  };
  const { current, setCurrent, onKeyDown } = useRowKeys(frame, list, {
    rows,
    onOpen,
    onChoose: chosen === undefined ? undefined : choose,
  });
  return (
    <div
      ref={frame}
      role="grid"
      aria-label={label}
      aria-rowcount={count + 1}
      aria-multiselectable={chosen === undefined ? undefined : true}
      className="relative min-h-0 flex-1 overflow-auto text-[13px]"
      onKeyDown={onKeyDown}
    >
      <TableHead table={props} columns={columns} style={{ minWidth, gridTemplateColumns }} />
      <div role="rowgroup" className="relative" style={{ minWidth, height: list.getTotalSize() }}>
        {drawn.map(({ index, key, start }) => {
          const row = rows[index];
          if (row === undefined) return null;
          const name = keyOf(row);
          return (
            <TableRow
              key={key}
              row={row}
              index={index}
              columns={columns}
              style={{ transform: `translateY(${start}px)`, height: ROW_PX, gridTemplateColumns }}
              isOpened={name === opened}
              isChosen={chosen?.has(name)}
              isCurrent={index === Math.min(current, rows.length - 1)}
              onFocus={setCurrent}
              onOpen={onOpen}
              onChoose={choose}
            />
          );
        })}
      </div>
    </div>
  );
}

interface RowActions<T> {
  readonly rows: readonly T[];
  readonly onOpen: (row: T) => void;
  readonly onChoose: ((row: T) => void) | undefined;
}

interface RowKeys {
  readonly current: number;
  readonly setCurrent: (index: number) => void;
  readonly onKeyDown: (event: KeyboardEvent<HTMLElement>) => void;
}

/** The row that has the focus, and the keys that move it. A row that is not drawn yet gets the focus when it is. */
function useRowKeys<T>(
  frame: RefObject<HTMLDivElement | null>,
  list: Virtualizer<HTMLDivElement, Element>,
  { rows, onOpen, onChoose }: RowActions<T>,
): RowKeys {
  const [current, setCurrent] = useState(0);
  const wantsFocus = useRef(false);
  const drawn = list.getVirtualItems();
  useEffect(() => {
    if (!wantsFocus.current) return;
    const row = frame.current?.querySelector<HTMLElement>(`[data-index="${current}"]`);
    if (row == null) return;
    wantsFocus.current = false;
    row.focus({ preventScroll: true });
  }, [frame, current, drawn]);
  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    if (!(event.target as HTMLElement).hasAttribute("data-index")) return;
    const row = rows[current];
    const page = Math.max(1, Math.floor((frame.current?.clientHeight ?? 0) / ROW_PX) - 2);
    const target = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + page,
      PageUp: current - page,
      Home: 0,
      End: rows.length - 1,
    }[event.key];
    if (target !== undefined) {
      const next = Math.min(Math.max(target, 0), rows.length - 1);
      wantsFocus.current = true;
      setCurrent(next);
      list.scrollToIndex(next, { align: "auto" });
    } else if (event.key === "Enter" && row !== undefined) onOpen(row);
    else if (event.key === " " && row !== undefined && onChoose !== undefined) onChoose(row);
    else return;
    event.preventDefault();
  };
  return { current, setCurrent, onKeyDown };
}

function TableHead<T>({
  table: { rows, keyOf, sort, onSort, chosen, onChoose, layout },
  columns,
  style,
}: {
  readonly table: DataTableProps<T>;
  readonly columns: readonly DrawnColumn<T>[];
  readonly style: GridStyle;
}): ReactNode {
  const { table: labels } = useWording().labels;
  const hasAll = chosen !== undefined && rows.length > 0 && rows.every((row) => chosen.has(keyOf(row)));
  return (
    <div
      role="row"
      aria-rowindex={1}
      className="group sticky top-0 z-10 grid items-center border-b border-agent-border bg-agent-bg px-3 text-[11.5px] font-semibold text-agent-muted"
      style={style}
    >
      {chosen !== undefined && (
        <span role="columnheader" className="flex items-center">
          <input
            type="checkbox"
            aria-label={labels.chooseAll}
            checked={hasAll}
            onChange={() => {
              onChoose?.(hasAll ? new Set() : new Set(rows.map(keyOf)));
            }}
          />
        </span>
      )}
      {columns.map(({ column, widthPx }) => (
        <ColumnHead
          key={column.id}
          column={column}
          widthPx={widthPx}
          sort={sort}
          onSort={onSort}
          onWidth={(px) => {
            layout.change({ widths: { ...layout.widths, [column.id]: clampWidth(px) } });
          }}
        />
      ))}
    </div>
  );
}

function ColumnHead<T>({
  column: { id, label, isNumber, isSortable },
  widthPx,
  sort,
  onSort,
  onWidth,
}: Pick<DataTableProps<T>, "sort" | "onSort"> & {
  readonly column: TableColumn<T>;
  readonly widthPx: number;
  readonly onWidth: (px: number) => void;
}): ReactNode {
  const isSorted = sort?.id === id;
  const Arrow = isSorted && sort.isAscending ? ArrowUp : ArrowDown;
  return (
    <div
      role="columnheader"
      aria-sort={isSorted ? (sort.isAscending ? "ascending" : "descending") : undefined}
      className={classes("relative flex h-8 min-w-0 items-center px-2", isNumber === true && "justify-end")}
    >
      {isSortable === true && onSort !== undefined ? (
        <button
          type="button"
          className={classes("flex min-w-0 cursor-pointer items-center gap-1 rounded hover:text-agent-text", FOCUS)}
          onClick={() => {
            onSort({ id, isAscending: isSorted && !sort.isAscending });
          }}
        >
          <span className="truncate">{label}</span>
          {isSorted && <Arrow aria-hidden size={12} />}
        </button>
      ) : (
        <span className="truncate">{label}</span>
      )}
      <WidthHandle label={label} widthPx={widthPx} onWidth={onWidth} />
    </div>
  );
}

/** The edge of a column: dragged, or moved by arrow keys. */
function WidthHandle({
  label,
  widthPx,
  onWidth,
}: {
  readonly label: string;
  readonly widthPx: number;
  readonly onWidth: (px: number) => void;
}): ReactNode {
  const { table } = useWording().labels;
  const drag = useRef<{ readonly fromPx: number; readonly widthPx: number }>(undefined);
  const endDrag = (): void => {
    drag.current = undefined;
  };
  return (
    <span
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={table.width(label)}
      aria-valuenow={widthPx}
      aria-valuemin={WIDTH_MIN}
      aria-valuemax={WIDTH_MAX}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        drag.current = { fromPx: event.clientX, widthPx };
      }}
      onPointerMove={(event) => {
        if (drag.current !== undefined) onWidth(drag.current.widthPx + event.clientX - drag.current.fromPx);
      }}
      onPointerUp={endDrag}
      onPointerCancel={endDrag}
      onKeyDown={(event) => {
        const by = { ArrowLeft: -STEP_PX, ArrowRight: STEP_PX }[event.key];
        if (by === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        onWidth(widthPx + by);
      }}
      className={classes(
        "absolute top-1.5 right-0 h-5 w-1.5 cursor-col-resize touch-none rounded border-r border-transparent group-hover:border-agent-border hover:bg-agent-accent/40 pointer-coarse:border-agent-border",
        FOCUS,
      )}
    />
  );
}

function TableRow<T>({
  row,
  index,
  columns,
  style,
  isOpened,
  isChosen,
  isCurrent,
  onFocus,
  onOpen,
  onChoose,
}: {
  readonly row: T;
  readonly index: number;
  readonly columns: readonly DrawnColumn<T>[];
  readonly style: CSSProperties;
  readonly isOpened: boolean;
  /** Undefined where rows cannot be chosen. */
  readonly isChosen: boolean | undefined;
  readonly isCurrent: boolean;
  readonly onFocus: (index: number) => void;
  readonly onOpen: (row: T) => void;
  readonly onChoose: (row: T) => void;
}): ReactNode {
  const { table } = useWording().labels;
  return (
    <div
      role="row"
      data-index={index}
      aria-rowindex={index + 2}
      aria-selected={isChosen}
      aria-current={isOpened ? "true" : undefined}
      tabIndex={isCurrent ? 0 : -1}
      className={classes(
        "absolute top-0 left-0 grid w-full cursor-pointer items-center border-b border-agent-border px-3 hover:bg-agent-surface",
        (isChosen === true || isOpened) && "bg-agent-accent-soft",
        FOCUS,
        "focus-visible:-outline-offset-2!",
      )}
      style={style}
      onFocus={() => {
        onFocus(index);
      }}
      onClick={(event) => {
        // A link, a box or a marked text inside has its own meaning.
        const isOwn = (event.target as HTMLElement).closest("a, button, input") !== null;
        if (!isOwn && getSelection()?.isCollapsed !== false) onOpen(row);
      }}
    >
      {isChosen !== undefined && (
        <span role="gridcell" className="flex items-center">
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={table.choose}
            checked={isChosen}
            onChange={() => {
              onChoose(row);
            }}
          />
        </span>
      )}
      {columns.map(({ column }) => (
        <div
          key={column.id}
          role="gridcell"
          className={classes(
            "min-w-0 truncate px-2 *:align-middle has-[[data-status]]:text-clip",
            column.isNumber === true && "text-right tabular-nums",
          )}
        >
          {column.cell(row)}
        </div>
      ))}
    </div>
  );
}

/** The width of an element, pixels; a wide one before it is known. */
function useWidth(frame: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(1_200);
  useEffect(() => {
    const element = frame.current;
    if (element === null || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) setWidth(element.clientWidth);
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
    };
  }, [frame]);
  return width;
}

/** Lists: tables with their columns, read page by page, and the row that is open beside them. */
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import {
  BUTTONS,
  classes,
  DataTable,
  formatCount,
  plural,
  useColumns,
  type DataTableProps,
  type TableColumn,
} from "@windlass/ui";
import { X } from "lucide-react";
import { useMemo, type ReactNode } from "react";
import { Failure, Loading, type Asked } from "./parts.js";
import { useNextPage } from "./queries.js";
import { navigate } from "./router.js";

/** A column: its name, its label, how it stands, and what it shows of a row. */
export function column<T>(
  id: string,
  label: string,
  look: Omit<TableColumn<T>, "id" | "label" | "cell">,
  cell: (row: T) => ReactNode,
): TableColumn<T> {
  return { id, label, cell, ...look };
}

/** Words of a cell; all of them are in its title. */
export function textCell(text: string | undefined, className?: string): ReactNode {
  return (
    <span className={className} title={text}>
      {text}
    </span>
  );
}

/** The start of an id or a hash. */
export function codeCell(text: string): ReactNode {
  return <code className="font-mono text-xs">{text}</code>;
}

interface TableProps<T> extends Omit<DataTableProps<T>, "layout" | "onOpen"> {
  /** The choice of columns is kept under it. */
  readonly name: string;
  /** What opens a row: its address, a function of its key, or one of the row itself. */
  readonly hrefOf?: ((row: T) => string) | undefined;
  readonly onKey?: ((key: string) => void) | undefined;
  readonly onOpen?: ((row: T) => void) | undefined;
  /** That choice, if something else changes it too. */
  readonly layout?: DataTableProps<T>["layout"] | undefined;
}

/** A table that keeps the choice of its columns. */
export function Table<T>({ name, layout, hrefOf, onKey, onOpen, ...rest }: TableProps<T>): ReactNode {
  const own = useColumns(name);
  const open = (row: T): void => {
    if (hrefOf !== undefined) navigate(hrefOf(row));
    onKey?.(rest.keyOf(row));
    onOpen?.(row);
  };
  return <DataTable {...rest} onOpen={open} layout={layout ?? own} />;
}

/** Rows that are read page by page. */
export interface Rows<T> extends Asked {
  readonly rows: readonly T[] | undefined;
  readonly hasNextPage: boolean;
  readonly onEnd: () => void;
  /** How many there are, if the server counts them. */
  readonly total: number | undefined;
}

/** A page of a list. */
type Page<K extends string> = Readonly<Record<K, readonly unknown[]>> & { readonly total?: number | undefined };

/** The rows that the pages of a list have under a name. */
export function useRows<K extends string, P extends Page<K>>(
  list: UseInfiniteQueryResult<InfiniteData<P>>,
  name: K,
): Rows<P[K][number]> {
  const { data, error, refetch, hasNextPage } = list;
  const rows = useMemo(() => data?.pages.flatMap((page) => page[name]), [data, name]);
  const onEnd = useNextPage(list, rows?.length);
  return { rows, error, refetch, hasNextPage, onEnd, total: data?.pages[0]?.total };
}

interface PagedTableProps<T> extends Omit<TableProps<T>, "rows" | "onEnd"> {
  readonly list: Rows<T>;
  /** Shown if there are no rows. */
  readonly empty: ReactNode;
  /** The row that is open. */
  readonly panel?: ReactNode;
}

/** A table of rows that are read page by page; with it, why they could not be read. */
export function PagedTable<T>({ list, empty, panel, ...rest }: PagedTableProps<T>): ReactNode {
  const { rows, error, refetch, hasNextPage, onEnd } = list;
  return (
    <>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : (
        <Beside panel={panel}>
          {rows.length === 0 && !hasNextPage ? empty : <Table {...rest} rows={rows} onEnd={onEnd} />}
        </Beside>
      )}
    </>
  );
}

/** A view, and a panel beside it; on a narrow screen, below it. */
export function Beside({
  panel,
  className = "flex min-h-0 flex-1 flex-col lg:flex-row",
  children,
}: {
  readonly panel: ReactNode;
  readonly className?: string;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div className={className}>
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">{children}</div>
      {panel}
    </div>
  );
}

interface SidePanelProps {
  /** What the panel shows, in a word: "Case". */
  readonly kind: string;
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
}

/** The chosen row of a list, beside it; on a narrow screen, below it. */
export function SidePanel({ kind, title, onClose, children }: SidePanelProps): ReactNode {
  return (
    <aside
      aria-label={kind}
      className="flex min-h-0 shrink-0 flex-col gap-3 overflow-y-auto border-agent-border p-4 text-sm max-lg:max-h-[60%] max-lg:border-t lg:w-104 lg:border-l"
    >
      <div className="flex items-start justify-between gap-2">
        <h2 className="min-w-0 font-semibold wrap-anywhere">{title}</h2>
        <CloseButton label={`Close the ${kind.toLowerCase()}`} onClose={onClose} />
      </div>
      {children}
    </aside>
  );
}

/** A cross that closes a panel. */
export function CloseButton({ label, onClose }: { readonly label: string; readonly onClose: () => void }): ReactNode {
  return (
    <button type="button" aria-label={label} className={classes(BUTTONS.quiet, "px-1.5")} onClick={onClose}>
      <X aria-hidden size={16} />
    </button>
  );
}

/** Rows that the server counts one by one. */
const COUNTED_MAX = 10_000;

interface ListedProps {
  readonly count: number;
  readonly noun: string;
  readonly hasMore: boolean;
  /** How many there are, as the server counts: up to one more than `COUNTED_MAX`. */
  readonly total?: number | undefined;
}

/** How many rows of a list are here. */
export function Listed({ count, noun, hasMore, total }: ListedProps): ReactNode {
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

/** The page of a list of runs or sessions: the server finds, sorts and pages its rows, and the address is the view. */
import { ColumnMenu, DataTable, useColumns, type TableColumn } from "@windlass/ui";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { ExportButton } from "./bulk.js";
import { Filters, isFiltered } from "./filters.js";
import { Empty, Failure, Heading, Listed, Loading, TextLink, useNow } from "./parts.js";
import { useNextPage, type Pages } from "./queries.js";
import { navigate, to, useQueryState } from "./router.js";
import { useKeys } from "./shell.js";

/** The view that the address names. While a person types, it follows as fast as the list can be drawn. */
export function useView<T>(viewOf: (query: URLSearchParams) => T): T {
  const [query] = useQueryState();
  const address = useDeferredValue(query.toString());
  return useMemo(() => viewOf(new URLSearchParams(address)), [viewOf, address]);
}

interface ListPageProps<T extends object> {
  /** The first part of its address. */
  readonly list: "runs" | "sessions";
  readonly title: string;
  readonly noun: string;
  /** The view; rows that are chosen belong to it. */
  readonly view: { readonly filter: { readonly sort?: string | undefined; readonly ascending?: boolean | undefined } };
  /** The column that rows are sorted by if the address names none. */
  readonly sortedBy: string;
  readonly pages: Pages & { readonly error: Error | null; readonly refetch: () => Promise<unknown> };
  readonly rows: readonly T[] | undefined;
  /** How many rows there are, as the server counts. */
  readonly total: number | undefined;
  readonly idOf: (row: T) => string;
  readonly columnsAt: (nowMs: number) => readonly TableColumn<T>[];
  /** Buttons for the chosen rows; there is at least one. */
  readonly actions: (chosen: readonly T[], clear: () => void) => ReactNode;
  /** Shown if there are no rows at all. */
  readonly empty: ReactNode;
}

export function ListPage<T extends object>(props: ListPageProps<T>): ReactNode {
  const { list, title, noun, view, sortedBy, pages, rows, total, idOf, columnsAt, actions, empty } = props;
  const { error, refetch, hasNextPage } = pages;
  const [query, change] = useQueryState();
  const layout = useColumns(list);
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => {
      search.current?.focus();
    },
  });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const clear = (): void => {
    setChosen(new Set());
  };
  useEffect(clear, [view]);
  const onEnd = useNextPage(pages, rows?.length);
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [columnsAt, now]);
  const picked = rows?.filter((row) => chosen.has(idOf(row))) ?? [];
  return (
    <>
      <Heading
        title={title}
        facts={rows !== undefined && <Listed count={rows.length} noun={noun} hasMore={hasNextPage} total={total} />}
      >
        <div className="flex flex-wrap items-center gap-2">
          <ExportButton name={list} chosen={picked} all={rows} />
          {picked.length > 0 && actions(picked, clear)}
          <ColumnMenu columns={columns} layout={layout} />
        </div>
      </Heading>
      <Filters list={list} query={query} change={change} search={search} />
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : rows.length > 0 || hasNextPage ? (
        <DataTable
          label={title}
          rows={rows}
          columns={columns}
          keyOf={idOf}
          onOpen={(row) => {
            navigate(to([list, idOf(row)]));
          }}
          sort={{ id: view.filter.sort ?? sortedBy, isAscending: view.filter.ascending === true }}
          onSort={({ id, isAscending }) => {
            change({ sort: id === sortedBy ? undefined : id, up: isAscending ? 1 : undefined });
          }}
          chosen={chosen}
          onChoose={setChosen}
          onEnd={onEnd}
          layout={layout}
        />
      ) : isFiltered(query) ? (
        <Empty title={`No ${noun} fits.`}>
          <p>
            {query.has("text") && "Search looks at the beginnings of words in messages, answers and names of tools. "}
            <TextLink href={`/${list}`}>Show all {noun}s</TextLink>
          </p>
        </Empty>
      ) : (
        empty
      )}
    </>
  );
}

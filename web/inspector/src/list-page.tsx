/** The page of a list of runs or sessions: the server finds, sorts and pages its rows, and the address is the view. */
import { Button, ColumnMenu, plural, useColumns, type TableColumn } from "@windlass/ui";
import { useDeferredValue, useEffect, useMemo, useState, type ReactNode } from "react";
import { LIST, to } from "./addresses.js";
import { client } from "./auth.js";
import { Filters, isFiltered, type ListSearch } from "./filters.js";
import { DeleteButton, download } from "./form.js";
import { Listed, PagedTable, type Rows } from "./list.js";
import { Empty, Heading, TextLink } from "./parts.js";
import { useRefresh } from "./queries.js";
import { useSearch } from "./router.js";
import { tellDone, useFindKey } from "./shell.js";

/** The view that the address names. While a person types, it follows as fast as the list can be drawn. */
export function useView<T>(viewOf: (search: ListSearch) => T): T {
  const search = useDeferredValue(useSearch(LIST)[0]);
  return useMemo(() => viewOf(search), [viewOf, search]);
}

interface ListPageProps<T extends object> {
  /** The first part of its address. */
  readonly list: "runs" | "sessions";
  readonly title: string;
  readonly noun: "run" | "session";
  /** The view; rows that are chosen belong to it. */
  readonly view: { readonly filter: { readonly sort?: string | undefined; readonly ascending?: boolean | undefined } };
  /** The column that rows are sorted by if the address names none. */
  readonly sortedBy: string;
  readonly pages: Rows<T>;
  readonly idOf: (row: T) => string;
  readonly columns: readonly TableColumn<T>[];
  /** Buttons for the chosen rows; there is at least one. */
  readonly actions: (chosen: readonly T[], clear: () => void) => ReactNode;
  /** Shown if there are no rows at all. */
  readonly empty: ReactNode;
}

export function ListPage<T extends object>(props: ListPageProps<T>): ReactNode {
  const { list, title, noun, view, sortedBy, pages, idOf, columns, actions, empty } = props;
  const { rows, hasNextPage, total } = pages;
  const [search, change] = useSearch(LIST);
  const layout = useColumns(list);
  const field = useFindKey();
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const clear = (): void => {
    setChosen(new Set());
  };
  useEffect(clear, [view]);
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
      <Filters list={list} search={field} />
      <PagedTable
        name={list}
        label={title}
        list={pages}
        columns={columns}
        keyOf={idOf}
        hrefOf={(row) => to(noun, [idOf(row)])}
        sort={{ id: view.filter.sort ?? sortedBy, isAscending: view.filter.ascending === true }}
        onSort={({ id, isAscending }) => {
          change({ sort: id === sortedBy ? undefined : id, up: isAscending ? "1" : undefined });
        }}
        chosen={chosen}
        onChoose={setChosen}
        layout={layout}
        empty={isFiltered(search) ? <NoneFits list={list} noun={noun} isSearch={search.text !== undefined} /> : empty}
      />
    </>
  );
}

function NoneFits({
  list,
  noun,
  isSearch,
}: Pick<ListPageProps<object>, "list" | "noun"> & { readonly isSearch: boolean }): ReactNode {
  return (
    <Empty title={`No ${noun} fits.`}>
      <p>
        {isSearch && "Search looks at the beginnings of words in messages, answers and names of tools. "}
        <TextLink href={to(list)}>Show all {noun}s</TextLink>
      </p>
    </Empty>
  );
}

interface ExportButtonProps {
  /** The name of the file, without its ending. */
  readonly name: string;
  readonly chosen: readonly object[];
  readonly all: readonly object[] | undefined;
}

/** Writes rows into a file, a line of JSON each: the chosen ones, or all that are here. */
function ExportButton({ name, chosen, all }: ExportButtonProps): ReactNode {
  const rows = chosen.length > 0 ? chosen : (all ?? []);
  return (
    <Button
      disabled={rows.length === 0}
      onClick={() => {
        download(rows.map((row) => `${JSON.stringify(row)}\n`).join(""), `${name}.jsonl`, "application/x-ndjson");
      }}
    >
      Export{chosen.length > 0 ? ` ${chosen.length}` : ""}
    </Button>
  );
}

interface DeleteSessionsProps {
  /** How many rows are chosen: several may be of one session. */
  readonly count: number;
  readonly sessionIds: readonly string[];
  readonly onDone: () => void;
  /** A sentence that says which data is deleted. */
  readonly children: ReactNode;
}

/** Deletes sessions, after a question. */
export function DeleteSessions({ count, sessionIds, onDone, children }: DeleteSessionsProps): ReactNode {
  const refresh = useRefresh(["runs"], ["sessions"]);
  const remove = async (): Promise<void> => {
    try {
      for (const sessionId of sessionIds)
        // A session of a subagent goes with that of its caller, which may have been deleted before it.
        await client.sessions.delete(sessionId).catch((error: unknown) => {
          if (!(error instanceof Error && "kind" in error && error.kind === "not_found")) throw error;
        });
    } finally {
      void refresh();
    }
    tellDone(`Deleted ${plural(sessionIds.length, "session")}.`);
    onDone();
  };
  return (
    <DeleteButton label={`Delete ${count}`} title={`Delete ${plural(sessionIds.length, "session")}?`} onDelete={remove}>
      <p>{children} It cannot be undone. A session with a run under way is not deleted: cancel the run first.</p>
    </DeleteButton>
  );
}

/** All runs: found, sorted and paged by the server; the address is the view. */
import { useInfiniteQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import {
  ColumnMenu,
  DataTable,
  formatCost,
  formatDuration,
  formatShort,
  plural,
  shortId,
  useColumns,
  type TableColumn,
  type TableSort,
} from "@windlass/ui";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { AddToDataset } from "../add-to-dataset.js";
import { DeleteSessions, ExportButton } from "../bulk.js";
import { Filters, isFiltered, sharedView } from "../filters.js";
import {
  Ago,
  ButtonLink,
  Crashes,
  Empty,
  Failure,
  Heading,
  Listed,
  Loading,
  RowLink,
  RunStatus,
  TextLink,
  useNow,
} from "../parts.js";
import { runsQuery, useNextPage, type RunView } from "../queries.js";
import { navigate, to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

/** What the server is asked for by an address. */
export function viewOf(query: URLSearchParams): RunView {
  const { time, filter, values } = sharedView(query);
  return {
    time,
    filter: {
      ...filter,
      durationMin: values.number("seconds", 1_000),
      subagents: query.get("subagents") === "1" ? undefined : false,
      sort: values.one("sort", ["duration", "cost"]),
    },
  };
}

export function RunsPage(): ReactNode {
  const [query, change] = useQueryState();
  const layout = useColumns("runs");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const search = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => {
      search.current?.focus();
    },
  });
  const address = useDeferredValue(query.toString());
  const view = useMemo(() => viewOf(new URLSearchParams(address)), [address]);
  const list = useInfiniteQuery(runsQuery(view));
  const { data, error, refetch, hasNextPage } = list;
  const rows = useMemo(() => data?.pages.flatMap(({ runs }) => runs), [data]);
  useEffect(() => {
    setChosen(new Set());
  }, [address]);
  const onEnd = useNextPage(list, rows?.length);
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [now]);
  const picked = rows?.filter(({ runId }) => chosen.has(runId)) ?? [];
  const sessions = [...new Set(picked.map(({ sessionId }) => sessionId))];
  const sort: TableSort = { id: view.filter.sort ?? "started", isAscending: view.filter.ascending === true };
  return (
    <>
      <Heading
        title="Runs"
        facts={
          rows !== undefined && (
            <Listed count={rows.length} noun="run" hasMore={hasNextPage} total={data?.pages[0]?.total} />
          )
        }
      >
        <div className="flex flex-wrap items-center gap-2">
          <ExportButton name="runs" chosen={picked} all={rows} />
          {picked.length === 2 && (
            <ButtonLink href={to(["diff", picked[1]?.runId ?? "", picked[0]?.runId ?? ""])}>Compare the two</ButtonLink>
          )}
          {picked.length > 0 && <AddToDataset runIds={picked.map(({ runId }) => runId)} />}
          {picked.length > 0 && (
            <DeleteSessions
              count={picked.length}
              sessionIds={sessions}
              onDone={() => {
                setChosen(new Set());
              }}
            >
              A run is a part of its session: {plural(sessions.length, "session")} with all runs, records and files are
              deleted.
            </DeleteSessions>
          )}
          <ColumnMenu columns={columns} layout={layout} />
        </div>
      </Heading>
      <Filters list="runs" query={query} change={change} search={search} />
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : rows.length === 0 && !hasNextPage ? (
        <NoRuns isFiltered={isFiltered(query)} isSearch={query.has("text")} />
      ) : (
        <DataTable
          label="Runs"
          rows={rows}
          columns={columns}
          keyOf={({ runId }) => runId}
          onOpen={({ runId }) => {
            navigate(to(["runs", runId]));
          }}
          sort={sort}
          onSort={({ id, isAscending }) => {
            change({ sort: id === "started" ? undefined : id, up: isAscending ? 1 : undefined });
          }}
          chosen={chosen}
          onChoose={setChosen}
          onEnd={onEnd}
          layout={layout}
        />
      )}
    </>
  );
}

const COLORLESS = "text-agent-muted";

function columnsAt(now: number): readonly TableColumn<RunRow>[] {
  return [
    {
      id: "input",
      label: "Input",
      width: 130,
      share: 1,
      cell: ({ runId, input }) => <RowLink href={to(["runs", runId])}>{input || shortId(runId)}</RowLink>,
    },
    {
      id: "output",
      label: "Output, or what it waits for",
      width: 170,
      share: 1,
      fromPx: 860,
      cell: ({ output }) => (
        <span className={COLORLESS} title={output}>
          {output}
        </span>
      ),
    },
    { id: "agent", label: "Agent", width: 76, fromPx: 640, cell: ({ agentId }) => agentId },
    {
      id: "status",
      label: "Status",
      width: 192,
      cell: (run) => (
        <span className="flex items-center gap-1.5">
          <RunStatus run={run} />
          <Crashes count={run.crashes ?? 0} isShort />
        </span>
      ),
    },
    {
      id: "duration",
      label: "Time",
      width: 86,
      isNumber: true,
      isSortable: true,
      fromPx: 560,
      cell: (run) => (spanOf(run, now) === undefined ? "–" : formatDuration(spanOf(run, now) ?? 0)),
    },
    {
      id: "tokens",
      label: "Tokens",
      width: 68,
      isNumber: true,
      fromPx: 760,
      cell: ({ usage }) => {
        const tokens = (usage.inputTokens ?? 0) + (usage.outputTokens ?? 0);
        return tokens === 0 ? "–" : formatShort(tokens);
      },
    },
    {
      id: "cost",
      label: "Cost",
      width: 74,
      isNumber: true,
      isSortable: true,
      fromPx: 700,
      cell: ({ usage }) => (usage.costMicros === undefined ? "–" : formatCost(usage.costMicros)),
    },
    {
      id: "feedback",
      label: "Feedback",
      width: 92,
      fromPx: 1_080,
      cell: ({ rating = 0, tags = [] }) => (
        <span title={tags.join(", ")}>
          {rating !== 0 && (rating > 0 ? "+1 " : "−1 ")}
          <span className={COLORLESS}>{tags.join(", ")}</span>
        </span>
      ),
    },
    {
      id: "error",
      label: "Error",
      width: 130,
      isHidden: true,
      cell: ({ error = "" }) => error.replaceAll("_", " "),
    },
    {
      id: "version",
      label: "Version",
      width: 110,
      isHidden: true,
      cell: ({ packageFingerprint = "" }) => <code className="font-mono text-xs">{shortId(packageFingerprint)}</code>,
    },
    {
      id: "run",
      label: "Run",
      width: 110,
      isHidden: true,
      cell: ({ runId }) => <code className="font-mono text-xs">{shortId(runId)}</code>,
    },
    {
      id: "started",
      label: "Started",
      width: 96,
      isSortable: true,
      fromPx: 480,
      cell: ({ at = "", startedAt = at }) => (startedAt === "" ? "–" : <Ago at={startedAt} nowMs={now} />),
    },
  ];
}

/** How long a run took, or has been going on; undefined while it is queued. */
function spanOf({ startedAt, endedAt }: RunRow, now: number): number | undefined {
  if (startedAt === undefined) return undefined;
  return Math.max(0, (endedAt === undefined ? now : Date.parse(endedAt)) - Date.parse(startedAt));
}

function NoRuns({ isFiltered, isSearch }: { readonly isFiltered: boolean; readonly isSearch: boolean }): ReactNode {
  return isFiltered ? (
    <Empty title="No run fits.">
      <p>
        {isSearch && "Search looks at the beginnings of words in messages, answers and names of tools. "}
        <TextLink href="/runs">Show all runs</TextLink>
      </p>
    </Empty>
  ) : (
    <Empty title="There are no runs yet.">
      <p>
        Each message to an agent begins a run. <TextLink href="/chat">Begin one in the chat</TextLink>
      </p>
    </Empty>
  );
}

/** All runs: found, sorted and paged by the server; the address is the view. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { ErrorKind } from "@windlass/protocol";
import type { RunRow } from "@windlass/protocol/client";
import {
  classes,
  ColumnMenu,
  DataTable,
  FIELD,
  FOCUS,
  formatCost,
  formatDuration,
  formatShort,
  formatWhen,
  plural,
  shortId,
  useColumns,
  type TableColumn,
  type TableSort,
} from "@windlass/ui";
import { Popover } from "radix-ui";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { AddToDataset } from "../add-to-dataset.js";
import { DeleteSessions, ExportButton } from "../bulk.js";
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
  Select,
  statusWords,
  TextLink,
  useNow,
  WAITS,
} from "../parts.js";
import { agentsQuery, approvalsQuery, runsQuery, type RunView } from "../queries.js";
import { Link, navigate, to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

const TIMES = [
  ["", "any time"],
  ["1h", "last hour"],
  ["24h", "last 24 h"],
  ["7d", "last 7 days"],
  ["30d", "last 30 days"],
] as const;
const STATUSES = ["pending", "running", "waiting", "completed", "failed", "cancelled", "budget_exhausted"] as const;
const MICROS = 1_000_000;

/** Views that many people want; each is an address. */
const VIEWS = [
  ["Needs me", { waits: "person" }],
  ["Failed today", { status: "failed", time: "24h" }],
  ["Expensive", { time: "7d", sort: "cost" }],
  ["Survived a crash", { crashed: "1" }],
  ["Thumbs down", { feedback: "down" }],
] as const;

/** The filters of an address, with the words of their chips. */
const CHIPS: readonly (readonly [name: string, words: (value: string) => string])[] = [
  ["status", (value) => `status: ${statusWords(value)}`],
  ["waits", (value) => WAITS.get(value) ?? `waits for ${value}`],
  ["agent", (value) => `agent: ${value}`],
  ["version", (value) => `version: ${shortId(value)}`],
  ["tag", (value) => `tag: ${value}`],
  ["cost", (value) => `cost ≥ $${value}`],
  ["seconds", (value) => `time ≥ ${value} s`],
  ["error", (value) => (value === "any" ? "any error" : `error: ${value.replaceAll("_", " ")}`)],
  ["feedback", (value) => (value === "none" ? "no feedback" : `thumb ${value}`)],
  ["crashed", (value) => (value === "1" ? "survived a crash" : "without a crash")],
  ["since", (value) => `since ${formatWhen(value)}`],
  ["until", (value) => `until ${formatWhen(value)}`],
];
const FILTERS = [...CHIPS.map(([name]) => name), "text", "time"];

/** What the server is asked for by an address; values that no one wrote here are left out. */
export function viewOf(query: URLSearchParams): RunView {
  const text = (name: string): string | undefined => query.get(name)?.trim() || undefined;
  const number = (name: string, factor: number): number | undefined => {
    const value = Number(text(name));
    return text(name) === undefined || !Number.isFinite(value) || value < 0 ? undefined : Math.round(value * factor);
  };
  const one = <T extends string>(name: string, known: readonly T[]): T | undefined =>
    known.find((value) => value === query.get(name));
  const moment = (name: string): string | undefined => {
    const at = Date.parse(text(name) ?? "");
    return Number.isNaN(at) ? undefined : new Date(at).toISOString();
  };
  return {
    time: one("time", ["1h", "24h", "7d", "30d"]),
    filter: {
      since: moment("since"),
      until: moment("until"),
      text: text("text"),
      status: one("status", STATUSES),
      waitsOn: text("waits"),
      agent: text("agent"),
      version: text("version"),
      tag: text("tag"),
      costMin: number("cost", MICROS),
      durationMin: number("seconds", 1_000),
      error: text("error"),
      feedback: one("feedback", ["up", "down", "none"]),
      crashed: query.get("crashed") === null ? undefined : query.get("crashed") === "1",
      subagents: query.get("subagents") === "1" ? undefined : false,
      sort: one("sort", ["duration", "cost"]),
      ascending: query.get("up") === "1" ? true : undefined,
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
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(runsQuery(view));
  const rows = useMemo(() => data?.pages.flatMap(({ runs }) => runs), [data]);
  useEffect(() => {
    setChosen(new Set());
  }, [address]);
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const now = useNow();
  const columns = useMemo(() => columnsAt(now), [now]);
  const picked = rows?.filter(({ runId }) => chosen.has(runId)) ?? [];
  const sessions = [...new Set(picked.map(({ sessionId }) => sessionId))];
  const sort: TableSort = { id: view.filter.sort ?? "started", isAscending: view.filter.ascending === true };
  const isFiltered = FILTERS.some((name) => query.has(name));
  return (
    <>
      <Heading
        title="Runs"
        facts={rows !== undefined && <Listed count={rows.length} noun="run" hasMore={hasNextPage} />}
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
      <Filters query={query} change={change} search={search} />
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : rows.length === 0 && !hasNextPage ? (
        <NoRuns isFiltered={isFiltered} />
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

interface FiltersProps {
  readonly query: URLSearchParams;
  readonly change: ReturnType<typeof useQueryState>[1];
  readonly search: { readonly current: HTMLInputElement | null };
}

const CHIP =
  "inline-flex min-h-7 items-center gap-1 rounded-full border border-agent-border bg-agent-surface px-2.5 text-xs font-medium whitespace-nowrap";

/** Search, time, the filters as chips, and the views. */
function Filters({ query, change, search }: FiltersProps): ReactNode {
  const { data: waiting } = useQuery(approvalsQuery);
  const clear = Object.fromEntries(FILTERS.map((name) => [name, undefined]));
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
      <input
        ref={search}
        type="search"
        aria-label="Search input, output and tools"
        placeholder="Search input, output, tools  /"
        className={classes(FIELD, "w-72! max-sm:w-full!")}
        value={query.get("text") ?? ""}
        onChange={(event) => {
          change({ text: event.target.value });
        }}
      />
      <Select
        label="Time"
        value={query.get("time") ?? ""}
        options={TIMES}
        onChange={(time) => {
          change({ time });
        }}
      />
      {CHIPS.map(([name, words]) => {
        const value = query.get(name);
        return value === null ? null : (
          <button
            key={name}
            type="button"
            className={classes(CHIP, "cursor-pointer hover:bg-agent-raised", FOCUS)}
            onClick={() => {
              change({ [name]: undefined });
            }}
          >
            {words(value)} <span aria-hidden>×</span>
            <span className="sr-only">, remove</span>
          </button>
        );
      })}
      <MoreFilters query={query} change={change} />
      <nav aria-label="Views" className="flex flex-wrap items-center gap-2">
        <span className="text-xs text-agent-muted">Views:</span>
        {VIEWS.map(([label, wanted]) => {
          const isCurrent = Object.entries(wanted).every(([name, value]) => query.get(name) === value);
          const count = label === "Needs me" ? (waiting?.requests.length ?? 0) : 0;
          return (
            <Link
              key={label}
              href={to(["runs"], { ...clear, ...wanted })}
              aria-current={isCurrent ? "true" : undefined}
              className={classes(
                CHIP,
                FOCUS,
                isCurrent ? "border-transparent bg-agent-accent/10! text-agent-accent-text" : "hover:bg-agent-raised",
              )}
            >
              {label}
              {count > 0 && <span className="tabular-nums">{count}</span>}
            </Link>
          );
        })}
      </nav>
    </div>
  );
}

/** A form of all filters; each takes effect at once. */
function MoreFilters({ query, change }: Omit<FiltersProps, "search">): ReactNode {
  const { data: agents = [] } = useQuery(agentsQuery);
  const set = (name: string) => (value: string) => {
    change({ [name]: value });
  };
  const choice = (label: string, name: string, options: readonly (readonly [string, string])[]): ReactNode => (
    <Select label={label} value={query.get(name) ?? ""} options={[["", "–"], ...options]} onChange={set(name)} />
  );
  const field = (label: string, name: string, isNumber = false): ReactNode => (
    <label className="inline-flex items-center gap-2 text-xs text-agent-muted">
      {label}
      <input
        type={isNumber ? "number" : "text"}
        min={0}
        step="any"
        className={classes(FIELD, "w-40!")}
        value={query.get(name) ?? ""}
        onChange={(event) => {
          set(name)(event.target.value);
        }}
      />
    </label>
  );
  return (
    <Popover.Root>
      <Popover.Trigger className={classes(CHIP, "cursor-pointer hover:bg-agent-raised", FOCUS)}>
        + filter
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="start"
          sideOffset={4}
          aria-label="Filters"
          className="z-20 flex max-h-[70vh] flex-col items-end gap-2 overflow-auto rounded-md border border-agent-border bg-agent-bg p-3 text-agent-text shadow-lg"
        >
          {choice(
            "Status",
            "status",
            STATUSES.map((one) => [one, statusWords(one)]),
          )}
          {choice("Waits for", "waits", [...WAITS])}
          {choice(
            "Agent",
            "agent",
            agents.map(({ agentId }) => [agentId, agentId]),
          )}
          {field("Version", "version")}
          {field("Tag", "tag")}
          {field("Dollars at least", "cost", true)}
          {field("Seconds at least", "seconds", true)}
          {choice(
            "Error",
            "error",
            ERRORS.map((one) => [one, one === "any" ? "any error" : one.replaceAll("_", " ")]),
          )}
          {choice("Feedback", "feedback", [
            ["up", "thumb up"],
            ["down", "thumb down"],
            ["none", "none"],
          ])}
          {choice("Crashes", "crashed", [
            ["1", "survived one"],
            ["0", "none"],
          ])}
          {choice("Subagents", "subagents", [["1", "included"]])}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

/** Every kind of error that the wire knows. */
const ERRORS = ["any", ...ErrorKind.options] as const;

const COLORLESS = "text-agent-muted";

function columnsAt(now: number): readonly TableColumn<RunRow>[] {
  return [
    {
      id: "input",
      label: "Input",
      width: 130,
      share: 3,
      cell: ({ runId, input }) => <RowLink href={to(["runs", runId])}>{input || shortId(runId)}</RowLink>,
    },
    {
      id: "output",
      label: "Outcome",
      width: 150,
      share: 2,
      fromPx: 860,
      cell: ({ output }) => (
        <span className={COLORLESS} title={output}>
          {output}
        </span>
      ),
    },
    { id: "agent", label: "Agent", width: 84, fromPx: 640, cell: ({ agentId }) => agentId },
    {
      id: "status",
      label: "Status",
      width: 196,
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
      width: 72,
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
      width: 76,
      isNumber: true,
      isSortable: true,
      fromPx: 700,
      cell: ({ usage }) => (usage.costMicros === undefined ? "–" : formatCost(usage.costMicros)),
    },
    {
      id: "feedback",
      label: "Feedback",
      width: 100,
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
      width: 100,
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

function NoRuns({ isFiltered }: { readonly isFiltered: boolean }): ReactNode {
  return isFiltered ? (
    <Empty title="No run fits.">
      <p>
        Search looks at the beginnings of words in messages, answers and names of tools.{" "}
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

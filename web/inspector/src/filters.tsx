/** The filters of a list of runs or sessions: search, time, chips, a form and views. The address holds them. */
import { useQuery } from "@tanstack/react-query";
import { ErrorKind } from "@windlass/protocol";
import type { RunQuery } from "@windlass/protocol/client";
import { classes, FIELD, FOCUS, formatWhen, shortId } from "@windlass/ui";
import { Popover } from "radix-ui";
import type { ReactNode } from "react";
import { kindWords, Select, statusWords, WAITS } from "./parts.js";
import { agentsQuery, approvalsQuery, timeIn, type ListTime } from "./queries.js";
import { Link, to, type useQueryState } from "./router.js";

/** Times to choose from. */
export const TIMES = [
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
  ["error", (value) => (value === "any" ? "any error" : `error: ${kindWords(value)}`)],
  ["feedback", (value) => (value === "none" ? "no feedback" : `thumb ${value}`)],
  ["crashed", (value) => (value === "1" ? "survived a crash" : "without a crash")],
  ["since", (value) => `since ${formatWhen(value)}`],
  ["until", (value) => `until ${formatWhen(value)}`],
];
const FILTERS = [...CHIPS.map(([name]) => name), "text", "time"];

/** Whether an address leaves rows out. */
export function isFiltered(query: URLSearchParams): boolean {
  return FILTERS.some((name) => query.has(name));
}

/** The values of an address; values that a filter does not know are left out. */
class Values {
  constructor(private readonly query: URLSearchParams) {}

  text(name: string): string | undefined {
    return this.query.get(name)?.trim() || undefined;
  }

  number(name: string, factor: number): number | undefined {
    const text = this.text(name);
    const value = Number(text);
    return text === undefined || !Number.isFinite(value) || value < 0 ? undefined : Math.round(value * factor);
  }

  one<T extends string>(name: string, known: readonly T[]): T | undefined {
    return known.find((value) => value === this.query.get(name));
  }

  moment(name: string): string | undefined {
    const at = Date.parse(this.text(name) ?? "");
    return Number.isNaN(at) ? undefined : new Date(at).toISOString();
  }
}

/** The filter of an address, as far as runs and sessions share it. */
type SharedFilter = Pick<
  RunQuery,
  | "since"
  | "until"
  | "text"
  | "status"
  | "waitsOn"
  | "agent"
  | "version"
  | "tag"
  | "costMin"
  | "error"
  | "feedback"
  | "crashed"
  | "ascending"
>;

/** The part of a view that both lists share. */
export function sharedView(query: URLSearchParams): {
  readonly time: ListTime | undefined;
  readonly filter: SharedFilter;
  readonly values: Values;
} {
  const values = new Values(query);
  return {
    values,
    time: timeIn(query.get("time")),
    filter: {
      since: values.moment("since"),
      until: values.moment("until"),
      text: values.text("text"),
      status: values.one("status", STATUSES),
      waitsOn: values.text("waits"),
      agent: values.text("agent"),
      version: values.text("version"),
      tag: values.text("tag"),
      costMin: values.number("cost", MICROS),
      error: values.text("error"),
      feedback: values.one("feedback", ["up", "down", "none"]),
      crashed: query.get("crashed") === null ? undefined : query.get("crashed") === "1",
      ascending: query.get("up") === "1" ? true : undefined,
    },
  };
}

interface FiltersProps {
  /** The list: the first part of its address. */
  readonly list: "runs" | "sessions";
  readonly query: URLSearchParams;
  readonly change: ReturnType<typeof useQueryState>[1];
  readonly search: { readonly current: HTMLInputElement | null };
}

const CHIP =
  "inline-flex min-h-7 items-center gap-1 rounded-full border border-agent-border bg-agent-surface px-2.5 text-xs font-medium whitespace-nowrap";

/** Search, time, the filters as chips, and the views. */
export function Filters({ list, query, change, search }: FiltersProps): ReactNode {
  const { data: waiting } = useQuery(approvalsQuery);
  const clear = Object.fromEntries(FILTERS.map((name) => [name, undefined]));
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
      <input
        ref={search}
        type="search"
        aria-label="Search messages, answers and names of tools"
        title="Beginnings of words in messages, answers, questions and names of tools"
        placeholder="Search messages, answers, tools  /"
        className={classes(FIELD, "w-72! max-sm:w-full!")}
        value={query.get("text") ?? ""}
        onChange={(event) => {
          change({ text: event.target.value });
        }}
      />
      <Select
        label="Time"
        isLabelHidden
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
      <MoreFilters list={list} query={query} change={change} />
      <nav aria-label="Views" className="flex flex-wrap items-center gap-2">
        <span className="text-xs text-agent-muted">Views:</span>
        {VIEWS.map(([label, wanted]) => {
          const isCurrent = Object.entries(wanted).every(([name, value]) => query.get(name) === value);
          const count = label === "Needs me" ? (waiting?.requests.length ?? 0) : 0;
          return (
            <Link
              key={label}
              href={to([list], { ...clear, ...wanted })}
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
function MoreFilters({ list, query, change }: Omit<FiltersProps, "search">): ReactNode {
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
          {list === "runs" && field("Seconds at least", "seconds", true)}
          {choice(
            "Error",
            "error",
            ERRORS.map((one) => [one, one === "any" ? "any error" : kindWords(one)]),
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

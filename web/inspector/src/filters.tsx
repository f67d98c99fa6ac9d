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
const THUMBS = ["up", "down", "none"] as const;
const MICROS = 1_000_000;

/** Views that many people want; each is an address. */
const VIEWS = [
  ["Needs me", { waits: "person" }],
  ["Failed today", { status: "failed", time: "24h" }],
  ["Expensive", { time: "7d", sort: "cost" }],
  ["Survived a crash", { crashed: "1" }],
  ["Thumbs down", { feedback: "down" }],
] as const;

/** The filters of an address, with the words of their chips, and the values that count: others are left out. */
const CHIPS: readonly (readonly [
  name: string,
  words: (value: string) => string,
  isKnown?: (value: string) => boolean,
])[] = [
  ["status", (value) => `status: ${statusWords(value)}`, (value) => STATUSES.some((one) => one === value)],
  ["waits", (value) => WAITS.get(value) ?? `waits for ${value}`],
  ["agent", (value) => `agent: ${value}`],
  ["version", (value) => `version: ${shortId(value)}`],
  ["tag", (value) => `tag: ${value}`],
  ["cost", (value) => `cost ≥ $${value}`, (value) => amountOf(value) !== undefined],
  ["seconds", (value) => `time ≥ ${value} s`, (value) => amountOf(value) !== undefined],
  ["error", (value) => (value === "any" ? "any error" : `error: ${kindWords(value)}`)],
  [
    "feedback",
    (value) => (value === "none" ? "no feedback" : `thumb ${value}`),
    (value) => THUMBS.some((one) => one === value),
  ],
  ["crashed", (value) => (value === "1" ? "survived a crash" : "without a crash")],
  ["since", (value) => `since ${formatWhen(value)}`, isMoment],
  ["until", (value) => `until ${formatWhen(value)}`, isMoment],
];
const FILTERS = [...CHIPS.map(([name]) => name), "text", "time"];

/** Whether an address leaves rows out. */
export function isFiltered(query: URLSearchParams): boolean {
  return FILTERS.some((name) => query.has(name));
}

/** The filters of an address that count, in words. */
export function chipsOf(query: URLSearchParams): readonly (readonly [name: string, words: string])[] {
  return CHIPS.flatMap(([name, words, isKnown = () => true]) => {
    const value = query.get(name);
    return value === null || !isKnown(value) ? [] : [[name, words(value)] as const];
  });
}

function amountOf(text: string): number | undefined {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) || value < 0 ? undefined : value;
}

function isMoment(text: string): boolean {
  return !Number.isNaN(Date.parse(text));
}

/** A moment as a field of date and time has it: in local time, to the minute; empty if it is none. */
export function fieldTime(text: string | null): string {
  if (text === null || !isMoment(text)) return "";
  const at = new Date(text);
  const two = (number: number): string => String(number).padStart(2, "0");
  const day = `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The values of an address; values that a filter does not know are left out. */
class Values {
  constructor(private readonly query: URLSearchParams) {}

  text(name: string): string | undefined {
    return this.query.get(name)?.trim() || undefined;
  }

  number(name: string, factor: number): number | undefined {
    const value = amountOf(this.query.get(name) ?? "");
    return value === undefined ? undefined : Math.round(value * factor);
  }

  one<T extends string>(name: string, known: readonly T[]): T | undefined {
    return known.find((value) => value === this.query.get(name));
  }

  moment(name: string): string | undefined {
    const text = this.query.get(name);
    return text === null || !isMoment(text) ? undefined : new Date(text).toISOString();
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
      feedback: values.one("feedback", THUMBS),
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
          change({ time, since: undefined, until: undefined });
        }}
      />
      {chipsOf(query).map(([name, words]) => (
        <button
          key={name}
          type="button"
          className={classes(CHIP, "cursor-pointer hover:bg-agent-raised", FOCUS)}
          onClick={() => {
            change({ [name]: undefined });
          }}
        >
          {words} <span aria-hidden>×</span>
          <span className="sr-only">, remove</span>
        </button>
      ))}
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
  const moment = (label: string, name: "since" | "until"): ReactNode => (
    <label className="inline-flex items-center gap-2 text-xs text-agent-muted">
      {label}
      <input
        type="datetime-local"
        max="9999-12-31T23:59"
        className={classes(FIELD, "w-48!")}
        value={fieldTime(query.get(name))}
        onChange={({ target: { value } }) => {
          // "last 24 h" and a moment both say from when on: the newer choice counts.
          change({ time: undefined, [name]: isMoment(value) ? new Date(value).toISOString() : undefined });
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
          {moment("Started from", "since")}
          {moment("Started until", "until")}
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

/** The filters of a list of runs or sessions: search, time, chips, a form and views. The address holds them. */
import { useQuery } from "@tanstack/react-query";
import { ErrorKind } from "@windlass/protocol";
import type { RunsListQuery } from "@windlass/protocol/client";
import { classes, FIELD, FOCUS, formatWhen, shortId } from "@windlass/ui";
import { Popover } from "radix-ui";
import type { ReactNode, RefObject } from "react";
import { isMoment, LIST, STATUSES, to } from "./addresses.js";
import { choices, Input, SearchField, Select } from "./form.js";
import { kindWords, statusWords, WAITS } from "./parts.js";
import { agentsQuery, approvalsQuery } from "./queries.js";
import { Link, useSearch, type Search } from "./router.js";

/** The view of a list, as its address has it. */
export type ListSearch = Search<typeof LIST>;

/** Times to choose from. */
export const TIME_CHOICES = [
  ["", "any time"],
  ["1h", "last hour"],
  ["24h", "last 24 h"],
  ["7d", "last 7 days"],
  ["30d", "last 30 days"],
] as const;
const MICROS = 1_000_000;

/** Views that many people want; each is an address. */
const VIEWS: readonly (readonly [label: string, wanted: Partial<ListSearch>])[] = [
  ["Needs me", { waits: "person" }],
  ["Failed today", { status: "failed", time: "24h" }],
  ["Expensive", { time: "7d", sort: "cost" }],
  ["Survived a crash", { crashed: "1" }],
  ["Thumbs down", { feedback: "down" }],
];

/** The filters of an address, with the words of their chips; a value that does not count has none. */
const CHIPS: readonly (readonly [name: keyof ListSearch, words: (value: string) => string | undefined])[] = [
  ["status", (value) => `status: ${statusWords(value)}`],
  ["waits", (value) => WAITS.get(value) ?? `waits for ${value}`],
  ["agent", (value) => `agent: ${value}`],
  ["version", (value) => `version: ${shortId(value)}`],
  ["tag", (value) => `tag: ${value}`],
  ["cost", (value) => (amountIn(value) === undefined ? undefined : `cost ≥ $${value}`)],
  ["seconds", (value) => (amountIn(value) === undefined ? undefined : `time ≥ ${value} s`)],
  ["error", (value) => (value === "any" ? "any error" : `error: ${kindWords(value)}`)],
  ["feedback", (value) => (value === "none" ? "no feedback" : `thumb ${value}`)],
  ["crashed", (value) => (value === "1" ? "survived a crash" : "without a crash")],
  ["since", (value) => `since ${formatWhen(value)}`],
  ["until", (value) => `until ${formatWhen(value)}`],
];

/** Whether an address leaves rows out. */
export function isFiltered(search: ListSearch): boolean {
  return [...CHIPS.map(([name]) => name), "text" as const, "time" as const].some((name) => search[name] !== undefined);
}

/** The filters of an address that count, in words. */
export function chipsOf(search: ListSearch): readonly (readonly [name: keyof ListSearch, words: string])[] {
  return CHIPS.flatMap(([name, textOf]) => {
    const value = search[name];
    const text = value === undefined ? undefined : textOf(value);
    return text === undefined ? [] : [[name, text] as const];
  });
}

/** An amount, times a factor; undefined if the text is none. */
export function amountIn(text = "", factor = 1): number | undefined {
  const value = Number(text);
  return text.trim() === "" || !Number.isFinite(value) || value < 0 ? undefined : Math.round(value * factor);
}

/** A moment as a field of date and time has it: in local time, to the minute; empty if it is none. */
export function fieldTime(text: string | undefined): string {
  if (text === undefined || !isMoment(text)) return "";
  const at = new Date(text);
  const two = (number: number): string => String(number).padStart(2, "0");
  const day = `${String(at.getFullYear()).padStart(4, "0")}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** The filter of an address, as far as runs and sessions share it. */
export function sharedFilter(search: ListSearch) {
  const trimmed = (text: string | undefined): string | undefined => text?.trim() || undefined;
  const exact = (text: string | undefined): string | undefined => text && new Date(text).toISOString();
  return {
    since: exact(search.since),
    until: exact(search.until),
    text: trimmed(search.text),
    status: search.status,
    // The server refuses other words.
    waitsOn: trimmed(search.waits) as RunsListQuery["waitsOn"],
    agent: trimmed(search.agent),
    version: trimmed(search.version),
    tag: trimmed(search.tag),
    costMin: amountIn(search.cost, MICROS),
    error: trimmed(search.error) as RunsListQuery["error"],
    feedback: search.feedback,
    crashed: search.crashed && search.crashed === "1",
    ascending: search.up === "1" ? true : undefined,
  } satisfies RunsListQuery;
}

interface FiltersProps {
  /** The list: the first part of its address. */
  readonly list: "runs" | "sessions";
  readonly search: RefObject<HTMLInputElement | null>;
}

const CHIP =
  "inline-flex min-h-7 items-center gap-1 rounded-full border border-agent-border bg-agent-surface px-2.5 text-xs font-medium whitespace-nowrap";

/** Search, time, the filters as chips, and the views. */
export function Filters({ list, search: field }: FiltersProps): ReactNode {
  const [search, change, set] = useSearch(LIST);
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
      <SearchField
        ref={field}
        label="Search messages, answers and names of tools"
        title="Beginnings of words in messages, answers, questions and names of tools"
        placeholder="Search messages, answers, tools  /"
        className={classes(FIELD, "w-72! max-sm:w-full!")}
        value={search.text ?? ""}
        onChange={set("text")}
      />
      <Select
        label="Time"
        isLabelHidden
        value={search.time}
        options={TIME_CHOICES}
        onChange={(time) => {
          change({ time, since: undefined, until: undefined });
        }}
      />
      {chipsOf(search).map(([name, text]) => (
        <button
          key={name}
          type="button"
          className={classes(CHIP, "cursor-pointer hover:bg-agent-raised", FOCUS)}
          onClick={set(name, undefined)}
        >
          {text} <span aria-hidden>×</span>
          <span className="sr-only">, remove</span>
        </button>
      ))}
      <MoreFilters list={list} />
      <Views list={list} />
    </div>
  );
}

function Views({ list }: Pick<FiltersProps, "list">): ReactNode {
  const [search] = useSearch(LIST);
  const { data: waiting } = useQuery(approvalsQuery);
  return (
    <nav aria-label="Views" className="flex flex-wrap items-center gap-2">
      <span className="text-xs text-agent-muted">Views:</span>
      {VIEWS.map(([label, view]) => {
        const names = Object.keys(view) as (keyof ListSearch)[];
        const isCurrent = names.every((name) => search[name] === view[name]);
        const count = label === "Needs me" ? (waiting?.requests.length ?? 0) : 0;
        return (
          <Link
            key={label}
            href={to(list, [], view)}
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
  );
}

/** Every kind of error that the wire knows. */
const ERRORS = ["any", ...ErrorKind.options] as const;
const NONE = ["", "–"] as const;

/** A form of all filters; each takes effect at once. */
function MoreFilters({ list }: Pick<FiltersProps, "list">): ReactNode {
  const [search, , set] = useSearch(LIST);
  const { data: agents = [] } = useQuery(agentsQuery);
  const statuses = STATUSES.map((status) => [status, statusWords(status)] as const);
  const errors = ERRORS.map((kind): [string, string] => [kind, kind === "any" ? "any error" : kindWords(kind)]);
  const ids = agents.map(({ agentId }) => agentId);
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
          <Select label="Status" value={search.status} options={[NONE, ...statuses]} onChange={set("status")} />
          <Select label="Waits for" value={search.waits} options={[NONE, ...WAITS]} onChange={set("waits")} />
          <Select label="Agent" value={search.agent} options={choices("–", ids)} onChange={set("agent")} />
          <Moment label="Started from" name="since" />
          <Moment label="Started until" name="until" />
          <Wanted label="Version" name="version" />
          <Wanted label="Tag" name="tag" />
          <Wanted label="Dollars at least" name="cost" type="number" />
          {list === "runs" && <Wanted label="Seconds at least" name="seconds" type="number" />}
          <Select label="Error" value={search.error} options={[NONE, ...errors]} onChange={set("error")} />
          <Select
            label="Feedback"
            value={search.feedback}
            options={[NONE, ["up", "thumb up"], ["down", "thumb down"], ["none", "none"]]}
            onChange={set("feedback")}
          />
          <Select
            label="Crashes"
            value={search.crashed}
            options={[NONE, ["1", "survived one"], ["0", "none"]]}
            onChange={set("crashed")}
          />
          <Select
            label="Subagents"
            value={search.subagents}
            options={[NONE, ["1", "included"]]}
            onChange={set("subagents")}
          />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

const ROW = "inline-flex items-center gap-2 text-xs text-agent-muted";

interface WantedProps {
  readonly label: string;
  readonly name: "version" | "tag" | "cost" | "seconds";
  readonly type?: "text" | "number";
}

function Wanted({ label, name, type = "text" }: WantedProps): ReactNode {
  const [search, , set] = useSearch(LIST);
  const value = search[name] ?? "";
  return (
    <label className={ROW}>
      {label}
      <Input type={type} min={0} step="any" className={classes(FIELD, "w-40!")} value={value} onChange={set(name)} />
    </label>
  );
}

function Moment({ label, name }: { readonly label: string; readonly name: "since" | "until" }): ReactNode {
  const [search, change] = useSearch(LIST);
  return (
    <label className={ROW}>
      {label}
      <Input
        type="datetime-local"
        max="9999-12-31T23:59"
        className={classes(FIELD, "w-48!")}
        value={fieldTime(search[name])}
        onChange={(value) => {
          // "last 24 h" and a moment both say from when on: the newer choice counts.
          change({ time: undefined, [name]: isMoment(value) ? new Date(value).toISOString() : undefined });
        }}
      />
    </label>
  );
}

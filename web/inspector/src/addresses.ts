/** The pages of the app by name: the first part of each address, and the search parameters that it takes. */
import { addressOf, count, oneOf, text, type Changes, type Params, type Parser } from "./router.js";

/** Times that end now. */
export const TIMES = ["1h", "24h", "7d", "30d"] as const;
export type ListTime = (typeof TIMES)[number];
export const STATUSES = [
  "pending",
  "running",
  "waiting",
  "completed",
  "failed",
  "cancelled",
  "budget_exhausted",
] as const;
const THUMBS = ["up", "down", "none"] as const;
const YES = oneOf(["1"]);

export function isMoment(text: string): boolean {
  return !Number.isNaN(Date.parse(text));
}

const moment: Parser<string | undefined> = (value) => (value !== undefined && isMoment(value) ? value : undefined);

/** The view of a list of runs or sessions. */
export const LIST = {
  text,
  time: oneOf(TIMES),
  status: oneOf(STATUSES),
  waits: text,
  agent: text,
  version: text,
  tag: text,
  // As they were typed: a number that is not one yet stays in its field.
  cost: text,
  seconds: text,
  error: text,
  feedback: oneOf(THUMBS),
  crashed: oneOf(["1", "0"]),
  since: moment,
  until: moment,
  subagents: YES,
  sort: text,
  up: YES,
};

/** The row that is open in the ledger of decisions, and the filter of a journal: parts of more than one page. */
export const LEDGER = { decision: text };
export const JOURNAL = { filter: text };

/** The ways to split a chart of runs, and one of calls. */
export const GROUPED = ["agent", "user", "model", "version"] as const;
export const CALLED = [...GROUPED, "tool"] as const;

/** The search parameters of each page. */
export const SEARCH = {
  approvals: { at: text, kind: text, agent: text },
  chat: { agent: text, drill: YES },
  dataset: { text, case: text },
  decisions: {
    ...LEDGER,
    view: oneOf(["failures", "versions", "proposals"]),
    agent: text,
    time: oneOf(TIMES),
    run: text,
    cause: text,
    old: text,
    new: text,
    proposal: text,
  },
  diff: { show: oneOf(["all"]) },
  experiment: {
    against: text,
    text,
    show: oneOf(["failed", "passed", "broken", "fixed"]),
    tag: text,
    case: text,
  },
  experiments: { view: oneOf(["datasets"]), agent: text, dataset: text },
  feedback: { agent: text },
  overview: {
    range: oneOf(TIMES, "24h"),
    agent: text,
    compare: oneOf(["no"]),
    "runs-by": oneOf(CALLED),
    "failed-by": oneOf(CALLED),
    "time-by": oneOf(CALLED),
    "cost-by": oneOf(GROUPED),
    "tokens-by": oneOf(GROUPED),
  },
  playground: {},
  run: {
    ...LEDGER,
    ...JOURNAL,
    view: oneOf(["trace", "timeline", "decisions", "family", "costs", "feedback", "journal"], "trace"),
    at: count,
    span: text,
  },
  runs: LIST,
  schedules: { view: oneOf(["deliveries"]), schedule: text, delivery: text, show: oneOf(["all"]) },
  session: { ...JOURNAL, view: oneOf(["chat", "journal", "runs"], "chat"), at: count },
  sessions: LIST,
} as const;

type PageName = keyof typeof SEARCH;

/** The first parts of addresses, where they are not the names of their pages. */
const PATHS: Readonly<Partial<Record<PageName, string>>> = {
  dataset: "datasets",
  experiment: "experiments",
  run: "runs",
  session: "sessions",
};

/** The address of a page: path parts may hold anything. */
export function to<N extends PageName>(
  page: N,
  path: readonly string[] = [],
  values: Changes<(typeof SEARCH)[N]> = {},
): string {
  return addressOf(`/${[PATHS[page] ?? page, ...path].map(encodeURIComponent).join("/")}`, values as Changes<Params>);
}

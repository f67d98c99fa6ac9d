/** The words of the components: English ones, others in their place, and the language of numbers and times. */
import type { CallAnswer, CallStatus, InputKind, InputOption, Note, ToolMode } from "@windlass/protocol";
import type { SessionInfo } from "@windlass/protocol/client";
import { createContext, createElement, use, useMemo, type ReactNode } from "react";
import { FORMATS, formatsOf, sentence, UNITS, type Formats } from "./format.js";
import type { PlanStep } from "./messages.js";
import type { SpanKind, SpanStatus } from "./spans.js";

/** A word with its number, which `text` has in the language of the reader: 1 run, 2 runs. */
function counted(count: number, text: string, word: string): string {
  return `${text} ${word}${count === 1 ? "" : "s"}`;
}

/** What an answer to an approval does. */
const EFFECTS: Readonly<Record<string, string>> = {
  approve: "The call runs once, with exactly these arguments.",
  approve_session: "It runs, and later calls of this tool in this session are not asked about.",
  deny: "The call is not made. The agent is told, with your reason, and goes on.",
};

const RECOVERIES: Readonly<Record<string, { readonly title: string; readonly action: string }>> = {
  retry: { title: "Run it again", action: "Run again" },
  supply: { title: "It did happen", action: "Supply result" },
  undo: { title: "Reverse it", action: "Reverse" },
  skip: { title: "Leave it", action: "Skip" },
};

const REQUESTS: Readonly<Record<InputKind, string>> = {
  approval: "Approval",
  question: "Question",
  recovery: "Interrupted call",
  authorization: "Authorization",
};

const MODES: Readonly<Record<ToolMode, string>> = {
  read: "read",
  safe_write: "safe_write",
  destructive: "destructive",
  local: "local",
  external: "external",
};

const OUTCOMES: Readonly<Record<CallAnswer["outcome"], string>> = {
  approved: "approved",
  denied: "denied",
  expired: "lapsed",
  answered: "answered",
  cancelled: "answered",
  ignored: "answered",
  invalid: "answered",
};

/**
 * Every word that components show, in English, by component.
 *
 * A text with values is a function. A count comes as a number, for the plural, and as a text with the digits of the
 * language. Texts of agents and servers come through functions too: they stay as they are unless they are replaced.
 */
export const ENGLISH = {
  units: UNITS,
  common: {
    close: "Close",
    copy: "Copy",
    copied: "Copied",
    notCopied: "Cannot copy",
    showAll: (size: string): string => `Show all ${size}`,
    /** The words of a failure of the server or the connection; `code` of a `ProtocolError` says which. */
    error: (error: Error): string => sentence(error.message),
  },
  chat: {
    title: "Chat",
    empty: "No messages yet. Write below to begin.",
    away: "Connection lost. Reconnecting; nothing is lost.",
    message: "Message",
    placeholder: "Say something",
    steerPlaceholder: "Steer the run under way",
    help: "Enter sends, Shift and Enter begins a line, Escape asks whether to stop the agent.",
    send: "Send",
    steer: "Steer",
    queue: "Queue",
    queueTitle: "Say it when the run has ended",
    resume: "Continue",
    resumeTitle: "Go on after the last finished call; no call that has a result is repeated",
    again: "Ask again",
    againTitle: (message: string): string => `Say again, in a new run: ${message}`,
    againQuestion: "Make these calls again?",
    againText:
      "A new run begins from the start. It may make these calls a second time; they were made, or may have been, and that stays.",
    againCalls: "Calls that may be repeated",
    againNo: "Do not ask",
    stop: "Stop",
    stopTitle: "Stop the run?",
    stopText: "The answer ends here, and calls that are under way are stopped. What was said and done stays.",
    stopNo: "Let it go on",
    stopYes: "Stop the run",
    attach: "Attach files",
    attachTitle: "Attach files; they may also be dropped or pasted",
    attachField: "Files to attach",
    files: "Files to send",
    removeFile: (name: string): string => `Remove ${name}`,
    filesTooLarge: (limit: string, size: string): string =>
      `Files of one message may have ${limit} together; these have ${size}. Remove some, or give the agent a way to fetch them.`,
  },
  cost: {
    used: (parts: readonly string[]): string => `Used: ${parts.join(", ")}`,
    input: (tokens: string): string => `${tokens} in`,
    output: (tokens: string): string => `${tokens} out`,
    calls: (count: number, text: string): string => counted(count, text, "call"),
    budget: "Part of the budget that is used",
  },
  messages: {
    label: "Conversation",
    earlier: "Earlier messages",
    newest: "Newest",
    asks: (prompt: string): string => `The agent asks: ${prompt}`,
    byUser: "You said",
    byAgent: "The agent said",
    partial: "The agent began to say",
    cutOff: "The answer was cut off here.",
    copy: "Copy message",
    attachments: "Attachments",
    thinking: "Thinking…",
    reasoning: "Reasoning",
    /** A failure of a run; its `code` says which, and it is passing if the run goes on. */
    error: ({ text, isPassing }: Extract<Note, { kind: "error" }>): string =>
      isPassing ? `${sentence(text)} Retrying.` : sentence(text),
    cancelled: (text: string): string => text,
    survived: "survived a crash",
    recovered: (count: number, text: string): string =>
      `The process of this run ended in the middle. Another one goes on from its records. ${counted(count, text, "record")} were kept, and no call that had a result was made again.`,
    compacted: "Older messages were summarised for the model.",
  },
  calls: {
    unnamed: "a tool",
    of: (name: string): string => `Calls of ${name}`,
    status: {
      writing: "being written",
      requested: "requested",
      waiting: "waits for approval",
      running: "running",
      succeeded: "done",
      failed: "failed",
      denied: "denied",
      stopped: "stopped",
      abandoned: "never finished",
    } as Readonly<Record<CallStatus, string>>,
    /** The status of a call that was under way when its run ended. */
    unknown: "stopped: may have happened",
    /** What a waiting call waits for. */
    waits: {
      approval: "waits for approval",
      question: "waits for an answer",
      recovery: "interrupted: may have happened",
      authorization: "waits for authorization",
    } as Readonly<Record<InputKind, string>>,
    modes: MODES,
    outcomes: OUTCOMES,
    /** What a person said about a call. */
    answer: (outcome: string, isChanged: boolean, by: string | undefined): string =>
      `${outcome}${isChanged ? " with changes" : ""}${by === undefined ? "" : ` by ${by}`}`,
    answeredAt: (when: string, text: string | undefined): string =>
      `A person answered at ${when}${text === undefined ? "" : `: ${text}`}`,
    arguments: "Arguments",
    partial: "So far",
    result: "Result",
    stopped: "Stopped",
    error: "Error",
    session: (id: string): string => `Session ${id}`,
  },
  plan: {
    title: "Plan",
    done: (done: string, all: string): string => `${done} of ${all} done`,
    status: { pending: "pending", running: "running", completed: "completed", failed: "failed" } as Readonly<
      Record<PlanStep["status"], string>
    >,
  },
  markdown: {
    done: "done",
    toDo: "to do",
    table: "table",
    code: "code",
    footnotes: "Footnotes",
    leadsTo: (host: string): string => `[leads to ${host}]`,
    image: (description: string): string => (description === "" ? "[image]" : `[image: ${description}]`),
  },
  requests: {
    approve: (tool: string): string => `Approve ${tool}?`,
    approveChanged: "Approve with changes",
    arguments: "Arguments",
    argumentsOf: (tool: string): string => `Arguments of ${tool}`,
    edit: "Edit",
    undo: "Undo changes",
    notJson: "Expected JSON, such as 12, true or [1, 2]; a number of more than 15 digits may not be exact.",
    changed:
      "Changed arguments are checked by the tool and by policy. The journal keeps who changed them, and the agent is told.",
    reason: "Reason (optional)",
    question: "The agent asks",
    answers: "Answers",
    yourAnswer: "Your answer",
    answer: "Answer",
    /** An option of a request; the server names it in English. */
    option: ({ label }: InputOption): string => label,
    /** What an option means, in more words. */
    about: ({ description = "" }: InputOption): string => description,
    /** What happens after an answer. */
    effect: ({ id, description }: InputOption, isChanged: boolean): string =>
      isChanged && id === "approve"
        ? "The call runs once, with your arguments instead of its own."
        : (description ?? EFFECTS[id] ?? ""),
    /** An answer about an interrupted call: what it amounts to, and what its button says. */
    recoveryTitle: ({ id, label }: InputOption): string => RECOVERIES[id]?.title ?? label,
    recoveryAction: ({ id, label }: InputOption): string => RECOVERIES[id]?.action ?? label,
    happened: (tool: string): string => `Did ${tool} happen?`,
    call: "The call",
    known: "What is known",
    begun: "begun",
    /** Without an age it was less than a minute ago. */
    begunAt: (when: string, age: string | undefined): string =>
      `${when} (${age === undefined ? "just now" : `${age} ago`})`,
    attempt: "attempt",
    key: "key sent",
    approvedBy: "approved by",
    approvedAt: (by: string | undefined, when: string): string => `${by ?? "a person"}, ${when}`,
    result: "result",
    noResult: "not in the journal: the process ended before it",
    unknown: "unknown",
    supply: "Its result, as JSON or text",
    lapsesAt: (when: string): string => `Lapses at ${when}`,
    lapsed: "This request has lapsed.",
    notSent: "The answer did not get through.",
  },
  trace: {
    empty: "No spans yet.",
    none: "No span fits.",
    spans: "Spans",
    find: "Find in trace",
    findPlaceholder: "/ find in trace",
    errors: (text: string): string => `errors ${text}`,
    nextError: "next error",
    fold: "fold waits",
    follow: "follow live",
    zoom: "Zoom",
    zoomOut: "Zoom out",
    zoomIn: "Zoom in",
    zoomAll: "Show all time",
    key: (label: string, key: string): string => `${label} (${key})`,
    count: (count: number, text: string): string => counted(count, text, "span"),
    countOf: (shown: string, all: string): string => `${shown} of ${all}`,
    tokensColumn: "Tokens",
    costColumn: "Cost",
    timeColumn: "Time",
    tokens: "tokens",
    attempt: (text: string): string => `attempt ${text}`,
    kinds: { agent: "agent", model: "model", tool: "tool", code: "code", wait: "wait", other: "other" } as Readonly<
      Record<SpanKind, string>
    >,
    status: {
      running: "running",
      waiting: "waiting",
      interrupted: "interrupted",
      done: "done",
      failed: "failed",
      denied: "denied",
      stopped: "stopped",
      skipped: "skipped",
    } as Readonly<Record<SpanStatus, string>>,
    modelCall: (text: string | undefined): string => (text === undefined ? "Model call" : `Model call ${text}`),
    waits: REQUESTS,
    wait: "Wait",
    waitOf: (wait: string, tool: string): string => `${wait}: ${tool}`,
    subagent: "subagent",
    steps: (count: number, text: string): string => counted(count, text, "step"),
    calls: (count: number, text: string): string => counted(count, text, "call"),
    cached: (text: string): string => `cache ${text} %`,
    thinking: (tokens: string): string => `thinking ${tokens}`,
    once: "once",
    modes: MODES,
    outcomes: {
      approved: "approved",
      denied: "denied",
      expired: "expired",
      answered: "answered",
      cancelled: "cancelled",
      ignored: "ignored",
      invalid: "invalid",
    } as Readonly<Record<CallAnswer["outcome"], string>>,
    by: (responder: string): string => `by ${responder}`,
    approvedBy: (responder: string | undefined, waited: string): string =>
      `approved${responder === undefined ? "" : ` by ${responder}`} after ${waited}`,
    /** What a run waits for; other words are shown as they are. */
    waitsOn: {
      input: "a person",
      recovery: "a decision about an interrupted call",
      subagent: "a subagent",
      provider: "the provider",
      timer: "a timer",
      budget: "a budget",
    } as Readonly<Record<string, string>>,
    waitsFor: (what: string): string => `waits for ${what}`,
    waitsUntil: (waits: string, moment: string): string => `${waits} until ${moment}`,
  },
  events: {
    label: "Events",
    filter: "Filter by type",
    rows: (label: string, count: number, text: string): string => `${label}: ${counted(count, text, "row")}`,
  },
  sessions: {
    label: "Sessions",
    empty: "No sessions yet.",
    untitled: "Untitled",
    /** The status of a session that asks a person. */
    waitsForYou: "waiting for you",
    status: {
      idle: "idle",
      pending: "queued",
      running: "running",
      waiting: "waiting",
      cancelling: "cancelling",
      completed: "completed",
      failed: "failed",
      cancelled: "cancelled",
      budget_exhausted: "budget used up",
    } as Readonly<Record<NonNullable<SessionInfo["status"]>, string>>,
  },
  decisions: {
    chose: "Chose",
    noOutcome: "No outcome yet.",
    worked: "It worked",
    failed: "It failed",
    aligned: "It served the goal.",
    notAligned: "It did not serve the goal.",
    better: (option: string | undefined): string => `Better: ${option ?? "another option"}.`,
    others: (count: number, text: string): string => counted(count, text, "other option"),
    sure: (text: string): string => `${text} % sure`,
  },
  table: {
    columns: "Columns",
    reset: "As it was",
    chooseAll: "Choose all rows",
    choose: "Choose this row",
    width: (column: string): string => `Width of ${column}`,
  },
};

/** The words of all components. */
export type Labels = typeof ENGLISH;

type Some<T> = T extends (...args: never[]) => unknown
  ? T
  : T extends object
    ? { readonly [K in keyof T]?: Some<T[K]> | undefined }
    : T;

/** Words in the place of English ones; those that are left out stay. */
export type SomeLabels = Some<Labels>;

/** The words and formats of the components below a provider. */
export interface Wording extends Formats {
  readonly labels: Labels;
  /** The language of numbers and times; English when absent. */
  readonly locale: string | undefined;
}

/** English, with the formats of the browser's language. */
export const WORDING: Wording = { labels: ENGLISH, locale: undefined, ...FORMATS };

const WordingContext = createContext<Wording>(WORDING);

/**
 * Gives words, and a language for numbers and times, to the components below.
 *
 * What is left out is that of the provider around it, or else English. Give the same object each time: all components
 * are drawn again when it changes.
 */
export function LabelsProvider({
  labels,
  locale,
  children,
}: {
  readonly labels?: SomeLabels | undefined;
  /** A language tag, such as `de` or `pt-BR`. */
  readonly locale?: string | undefined;
  readonly children?: ReactNode;
}): ReactNode {
  const around = useWording();
  const value = useMemo(() => {
    const all = merged(around.labels, labels) as Labels;
    const language = locale ?? around.locale;
    return { labels: all, locale: language, ...formatsOf(language, all.units) };
  }, [around, labels, locale]);
  return createElement(WordingContext, { value }, children);
}

/** The words of the nearest provider, and formats in its language; English without one. */
export function useWording(): Wording {
  return use(WordingContext);
}

function merged(base: object, some: object | undefined): object {
  if (some === undefined) return base;
  const before = new Map<string, unknown>(Object.entries(base));
  for (const [name, value] of Object.entries(some) as [string, unknown][]) {
    const own = before.get(name);
    if (value === undefined) continue;
    before.set(name, typeof own === "object" && own !== null ? merged(own, value as object) : value);
  }
  return Object.fromEntries(before);
}

/** The label of a word that the protocol may know and this version does not: then it is the word itself. */
export function labelOf(labels: Readonly<Record<string, string>>, word: string): string {
  return Object.hasOwn(labels, word) ? (labels[word] ?? word) : word;
}

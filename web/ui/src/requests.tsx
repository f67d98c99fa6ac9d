/** Approvals and questions: the cards that show them, and the hook that lists them. */
import {
  actionName,
  parse,
  type CallAnswer,
  type InputOption,
  type InputRequest,
  type InputResponse,
  type JsonObject,
  type JsonValue,
} from "@windlass/protocol";
import { RadioGroup } from "radix-ui";
import { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import type { Approval } from "@windlass/protocol/client";
import { undisguised } from "./format.js";
import { Markdown } from "./markdown.js";
import { ENGLISH, useWording } from "./labels.js";
import { useAsync, useErrorUntil } from "./data.js";
import { Button } from "./primitives.js";
import { BUTTONS, CARD, classes, FIELD, FOCUS } from "./styles.js";
import { useSession, useTransport } from "./session.js";
import type { Transport } from "./transport.js";

/** Facts of the journal about a call that was begun. */
export interface KnownCall {
  /** What a person said about it before it was begun. */
  readonly answer?: CallAnswer | undefined;
  /** When it was begun last. */
  readonly startedAt?: string | undefined;
  /** How often it was begun. */
  readonly attempt?: number | undefined;
  readonly idempotencyKey?: string | undefined;
}

/** A request, and who takes the answer. */
export interface RequestCardProps {
  readonly request: InputRequest;
  /** What is known about an interrupted call. */
  readonly known?: KnownCall | undefined;
  /** Takes the answer; the card says so if it rejects. */
  readonly onAnswer: (response: InputResponse) => Promise<void> | void;
  /** The moment, in milliseconds since 1970; that of the machine when absent. */
  readonly nowMs?: number | undefined;
  /** Number of reconnects: the error of a failed answer is shown until the next one. */
  readonly reconnects?: number | undefined;
  /** Whether it stands inside of a frame already, and draws none of its own. */
  readonly isBare?: boolean | undefined;
  /** Stands before the title, on a page about this request alone. */
  readonly pill?: ReactNode;
}

/** The options of an approval that names none. */
const APPROVAL_OPTIONS: readonly InputOption[] = [
  { id: "approve", label: "Approve", style: "primary" },
  { id: "deny", label: "Deny", style: "danger" },
];

/** An approval as an ApprovalCard, an interrupted call as an InterruptedCard, anything else as a QuestionCard. */
export function RequestCard(props: RequestCardProps): ReactNode {
  if (props.request.kind === "recovery") return <InterruptedCard {...props} />;
  return isApproval(props.request) ? <ApprovalCard {...props} /> : <QuestionCard {...props} />;
}

function isApproval({ kind, options, display }: InputRequest): boolean {
  if (kind !== undefined) return kind === "approval";
  return display === "confirmation" || (options ?? []).some(({ id }) => id === "approve");
}

/** The option that takes the result of the call as text. */
const SUPPLY = "supply";

/**
 * Asks what became of a call that was begun and has no result.
 *
 * It shows the call, what is known about it, and what each answer does and risks.
 */
export function InterruptedCard(props: RequestCardProps): ReactNode {
  const { requests: labels } = useWording().labels;
  const { request, known: facts = {}, pill } = props;
  const { state, send, nowMs } = useAnswer(props);
  const [isSupplying, setIsSupplying] = useState(false);
  const [result, setResult] = useState("");
  const tool = actionName(request.action);
  const box = pill === undefined ? BOX : CARD_BOX;
  const options = (request.options ?? []).toSorted((option, other) => rankOf(option) - rankOf(other));
  return (
    <Frame {...props} title={labels.happened(tool)} words={request.prompt} state={state}>
      <div className="grid gap-3 @lg:grid-cols-2">
        <Part title={labels.call} className={box}>
          <Fields value={request.action.input} label={labels.argumentsOf(tool)} />
        </Part>
        <Part title={labels.known} className={box}>
          <Known known={facts} nowMs={nowMs} />
        </Part>
      </div>
      <ul
        aria-label={labels.answers}
        className={classes("grid gap-3", options.length === 4 ? "@2xl:grid-cols-2" : "@2xl:grid-cols-3")}
      >
        {options.map((option) => {
          const action = labels.recoveryAction(option);
          const isOpen = option.id === SUPPLY && isSupplying;
          // A call that ended its process more than once is not one to run again without a thought.
          const isMain = option.id === RETRY && (facts.attempt ?? 1) === 1 && !isSupplying;
          return (
            <li key={option.id} className={classes(box, "flex flex-col gap-2")}>
              <p className="text-sm font-semibold">{labels.recoveryTitle(option)}</p>
              <p className="text-sm text-agent-muted">{labels.about(option)}</p>
              {isOpen && (
                <Words
                  label={labels.supply}
                  value={result}
                  onChange={setResult}
                  isDisabled={state.isDone}
                  rows={3}
                  isFocused
                />
              )}
              <button
                type="button"
                className={classes(BUTTONS[isMain || isOpen ? "primary" : "default"], "mt-auto self-start")}
                disabled={state.isDone || (isOpen && result.trim() === "")}
                onClick={() => {
                  if (option.id !== SUPPLY) send({ optionId: option.id });
                  else if (isSupplying) send({ optionId: SUPPLY, text: result });
                  else setIsSupplying(true);
                }}
              >
                {option.id === SUPPLY && !isSupplying ? `${action}…` : action}
              </button>
            </li>
          );
        })}
      </ul>
    </Frame>
  );
}

function Known({ known: facts, nowMs }: { readonly known: KnownCall; readonly nowMs: number }): ReactNode {
  const {
    labels: { requests: labels },
    formatMoment,
    formatDuration,
    formatCount,
  } = useWording();
  const { startedAt, attempt, idempotencyKey, answer } = facts;
  const minutes = Math.floor((nowMs - Date.parse(startedAt ?? "")) / MINUTE_MS);
  return (
    <Facts
      facts={[
        [
          labels.begun,
          startedAt === undefined ? (
            labels.unknown
          ) : (
            <time dateTime={startedAt}>
              {labels.begunAt(
                formatMoment(startedAt, nowMs),
                minutes < 1 ? undefined : formatDuration(minutes * MINUTE_MS),
              )}
            </time>
          ),
        ],
        [labels.attempt, attempt === undefined ? labels.unknown : formatCount(attempt)],
        [labels.key, <code key="key">{idempotencyKey ?? labels.unknown}</code>],
        ...(answer?.outcome === "approved"
          ? [[labels.approvedBy, labels.approvedAt(answer.by, formatMoment(answer.at, nowMs))] as const]
          : []),
        [labels.result, labels.noResult],
      ]}
    />
  );
}

const BOX = "rounded-lg bg-agent-surface p-3";
const CARD_BOX = classes(CARD, "p-3.5");
const RETRY = "retry";
/** The order of the answers: what sends something first, what leaves the call alone last. */
const RANKS: readonly string[] = [RETRY, SUPPLY, "undo", "skip"];

function rankOf({ id }: InputOption): number {
  const rank = RANKS.indexOf(id);
  return rank === -1 ? RANKS.length : rank;
}

function Part({
  title,
  className,
  children,
}: {
  readonly title: string;
  readonly className: string;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div className={className}>
      <p className="mb-2 text-xs font-semibold text-agent-muted">{title}</p>
      {children}
    </div>
  );
}

/** Facts in two columns: name and value. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [label: string, value: ReactNode])[];
}): ReactNode {
  return (
    <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 text-sm">
      {facts.map(([label, value]) => (
        <div key={label} className="contents">
          <dt className="text-agent-muted">{label}</dt>
          <dd className="min-w-0 wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The fields of a value by name, each character as it is; a value without fields as JSON. */
export function Fields({ value, label }: { readonly value: JsonValue; readonly label: string }): ReactNode {
  const { formatExactly, visible } = useWording();
  const names = typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : [];
  return (
    <div role="group" aria-label={label} tabIndex={0} className={classes("max-h-96 overflow-auto rounded", FOCUS)}>
      {names.length === 0 ? (
        <pre className="font-mono text-xs whitespace-pre-wrap wrap-anywhere">{formatExactly(value)}</pre>
      ) : (
        <dl className="grid grid-cols-[minmax(4rem,auto)_1fr] gap-x-4 gap-y-1 text-xs">
          {names.map(([name, inner]) => (
            <div key={name} className="contents">
              <dt className="font-mono wrap-anywhere text-agent-muted">{visible(name)}</dt>
              <dd className="min-w-0 font-mono whitespace-pre-wrap wrap-anywhere">
                {typeof inner === "string" ? `“${visible(inner)}”` : formatExactly(inner)}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </div>
  );
}

/** Arguments that a person may change before the call is approved. */
export interface ArgumentDraft {
  readonly isOpen: boolean;
  readonly open: () => void;
  readonly close: () => void;
  /** The text of each field: a text as itself, anything else as JSON. */
  readonly texts: ReadonlyMap<string, string>;
  readonly set: (name: string, text: string) => void;
  /** The arguments as they are written; undefined while they are closed, unchanged or not readable. */
  readonly changed: JsonObject | undefined;
  /** Fields that hold no JSON. */
  readonly unreadable: readonly string[];
}

/** A draft of changed arguments, for a call with named arguments. */
export function useArgumentDraft(input: JsonValue): ArgumentDraft {
  const proposed = useMemo(() => (isObject(input) ? input : {}), [input]);
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>();
  const read = useMemo(() => readDraft(proposed, texts), [proposed, texts]);
  return {
    isOpen: texts !== undefined,
    open: () => {
      setTexts(new Map(Object.entries(proposed).map(([name, value]) => [name, draftOf(value)])));
    },
    close: () => {
      setTexts(undefined);
    },
    texts: texts ?? new Map<string, string>(),
    set: (name, text) => {
      setTexts((before) => new Map(before).set(name, text));
    },
    ...read,
  };
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function draftOf(value: JsonValue | undefined): string {
  return typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

function readDraft(
  proposed: JsonObject,
  texts: ReadonlyMap<string, string> | undefined,
): Pick<ArgumentDraft, "changed" | "unreadable"> {
  const values = new Map<string, JsonValue>();
  const unreadable: string[] = [];
  for (const [name, text] of texts ?? []) {
    // A text stays a text, written without quotes: "12" in place of a name is no number.
    const isText = typeof proposed[name] === "string";
    const value = isText ? text : parsed(text);
    if (value === undefined) unreadable.push(name);
    else values.set(name, value);
  }
  const changed = Object.fromEntries(values);
  const isChanged = texts !== undefined && unreadable.length === 0 && !isSame(changed, proposed);
  return { changed: isChanged ? changed : undefined, unreadable };
}

/** By the codec: a number that would be rounded, and a name that comes twice, are not what the person has written. */
function parsed(text: string): JsonValue | undefined {
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/** Arguments as fields: read until they are opened, then written. */
export function Arguments({
  input,
  draft,
  label,
  isDisabled = false,
}: {
  readonly input: JsonValue;
  readonly draft: ArgumentDraft;
  readonly label: string;
  readonly isDisabled?: boolean | undefined;
}): ReactNode {
  const id = useId();
  const { labels, visible } = useWording();
  if (!draft.isOpen) return <Fields value={input} label={label} />;
  return (
    <div role="group" aria-label={label} className="flex flex-col gap-2">
      {[...draft.texts].map(([name, text], at) => {
        const isBad = draft.unreadable.includes(name);
        return (
          <div key={name} className="grid grid-cols-[minmax(4rem,8rem)_1fr] items-start gap-x-4">
            <label htmlFor={`${id}-${at}`} className="pt-1.5 font-mono text-xs wrap-anywhere text-agent-muted">
              {visible(name)}
            </label>
            <div>
              <textarea
                id={`${id}-${at}`}
                rows={Math.min(text.split("\n").length, ROWS_MAX)}
                // The first field, opened by the person who writes into it.
                autoFocus={at === 0}
                className={classes(FIELD, "font-mono text-xs!")}
                value={text}
                disabled={isDisabled}
                aria-invalid={isBad}
                onChange={(event) => {
                  draft.set(name, event.target.value);
                }}
              />
              {isBad && <p className="text-xs text-agent-danger-text">{labels.requests.notJson}</p>}
            </div>
          </div>
        );
      })}
      <p className="text-xs text-agent-muted">{labels.requests.changed}</p>
    </div>
  );
}

const ROWS_MAX = 12;

/** The button that opens arguments for changes, and closes them; nothing for a call without names in its arguments. */
export function EditButton({
  input,
  draft,
  isDisabled = false,
}: {
  readonly input: JsonValue;
  readonly draft: ArgumentDraft;
  readonly isDisabled?: boolean | undefined;
}): ReactNode {
  const { edit, undo } = useWording().labels.requests;
  if (!isObject(input) || Object.keys(input).length === 0) return null;
  return (
    <Button
      variant="quiet"
      className="min-h-6! px-1.5! py-0! text-xs!"
      disabled={isDisabled}
      onClick={draft.isOpen ? draft.close : draft.open}
    >
      {draft.isOpen ? undo : edit}
    </Button>
  );
}

/** The effect of an answer, in English. */
export function effectOf(option: InputOption, isChanged = false): string {
  return ENGLISH.requests.effect(option, isChanged);
}

/**
 * Asks for consent to exactly one call.
 *
 * It shows the arguments as they will be used, and the answer carries their digest: consent to something else does
 * not count. They may be changed first; the answer then carries the changed ones too.
 */
export function ApprovalCard(props: RequestCardProps): ReactNode {
  const labels = useWording().labels.requests;
  const { request } = props;
  const { state, send } = useAnswer(props);
  const [reason, setReason] = useState("");
  const { action } = request;
  const draft = useArgumentDraft(action.input);
  const options = (request.options ?? APPROVAL_OPTIONS).filter(({ id }) => !draft.isOpen || id !== "approve_session");
  const tool = actionName(action);
  return (
    <Frame {...props} title={labels.approve(tool)} words={wordsOf(request)} state={state}>
      <div className="rounded-lg bg-agent-surface px-3 py-2">
        <div className="flex items-center justify-between text-xs font-semibold text-agent-muted">
          <span>{labels.arguments}</span>
          <EditButton input={action.input} draft={draft} isDisabled={state.isDone} />
        </div>
        <Arguments input={action.input} draft={draft} label={labels.argumentsOf(tool)} isDisabled={state.isDone} />
      </div>
      {request.allowFreeform === true && (
        <Words label={labels.reason} value={reason} onChange={setReason} isDisabled={state.isDone} rows={1} />
      )}
      <div className="flex flex-wrap gap-2">
        {options.map((option) => (
          <button
            key={option.id}
            type="button"
            className={BUTTONS[option.style ?? "default"]}
            disabled={state.isDone || (option.id === "approve" && draft.unreadable.length > 0)}
            title={labels.effect(option, draft.changed !== undefined)}
            onClick={() => {
              send({
                optionId: option.id,
                text: reason === "" ? undefined : reason,
                arguments: option.id === "approve" ? draft.changed : undefined,
              });
            }}
          >
            {option.id === "approve" && draft.changed !== undefined ? labels.approveChanged : labels.option(option)}
          </button>
        ))}
      </div>
    </Frame>
  );
}

/**
 * Why consent is asked for: the words of a request without the name of the tool and the arguments.
 *
 * Those are shown beside it. Anything else that stands in the words stays.
 */
export function wordsOf({ prompt, action }: InputRequest): string {
  const end = prompt.indexOf("\n");
  const isTwice = end !== -1 && isSame(readBack(prompt.slice(end + 1)), action.input);
  const question = isTwice ? prompt.slice(0, end) : prompt;
  const title = `Run ${actionName(action)}? `;
  return undisguised(question.startsWith(title) ? question.slice(title.length) : question);
}

/** Arguments as they stand in the words of a request, with blanks and characters that were made visible. */
function readBack(text: string): JsonValue | undefined {
  const plain = text
    .replace(/\\\[([\d,]+) spaces\]/gu, (_, count: string) =>
      " ".repeat(Math.min(Number(count.replaceAll(",", "")), text.length)),
    )
    .replace(/\\U([0-9a-f]{8})/gu, (escape, code: string) =>
      parseInt(code, 16) <= 0x10ffff ? String.fromCodePoint(parseInt(code, 16)) : escape,
    );
  try {
    return JSON.parse(plain) as JsonValue;
  } catch {
    return undefined;
  }
}

function isSame(first: JsonValue | undefined, second: JsonValue | undefined): boolean {
  return (
    first !== undefined && second !== undefined && JSON.stringify(sorted(first)) === JSON.stringify(sorted(second))
  );
}

/** The value with the keys of all objects sorted. */
function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([left], [other]) => (left < other ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]),
  );
}

/** Asks a question: options to pick from, words, or both. */
export function QuestionCard(props: RequestCardProps): ReactNode {
  const labels = useWording().labels.requests;
  const { request } = props;
  const { state, send } = useAnswer(props);
  const [optionId, setOptionId] = useState("");
  const [text, setText] = useState("");
  const options = request.options ?? [];
  const takesWords = request.allowFreeform === true || request.display === "text" || options.length === 0;
  const isEmpty = optionId === "" && text.trim() === "";
  return (
    <Frame {...props} title={labels.question} words={<Markdown text={request.prompt} />} state={state}>
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isEmpty)
            send({ optionId: optionId === "" ? undefined : optionId, text: text.trim() === "" ? undefined : text });
        }}
      >
        {options.length > 0 && (
          <Options options={options} value={optionId} onChange={setOptionId} isDisabled={state.isDone} />
        )}
        {takesWords && (
          <Words label={labels.yourAnswer} value={text} onChange={setText} isDisabled={state.isDone} rows={2} />
        )}
        <div>
          <button type="submit" className={BUTTONS.primary} disabled={state.isDone || isEmpty}>
            {labels.answer}
          </button>
        </div>
      </form>
    </Frame>
  );
}

interface AnswerState {
  /** Whether an answer is on its way. */
  readonly isSent: boolean;
  readonly isDone: boolean;
  readonly isExpired: boolean;
  readonly error: string | undefined;
}

type Given = Pick<InputResponse, "optionId" | "text" | "arguments">;

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

/** The moment: the given one, or else that of the machine, again and again. */
function useNow(fixedMs: number | undefined): number {
  const [now, setNow] = useState(Date.now);
  const isGiven = fixedMs !== undefined;
  useEffect(() => {
    if (isGiven) return;
    const timer = setInterval(() => {
      setNow(Date.now());
    }, SECOND_MS);
    return () => {
      clearInterval(timer);
    };
  }, [isGiven]);
  return fixedMs ?? now;
}

function useAnswer({ request, onAnswer, nowMs: fixedMs, reconnects = 0 }: RequestCardProps): {
  readonly state: AnswerState;
  readonly send: (answer: Given) => void;
  readonly nowMs: number;
} {
  const { labels } = useWording();
  const nowMs = useNow(fixedMs);
  const { requestId, argumentsHash, expiresAt } = request;
  const [isSent, setIsSent] = useState(false);
  const [error, setError] = useErrorUntil(reconnects);
  const isExpired = expiresAt !== undefined && Date.parse(expiresAt) <= nowMs;
  const send = (answer: Given): void => {
    setIsSent(true);
    setError(undefined);
    const response = Object.fromEntries(
      Object.entries({ requestId, argumentsHash, ...answer }).filter(([, value]) => value !== undefined),
    ) as InputResponse;
    Promise.resolve(onAnswer(response)).catch((failure: unknown) => {
      setIsSent(false);
      setError(failure instanceof Error ? failure : new Error(labels.requests.notSent));
    });
  };
  return {
    state: { isSent, isDone: isSent || isExpired, isExpired, error: error && labels.common.error(error) },
    send,
    nowMs,
  };
}

interface FrameProps extends Pick<RequestCardProps, "request" | "isBare" | "pill"> {
  readonly title: string;
  readonly words: ReactNode;
  readonly state: AnswerState;
  readonly children: ReactNode;
}

function Frame({ request, title, words: subtitle, state, isBare = false, pill, children }: FrameProps): ReactNode {
  const id = useId();
  const frame = useRef<HTMLDivElement>(null);
  const {
    labels: { requests: labels },
    formatWhen,
  } = useWording();
  const { isSent } = state;
  useEffect(() => {
    // The button that was pressed is disabled now: the focus stays here, and does not begin anew at the top of the page.
    if (isSent) frame.current?.focus({ preventScroll: true });
  }, [isSent]);
  useLayoutEffect(() => {
    const own = frame.current;
    return () => {
      if (own?.contains(document.activeElement) !== true) return;
      // The request is settled and goes: the focus goes to the call that it was about, or else to the conversation.
      const home = own.closest("[data-call]")?.querySelector("button") ?? own.closest<HTMLElement>("[role=log]");
      home?.focus({ preventScroll: true });
    };
  }, []);
  return (
    <div
      ref={frame}
      role="group"
      tabIndex={-1}
      className={classes(
        "@container flex flex-col gap-3 outline-none",
        !isBare && classes(CARD, "border-l-4 border-l-agent-warning p-4"),
      )}
      aria-labelledby={id}
    >
      <div className="flex items-center gap-2">
        {pill}
        <p
          id={id}
          className={classes("min-w-0 font-semibold break-words", pill === undefined ? "text-sm" : "text-base")}
        >
          {title}
        </p>
      </div>
      {typeof subtitle === "string" ? (
        <p
          className={classes(
            "whitespace-pre-wrap break-words text-sm empty:hidden",
            pill !== undefined && "text-agent-muted",
          )}
        >
          {subtitle}
        </p>
      ) : (
        <div className="text-sm">{subtitle}</div>
      )}
      {children}
      {request.expiresAt !== undefined && !state.isExpired && (
        <p className="text-xs text-agent-muted">
          <time dateTime={request.expiresAt}>{labels.lapsesAt(formatWhen(request.expiresAt))}</time>
        </p>
      )}
      {state.isExpired && <p className="text-sm text-agent-warning">{labels.lapsed}</p>}
      {state.error !== undefined && (
        <p role="alert" className="text-sm text-agent-danger-text">
          {state.error}
        </p>
      )}
    </div>
  );
}

interface FieldProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly isDisabled: boolean;
}

function Words({
  label,
  value,
  onChange,
  isDisabled,
  rows,
  isFocused = false,
}: FieldProps & { readonly label: string; readonly rows: number; readonly isFocused?: boolean }): ReactNode {
  const id = useId();
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-xs text-agent-muted">
        {label}
      </label>
      <textarea
        id={id}
        rows={rows}
        // Opened by the person who writes into it.
        autoFocus={isFocused}
        className={FIELD}
        value={value}
        disabled={isDisabled}
        onChange={(event) => {
          onChange(event.target.value);
        }}
      />
    </div>
  );
}

function Options({
  options,
  value,
  onChange,
  isDisabled,
}: FieldProps & { readonly options: readonly InputOption[] }): ReactNode {
  const id = useId();
  const labels = useWording().labels.requests;
  return (
    <RadioGroup.Root
      className="flex flex-col gap-2"
      value={value}
      onValueChange={onChange}
      disabled={isDisabled}
      aria-label={labels.answers}
    >
      {options.map((option) => (
        <div key={option.id} className="flex items-start gap-2 text-sm">
          <RadioGroup.Item
            id={`${id}-${option.id}`}
            value={option.id}
            className={classes(
              "mt-0.5 flex size-5 shrink-0 items-center justify-center rounded-full border border-agent-muted",
              FOCUS,
            )}
          >
            <RadioGroup.Indicator className="size-2.5 rounded-full bg-agent-accent" />
          </RadioGroup.Item>
          <label htmlFor={`${id}-${option.id}`}>
            {undisguised(labels.option(option))}
            {option.description !== undefined && (
              <span className="block text-xs text-agent-muted">{undisguised(labels.about(option))}</span>
            )}
          </label>
        </div>
      ))}
    </RadioGroup.Root>
  );
}

/** Approvals of one session, as they come, or of all sessions, polled. */
export interface ApprovalsOptions {
  readonly transport?: Transport | undefined;
  readonly sessionId?: string | undefined;
  /** How often to ask, when no session is named. */
  readonly pollMs?: number | undefined;
}

/** Requests that wait for a person. */
export interface Approvals {
  readonly approvals: readonly Approval[];
  readonly isLoading: boolean;
  readonly error: Error | undefined;
  readonly answer: (approval: Approval, response: Omit<InputResponse, "requestId">) => Promise<void>;
  readonly refresh: () => Promise<void>;
}

const POLL_MS = 5_000;
const NONE: readonly Approval[] = [];

/** The requests that wait for a person, in one session or in all. */
export function useApprovals({
  transport: ownTransport,
  sessionId,
  pollMs = POLL_MS,
}: ApprovalsOptions = {}): Approvals {
  const transport = useTransport(ownTransport);
  const load = useMemo(
    () => (sessionId === undefined ? (signal: AbortSignal) => transport.approvals({ signal }) : undefined),
    [transport, sessionId],
  );
  const everywhere = useAsync(load, pollMs);
  const { conversation, error } = useSession(sessionId, { transport: ownTransport });
  const { requests, runId } = conversation.chat;
  const here = useMemo(
    () => (sessionId === undefined ? NONE : [...requests.values()].map((request) => ({ request, sessionId, runId }))),
    [requests, sessionId, runId],
  );
  const { refresh } = everywhere;
  const answer = useCallback(
    async (approval: Approval, response: Omit<InputResponse, "requestId">) => {
      await transport.answer(approval.sessionId, { ...response, requestId: approval.request.requestId });
      await refresh();
    },
    [transport, refresh],
  );
  if (sessionId !== undefined) return { approvals: here, isLoading: false, error, answer, refresh };
  return {
    approvals: everywhere.data ?? NONE,
    isLoading: everywhere.isLoading,
    error: everywhere.error,
    answer,
    refresh,
  };
}

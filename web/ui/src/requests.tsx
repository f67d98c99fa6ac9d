/** Approvals and questions: the cards that show them, and the hook that lists them. */
import {
  actionName,
  type InputOption,
  type InputRequest,
  type InputResponse,
  type JsonValue,
} from "@windlass/protocol";
import { RadioGroup } from "radix-ui";
import { useCallback, useId, useMemo, useState, type ReactNode } from "react";
import type { Approval } from "@windlass/protocol/client";
import { formatExactly, sentence } from "./format.js";
import { useAsync, useErrorUntil } from "./data.js";
import { BUTTONS, CARD, classes, CODE, FIELD, FOCUS } from "./styles.js";
import { useSession, useTransport } from "./session.js";
import type { Transport } from "./transport.js";

/** A request, and who takes the answer. */
export interface RequestCardProps {
  readonly request: InputRequest;
  /** Takes the answer; the card says so if it rejects. */
  readonly onAnswer: (response: InputResponse) => Promise<void> | void;
  /** The moment, in milliseconds since 1970; that of the machine when absent. */
  readonly nowMs?: number | undefined;
  /** Number of reconnects: the error of a failed answer is shown until the next one. */
  readonly reconnects?: number | undefined;
}

const APPROVAL_OPTIONS: readonly InputOption[] = [
  { id: "approve", label: "Approve", style: "primary" },
  { id: "deny", label: "Deny", style: "danger" },
];

/** An approval as an ApprovalCard, anything else as a QuestionCard. */
export function RequestCard(props: RequestCardProps): ReactNode {
  return isApproval(props.request) ? <ApprovalCard {...props} /> : <QuestionCard {...props} />;
}

function isApproval({ kind, options, display }: InputRequest): boolean {
  if (kind !== undefined) return kind === "approval";
  return display === "confirmation" || (options ?? []).some(({ id }) => id === "approve");
}

/**
 * Asks for consent to exactly one call.
 *
 * It shows the arguments as they will be used, and the answer carries their digest: consent to something else does
 * not count.
 */
export function ApprovalCard(props: RequestCardProps): ReactNode {
  const { request } = props;
  const { state, send } = useAnswer(props);
  const [reason, setReason] = useState("");
  const { action } = request;
  const options = request.options ?? APPROVAL_OPTIONS;
  const tool = actionName(action);
  return (
    <Frame request={request} title={`Approve ${tool}?`} words={wordsOf(request)} state={state}>
      <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label={`Arguments of ${tool}`}>
        {formatExactly(action.input)}
      </pre>
      {request.allowFreeform === true && (
        <Words label="Reason (optional)" value={reason} onChange={setReason} isDisabled={state.isDone} rows={1} />
      )}
      <div className="flex flex-wrap gap-2">
        {options.map((option) => (
          <button
            key={option.id}
            type="button"
            className={BUTTONS[option.style ?? "default"]}
            disabled={state.isDone}
            title={option.description}
            onClick={() => {
              send({ optionId: option.id, text: reason === "" ? undefined : reason });
            }}
          >
            {option.label}
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
  const words = isTwice ? prompt.slice(0, end) : prompt;
  const title = `Run ${actionName(action)}? `;
  return words.startsWith(title) ? words.slice(title.length) : words;
}

/** Arguments as they stand in the words of a request, with blanks and characters that were made visible. */
function readBack(text: string): JsonValue | undefined {
  const plain = text
    .replace(/\\\[([\d,]+) spaces\]/gu, (_, count: string) =>
      " ".repeat(Math.min(Number(count.replaceAll(",", "")), text.length)),
    )
    .replace(/\\U([0-9a-f]{8})/gu, (found, code: string) =>
      parseInt(code, 16) <= 0x10ffff ? String.fromCodePoint(parseInt(code, 16)) : found,
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
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]),
  );
}

/** Asks a question: options to pick from, words, or both. */
export function QuestionCard(props: RequestCardProps): ReactNode {
  const { request } = props;
  const { state, send } = useAnswer(props);
  const [optionId, setOptionId] = useState("");
  const [text, setText] = useState("");
  const options = request.options ?? [];
  const takesWords = request.allowFreeform === true || request.display === "text" || options.length === 0;
  const isEmpty = optionId === "" && text.trim() === "";
  return (
    <Frame request={request} title="The agent asks" words={request.prompt} state={state}>
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
        {takesWords && <Words label="Your answer" value={text} onChange={setText} isDisabled={state.isDone} rows={2} />}
        <div>
          <button type="submit" className={BUTTONS.primary} disabled={state.isDone || isEmpty}>
            Answer
          </button>
        </div>
      </form>
    </Frame>
  );
}

interface AnswerState {
  readonly isDone: boolean;
  readonly isExpired: boolean;
  readonly error: string | undefined;
}

type Given = Pick<InputResponse, "optionId" | "text">;

function useAnswer({ request, onAnswer, nowMs = Date.now(), reconnects = 0 }: RequestCardProps): {
  readonly state: AnswerState;
  readonly send: (given: Given) => void;
} {
  const { requestId, argumentsHash, expiresAt } = request;
  const [isSent, setIsSent] = useState(false);
  const [error, setError] = useErrorUntil(reconnects);
  const isExpired = expiresAt !== undefined && Date.parse(expiresAt) <= nowMs;
  const send = (given: Given): void => {
    setIsSent(true);
    setError(undefined);
    const response = Object.fromEntries(
      Object.entries({ requestId, argumentsHash, ...given }).filter(([, value]) => value !== undefined),
    ) as InputResponse;
    Promise.resolve(onAnswer(response)).catch((failure: unknown) => {
      setIsSent(false);
      setError(failure instanceof Error ? failure : new Error("The answer did not get through."));
    });
  };
  return { state: { isDone: isSent || isExpired, isExpired, error: error && sentence(error.message) }, send };
}

interface FrameProps {
  readonly request: InputRequest;
  readonly title: string;
  readonly words: string;
  readonly state: AnswerState;
  readonly children: ReactNode;
}

function Frame({ request, title, words, state, children }: FrameProps): ReactNode {
  const id = useId();
  return (
    <div
      role="group"
      className={classes(CARD, "flex flex-col gap-3 border-l-4 border-l-agent-warning p-4")}
      aria-labelledby={id}
    >
      <p id={id} className="text-sm font-semibold">
        {title}
      </p>
      <p className="whitespace-pre-wrap break-words text-sm empty:hidden">{words}</p>
      {children}
      {request.expiresAt !== undefined && !state.isExpired && (
        <p className="text-xs text-agent-muted">
          Lapses at <time dateTime={request.expiresAt}>{new Date(request.expiresAt).toLocaleString()}</time>
        </p>
      )}
      {state.isExpired && <p className="text-sm text-agent-warning">This request has lapsed.</p>}
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
}: FieldProps & { readonly label: string; readonly rows: number }): ReactNode {
  const id = useId();
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-xs text-agent-muted">
        {label}
      </label>
      <textarea
        id={id}
        rows={rows}
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
  return (
    <RadioGroup.Root
      className="flex flex-col gap-2"
      value={value}
      onValueChange={onChange}
      disabled={isDisabled}
      aria-label="Answers"
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
            {option.label}
            {option.description !== undefined && (
              <span className="block text-xs text-agent-muted">{option.description}</span>
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
export function useApprovals({ transport: given, sessionId, pollMs = POLL_MS }: ApprovalsOptions = {}): Approvals {
  const transport = useTransport(given);
  const load = useMemo(
    () => (sessionId === undefined ? (signal: AbortSignal) => transport.approvals({ signal }) : undefined),
    [transport, sessionId],
  );
  const everywhere = useAsync(load, pollMs);
  const { conversation, error } = useSession(sessionId, given);
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

/** A journal on the page: records as rows, and the panel about one record. */
import { attachmentsOf, type Event, type PolicyDecision } from "@windlass/protocol";
import {
  Badge,
  Button,
  classes,
  CodeView,
  CopyButton,
  cut,
  Fields,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  formatMoment,
  formatValue,
  formatWhen,
  inOneLine,
  JsonView,
  plural,
  undisguised,
  useRunRecords,
  type Tone as BadgeTone,
} from "@windlass/ui";
import { Fragment, memo, useMemo, useState, type ReactNode } from "react";
import { useQuery } from "@tanstack/react-query";
import type { PromptMessage, StepPrompt } from "@windlass/protocol/client";
import { JOURNAL, to } from "./addresses.js";
import { download, SearchField } from "./form.js";
import { CloseButton } from "./list.js";
import { useSearch } from "./router.js";
import { ButtonLink, Empty, Loading, SMALL_FIELD, TextLink, VirtualList } from "./parts.js";
import {
  callFacts,
  kindOf,
  lossOf,
  outcomeOf,
  placeOf,
  recordsOfCall,
  stepFacts,
  tell,
  type CallFacts,
  type StepFacts,
  type Tone,
} from "./records.js";
import { ChangedArguments } from "./changes.js";
import { Judgement } from "./judging.js";
import { promptQuery } from "./queries.js";

const ROW_PX = 32;

interface JournalViewProps {
  readonly records: readonly Event[];
  /** As the journal has them, or in words. */
  readonly isRaw: boolean;
  readonly selected: number | undefined;
  readonly onSelect: (seq: number) => void;
}

/** Records as rows, with a filter over everything in them. */
export function JournalView({ records, isRaw, selected, onSelect }: JournalViewProps): ReactNode {
  const [{ filter = "" }, , set] = useSearch(JOURNAL);
  const shown = useMemo(() => {
    const needle = filter.trim().toLowerCase();
    return needle === ""
      ? records
      : records.filter((record) =>
          JSON.stringify([record.seq, record.type, record.data]).toLowerCase().includes(needle),
        );
  }, [records, filter]);
  const at = useMemo(
    () => (selected === undefined ? -1 : shown.findIndex(({ seq }) => seq === selected)),
    [shown, selected],
  );
  return (
    <div className="flex min-h-0 min-w-0 flex-1 flex-col">
      <div className="flex items-center gap-3 px-4 py-2">
        <SearchField
          label="Filter records"
          placeholder="Filter: a type, a tool, any text"
          className={classes(SMALL_FIELD, "min-w-60")}
          value={filter}
          onChange={set("filter")}
        />
        <p role="status" className="text-xs whitespace-nowrap text-agent-muted">
          {formatCount(shown.length)} of {formatCount(records.length)}
        </p>
      </div>
      {shown.length === 0 ? (
        <Empty title={records.length === 0 ? "No records yet." : "No record fits."} />
      ) : (
        <VirtualList
          items={shown}
          label="Records"
          keyOf={({ seq }) => seq ?? 0}
          rowPx={ROW_PX}
          selected={at}
          onSelect={(next) => {
            const seq = shown[next]?.seq;
            if (seq !== undefined) onSelect(seq);
          }}
          render={(record) => (
            <RecordRow record={record} isRaw={isRaw} isSelected={record.seq === selected} onSelect={onSelect} />
          )}
        />
      )}
    </div>
  );
}

const TONES: Readonly<Record<Tone, string>> = {
  plain: "border-l-agent-border",
  model: "border-l-agent-accent",
  tool: "border-l-agent-success",
  wait: "border-l-agent-warning",
  good: "border-l-agent-success",
  bad: "border-l-agent-danger",
};
const TEXTS: Readonly<Partial<Record<Tone, string>>> = {
  bad: "text-agent-danger-text",
  wait: "text-agent-warning",
  good: "text-agent-success",
};
const INDENT_REM = 1.25;

interface RecordRowProps {
  readonly record: Event;
  readonly isSelected: boolean;
  readonly onSelect: (seq: number) => void;
  /** In words, or as the journal has it. */
  readonly isRaw?: boolean;
}

/** One record of a journal. */
const RecordRow = memo(function RecordRow({ record, isSelected, onSelect, isRaw = false }: RecordRowProps): ReactNode {
  const { title, detail, tone, depth } = tell(record);
  const seq = record.seq ?? 0;
  return (
    <button
      type="button"
      aria-current={isSelected}
      onClick={() => {
        onSelect(seq);
      }}
      className={classes(
        "flex min-h-8 w-full cursor-pointer items-baseline gap-3 px-3 py-1 text-left text-sm",
        isSelected ? "bg-agent-accent-soft" : "hover:bg-agent-surface",
        FOCUS,
      )}
    >
      <span className="w-12 shrink-0 text-right font-mono text-xs text-agent-muted">{seq}</span>
      <span
        className={classes("flex min-w-0 flex-1 items-baseline gap-2 border-l-2 pl-3", TONES[tone])}
        style={isRaw ? undefined : { marginLeft: `${depth * INDENT_REM}rem` }}
      >
        <span className={classes("shrink-0 max-w-[60%] truncate", isRaw ? "font-mono text-xs" : TEXTS[tone])}>
          {undisguised(isRaw ? record.type : title)}
        </span>
        <span className="min-w-0 flex-1 truncate text-xs text-agent-muted">
          {undisguised(isRaw ? JSON.stringify(record.data).slice(0, 200) : detail)}
        </span>
      </span>
      <time dateTime={record.meta.at} className="hidden shrink-0 font-mono text-xs text-agent-muted sm:block">
        {formatMoment(record.meta.at)}
      </time>
    </button>
  );
});

// The panel about one record: request, decision, result, and the record itself.

const TEXT_CHARS_MAX = 20_000;

interface RecordPanelProps {
  /** The run that the record is of; its records are read. */
  readonly runId?: string | undefined;
  /** Records that have the record already, such as those of a session. */
  readonly records?: readonly Event[] | undefined;
  readonly seq: number | undefined;
  /** The call that is meant, of a record about more than one. */
  readonly callId?: string | undefined;
  readonly onClose: () => void;
}

/**
 * The details of a record. Its place is the same whether something is selected, read or shown; on a phone, where it
 * would take half of the page, there is none until something is selected.
 */
export function RecordPanel({ runId, records: ownRecords, seq, callId, onClose }: RecordPanelProps): ReactNode {
  // A long run has megabytes of records: they are read when something is selected.
  const { records: own } = useRunRecords(ownRecords === undefined && seq !== undefined ? runId : undefined);
  const records = ownRecords ?? own;
  const record = useMemo(
    () => (seq === undefined ? undefined : records.find((record) => record.seq === seq)),
    [records, seq],
  );
  return (
    <aside
      aria-label="Details"
      className={classes(
        "flex min-h-0 flex-col overflow-y-auto border-agent-border bg-agent-surface max-lg:h-1/2 max-lg:shrink-0 max-lg:border-t lg:w-[26rem] lg:shrink-0 lg:border-l",
        seq === undefined && "max-sm:hidden",
      )}
    >
      {record === undefined ? (
        seq === undefined ? (
          <Empty title="Nothing is selected.">
            <p>Choose a row to see the exact prompt, arguments, result and policy decision.</p>
          </Empty>
        ) : (
          <Loading label="Reading the record" />
        )
      ) : (
        <Details
          key={`${runId ?? ""} ${seq} ${callId ?? ""}`}
          records={records}
          record={record}
          callId={callId}
          isOfRun={ownRecords === undefined}
          onClose={onClose}
        />
      )}
    </aside>
  );
}

interface DetailsProps extends Pick<RecordPanelProps, "callId" | "onClose"> {
  readonly records: readonly Event[];
  readonly record: Event;
  readonly isOfRun: boolean;
}

function Details({ records, record, callId, isOfRun, onClose }: DetailsProps): ReactNode {
  const calls = useMemo(() => callFacts(records, record, callId), [records, record, callId]);
  // The details of a call are those of the call, also where the model asked for it.
  const step = useMemo(
    () => (callId === undefined ? stepFacts(records, record) : undefined),
    [records, record, callId],
  );
  const position = step?.place ?? placeOf(record);
  const { title } = tell(record);
  // A record about one call has the name of the call as its title.
  const call = calls.length === 1 ? calls[0] : undefined;
  return (
    <div className="flex flex-col gap-4 p-4 text-sm">
      <div className="flex items-start justify-between gap-2">
        <h2 className="flex min-h-8 min-w-0 flex-wrap items-center gap-x-2 text-base font-semibold wrap-anywhere">
          {call === undefined ? title : <CallName call={call} />}
        </h2>
        <span className="flex shrink-0 items-center gap-1">
          <CopyButton text={location.href} label="Copy link" />
          <CloseButton label="Close the details" onClose={onClose} />
        </span>
      </div>
      <p className="-mt-3 flex min-h-6 flex-wrap items-center justify-between gap-2 text-xs text-agent-muted">
        <span>
          Record {record.seq}
          {call !== undefined && `, ${title}`} · <time dateTime={record.meta.at}>{formatWhen(record.meta.at)}</time>
        </span>
        {position !== undefined && <Judgement {...position} what={`step ${position.stepIndex + 1}`} />}
      </p>
      {step !== undefined && <Step step={step} />}
      {/* A model call lists the calls that it asked for: their own details are a click away. */}
      {(step === undefined || call !== undefined) &&
        calls.map((other) => <Call key={other.callId} call={other} isTitled={other === call} />)}
      <p className="flex flex-wrap gap-2">
        {record.sessionId !== undefined && (
          <ButtonLink href={to("session", [record.sessionId], { view: "chat", at: record.seq })}>
            See or fork the session here
          </ButtonLink>
        )}
        {!isOfRun && record.runId !== undefined && (
          <ButtonLink href={to("run", [record.runId], { view: "journal", at: record.seq })}>Its run</ButtonLink>
        )}
      </p>
      <Raw records={records} record={record} callId={callId} />
    </div>
  );
}

/** A record as the journal has it, or all records about a call. */
function Raw({ records, record, callId }: Pick<DetailsProps, "records" | "record" | "callId">): ReactNode {
  const raw = useMemo(
    () => (callId === undefined ? [record] : recordsOfCall(records, record, callId)),
    [records, record, callId],
  );
  return (
    <details>
      <summary className={classes("w-fit cursor-pointer rounded text-xs font-semibold text-agent-muted", FOCUS)}>
        {raw.length === 1 ? "Raw record" : `${formatCount(raw.length)} raw records`}
      </summary>
      <div className="mt-2 flex flex-col gap-3">
        {raw.map((event) => (
          <JsonView
            key={event.seq}
            title={raw.length === 1 ? "Record" : `Record ${event.seq ?? ""}, ${event.type}`}
            value={event}
            copyLabel="Copy record"
            action={<Download text={formatValue(event)} name={`record-${event.seq ?? 0}.json`} />}
          />
        ))}
      </div>
    </details>
  );
}

/** A button that saves a text as a file. */
function Download({ text, name }: { readonly text: string; readonly name: string }): ReactNode {
  return (
    <Button
      variant="quiet"
      className="min-h-6! px-1.5! py-0! text-xs!"
      onClick={() => {
        download(text, name, name.endsWith(".json") ? "application/json" : "text/plain");
      }}
    >
      Download
    </Button>
  );
}

/** The name of a call, how it ended, and how long that took. */
function CallName({ call: { name, result } }: { readonly call: CallFacts }): ReactNode {
  const outcome = result === undefined ? undefined : outcomeOf(result.status, result.error?.code);
  return (
    <>
      <span className="sr-only">Call of </span>
      <span className="font-mono">{name}</span>
      {outcome !== undefined && <Badge tone={OUTCOMES[outcome] ?? "plain"}>{outcome}</Badge>}
      {result?.durationMs !== undefined && (
        <span className="text-xs font-normal text-agent-muted">{formatDuration(result.durationMs)}</span>
      )}
    </>
  );
}

function Call({ call, isTitled }: { readonly call: CallFacts; readonly isTitled: boolean }): ReactNode {
  const { result, started } = call;
  const output = result === undefined ? "" : (result.error?.message ?? formatValue(result.result.output));
  return (
    <section aria-label={`Call of ${call.name}`} className="flex flex-col gap-3">
      {!isTitled && (
        <h3 className="flex flex-wrap items-center gap-x-2 border-t border-agent-border pt-3 font-semibold wrap-anywhere">
          <CallName call={call} />
        </h3>
      )}
      {started !== undefined && (
        <p className="text-xs wrap-anywhere text-agent-muted">
          {kindOf(started.mode, started.effect)} · key <code>{started.idempotencyKey}</code>
        </p>
      )}
      <Titled title="Arguments" action={<CopyButton text={formatValue(call.input)} label="Copy arguments" />}>
        <div className="rounded-md border border-agent-border bg-agent-bg px-3 py-2">
          <Fields value={call.input} label="Arguments" />
        </div>
      </Titled>
      {call.asked !== undefined && (
        <ChangedArguments before={call.asked.input} after={call.input} by={call.asked.changedBy} />
      )}
      {result !== undefined && (
        <CodeView
          title="Result"
          text={output}
          language={result.error === undefined && typeof result.result.output !== "string" ? "json" : undefined}
          copyLabel="Copy result"
          action={<Download text={output} name={`${call.name}-result.txt`} />}
        />
      )}
      {call.attempts.length > 0 && (
        <Titled title="Attempts">
          <ol className={NOTES}>
            {call.attempts.map(({ at, text }) => (
              <li key={`${at} ${text}`}>
                <time dateTime={at} className="font-semibold text-agent-muted">
                  {formatMoment(at)}
                </time>{" "}
                {text}
              </li>
            ))}
          </ol>
        </Titled>
      )}
      <Policy call={call} />
      {call.requests.length > call.answers.length && (
        <p className="text-xs text-agent-warning">
          It waits for an answer. <TextLink href="/approvals">Inbox</TextLink>
        </p>
      )}
      {call.childSessionId !== undefined && (
        <p className="flex gap-3">
          {call.childRunId !== undefined && (
            <TextLink href={to("run", [call.childRunId])}>Run of the subagent</TextLink>
          )}
          <TextLink href={to("session", [call.childSessionId])}>Session of the subagent</TextLink>
        </p>
      )}
    </section>
  );
}

/** What policies decided about a call, and what people answered. */
function Policy({ call: { decisions, answers } }: { readonly call: CallFacts }): ReactNode {
  if (decisions.length === 0 && answers.length === 0) return null;
  return (
    <Titled title="Policy">
      <ul className={NOTES}>
        {verdictsOf(decisions).map((verdict) => (
          <Verdict key={verdict.words} verdict={verdict} />
        ))}
        {answers.map(({ outcome, by, text, at, waitedMs }) => (
          <li key={`${at} ${outcome}`}>
            <strong>{outcome}</strong> by {by ?? "a person"}
            {waitedMs !== undefined && ` after ${formatDuration(waitedMs)}`}
            {text !== undefined && `: ${text}`}{" "}
            <time dateTime={at} className="text-agent-muted">
              {formatWhen(at)}
            </time>
          </li>
        ))}
      </ul>
    </Titled>
  );
}

/** Short texts in one box. */
const NOTES =
  "flex flex-col rounded-md border border-agent-border bg-agent-bg text-xs *:border-agent-border *:px-3 *:py-1.5 *:not-last:border-b";
const OUTCOMES: Readonly<Record<string, BadgeTone>> = { completed: "good", failed: "bad", denied: "bad" };

/** A part of the details with its name. */
function Titled({
  title,
  action,
  children,
}: {
  readonly title: string;
  readonly action?: ReactNode;
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div>
      <div className="mb-1 flex items-center justify-between gap-2 text-xs font-semibold text-agent-muted">
        <span>{title}</span>
        {action}
      </div>
      {children}
    </div>
  );
}

/** A decision of a policy, and how often it was made: each attempt is decided about anew. */
interface SameVerdict {
  readonly decision: PolicyDecision;
  readonly words: string;
  readonly count: number;
}

/** The decisions of policies, those that say the same as one. */
function verdictsOf(decisions: readonly PolicyDecision[]): readonly SameVerdict[] {
  const verdicts = new Map<string, SameVerdict>();
  for (const decision of decisions) {
    const key = [decision.decision, decision.reason, rulesOf(decision)].join("\n");
    verdicts.set(key, { decision, words: key, count: (verdicts.get(key)?.count ?? 0) + 1 });
  }
  return [...verdicts.values()];
}

function rulesOf({ code, policyRefs }: PolicyDecision): string {
  return [...new Set([code, ...policyRefs.map(({ id }) => id)])].join(", ");
}

function Verdict({ verdict: { decision, count } }: { readonly verdict: SameVerdict }): ReactNode {
  return (
    <li>
      <strong>{decision.decision}</strong>
      {count > 1 && ` ×${count}`} {decision.reason}{" "}
      <span className="font-mono wrap-anywhere text-agent-muted">{rulesOf(decision)}</span>
    </li>
  );
}

/** Model, tokens, cost and time of a model call, as far as they are known. */
function factsOf({ modelId, completed }: StepFacts): readonly string[] {
  const { usage, cache, latencyMs, finishReason } = completed ?? {};
  const cached = usage?.cacheReadTokens ?? 0;
  const thought = usage?.reasoningTokens ?? 0;
  return [
    modelId ?? "",
    usage === undefined
      ? ""
      : `${formatCount(usage.inputTokens ?? 0)} in${cached === 0 ? "" : ` (${formatCount(cached)} from the cache)`}`,
    usage === undefined
      ? ""
      : `${formatCount(usage.outputTokens ?? 0)} out${thought === 0 ? "" : ` (${formatCount(thought)} of thought)`}`,
    usage?.costMicros === undefined ? "" : formatCost(usage.costMicros),
    cache?.loss === undefined ? "" : lossOf(cache.loss),
    latencyMs === undefined ? "" : formatDuration(latencyMs),
    finishReason === undefined ? "" : `ended by ${finishReason}`,
  ].filter((fact) => fact !== "");
}

function Step({ step }: { readonly step: StepFacts }): ReactNode {
  const { failed, place: position, promptCount, completed } = step;
  return (
    <section aria-label="Model call" className="flex flex-col gap-3">
      <p className="text-xs text-agent-muted tabular-nums">
        {factsOf(step).map((fact, at) => (
          <Fragment key={fact}>
            {at > 0 && " · "}
            <span className="whitespace-nowrap">{fact}</span>
          </Fragment>
        ))}
      </p>
      {step.attempts.map(({ attempt, message, code }) => (
        <p key={attempt} className="text-xs text-agent-danger-text">
          Attempt {attempt}: {message ?? code}
        </p>
      ))}
      {failed !== undefined && (
        <p className="text-xs text-agent-danger-text">
          {failed.code}: {failed.message}
        </p>
      )}
      {step.reasoning !== "" && (
        <CodeView
          title="Thinking"
          text={step.reasoning}
          action={<Download text={step.reasoning} name="thinking.txt" />}
        />
      )}
      {step.said !== "" && (
        <CodeView title="Answer" text={step.said} action={<Download text={step.said} name="answer.txt" />} />
      )}
      {step.calls.length > 0 && (
        <Titled title={`Requested ${plural(step.calls.length, "call")}`}>
          <ul className={NOTES}>
            {step.calls.slice(0, CALLS_MAX).map(({ spanId, name, input }) => (
              <li key={spanId} className="flex flex-col gap-1">
                <TextLink href={to("run", [position?.runId ?? ""], { span: spanId })}>{name}</TextLink>
                <span className="font-mono wrap-anywhere text-agent-muted">{inOneLine(input)}</span>
              </li>
            ))}
            {step.calls.length > CALLS_MAX && (
              <li className="text-agent-muted">and {formatCount(step.calls.length - CALLS_MAX)} more</li>
            )}
          </ul>
        </Titled>
      )}
      {completed === undefined && failed === undefined && step.said === "" && step.calls.length === 0 && (
        <p className="text-xs text-agent-muted">No answer yet.</p>
      )}
      {position !== undefined && <Prompt {...position} count={promptCount} />}
      {position !== undefined && (
        <p>
          <ButtonLink href={to("playground", [position.runId, String(position.stepIndex)])}>
            Open in playground
          </ButtonLink>
        </p>
      )}
    </section>
  );
}

/** Calls of one answer that are named. */
const CALLS_MAX = 40;

// The prompt of a step, exactly as it was sent to the model.

const MESSAGES_MAX = 200;
/** Messages that are shown at once: the newest ones are what the model answered. */
const MESSAGES_FIRST = 3;

interface PromptProps {
  readonly runId: string;
  readonly stepIndex: number;
  /** How many messages it had, if that is known. */
  readonly count: number | undefined;
}

/** The newest messages of the prompt of a step; the others, the instructions and the tools on demand. */
function Prompt({ runId, stepIndex, count }: PromptProps): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  const { data, error } = useQuery(promptQuery(runId, stepIndex));
  const messages = data?.messages.slice(-MESSAGES_FIRST) ?? [];
  const all = data?.messages.length ?? count;
  return (
    <>
      <Titled title={all === undefined || all <= MESSAGES_FIRST ? "Messages" : `Last ${MESSAGES_FIRST} messages`}>
        {error !== null && (
          <p role="alert" className="text-xs text-agent-danger-text">
            {error.message}
          </p>
        )}
        {data === undefined && error === null && <Loading label="Rebuilding the prompt" />}
        <ol className="flex flex-col gap-2 text-xs">
          {messages.map((message, at) => (
            <li key={at}>
              <Message message={message} charsMax={MESSAGE_CHARS_MAX} />
            </li>
          ))}
        </ol>
      </Titled>
      <details
        className="text-xs"
        onToggle={(event) => {
          setIsOpen(event.currentTarget.open);
        }}
      >
        <summary className={classes("w-fit cursor-pointer rounded font-medium", FOCUS)}>
          Exact prompt
          {all !== undefined && <span className="font-normal text-agent-muted"> {plural(all, "message")}</span>}
        </summary>
        {isOpen && data !== undefined && <Whole prompt={data} />}
      </details>
    </>
  );
}

/** Characters of a message among the newest ones; the exact prompt has all of them. */
const MESSAGE_CHARS_MAX = 2_000;

function Whole({ prompt }: { readonly prompt: StepPrompt }): ReactNode {
  const { system, tools, outputSchema, messages, unknown, temperature, modelId } = prompt;
  const text = JSON.stringify(prompt, undefined, 2);
  const shown = messages.slice(-MESSAGES_MAX);
  return (
    <div className="mt-2 flex flex-col gap-3">
      <p className="flex items-center justify-between gap-2 text-agent-muted">
        <span>
          <span className="font-mono">{modelId}</span>
          {temperature !== undefined && `, temperature ${temperature}`}
        </span>
        <span className="flex items-center">
          <CopyButton text={text} label="Copy prompt" />
          <Download text={text} name="prompt.json" />
        </span>
      </p>
      {unknown.map((setting) => (
        <p key={setting} className="border-l-2 border-l-agent-warning pl-3 text-agent-muted">
          {setting}
        </p>
      ))}
      {system !== "" && <CodeView title="Instructions" text={system} />}
      {tools.length > 0 && (
        <div className="flex flex-col gap-1">
          <p className="text-agent-muted">Tools</p>
          {tools.map(({ name, description, inputSchema }) => (
            <details key={name} className="rounded-md bg-agent-code px-3 py-2">
              <summary className={classes("cursor-pointer rounded wrap-anywhere", FOCUS)}>
                <span className="font-mono">{name}</span> <span className="text-agent-muted">{description}</span>
              </summary>
              <pre className="mt-2 overflow-auto font-mono whitespace-pre-wrap wrap-anywhere">
                {formatValue(inputSchema)}
              </pre>
            </details>
          ))}
        </div>
      )}
      {outputSchema !== undefined && <CodeView title="Schema of the output" text={formatValue(outputSchema)} />}
      <div>
        <p className="mb-1 text-agent-muted">
          Messages{messages.length > shown.length && `, the last ${MESSAGES_MAX} of ${messages.length}`}
        </p>
        <ol className="flex flex-col gap-2">
          {shown.map((message, at) => (
            <li key={at}>
              <Message message={message} />
            </li>
          ))}
        </ol>
      </div>
    </div>
  );
}

function Message({
  message,
  charsMax = TEXT_CHARS_MAX,
}: {
  readonly message: PromptMessage;
  readonly charsMax?: number;
}): ReactNode {
  const { role, name, content, toolCalls = [], parts = [], reasoning, isError } = message;
  return (
    <div className={classes("border-l-2 pl-3", isError ? "border-l-agent-danger" : "border-l-agent-border")}>
      <p className="font-medium">
        {role}
        {name !== undefined && <span className="font-mono font-normal text-agent-muted"> {name}</span>}
      </p>
      {reasoning !== undefined && reasoning !== "" && (
        <p className="whitespace-pre-wrap wrap-anywhere text-agent-muted italic">{cut(reasoning, charsMax)}</p>
      )}
      <p className="whitespace-pre-wrap wrap-anywhere">{cut(content, charsMax)}</p>
      {attachmentsOf(parts).map(({ name: file, mediaType }, at) => (
        <p key={at} className="text-agent-muted">
          [{file}, {mediaType}]
        </p>
      ))}
      {toolCalls.map((call) => (
        <p key={call.id} className="font-mono wrap-anywhere">
          {call.name}({cut(formatValue(call.arguments), charsMax)})
        </p>
      ))}
    </div>
  );
}

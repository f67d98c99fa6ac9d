/** The playground: a recorded model call is changed and run again, beside the answer that it got. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { ModelMessage, type JsonValue } from "@windlass/protocol";
import type { NewPlaygroundRun, PlaygroundDraft, RunRow, StepAnswer, TraceInfo } from "@windlass/protocol/client";
import {
  Badge,
  Button,
  CARD,
  Chip,
  classes,
  CodeView,
  cut,
  FIELD,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  formatPercent,
  formatSigned,
  formatValue,
  plural,
  sentence,
  shortId,
  type TableColumn,
} from "@windlass/ui";
import { Play, Plus, RotateCcw, Square, X } from "lucide-react";
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { z } from "zod";
import { AddToDataset } from "../add-to-dataset.js";
import { to } from "../addresses.js";
import { client } from "../auth.js";
import { WordDiff } from "../changes.js";
import { Act, Area, Input, Select } from "../form.js";
import { column, Table } from "../list.js";
import {
  Ago,
  Empty,
  Failure,
  Heading,
  KEY_HINT,
  Loading,
  orDash,
  Pending,
  RowLink,
  RunStatus,
  SMALL_FIELD,
  Status,
  TextLink,
} from "../parts.js";
import { isOver, playgroundQuery, runQuery, traceQuery, useRefresh, useStartedRuns } from "../queries.js";
import { tabTexts } from "../storage.js";

const Size = z.enum(["call", "run"]);
type Size = z.infer<typeof Size>;
const Calls = z.enum(["recorded", "real"]);
const ToolChoice = z.object({ isOn: z.boolean(), description: z.string() });
type ToolChoice = Readonly<z.infer<typeof ToolChoice>>;
const Attempt = z.object({ runId: z.string(), size: Size, calls: Calls });
type Attempt = Readonly<z.infer<typeof Attempt>>;

/** The changes and attempts of a step, kept in the tab; without `shown`, the newest attempt is shown. */
const Work = z.object({
  instructions: z.string(),
  messages: z.array(ModelMessage).readonly(),
  tools: z.record(z.string(), ToolChoice),
  model: z.string(),
  temperature: z.string(),
  size: Size,
  calls: Calls,
  attempts: z.array(Attempt).readonly(),
  shown: z.string().optional(),
});
type Work = Readonly<z.infer<typeof Work>>;

/** The work that a text of the storage holds; undefined if another version of the page wrote it, or something else. */
export function workIn(text: string | undefined): Work | undefined {
  try {
    return Work.safeParse(JSON.parse(text ?? "null")).data;
  } catch {
    return undefined;
  }
}

type ChangeWork = (change: Partial<Work>) => void;

const ATTEMPTS_MAX = 20;
const SIZES = [
  ["call", "this model call"],
  ["run", "until the run ends"],
] as const;
const CALLS = [
  ["recorded", "from the record"],
  ["real", "by the real tools"],
] as const;

interface PlaygroundPageProps {
  readonly runId: string;
  readonly stepIndex: number | undefined;
}

/** A step of a run, to be changed and run again. */
export function PlaygroundPage({ runId, stepIndex }: PlaygroundPageProps): ReactNode {
  const draft = useQuery({ ...playgroundQuery(runId, stepIndex ?? 0), enabled: stepIndex !== undefined });
  if (stepIndex === undefined)
    return (
      <>
        <Heading
          title="Playground"
          about="A recorded model call, changed and run again beside the answer that it got"
        />
        <ChooseRun />
      </>
    );
  if (draft.data === undefined)
    return (
      <>
        <Heading title="Playground" parent={{ label: "Run", href: to("run", [runId]) }} />
        <Pending of={draft} />
      </>
    );
  return <Bench key={`${runId} ${stepIndex}`} draft={draft.data} />;
}

/** Runs, the newest first: one opens with its first model call. */
function ChooseRun(): ReactNode {
  const list = useStartedRuns();
  const { runs, hasNextPage, onEnd } = list;
  if (runs === undefined) return <Pending of={list} />;
  if (runs.length === 0) return hasNextPage ? <Loading /> : <NoRuns />;
  return (
    <>
      <p className="border-b border-agent-border px-4 py-2 text-agent-muted">
        Choose a run: its first model call opens. Any other call opens from its trace.
      </p>
      <Table
        name="playground-runs"
        label="Runs, the newest first"
        rows={runs}
        columns={RUN_COLUMNS}
        keyOf={({ runId }) => runId}
        hrefOf={({ runId }) => to("playground", [runId, "0"])}
        onEnd={onEnd}
      />
    </>
  );
}

function NoRuns(): ReactNode {
  return (
    <Empty title="There is no model call to change yet.">
      <p>
        The playground runs a recorded model call again with other instructions, messages, tools or another model, and
        shows both answers side by side. Tools answer from the record.
      </p>
      <p>
        <TextLink href="/chat">Ask an agent for something</TextLink>, then choose its run here.
      </p>
    </Empty>
  );
}

const RUN_COLUMNS: readonly TableColumn<RunRow>[] = [
  column("input", "Run", { width: 140, share: 1 }, ({ runId, input }) => (
    <RowLink href={to("playground", [runId, "0"])}>{input || shortId(runId)}</RowLink>
  )),
  column("agent", "Agent", { width: 120, fromPx: 560 }, ({ agentId }) => agentId),
  column("status", "Status", { width: 150 }, (run) => <RunStatus run={run} />),
  column("started", "Started", { width: 100, fromPx: 480 }, ({ startedAt }) => <Ago at={startedAt} />),
];

function asRecorded({ instructions, messages, tools, model, temperature }: PlaygroundDraft): Work {
  return {
    instructions,
    messages,
    tools: Object.fromEntries(tools.map(({ name, description }) => [name, { isOn: true, description }])),
    model,
    temperature: temperature === undefined ? "" : String(temperature),
    size: "call",
    calls: "recorded",
    attempts: [],
  };
}

/** The prompt of an attempt; tools that it was not offered are off. */
function promptOf(attempt: PlaygroundDraft, draft: PlaygroundDraft): Partial<Work> {
  const { instructions, messages, tools, model, temperature } = asRecorded(attempt);
  const others = draft.tools.map(({ name, description }) => [name, { isOn: false, description }] as const);
  // In the order of the step, so that an equal prompt is no change.
  return { instructions, messages, model, temperature, tools: { ...Object.fromEntries(others), ...tools } };
}

/** The changes and attempts of a step; they survive a reload of the tab. */
function useWork(draft: PlaygroundDraft): readonly [Work, ChangeWork] {
  const name = `windlass:playground:${draft.runId}/${draft.stepIndex}`;
  const [work, setWork] = useState(() => workIn(tabTexts.get(name)) ?? asRecorded(draft));
  const change: ChangeWork = (some) => {
    setWork((before) => ({ ...before, ...some }));
  };
  useEffect(() => {
    tabTexts.set(name, JSON.stringify(work));
  }, [name, work]);
  return [work, change];
}

/** The changes against the record, as the server takes them. */
function changesOf(draft: PlaygroundDraft, work: Work): NewPlaygroundRun {
  const before = asRecorded(draft);
  const temperature = work.temperature.trim() === "" ? undefined : Number(work.temperature);
  const tools = Object.entries(work.tools)
    .filter(([, { isOn }]) => isOn)
    .map(([name, { description }]) => [name, description] as const);
  return {
    size: work.size,
    calls: work.calls,
    ...(work.instructions !== before.instructions && { instructions: work.instructions }),
    ...(!isSame(work.messages, before.messages) && { messages: [...work.messages] }),
    ...(!isSame(work.tools, before.tools) && { tools: Object.fromEntries(tools) }),
    ...(work.model !== before.model && { model: work.model }),
    ...(temperature !== undefined && work.temperature !== before.temperature && { temperature }),
  };
}

function isSame(left: unknown, other: unknown): boolean {
  return JSON.stringify(left) === JSON.stringify(other);
}

function Bench({ draft }: { readonly draft: PlaygroundDraft }): ReactNode {
  const [work, change] = useWork(draft);
  const page = useRef<HTMLDivElement>(null);
  const results = useRef<HTMLElement>(null);
  const body = changesOf(draft, work);
  const run = useMutation({
    mutationFn: () => client.runs.play(draft.runId, draft.stepIndex, body),
    onSuccess: ({ runId }) => {
      const attempt = { runId, size: work.size, calls: work.calls };
      change({ attempts: [...work.attempts, attempt].slice(-ATTEMPTS_MAX), shown: runId });
      // On a phone the answers are below the prompt.
      page.current?.scrollTo({ top: (results.current?.offsetTop ?? 0) - page.current.offsetTop });
    },
  });
  const shown = work.attempts.find(({ runId }) => runId === work.shown) ?? work.attempts.at(-1);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || run.isPending) return;
    event.preventDefault();
    run.mutate();
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col" onKeyDown={onKeyDown}>
      <BenchHeading draft={draft} work={work} change={change} run={run} count={Object.keys(body).length - 2} />
      {work.calls === "real" && work.size === "run" && (
        <p role="note" className="border-b border-l-4 border-agent-border border-l-agent-warning px-4 py-2 text-sm">
          Calls are executed by the real tools, under the policy of the agent. Approvals are asked for in the inbox.
        </p>
      )}
      {run.error !== null && <Failure error={run.error} />}
      <div ref={page} className="flex min-h-0 flex-1 flex-col max-lg:overflow-y-auto lg:flex-row">
        <section aria-label="Prompt" className="flex flex-col gap-4 p-4 lg:w-2/5 lg:overflow-y-auto">
          <PromptForm draft={draft} work={work} change={change} />
        </section>
        <section
          ref={results}
          aria-label="Answers"
          className="flex min-w-0 flex-col gap-4 border-agent-border p-4 max-lg:min-h-full max-lg:border-t lg:w-3/5 lg:overflow-y-auto lg:border-l"
        >
          <Attempts work={work} shown={shown} change={change} />
          <Comparison key={shown?.runId} draft={draft} attempt={shown} change={change} />
        </section>
      </div>
    </div>
  );
}

interface FormProps {
  readonly draft: PlaygroundDraft;
  readonly work: Work;
  readonly change: ChangeWork;
}

/** A function that changes one part of the work. */
function setter<K extends keyof Work>(change: ChangeWork, name: K): (value: Work[K]) => void {
  return (value) => {
    change({ [name]: value });
  };
}

interface BenchHeadingProps extends FormProps {
  readonly run: { readonly mutate: () => void; readonly isPending: boolean };
  /** How many parts of the prompt are changed. */
  readonly count: number;
}

function BenchHeading({ draft, work, change, run, count }: BenchHeadingProps): ReactNode {
  const restore = (): void => {
    const { instructions, messages, tools, model, temperature } = asRecorded(draft);
    change({ instructions, messages, tools, model, temperature });
  };
  return (
    <Heading
      title="Playground"
      parent={{ label: "Run", href: to("run", [draft.runId], { view: "trace" }) }}
      facts={count > 0 && <Badge tone="info">{plural(count, "change")}</Badge>}
      about={`${draft.agentId} · model call ${draft.stepIndex + 1} of run ${shortId(draft.runId)}`}
    >
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2 text-sm">
        <Select label="Run" value={work.size} options={SIZES} onChange={setter(change, "size")} />
        <Select label="Answer calls" value={work.calls} options={CALLS} onChange={setter(change, "calls")} />
        <Button disabled={count === 0} onClick={restore}>
          <RotateCcw aria-hidden className="size-3.5" />
          As recorded
        </Button>
        <Act act={run} variant="primary">
          <Play aria-hidden className="size-3.5" />
          Run it again
          <kbd className={classes("text-xs font-normal", KEY_HINT)}>Ctrl Enter</kbd>
        </Act>
      </div>
    </Heading>
  );
}

function PromptForm({ draft, work, change }: FormProps): ReactNode {
  const models = [...new Set([draft.model, ...draft.models])].map((name): [string, string] => [name, name]);
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Select
          label="Model"
          value={work.model}
          options={models}
          onChange={(model = draft.model) => {
            change({ model });
          }}
        />
        <Temperature value={work.temperature} onChange={setter(change, "temperature")} />
      </div>
      <Words label="Instructions" value={work.instructions} onChange={setter(change, "instructions")} />
      <Messages messages={work.messages} onChange={setter(change, "messages")} />
      {draft.tools.length > 0 && <Tools draft={draft} work={work} change={change} />}
      {draft.outputSchema !== undefined && (
        <details className="text-xs">
          <summary className="w-fit cursor-pointer font-semibold text-agent-muted">Schema of the output</summary>
          <pre className="mt-2 overflow-auto rounded-md bg-agent-code p-3 font-mono whitespace-pre-wrap wrap-anywhere">
            {formatValue(draft.outputSchema)}
          </pre>
        </details>
      )}
      {draft.unknown.map((setting) => (
        <p key={setting} className="border-l-2 border-l-agent-warning pl-3 text-xs text-agent-muted">
          {setting}
        </p>
      ))}
    </>
  );
}

interface TextProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Temperature(props: TextProps): ReactNode {
  const id = useId();
  return (
    <span className="inline-flex items-center gap-2 text-xs text-agent-muted">
      <label htmlFor={id}>Temperature</label>
      <Input
        id={id}
        type="number"
        min={0}
        max={2}
        step={0.1}
        placeholder="default"
        className={classes(SMALL_FIELD, "max-w-24")}
        {...props}
      />
    </span>
  );
}

interface WordsProps extends TextProps {
  /** The label above it; without one, `name` is for screen readers alone. */
  readonly label?: string | undefined;
  readonly name?: string | undefined;
  readonly isCode?: boolean;
}

/** A text that grows with what is written. */
function Words({ label, name, isCode = false, ...rest }: WordsProps): ReactNode {
  const id = useId();
  return (
    <div className="flex flex-col gap-1">
      {label !== undefined && (
        <label htmlFor={id} className="text-xs font-semibold text-agent-muted">
          {label}
        </label>
      )}
      <Area
        id={id}
        aria-label={name}
        rows={2}
        spellCheck={!isCode}
        className={classes(FIELD, "field-sizing-content max-h-96 resize-y", isCode && "font-mono text-xs!")}
        {...rest}
      />
    </div>
  );
}

/** A text of a message that can be changed. */
interface Field {
  readonly label: string;
  readonly text: string;
  readonly isCode: boolean;
  readonly with: (text: string) => ModelMessage;
}

/** The texts of a message: words, arguments of calls, results. */
export function fieldsOf(message: ModelMessage): readonly Field[] {
  if (typeof message.content === "string") {
    const set = (text: string): ModelMessage => ({ ...message, content: text }) as ModelMessage;
    return [{ label: NAMES[message.role], text: message.content, isCode: false, with: set }];
  }
  return message.content.flatMap((part, at): readonly Field[] => {
    const set = (some: object): ModelMessage =>
      ({
        ...message,
        content: (message.content as readonly object[]).map((part, index) =>
          index === at ? { ...part, ...some } : part,
        ),
      }) as ModelMessage;
    switch (part.type) {
      case "text":
        return [{ label: NAMES[message.role], text: part.text, isCode: false, with: (text) => set({ text }) }];
      case "tool-call": {
        const arrange = (text: string): ModelMessage => set({ input: jsonOr(text) });
        return [{ label: `Call of ${part.toolName}`, text: formatValue(part.input), isCode: true, with: arrange }];
      }
      case "tool-result": {
        const { output } = part;
        const isDenied = output.type === "execution-denied";
        const isError = output.type.startsWith("error");
        const arrange = (text: string): ModelMessage => {
          if (isDenied) return set({ output: { ...output, reason: text } });
          const value = output.type.endsWith("json") ? jsonOr(text) : text;
          const kind = typeof value === "string" ? "text" : "json";
          return set({ output: { ...output, type: isError ? `error-${kind}` : kind, value } });
        };
        const text = isDenied ? (output.reason ?? "") : formatValue(output.value ?? null);
        const label = `${isDenied ? "Denial" : isError ? "Error" : "Result"} of ${part.toolName}`;
        return [{ label, text, isCode: output.type.endsWith("json"), with: arrange }];
      }
      default:
        return [];
    }
  });
}

const NAMES: Readonly<Record<ModelMessage["role"], string>> = {
  system: "System",
  user: "User",
  assistant: "Assistant",
  tool: "Tool",
};

/** The value that a text is as JSON, or the text itself. */
function jsonOr(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return text;
  }
}

interface MessagesProps {
  readonly messages: readonly ModelMessage[];
  readonly onChange: (messages: readonly ModelMessage[]) => void;
}

function Messages({ messages, onChange }: MessagesProps): ReactNode {
  return (
    <div className="flex flex-col gap-3">
      <h2 className="text-xs font-semibold text-agent-muted">Messages</h2>
      <ol className="flex flex-col gap-3">
        {messages.map((message, at) => (
          <li key={at} className={classes(CARD, "flex flex-col gap-2 p-3", BORDERS[message.role])}>
            <MessageForm
              message={message}
              place={at + 1}
              onChange={(next) => {
                onChange(messages.map((other, index) => (index === at ? next : other)));
              }}
              onRemove={() => {
                onChange(messages.filter((_, index) => index !== at));
              }}
            />
          </li>
        ))}
      </ol>
      <p>
        <Button
          onClick={() => {
            onChange([...messages, { role: "user", content: "" }]);
          }}
        >
          <Plus aria-hidden className="size-3.5" />
          Add a message
        </Button>
      </p>
    </div>
  );
}

const BORDERS: Readonly<Record<ModelMessage["role"], string>> = {
  system: "",
  user: "border-l-4 border-l-agent-accent",
  assistant: "",
  tool: "border-l-4 border-l-agent-success",
};

interface MessageFormProps {
  readonly message: ModelMessage;
  readonly place: number;
  readonly onChange: (message: ModelMessage) => void;
  readonly onRemove: () => void;
}

function MessageForm({ message, place: index, onChange, onRemove }: MessageFormProps): ReactNode {
  const fields = fieldsOf(message);
  const others = typeof message.content === "string" ? 0 : message.content.length - fields.length;
  return (
    <>
      <div className="-my-1 flex items-center justify-between gap-2 text-xs text-agent-muted">
        <span className="font-semibold">{NAMES[message.role]}</span>
        <Button variant="quiet" className="min-h-6 px-1 py-0" aria-label={`Remove message ${index}`} onClick={onRemove}>
          <X aria-hidden className="size-3.5" />
        </Button>
      </div>
      {fields.map((field, at) => (
        <Words
          key={at}
          label={field.label === NAMES[message.role] ? undefined : field.label}
          name={`Message ${index}: ${field.label}`}
          value={field.text}
          isCode={field.isCode}
          onChange={(text) => {
            onChange(field.with(text));
          }}
        />
      ))}
      {others > 0 && <p className="text-xs text-agent-muted">and {plural(others, "other part")}, as recorded</p>}
    </>
  );
}

const SUMMARY_CHARS = 120;

function Tools({ draft, work, change }: FormProps): ReactNode {
  const set = (name: string, choice: ToolChoice): void => {
    change({ tools: { ...work.tools, [name]: choice } });
  };
  return (
    <div className="flex flex-col gap-2">
      <h2 className="text-xs font-semibold text-agent-muted">Tools</h2>
      <ul className="flex flex-col gap-2">
        {draft.tools.map(({ name, description, inputSchema }) => {
          const choice = work.tools[name] ?? { isOn: true, description };
          return (
            <li key={name} className={classes(CARD, "flex flex-col gap-1 px-3 py-2")}>
              <label className="flex w-fit cursor-pointer items-center gap-2 font-mono text-xs font-semibold">
                <input
                  type="checkbox"
                  role="switch"
                  className="size-4 accent-agent-accent"
                  checked={choice.isOn}
                  onChange={(event) => {
                    set(name, { ...choice, isOn: event.target.checked });
                  }}
                />
                {name}
              </label>
              {choice.isOn && (
                <details className="text-xs open:pb-1">
                  <summary className={classes("cursor-pointer truncate rounded text-agent-muted", FOCUS)}>
                    {choice.description === "" ? "No description" : cut(choice.description, SUMMARY_CHARS)}
                  </summary>
                  <div className="mt-2 flex flex-col gap-2">
                    <Words
                      label="Description"
                      name={`Description of ${name}`}
                      value={choice.description}
                      onChange={(text) => {
                        set(name, { ...choice, description: text });
                      }}
                    />
                    <CodeView title="Arguments" text={formatValue(inputSchema)} language="json" />
                  </div>
                </details>
              )}
            </li>
          );
        })}
      </ul>
    </div>
  );
}

// The answers.

interface AttemptsProps extends Omit<FormProps, "draft"> {
  readonly shown: Attempt | undefined;
}

function Attempts({ work, shown, change }: AttemptsProps): ReactNode {
  if (work.attempts.length === 0) return null;
  return (
    <nav aria-label="Attempts" className="flex flex-wrap gap-2">
      {work.attempts.map((attempt, at) => (
        <Chip
          key={attempt.runId}
          isOn={attempt === shown}
          onChange={() => {
            change({ shown: attempt.runId });
          }}
        >
          Attempt {at + 1}
        </Chip>
      ))}
    </nav>
  );
}

/** Tokens, cost and time of an answer, or of the rest of a run. */
interface Figures {
  readonly inputTokens: number | undefined;
  readonly outputTokens: number | undefined;
  readonly costMicros: number | undefined;
  readonly ms: number | undefined;
}

interface Side {
  readonly text: string;
  readonly figures: Figures;
}

/** The answer of one model call: its words, then the calls that it asks for. */
function sideOfAnswer(answer: StepAnswer | undefined): Side | undefined {
  if (answer === undefined) return undefined;
  const calls = answer.calls.map(({ toolName, input }) => `→ ${toolName} ${JSON.stringify(input)}`);
  const { usage, latencyMs } = answer;
  return {
    text: [answer.text, ...calls, answer.error ?? ""].filter((line) => line !== "").join("\n"),
    figures: {
      inputTokens: usage?.inputTokens,
      outputTokens: usage?.outputTokens,
      costMicros: usage?.costMicros,
      ms: latencyMs,
    },
  };
}

/** Tokens, cost and time of the model calls of a run, from a step on. */
export function figuresFrom(trace: TraceInfo | undefined, stepIndex: number): Figures {
  const calls = (trace?.spans ?? []).filter(
    ({ name, attrs }) => name.startsWith("llm.") && Number(attrs?.["stepIndex"] ?? -1) >= stepIndex,
  );
  const total = (name: string): number | undefined => {
    const values = calls.map(({ attrs }) => attrs?.[name]).filter((value) => typeof value === "number");
    return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
  };
  const times = calls.flatMap(({ startAt, endAt }) =>
    endAt === undefined ? [] : [Date.parse(endAt) - Date.parse(startAt)],
  );
  return {
    inputTokens: total("inputTokens"),
    outputTokens: total("outputTokens"),
    costMicros: total("costMicros"),
    ms: times.length === 0 ? undefined : times.reduce((sum, time) => sum + time, 0),
  };
}

function useSide(runId: string | undefined, stepIndex: number, size: Size, isDone: boolean): Side | undefined {
  const isRun = size === "run" && runId !== undefined && isDone;
  const run = useQuery({ ...runQuery(runId ?? ""), enabled: isRun });
  const trace = useQuery({ ...traceQuery(runId ?? ""), enabled: isRun });
  if (!isRun || run.data === undefined) return undefined;
  const { result } = run.data;
  const structured = result?.structuredOutput;
  const output = structured === undefined ? result?.output : formatValue(structured);
  return { text: output || (result?.error?.message ?? ""), figures: figuresFrom(trace.data, stepIndex) };
}

interface ComparisonProps {
  readonly draft: PlaygroundDraft;
  readonly attempt: Attempt | undefined;
  readonly change: ChangeWork;
}

/** The recorded answer and that of an attempt, side by side. */
function Comparison({ draft, attempt, change }: ComparisonProps): ReactNode {
  const size = attempt?.size ?? "call";
  const run = useQuery({ ...runQuery(attempt?.runId ?? ""), enabled: attempt !== undefined });
  const status = run.data?.run.status;
  const isDone = status !== undefined && isOver(status);
  const there = useQuery({ ...playgroundQuery(attempt?.runId ?? "", 0), enabled: isDone });
  const rest = useSide(draft.runId, draft.stepIndex, size, attempt !== undefined);
  const newRest = useSide(attempt?.runId, 0, size, isDone);
  const before = size === "call" ? sideOfAnswer(draft.answer) : rest;
  const after = size === "call" ? sideOfAnswer(there.data?.answer) : newRest;
  const stop = useMutation({
    mutationFn: () => client.runs.cancel(attempt?.runId ?? ""),
    onSettled: useRefresh(["run", attempt?.runId]),
  });
  return (
    <>
      <div className="grid gap-4 sm:grid-cols-2">
        <Answer title="Recorded" text={before?.text} other={after?.text} side="before" />
        <Answer
          title="New"
          text={after?.text}
          other={before?.text}
          side="after"
          about={
            attempt !== undefined && (
              <span className="flex items-center gap-2">
                {status !== undefined && <AttemptStatus status={status} size={attempt.size} />}
                {!isDone && (
                  <Act act={stop} variant="danger" className="min-h-7 px-2 text-xs">
                    <Square aria-hidden className="size-3" />
                    Stop
                  </Act>
                )}
              </span>
            )
          }
        >
          {attempt === undefined && "Change the prompt, then run it again."}
          {attempt !== undefined && !isDone && (status === "waiting" ? <Waits /> : "Running…")}
          {run.error !== null && sentence(run.error.message)}
        </Answer>
      </div>
      {attempt !== undefined && <FiguresTable before={before?.figures} after={after?.figures} size={size} />}
      {attempt !== undefined && (
        <p className="flex flex-wrap items-center gap-3 text-sm">
          {after !== undefined && (
            <AddToDataset
              label="Save as a case"
              runIds={[draft.runId]}
              expected={after.text}
              more={caseOf(there.data ?? draft, attempt)}
            />
          )}
          <Button
            disabled={there.data === undefined}
            onClick={() => {
              if (there.data !== undefined) change(promptOf(there.data, draft));
            }}
          >
            Take its prompt
          </Button>
          <TextLink href={to("run", [attempt.runId])}>Trace of this attempt</TextLink>
        </p>
      )}
    </>
  );
}

function AttemptStatus({ status, size }: { readonly status: string; readonly size: Size }): ReactNode {
  // One model call may not make calls: a run that asks for them has done all that it was meant to do.
  return size === "call" && status === "budget_exhausted" ? (
    <Status status="completed" words="asks for calls" />
  ) : (
    <Status status={status} />
  );
}

function Waits(): ReactNode {
  return (
    <>
      It waits for you: <TextLink href="/approvals">open the inbox</TextLink>.
    </>
  );
}

interface AnswerProps {
  readonly title: string;
  readonly text: string | undefined;
  readonly other: string | undefined;
  readonly side: "before" | "after";
  readonly about?: ReactNode;
  readonly children?: ReactNode;
}

function Answer({ title, text, other, side, about, children }: AnswerProps): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id} className={classes(CARD, "flex min-w-0 flex-col gap-2 p-3")}>
      <div className="flex min-h-7 flex-wrap items-center justify-between gap-2">
        <h2 id={id} className="text-xs font-semibold text-agent-muted">
          {title}
        </h2>
        {about}
      </div>
      {text === undefined ? (
        <p role="status" className="text-sm text-agent-muted">
          {children}
        </p>
      ) : (
        <p className="text-sm whitespace-pre-wrap wrap-anywhere">
          <WordDiff
            before={side === "before" ? text : (other ?? text)}
            after={side === "after" ? text : (other ?? text)}
            side={side}
          />
        </p>
      )}
    </section>
  );
}

interface FiguresTableProps {
  readonly before: Figures | undefined;
  readonly after: Figures | undefined;
  readonly size: Size;
}

function FiguresTable({ before, after, size }: FiguresTableProps): ReactNode {
  const rows = [
    ["Tokens in", "inputTokens", formatCount],
    ["Tokens out", "outputTokens", formatCount],
    ["Cost", "costMicros", formatCost],
    [size === "call" ? "Duration" : "Time of the model", "ms", formatDuration],
  ] as const;
  return (
    <table className="w-full border-collapse text-right text-sm tabular-nums">
      <caption className="sr-only">Tokens, cost and duration of both</caption>
      <thead className="text-xs text-agent-muted">
        <tr>
          <th scope="col" className="py-1 text-left font-normal">
            {size === "call" ? "This model call" : "From this model call on"}
          </th>
          {["Recorded", "New", "Difference"].map((label) => (
            <th key={label} scope="col" className="py-1 font-normal">
              {label}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([label, name, format]) => (
          <tr key={name} className="border-t border-agent-border">
            <th scope="row" className="py-1 text-left font-normal">
              {label}
            </th>
            <td>{orDash(before?.[name], format)}</td>
            <td>{orDash(after?.[name], format)}</td>
            <td>{differenceOf(before?.[name], after?.[name], format)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** How much more or less, and by how many percent. */
export function differenceOf(
  before: number | undefined,
  after: number | undefined,
  format: (value: number) => string,
): string {
  if (before === undefined || after === undefined) return "–";
  const more = after - before;
  const share = more === 0 || before === 0 ? "" : ` (${formatSigned(more / before, formatPercent)})`;
  return `${formatSigned(more, format)}${share}`;
}

// A case of a data set.

/** The inputs of a case: what the user said in an attempt; and a name, since a run may give several cases. */
function caseOf(
  { messages }: PlaygroundDraft,
  { runId }: Attempt,
): { readonly name: string; readonly inputs: JsonValue } {
  const content = messages
    .filter(({ role }) => role === "user")
    .map((message) =>
      fieldsOf(message)
        .map(({ text }) => text)
        .join("\n"),
    );
  return { name: runId, inputs: content.length === 1 ? (content[0] ?? "") : { conversation: content } };
}

/** One run. */
import { useMutation, useQueries, useQuery } from "@tanstack/react-query";
import type { Event, RunResult, TraceSpan } from "@windlass/protocol";
import type { FeedbackInfo, RunInfo, RunRow, TraceInfo } from "@windlass/protocol/client";
import {
  cut,
  formatCost,
  formatCount,
  formatDuration,
  formatWhen,
  runIdOf,
  sentence,
  shortHash,
  shortId,
  TraceTree,
  traceShape,
  useRunRecords,
  type TableColumn,
} from "@windlass/ui";
import { useMemo, useState, type ReactNode } from "react";
import { AddToDataset } from "../add-to-dataset.js";
import { SEARCH, to } from "../addresses.js";
import { client } from "../auth.js";
import { Costs } from "../costs.js";
import { Family } from "../family.js";
import { Act, Select } from "../form.js";
import { JournalView, RecordPanel } from "../journal.js";
import { Judgement, toldOf } from "../judging.js";
import { Ledger } from "../ledger.js";
import { Beside, column, Table } from "../list.js";
import {
  ButtonLink,
  Crashes,
  Failure,
  Heading,
  Loading,
  RunStatus,
  statusWords,
  Tabs,
  TextLink,
  useNow,
} from "../parts.js";
import { feedbackQuery, isOver, recentRunsQuery, runQuery, traceQuery } from "../queries.js";
import { isStory } from "../records.js";
import { navigate, useSearch } from "../router.js";
import { useFindKey } from "../shell.js";
import { UndoRun } from "../undo.js";

const SECOND_MS = 1_000;
/** A run that is over needs no clock. */
const NEVER_MS = 2_147_483_647;
/** Each tick of a live trace places every span anew: a long one ticks less often. */
const SPANS_FEW = 2_000;

function tickMs(traces: readonly TraceInfo[], isLive: boolean): number {
  if (!isLive) return NEVER_MS;
  return traces.reduce((sum, { spans }) => sum + spans.length, 0) <= SPANS_FEW ? SECOND_MS : 5 * SECOND_MS;
}

/** Subagents with traces that are read with that of their run. */
const TRACES_MAX = 200;
const WISH_CHARS_MAX = 160;
const COMPARED_CHARS_MAX = 48;
const WITHOUT_RECORDS: ReadonlySet<string> = new Set(["trace", "decisions", "family", "costs"]);

/** A run: its trace, its story, its decisions and its records. */
export function RunPage({ runId }: { readonly runId: string }): ReactNode {
  const run = useQuery(runQuery(runId));
  const { traces, error: untraced } = useTraces(runId);
  const [{ view }] = useSearch(SEARCH.run);
  // The trace needs no records, and those of a long run are megabytes.
  const { records, error: unread } = useRunRecords(WITHOUT_RECORDS.has(view) ? undefined : runId);
  const { data } = run;
  const error = run.error ?? unread ?? untraced;
  return (
    <>
      <Heading
        title={wishOf(data?.row) ?? `Run ${shortId(runId)}`}
        facts={data !== undefined && <State info={data} />}
        about={
          <span className="flex min-h-6 items-center justify-between gap-3">
            {data !== undefined && (
              <>
                <span className="min-w-0 truncate max-sm:whitespace-normal">
                  <RunFacts info={data} traces={traces} />
                </span>
                <Judgement runId={runId} what="this run" />
              </>
            )}
          </span>
        }
      >
        {data !== undefined && <Links info={data} />}
      </Heading>
      {error != null && <Failure error={error} onRetry={() => void run.refetch()} />}
      {data?.result?.error !== undefined && <Trouble result={data.result} />}
      {data !== undefined && !isOver(data.run.status) && <Waits requests={data.requests} />}
      {data !== undefined && <Views info={data} records={records} traces={traces} />}
    </>
  );
}

/** Where a run is, the crashes that it survived, and of a playground run, what it runs again. */
function State({ info: { run, row } }: { readonly info: RunInfo }): ReactNode {
  const { status, playground: origin, waiting } = run;
  return (
    <>
      <RunStatus run={{ status, waitsOn: isOver(status) ? undefined : row?.waitsOn }} />
      {waiting?.since !== undefined && (
        <span className="text-xs text-agent-muted">since {formatWhen(waiting.since)}</span>
      )}
      <Crashes count={row?.crashes ?? 0} />
      {origin !== undefined && (
        <span className="text-xs text-agent-muted">
          playground run of{" "}
          <TextLink href={to("playground", [origin.runId, String(origin.stepIndex)])}>
            model call {origin.stepIndex + 1} of run {shortId(origin.runId)}
          </TextLink>
        </span>
      )}
    </>
  );
}

/** Where a span began: the record, and the run that it is a record of. */
interface Place {
  readonly spanId: string;
  readonly runId: string;
  readonly seq: number | undefined;
  readonly callId: string | undefined;
}

/** The trace of a run and those of its subagents, as far as they are read. */
function useTraces(runId: string): { readonly traces: readonly TraceInfo[]; readonly error: Error | null } {
  const [ids, setIds] = useState<readonly string[]>([runId]);
  const { traces, error } = useQueries({
    queries: ids.map(traceQuery),
    combine: (results) => ({
      traces: results.flatMap(({ data }) => (data === undefined ? [] : [data])),
      // A subagent that has not begun has no trace yet; that of the run itself must be there.
      error: results[0]?.error ?? null,
    }),
  });
  const children = traces.flatMap(({ spans }) => spans.map(({ attrs }) => attrs?.["childRunId"]));
  const fresh = [...new Set(children)].filter((id) => typeof id === "string").filter((id) => !ids.includes(id));
  const room = TRACES_MAX + 1 - ids.length;
  if (fresh.length > 0 && room > 0) setIds([...ids, ...fresh.slice(0, room)]);
  return { traces, error };
}

/** The span that is meant: by its id, or in the run itself by the record that began it. */
function findSpan(
  traces: readonly TraceInfo[],
  spanId: string | undefined,
  seq: number | undefined,
): Place | undefined {
  if (spanId === undefined && seq === undefined) return undefined;
  const isMeant = (span: TraceSpan, at: number): boolean =>
    spanId === undefined ? at === 0 && span.seq === seq : span.spanId === spanId;
  for (const [at, trace] of traces.entries()) {
    const span = trace.spans.find((span) => isMeant(span, at));
    const callId = span?.attrs?.["callId"];
    if (span !== undefined)
      return {
        spanId: span.spanId,
        runId: runIdOf(trace),
        seq: span.seq,
        callId: typeof callId === "string" ? callId : undefined,
      };
  }
  return undefined;
}

/** The input of the run, as lists show it. */
function wishOf(row: RunRow | undefined): string | undefined {
  const input = row?.input?.trim().replace(/\s+/gu, " ");
  return input === undefined || input === "" ? undefined : cut(input, WISH_CHARS_MAX);
}

interface ViewsProps {
  readonly info: RunInfo;
  readonly records: readonly Event[];
  readonly traces: readonly TraceInfo[];
}

function Views({ info: { run }, records, traces }: ViewsProps): ReactNode {
  const [{ view, at, span }, change] = useSearch(SEARCH.run);
  const { runId } = run;
  const isLive = !isOver(run.status);
  const { data: feedback = [] } = useQuery(feedbackQuery(runId));
  const story = useMemo(() => records.filter(isStory), [records]);
  const chosen = useMemo(() => findSpan(traces, span, at), [traces, span, at]);
  // It stays the same: rows are not drawn again for it.
  const select = useMemo(
    () => (seq: number) => {
      change({ at: seq, span: undefined });
    },
    [change],
  );
  const beside = (content: ReactNode, position?: Place): ReactNode => (
    <Beside
      panel={
        <RecordPanel
          runId={position?.runId ?? runId}
          seq={position?.seq ?? at}
          callId={position?.callId}
          onClose={() => {
            change({ at: undefined, span: undefined });
          }}
        />
      }
    >
      {content}
    </Beside>
  );
  const journal = (shown: readonly Event[], isRaw: boolean): ReactNode =>
    beside(<JournalView records={shown} isRaw={isRaw} selected={at} onSelect={select} />);
  return (
    <Tabs
      label="Views of the run"
      value={view}
      onChange={(next) => {
        change({ view: next, filter: undefined, decision: undefined }, { push: true });
      }}
      tabs={[
        {
          id: "trace",
          label: "Trace",
          content: () => beside(<Spans traces={traces} isLive={isLive} chosen={chosen} />, chosen),
        },
        { id: "timeline", label: "Timeline", content: () => journal(story, false) },
        { id: "decisions", label: "Decisions", content: () => <Ledger runId={runId} isLive={isLive} /> },
        { id: "family", label: "Family", content: () => <Relatives traces={traces} isLive={isLive} /> },
        { id: "costs", label: "Costs", content: () => <Costs runId={runId} isLive={isLive} /> },
        ...(feedback.length === 0
          ? []
          : [
              {
                id: "feedback" as const,
                label: `Feedback ${formatCount(feedback.length)}`,
                content: () => <Said feedback={feedback} records={records} />,
              },
            ]),
        {
          id: "journal",
          label: records.length === 0 ? "Records" : `Records ${formatCount(records.length)}`,
          content: () => journal(records, true),
        },
      ]}
    />
  );
}

const SAID: readonly TableColumn<FeedbackInfo>[] = [
  column("about", "About", { width: 110 }, (feedback) => aboutOf(feedback)),
  column("said", "What was said", { width: 220, share: 1 }, (feedback) => toldOf(feedback)),
  column("by", "By", { width: 120, fromPx: 560 }, ({ by = "–" }) => by),
  column("at", "When", { width: 160, fromPx: 480 }, ({ at }) => formatWhen(at)),
];

/** The subject of feedback: the run, a step or an answer. */
function aboutOf({ stepIndex, messageId }: FeedbackInfo): string {
  return stepIndex !== undefined ? `step ${stepIndex + 1}` : messageId === undefined ? "the run" : "an answer";
}

interface SaidProps extends Pick<ViewsProps, "records"> {
  readonly feedback: readonly FeedbackInfo[];
}

/** Everything that people said of the run, its steps and its answers; a row of a step leads to it. */
function Said({ feedback, records }: SaidProps): ReactNode {
  const [, change] = useSearch(SEARCH.run);
  return (
    <Table
      name="said"
      label="Feedback"
      rows={feedback}
      columns={SAID}
      keyOf={(feedback) => `${feedback.at} ${aboutOf(feedback)} ${toldOf(feedback)}`}
      onOpen={({ stepIndex }) => {
        const step = records.find(({ type, data }) => type === "step.started" && data["stepIndex"] === stepIndex);
        change({ view: undefined, at: step?.seq }, { push: true });
      }}
    />
  );
}

/** Other runs to compare with: those of the same wish first. */
export function comparable(
  runId: string,
  wish: string | undefined,
  same: readonly RunRow[],
  newest: readonly RunRow[],
): readonly (readonly [runId: string, words: string])[] {
  const textOf = ({ runId: id, input, status, startedAt, at }: RunRow): string =>
    `${cut(input || shortId(id), COMPARED_CHARS_MAX)} · ${statusWords(status)}, ${formatWhen(startedAt ?? at ?? "")}`;
  const isSame = ({ input }: RunRow): boolean => wish !== undefined && input === wish;
  const others = new Map(
    [...same, ...newest].filter((run) => run.runId !== runId).map((run) => [run.runId, run] as const),
  );
  const all = [...others.values()];
  return [
    ...all.filter(isSame).map((run) => [run.runId, `same wish: ${textOf(run)}`] as const),
    ...all.filter((run) => !isSame(run)).map((run) => [run.runId, textOf(run)] as const),
  ];
}

function Links({ info }: { readonly info: RunInfo }): ReactNode {
  const { runId, sessionId, agentId, status } = info.run;
  const stop = useMutation({ mutationFn: () => client.runs.cancel(runId) });
  const wish = info.row?.input?.trim() || undefined;
  const newest = useQuery(recentRunsQuery(agentId));
  // A search over all runs: asked for when a person comes near, not with every page.
  const [isNear, setIsNear] = useState(false);
  const same = useQuery({
    ...recentRunsQuery(agentId, wish?.replace(/…$/u, "").slice(0, WISH_CHARS_MAX)),
    enabled: isNear && wish !== undefined,
  });
  const come = (): void => {
    setIsNear(true);
  };
  return (
    <div className="flex items-center gap-2 text-sm *:shrink-0 max-sm:w-full max-sm:overflow-x-auto max-sm:p-0.5">
      {sessionId !== undefined && <ButtonLink href={to("chat", [sessionId])}>Open chat</ButtonLink>}
      <span onPointerEnter={come} onFocus={come}>
        <Select
          label="Compare with"
          isLabelHidden
          value=""
          options={[["", "Compare…"], ...comparable(runId, info.row?.input, same.data ?? [], newest.data ?? [])]}
          onChange={(other) => {
            if (other !== undefined) navigate(to("diff", [runId, other]));
          }}
        />
      </span>
      {!isOver(status) && (
        <Act act={stop} variant="danger">
          Cancel the run
        </Act>
      )}
      {isOver(status) && <AddToDataset runIds={[runId]} />}
      {status === "failed" && <ContinueRun runId={runId} />}
      {isOver(status) && <UndoRun runId={runId} />}
      <ButtonLink href={to("playground", [runId, "0"])}>Playground</ButtonLink>
      <Refusal error={stop.error} />
    </div>
  );
}

/** Why something could not be done, in a line. */
function Refusal({ error }: { readonly error: Error | null }): ReactNode {
  return (
    error !== null && (
      <span role="alert" className="text-agent-danger-text">
        {sentence(error.message)}
      </span>
    )
  );
}

/** Continues a failed run in a new run of its session, which it opens; no call that has a result is repeated. */
function ContinueRun({ runId }: { readonly runId: string }): ReactNode {
  const retry = useMutation({
    mutationFn: () => client.runs.retry(runId),
    onSuccess: (accepted) => {
      navigate(to("run", [accepted.runId]));
    },
  });
  return (
    <>
      <Act act={retry} title="Go on after the last finished call, in a new run; no call that has a result is repeated">
        Continue
      </Act>
      <Refusal error={retry.error} />
    </>
  );
}

/** Time, tokens and cost of the run, from its trace: that is there before the run ends, and has the subagents in it. */
function RunFacts({ info: { run }, traces }: Omit<ViewsProps, "records">): ReactNode {
  const shape = useMemo(() => traceShape(traces), [traces]);
  const root = shape.roots[0];
  const workMs = shape.busy.reduce((total, [from, to]) => total + to - from, 0);
  const version = `version ${shortHash(run.packageFingerprint)}`;
  const facts =
    root === undefined
      ? [run.agentId, run.modelId, version]
      : [
          run.agentId,
          run.modelId,
          version,
          root.span.endAt === undefined
            ? `${formatDuration(workMs)} of work so far`
            : `${formatDuration(root.endMs - root.startMs)} (${formatDuration(workMs)} of work)`,
          root.tokens > 0 ? `${formatCount(root.tokens)} tokens` : "",
          root.costMicros === undefined ? "" : formatCost(root.costMicros),
          formatWhen(root.span.startAt),
        ];
  return (
    <>
      {run.sessionId !== undefined && (
        <>
          <TextLink href={to("session", [run.sessionId])}>Session</TextLink> ·{" "}
        </>
      )}
      {facts.filter((fact) => fact !== "").join(" · ")}
    </>
  );
}

/** What a run asks people, and where it is answered. */
function Waits({ requests }: { readonly requests: RunInfo["requests"] }): ReactNode {
  return requests.map(({ requestId, prompt }) => (
    <p
      key={requestId}
      role="note"
      className="flex items-center gap-3 border-b border-l-4 border-agent-border border-l-agent-warning px-4 py-2 text-sm"
    >
      <span className="min-w-0 flex-1 break-words">{cut(prompt.replace(/\s+/gu, " "), WISH_CHARS_MAX)}</span>
      <ButtonLink href={to("approvals", [], { at: requestId })}>Answer</ButtonLink>
    </p>
  ));
}

function Trouble({ result }: { readonly result: RunResult }): ReactNode {
  return (
    <p
      role="note"
      className="border-b border-l-4 border-agent-border border-l-agent-danger px-4 py-2 text-sm break-words"
    >
      <strong>{result.error?.code}</strong> {sentence(result.error?.message ?? "")}
    </p>
  );
}

/** The agents of the run and of its subagents, live. */
function Relatives({ traces, isLive }: { readonly traces: readonly TraceInfo[]; readonly isLive: boolean }): ReactNode {
  const now = useNow(tickMs(traces, isLive));
  return traces.length === 0 ? <Loading /> : <Family traces={traces} nowMs={isLive ? now : undefined} />;
}

interface SpansProps {
  readonly traces: readonly TraceInfo[];
  readonly isLive: boolean;
  readonly chosen: Place | undefined;
}

function Spans({ traces, isLive, chosen }: SpansProps): ReactNode {
  const [, change] = useSearch(SEARCH.run);
  const now = useNow(tickMs(traces, isLive));
  const find = useFindKey();
  if (traces.length === 0) return <Loading />;
  return (
    <TraceTree
      traces={traces}
      nowMs={isLive ? now : undefined}
      selected={chosen?.spanId}
      findRef={find}
      onSelect={({ id }) => {
        change({ span: id, at: undefined });
      }}
    />
  );
}

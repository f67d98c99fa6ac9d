/** Everything about one record: what was sent, what was decided, what came of it, and the record itself. */
import type { Event, PolicyDecision } from "@windlass/protocol";
import {
  classes,
  CODE,
  CopyButton,
  cut,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  formatValue,
} from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { callFacts, stepFacts, type CallFacts, type StepFacts } from "../lib/facts.js";
import { to } from "../lib/router.js";
import { kindOf, tell } from "../lib/tell.js";
import { ButtonLink, Empty, TextLink } from "./basics.js";
import { Prompt } from "./prompt.js";
import { SMALL_BUTTON } from "./styles.js";

const TEXT_CHARS_MAX = 50_000;

interface RecordPanelProps {
  /** All records of the session. */
  readonly records: readonly Event[];
  readonly seq: number | undefined;
  readonly sessionId: string;
  readonly onClose: () => void;
}

export function RecordPanel({ records, seq, sessionId, onClose }: RecordPanelProps): ReactNode {
  const record = seq === undefined ? undefined : records[seq - 1];
  return (
    <aside
      aria-label="Details"
      className="flex min-h-0 flex-col overflow-y-auto border-agent-border max-lg:max-h-[50%] max-lg:border-t lg:w-[26rem] lg:shrink-0 lg:border-l"
    >
      {record === undefined ? (
        <Empty title="Nothing is selected.">
          <p>Choose a row to see the exact prompt, arguments, result and policy decision.</p>
        </Empty>
      ) : (
        <Details key={record.seq} records={records} record={record} sessionId={sessionId} onClose={onClose} />
      )}
    </aside>
  );
}

function Details({
  records,
  record,
  sessionId,
  onClose,
}: {
  readonly records: readonly Event[];
  readonly record: Event;
  readonly sessionId: string;
  readonly onClose: () => void;
}): ReactNode {
  // A record never changes, and what belongs to it comes soon after it: enough records more, and it is looked up again.
  const calls = useMemo(() => callFacts(records, record), [records, record]);
  const step = useMemo(() => stepFacts(records, record), [records, record]);
  const raw = JSON.stringify(record, undefined, 2);
  return (
    <div className="flex flex-col gap-4 p-4 text-sm">
      <div className="flex items-start justify-between gap-2">
        <h2 className="min-w-0 font-semibold break-words">
          {record.seq}. {tell(record).title}
        </h2>
        <button type="button" className={SMALL_BUTTON} onClick={onClose}>
          Close
        </button>
      </div>
      <p className="flex flex-wrap gap-2">
        <ButtonLink href={to(["sessions", sessionId], { view: "chat", at: record.seq })}>
          The session as it was then
        </ButtonLink>
        {record.runId !== undefined && (
          <ButtonLink href={to(["runs", record.runId], { at: record.seq })}>Its run</ButtonLink>
        )}
      </p>
      {calls.map((call) => (
        <Call key={call.callId} call={call} />
      ))}
      {step !== undefined && <Step step={step} />}
      <Block title="Record" text={raw} action={<CopyButton text={raw} label="Copy record" />} />
    </div>
  );
}

function Call({ call }: { readonly call: CallFacts }): ReactNode {
  const { result, started } = call;
  return (
    <section aria-label={`Call of ${call.name}`} className="flex flex-col gap-3">
      <p className="font-medium">
        Call of <span className="font-mono">{call.name}</span>
        {started !== undefined && (
          <span className="text-xs text-agent-muted"> {kindOf(started.mode, started.effect)}</span>
        )}
      </p>
      <Block title="Arguments" text={formatValue(call.input)} />
      {call.decisions.map((decision, at) => (
        <Verdict key={at} decision={decision} />
      ))}
      {call.answers.map(({ outcome, by, text }, at) => (
        <p key={at} className="text-xs">
          A person said <strong>{outcome}</strong>
          {by !== undefined && `, ${by}`}
          {text !== undefined && `: ${text}`}
        </p>
      ))}
      {call.requests.length > call.answers.length && (
        <p className="text-xs text-agent-warning">
          It waits for an answer. <TextLink href="/approvals">Approvals</TextLink>
        </p>
      )}
      {call.childSessionId !== undefined && (
        <p>
          <TextLink href={to(["sessions", call.childSessionId])}>Session of the subagent</TextLink>
        </p>
      )}
      {result !== undefined && (
        <Block
          title={`Result: ${result.status}${result.durationMs === undefined ? "" : `, ${formatDuration(result.durationMs)}`}`}
          text={result.error?.message ?? formatValue(result.result.output)}
        />
      )}
    </section>
  );
}

function Verdict({ decision }: { readonly decision: PolicyDecision }): ReactNode {
  const { decision: verdict, reason, code, policyRefs } = decision;
  return (
    <p className="border-l-2 border-agent-border pl-3 text-xs">
      Policy: <strong>{verdict}</strong>. {reason}{" "}
      <span className="font-mono text-agent-muted">
        {code}
        {policyRefs.map(({ id }) => `, ${id}`).join("")}
      </span>
    </p>
  );
}

function Step({ step }: { readonly step: StepFacts }): ReactNode {
  const { completed, failed, place, promptCount } = step;
  const usage = completed?.usage;
  return (
    <section aria-label="Model call" className="flex flex-col gap-3">
      <p className="font-medium">
        Model call <span className="font-mono">{step.modelId}</span>
      </p>
      {usage !== undefined && (
        <p className="text-xs text-agent-muted">
          {formatCount(usage.inputTokens ?? 0)} tokens in, {formatCount(usage.outputTokens ?? 0)} out
          {usage.costMicros !== undefined && `, ${formatCost(usage.costMicros)}`}
          {completed?.latencyMs !== undefined && `, ${formatDuration(completed.latencyMs)}`}
        </p>
      )}
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
      {place !== undefined && <Prompt {...place} count={promptCount} />}
      {step.said !== "" && <Block title="What it said" text={step.said} />}
    </section>
  );
}

function Block({
  title,
  text,
  action,
}: {
  readonly title: string;
  readonly text: string;
  readonly action?: ReactNode;
}): ReactNode {
  return (
    <div>
      <div className="mb-1 flex items-center justify-between gap-2 text-xs text-agent-muted">
        <span>{title}</span>
        {action}
      </div>
      <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label={title}>
        {cut(text, TEXT_CHARS_MAX)}
      </pre>
    </div>
  );
}

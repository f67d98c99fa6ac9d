/** Failures by cause. */
import { useQuery } from "@tanstack/react-query";
import type { FailureCause, FailureGroup } from "@windlass/protocol/client";
import { CARD, classes, formatCount, plural, shortId } from "@windlass/ui";
import type { ReactNode } from "react";
import { Empty, Failure, Loading, TextLink } from "../parts.js";
import { failuresQuery } from "../queries.js";
import { to } from "../router.js";

/** Names of failure kinds, with advice. */
const KINDS: Readonly<Record<string, readonly [title: string, advice: string]>> = {
  cancelled: ["Cancelled by a person", "Look at what it was doing when it was stopped."],
  interrupted: ["It was cut off", "The process ended in the middle, and the run was not taken up again."],
  repeated_call: [
    "It went in circles",
    "The same call came again and again. Say in the instructions what to do when it does not help.",
  ],
  stall: ["It made no progress", "Give it a smaller task, or a tool for what is missing."],
  budget: ["The budget was used up", "Raise the budget, or find out what used it: the run shows each step's tokens."],
  output_contract: ["The output did not fit its schema", "Make the schema simpler, or describe its fields."],
  denied: [
    "Policy or a person said no",
    "If it should be allowed, change the policy; else say so in the instructions.",
  ],
  timeout: ["It took too long", "Raise the limit of the tool, or make the tool answer sooner."],
  provider: ["The model could not be reached", "Look at the provider's status, the key and the limits of rate."],
  invalid_arguments: ["Arguments did not fit", "Describe the tool's arguments better; examples help."],
  tool_error: ["A tool failed", "The words are the tool's own: fix the tool, or say when not to use it."],
  goal_missed: ["It ended without reaching its goal", "Read what it said last, and what it could have done instead."],
  unknown: ["No reason is known", "Open a run and look at its last records."],
};
const RUNS_SHOWN_MAX = 12;

/** Why runs failed, the most frequent reason first. */
export function Failures({ agent }: { readonly agent: string | undefined }): ReactNode {
  const { data, error, refetch } = useQuery(failuresQuery(agent));
  if (error !== null && data === undefined) return <Failure error={error} onRetry={() => void refetch()} />;
  if (data === undefined) return <Loading />;
  if (data.groups.length === 0) {
    return (
      <Empty
        title={
          data.runs === 0
            ? "No run has ended yet."
            : data.runs === 1
              ? "The one run did not fail."
              : `None of ${formatCount(data.runs)} runs failed.`
        }
      >
        <p>
          Runs that fail are grouped here by why they did, with the newest of each to look into. A call that failed in a
          run that went well is in <TextLink href="/overview">the overview</TextLink>, under the tools.
        </p>
      </Empty>
    );
  }
  return (
    <div className="flex min-h-0 flex-1 flex-col gap-4 overflow-y-auto p-4">
      <p className="text-sm text-agent-muted">
        {formatCount(data.failed)} of {data.isAll ? "" : "the newest "}
        {plural(data.runs, "run")} failed.
      </p>
      {data.groups.map((group) => (
        <Group key={group.kind} group={group} />
      ))}
    </div>
  );
}

function Group({ group: { kind, count, causes } }: { readonly group: FailureGroup }): ReactNode {
  const [title, advice] = KINDS[kind] ?? [kind.replaceAll("_", " "), ""];
  return (
    <section aria-label={title} className={classes(CARD, "max-w-4xl shrink-0 overflow-hidden")}>
      <div className="flex items-baseline gap-3 px-4 py-3">
        <h2 className="flex-1 text-sm font-semibold">{title}</h2>
        <span className="text-sm font-semibold text-agent-danger-text">
          {formatCount(count)}
          <span className="sr-only"> runs</span>
        </span>
      </div>
      {advice !== "" && <p className="-mt-2 px-4 pb-3 text-xs text-agent-muted">{advice}</p>}
      <ul>
        {causes.map((cause) => (
          <Cause key={cause.told} cause={cause} />
        ))}
      </ul>
    </section>
  );
}

function Cause({ cause: { told, count, runIds } }: { readonly cause: FailureCause }): ReactNode {
  const shown = runIds.slice(0, RUNS_SHOWN_MAX);
  return (
    <li className="flex flex-col gap-1 border-t border-agent-border px-4 py-2 text-sm">
      <span className="flex items-baseline justify-between gap-3">
        <span className="min-w-0">{told}</span>
        <span className="shrink-0 text-xs text-agent-muted">{formatCount(count)}×</span>
      </span>
      <span className="flex flex-wrap gap-x-3 gap-y-1 font-mono text-xs">
        {shown.map((runId) => (
          <TextLink key={runId} href={to(["runs", runId])}>
            {shortId(runId)}
          </TextLink>
        ))}
        {count > shown.length && (
          <span className="font-sans text-agent-muted">and {formatCount(count - shown.length)} more</span>
        )}
      </span>
    </li>
  );
}

/** Undoing a run: the calls that will be reversed and those without an undo, the question, and the outcome. */
import { useMutation, useQuery } from "@tanstack/react-query";
import type { UndoItem, UndoPlan } from "@windlass/protocol/client";
import { Button, Dialog, Fields, plural, sentence } from "@windlass/ui";
import type { ReactNode } from "react";
import { client } from "./auth.js";
import { Act, useOpen } from "./form.js";
import { Failure, Loading, Status, TextLink } from "./parts.js";
import { isOver, runQuery, undoQuery } from "./queries.js";
import { to } from "./addresses.js";

interface Group {
  readonly title: string;
  readonly calls: readonly UndoItem[];
}

const TITLES: Readonly<Record<UndoItem["status"], string>> = {
  reversible: "Will be reversed, in this order",
  no_undo: "Has no undo, and stays as it is",
  unknown: "Failed, or its outcome is not known: nothing is reversed",
  reversed: "Was reversed before",
};

/** The calls of a plan by what will happen to them, those that will be reversed first. */
export function undoGroups(plan: UndoPlan): readonly Group[] {
  const order = Object.keys(TITLES) as UndoItem["status"][];
  return order
    .map((status) => ({ title: TITLES[status], calls: plan.calls.filter((call) => call.status === status) }))
    .filter(({ calls }) => calls.length > 0);
}

/** A button that opens the question whether a run is to be undone; for runs that have ended. */
export function UndoRun({ runId }: { readonly runId: string }): ReactNode {
  const [isOpen, open, close] = useOpen();
  return (
    <>
      <Button onClick={open}>Undo…</Button>
      {isOpen && <UndoDialog runId={runId} onClose={close} />}
    </>
  );
}

function UndoDialog({ runId, onClose }: { readonly runId: string; readonly onClose: () => void }): ReactNode {
  const plan = useQuery(undoQuery(runId));
  const undo = useMutation({ mutationFn: () => client.runs.undo(runId) });
  const undoRunId = undo.data?.runId;
  const count = plan.data?.calls.filter(({ status }) => status === "reversible").length ?? 0;
  return (
    <Dialog title="Undo the run" isOpen onClose={onClose}>
      {plan.error !== null && <Failure error={plan.error} />}
      {plan.isPending && <Loading />}
      {undoRunId !== undefined && <Outcome runId={undoRunId} />}
      {undoRunId === undefined && plan.data !== undefined && <Plan plan={plan.data} />}
      {undo.error !== null && <Failure error={undo.error} />}
      {undoRunId === undefined && (
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Keep it</Button>
          <Act act={undo} variant="danger" disabled={count === 0}>
            Reverse {plural(count, "call")}
          </Act>
        </div>
      )}
    </Dialog>
  );
}

function Plan({ plan }: { readonly plan: UndoPlan }): ReactNode {
  const groups = undoGroups(plan);
  if (groups.length === 0) return <p className="text-agent-muted">No call of this run changed anything.</p>;
  return (
    <div className="flex flex-col gap-4">
      {groups.map(({ title, calls }) => (
        <section key={title} aria-label={title}>
          <h3 className="mb-1 text-xs font-semibold text-agent-muted">{title}</h3>
          <ol className="flex flex-col gap-2">
            {calls.map((call) => (
              <li key={call.callId} className="rounded-md border border-agent-border p-3">
                <p className="mb-1 font-mono text-xs font-medium wrap-anywhere">
                  {call.toolName}
                  {call.status === "reversible" && ` ← ${call.undoName ?? ""}`}
                </p>
                <Fields value={call.arguments} label={`Arguments of ${call.toolName}`} />
                {call.childRunId !== undefined && (
                  <TextLink href={to("run", [call.childRunId])}>
                    A run of a subagent, which is undone by itself
                  </TextLink>
                )}
              </li>
            ))}
          </ol>
        </section>
      ))}
      <p className="text-xs text-agent-muted">
        A policy decides about each reversal, and may ask a person. The journal keeps both the calls and their reversal.
      </p>
    </div>
  );
}

/** The outcome of an undo: a run of its own, which may wait for people. */
function Outcome({ runId }: { readonly runId: string }): ReactNode {
  const { data, error } = useQuery(runQuery(runId));
  if (error !== null) return <Failure error={error} />;
  if (data === undefined) return <Loading label="Reversing" />;
  const { run, result } = data;
  return (
    <div role="status" className="flex flex-col items-start gap-2">
      <Status status={run.status} />
      {run.status === "waiting" && (
        <p>
          A reversal waits for an answer. <TextLink href="/approvals">Inbox</TextLink>
        </p>
      )}
      {isOver(run.status) && (
        <p className="wrap-anywhere">{sentence(result?.error?.message ?? result?.output ?? "")}</p>
      )}
      <TextLink href={to("run", [runId])}>Run of the undo</TextLink>
    </div>
  );
}

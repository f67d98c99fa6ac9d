/** Undoing a run: what will be reversed and what has no undo, the question, and the outcome. */
import { useQuery } from "@tanstack/react-query";
import type { UndoItem, UndoPlan } from "@windlass/protocol/client";
import { BUTTONS, Fields, plural, sentence } from "@windlass/ui";
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { client } from "./auth.js";
import { Failure, Loading, Status, TextLink } from "./parts.js";
import { isOver, runQuery, undoQuery } from "./queries.js";
import { to } from "./router.js";

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
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        className={BUTTONS.default}
        onClick={() => {
          setIsOpen(true);
        }}
      >
        Undo…
      </button>
      {isOpen && (
        <UndoDialog
          runId={runId}
          onClose={() => {
            setIsOpen(false);
          }}
        />
      )}
    </>
  );
}

function UndoDialog({ runId, onClose }: { readonly runId: string; readonly onClose: () => void }): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  const plan = useQuery(undoQuery(runId));
  const [undoRunId, setUndoRunId] = useState<string>();
  const [isBusy, setIsBusy] = useState(false);
  const [error, setError] = useState<string>();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  const count = plan.data?.calls.filter(({ status }) => status === "reversible").length ?? 0;
  const undo = (): void => {
    setIsBusy(true);
    client.undoRun(runId).then(
      (accepted) => {
        setUndoRunId(accepted.runId);
      },
      (failure: unknown) => {
        setError(failure instanceof Error ? failure.message : String(failure));
        setIsBusy(false);
      },
    );
  };
  return (
    <dialog
      ref={dialog}
      onClose={onClose}
      aria-labelledby={id}
      className="m-auto max-h-[90dvh] w-full max-w-xl overflow-y-auto rounded-lg border border-agent-border bg-agent-bg p-5 text-sm text-agent-text backdrop:bg-black/50"
    >
      <h2 id={id} className="mb-2 text-base font-semibold">
        Undo the run
      </h2>
      {plan.error !== null && <Failure error={plan.error} />}
      {plan.isPending && <Loading />}
      {undoRunId !== undefined && <Outcome runId={undoRunId} />}
      {undoRunId === undefined && plan.data !== undefined && <Plan plan={plan.data} />}
      {error !== undefined && (
        <p role="alert" className="text-agent-danger-text">
          {sentence(error)}
        </p>
      )}
      <div className="mt-4 flex justify-end gap-2">
        <button type="button" className={BUTTONS.default} onClick={() => dialog.current?.close()}>
          {undoRunId === undefined ? "Keep it" : "Close"}
        </button>
        {undoRunId === undefined && (
          <button type="button" className={BUTTONS.danger} disabled={isBusy || count === 0} onClick={undo}>
            Reverse {plural(count, "call")}
          </button>
        )}
      </div>
    </dialog>
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
                  <TextLink href={to(["runs", call.childRunId])}>
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

/** What came of an undo: a run of its own, which may wait for people. */
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
      <TextLink href={to(["runs", runId])}>Run of the undo</TextLink>
    </div>
  );
}

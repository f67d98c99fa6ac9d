import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { SessionInfo } from "@windlass/protocol/client";
import { useState, type ReactNode } from "react";
import { client } from "../lib/api.js";
import { shortId } from "../lib/format.js";
import { tellDone } from "../lib/notice.js";
import { isOver } from "../lib/queries.js";
import { navigate } from "../lib/router.js";
import { Failure } from "./basics.js";
import { Confirm } from "./confirm.js";
import { SMALL_BUTTON, SMALL_DANGER } from "./styles.js";

/** Takes a session out as a file, or removes it for good. */
export function Keeping({ session, title }: { readonly session: SessionInfo; readonly title: string }): ReactNode {
  const { sessionId, status = "idle", runCount = 0 } = session;
  const [isAsking, setIsAsking] = useState(false);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: async () => {
      saveAs(`session-${sessionId}.jsonl`, await client.exportSession(sessionId));
    },
  });
  const remove = useMutation({
    mutationFn: () => client.deleteSession(sessionId),
    onSuccess: (gone) => {
      for (const id of gone) queries.removeQueries({ queryKey: ["session", id] });
      void queries.invalidateQueries({ queryKey: ["sessions"] });
      const others = gone.filter((id) => id !== sessionId);
      tellDone(
        `Deleted “${title}” (${shortId(sessionId)})${others.length === 0 ? "" : `, and ${others.length === 1 ? "the session of its subagent" : `${others.length} sessions of its subagents`}: ${others.map(shortId).join(", ")}`}.`,
      );
      navigate("/sessions", { replace: true });
    },
    onError: () => {
      setIsAsking(false);
    },
  });
  const isOpen = !isOver(status) && status !== "idle";
  const error = save.error ?? remove.error;
  return (
    <>
      <button
        type="button"
        className={SMALL_BUTTON}
        title="Everything that is stored of it, as lines of JSON"
        disabled={save.isPending}
        onClick={() => {
          save.mutate();
        }}
      >
        Export
      </button>
      <button
        type="button"
        className={SMALL_DANGER}
        onClick={() => {
          setIsAsking(true);
        }}
      >
        Delete
      </button>
      <Confirm
        title={`Delete “${title}”?`}
        action="Delete for good"
        isOpen={isAsking}
        isBusy={remove.isPending}
        onConfirm={() => {
          remove.mutate();
        }}
        onClose={() => {
          setIsAsking(false);
        }}
      >
        <p>
          Its journal goes, with {runCount === 1 ? "its run" : `its ${runCount} runs`} and the sessions of its
          subagents. Nothing brings them back; forks of it stay.
        </p>
        {isOpen && <p className="text-agent-warning">A run is {status} in it: it ends.</p>}
        <p>Export it first if somebody may want to see it again.</p>
      </Confirm>
      {error !== null && (
        <div className="w-full">
          <Failure error={error} />
        </div>
      )}
    </>
  );
}

/** Gives a text to the browser to keep as a file. */
function saveAs(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "application/x-ndjson" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

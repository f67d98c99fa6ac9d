/** What is done with several rows of a list at once: written into a file, or deleted. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Button, plural } from "@windlass/ui";
import { useState, type ReactNode } from "react";
import { client } from "./auth.js";
import { Confirm, download, Failure } from "./parts.js";
import { tellDone } from "./shell.js";

/** Writes rows into a file, a line of JSON each: the chosen ones, or all that are here. */
export function ExportButton({
  name,
  chosen,
  all,
}: {
  /** The name of the file, without its ending. */
  readonly name: string;
  readonly chosen: readonly object[];
  readonly all: readonly object[] | undefined;
}): ReactNode {
  const rows = chosen.length > 0 ? chosen : (all ?? []);
  return (
    <Button
      disabled={rows.length === 0}
      onClick={() => {
        download(rows.map((row) => `${JSON.stringify(row)}\n`).join(""), `${name}.jsonl`, "application/x-ndjson");
      }}
    >
      Export{chosen.length > 0 ? ` ${chosen.length}` : ""}
    </Button>
  );
}

/** Deletes sessions, after a question. */
export function DeleteSessions({
  count,
  sessionIds,
  onDone,
  children,
}: {
  /** How many rows are chosen: several may be of one session. */
  readonly count: number;
  readonly sessionIds: readonly string[];
  readonly onDone: () => void;
  /** What is deleted, in a sentence. */
  readonly children: ReactNode;
}): ReactNode {
  const [isAsking, setIsAsking] = useState(false);
  const queries = useQueryClient();
  const remove = useMutation({
    mutationFn: async () => {
      for (const sessionId of sessionIds)
        // A session of a subagent goes with that of its caller, which may have been deleted before it.
        await client.deleteSession(sessionId).catch((error: unknown) => {
          if (!(error instanceof Error && "kind" in error && error.kind === "not_found")) throw error;
        });
    },
    onSuccess: () => {
      tellDone(`Deleted ${plural(sessionIds.length, "session")}.`);
      onDone();
    },
    onSettled: () => {
      setIsAsking(false);
      void queries.invalidateQueries({ queryKey: ["runs"] });
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  return (
    <>
      <Button
        variant="danger"
        onClick={() => {
          setIsAsking(true);
        }}
      >
        Delete {count}
      </Button>
      {remove.error !== null && <Failure error={remove.error} />}
      <Confirm
        title={`Delete ${plural(sessionIds.length, "session")}?`}
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
        <p>{children} It cannot be undone. A session with a run under way is not deleted: cancel the run first.</p>
      </Confirm>
    </>
  );
}

/** Buttons that write rows of a list into a file, or delete them. */
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

/** Gives a text that the server writes to the browser to keep as a file. */
export function SaveButton({
  label,
  title,
  file,
}: {
  readonly label: string;
  readonly title?: string | undefined;
  readonly file: () => Promise<Readonly<Record<"text" | "name" | "type", string>>>;
}): ReactNode {
  const save = useMutation({
    mutationFn: async () => {
      const { text, name, type } = await file();
      download(text, name, type);
    },
  });
  return (
    <>
      <Button
        title={title}
        disabled={save.isPending}
        onClick={() => {
          save.mutate();
        }}
      >
        {label}
      </Button>
      {save.error !== null && <Failure error={save.error} />}
    </>
  );
}

/** Deletes something after a question, or says why it could not. */
export function DeleteButton({
  label = "Delete",
  title,
  onDelete,
  children,
}: {
  readonly label?: string;
  /** The question. */
  readonly title: string;
  readonly onDelete: () => Promise<void>;
  /** The consequences. */
  readonly children: ReactNode;
}): ReactNode {
  const [isAsking, setIsAsking] = useState(false);
  const remove = useMutation({
    mutationFn: onDelete,
    onSettled: () => {
      setIsAsking(false);
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
        {label}
      </Button>
      {remove.error !== null && <Failure error={remove.error} />}
      <Confirm
        title={title}
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
        {children}
      </Confirm>
    </>
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
  /** A sentence that says which data is deleted. */
  readonly children: ReactNode;
}): ReactNode {
  const queries = useQueryClient();
  const remove = async (): Promise<void> => {
    try {
      for (const sessionId of sessionIds)
        // A session of a subagent goes with that of its caller, which may have been deleted before it.
        await client.deleteSession(sessionId).catch((error: unknown) => {
          if (!(error instanceof Error && "kind" in error && error.kind === "not_found")) throw error;
        });
    } finally {
      void queries.invalidateQueries({ queryKey: ["runs"] });
      void queries.invalidateQueries({ queryKey: ["sessions"] });
    }
    tellDone(`Deleted ${plural(sessionIds.length, "session")}.`);
    onDone();
  };
  return (
    <DeleteButton label={`Delete ${count}`} title={`Delete ${plural(sessionIds.length, "session")}?`} onDelete={remove}>
      <p>{children} It cannot be undone. A session with a run under way is not deleted: cancel the run first.</p>
    </DeleteButton>
  );
}

/** The annotation queue: runs that ended and that no one has judged, one after the other. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { Button, CARD, classes, formatWhen } from "@windlass/ui";
import { ThumbsDown, ThumbsUp } from "lucide-react";
import { useState, type ReactNode } from "react";
import { SEARCH, to } from "../addresses.js";
import { AgentSelect, NoteField, TagsField } from "../form.js";
import { useGive, wordsIn } from "../judging.js";
import { Listed, useRows } from "../list.js";
import { ButtonLink, Empty, Failure, Heading, KEY_HINT, Loading, RunStatus, TextLink } from "../parts.js";
import { runQuery, runsQuery } from "../queries.js";
import { useSearch } from "../router.js";
import { useKeys } from "../shell.js";

/** One run at a time; a judgement, or `j`, leads to the next one. */
export function FeedbackPage(): ReactNode {
  const [{ agent }, , set] = useSearch(SEARCH.feedback);
  const list = useInfiniteQuery(
    runsQuery({ filter: { feedback: "none", status: "completed", subagents: false, agent } }),
  );
  const { rows, error, hasNextPage, total } = useRows(list, "runs");
  const [passed, setPassed] = useState<ReadonlySet<string>>(new Set());
  const waiting = rows?.filter(({ runId }) => !passed.has(runId)) ?? [];
  const [run] = waiting;
  const pass = (runId: string): void => {
    setPassed((before) => new Set(before).add(runId));
    if (waiting.length < 5 && hasNextPage) void list.fetchNextPage();
  };
  return (
    <>
      <Heading
        title="Feedback"
        facts={rows !== undefined && <Listed count={waiting.length} noun="run" hasMore={hasNextPage} total={total} />}
        about="Ended runs that no one has judged, the newest first"
      >
        <AgentSelect value={agent} onChange={set("agent")} />
      </Heading>
      {error !== null && <Failure error={error} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : run === undefined ? (
        <Empty title="Nothing waits for a judgement.">
          <p>
            <TextLink href={to("runs", [], { feedback: "down" })}>Runs with a thumb down</TextLink>
          </p>
        </Empty>
      ) : (
        <Judged
          key={run.runId}
          run={run}
          onDone={() => {
            pass(run.runId);
          }}
        />
      )}
    </>
  );
}

function Judged({ run, onDone }: { readonly run: RunRow; readonly onDone: () => void }): ReactNode {
  const { data: whole } = useQuery(runQuery(run.runId));
  const [note, setNote] = useState("");
  const [tags, setTags] = useState("");
  const { mutate, error, isPending } = useGive(run);
  const give = (thumb: "up" | "down") => (): void => {
    mutate({ thumb, ...wordsIn(note, tags) }, { onSuccess: onDone });
  };
  useKeys({ u: give("up"), d: give("down"), j: onDone });
  const answer = whole?.result?.output ?? run.output ?? "";
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-4 overflow-y-auto p-4 text-sm">
      <div className="flex flex-wrap items-center gap-3">
        <RunStatus run={run} />
        <span className="text-agent-muted">{run.agentId}</span>
        {run.startedAt !== undefined && <span className="text-agent-muted">{formatWhen(run.startedAt)}</span>}
        <ButtonLink href={to("run", [run.runId])} className="ml-auto">
          Open the run
        </ButtonLink>
      </div>
      <section aria-label="Input" className={classes(CARD, "p-3")}>
        <p className="font-semibold">{run.input}</p>
      </section>
      <section aria-label="Output" className={classes(CARD, "p-3 whitespace-pre-wrap")}>
        {answer}
      </section>
      <NoteField value={note} onChange={setNote} />
      <TagsField value={tags} onChange={setTags} />
      {error !== null && <Failure error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button variant="primary" disabled={isPending} onClick={give("up")}>
          <ThumbsUp aria-hidden size={14} /> Good <kbd className={KEY_HINT}>u</kbd>
        </Button>
        <Button variant="danger" disabled={isPending} onClick={give("down")}>
          <ThumbsDown aria-hidden size={14} /> Bad <kbd className={KEY_HINT}>d</kbd>
        </Button>
        <Button onClick={onDone}>
          Next <kbd className={KEY_HINT}>j</kbd>
        </Button>
      </div>
    </div>
  );
}

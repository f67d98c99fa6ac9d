/** The annotation queue: runs that ended and that no one has judged, one after the other. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { RunRow } from "@windlass/protocol/client";
import { BUTTONS, CARD, classes, formatWhen } from "@windlass/ui";
import { ThumbsDown, ThumbsUp } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useGive } from "../judging.js";
import {
  ButtonLink,
  Empty,
  Failure,
  Heading,
  KEY_HINT,
  Listed,
  Loading,
  NoteField,
  RunStatus,
  Select,
  TagsField,
  tagsIn,
  TextLink,
} from "../parts.js";
import { agentsQuery, runQuery, runsQuery } from "../queries.js";
import { to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

/** One run at a time; a judgement, or `j`, leads to the next one. */
export function FeedbackPage(): ReactNode {
  const [query, change] = useQueryState();
  const { data: agents = [] } = useQuery(agentsQuery);
  const agent = query.get("agent") || undefined;
  const { data, error, hasNextPage, fetchNextPage } = useInfiniteQuery(
    runsQuery({ filter: { feedback: "none", status: "completed", subagents: false, agent } }),
  );
  const [passed, setPassed] = useState<ReadonlySet<string>>(new Set());
  const waiting = data?.pages.flatMap(({ runs }) => runs).filter(({ runId }) => !passed.has(runId)) ?? [];
  const [run] = waiting;
  const pass = (runId: string): void => {
    setPassed((before) => new Set(before).add(runId));
    if (waiting.length < 5 && hasNextPage) void fetchNextPage();
  };
  return (
    <>
      <Heading
        title="Feedback"
        facts={
          data !== undefined && (
            <Listed count={waiting.length} noun="run" hasMore={hasNextPage} total={data.pages[0]?.total} />
          )
        }
        about="Ended runs that no one has judged, the newest first"
      >
        <Select
          label="Agent"
          value={agent ?? ""}
          options={[["", "any"], ...agents.map(({ agentId }) => [agentId, agentId] as const)]}
          onChange={(next) => {
            change({ agent: next });
          }}
        />
      </Heading>
      {error !== null && <Failure error={error} />}
      {data === undefined ? (
        error === null && <Loading />
      ) : run === undefined ? (
        <Empty title="Nothing waits for a judgement.">
          <p>
            <TextLink href="/runs?feedback=down">Runs with a thumb down</TextLink>
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
  const give = (thumb: "up" | "down"): void => {
    const words = tagsIn(tags);
    mutate(
      {
        thumb,
        ...(note.trim() === "" ? {} : { note: note.trim() }),
        ...(words.length === 0 ? {} : { tags: words }),
      },
      { onSuccess: onDone },
    );
  };
  useKeys({
    u: () => {
      give("up");
    },
    d: () => {
      give("down");
    },
    j: onDone,
  });
  const answer = whole?.result?.output ?? run.output ?? "";
  return (
    <div className="mx-auto flex w-full max-w-3xl flex-col gap-4 overflow-y-auto p-4 text-sm">
      <div className="flex flex-wrap items-center gap-3">
        <RunStatus run={run} />
        <span className="text-agent-muted">{run.agentId}</span>
        {run.startedAt !== undefined && <span className="text-agent-muted">{formatWhen(run.startedAt)}</span>}
        <ButtonLink href={to(["runs", run.runId])} className="ml-auto">
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
        <button
          type="button"
          className={BUTTONS.primary}
          disabled={isPending}
          onClick={() => {
            give("up");
          }}
        >
          <ThumbsUp aria-hidden size={14} /> Good <kbd className={KEY_HINT}>u</kbd>
        </button>
        <button
          type="button"
          className={BUTTONS.danger}
          disabled={isPending}
          onClick={() => {
            give("down");
          }}
        >
          <ThumbsDown aria-hidden size={14} /> Bad <kbd className={KEY_HINT}>d</kbd>
        </button>
        <button type="button" className={BUTTONS.default} onClick={onDone}>
          Next <kbd className={KEY_HINT}>j</kbd>
        </button>
      </div>
    </div>
  );
}

/** One session, now and after any record. */
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { chatItems, type Event } from "@windlass/protocol";
import type { RunRow, SessionInfo } from "@windlass/protocol/client";
import {
  Button,
  classes,
  CostMeter,
  FIELD,
  FOCUS,
  formatCost,
  formatCount,
  formatDuration,
  formatWhen,
  MessageList,
  shortId,
  useSession,
} from "@windlass/ui";
import { useDeferredValue, useMemo, useState, type ReactNode } from "react";
import { SEARCH, to } from "../addresses.js";
import { client } from "../auth.js";
import { Act, DeleteButton, Input, SaveButton } from "../form.js";
import { JournalView, RecordPanel } from "../journal.js";
import {
  Ago,
  ButtonLink,
  Empty,
  Failure,
  Heading,
  Loading,
  orDash,
  RunStatus,
  shortTokens,
  Tabs,
  TextLink,
} from "../parts.js";
import { isOver, runsOfSessionQuery, safePointQuery, sessionQuery } from "../queries.js";
import { forkAt, TimeMachine } from "../records.js";
import { Link, navigate, useSearch } from "../router.js";
import { tellDone, useKeys } from "../shell.js";

/** A session: as it is, as it was after any record, and its journal. */
export function SessionPage({ sessionId }: { readonly sessionId: string }): ReactNode {
  const session = useQuery(sessionQuery(sessionId));
  const journal = useSession(sessionId, { isWhole: true });
  const [{ at, view }, change, set] = useSearch(SEARCH.session);
  // It stays the same: rows are not drawn again for it.
  const select = useMemo(() => set("at"), [set]);
  const error = session.error ?? journal.error;
  return (
    <>
      <Heading
        title={titleOf(session.data)}
        parent={{ label: "Sessions", href: "/sessions" }}
        facts={session.data !== undefined && <RunStatus run={session.data} />}
        isTight
      >
        {session.data !== undefined && <Links session={session.data} />}
      </Heading>
      {error != null && <Failure error={error} onRetry={() => void session.refetch()} />}
      {session.data === undefined && session.error != null ? null : (
        <Tabs
          label="Views of the session"
          value={view}
          onChange={(next) => {
            change({ view: next, filter: undefined }, { push: true });
          }}
          tabs={[
            {
              id: "chat",
              label: "Conversation",
              content: () => <AsItWas sessionId={sessionId} records={journal.records} at={at} onMove={select} />,
            },
            {
              id: "journal",
              label: "Journal",
              content: () => (
                <div className="flex min-h-0 flex-1 flex-col lg:flex-row">
                  <JournalView records={journal.records} isRaw selected={at} onSelect={select} />
                  <RecordPanel records={journal.records} seq={at} onClose={set("at", undefined)} />
                </div>
              ),
            },
            { id: "runs", label: "Runs", content: () => <Runs sessionId={sessionId} /> },
          ]}
        />
      )}
    </>
  );
}

async function joined(lines: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const line of lines) text += `${line}\n`;
  return text;
}

function titleOf(session: SessionInfo | undefined): string {
  if (session === undefined) return "Session";
  return session.title == null || session.title === "" ? "Untitled session" : session.title;
}

function Links({ session }: { readonly session: SessionInfo }): ReactNode {
  return (
    <div className="flex flex-wrap items-center gap-2">
      {session.parentSessionId != null && (
        <ButtonLink href={to("session", [session.parentSessionId])}>Parent</ButtonLink>
      )}
      {session.predecessorId != null && (
        <ButtonLink href={to("session", [session.predecessorId], { at: session.predecessorSeq ?? undefined })}>
          Forked from
        </ButtonLink>
      )}
      <ButtonLink href={to("chat", [session.sessionId])}>Chat</ButtonLink>
      <Keeping session={session} title={titleOf(session)} />
    </div>
  );
}

interface AsItWasProps {
  readonly sessionId: string;
  readonly records: readonly Event[];
  readonly at: number | undefined;
  readonly onMove: (seq: number | undefined) => void;
}

/** The conversation as it was after a record; the newest one unless another is chosen. */
function AsItWas({ sessionId, records, at, onMove }: AsItWasProps): ReactNode {
  const [machine] = useState(() => new TimeMachine());
  const last = records.length;
  const seq = Math.min(at ?? last, last);
  // The slider moves at once; the page follows as fast as it can.
  const shownSeq = useDeferredValue(seq);
  const conversation = useMemo(() => machine.at(records, shownSeq), [machine, records, shownSeq]);
  const items = useMemo(() => chatItems(conversation), [conversation]);
  const move = (next: number): void => {
    onMove(next >= last ? undefined : Math.max(next, 1));
  };
  useKeys({
    ArrowLeft: () => {
      move(seq - 1);
    },
    ArrowRight: () => {
      move(seq + 1);
    },
  });
  if (last === 0) return <Loading label="Reading the journal" />;
  return (
    <>
      <Travel sessionId={sessionId} seq={seq} last={last} record={records[seq - 1]} onMove={move} />
      <MessageList
        items={items}
        label={`The session after record ${seq}`}
        empty={<Empty title="Nothing was said yet at this record." />}
      />
      <div className="border-t border-agent-border px-4 py-2">
        <CostMeter usage={conversation.usage.session} />
      </div>
    </>
  );
}

interface TravelProps {
  readonly sessionId: string;
  readonly seq: number;
  readonly last: number;
  readonly record: Event | undefined;
  readonly onMove: (seq: number) => void;
}

function Travel({ sessionId, seq, last, record, onMove }: TravelProps): ReactNode {
  const { data: point } = useQuery({ ...safePointQuery(sessionId, seq), placeholderData: keepPreviousData });
  const fork = useMutation({
    mutationFn: (at: number) => forkAt(sessionId, at),
    onSuccess: (id) => {
      navigate(to("chat", [id]));
    },
  });
  const move = (text: string): void => {
    onMove(Number(text));
  };
  return (
    <div className="flex flex-col gap-2 border-b border-agent-border bg-agent-surface px-4 py-2">
      <div className="flex flex-wrap items-center gap-3 text-xs text-agent-muted">
        <Input
          type="range"
          aria-label="Record"
          min={1}
          max={last}
          value={seq}
          className="min-w-32 flex-1 accent-agent-accent"
          onChange={move}
        />
        <label className="inline-flex items-center gap-2 whitespace-nowrap">
          After record
          <Input type="number" min={1} max={last} value={seq} className={classes(FIELD, "w-24!")} onChange={move} />
        </label>
        <span>of {formatCount(last)}</span>
        <Act
          act={fork}
          value={point ?? seq}
          disabled={point == null}
          title={
            point === null
              ? "Before this record nothing is settled: there is no place where a copy could begin"
              : "Begin a copy of this session where no call is under way"
          }
        >
          {point == null || point === seq ? "Fork here" : `Fork at ${point}`}
        </Act>
        {seq < last && (
          <Button
            onClick={() => {
              onMove(last);
            }}
          >
            Now
          </Button>
        )}
      </div>
      {record !== undefined && (
        <p className="text-xs text-agent-muted sm:truncate">
          <span className="font-mono">{record.type}</span> at{" "}
          <time dateTime={record.meta.at}>{formatWhen(record.meta.at)}</time>{" "}
          <TextLink href={to("session", [sessionId], { view: "journal", at: seq })}>Show the record</TextLink>
        </p>
      )}
      {fork.error !== null && <Failure error={fork.error} />}
    </div>
  );
}

function Runs({ sessionId }: { readonly sessionId: string }): ReactNode {
  const { data, error } = useQuery(runsOfSessionQuery(sessionId));
  if (error !== null) return <Failure error={error} />;
  if (data === undefined) return <Loading />;
  if (data.length === 0)
    return (
      <Empty title="Nothing ran in this session yet.">
        <p>Each message of a user begins a run.</p>
      </Empty>
    );
  return (
    <ul className="overflow-y-auto">
      {data.map((run) => (
        <li key={run.runId} className="border-b border-agent-border">
          <RunLine run={run} />
        </li>
      ))}
    </ul>
  );
}

const NUMBER = "hidden w-20 shrink-0 text-right text-xs tabular-nums text-agent-muted lg:block";

function RunLine({ run }: { readonly run: RunRow }): ReactNode {
  const { runId, agentId, startedAt, endedAt, usage, input } = run;
  return (
    <Link
      href={to("run", [runId])}
      className={classes("flex items-center gap-4 px-4 py-2 text-sm hover:bg-agent-surface", FOCUS)}
    >
      <span className="min-w-0 flex-1">
        <span className={classes("block truncate", (input ?? "") === "" && "font-mono text-xs")}>
          {input || shortId(runId)}
        </span>
        <span className="block truncate text-xs text-agent-muted md:hidden">{agentId}</span>
      </span>
      <span className="hidden w-28 shrink-0 truncate md:block">{agentId}</span>
      <span className={NUMBER}>
        {startedAt === undefined || endedAt === undefined
          ? "–"
          : formatDuration(Date.parse(endedAt) - Date.parse(startedAt))}
      </span>
      <span className={NUMBER}>{shortTokens(usage)}</span>
      <span className={NUMBER}>{orDash(usage.costMicros, formatCost)}</span>
      <span className="w-44 shrink-0 max-sm:w-auto">
        <RunStatus run={run} />
      </span>
      <span className="hidden w-20 shrink-0 text-right text-xs text-agent-muted sm:block">
        <Ago at={startedAt} />
      </span>
    </Link>
  );
}

/** Takes a session out as a file, or removes it for good. */
function Keeping({ session, title }: { readonly session: SessionInfo; readonly title: string }): ReactNode {
  const { sessionId, status = "idle", runCount = 0 } = session;
  const queries = useQueryClient();
  const remove = async (): Promise<void> => {
    const { deleted: gone } = await client.sessions.delete(sessionId);
    for (const id of gone) queries.removeQueries({ queryKey: ["session", id] });
    void queries.invalidateQueries({ queryKey: ["sessions"] });
    const others = gone.filter((id) => id !== sessionId);
    tellDone(
      `Deleted “${title}” (${shortId(sessionId)})${others.length === 0 ? "" : `, and ${others.length === 1 ? "the session of its subagent" : `${others.length} sessions of its subagents`}: ${others.map(shortId).join(", ")}`}.`,
    );
    navigate("/sessions", { replace: true });
  };
  const isOpen = !isOver(status) && status !== "idle";
  return (
    <>
      <SaveButton
        label="Export"
        title="Everything that is stored of it, as lines of JSON"
        file={async () => ({
          text: await joined(client.sessions.export(sessionId)),
          name: `session-${sessionId}.jsonl`,
          type: "application/x-ndjson",
        })}
      />
      <DeleteButton title={`Delete “${title}”?`} onDelete={remove}>
        <p>
          Its journal goes, with {runCount === 1 ? "its run" : `its ${runCount} runs`} and the sessions of its
          subagents. Nothing brings them back; forks of it stay.
        </p>
        {isOpen && <p className="text-agent-warning">A run is {status} in it: it ends.</p>}
        <p>Export it first if it may be needed again.</p>
      </DeleteButton>
    </>
  );
}

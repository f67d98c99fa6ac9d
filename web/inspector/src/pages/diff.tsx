import { useQuery } from "@tanstack/react-query";
import type { RunInfo } from "@windlass/protocol/client";
import { classes, formatCost, formatCount } from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { ACTS_MAX, actsOf, pairUp, type Act, type Pair } from "../lib/diff.js";
import { shortId } from "../lib/format.js";
import { runQuery } from "../lib/queries.js";
import { useJournal } from "../lib/records.js";
import { to, useQueryState } from "../lib/router.js";
import { Empty, Failure, Heading, Loading, Status, TextLink } from "../parts/basics.js";
import { VirtualList } from "../parts/virtual-list.js";

const ROW_PX = 64;

/** Two runs compared. */
export function DiffPage({
  first,
  second,
}: {
  readonly first: string | undefined;
  readonly second: string | undefined;
}): ReactNode {
  if (first === undefined || second === undefined) {
    return (
      <>
        <Heading title="Compare runs" />
        <Empty title="Choose two runs.">
          <p>
            Open a run from the <TextLink href="/sessions?list=runs">list of runs</TextLink> and choose another one
            under “Compare with”.
          </p>
        </Empty>
      </>
    );
  }
  return <Comparison key={`${first} ${second}`} first={first} second={second} />;
}

function Comparison({ first, second }: { readonly first: string; readonly second: string }): ReactNode {
  const one = useQuery(runQuery(first));
  const two = useQuery(runQuery(second));
  const journalOne = useJournal(one.data?.run.sessionId);
  const journalTwo = useJournal(two.data?.run.sessionId);
  const [query, change] = useQueryState();
  const isAll = query.get("show") === "all";
  const actsOne = useMemo(() => actsOf(journalOne.records, first), [journalOne.records, first]);
  const actsTwo = useMemo(() => actsOf(journalTwo.records, second), [journalTwo.records, second]);
  const pairs = useMemo(() => pairUp(actsOne, actsTwo), [actsOne, actsTwo]);
  const shown = useMemo(() => (isAll ? pairs : pairs.filter(({ isSame }) => !isSame)), [pairs, isAll]);
  const error = [one.error, two.error, journalOne.error, journalTwo.error].find((found) => found != null);
  const differences = pairs.filter(({ isSame }) => !isSame).length;
  return (
    <>
      <Heading title="Compare runs">
        <label className="inline-flex items-center gap-2 text-xs text-agent-muted">
          <input
            type="checkbox"
            checked={isAll}
            onChange={(event) => {
              change({ show: event.target.checked ? "all" : undefined });
            }}
          />
          What is the same as well
        </label>
      </Heading>
      {error !== undefined && <Failure error={error} />}
      {one.data === undefined || two.data === undefined ? <Loading /> : <Sides first={one.data} second={two.data} />}
      <p role="status" className="border-b border-agent-border px-4 py-1 text-xs text-agent-muted">
        {differences === 0 ? "They did the same." : `${differences} of ${pairs.length} rows differ.`}
        {Math.max(actsOne.length, actsTwo.length) === ACTS_MAX &&
          ` The first ${formatCount(ACTS_MAX)} acts are compared.`}
      </p>
      <VirtualList
        items={shown}
        label="Differences"
        keyOf={keyOf}
        rowPx={ROW_PX}
        render={(pair) => <Row pair={pair} first={first} second={second} />}
      />
    </>
  );
}

function keyOf({ first, second }: Pair): string {
  return `${first?.seq ?? ""} ${second?.seq ?? ""}`;
}

function Sides({ first, second }: { readonly first: RunInfo; readonly second: RunInfo }): ReactNode {
  return (
    <div className="grid grid-cols-2 gap-4 border-b border-agent-border px-4 py-3">
      <Side info={first} />
      <Side info={second} />
    </div>
  );
}

function Side({ info: { run, result } }: { readonly info: RunInfo }): ReactNode {
  const usage = result?.usage;
  return (
    <div className="flex min-w-0 flex-col gap-1 text-sm">
      <p className="flex flex-wrap items-center gap-2">
        <TextLink href={to(["runs", run.runId])}>Run {shortId(run.runId)}</TextLink>
        <Status status={run.status} />
      </p>
      <p className="text-xs text-agent-muted">
        {run.agentId}, {run.modelId}
        {usage !== undefined && `, ${formatCount((usage.inputTokens ?? 0) + (usage.outputTokens ?? 0))} tokens`}
        {usage?.costMicros !== undefined && `, ${formatCost(usage.costMicros)}`}
      </p>
      <p className="truncate font-mono text-xs text-agent-muted" title={run.packageFingerprint}>
        version {run.packageFingerprint.slice(0, 19)}
      </p>
    </div>
  );
}

function Row({
  pair,
  first,
  second,
}: {
  readonly pair: Pair;
  readonly first: string;
  readonly second: string;
}): ReactNode {
  return (
    <div
      className={classes(
        "grid grid-cols-2 gap-4 border-b border-agent-border px-4 py-2 text-sm",
        pair.isSame && "text-agent-muted",
      )}
    >
      <Cell act={pair.first} runId={first} isSame={pair.isSame} />
      <Cell act={pair.second} runId={second} isSame={pair.isSame} />
    </div>
  );
}

function Cell({
  act,
  runId,
  isSame,
}: {
  readonly act: Act | undefined;
  readonly runId: string;
  readonly isSame: boolean;
}): ReactNode {
  if (act === undefined) return <p className="text-xs text-agent-muted italic">not here</p>;
  return (
    <div className={classes("min-w-0 border-l-2 pl-3", isSame ? "border-l-agent-border" : "border-l-agent-warning")}>
      <TextLink href={to(["runs", runId], { at: act.seq })}>{act.title}</TextLink>
      <p className="text-xs break-words">{act.detail}</p>
    </div>
  );
}

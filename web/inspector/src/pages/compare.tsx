/** Two runs side by side. */
import { useQuery } from "@tanstack/react-query";
import type { RunInfo, RunRow } from "@windlass/protocol/client";
import {
  BUTTONS,
  classes,
  formatCost,
  formatCount,
  formatDuration,
  formatSigned,
  shortHash,
  shortId,
  useSession,
} from "@windlass/ui";
import { useMemo, useState, type ReactNode } from "react";
import { isKnown, type Event } from "@windlass/protocol";
import { align, WordDiff } from "../changes.js";
import { Crashes, Empty, Failure, Heading, Loading, Status, TextLink, VirtualList } from "../parts.js";
import { runQuery } from "../queries.js";
import { tell } from "../records.js";
import { SEARCH, to } from "../addresses.js";
import { useSearch } from "../router.js";

const ROW_PX = 64;

/** Two runs compared. */
export function ComparePage({
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
            Choose two in the <TextLink href="/runs">list of runs</TextLink>, then “Compare the two”.
          </p>
        </Empty>
      </>
    );
  }
  return <Comparison key={`${first} ${second}`} first={first} second={second} />;
}

function Comparison({ first, second }: { readonly first: string; readonly second: string }): ReactNode {
  const firstRun = useQuery(runQuery(first));
  const two = useQuery(runQuery(second));
  const journalOne = useSession(firstRun.data?.run.sessionId, { isWhole: true });
  const journalTwo = useSession(two.data?.run.sessionId, { isWhole: true });
  const [search, change] = useSearch(SEARCH.diff);
  const isAll = search.show === "all";
  const actsOne = useMemo(() => actsOf(journalOne.records, first), [journalOne.records, first]);
  const actsTwo = useMemo(() => actsOf(journalTwo.records, second), [journalTwo.records, second]);
  const pairs = useMemo(() => pairUp(actsOne, actsTwo), [actsOne, actsTwo]);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const shown = useMemo(
    () => folded(isAll ? pairs : pairs.filter(({ isSame }) => !isSame), opened),
    [pairs, isAll, opened],
  );
  const error = [firstRun.error, two.error, journalOne.error, journalTwo.error].find((failure) => failure != null);
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
          Show unchanged fields too
        </label>
      </Heading>
      {error !== undefined && <Failure error={error} />}
      {firstRun.data === undefined || two.data === undefined ? (
        <Loading />
      ) : (
        <Sides first={firstRun.data} second={two.data} />
      )}
      <p role="status" className="border-b border-agent-border px-4 py-1 text-xs text-agent-muted">
        {differences > 0
          ? `${differences} of ${pairs.length} rows differ.`
          : error === undefined && pairs.length > 0 && "They did the same."}
        {Math.max(actsOne.length, actsTwo.length) === ACTS_MAX &&
          ` The first ${formatCount(ACTS_MAX)} acts are compared.`}
      </p>
      <VirtualList
        items={shown}
        label="Differences"
        keyOf={(row) => keyOf("pairs" in row ? row.pairs[0] : row)}
        rowPx={ROW_PX}
        render={(row) =>
          "pairs" in row ? (
            <FoldedRow
              fold={row}
              onOpen={() => {
                setOpened((before) => new Set(before).add(keyOf(row.pairs[0])));
              }}
            />
          ) : (
            <Row pair={row} first={first} second={second} />
          )
        }
      />
    </>
  );
}

function keyOf({ first, second }: Pair): string {
  return `${first?.seq ?? ""} ${second?.seq ?? ""}`;
}

/** Acts that one run has and the other has not, one after the other. */
export interface Fold {
  readonly side: "first" | "second";
  readonly pairs: readonly [Pair, ...Pair[]];
}

/** Acts in a row on one side only that are shown as they are. */
const ALONE_MAX = 3;

/** Rows with long parts of one side folded, but those that were opened: a part is named by its first row. */
export function folded(pairs: readonly Pair[], opened: ReadonlySet<string>): readonly (Pair | Fold)[] {
  const rows: (Pair | Fold)[] = [];
  for (let at = 0; at < pairs.length;) {
    const pair = pairs[at];
    if (pair === undefined) break;
    const side = sideOf(pair);
    let end = at + 1;
    while (side !== undefined && end < pairs.length && sideOf(pairs[end]) === side) end += 1;
    const others = pairs.slice(at + 1, end);
    if (side === undefined || others.length < ALONE_MAX || opened.has(keyOf(pair))) rows.push(pair, ...others);
    else rows.push({ side, pairs: [pair, ...others] });
    at = end;
  }
  return rows;
}

/** The one side of a row that is there; undefined if both are. */
function sideOf(pair: Pair | undefined): Fold["side"] | undefined {
  return pair?.second === undefined ? "first" : pair.first === undefined ? "second" : undefined;
}

function FoldedRow({ fold: { side, pairs }, onOpen }: { readonly fold: Fold; readonly onOpen: () => void }): ReactNode {
  return (
    <div className="grid grid-cols-2 gap-4 border-b border-agent-border px-4 py-2 text-sm">
      <button
        type="button"
        className={classes(BUTTONS.quiet, "justify-start text-left", side === "second" && "col-start-2")}
        onClick={onOpen}
      >
        Show {formatCount(pairs.length)} acts that only this run has
      </button>
    </div>
  );
}

/** A run, and what lists tell about it. */
interface Told {
  readonly info: RunInfo;
  readonly row: RunRow | undefined;
}

const NUMBERS: readonly {
  readonly name: string;
  readonly of: (side: Told) => number | undefined;
  readonly format: (value: number) => string;
}[] = [
  {
    name: "time",
    of: ({ row }) =>
      row?.startedAt === undefined || row.endedAt === undefined
        ? undefined
        : Date.parse(row.endedAt) - Date.parse(row.startedAt),
    format: formatDuration,
  },
  {
    name: "tokens",
    of: ({ info: { result } }) =>
      result?.usage === undefined ? undefined : (result.usage.inputTokens ?? 0) + (result.usage.outputTokens ?? 0),
    format: formatCount,
  },
  { name: "cost", of: ({ info: { result } }) => result?.usage?.costMicros, format: formatCost },
];

/** Two runs beside each other, and by how much their numbers differ. */
function Sides({ first, second }: { readonly first: RunInfo; readonly second: RunInfo }): ReactNode {
  const left = { info: first, row: first.row };
  const two = { info: second, row: second.row };
  return (
    <div className="grid grid-cols-2 gap-4 border-b border-agent-border px-4 py-3">
      <Side told={left} />
      <Side told={two} against={left} />
    </div>
  );
}

function Side({ told: side, against }: { readonly told: Told; readonly against?: Told | undefined }): ReactNode {
  const {
    info: { run },
    row,
  } = side;
  return (
    <div className="flex min-w-0 flex-col gap-1 text-sm">
      <p className="flex flex-wrap items-center gap-2">
        <TextLink href={to("run", [run.runId])} className="min-w-0 truncate font-semibold">
          {row?.input || `Run ${shortId(run.runId)}`}
        </TextLink>
        <Status status={run.status} />
        <Crashes count={row?.crashes ?? 0} />
      </p>
      <p className="flex flex-wrap gap-x-3 text-xs text-agent-muted tabular-nums">
        <span>
          {run.agentId} · {run.modelId} · version{" "}
          <span className="font-mono" title={run.packageFingerprint}>
            {shortHash(run.packageFingerprint)}
          </span>
        </span>
        {NUMBERS.map(({ name, of, format }) => {
          const [value, before] = [of(side), against === undefined ? undefined : of(against)];
          if (value === undefined) return null;
          return (
            <span key={name}>
              {name} <strong className="text-agent-text">{format(value)}</strong>
              {before !== undefined && ` (${formatSigned(value - before, format)})`}
            </span>
          );
        })}
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
      <Cell pair={pair} side="before" runId={first} />
      <Cell pair={pair} side="after" runId={second} />
    </div>
  );
}

function Cell({
  pair: { first, second, isSame },
  side,
  runId,
}: {
  readonly pair: Pair;
  readonly side: "before" | "after";
  readonly runId: string;
}): ReactNode {
  const act = side === "before" ? first : second;
  if (act === undefined) return <p className="text-xs text-agent-muted italic">not here</p>;
  return (
    <div className={classes("min-w-0 border-l-2 pl-3", isSame ? "border-l-agent-border" : "border-l-agent-warning")}>
      <TextLink href={to("run", [runId], { at: act.seq })}>{act.title}</TextLink>
      <p className="text-xs wrap-anywhere">
        {first === undefined || second === undefined || first.title !== second.title || isSame ? (
          act.detail
        ) : (
          <WordDiff before={first.detail} after={second.detail} side={side} />
        )}
      </p>
    </div>
  );
}

// Alignment of two runs.

/** Something that a run did, as far as it can be compared. */
interface Act {
  readonly seq: number;
  readonly title: string;
  readonly detail: string;
}

/** A row of the comparison: the same, changed, or on one side only. */
export interface Pair {
  readonly first: Act | undefined;
  readonly second: Act | undefined;
  readonly isSame: boolean;
}

/** The longest runs that are compared whole; of longer ones the beginning is. */
const ACTS_MAX = 1_500;
const COMPARED: ReadonlySet<string> = new Set([
  "message.received",
  "message.completed",
  "actions.requested",
  "policy.decided",
  "action.result",
  "input.resolved",
  "step.failed",
  "step.retrying",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "run.budget_exhausted",
  "subagent.completed",
]);
/** Durations differ between any two runs. */
const NUMBERS_OF_TIME = / in [\d.]+ (?:ms|s|min.*)$/u;

/** The acts of a run, without durations. */
export function actsOf(records: readonly Event[], runId: string): readonly Act[] {
  return records
    .filter((record) => record.runId === runId && isKnown(record) && COMPARED.has(record.type))
    .slice(0, ACTS_MAX)
    .map((record) => {
      const { title, detail } = tell(record);
      return {
        seq: record.seq ?? 0,
        title: title.replace(NUMBERS_OF_TIME, ""),
        detail: detail.replaceAll(runId, "(run)"),
      };
    });
}

/** What a title says of how a deed ended. */
const OUTCOME = / (?:completed|failed)$/u;

function isEqual(left: Act, two: Act): boolean {
  return left.title === two.title && left.detail === two.detail;
}

/** Lines two lists up by what is the longest in both; acts of the same deed that stand opposite are one row. */
export function pairUp(first: readonly Act[], second: readonly Act[]): readonly Pair[] {
  const deeds = new Map([...first, ...second].map((act) => [act, act.title.replace(OUTCOME, "")]));
  // An equal act is worth more than one of the same deed only: a call that failed stands opposite to one that did not.
  const worth = (left: Act, two: Act): number => (deeds.get(left) !== deeds.get(two) ? 0 : isEqual(left, two) ? 3 : 2);
  return align(first, second, worth).map(([left, two]) => ({
    first: left,
    second: two,
    isSame: left !== undefined && two !== undefined && isEqual(left, two),
  }));
}

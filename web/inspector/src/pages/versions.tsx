/** Versions of an agent side by side. */
import { useQuery } from "@tanstack/react-query";
import type { Estimate, VersionComparison } from "@windlass/protocol";
import type { Version } from "@windlass/protocol/client";
import {
  CARD,
  classes,
  formatCost,
  formatCount,
  formatDuration,
  formatPercent,
  formatShort,
  formatSigned,
  shortHash,
  type TableColumn,
} from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { SEARCH } from "../addresses.js";
import { ChangedValue } from "../changes.js";
import { column, Table } from "../list.js";
import { Ago, Empty, Pending, rangeOf, Status } from "../parts.js";
import { compareQuery, versionsQuery } from "../queries.js";
import { useSearch } from "../router.js";

type Metric = "successRate" | "costMicros" | "durationMs" | "tokens";

interface MetricLook {
  readonly id: Metric;
  readonly label: string;
  readonly format: (value: number) => string;
  /** The width from which a table has a column of it. */
  readonly fromPx: number;
}

const METRICS: readonly MetricLook[] = [
  { id: "successRate", label: "Succeeded", format: formatPercent, fromPx: 0 },
  { id: "costMicros", label: "Cost of a run", format: formatCost, fromPx: 620 },
  { id: "durationMs", label: "Time of a run", format: formatDuration, fromPx: 740 },
  { id: "tokens", label: "Tokens of a run", format: formatShort, fromPx: 860 },
];
/** Values that are shown; more of them differ where whole tools come and go. */
const DIFFERENCES_MAX = 20;
const VERDICTS: Readonly<Record<VersionComparison["verdict"], string>> = {
  better: "The newer version succeeds more often.",
  worse: "The newer version succeeds less often.",
  unclear: "The runs do not show which version is better.",
};

/** Two versions of an agent side by side: what their runs came to, and how sure that is. */
export function Versions({ agent }: { readonly agent: string | undefined }): ReactNode {
  if (agent === undefined)
    return (
      <Empty title="There is no agent yet.">
        <p>Versions are those of an agent: its instructions, tools, policy, budget and model.</p>
      </Empty>
    );
  return <VersionsOf key={agent} agent={agent} />;
}

function VersionsOf({ agent }: { readonly agent: string }): ReactNode {
  const list = useQuery(versionsQuery(agent));
  const [search, change] = useSearch(SEARCH.decisions);
  const columns = useMemo(() => columnsOf(list.data?.current), [list.data]);
  if (list.data === undefined) return <Pending of={list} />;
  const { versions } = list.data;
  if (versions.length === 0)
    return (
      <Empty title={`No run of ${agent} has ended yet.`}>
        <p>
          Every run is pinned to a version of its agent. As soon as two versions have run, they can be compared here.
        </p>
      </Empty>
    );
  const next = pick(versions, search.new) ?? versions[0];
  const old = pick(versions, search.old) ?? versions.find((version) => version !== next);
  const chosen = new Set([old, next].flatMap((version) => (version === undefined ? [] : [version.tally.fingerprint])));
  const choose = (picked: ReadonlySet<string>): void => {
    // Two are compared: a third one takes the place of the older one.
    const added = versions.find(({ tally }) => picked.has(tally.fingerprint) && !chosen.has(tally.fingerprint));
    const pair = versions.filter((version) => version === added || version === next);
    if (added !== undefined) change({ new: pair[0]?.tally.fingerprint, old: pair[1]?.tally.fingerprint });
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col overflow-y-auto">
      <div
        className="flex shrink-0 flex-col border-b border-agent-border"
        style={{ height: HEAD_PX + Math.min(versions.length, VERSIONS_SEEN_MAX) * VERSION_PX }}
      >
        <Table
          name="versions"
          label="Versions"
          rows={versions}
          columns={columns}
          keyOf={({ tally }) => tally.fingerprint}
          onOpen={({ tally }) => {
            choose(new Set([...chosen, tally.fingerprint]));
          }}
          chosen={chosen}
          onChoose={choose}
        />
      </div>
      <div className="flex flex-col gap-4 p-4">
        {old === undefined || next === undefined ? (
          <p className="text-agent-muted">
            {agent} has run in one version so far. Change its instructions, tools or model, and the two are compared
            here.
          </p>
        ) : (
          <Compared agent={agent} old={old} next={next} />
        )}
      </div>
    </div>
  );
}

const HEAD_PX = 34;
const VERSION_PX = 33;
const VERSIONS_SEEN_MAX = 6;

function pick(versions: readonly Version[], fingerprint: string | undefined): Version | undefined {
  return versions.find(({ tally }) => tally.fingerprint === fingerprint);
}

function columnsOf(current: string | undefined): readonly TableColumn<Version>[] {
  return [
    column("version", "Version", { width: 150, share: 1 }, ({ tally }) => (
      <span className="font-semibold">
        <code title={tally.fingerprint}>{shortHash(tally.fingerprint)}</code>
        {tally.fingerprint === current && <span className="font-normal text-agent-muted"> now</span>}
      </span>
    )),
    column("runs", "Runs", { width: 72, isNumber: true }, ({ tally }) => formatCount(tally.runs)),
    ...METRICS.map(({ id, label, format, fromPx }) =>
      column<Version>(id, label, { width: 130, isNumber: true, fromPx }, ({ tally }) => (
        <span title={rangeOf(tally[id], format)}>{told(tally[id], format)}</span>
      )),
    ),
    column("first", "First run", { width: 110, fromPx: 980 }, ({ firstAt }) => <Ago at={firstAt} />),
    column("last", "Last run", { width: 110, fromPx: 540 }, ({ lastAt }) => <Ago at={lastAt} />),
  ];
}

interface ComparedProps {
  readonly agent: string;
  readonly old: Version;
  readonly next: Version;
}

function Compared({ agent, old, next }: ComparedProps): ReactNode {
  const compared = useQuery(compareQuery(agent, old.tally.fingerprint, next.tally.fingerprint));
  const { data } = compared;
  if (data === undefined) return <Pending of={compared} />;
  return (
    <>
      <ComparisonTable comparison={data.comparison} />
      {data.changes !== undefined && (
        <section aria-label="Differences" className={classes(CARD, "max-w-4xl p-4 text-sm")}>
          <h2 className="mb-2 font-semibold">Differences</h2>
          {data.changes.length === 0 ? (
            <p className="text-agent-muted">Nothing differs.</p>
          ) : (
            <div className="flex flex-col gap-3">
              <p className="text-agent-muted">{data.changes.join(" · ")}</p>
              {(data.differences ?? []).slice(0, DIFFERENCES_MAX).map(({ path, before, after }) => (
                <ChangedValue key={path} name={path.slice(1).replaceAll("/", " ")} before={before} after={after} />
              ))}
            </div>
          )}
        </section>
      )}
    </>
  );
}

/** The numbers of two versions, drawn on one scale. */
export function ComparisonTable({ comparison }: { readonly comparison: VersionComparison }): ReactNode {
  const { old, new: next, verdict } = comparison;
  const metrics = METRICS.filter(({ id }) => old[id] !== undefined || next[id] !== undefined);
  return (
    <section aria-label="Comparison" className={classes(CARD, "max-w-4xl overflow-hidden text-sm")}>
      <p className="flex flex-wrap items-center gap-3 px-4 py-3">
        <Status status={verdict} />
        {VERDICTS[verdict]}{" "}
        <span className="text-agent-muted">
          {formatCount(old.succeeded)} of {formatCount(old.runs)} runs, then {formatCount(next.succeeded)} of{" "}
          {formatCount(next.runs)}.
        </span>
      </p>
      <ul>
        {metrics.map(({ id, label, format }) => (
          <li key={id} className="grid gap-x-4 gap-y-2 border-t border-agent-border px-4 py-3 sm:grid-cols-[9rem_1fr]">
            <div>
              <p className="font-medium">{label}</p>
              {comparison[id] !== undefined && (
                <p className="text-xs text-agent-muted">{formatSigned(comparison[id].value, format)}</p>
              )}
            </div>
            <div className="flex min-w-0 flex-col gap-1.5">
              {(
                [
                  ["older", old[id]],
                  ["newer", next[id]],
                ] as const
              ).map(([name, estimate]) => (
                <div key={name} className="grid grid-cols-[3rem_1fr] items-center gap-3 sm:grid-cols-[3rem_1fr_12rem]">
                  <span className="text-xs text-agent-muted">{name}</span>
                  <Interval
                    estimate={estimate}
                    most={mostOf(id, [old[id], next[id]])}
                    color={name === "older" ? "bg-agent-muted" : "bg-agent-accent"}
                  />
                  <span className="text-xs max-sm:col-start-2">
                    <strong>{told(estimate, format)}</strong>{" "}
                    <span className="text-agent-muted">{rangeOf(estimate, format)}</span>
                  </span>
                </div>
              ))}
            </div>
          </li>
        ))}
      </ul>
      <p className="border-t border-agent-border px-4 py-2 text-xs text-agent-muted">
        A run succeeds if it meets its goal; a run without a goal, if it completes. A line is the 95 % confidence
        interval; versions with overlapping lines may be equal. A version is better or worse only by an exact test and
        with enough runs.
      </p>
    </section>
  );
}

function told(estimate: Estimate | undefined, format: (value: number) => string): string {
  return estimate === undefined ? "–" : format(estimate.value);
}

/** Where the scale ends: at 100 % for a share, else at the largest number. */
function mostOf(id: Metric, estimates: readonly (Estimate | undefined)[]): number {
  return id === "successRate" ? 1 : Math.max(...estimates.map((estimate) => estimate?.high ?? estimate?.value ?? 0), 0);
}

const FULL = 100;

/** A number with its confidence interval, on a scale from 0, and the same as text. */
function Interval({
  estimate,
  most,
  color,
}: {
  readonly estimate: Estimate | undefined;
  readonly most: number;
  readonly color: string;
}): ReactNode {
  const at = (value: number): number => (most === 0 ? 0 : Math.min(Math.max(value / most, 0), 1) * FULL);
  const low = at(estimate?.low ?? estimate?.value ?? 0);
  const high = at(estimate?.high ?? estimate?.value ?? 0);
  return (
    <span aria-hidden className="relative mx-1.5 block h-4">
      <span className="absolute inset-x-0 top-1/2 h-px -translate-y-1/2 bg-agent-border" />
      {estimate !== undefined && (
        <>
          <span
            className={classes("absolute top-1/2 h-1.5 -translate-y-1/2 rounded opacity-40", color)}
            style={{ left: `${low}%`, width: `${high - low}%` }}
          />
          <span
            className={classes("absolute top-1/2 size-3 -translate-1/2 rounded-full", color)}
            style={{ left: `${at(estimate.value)}%` }}
          />
        </>
      )}
    </span>
  );
}

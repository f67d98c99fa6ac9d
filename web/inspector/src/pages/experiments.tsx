/** Experiments: the list, one of them with its cases, and two of them side by side. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import type { Estimate } from "@windlass/protocol";
import type { EvalCase, EvalComparison, EvalExperiment, EvalPair } from "@windlass/protocol/client";
import {
  BUTTONS,
  CARD,
  Chip,
  classes,
  CodeView,
  ColumnMenu,
  DataTable,
  FIELD,
  formatCost,
  formatCount,
  formatDuration,
  formatPercent,
  formatShort,
  formatSigned,
  formatWhen,
  plural,
  shortHash,
  shortId,
  useColumns,
  type TableColumn,
} from "@windlass/ui";
import { Check, X } from "lucide-react";
import { useMemo, useState, type ReactNode } from "react";
import { AddToDataset } from "../add-to-dataset.js";
import {
  Ago,
  Empty,
  Failure,
  Heading,
  Listed,
  Loading,
  rangeOf,
  Select,
  RowLink,
  SidePanel,
  Status,
  TextLink,
  useNow,
} from "../parts.js";
import { experimentQuery, experimentsComparedQuery, experimentsQuery, useNextPage } from "../queries.js";
import { Link, navigate, to, useQueryState } from "../router.js";
import { Datasets } from "./datasets.js";

const COMMAND = 'windlass eval run cases.yaml --agents app.py:agent --gate "pass_rate>=0.95"';
const MUTED = "text-agent-muted";
/** On a phone the sums and filters scroll away, and the table has most of the screen. */
const SCROLLED = "flex min-h-0 flex-1 flex-col max-sm:overflow-y-auto";
const BESIDE = "flex min-h-0 flex-1 flex-col max-sm:min-h-[75dvh] lg:flex-row";

/** The interval of a rate in few characters; nothing if there is none. */
export function interval({ low, high }: Estimate): string {
  return low === undefined || high === undefined ? "" : `${(low * 100).toFixed(0)}–${(high * 100).toFixed(0)} %`;
}

export function ExperimentsPage({ view }: { readonly view?: "datasets" | undefined }): ReactNode {
  const [query] = useQueryState();
  return (view ?? query.get("view")) === "datasets" ? (
    <>
      <Heading title="Data sets" about="Cases: what an agent is asked, and what is expected" />
      <Datasets />
    </>
  ) : (
    <>
      <Heading title="Experiments" about="Agents run on the cases of data sets, and scored" />
      <List />
    </>
  );
}

function List(): ReactNode {
  const [query, change] = useQueryState();
  const layout = useColumns("experiments");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const filter = { agent: query.get("agent") ?? undefined, dataset: query.get("dataset") ?? undefined };
  const list = useInfiniteQuery(experimentsQuery(filter));
  const { data, error, refetch, hasNextPage } = list;
  const rows = useMemo(() => data?.pages.flatMap(({ experiments }) => experiments), [data]);
  const onEnd = useNextPage(list, rows?.length);
  const now = useNow();
  const columns = useMemo(() => listColumns(now), [now]);
  if (rows === undefined)
    return error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />;
  const isFiltered = filter.agent !== undefined || filter.dataset !== undefined;
  const isEmpty = rows.length === 0 && !hasNextPage;
  if (isEmpty && !isFiltered) return <NoExperiments />;
  // The list has the newest first: of two, the first one is the new one.
  const [newer, older] = rows.filter(({ id }) => chosen.has(id));
  return (
    <>
      <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
        {(["agent", "dataset"] as const).map((name) => (
          <Select
            key={name}
            label={name === "agent" ? "Agent" : "Data set"}
            value={filter[name] ?? ""}
            options={[["", "any"], ...namesOf(rows, name, filter[name]).map((one) => [one, one] as const)]}
            onChange={(value) => {
              change({ [name]: value });
            }}
          />
        ))}
        <Listed count={rows.length} noun="experiment" hasMore={hasNextPage} />
        <span className="ml-auto flex flex-wrap items-center gap-2">
          {newer !== undefined && older !== undefined && chosen.size === 2 ? (
            <Link className={BUTTONS.primary} href={to(["experiments", newer.id], { against: older.id })}>
              Compare the two
            </Link>
          ) : (
            <span className="text-xs text-agent-muted max-sm:hidden">Choose two to compare them</span>
          )}
          <ColumnMenu columns={columns} layout={layout} />
        </span>
      </div>
      {isEmpty ? (
        <Empty title="No experiment fits.">
          <p>
            <TextLink href="/experiments">Show all experiments</TextLink>
          </p>
        </Empty>
      ) : (
        <DataTable
          label="Experiments"
          rows={rows}
          columns={columns}
          keyOf={({ id }) => id}
          onOpen={({ id }) => {
            navigate(to(["experiments", id]));
          }}
          chosen={chosen}
          onChoose={setChosen}
          onEnd={onEnd}
          layout={layout}
        />
      )}
    </>
  );
}

function namesOf(rows: readonly EvalExperiment[], by: "agent" | "dataset", chosen: string | undefined): string[] {
  const found = rows.map((row) => (by === "agent" ? row.agentId : row.dataset));
  return [...new Set([...found, ...(chosen === undefined ? [] : [chosen])])].sort();
}

function NoExperiments(): ReactNode {
  return (
    <Empty title="There are no experiments yet.">
      <p>
        An experiment runs an agent on the cases of a data set and scores its answers. It goes on after a crash, and
        pays for nothing twice.
      </p>
      <div className="text-left">
        <CodeView title="Run one" text={COMMAND} copyLabel="Copy the command" />
      </div>
      <p>
        Cases come from a file, or from runs: “Add to data set” on the page of a run.{" "}
        <TextLink href="/runs?status=failed">Runs that failed</TextLink>
      </p>
    </Empty>
  );
}

function listColumns(now: number): readonly TableColumn<EvalExperiment>[] {
  return [
    {
      id: "experiment",
      label: "Experiment",
      width: 120,
      share: 1,
      cell: ({ id }) => <RowLink href={to(["experiments", id])}>{id}</RowLink>,
    },
    { id: "rate", label: "Pass rate", width: 184, cell: (one) => <Rate experiment={one} /> },
    { id: "agent", label: "Agent", width: 110, fromPx: 590, cell: ({ agentId }) => agentId },
    {
      id: "version",
      label: "Version",
      width: 96,
      fromPx: 1_100,
      cell: ({ fingerprint }) => <code className="font-mono text-xs">{shortHash(fingerprint)}</code>,
    },
    { id: "dataset", label: "Data set", width: 120, fromPx: 710, cell: ({ dataset }) => dataset },
    { id: "cases", label: "Cases", width: 70, isNumber: true, fromPx: 780, cell: ({ cases }) => formatCount(cases) },
    {
      id: "cost",
      label: "Cost a case",
      width: 96,
      isNumber: true,
      fromPx: 880,
      cell: ({ costMicros }) => (costMicros === undefined ? "–" : formatCost(costMicros.value)),
    },
    {
      id: "duration",
      label: "Time a case",
      width: 96,
      isNumber: true,
      fromPx: 980,
      cell: ({ durationMs }) => (durationMs === undefined ? "–" : formatDuration(durationMs.value)),
    },
    { id: "model", label: "Model", width: 150, isHidden: true, cell: ({ model = "" }) => model },
    { id: "begun", label: "Begun", width: 100, fromPx: 480, cell: ({ at }) => <Ago at={at} nowMs={now} /> },
  ];
}

/** The share of cases that pass, with its interval; while it goes on, how far it is. */
function Rate({ experiment }: { readonly experiment: EvalExperiment }): ReactNode {
  const { endedAt, passRate, attempts, passed, cases, repeats } = experiment;
  const total = cases * repeats;
  const share = passRate?.value ?? (attempts === 0 ? 0 : passed / attempts);
  const isOver = endedAt !== undefined && passRate !== undefined;
  return (
    <span className="flex items-center gap-2 tabular-nums">
      <Bar share={isOver ? share : total === 0 ? 0 : attempts / total} isProgress={!isOver} />
      {isOver ? (
        <>
          <span className="font-semibold">{formatPercent(share)}</span>
          <span className={classes(MUTED, "text-xs")}>{interval(passRate)}</span>
        </>
      ) : (
        <span className={MUTED}>
          {endedAt === undefined ? `${attempts} of ${formatCount(total)} scored` : "no cases"}
        </span>
      )}
    </span>
  );
}

function Bar({ share, isProgress }: { readonly share: number; readonly isProgress: boolean }): ReactNode {
  const tone = isProgress ? "bg-agent-accent" : "bg-agent-success";
  return (
    <span aria-hidden className="h-1.5 w-12 shrink-0 overflow-hidden rounded-full bg-agent-border">
      <span className={classes("block h-full rounded-full", tone)} style={{ width: `${share * 100}%` }} />
    </span>
  );
}

// One experiment.

/** The attempts at the cases of an experiment; with `against`, beside those of an older one. */
export function ExperimentPage({ experimentId }: { readonly experimentId: string }): ReactNode {
  const { data, error, refetch } = useQuery(experimentQuery(experimentId));
  const [query] = useQueryState();
  const against = query.get("against") ?? undefined;
  const now = useNow();
  const info = data?.experiment;
  return (
    <>
      <Heading
        title={experimentId}
        parent={{ label: "Experiments", href: "/experiments" }}
        facts={info !== undefined && info.endedAt === undefined && <Status status="running" words="not ended" />}
        about={
          info !== undefined && (
            <>
              {info.agentId} <code className="font-mono">{shortHash(info.fingerprint)}</code>
              {info.model !== undefined && ` · ${info.model}`} · {info.dataset}, {plural(info.cases, "case")}
              {info.repeats > 1 && ` × ${info.repeats}`} · begun <Ago at={info.at} nowMs={now} />
            </>
          )
        }
      >
        {info !== undefined && <Against info={info} against={against} />}
      </Heading>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined ? (
        error === null && <Loading />
      ) : against === undefined ? (
        <div className={SCROLLED}>
          <Sums info={data.experiment} cases={data.cases} />
          <Cases info={data.experiment} cases={data.cases} />
        </div>
      ) : (
        <Compared experimentId={experimentId} old={against} />
      )}
    </>
  );
}

/** A choice of the older experiment on the same data set. */
function Against({
  info,
  against,
}: {
  readonly info: EvalExperiment;
  readonly against: string | undefined;
}): ReactNode {
  const [, change] = useQueryState();
  const { data } = useInfiniteQuery(experimentsQuery({ dataset: info.dataset }));
  const others = data?.pages.flatMap(({ experiments }) => experiments).filter(({ id }) => id !== info.id) ?? [];
  const known = others.map((one) => {
    const rate = one.passRate === undefined ? "not ended" : formatPercent(one.passRate.value);
    return [one.id, `${one.id}: ${one.agentId} ${shortHash(one.fingerprint)}, ${rate}`] as const;
  });
  const isKnown = against === undefined || others.some(({ id }) => id === against);
  return (
    <Select
      label="Compare with"
      value={against ?? ""}
      options={[["", "nothing"], ...known, ...(isKnown ? [] : [[against, against] as const])]}
      onChange={(value) => {
        change({ against: value, show: undefined, case: undefined }, { push: true });
      }}
    />
  );
}

interface Sum {
  readonly label: string;
  readonly value: string;
  readonly range?: string | undefined;
}

function Sums({ info, cases }: { readonly info: EvalExperiment; readonly cases: readonly EvalCase[] }): ReactNode {
  const passed = cases.filter(({ isPassed }) => isPassed).length;
  const cost = cases.reduce((sum, { costMicros = 0 }) => sum + costMicros, 0);
  const sums: Sum[] = [
    info.passRate === undefined
      ? { label: "Scored so far", value: `${cases.length} of ${info.cases * info.repeats}`, range: `${passed} passed` }
      : { label: "Pass rate", value: formatPercent(info.passRate.value), range: rangeOf(info.passRate, formatPercent) },
  ];
  if (info.costMicros !== undefined)
    sums.push({ label: "Cost a case", value: formatCost(info.costMicros.value), range: `${formatCost(cost)} in all` });
  if (info.durationMs !== undefined)
    sums.push({
      label: "Time a case",
      value: formatDuration(info.durationMs.value),
      range: rangeOf(info.durationMs, formatDuration),
    });
  if (info.tokens !== undefined)
    sums.push({
      label: "Tokens a case",
      value: formatShort(info.tokens.value),
      range: rangeOf(info.tokens, formatShort),
    });
  for (const [name, score] of Object.entries(info.scores ?? {}))
    sums.push({
      label: name,
      value: score.value.toFixed(2),
      range: rangeOf(score, (value) => Math.min(value, 1).toFixed(2)),
    });
  return (
    <dl className="flex shrink-0 overflow-x-auto border-b border-agent-border" tabIndex={0} aria-label="Sums">
      {sums.map(({ label, value, range }) => (
        <div key={label} className="min-w-32 shrink-0 border-r border-agent-border px-4 py-2">
          <dt className="text-xs text-agent-muted">{label}</dt>
          <dd className="text-lg font-semibold tabular-nums">{value}</dd>
          <dd className="text-xs text-agent-muted tabular-nums">{range ?? " "}</dd>
        </div>
      ))}
    </dl>
  );
}

// Cases.

/** The attempts that an address asks for, those that failed first. */
export function casesIn(cases: readonly EvalCase[], query: URLSearchParams): readonly EvalCase[] {
  const text = (query.get("text") ?? "").toLowerCase();
  const show = query.get("show");
  const tag = query.get("tag");
  const fits = cases.filter(
    (one) =>
      (show !== "failed" || !one.isPassed) &&
      (show !== "passed" || one.isPassed) &&
      (tag === null || one.tags?.includes(tag) === true) &&
      [one.name, one.input, one.output, one.expected ?? ""].some((words) => words.toLowerCase().includes(text)),
  );
  return [...fits.filter(({ isPassed }) => !isPassed), ...fits.filter(({ isPassed }) => isPassed)];
}

const keyOfCase = ({ name, repeat }: EvalCase): string => `${name}#${repeat}`;

function Cases({ info, cases }: { readonly info: EvalExperiment; readonly cases: readonly EvalCase[] }): ReactNode {
  const [query, change] = useQueryState();
  const layout = useColumns("cases");
  const scorers = useMemo(
    () => [...new Set(cases.flatMap(({ verdicts }) => verdicts.map(({ name }) => name)))],
    [cases],
  );
  const columns = useMemo(() => caseColumns(scorers, info.repeats), [scorers, info.repeats]);
  const rows = casesIn(cases, query);
  const failed = cases.filter(({ isPassed }) => !isPassed).length;
  const chosen = cases.find((one) => keyOfCase(one) === query.get("case"));
  return (
    <>
      <CaseFilters
        tags={[...new Set(cases.flatMap(({ tags = [] }) => tags))].sort()}
        shows={[
          [undefined, `All ${formatCount(cases.length)}`],
          ["failed", `Failed ${formatCount(failed)}`],
          ["passed", `Passed ${formatCount(cases.length - failed)}`],
        ]}
      >
        <ColumnMenu columns={columns} layout={layout} />
      </CaseFilters>
      <div className={BESIDE}>
        <div className="flex min-h-0 min-w-0 flex-1 flex-col">
          {rows.length === 0 ? (
            <NoCases count={cases.length} info={info} />
          ) : (
            <DataTable
              label="Cases"
              rows={rows}
              columns={columns}
              keyOf={keyOfCase}
              opened={chosen && keyOfCase(chosen)}
              onOpen={(one) => {
                change({ case: keyOfCase(one) });
              }}
              layout={layout}
            />
          )}
        </div>
        {chosen !== undefined && <CasePanel attempts={[["", chosen]]} />}
      </div>
    </>
  );
}

function NoCases({ count, info }: { readonly count: number; readonly info: EvalExperiment }): ReactNode {
  if (count > 0) return <Empty title="No case fits." />;
  return info.endedAt === undefined ? (
    <Empty title="Nothing is scored yet.">
      <p>Cases appear as their runs end. If the program was stopped, the same command goes on where it was.</p>
    </Empty>
  ) : (
    <Empty title="The data set has no cases." />
  );
}

interface CaseFiltersProps {
  readonly tags: readonly string[];
  readonly shows: readonly (readonly [show: string | undefined, label: string])[];
  readonly children?: ReactNode;
}

function CaseFilters({ tags, shows, children }: CaseFiltersProps): ReactNode {
  const [query, change] = useQueryState();
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
      <input
        type="search"
        aria-label="Search cases"
        placeholder="Search cases"
        className={classes(FIELD, "w-56! max-sm:w-full!")}
        value={query.get("text") ?? ""}
        onChange={(event) => {
          change({ text: event.target.value });
        }}
      />
      <div role="group" aria-label="Which cases" className="flex flex-wrap gap-1.5">
        {shows.map(([show, label]) => (
          <Chip
            key={label}
            isOn={(query.get("show") ?? undefined) === show}
            onChange={() => {
              change({ show });
            }}
          >
            {label}
          </Chip>
        ))}
      </div>
      {tags.length > 0 && (
        <Select
          label="Tag"
          value={query.get("tag") ?? ""}
          options={[["", "any"], ...tags.map((tag) => [tag, tag] as const)]}
          onChange={(tag) => {
            change({ tag });
          }}
        />
      )}
      <span className="ml-auto">{children}</span>
    </div>
  );
}

function Passed({ isPassed }: { readonly isPassed: boolean }): ReactNode {
  const Icon = isPassed ? Check : X;
  return (
    <span className={classes("inline-flex shrink-0", isPassed ? "text-agent-success-text" : "text-agent-danger-text")}>
      <Icon aria-hidden size={15} strokeWidth={2.5} />
      <span className="sr-only">{isPassed ? "passed" : "failed"}</span>
    </span>
  );
}

function words(text: string | undefined, className?: string): ReactNode {
  return (
    <span className={className} title={text}>
      {text}
    </span>
  );
}

function caseColumns(scorers: readonly string[], repeats: number): readonly TableColumn<EvalCase>[] {
  /** The width at which every scorer has its column. */
  const from = 660 + 84 * scorers.length;
  return [
    {
      id: "case",
      label: "Case",
      width: 120,
      share: 1,
      cell: ({ name, isPassed, repeat }) => (
        <span className="flex min-w-0 items-center gap-1.5">
          <Passed isPassed={isPassed} />
          <span className="truncate font-semibold" title={name}>
            {name}
            {repeats > 1 && <span className={MUTED}> {repeat}</span>}
          </span>
        </span>
      ),
    },
    { id: "input", label: "Input", width: 130, share: 1, fromPx: 500, cell: ({ input }) => words(input) },
    {
      id: "expected",
      label: "Expected",
      width: 120,
      share: 1,
      fromPx: 640,
      cell: ({ expected }) => words(expected, MUTED),
    },
    { id: "output", label: "Output", width: 120, share: 1, fromPx: 360, cell: ({ output }) => words(output) },
    ...scorers.map((scorer): TableColumn<EvalCase> => ({
      id: `score ${scorer}`,
      label: scorer,
      width: 84,
      isNumber: true,
      fromPx: 860,
      cell: ({ verdicts }) => {
        const found = verdicts.find(({ name }) => name === scorer);
        if (found === undefined) return <span className={MUTED}>–</span>;
        return (
          <span className={found.isMet ? undefined : "font-semibold text-agent-danger-text"} title={found.why}>
            {found.score.toFixed(2)}
          </span>
        );
      },
    })),
    {
      id: "why",
      label: "Why it failed",
      width: 160,
      share: 1,
      fromPx: from + 320,
      cell: ({ why }) => words(why, MUTED),
    },
    {
      id: "cost",
      label: "Cost",
      width: 76,
      isNumber: true,
      fromPx: from + 80,
      cell: ({ costMicros }) => (costMicros === undefined ? "–" : formatCost(costMicros)),
    },
    {
      id: "duration",
      label: "Time",
      width: 76,
      isNumber: true,
      fromPx: from + 160,
      cell: ({ durationMs }) => (durationMs === undefined ? "–" : formatDuration(durationMs)),
    },
    {
      id: "tokens",
      label: "Tokens",
      width: 76,
      isNumber: true,
      isHidden: true,
      cell: ({ tokens }) => (tokens === undefined ? "–" : formatShort(tokens)),
    },
    { id: "trace", label: "Trace", width: 64, cell: ({ runId }) => <Trace runId={runId} label="Trace" /> },
  ];
}

function Trace({ runId, label }: { readonly runId: string; readonly label: string }): ReactNode {
  return (
    <TextLink href={to(["runs", runId])} title={`Run ${shortId(runId)}`}>
      {label}
    </TextLink>
  );
}

/** A case whole: input, expected answer, answers and what the scorers say. */
function CasePanel({
  attempts,
}: {
  readonly attempts: readonly (readonly [label: string, one: EvalCase])[];
}): ReactNode {
  const [, change] = useQueryState();
  const first = attempts[0]?.[1];
  if (first === undefined) return null;
  return (
    <SidePanel
      kind="Case"
      title={first.name}
      onClose={() => {
        change({ case: undefined });
      }}
    >
      <CodeView title="Input" text={first.input} />
      {first.expected !== undefined && <CodeView title="Expected" text={first.expected} />}
      {attempts.map(([label, one]) => (
        <section key={`${label}${one.runId}`} aria-label={label || "Answer"} className="flex flex-col gap-2">
          <CodeView title={label === "" ? "Output" : `Output, ${label}`} text={one.output || "(no answer)"} />
          <ul className="flex flex-col gap-1">
            {one.verdicts.map(({ name, score, isMet, why, runId }) => (
              <li key={name} className="flex flex-wrap items-baseline gap-x-2">
                <Passed isPassed={isMet} />
                <span className="font-medium">{name}</span>
                <span className="tabular-nums">{score.toFixed(2)}</span>
                {why !== undefined && <span className={classes(MUTED, "wrap-anywhere")}>{why}</span>}
                {runId !== undefined && <Trace runId={runId} label="judgement" />}
              </li>
            ))}
          </ul>
          {one.status !== "completed" && (
            <p>
              <Status status={one.status} />
            </p>
          )}
          <div className="flex flex-wrap gap-2">
            <Link className={BUTTONS.primary} href={to(["runs", one.runId])}>
              Open the trace
            </Link>
            <AddToDataset runIds={[one.runId]} expected={one.expected} />
          </div>
        </section>
      ))}
    </SidePanel>
  );
}

// Two experiments.

const CHANGES = { broken: ["worse", "broken"], fixed: ["better", "fixed"], same: ["unclear", "same"] } as const;

/** What the paired test says, in a sentence. */
export function verdictWords({ comparison, pairs }: EvalComparison): string {
  switch (comparison.verdict) {
    case "better":
      return "The newer version passes more cases.";
    case "worse":
      return "The newer version passes fewer cases.";
    case "unclear":
      return pairs.some(({ change }) => change !== "same")
        ? `${plural(pairs.length, "case")} of both are too few, or differ too little, to say which one is better.`
        : "No case changed.";
  }
}

/** The pairs that an address asks for: broken ones first, as the server has them. */
export function pairsIn(pairs: readonly EvalPair[], query: URLSearchParams): readonly EvalPair[] {
  const text = (query.get("text") ?? "").toLowerCase();
  const show = query.get("show");
  const tag = query.get("tag");
  return pairs.filter(
    ({ name, change, old, new: next }) =>
      (show === null || change === show || (show === "failed" && next.some(({ isPassed }) => !isPassed))) &&
      (tag === null || next.some(({ tags }) => tags?.includes(tag) === true)) &&
      [name, ...[...old, ...next].flatMap(({ input, output }) => [input, output])].some((one) =>
        one.toLowerCase().includes(text),
      ),
  );
}

function Compared({ experimentId, old }: { readonly experimentId: string; readonly old: string }): ReactNode {
  const { data, error, refetch } = useQuery(experimentsComparedQuery(experimentId, old));
  const [query, change] = useQueryState();
  const layout = useColumns("compared-cases");
  if (data === undefined)
    return error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />;
  const { pairs } = data;
  const count = (one: EvalPair["change"]): number => pairs.filter(({ change }) => change === one).length;
  const rows = pairsIn(pairs, query);
  const chosen = pairs.find(({ name }) => name === query.get("case"));
  const panel = chosen && [
    ...chosen.old.map((one) => [data.old.repeats > 1 ? `old ${one.repeat}` : "old", one] as const),
    ...chosen.new.map((one) => [data.new.repeats > 1 ? `new ${one.repeat}` : "new", one] as const),
  ];
  return (
    <div className={SCROLLED}>
      <Verdict found={data} />
      <CaseFilters
        tags={[...new Set(pairs.flatMap((one) => one.new.flatMap(({ tags = [] }) => tags)))].sort()}
        shows={[
          [undefined, `All ${formatCount(pairs.length)}`],
          ["broken", `Broken ${formatCount(count("broken"))}`],
          ["fixed", `Fixed ${formatCount(count("fixed"))}`],
          ["failed", "Failed now"],
        ]}
      >
        <ColumnMenu columns={PAIR_COLUMNS} layout={layout} />
      </CaseFilters>
      <div className={BESIDE}>
        <div className="flex min-h-0 min-w-0 flex-1 flex-col">
          {rows.length === 0 ? (
            <Empty title={pairs.length === 0 ? "The two have no case in common." : "No case fits."} />
          ) : (
            <DataTable
              label="Cases of both"
              rows={rows}
              columns={PAIR_COLUMNS}
              keyOf={({ name }) => name}
              opened={query.get("case") ?? undefined}
              onOpen={({ name }) => {
                change({ case: name });
              }}
              layout={layout}
            />
          )}
        </div>
        {panel !== undefined && <CasePanel attempts={panel} />}
      </div>
    </div>
  );
}

function Verdict({ found }: { readonly found: EvalComparison }): ReactNode {
  const { comparison, old, new: next, fixed, broken, onlyOld = [], onlyNew = [] } = found;
  const gain = comparison.successRate;
  return (
    <section
      aria-label="Verdict"
      className={classes(CARD, "m-3 flex shrink-0 flex-wrap items-center gap-x-6 gap-y-2 px-4 py-3 text-sm")}
    >
      <p className="flex min-w-0 flex-1 basis-72 flex-wrap items-center gap-2">
        <Status status={comparison.verdict} />
        <span>{verdictWords(found)}</span>
        <span className={classes(MUTED, "w-full text-xs wrap-anywhere")}>
          {next.id} ({next.agentId} {shortHash(next.fingerprint)}, {formatWhen(next.at)}) against{" "}
          <TextLink href={to(["experiments", old.id])}>{old.id}</TextLink> ({old.agentId} {shortHash(old.fingerprint)},{" "}
          {formatWhen(old.at)})
        </span>
        {(onlyOld.length > 0 || onlyNew.length > 0) && (
          <span className={classes(MUTED, "w-full text-xs")}>
            Not compared: {plural(onlyOld.length, "case")} of the old one alone, {formatCount(onlyNew.length)} of the
            new one.
          </span>
        )}
      </p>
      <dl className="flex flex-wrap gap-x-6 gap-y-1 tabular-nums">
        <Fact
          label="Pass rate"
          value={gain && formatSigned(gain.value, formatPercent)}
          range={gain && spread(gain, formatPercent)}
        />
        <Fact label="Fixed" value={formatCount(fixed)} />
        <Fact label="Broken" value={formatCount(broken)} />
        <Fact
          label="Cost a case"
          value={comparison.costMicros && formatSigned(comparison.costMicros.value, formatCost)}
          range={comparison.costMicros && spread(comparison.costMicros, formatCost)}
        />
        <Fact
          label="Time a case"
          value={comparison.durationMs && formatSigned(comparison.durationMs.value, formatDuration)}
          range={comparison.durationMs && spread(comparison.durationMs, formatDuration)}
        />
        {comparison.pValue !== undefined && <Fact label="p" value={comparison.pValue.toPrecision(2)} />}
      </dl>
    </section>
  );
}

function Fact({
  label,
  value = "–",
  range,
}: {
  readonly label: string;
  readonly value?: string | undefined;
  readonly range?: string | undefined;
}): ReactNode {
  return (
    <div>
      <dt className="text-xs text-agent-muted">{label}</dt>
      <dd className="font-semibold">{value}</dd>
      {range !== undefined && <dd className="text-xs text-agent-muted">{range}</dd>}
    </div>
  );
}

/** How sure a difference is; nothing if its interval has no width. */
function spread({ low, high }: Estimate, format: (value: number) => string): string | undefined {
  if (low === undefined || high === undefined || low === high) return undefined;
  return `${formatSigned(low, format)} to ${formatSigned(high, format)}`;
}

function meanOf(attempts: readonly EvalCase[], field: "score" | "costMicros" | "durationMs"): number | undefined {
  const known = attempts.map((one) => one[field]).filter((value) => value !== undefined);
  return known.length === 0 ? undefined : known.reduce((sum, value) => sum + value, 0) / known.length;
}

function Change({
  pair,
  field,
  format,
}: {
  readonly pair: EvalPair;
  readonly field: "costMicros" | "durationMs";
  readonly format: (value: number) => string;
}): ReactNode {
  const before = meanOf(pair.old, field);
  const after = meanOf(pair.new, field);
  if (before === undefined || after === undefined) return "–";
  return (
    <span className={after > before ? undefined : MUTED} title={`${format(before)}, then ${format(after)}`}>
      {formatSigned(after - before, format)}
    </span>
  );
}

const PAIR_COLUMNS: readonly TableColumn<EvalPair>[] = [
  {
    id: "case",
    label: "Case",
    width: 110,
    share: 1,
    cell: ({ name }) => (
      <span className="font-semibold" title={name}>
        {name}
      </span>
    ),
  },
  {
    id: "change",
    label: "Change",
    width: 108,
    cell: ({ change }) => <Status status={CHANGES[change][0]} words={CHANGES[change][1]} />,
  },
  {
    id: "input",
    label: "Input",
    width: 120,
    share: 1,
    fromPx: 740,
    cell: ({ new: [first] }) => words(first?.input),
  },
  {
    id: "expected",
    label: "Expected",
    width: 110,
    share: 1,
    fromPx: 860,
    cell: ({ new: [first] }) => words(first?.expected, MUTED),
  },
  ...(["old", "new"] as const).map((side): TableColumn<EvalPair> => ({
    id: side,
    label: side === "old" ? "Old output" : "New output",
    width: 130,
    share: 1,
    fromPx: 610,
    cell: (pair) => <Side attempts={pair[side]} />,
  })),
  {
    id: "score",
    label: "Score",
    width: 108,
    isNumber: true,
    fromPx: 970,
    cell: (pair) => `${(meanOf(pair.old, "score") ?? 0).toFixed(2)} → ${(meanOf(pair.new, "score") ?? 0).toFixed(2)}`,
  },
  {
    id: "cost",
    label: "Cost",
    width: 112,
    isNumber: true,
    fromPx: 1_090,
    cell: (pair) => <Change pair={pair} field="costMicros" format={formatCost} />,
  },
  {
    id: "duration",
    label: "Time",
    width: 112,
    isNumber: true,
    fromPx: 1_200,
    cell: (pair) => <Change pair={pair} field="durationMs" format={formatDuration} />,
  },
  {
    id: "trace",
    label: "Traces",
    width: 92,
    cell: ({ old: [before], new: [after] }) => (
      <span className="inline-flex gap-2">
        {before !== undefined && <Trace runId={before.runId} label="old" />}
        {after !== undefined && <Trace runId={after.runId} label="new" />}
      </span>
    ),
  },
];

/** The first answer of some attempts, and how many of them passed. */
function Side({ attempts }: { readonly attempts: readonly EvalCase[] }): ReactNode {
  const passed = attempts.filter(({ isPassed }) => isPassed).length;
  return (
    <span className="flex min-w-0 items-center gap-1.5" title={attempts[0]?.output}>
      <Passed isPassed={passed === attempts.length} />
      {attempts.length > 1 && (
        <span className={MUTED}>
          {passed}/{attempts.length}
        </span>
      )}
      <span className="truncate">{attempts[0]?.output}</span>
    </span>
  );
}

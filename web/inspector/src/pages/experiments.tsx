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
import { SEARCH, to } from "../addresses.js";
import { choices, SearchField, Select } from "../form.js";
import { Beside, codeCell, column, Listed, SidePanel, Table, textCell, useRows } from "../list.js";
import {
  Ago,
  Command,
  Empty,
  Failure,
  Heading,
  Loading,
  orDash,
  Pending,
  rangeOf,
  RowLink,
  Status,
  TextLink,
} from "../parts.js";
import { experimentQuery, experimentsComparedQuery, experimentsQuery } from "../queries.js";
import { Link, useSearch, type Search } from "../router.js";
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

export function ExperimentsPage(props: { readonly view?: "datasets" | undefined }): ReactNode {
  const [search] = useSearch(SEARCH.experiments);
  return (props.view ?? search.view) === "datasets" ? (
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
  const [{ agent, dataset }, , set] = useSearch(SEARCH.experiments);
  const layout = useColumns("experiments");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const list = useRows(useInfiniteQuery(experimentsQuery({ agent, dataset })), "experiments");
  const { rows, hasNextPage } = list;
  if (rows === undefined) return <Pending of={list} />;
  const isEmpty = rows.length === 0 && !hasNextPage;
  if (isEmpty && agent === undefined && dataset === undefined) return <NoExperiments />;
  const agents = namesIn([...rows.map(({ agentId }) => agentId), agent]);
  const datasets = namesIn([...rows.map((row) => row.dataset), dataset]);
  // The list has the newest first: of two, the first one is the new one.
  const [newer, older] = rows.filter(({ id }) => chosen.has(id));
  return (
    <>
      <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
        <Select label="Agent" value={agent} options={choices("any", agents)} onChange={set("agent")} />
        <Select label="Data set" value={dataset} options={choices("any", datasets)} onChange={set("dataset")} />
        <Listed count={rows.length} noun="experiment" hasMore={hasNextPage} />
        <span className="ml-auto flex flex-wrap items-center gap-2">
          {newer !== undefined && older !== undefined && chosen.size === 2 ? (
            <Link className={BUTTONS.primary} href={to("experiment", [newer.id], { against: older.id })}>
              Compare the two
            </Link>
          ) : (
            <span className="text-xs text-agent-muted max-sm:hidden">Choose two to compare them</span>
          )}
          <ColumnMenu columns={LIST_COLUMNS} layout={layout} />
        </span>
      </div>
      {isEmpty ? (
        <Empty title="No experiment fits.">
          <p>
            <TextLink href="/experiments">Show all experiments</TextLink>
          </p>
        </Empty>
      ) : (
        <Table
          name="experiments"
          label="Experiments"
          rows={rows}
          columns={LIST_COLUMNS}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => to("experiment", [id])}
          chosen={chosen}
          onChoose={setChosen}
          onEnd={list.onEnd}
          layout={layout}
        />
      )}
    </>
  );
}

/** Different names, in order. */
function namesIn(names: readonly (string | undefined)[]): string[] {
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

function NoExperiments(): ReactNode {
  return (
    <Empty title="There are no experiments yet.">
      <p>
        An experiment runs an agent on the cases of a data set and scores its answers. It goes on after a crash, and
        pays for nothing twice.
      </p>
      <Command title="Run one" text={COMMAND} />
      <p>
        Cases come from a file, or from runs: “Add to data set” on the page of a run.{" "}
        <TextLink href={to("runs", [], { status: "failed" })}>Runs that failed</TextLink>
      </p>
    </Empty>
  );
}

const LIST_COLUMNS: readonly TableColumn<EvalExperiment>[] = [
  column("experiment", "Experiment", { width: 120, share: 1 }, ({ id }) => (
    <RowLink href={to("experiment", [id])}>{id}</RowLink>
  )),
  column("rate", "Pass rate", { width: 184 }, (experiment) => <Rate experiment={experiment} />),
  column("agent", "Agent", { width: 110, fromPx: 590 }, ({ agentId }) => agentId),
  column("version", "Version", { width: 96, fromPx: 1_100 }, ({ fingerprint }) => codeCell(shortHash(fingerprint))),
  column("dataset", "Data set", { width: 120, fromPx: 710 }, ({ dataset }) => dataset),
  column("cases", "Cases", { width: 70, isNumber: true, fromPx: 780 }, ({ cases }) => formatCount(cases)),
  column("cost", "Cost a case", { width: 96, isNumber: true, fromPx: 880 }, ({ costMicros }) =>
    orDash(costMicros?.value, formatCost),
  ),
  column("duration", "Time a case", { width: 96, isNumber: true, fromPx: 980 }, ({ durationMs }) =>
    orDash(durationMs?.value, formatDuration),
  ),
  column("model", "Model", { width: 150, isHidden: true }, ({ model = "" }) => model),
  column("begun", "Begun", { width: 100, fromPx: 480 }, ({ at }) => <Ago at={at} />),
];

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
  const [{ against }] = useSearch(SEARCH.experiment);
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
              {info.repeats > 1 && ` × ${info.repeats}`} · begun <Ago at={info.at} />
            </>
          )
        }
      >
        {info !== undefined && <Against info={info} />}
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
function Against({ info }: { readonly info: EvalExperiment }): ReactNode {
  const [{ against }, change] = useSearch(SEARCH.experiment);
  const { data } = useInfiniteQuery(experimentsQuery({ dataset: info.dataset }));
  const others = data?.pages.flatMap(({ experiments }) => experiments).filter(({ id }) => id !== info.id) ?? [];
  const names = others.map((other) => {
    const rate = other.passRate === undefined ? "not ended" : formatPercent(other.passRate.value);
    return [other.id, `${other.id}: ${other.agentId} ${shortHash(other.fingerprint)}, ${rate}`] as const;
  });
  const isKnown = against === undefined || others.some(({ id }) => id === against);
  return (
    <Select
      label="Compare with"
      value={against}
      options={[["", "nothing"], ...names, ...(isKnown ? [] : [[against, against] as const])]}
      onChange={(value) => {
        change({ against: value, show: undefined, case: undefined }, { push: true });
      }}
    />
  );
}

type Sum = readonly [label: string, value: string, range: string | undefined];

/** The sums of an experiment, as far as they are known. */
function sumsOf({ info, cases }: CasesProps): readonly Sum[] {
  const { passRate, costMicros, durationMs, tokens, scores = {} } = info;
  const passed = cases.filter(({ isPassed }) => isPassed).length;
  const cost = cases.reduce((sum, { costMicros: micros = 0 }) => sum + micros, 0);
  const sum = (label: string, estimate: Estimate | undefined, format: (value: number) => string): readonly Sum[] =>
    estimate === undefined ? [] : [[label, format(estimate.value), rangeOf(estimate, format)]];
  return [
    ...(passRate === undefined
      ? [["Scored so far", `${cases.length} of ${info.cases * info.repeats}`, `${passed} passed`] as const]
      : sum("Pass rate", passRate, formatPercent)),
    ...(costMicros === undefined
      ? []
      : [["Cost a case", formatCost(costMicros.value), `${formatCost(cost)} in all`] as const]),
    ...sum("Time a case", durationMs, formatDuration),
    ...sum("Tokens a case", tokens, formatShort),
    ...Object.entries(scores).flatMap(([name, score]) => sum(name, score, (value) => Math.min(value, 1).toFixed(2))),
  ];
}

function Sums(props: CasesProps): ReactNode {
  return (
    <dl className="flex shrink-0 overflow-x-auto border-b border-agent-border" tabIndex={0} aria-label="Sums">
      {sumsOf(props).map(([label, value, range]) => (
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

/** The cases that an address asks for. */
type CaseSearch = Search<typeof SEARCH.experiment>;

function hasText(texts: readonly string[], text = ""): boolean {
  return texts.some((part) => part.toLowerCase().includes(text.toLowerCase()));
}

/** The attempts that an address asks for, those that failed first. */
export function casesIn(cases: readonly EvalCase[], { show, tag, text }: CaseSearch): readonly EvalCase[] {
  return cases
    .filter(
      (testCase) =>
        (show !== "failed" || !testCase.isPassed) &&
        (show !== "passed" || testCase.isPassed) &&
        (tag === undefined || testCase.tags?.includes(tag) === true) &&
        hasText([testCase.name, testCase.input, testCase.output, testCase.expected ?? ""], text),
    )
    .toSorted((left, other) => Number(left.isPassed) - Number(other.isPassed));
}

const keyOfCase = ({ name, repeat }: EvalCase): string => `${name}#${repeat}`;

interface CasesProps {
  readonly info: EvalExperiment;
  readonly cases: readonly EvalCase[];
}

function Cases({ info, cases }: CasesProps): ReactNode {
  const [search, , set] = useSearch(SEARCH.experiment);
  const layout = useColumns("cases");
  const scorers = useMemo(
    () => [...new Set(cases.flatMap(({ verdicts }) => verdicts.map(({ name }) => name)))],
    [cases],
  );
  const columns = useMemo(() => caseColumns(scorers, info.repeats), [scorers, info.repeats]);
  const rows = casesIn(cases, search);
  const failed = cases.filter(({ isPassed }) => !isPassed).length;
  const chosen = cases.find((testCase) => keyOfCase(testCase) === search.case);
  return (
    <>
      <CaseFilters
        tags={namesIn(cases.flatMap(({ tags = [] }) => tags))}
        shows={[
          [undefined, `All ${formatCount(cases.length)}`],
          ["failed", `Failed ${formatCount(failed)}`],
          ["passed", `Passed ${formatCount(cases.length - failed)}`],
        ]}
      >
        <ColumnMenu columns={columns} layout={layout} />
      </CaseFilters>
      <Beside className={BESIDE} panel={chosen !== undefined && <CasePanel attempts={[["", chosen]]} />}>
        {rows.length === 0 ? (
          <NoCases count={cases.length} info={info} />
        ) : (
          <Table
            name="cases"
            label="Cases"
            rows={rows}
            columns={columns}
            keyOf={keyOfCase}
            opened={chosen && keyOfCase(chosen)}
            onKey={set("case")}
            layout={layout}
          />
        )}
      </Beside>
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
  readonly shows: readonly (readonly [show: CaseSearch["show"], label: string])[];
  readonly children?: ReactNode;
}

function CaseFilters({ tags, shows, children }: CaseFiltersProps): ReactNode {
  const [search, , set] = useSearch(SEARCH.experiment);
  return (
    <div className="flex shrink-0 flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
      <SearchField label="Search cases" value={search.text ?? ""} onChange={set("text")} />
      <div role="group" aria-label="Which cases" className="flex flex-wrap gap-1.5">
        {shows.map(([show, label]) => (
          <Chip key={label} isOn={search.show === show} onChange={set("show", show)}>
            {label}
          </Chip>
        ))}
      </div>
      {tags.length > 0 && (
        <Select label="Tag" value={search.tag} options={choices("any", tags)} onChange={set("tag")} />
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

function caseColumns(scorers: readonly string[], repeats: number): readonly TableColumn<EvalCase>[] {
  /** The width at which every scorer has its column. */
  const from = 660 + 84 * scorers.length;
  return [
    column("case", "Case", { width: 120, share: 1 }, ({ name, isPassed, repeat }) => (
      <span className="flex min-w-0 items-center gap-1.5">
        <Passed isPassed={isPassed} />
        <span className="truncate font-semibold" title={name}>
          {name}
          {repeats > 1 && <span className={MUTED}> {repeat}</span>}
        </span>
      </span>
    )),
    column("input", "Input", { width: 130, share: 1, fromPx: 500 }, ({ input }) => textCell(input)),
    column("expected", "Expected", { width: 120, share: 1, fromPx: 640 }, ({ expected }) => textCell(expected, MUTED)),
    column("output", "Output", { width: 120, share: 1, fromPx: 360 }, ({ output }) => textCell(output)),
    ...scorers.map((scorer) =>
      column<EvalCase>(`score ${scorer}`, scorer, { width: 84, isNumber: true, fromPx: 860 }, ({ verdicts }) => {
        const verdict = verdicts.find(({ name }) => name === scorer);
        if (verdict === undefined) return <span className={MUTED}>–</span>;
        return (
          <span className={verdict.isMet ? undefined : "font-semibold text-agent-danger-text"} title={verdict.why}>
            {verdict.score.toFixed(2)}
          </span>
        );
      }),
    ),
    column("why", "Why it failed", { width: 160, share: 1, fromPx: from + 320 }, ({ why }) => textCell(why, MUTED)),
    column("cost", "Cost", { width: 76, isNumber: true, fromPx: from + 80 }, ({ costMicros }) =>
      orDash(costMicros, formatCost),
    ),
    column("duration", "Time", { width: 76, isNumber: true, fromPx: from + 160 }, ({ durationMs }) =>
      orDash(durationMs, formatDuration),
    ),
    column("tokens", "Tokens", { width: 76, isNumber: true, isHidden: true }, ({ tokens }) =>
      orDash(tokens, formatShort),
    ),
    column("trace", "Trace", { width: 64 }, ({ runId }) => <Trace runId={runId} label="Trace" />),
  ];
}

function Trace({ runId, label }: { readonly runId: string; readonly label: string }): ReactNode {
  return (
    <TextLink href={to("run", [runId])} title={`Run ${shortId(runId)}`}>
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
  const [, , set] = useSearch(SEARCH.experiment);
  const first = attempts[0]?.[1];
  if (first === undefined) return null;
  return (
    <SidePanel kind="Case" title={first.name} onClose={set("case", undefined)}>
      <CodeView title="Input" text={first.input} />
      {first.expected !== undefined && <CodeView title="Expected" text={first.expected} />}
      {attempts.map(([label, attempt]) => (
        <section key={`${label}${attempt.runId}`} aria-label={label || "Answer"} className="flex flex-col gap-2">
          <CodeView title={label === "" ? "Output" : `Output, ${label}`} text={attempt.output || "(no answer)"} />
          <ul className="flex flex-col gap-1">
            {attempt.verdicts.map(({ name, score, isMet, why, runId }) => (
              <li key={name} className="flex flex-wrap items-baseline gap-x-2">
                <Passed isPassed={isMet} />
                <span className="font-medium">{name}</span>
                <span className="tabular-nums">{score.toFixed(2)}</span>
                {why !== undefined && <span className={classes(MUTED, "wrap-anywhere")}>{why}</span>}
                {runId !== undefined && <Trace runId={runId} label="judgement" />}
              </li>
            ))}
          </ul>
          {attempt.status !== "completed" && (
            <p>
              <Status status={attempt.status} />
            </p>
          )}
          <div className="flex flex-wrap gap-2">
            <Link className={BUTTONS.primary} href={to("run", [attempt.runId])}>
              Open the trace
            </Link>
            <AddToDataset runIds={[attempt.runId]} expected={attempt.expected} />
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
export function pairsIn(pairs: readonly EvalPair[], { show, tag, text }: CaseSearch): readonly EvalPair[] {
  return pairs.filter(
    ({ name, change, old, new: next }) =>
      (show === undefined || change === show || (show === "failed" && next.some(({ isPassed }) => !isPassed))) &&
      (tag === undefined || next.some(({ tags }) => tags?.includes(tag) === true)) &&
      hasText([name, ...[...old, ...next].flatMap(({ input, output }) => [input, output])], text),
  );
}

function Compared({ experimentId, old }: { readonly experimentId: string; readonly old: string }): ReactNode {
  const compared = useQuery(experimentsComparedQuery(experimentId, old));
  const [search, , set] = useSearch(SEARCH.experiment);
  const layout = useColumns("compared-cases");
  const { data } = compared;
  if (data === undefined) return <Pending of={compared} />;
  const { pairs } = data;
  const count = (change: EvalPair["change"]): string =>
    formatCount(pairs.filter((pair) => pair.change === change).length);
  const rows = pairsIn(pairs, search);
  const chosen = pairs.find(({ name }) => name === search.case);
  const attempts = (["old", "new"] as const).flatMap((side) =>
    (chosen?.[side] ?? []).map(
      (attempt) => [data[side].repeats > 1 ? `${side} ${attempt.repeat}` : side, attempt] as const,
    ),
  );
  return (
    <div className={SCROLLED}>
      <Verdict found={data} />
      <CaseFilters
        tags={namesIn(pairs.flatMap((pair) => pair.new.flatMap(({ tags = [] }) => tags)))}
        shows={[
          [undefined, `All ${formatCount(pairs.length)}`],
          ["broken", `Broken ${count("broken")}`],
          ["fixed", `Fixed ${count("fixed")}`],
          ["failed", "Failed now"],
        ]}
      >
        <ColumnMenu columns={PAIR_COLUMNS} layout={layout} />
      </CaseFilters>
      <Beside className={BESIDE} panel={<CasePanel attempts={attempts} />}>
        {rows.length === 0 ? (
          <Empty title={pairs.length === 0 ? "The two have no case in common." : "No case fits."} />
        ) : (
          <Table
            name="compared-cases"
            label="Cases of both"
            rows={rows}
            columns={PAIR_COLUMNS}
            keyOf={({ name }) => name}
            opened={search.case}
            onKey={set("case")}
            layout={layout}
          />
        )}
      </Beside>
    </div>
  );
}

function Verdict({ found: result }: { readonly found: EvalComparison }): ReactNode {
  const { comparison, old, new: next, fixed, broken, onlyOld = [], onlyNew = [] } = result;
  const gain = comparison.successRate;
  return (
    <section
      aria-label="Verdict"
      className={classes(CARD, "m-3 flex shrink-0 flex-wrap items-center gap-x-6 gap-y-2 px-4 py-3 text-sm")}
    >
      <p className="flex min-w-0 flex-1 basis-72 flex-wrap items-center gap-2">
        <Status status={comparison.verdict} />
        <span>{verdictWords(result)}</span>
        <span className={classes(MUTED, "w-full text-xs wrap-anywhere")}>
          {next.id} ({next.agentId} {shortHash(next.fingerprint)}, {formatWhen(next.at)}) against{" "}
          <TextLink href={to("experiment", [old.id])}>{old.id}</TextLink> ({old.agentId} {shortHash(old.fingerprint)},{" "}
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
  const values = attempts.map((attempt) => attempt[field]).filter((value) => value !== undefined);
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0) / values.length;
}

interface ChangeProps {
  readonly pair: EvalPair;
  readonly field: "costMicros" | "durationMs";
  readonly format: (value: number) => string;
}

function Change({ pair, field, format }: ChangeProps): ReactNode {
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
  column("case", "Case", { width: 110, share: 1 }, ({ name }) => textCell(name, "font-semibold")),
  column("change", "Change", { width: 108 }, ({ change }) => (
    <Status status={CHANGES[change][0]} words={CHANGES[change][1]} />
  )),
  column("input", "Input", { width: 120, share: 1, fromPx: 740 }, ({ new: [first] }) => textCell(first?.input)),
  column("expected", "Expected", { width: 110, share: 1, fromPx: 860 }, ({ new: [first] }) =>
    textCell(first?.expected, MUTED),
  ),
  ...(["old", "new"] as const).map((side) =>
    column<EvalPair>(
      side,
      side === "old" ? "Old output" : "New output",
      { width: 130, share: 1, fromPx: 610 },
      (pair) => <Side attempts={pair[side]} />,
    ),
  ),
  column(
    "score",
    "Score",
    { width: 108, isNumber: true, fromPx: 970 },
    (pair) => `${(meanOf(pair.old, "score") ?? 0).toFixed(2)} → ${(meanOf(pair.new, "score") ?? 0).toFixed(2)}`,
  ),
  column("cost", "Cost", { width: 112, isNumber: true, fromPx: 1_090 }, (pair) => (
    <Change pair={pair} field="costMicros" format={formatCost} />
  )),
  column("duration", "Time", { width: 112, isNumber: true, fromPx: 1_200 }, (pair) => (
    <Change pair={pair} field="durationMs" format={formatDuration} />
  )),
  column("trace", "Traces", { width: 92 }, ({ old: [before], new: [after] }) => (
    <span className="inline-flex gap-2">
      {before !== undefined && <Trace runId={before.runId} label="old" />}
      {after !== undefined && <Trace runId={after.runId} label="new" />}
    </span>
  )),
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

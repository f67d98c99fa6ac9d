/** Data sets in the store: the list, and one of them with its cases. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { DatasetCaseChange, EvalDataset, EvalDatasetCase } from "@windlass/protocol/client";
import {
  Badge,
  BUTTONS,
  classes,
  CodeView,
  DataTable,
  FIELD,
  formatCount,
  plural,
  shortHash,
  useColumns,
  type TableColumn,
} from "@windlass/ui";
import { useMemo, useState, type ReactNode, type SyntheticEvent } from "react";
import { client } from "../auth.js";
import { DeleteButton, SaveButton } from "../bulk.js";
import { datasetAddress, expectedIn, textOf } from "../add-to-dataset.js";
import {
  Ago,
  Empty,
  Failure,
  Heading,
  Listed,
  Loading,
  RowLink,
  SidePanel,
  TagsField,
  tagsIn,
  TextLink,
  useNow,
} from "../parts.js";
import { datasetQuery, datasetsQuery, useNextPage } from "../queries.js";
import { navigate, to, useQueryState } from "../router.js";
import { tellDone } from "../shell.js";

/** The list of data sets: a view of the page of experiments. */
export function Datasets(): ReactNode {
  const { data, error, refetch } = useQuery(datasetsQuery);
  const layout = useColumns("datasets");
  const now = useNow();
  const columns = useMemo(() => listColumns(now), [now]);
  if (data === undefined)
    return error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />;
  return (
    <>
      <NewDataset />
      {data.datasets.length === 0 ? (
        <Empty title="There are no data sets yet.">
          <p>
            A data set holds cases: what an agent is asked, and what is expected. “Add to data set” on the page of a run
            takes the run as a case. <TextLink href="/runs">Choose runs</TextLink>
          </p>
          <div className="text-left">
            <CodeView
              title="Or keep a file"
              text="windlass eval datasets add prices cases.yaml"
              copyLabel="Copy the command"
            />
          </div>
        </Empty>
      ) : (
        <DataTable
          label="Data sets"
          rows={data.datasets}
          columns={columns}
          keyOf={({ name }) => name}
          onOpen={({ name }) => {
            navigate(datasetAddress(name));
          }}
          layout={layout}
        />
      )}
    </>
  );
}

function NewDataset(): ReactNode {
  const [name, setName] = useState("");
  const queries = useQueryClient();
  const make = useMutation({
    mutationFn: () => client.makeDataset(name.trim()),
    onSuccess: (made) => {
      void queries.invalidateQueries({ queryKey: ["datasets"] });
      navigate(datasetAddress(made.name));
    },
  });
  return (
    <form
      className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim() !== "") make.mutate();
      }}
    >
      <input
        className={classes(FIELD, "w-56!")}
        aria-label="Name of a new data set"
        placeholder="Name of a new data set"
        maxLength={200}
        value={name}
        onChange={(event) => {
          setName(event.target.value);
        }}
      />
      <button type="submit" className={BUTTONS.default} disabled={make.isPending || name.trim() === ""}>
        Create
      </button>
      {make.error !== null && <Failure error={make.error} />}
    </form>
  );
}

function listColumns(now: number): readonly TableColumn<EvalDataset>[] {
  return [
    {
      id: "name",
      label: "Data set",
      width: 160,
      share: 1,
      cell: ({ name }) => <RowLink href={datasetAddress(name)}>{name}</RowLink>,
    },
    { id: "cases", label: "Cases", width: 80, isNumber: true, cell: ({ cases }) => formatCount(cases) },
    {
      id: "version",
      label: "Version",
      width: 100,
      fromPx: 480,
      cell: ({ hash }) => <code className="font-mono text-xs">{shortHash(hash)}</code>,
    },
    {
      id: "scorers",
      label: "Scorers",
      width: 160,
      share: 1,
      fromPx: 640,
      cell: ({ scorers }) => (
        <span className="text-agent-muted">{scorers.flatMap((one) => Object.keys(one)).join(", ") || "–"}</span>
      ),
    },
    { id: "changed", label: "Changed", width: 110, cell: ({ changedAt }) => <Ago at={changedAt} nowMs={now} /> },
    {
      id: "experiments",
      label: "Experiments",
      width: 110,
      fromPx: 560,
      cell: ({ name }) => <TextLink href={to(["experiments"], { dataset: name })}>Experiments</TextLink>,
    },
  ];
}

// One data set.

/** A data set with its cases; the chosen one is edited beside them. */
export function DatasetPage({ name }: { readonly name: string }): ReactNode {
  const list = useInfiniteQuery(datasetQuery(name));
  const { data, error, refetch, hasNextPage } = list;
  const [query, change] = useQueryState();
  const layout = useColumns("dataset-cases");
  const now = useNow();
  const info = data?.pages.at(-1)?.dataset;
  const all = useMemo(() => data?.pages.flatMap(({ cases }) => cases), [data]);
  const text = (query.get("text") ?? "").toLowerCase();
  const rows = all?.filter((one) =>
    [one.name, textOf(one.inputs), textOf(one.expected), ...(one.tags ?? [])].some((words) =>
      words.toLowerCase().includes(text),
    ),
  );
  const onEnd = useNextPage(list, rows?.length);
  const chosen = all?.find((one) => one.name === query.get("case"));
  return (
    <>
      <Heading
        title={name}
        parent={{ label: "Data sets", href: "/experiments?view=datasets" }}
        about={
          info !== undefined && (
            <>
              {plural(info.cases, "case")} · version <code className="font-mono">{shortHash(info.hash)}</code> · changed{" "}
              <Ago at={info.changedAt} nowMs={now} />
            </>
          )
        }
      >
        {info !== undefined && <Actions info={info} />}
      </Heading>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined || info === undefined ? (
        error === null && <Loading />
      ) : (
        <>
          <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
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
            <Listed count={rows.length} noun="case" hasMore={hasNextPage} />
          </div>
          <div className="flex min-h-0 flex-1 flex-col lg:flex-row">
            <div className="flex min-h-0 min-w-0 flex-1 flex-col">
              {rows.length > 0 || hasNextPage ? (
                <DataTable
                  label="Cases"
                  rows={rows}
                  columns={CASE_COLUMNS}
                  keyOf={(one) => one.name}
                  opened={chosen?.name}
                  onOpen={(one) => {
                    change({ case: one.name });
                  }}
                  onEnd={onEnd}
                  layout={layout}
                />
              ) : (
                <NoCases info={info} />
              )}
            </div>
            {chosen !== undefined && <CaseForm key={chosen.name} dataset={name} one={chosen} />}
          </div>
        </>
      )}
    </>
  );
}

function NoCases({ info }: { readonly info: EvalDataset }): ReactNode {
  if (info.cases > 0) return <Empty title="No case fits." />;
  return (
    <Empty title="The data set has no cases yet.">
      <p>
        <TextLink href="/runs">Choose runs</TextLink> and add them, or let the command do it.
      </p>
      <div className="text-left">
        <CodeView
          title="Add a run"
          text={`windlass eval datasets add ${shellWord(info.name)} --run RUN`}
          copyLabel="Copy the command"
        />
      </div>
    </Empty>
  );
}

/** A word of a shell command, quoted if it has to be. */
export function shellWord(text: string): string {
  return /^[\w./-]+$/u.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function Actions({ info }: { readonly info: EvalDataset }): ReactNode {
  const queries = useQueryClient();
  const remove = async (): Promise<void> => {
    await client.deleteDataset(info.name);
    tellDone(`Deleted the data set ${info.name}.`);
    void queries.invalidateQueries({ queryKey: ["datasets"] });
    navigate("/experiments?view=datasets", { replace: true });
  };
  return (
    <div className="flex flex-wrap items-center gap-2">
      <TextLink className="text-sm" href={to(["experiments"], { dataset: info.name })}>
        Experiments
      </TextLink>
      <SaveButton
        label="Download"
        file={async () => ({
          text: await client.datasetFile(info.name),
          name: `${info.name.replaceAll(/[^\w-]/gu, "-")}.yaml`,
          type: "application/yaml",
        })}
      />
      <DeleteButton title={`Delete the data set ${info.name}?`} onDelete={remove}>
        <p>
          {plural(info.cases, "case")} are deleted. Experiments on them, and the runs that they were taken from, stay.
        </p>
      </DeleteButton>
    </div>
  );
}

const CASE_COLUMNS: readonly TableColumn<EvalDatasetCase>[] = [
  {
    id: "case",
    label: "Case",
    width: 130,
    share: 1,
    cell: ({ name }) => (
      <span className="font-semibold" title={name}>
        {name}
      </span>
    ),
  },
  {
    id: "inputs",
    label: "Inputs",
    width: 160,
    share: 1,
    cell: ({ inputs }) => <span title={textOf(inputs)}>{textOf(inputs)}</span>,
  },
  {
    id: "expected",
    label: "Expected",
    width: 150,
    share: 1,
    fromPx: 560,
    cell: ({ expected }) => (
      <span className="text-agent-muted" title={textOf(expected)}>
        {textOf(expected) || "–"}
      </span>
    ),
  },
  {
    id: "tags",
    label: "Tags",
    width: 130,
    fromPx: 760,
    cell: ({ tags = [] }) => (
      <span className="inline-flex gap-1">
        {tags.map((tag) => (
          <Badge key={tag}>{tag}</Badge>
        ))}
      </span>
    ),
  },
  {
    id: "run",
    label: "Taken from",
    width: 100,
    fromPx: 640,
    cell: ({ runId }) =>
      runId === undefined ? (
        <span className="text-agent-muted">–</span>
      ) : (
        <TextLink href={to(["runs", runId])}>its run</TextLink>
      ),
  },
];

/** A case to read and to edit. */
function CaseForm({ dataset, one }: { readonly dataset: string; readonly one: EvalDatasetCase }): ReactNode {
  const [, change] = useQueryState();
  const [expected, setExpected] = useState(textOf(one.expected));
  const [tags, setTags] = useState((one.tags ?? []).join(", "));
  const queries = useQueryClient();
  const refresh = (): void => {
    void queries.invalidateQueries({ queryKey: ["dataset", dataset] });
    void queries.invalidateQueries({ queryKey: ["datasets"] });
  };
  const save = useMutation({
    mutationFn: () => {
      const body: DatasetCaseChange = { name: one.name, tags: tagsIn(tags) };
      return client.changeCase(dataset, { ...body, expected: expectedIn(expected, one.expected) });
    },
    onSuccess: () => {
      tellDone(`Changed ${one.name}.`);
    },
    onSettled: refresh,
  });
  const remove = useMutation({
    mutationFn: () => client.removeCase(dataset, one.name),
    onSuccess: () => {
      tellDone(`Removed ${one.name} from ${dataset}.`);
      change({ case: undefined });
    },
    onSettled: refresh,
  });
  const send = (event: SyntheticEvent): void => {
    event.preventDefault();
    save.mutate();
  };
  const failure = save.error ?? remove.error;
  return (
    <SidePanel
      kind="Case"
      title={one.name}
      onClose={() => {
        change({ case: undefined });
      }}
    >
      <CodeView title="Inputs" text={textOf(one.inputs)} />
      <form className="flex flex-col gap-3" onSubmit={send}>
        <label className="flex flex-col gap-1">
          Expected answer
          <textarea
            className={FIELD}
            rows={5}
            placeholder="None: the case is judged by other scorers"
            value={expected}
            onChange={(event) => {
              setExpected(event.target.value);
            }}
          />
        </label>
        <TagsField value={tags} onChange={setTags} />
        {failure !== null && <Failure error={failure} />}
        <div className="flex flex-wrap gap-2">
          <button type="submit" className={BUTTONS.primary} disabled={save.isPending}>
            Save
          </button>
          <button
            type="button"
            className={BUTTONS.danger}
            disabled={remove.isPending}
            onClick={() => {
              remove.mutate();
            }}
          >
            Remove the case
          </button>
        </div>
      </form>
      {one.metadata !== undefined && <CodeView title="Metadata" text={JSON.stringify(one.metadata, undefined, 2)} />}
      {one.scorers !== undefined && (
        <CodeView title="Scorers of this case" text={JSON.stringify(one.scorers, undefined, 2)} />
      )}
      {one.runId !== undefined && (
        <p>
          Taken from <TextLink href={to(["runs", one.runId])}>a run</TextLink>.
        </p>
      )}
    </SidePanel>
  );
}

/** Data sets in the store: the list, and one of them with its cases. */
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import type { DatasetCaseChange, EvalDataset, EvalDatasetCase } from "@windlass/protocol/client";
import {
  Badge,
  Button,
  classes,
  CodeView,
  FIELD,
  formatCount,
  plural,
  shortHash,
  type TableColumn,
} from "@windlass/ui";
import { useState, type ReactNode } from "react";
import { EXPECTED, expectedIn, NONE, textOf } from "../add-to-dataset.js";
import { SEARCH, to } from "../addresses.js";
import { client } from "../auth.js";
import { Act, AreaField, DeleteButton, Form, Input, SaveButton, SearchField, TagsField, tagsIn } from "../form.js";
import { codeCell, column, Listed, PagedTable, SidePanel, Table, textCell, useRows } from "../list.js";
import { Ago, Command, Empty, Failure, Heading, Pending, RowLink, TextLink } from "../parts.js";
import { datasetQuery, datasetsQuery, useNextPage, useRefresh } from "../queries.js";
import { navigate, useSearch } from "../router.js";
import { tellDone } from "../shell.js";

const LIST_ADDRESS = to("experiments", [], { view: "datasets" });
const MUTED = "text-agent-muted";

/** The list of data sets: a view of the page of experiments. */
export function Datasets(): ReactNode {
  const list = useQuery(datasetsQuery);
  if (list.data === undefined) return <Pending of={list} />;
  return (
    <>
      <NewDataset />
      {list.data.datasets.length === 0 ? (
        <NoDatasets />
      ) : (
        <Table
          name="datasets"
          label="Data sets"
          rows={list.data.datasets}
          columns={LIST_COLUMNS}
          keyOf={({ name }) => name}
          hrefOf={({ name }) => to("dataset", [name])}
        />
      )}
    </>
  );
}

function NoDatasets(): ReactNode {
  return (
    <Empty title="There are no data sets yet.">
      <p>
        A data set holds cases: what an agent is asked, and what is expected. “Add to data set” on the page of a run
        takes the run as a case. <TextLink href="/runs">Choose runs</TextLink>
      </p>
      <Command title="Or keep a file" text="windlass eval datasets add prices cases.yaml" />
    </Empty>
  );
}

function NewDataset(): ReactNode {
  const [name, setName] = useState("");
  const refresh = useRefresh(["datasets"]);
  const make = useMutation({
    mutationFn: () => client.datasets.make({ name: name.trim() }),
    onSuccess: (made) => {
      void refresh();
      navigate(to("dataset", [made.name]));
    },
  });
  const label = "Name of a new data set";
  return (
    <Form
      className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2"
      onSend={() => {
        if (name.trim() !== "") make.mutate();
      }}
    >
      <Input
        className={classes(FIELD, "w-56!")}
        aria-label={label}
        placeholder={label}
        maxLength={200}
        value={name}
        onChange={setName}
      />
      <Button type="submit" disabled={make.isPending || name.trim() === ""}>
        Create
      </Button>
      {make.error !== null && <Failure error={make.error} />}
    </Form>
  );
}

const LIST_COLUMNS: readonly TableColumn<EvalDataset>[] = [
  column("name", "Data set", { width: 160, share: 1 }, ({ name }) => (
    <RowLink href={to("dataset", [name])}>{name}</RowLink>
  )),
  column("cases", "Cases", { width: 80, isNumber: true }, ({ cases }) => formatCount(cases)),
  column("version", "Version", { width: 100, fromPx: 480 }, ({ hash }) => codeCell(shortHash(hash))),
  column("scorers", "Scorers", { width: 160, share: 1, fromPx: 640 }, ({ scorers }) => (
    <span className={MUTED}>{scorers.flatMap((scorer) => Object.keys(scorer)).join(", ") || "–"}</span>
  )),
  column("changed", "Changed", { width: 110 }, ({ changedAt }) => <Ago at={changedAt} />),
  column("experiments", "Experiments", { width: 110, fromPx: 560 }, ({ name }) => (
    <TextLink href={to("experiments", [], { dataset: name })}>Experiments</TextLink>
  )),
];

// One data set.

/** A data set with its cases; the chosen one is edited beside them. */
export function DatasetPage({ name }: { readonly name: string }): ReactNode {
  const pages = useInfiniteQuery(datasetQuery(name));
  const list = useRows(pages, "cases");
  const [search, , set] = useSearch(SEARCH.dataset);
  const info = pages.data?.pages.at(-1)?.dataset;
  const text = (search.text ?? "").toLowerCase();
  const rows = list.rows?.filter((row) =>
    [row.name, textOf(row.inputs), textOf(row.expected), ...(row.tags ?? [])].some((word) =>
      word.toLowerCase().includes(text),
    ),
  );
  const onEnd = useNextPage(pages, rows?.length);
  const chosen = list.rows?.find((row) => row.name === search.case);
  return (
    <>
      <Heading
        title={name}
        parent={{ label: "Data sets", href: LIST_ADDRESS }}
        about={
          info !== undefined && (
            <>
              {plural(info.cases, "case")} · version <code className="font-mono">{shortHash(info.hash)}</code> · changed{" "}
              <Ago at={info.changedAt} />
            </>
          )
        }
      >
        {info !== undefined && <Actions info={info} />}
      </Heading>
      {rows !== undefined && (
        <div className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2">
          <SearchField label="Search cases" value={search.text ?? ""} onChange={set("text")} />
          <Listed count={rows.length} noun="case" hasMore={list.hasNextPage} />
        </div>
      )}
      <PagedTable
        name="dataset-cases"
        label="Cases"
        list={{ ...list, rows, onEnd }}
        columns={CASE_COLUMNS}
        keyOf={(row) => row.name}
        opened={chosen?.name}
        onKey={set("case")}
        empty={info !== undefined && <NoCases info={info} />}
        panel={chosen !== undefined && <CasePanel key={chosen.name} dataset={name} one={chosen} />}
      />
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
      <Command title="Add a run" text={`windlass eval datasets add ${shellWord(info.name)} --run RUN`} />
    </Empty>
  );
}

/** A word of a shell command, quoted if it has to be. */
export function shellWord(text: string): string {
  return /^[\w./-]+$/u.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function Actions({ info }: { readonly info: EvalDataset }): ReactNode {
  const refresh = useRefresh(["datasets"]);
  const remove = async (): Promise<void> => {
    await client.datasets.delete(info.name);
    tellDone(`Deleted the data set ${info.name}.`);
    void refresh();
    navigate(LIST_ADDRESS, { replace: true });
  };
  return (
    <div className="flex flex-wrap items-center gap-2">
      <TextLink className="text-sm" href={to("experiments", [], { dataset: info.name })}>
        Experiments
      </TextLink>
      <SaveButton
        label="Download"
        file={async () => ({
          text: await client.datasets.yaml(info.name),
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
  column("case", "Case", { width: 130, share: 1 }, ({ name }) => textCell(name, "font-semibold")),
  column("inputs", "Inputs", { width: 160, share: 1 }, ({ inputs }) => textCell(textOf(inputs))),
  column("expected", "Expected", { width: 150, share: 1, fromPx: 560 }, ({ expected }) => (
    <span className={MUTED} title={textOf(expected)}>
      {textOf(expected) || "–"}
    </span>
  )),
  column("tags", "Tags", { width: 130, fromPx: 760 }, ({ tags = [] }) => (
    <span className="inline-flex gap-1">
      {tags.map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
    </span>
  )),
  column("run", "Taken from", { width: 100, fromPx: 640 }, ({ runId }) =>
    runId === undefined ? <span className={MUTED}>–</span> : <TextLink href={to("run", [runId])}>its run</TextLink>,
  ),
];

interface CaseProps {
  readonly dataset: string;
  readonly one: EvalDatasetCase;
}

/** A case to read and to edit. */
function CasePanel({ dataset, one: testCase }: CaseProps): ReactNode {
  const [, , set] = useSearch(SEARCH.dataset);
  return (
    <SidePanel kind="Case" title={testCase.name} onClose={set("case", undefined)}>
      <CodeView title="Inputs" text={textOf(testCase.inputs)} />
      <CaseForm dataset={dataset} one={testCase} />
      {testCase.metadata !== undefined && (
        <CodeView title="Metadata" text={JSON.stringify(testCase.metadata, undefined, 2)} />
      )}
      {testCase.scorers !== undefined && (
        <CodeView title="Scorers of this case" text={JSON.stringify(testCase.scorers, undefined, 2)} />
      )}
      {testCase.runId !== undefined && (
        <p>
          Taken from <TextLink href={to("run", [testCase.runId])}>a run</TextLink>.
        </p>
      )}
    </SidePanel>
  );
}

function CaseForm({ dataset, one: testCase }: CaseProps): ReactNode {
  const [, change] = useSearch(SEARCH.dataset);
  const [expected, setExpected] = useState(textOf(testCase.expected));
  const [tags, setTags] = useState((testCase.tags ?? []).join(", "));
  const onSettled = useRefresh(["dataset", dataset], ["datasets"]);
  const save = useMutation({
    mutationFn: () => {
      const body: DatasetCaseChange = { name: testCase.name, tags: tagsIn(tags) };
      return client.datasets.changeCase(dataset, { ...body, expected: expectedIn(expected, testCase.expected) });
    },
    onSuccess: () => {
      tellDone(`Changed ${testCase.name}.`);
    },
    onSettled,
  });
  const remove = useMutation({
    mutationFn: () => client.datasets.deleteCase(dataset, { name: testCase.name }),
    onSuccess: () => {
      tellDone(`Removed ${testCase.name} from ${dataset}.`);
      change({ case: undefined });
    },
    onSettled,
  });
  const failure = save.error ?? remove.error;
  return (
    <Form className="flex flex-col gap-3" onSend={save.mutate}>
      <AreaField label={EXPECTED} rows={5} placeholder={NONE} value={expected} onChange={setExpected} />
      <TagsField value={tags} onChange={setTags} />
      {failure !== null && <Failure error={failure} />}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" variant="primary" disabled={save.isPending}>
          Save
        </Button>
        <Act act={remove} variant="danger">
          Remove the case
        </Act>
      </div>
    </Form>
  );
}

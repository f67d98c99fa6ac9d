/** Proposed changes to agents. */
import { useMutation, useQuery } from "@tanstack/react-query";
import type { Proposal, ProposalCheck } from "@windlass/protocol";
import { ApiError, type ProposalView, type ProposalWork, type Verdict } from "@windlass/protocol/client";
import { classes, Facts, FOCUS, plural, sentence, shortId, type TableColumn } from "@windlass/ui";
import { useId, useState, type ReactNode } from "react";
import { SEARCH, to } from "../addresses.js";
import { client } from "../auth.js";
import { ChangedValue } from "../changes.js";
import { Act, Form, Input } from "../form.js";
import { column, Table } from "../list.js";
import { Ago, Code, Command, Empty, Failure, kindWords, Pending, Status, TextLink } from "../parts.js";
import { proposalsQuery, useRefresh } from "../queries.js";
import { useSearch } from "../router.js";
import { ComparisonTable } from "./versions.js";

/** Proposed changes to agents, with their reasons and check results, to approve or refuse. */
export function Proposals({ agent }: { readonly agent: string | undefined }): ReactNode {
  const list = useQuery(proposalsQuery(agent));
  const [search, , set] = useSearch(SEARCH.decisions);
  const { data, error } = list;
  if (data === undefined) return error !== null && isHidden(error) ? <NotForYou /> : <Pending of={list} />;
  if (data.proposals.length === 0 && data.work.length === 0) return <NoProposals />;
  const selected = data.proposals.find(({ proposal }) => proposal.id === search.proposal) ?? data.proposals[0];
  return (
    <div className="flex min-h-0 flex-1 flex-col md:flex-row">
      <div className="flex shrink-0 flex-col border-agent-border max-md:max-h-44 max-md:border-b md:w-80 md:border-r xl:w-100">
        {data.work.map((work) => (
          <div key={work.proposalId} className="border-b border-agent-border px-4 py-2">
            <Work work={work} />
          </div>
        ))}
        <div className="flex min-h-0 flex-1 flex-col max-md:min-h-24">
          <Table
            name="proposals"
            label="Proposals, the newest first"
            rows={data.proposals}
            columns={COLUMNS}
            keyOf={({ proposal }) => proposal.id}
            opened={selected?.proposal.id}
            onKey={set("proposal")}
          />
        </div>
      </div>
      {selected !== undefined && <One key={selected.proposal.id} view={selected} />}
    </div>
  );
}

const COLUMNS: readonly TableColumn<ProposalView>[] = [
  column("change", "Change", { width: 120, share: 1 }, ({ proposal }) => (
    <span title={`${titleOf(proposal)}, for the goal ${proposal.goalId}`}>
      <span className="font-semibold">{titleOf(proposal)}</span>{" "}
      <span className="text-agent-muted">{proposal.agentId}</span>
    </span>
  )),
  column("status", "Status", { width: 104 }, ({ status }) => <Status status={status} />),
  column("at", "Proposed", { width: 96, fromPx: 340 }, ({ proposal }) => <Ago at={proposal.at} />),
];

function isHidden(error: Error): boolean {
  return error instanceof ApiError && (error.kind === "not_found" || error.kind === "denied");
}

function NotForYou(): ReactNode {
  return (
    <Empty title="Proposals are not for this key.">
      <p>
        Changing agents needs a key with the role <Code>improver</Code>. Ask the operator of the server.
      </p>
    </Empty>
  );
}

function NoProposals(): ReactNode {
  return (
    <Empty title="Nothing is proposed.">
      <p>
        The Builder looks at runs that failed a goal, and proposes a change to the agent: other instructions, a better
        description of a tool, another budget. It stands here with the runs that speak for it, until a person approves
        or refuses it.
      </p>
      <Command
        title="Ask for one"
        text={`curl ${location.origin}/v1/proposals -H 'content-type: application/json' -d '{"goal": "GOAL"}'`}
      />
    </Empty>
  );
}

/** The change of a proposal, in few words. */
function titleOf({ changes }: Proposal): string {
  return [...new Set(changes.map(partWords))].join(", ");
}

/** The part of an agent that a change is about. */
function partWords({ part, target }: Pick<Proposal["changes"][number], "part" | "target">): string {
  return target === undefined ? kindWords(part) : `${kindWords(part)} ${target}`;
}

function Work({ work }: { readonly work: ProposalWork }): ReactNode {
  const name = work.kind === "check" ? "A check" : "A proposal";
  return (
    <p className="text-xs text-agent-muted">
      <Status status={work.status} /> {name} {work.status === "working" ? "is under way" : "came to nothing"},{" "}
      <Ago at={work.startedAt} />. {sentence(work.problem ?? "")}
    </p>
  );
}

function One({ view }: { readonly view: ProposalView }): ReactNode {
  const { proposal, check, settled, settledAt, status, work } = view;
  const checkId = useId();
  return (
    <section aria-label="The selected proposal" className="flex min-h-0 min-w-0 flex-1 flex-col text-sm">
      <div className="flex min-h-0 flex-1 flex-col gap-4 overflow-y-auto p-4 *:max-w-4xl">
        <div className="flex flex-wrap items-center gap-3">
          <h2 className="text-base font-semibold wrap-anywhere">
            {sentence(titleOf(proposal))} of {proposal.agentId}
          </h2>
          <Status status={status} />
          {check !== undefined && (
            <a href={`#${checkId}`} className={classes("rounded text-agent-link underline underline-offset-2", FOCUS)}>
              {check.fixed} fixed, {check.broken} broken
            </a>
          )}
        </div>
        <p className="wrap-anywhere whitespace-pre-wrap">{proposal.rationale}</p>
        <Facts
          facts={[
            [
              "Agent",
              <TextLink key="agent" href={to("decisions", [], { view: "versions", agent: proposal.agentId })}>
                {proposal.agentId}
              </TextLink>,
            ],
            ["Goal", proposal.goalId],
            ["Proposed", <Ago key="at" at={proposal.at} />],
            [
              "Version",
              <span key="version" className="font-mono text-xs">
                {proposal.baseFingerprint.slice(7, 17)} → {proposal.fingerprint.slice(7, 17)}
              </span>,
            ],
            ...(settled === undefined
              ? []
              : [
                  [
                    settled.isAccepted ? "Accepted" : "Refused",
                    <>
                      by {settled.by}
                      {settledAt !== undefined && (
                        <>
                          , <Ago at={settledAt} />
                        </>
                      )}
                      {settled.reason !== undefined && `: ${settled.reason}`}
                    </>,
                  ] as const,
                ]),
          ]}
        />
        <Changes proposal={proposal} />
        <Evidence runIds={proposal.evidence} />
        {work.map((job) => (
          <Work key={`${job.kind} ${job.startedAt}`} work={job} />
        ))}
        {check !== undefined && <Checked id={checkId} check={check} />}
      </div>
      {status === "open" && <Settle view={view} />}
    </section>
  );
}

function Changes({ proposal: { changes } }: { readonly proposal: Proposal }): ReactNode {
  return (
    <div className="flex flex-col gap-3">
      {changes.map(({ part, target, before, after }, at) => (
        <ChangedValue key={at} name={partWords({ part, target })} before={before} after={after} />
      ))}
    </div>
  );
}

function Evidence({ runIds }: { readonly runIds: readonly string[] }): ReactNode {
  if (runIds.length === 0) return null;
  return (
    <div>
      <p className="mb-1 text-xs text-agent-muted">Runs that speak for it</p>
      <p className="flex flex-wrap gap-x-3 gap-y-1 font-mono text-xs">
        {runIds.map((runId) => (
          <TextLink key={runId} href={to("run", [runId])}>
            {shortId(runId)}
          </TextLink>
        ))}
      </p>
    </div>
  );
}

function Checked({ id, check }: { readonly id: string; readonly check: ProposalCheck }): ReactNode {
  const { comparison, replays, fixed, broken, diverged } = check;
  return (
    <div className="flex flex-col gap-3">
      <h3 id={id} className="font-semibold">
        Checked on recorded runs
      </h3>
      <p>
        <span className="text-agent-success">{fixed} fixed</span>,{" "}
        <span className={broken > 0 ? "text-agent-danger-text" : "text-agent-muted"}>{broken} broken</span>
        {diverged > 0 && (
          <span className="text-agent-muted">
            , {diverged} went another way than what was recorded: those tell less
          </span>
        )}
      </p>
      <ComparisonTable comparison={comparison} />
      <details className="text-xs">
        <summary className={classes("w-fit cursor-pointer rounded", FOCUS)}>
          {plural(replays.length, "run")} that {replays.length === 1 ? "was" : "were"} done again
        </summary>
        <ul className="mt-2 flex flex-col gap-1">
          {replays.map((replay, at) => (
            <li key={at} className="flex flex-wrap items-center gap-2">
              <Status status={replay.success ? "completed" : "failed"} />
              <TextLink href={to("run", [replay.runId])}>{shortId(replay.runId)}</TextLink>
              <span className="font-mono text-agent-muted">{replay.fingerprint.slice(7, 17)}</span>
              <span className="min-w-0 wrap-anywhere text-agent-muted">
                {replay.explanation ?? replay.failure ?? ""}
              </span>
            </li>
          ))}
        </ul>
      </details>
    </div>
  );
}

type Given = "approve" | "refuse" | "check";

/** Approves or refuses what was read: a proposal that changed meanwhile is not settled. */
function Settle({ view: { proposal, check, work } }: { readonly view: ProposalView }): ReactNode {
  const [reason, setReason] = useState("");
  const act = useMutation({
    mutationFn: async (verdict: Given): Promise<void> => {
      const comment = reason.trim();
      const body: Verdict = { fingerprint: proposal.fingerprint, ...(comment === "" ? {} : { reason: comment }) };
      if (verdict === "check") await client.proposals.check(proposal.id);
      else await client.proposals[verdict](proposal.id, body);
    },
    onSettled: useRefresh(["proposals"]),
  });
  const isChecking = work.some(({ kind, status }) => kind === "check" && status === "working");
  return (
    <Form
      aria-label="Decide"
      className="flex shrink-0 flex-col gap-2 border-t border-agent-border bg-agent-surface px-4 py-3"
      onSend={() => undefined}
    >
      {check === undefined && (
        <p className="text-agent-muted">
          Not checked yet: a check runs recorded runs again with the change, and counts what it fixes and breaks.
        </p>
      )}
      <div className="flex flex-wrap items-end gap-2">
        <label className="flex min-w-40 flex-1 flex-col gap-1 text-xs text-agent-muted max-sm:basis-full">
          Comment (recorded with your name)
          <Input value={reason} onChange={setReason} />
        </label>
        <Act act={act} value="approve" variant="primary">
          Approve
        </Act>
        <Act act={act} value="refuse" variant="danger">
          Refuse
        </Act>
        <Act act={act} value="check" disabled={isChecking}>
          {check === undefined ? "Check it" : "Check it again"}
        </Act>
      </div>
      {act.error !== null && <Failure error={act.error} />}
    </Form>
  );
}

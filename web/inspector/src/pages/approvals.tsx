import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { actionName } from "@windlass/protocol";
import type { Answer, Approval, ApprovalPage } from "@windlass/protocol/client";
import { classes, cut, FOCUS, formatExactly } from "@windlass/ui";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { client } from "../lib/api.js";
import { formatAgo, shortId } from "../lib/format.js";
import { approvalsQuery, waitingTitlesQuery } from "../lib/queries.js";
import { useQueryState } from "../lib/router.js";
import { Ago, Code, Empty, Failure, Heading, Loading, TextLink, useNow } from "../parts/basics.js";
import { ApprovalPanel } from "../parts/approval-panel.js";
import { useKeys } from "../parts/keys.js";
import { KEY_HINT } from "../parts/styles.js";

const SOON_MS = 5_000;
/** More than a row has room for. */
const ASKED_CHARS_MAX = 120;
const NONE: readonly Approval[] = [];

/** Everything that waits for a person. */
export function ApprovalsPage(): ReactNode {
  const { data, error, refetch } = useQuery(approvalsQuery);
  const [query, change] = useQueryState();
  const approvals = data?.requests ?? NONE;
  const wanted = query.get("at");
  const at = approvals.findIndex(({ request }) => request.requestId === wanted);
  const selected = approvals[at];
  const [isDenying, setIsDenying] = useState(false);
  const answer = useAnswer();
  const first = approvals[0]?.request.requestId;
  useEffect(() => {
    // What is selected has a name from the start: a list that changes must not put another request under a key.
    if (wanted === null && first !== undefined) change({ at: first });
  }, [wanted, first, change]);
  const select = (next: Approval | undefined): void => {
    setIsDenying(false);
    change({ at: next?.request.requestId });
  };
  const give = (approval: Approval, given: Answer): void => {
    if (answer.isPending) return;
    const next = approvals[at + 1] ?? approvals[at - 1];
    setIsDenying(false);
    answer.mutate(
      { approval, given },
      {
        onSuccess: () => {
          change({ at: next?.request.requestId });
        },
      },
    );
  };
  const pick = (optionId: string): void => {
    if (selected?.request.options?.some(({ id }) => id === optionId) === true) give(selected, { optionId });
  };
  useKeys({
    j: () => {
      select(approvals[Math.min(at + 1, approvals.length - 1)]);
    },
    k: () => {
      select(approvals[Math.max(at - 1, 0)]);
    },
    a: () => {
      pick("approve");
    },
    s: () => {
      pick("approve_session");
    },
    d: () => {
      setIsDenying(selected !== undefined);
    },
  });
  return (
    <>
      <Heading title="Approvals">
        <p className="hidden text-xs text-agent-muted sm:block pointer-coarse:hidden">
          <kbd>j</kbd> <kbd>k</kbd> move, <kbd>a</kbd> approve, <kbd>d</kbd> deny, <kbd>s</kbd> for the session
        </p>
      </Heading>
      {answer.error !== null && <Failure error={answer.error} />}
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Loading />}
      {data !== undefined && approvals.length === 0 && <NothingWaits />}
      {approvals.length > 0 && (
        <div className="flex min-h-0 flex-1 flex-col md:flex-row">
          <Inbox approvals={approvals} selected={selected} onSelect={select} />
          {selected === undefined ? (
            <Empty title="This request is no longer open.">
              <p>
                It was answered, it lapsed, or its run ended. Choose another one
                <span className={KEY_HINT}>
                  , or press <kbd>j</kbd>
                </span>
                .
              </p>
            </Empty>
          ) : (
            <ApprovalPanel
              key={selected.request.requestId}
              approval={selected}
              isDenying={isDenying}
              isSending={answer.isPending}
              onDenying={setIsDenying}
              onAnswer={(given) => {
                give(selected, given);
              }}
            />
          )}
        </div>
      )}
    </>
  );
}

/** Answers a request. What was answered is out of the list at once, and back if it did not get through. */
function useAnswer() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ approval: { request }, given }: { readonly approval: Approval; readonly given: Answer }) =>
      client.approve(
        request.requestId,
        request.argumentsHash === undefined ? given : { ...given, argumentsHash: request.argumentsHash },
      ),
    onSuccess: async (_, { approval }) => {
      // A list that was asked for before the answer must not bring it back.
      await queries.cancelQueries({ queryKey: approvalsQuery.queryKey });
      queries.setQueryData(
        approvalsQuery.queryKey,
        (page: ApprovalPage | undefined) =>
          page && {
            ...page,
            requests: page.requests.filter(({ request }) => request.requestId !== approval.request.requestId),
          },
      );
    },
    onError: () => queries.invalidateQueries({ queryKey: approvalsQuery.queryKey }),
  });
}

function NothingWaits(): ReactNode {
  return (
    <Empty title="Nothing waits for you.">
      <p>
        When an agent wants to do something that its policy does not allow by itself, it stops and asks here, however
        long the answer takes.
      </p>
      <p>
        Try it: in the <TextLink href="/chat">chat</TextLink> with the demo agent say <Code>pay</Code>, then come back.
      </p>
    </Empty>
  );
}

interface InboxProps {
  readonly approvals: readonly Approval[];
  readonly selected: Approval | undefined;
  readonly onSelect: (approval: Approval) => void;
}

/** What is asked for, in a line: it tells two requests apart. */
function askedFor({ kind, prompt, action }: Approval["request"]): string {
  const text = kind === "question" ? prompt : formatExactly(action.input);
  return cut(
    text
      .split("\n")
      .map((line) => line.trim())
      .join(" "),
    ASKED_CHARS_MAX,
  );
}

/** The session that a request belongs to: its title, or the end of its id. */
function placeOf({ sessionId, rootSessionId }: Approval, titles: ReadonlyMap<string, string> | undefined): string {
  const title = titles?.get(rootSessionId ?? sessionId) ?? "";
  return title === "" ? `session ${shortId(sessionId)}` : title;
}

function Inbox({ approvals, selected, onSelect }: InboxProps): ReactNode {
  const now = useNow(SOON_MS);
  const { data: titles } = useQuery(waitingTitlesQuery);
  const current = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    current.current?.scrollIntoView({ block: "nearest" });
  }, [selected]);
  return (
    <ul
      aria-label={`${approvals.length} requests, the oldest first`}
      className="shrink-0 overflow-y-auto border-agent-border max-md:max-h-44 max-md:border-b md:w-80 md:border-r"
    >
      {approvals.map((approval) => {
        const isCurrent = approval === selected;
        const { request } = approval;
        return (
          <li key={request.requestId}>
            <button
              ref={isCurrent ? current : undefined}
              type="button"
              aria-current={isCurrent}
              onClick={() => {
                onSelect(approval);
              }}
              className={classes(
                "flex w-full cursor-pointer flex-col gap-0.5 border-l-4 px-4 py-3 text-left text-sm",
                isCurrent ? "border-l-agent-accent bg-agent-raised" : "border-l-transparent hover:bg-agent-surface",
                FOCUS,
              )}
            >
              <span className="flex justify-between gap-2">
                <span className="truncate font-mono">
                  {request.kind === "question" ? "question" : actionName(request.action)}
                </span>
                {approval.askedAt != null && (
                  <span className="text-xs text-agent-muted">
                    <Ago at={approval.askedAt} nowMs={now} />
                  </span>
                )}
              </span>
              <span className="truncate">{placeOf(approval, titles)}</span>
              <span className="truncate font-mono text-xs">{askedFor(request)}</span>
              <span className="truncate text-xs text-agent-muted">
                {approval.agentId ?? "an agent"}
                {request.expiresAt !== undefined && `, lapses ${formatAgo(request.expiresAt, now)}`}
              </span>
            </button>
          </li>
        );
      })}
    </ul>
  );
}

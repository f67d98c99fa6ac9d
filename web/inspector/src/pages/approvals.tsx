/** Requests that wait for a person. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { actionName, type InputOption } from "@windlass/protocol";
import type { Answer, Approval, ApprovalPage } from "@windlass/protocol/client";
import {
  BUTTONS,
  CARD,
  classes,
  cut,
  Facts,
  FIELD,
  Fields,
  FOCUS,
  formatAgo,
  formatExactly,
  formatWhen,
  plural,
  RequestCard,
  shortId,
  wordsOf,
} from "@windlass/ui";
import { useEffect, useId, useMemo, useRef, useState, type ReactNode, type RefObject } from "react";
import { client } from "../auth.js";
import { Ago, Code, Empty, Failure, Heading, KEY_HINT, Loading, TextLink, useNow } from "../parts.js";
import { approvalsQuery, askedAboutQuery, toolsQuery, waitingTitlesQuery, type AskedAbout } from "../queries.js";
import { to, useQueryState } from "../router.js";
import { useKeys } from "../shell.js";

const SOON_MS = 5_000;
/** More than a row has room for. */
const ASKED_CHARS_MAX = 120;
const NONE: readonly Approval[] = [];

/** Everything that waits for a person. */
export function ApprovalsPage(): ReactNode {
  const { data, error, refetch } = useQuery(approvalsQuery);
  const [query, change] = useQueryState();
  const approvals = useMemo(() => inOrder(data?.requests ?? NONE), [data]);
  const wanted = query.get("at");
  const at = approvals.findIndex(({ request }) => request.requestId === wanted);
  const selected = approvals[at];
  const [isDenying, setIsDenying] = useState(false);
  const answer = useAnswer();
  const isAnswered = useRef(false);
  const first = approvals[0]?.request.requestId;
  useEffect(() => {
    // The selection is by id from the start: when the list changes, a key must not apply to another request.
    if (wanted === null && first !== undefined) change({ at: first });
  }, [wanted, first, change]);
  const select = (next: Approval | undefined): void => {
    setIsDenying(false);
    change({ at: next?.request.requestId });
  };
  const give = async (approval: Approval, given: Answer): Promise<void> => {
    if (answer.isPending) return;
    const next = approvals[at + 1] ?? approvals[at - 1];
    setIsDenying(false);
    await answer.mutateAsync({ approval, given });
    // The control that was used is gone: the focus goes to the next request, or to the page when none is left.
    isAnswered.current = next !== undefined;
    if (next === undefined) document.getElementById("main")?.focus();
    change({ at: next?.request.requestId });
  };
  const pick = (optionId: string): void => {
    if (selected?.request.options?.some(({ id }) => id === optionId) === true)
      void give(selected, { optionId }).catch(IS_SHOWN);
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
      <Heading
        title="Inbox"
        facts={approvals.length > 0 && <span className={WAITS}>{plural(approvals.length, "request")} for you</span>}
      >
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
          <Inbox approvals={approvals} selected={selected} onSelect={select} isAnswered={isAnswered} />
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
              onAnswer={(given) => give(selected, given)}
            />
          )}
        </div>
      )}
    </>
  );
}

const WAITS = "rounded-full bg-agent-warning/10 px-2 py-0.5 text-xs font-medium text-agent-warning";
/** The error of an answer is shown above the list. */
const IS_SHOWN = (): void => undefined;

/** Interrupted calls first, since their effect is unknown; then the oldest. */
function inOrder(requests: readonly Approval[]): readonly Approval[] {
  const rank = ({ request }: Approval): number => (request.kind === "recovery" ? 0 : 1);
  return requests.toSorted((one, other) => rank(one) - rank(other));
}

const KINDS: Readonly<Record<string, readonly [label: string, color: string]>> = {
  recovery: ["Interrupted call", "bg-agent-danger/10 text-agent-danger-text"],
  question: ["Question", "bg-agent-accent/10 text-agent-accent-text"],
  authorization: ["Authorization", "bg-agent-warning/10 text-agent-warning"],
};

function Kind({ kind }: { readonly kind: string | undefined }): ReactNode {
  const [label, color] = KINDS[kind ?? ""] ?? ["Approval", "bg-agent-warning/10 text-agent-warning"];
  return <span className={classes("w-fit rounded-full px-2 py-0.5 text-xs font-medium", color)}>{label}</span>;
}

/** Answers a request. It leaves the list at once, and returns if the answer fails. */
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
        When the policy of an agent requires approval for a call, the run stops and asks here, however long the answer
        takes.
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
  /** Whether a request was just answered here. */
  readonly isAnswered: RefObject<boolean>;
}

/** The request in one line. */
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

function Inbox({ approvals, selected, onSelect, isAnswered }: InboxProps): ReactNode {
  const now = useNow(SOON_MS);
  const { data: titles } = useQuery(waitingTitlesQuery);
  const current = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    current.current?.scrollIntoView({ block: "nearest" });
    if (!isAnswered.current) return;
    isAnswered.current = false;
    current.current?.focus({ preventScroll: true });
  }, [selected, isAnswered]);
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
              <span className="flex items-center justify-between gap-2">
                <Kind kind={request.kind} />
                {approval.askedAt != null && (
                  <span className="text-xs text-agent-muted">
                    <Ago at={approval.askedAt} nowMs={now} />
                  </span>
                )}
              </span>
              <span className="truncate font-medium">
                {request.kind === "question" ? askedFor(request) : actionName(request.action)}
              </span>
              {request.kind !== "question" && <span className="truncate font-mono text-xs">{askedFor(request)}</span>}
              <span className="truncate text-xs">{placeOf(approval, titles)}</span>
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

// The panel about one request: the call, the requester and the deadline.

const SECOND_MS = 1_000;
const SAID_CHARS_MAX = 600;

interface ApprovalPanelProps {
  readonly approval: Approval;
  readonly isDenying: boolean;
  readonly isSending: boolean;
  readonly onDenying: (isDenying: boolean) => void;
  readonly onAnswer: (answer: Answer) => Promise<void>;
}

function ApprovalPanel(props: ApprovalPanelProps): ReactNode {
  const { approval, onAnswer } = props;
  const { request, runId } = approval;
  const about = useQuery({
    ...askedAboutQuery(runId ?? "", request.requestId, request.action.callId),
    enabled: runId != null,
  });
  const isConsent = request.kind !== "question" && request.options?.some(({ id }) => id === "approve") === true;
  return (
    <section aria-label="The selected request" className="min-w-0 flex-1 overflow-y-auto">
      <div className="flex max-w-4xl flex-col gap-4 p-4">
        {isConsent ? (
          <Consent {...props} />
        ) : (
          <RequestCard
            request={request}
            known={about.data?.known}
            onAnswer={({ optionId, text }) => onAnswer(given(optionId, text))}
          />
        )}
        <About approval={approval} approvedBy={about.data?.approvedBy} />
        <Said said={about.data?.said} />
      </div>
    </section>
  );
}

/** The last words of the run that asks; their place is kept while they are read. */
function Said({ said }: { readonly said: AskedAbout["said"] | undefined }): ReactNode {
  return (
    <section aria-label="The conversation" className="flex min-h-40 flex-col gap-2">
      <h2 className="text-xs font-semibold text-agent-muted">The conversation</h2>
      {(said ?? []).map(({ id, role, text }) => (
        <p key={id} className={classes(CARD, "p-2 text-sm whitespace-pre-wrap")}>
          <strong className="font-medium">{role}</strong> {cut(text, SAID_CHARS_MAX)}
        </p>
      ))}
    </section>
  );
}

function given(optionId: string | undefined, text: string | undefined): Answer {
  return { ...(optionId === undefined ? {} : { optionId }), ...(text === undefined || text === "" ? {} : { text }) };
}

function Consent({ approval, isDenying, isSending, onDenying, onAnswer }: ApprovalPanelProps): ReactNode {
  const { request } = approval;
  const [reason, setReason] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  useEffect(() => {
    if (isDenying) field.current?.focus();
  }, [isDenying]);
  const tool = actionName(request.action);
  return (
    <>
      <h2 className="text-base font-semibold">
        Run <span className="font-mono break-words">{tool}</span>?
      </h2>
      <div>
        <p className="mb-1 text-xs text-agent-muted">With exactly these arguments</p>
        <div className="rounded-lg border border-agent-border p-3">
          <Fields value={request.action.input} label={`Arguments of ${tool}`} />
        </div>
      </div>
      <p className="text-sm break-words whitespace-pre-wrap text-agent-muted">{wordsOf(request)}</p>
      <div className="flex flex-col gap-1">
        <label htmlFor={id} className="text-xs text-agent-muted">
          Reason (the agent sees it<span className={KEY_HINT}>; Enter denies</span>)
        </label>
        <textarea
          id={id}
          ref={field}
          rows={1}
          className={FIELD}
          value={reason}
          onFocus={() => {
            onDenying(true);
          }}
          onChange={(event) => {
            setReason(event.target.value);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey) {
              event.preventDefault();
              void onAnswer(given("deny", reason)).catch(IS_SHOWN);
            } else if (event.key === "Escape") {
              event.currentTarget.blur();
              onDenying(false);
            }
          }}
        />
      </div>
      <div className="flex flex-wrap gap-2">
        {(request.options ?? []).map((option) => (
          <OptionButton
            key={option.id}
            option={option}
            isDisabled={isSending}
            onPick={() => {
              void onAnswer(given(option.id, reason)).catch(IS_SHOWN);
            }}
          />
        ))}
      </div>
    </>
  );
}

const KEYS: Readonly<Record<string, string>> = { approve: "a", deny: "d", approve_session: "s" };

function OptionButton({
  option,
  isDisabled,
  onPick,
}: {
  readonly option: InputOption;
  readonly isDisabled: boolean;
  readonly onPick: () => void;
}): ReactNode {
  const key = KEYS[option.id];
  return (
    <button
      type="button"
      className={BUTTONS[option.style ?? "default"]}
      disabled={isDisabled}
      title={option.description}
      aria-keyshortcuts={key}
      onClick={onPick}
    >
      {option.label}
      {key !== undefined && (
        <kbd aria-hidden className={classes("text-xs opacity-80", KEY_HINT)}>
          {key}
        </kbd>
      )}
    </button>
  );
}

function About({
  approval,
  approvedBy,
}: {
  readonly approval: Approval;
  readonly approvedBy: string | undefined;
}): ReactNode {
  const now = useNow(SECOND_MS);
  const tools = useQuery(toolsQuery);
  const { request, agentId, sessionId, runId, askedAt } = approval;
  const name = actionName(request.action);
  const tool = tools.data?.find((one) => one.name === name && (agentId == null || one.agents.includes(agentId)));
  const owner = approval["owner"];
  const facts: (readonly [string, ReactNode] | false)[] = [
    [
      "Asked by",
      <>
        {agentId ?? "an agent"}, <TextLink href={to(["chat", sessionId])}>session {shortId(sessionId)}</TextLink>
        {runId != null && (
          <>
            , <TextLink href={to(["runs", runId])}>run {shortId(runId)}</TextLink>
          </>
        )}
      </>,
    ],
    typeof owner === "string" && ["For", owner],
    askedAt != null && ["Asked", <Ago key="asked" at={askedAt} nowMs={now} />],
    [
      "Lapses",
      request.expiresAt === undefined ? (
        "never"
      ) : (
        <>
          <time dateTime={request.expiresAt}>{formatWhen(request.expiresAt)}</time> ({formatAgo(request.expiresAt, now)}
          )
        </>
      ),
    ],
    approvedBy !== undefined && ["Approved by", approvedBy],
    tool !== undefined && ["Tool", `${tool.description} Mode ${tool.mode}, effect ${tool.effect}.`],
    request.responders !== undefined && ["May answer", request.responders.join(", ")],
    request.argumentsHash !== undefined && [
      "Digest",
      <span key="digest" className="font-mono text-xs">
        {request.argumentsHash}
      </span>,
    ],
  ];
  return <Facts facts={facts.filter((fact) => fact !== false)} />;
}

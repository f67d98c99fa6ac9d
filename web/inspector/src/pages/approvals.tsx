/** Requests that wait for a person. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { actionName, type InputOption } from "@windlass/protocol";
import { ApiError, type Answer, type Approval, type ApprovalPage } from "@windlass/protocol/client";
import {
  Arguments,
  Badge,
  Button,
  CARD,
  Chip,
  classes,
  cut,
  Dialog,
  EditButton,
  effectOf,
  Facts,
  Fields,
  FOCUS,
  formatAgo,
  formatWhen,
  inOneLine,
  plural,
  RequestCard,
  shortId,
  useArgumentDraft,
  visible,
  wordsOf,
  type Tone,
} from "@windlass/ui";
import { Pause } from "lucide-react";
import { useEffect, useId, useMemo, useRef, useState, type KeyboardEvent, type ReactNode, type RefObject } from "react";
import { SEARCH, to } from "../addresses.js";
import { client } from "../auth.js";
import { Area, choices, Select } from "../form.js";
import { Ago, Code, Empty, Failure, Heading, KEY_HINT, Loading, TextLink, useNow } from "../parts.js";
import { approvalsQuery, askedAboutQuery, toolsQuery, waitingTitlesQuery, type Said } from "../queries.js";
import { navigate, useSearch } from "../router.js";
import { useKeys } from "../shell.js";

const SOON_MS = 5_000;
const NONE: readonly Approval[] = [];
const NOTHING_PICKED: ReadonlySet<string> = new Set();

/** Everything that waits for a person. */
export function ApprovalsPage(): ReactNode {
  const { data, error, refetch } = useQuery(approvalsQuery);
  const all = useMemo(() => inOrder(data?.requests ?? NONE), [data]);
  const answer = useAnswer();
  return (
    <>
      <Heading
        title="Inbox"
        facts={
          all.length > 0 && <Badge tone="wait">{all.length === 1 ? "1 waits" : `${all.length} wait`} for you</Badge>
        }
      >
        <p className="hidden text-xs text-agent-muted lg:block pointer-coarse:hidden">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>a</kbd> approve · <kbd>s</kbd> for the session · <kbd>d</kbd> deny ·{" "}
          <kbd>e</kbd> edit · <kbd>x</kbd> pick · <kbd>o</kbd> open
        </p>
      </Heading>
      {answer.error !== null && <Failure error={answer.error} />}
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Loading />}
      {data !== undefined && all.length === 0 && <NothingWaits />}
      {all.length > 0 && <Requests all={all} answer={answer} />}
    </>
  );
}

interface RequestsProps {
  readonly all: readonly Approval[];
  readonly answer: ReturnType<typeof useAnswer>;
}

/** The requests as a list, and the selected one beside it. */
function Requests({ all, answer }: RequestsProps): ReactNode {
  const [{ at: wantedId, kind, agent }, change] = useSearch(SEARCH.approvals);
  const approvals = useMemo(() => wantedOf(all, kind, agent), [all, kind, agent]);
  const at = approvals.findIndex(({ request }) => request.requestId === wantedId);
  const selected = approvals[at];
  const { picked, toggle, clear } = usePicked();
  const isAnswered = useRef(false);
  const first = approvals[0]?.request.requestId;
  useEffect(() => {
    // The selection is by id from the start: when the list changes, a key must not apply to another request.
    if (wantedId === undefined && first !== undefined) change({ at: first });
  }, [wantedId, first, change]);
  const select = (next: Approval | undefined): void => {
    change({ at: next?.request.requestId });
  };
  const give = async (approval: Approval, response: Answer): Promise<void> => {
    if (answer.isPending) return;
    const next = approvals[at + 1] ?? approvals[at - 1];
    await answer.mutateAsync({ approval, given: response });
    // The control that was used is gone: the focus goes to the next request, or to the page when none is left.
    isAnswered.current = next !== undefined;
    if (next === undefined) document.getElementById("main")?.focus();
    select(next);
  };
  useKeys({
    j: () => {
      select(approvals[Math.min(at + 1, approvals.length - 1)]);
    },
    k: () => {
      select(approvals[Math.max(at - 1, 0)]);
    },
    x: () => {
      toggle(selected);
    },
    o: () => {
      if (selected?.runId != null) navigate(to("run", [selected.runId]));
    },
  });
  return (
    <div className="flex min-h-0 flex-1 flex-col md:flex-row">
      <div className="flex shrink-0 flex-col border-agent-border max-md:max-h-56 max-md:border-b md:w-80 md:border-r xl:w-95">
        <Filters all={all} />
        <Bulk picked={approvals.filter(({ request }) => picked.has(request.requestId))} onDone={clear} />
        <Inbox
          approvals={approvals}
          selected={selected}
          picked={picked}
          onSelect={select}
          onPick={toggle}
          isAnswered={isAnswered}
        />
      </div>
      {selected === undefined ? (
        <NotOpen />
      ) : (
        <ApprovalPanel
          key={selected.request.requestId}
          approval={selected}
          isSending={answer.isPending}
          onAnswer={(answer) => give(selected, answer)}
        />
      )}
    </div>
  );
}

/** The requests that are picked, to be answered together: those for consent alone. */
function usePicked() {
  const [picked, setPicked] = useState(NOTHING_PICKED);
  const toggle = (approval: Approval | undefined): void => {
    if (approval === undefined || !isConsent(approval)) return;
    const next = new Set(picked);
    if (!next.delete(approval.request.requestId)) next.add(approval.request.requestId);
    setPicked(next);
  };
  const clear = (): void => {
    setPicked(NOTHING_PICKED);
  };
  return { picked, toggle, clear };
}

function NotOpen(): ReactNode {
  return (
    <Empty title="This request is no longer open.">
      <p>
        It was answered, it lapsed, its run ended, or the filter hides it. Choose another one
        <span className={KEY_HINT}>
          , or press <kbd>j</kbd>
        </span>
        .
      </p>
    </Empty>
  );
}

/** The error of an answer is shown above the list. */
const IS_SHOWN = (): void => undefined;

/** Interrupted calls first, since their effect is unknown; then the oldest. */
function inOrder(requests: readonly Approval[]): readonly Approval[] {
  const rank = ({ request }: Approval): number => (request.kind === "recovery" ? 0 : 1);
  return requests.toSorted((request, other) => rank(request) - rank(other));
}

function kindOf({ request }: Approval): string {
  return request.kind ?? "approval";
}

/** Requests of a kind and an agent, as far as they are named. */
export function wantedOf(all: readonly Approval[], kind?: string, agent?: string): readonly Approval[] {
  return all.filter(
    (approval) => (kind ?? kindOf(approval)) === kindOf(approval) && (agent ?? approval.agentId) === approval.agentId,
  );
}

/** Whether a request is one for consent, which may be answered together with others. */
function isConsent({ request }: Approval): boolean {
  return request.kind !== "question" && request.options?.some(({ id }) => id === "approve") === true;
}

const KINDS: Readonly<Record<string, readonly [label: string, tone: Tone, many: string]>> = {
  recovery: ["Interrupted call", "bad", "Interrupted"],
  approval: ["Approval", "wait", "Approvals"],
  question: ["Question", "info", "Questions"],
  authorization: ["Authorization", "wait", "Authorizations"],
};

function Kind({ kind }: { readonly kind: string }): ReactNode {
  const [label, tone] = KINDS[kind] ?? [kind, "plain" as const];
  return <Badge tone={tone}>{label}</Badge>;
}

/** Which requests are listed: by kind, and by agent where there are several. */
function Filters({ all }: Pick<RequestsProps, "all">): ReactNode {
  const [{ kind, agent }, change, set] = useSearch(SEARCH.approvals);
  const agents = [...new Set(all.flatMap(({ agentId }) => (agentId == null ? [] : [agentId])))].toSorted();
  const kinds = Object.keys(KINDS).filter((name) => all.some((approval) => kindOf(approval) === name));
  if (kinds.length < 2 && agents.length < 2 && kind === undefined && agent === undefined) return null;
  return (
    <div className="flex flex-wrap items-center gap-1.5 border-b border-agent-border px-3 py-2">
      {kinds.map((name) => (
        <Chip
          key={name}
          isOn={kind === name}
          onChange={(isOn) => {
            change({ kind: isOn ? name : undefined });
          }}
        >
          {KINDS[name]?.[2] ?? name} {all.filter((approval) => kindOf(approval) === name).length}
        </Chip>
      ))}
      {agents.length > 1 && (
        <Select label="Agent" value={agent} options={choices("all", agents)} onChange={set("agent")} />
      )}
    </div>
  );
}

/** Answers all requests that were picked, after a question that lists them. */
function Bulk({ picked, onDone }: { readonly picked: readonly Approval[]; readonly onDone: () => void }): ReactNode {
  const answer = useAnswer();
  const [optionId, setOptionId] = useState<"approve" | "deny">();
  const [failed, setFailed] = useState(0);
  if (picked.length === 0) return null;
  const verb = optionId === "deny" ? "Deny" : "Approve";
  const close = (): void => {
    setOptionId(undefined);
  };
  const giveAll = async (chosen: "approve" | "deny"): Promise<void> => {
    close();
    let count = 0;
    for (const approval of picked)
      try {
        await answer.mutateAsync({ approval, given: { optionId: chosen } });
      } catch {
        count += 1;
      }
    setFailed(count);
    if (count === 0) onDone();
  };
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-agent-border bg-agent-accent-soft px-3 py-2">
      <span className="flex-1 font-medium">{picked.length} picked</span>
      {(["approve", "deny"] as const).map((choice) => (
        <Button
          key={choice}
          variant={choice === "approve" ? "primary" : "danger"}
          disabled={answer.isPending}
          onClick={() => {
            setOptionId(choice);
          }}
        >
          {choice === "approve" ? "Approve all…" : "Deny all…"}
        </Button>
      ))}
      <Button variant="quiet" onClick={onDone}>
        None
      </Button>
      {failed > 0 && (
        <p role="alert" className="w-full text-agent-danger-text">
          {plural(failed, "answer")} did not get through. Those requests are still picked.
        </p>
      )}
      <Dialog title={`${verb} ${plural(picked.length, "call")}?`} isOpen={optionId !== undefined} onClose={close}>
        <ul className="max-h-72 overflow-y-auto rounded-md border border-agent-border">
          {picked.map(({ request }) => (
            <li key={request.requestId} className="px-3 py-2 not-last:border-b border-agent-border">
              <span className="font-semibold">{actionName(request.action)}</span>
              <Fields value={request.action.input} label={`Arguments of ${actionName(request.action)}`} />
            </li>
          ))}
        </ul>
        <p className="text-agent-muted">Each answer counts for exactly these arguments.</p>
        <div className="flex justify-end gap-2">
          <Button onClick={close}>Not yet</Button>
          <Button
            variant={optionId === "deny" ? "danger" : "primary"}
            onClick={() => {
              if (optionId !== undefined) void giveAll(optionId);
            }}
          >
            {verb} {plural(picked.length, "call")}
          </Button>
        </div>
      </Dialog>
    </div>
  );
}

/** Answers a request. It leaves the list at once, and returns if the answer fails. */
function useAnswer() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ approval: { request }, given: answer }: { readonly approval: Approval; readonly given: Answer }) =>
      client.approvals.answer(
        request.requestId,
        request.argumentsHash === undefined ? answer : { ...answer, argumentsHash: request.argumentsHash },
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
  readonly picked: ReadonlySet<string>;
  readonly onSelect: (approval: Approval) => void;
  readonly onPick: (approval: Approval) => void;
  /** Whether a request was just answered here. */
  readonly isAnswered: RefObject<boolean>;
}

/** The request in one line: a question by its words, a call by its arguments. */
export function askedFor({ kind, prompt, action }: Approval["request"]): string {
  return inOneLine(kind === "question" ? prompt : action.input);
}

/** The session that a request belongs to: its title, or the end of its id. */
function placeOf({ sessionId, rootSessionId }: Approval, titles: ReadonlyMap<string, string> | undefined): string {
  const title = titles?.get(rootSessionId ?? sessionId) ?? "";
  return title === "" ? `session ${shortId(sessionId)}` : title;
}

function Inbox({ approvals, selected, picked, onSelect, onPick, isAnswered }: InboxProps): ReactNode {
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
    <ul aria-label={`${approvals.length} requests, the oldest first`} className="min-h-0 flex-1 overflow-y-auto">
      {approvals.map((approval) => {
        const isCurrent = approval === selected;
        const { request } = approval;
        const isQuestion = request.kind === "question";
        return (
          <li
            key={request.requestId}
            className={classes(
              "flex border-b border-agent-border",
              isCurrent ? "bg-agent-accent-soft" : "hover:bg-agent-surface",
            )}
          >
            {isConsent(approval) && (
              <label className="flex cursor-pointer items-start py-3.5 pl-3">
                <span className="sr-only">Pick {actionName(request.action)}</span>
                <input
                  type="checkbox"
                  className={FOCUS}
                  checked={picked.has(request.requestId)}
                  onChange={() => {
                    onPick(approval);
                  }}
                />
              </label>
            )}
            <button
              ref={isCurrent ? current : undefined}
              type="button"
              aria-current={isCurrent}
              onClick={() => {
                onSelect(approval);
              }}
              className={classes("flex min-w-0 flex-1 cursor-pointer flex-col gap-1 px-3 py-3 text-left", FOCUS)}
            >
              <span className="flex w-full items-center justify-between gap-2">
                <Kind kind={kindOf(approval)} />
                {approval.askedAt != null && (
                  <span className="text-xs text-agent-muted">
                    <Ago at={approval.askedAt} tickMs={SOON_MS} />
                  </span>
                )}
              </span>
              <span className="w-full truncate">
                {!isQuestion && <strong className="font-semibold">{actionName(request.action)} · </strong>}
                <span className={isQuestion ? "font-semibold" : undefined}>{askedFor(request)}</span>
              </span>
              <span className="w-full truncate text-xs text-agent-muted">
                {approval.agentId ?? "an agent"} · {placeOf(approval, titles)}
                {request.expiresAt !== undefined && ` · lapses ${formatAgo(request.expiresAt, now)}`}
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
  readonly isSending: boolean;
  readonly onAnswer: (answer: Answer) => Promise<void>;
}

function ApprovalPanel(props: ApprovalPanelProps): ReactNode {
  const { approval, onAnswer } = props;
  const { request, runId } = approval;
  const now = useNow(SECOND_MS);
  const about = useQuery({
    ...askedAboutQuery(runId ?? "", request.requestId, request.action.callId),
    enabled: runId != null,
  });
  // An approver answers requests of other users, and cannot read their sessions.
  const isForeign = about.error instanceof ApiError && about.error.kind === "not_found";
  return (
    <section
      aria-label="The selected request"
      className="grid min-w-0 flex-1 content-start gap-5 overflow-y-auto p-5 max-sm:p-4 2xl:grid-cols-[minmax(0,1fr)_20rem]"
    >
      <div className="flex min-w-0 flex-col gap-4">
        {isConsent(approval) ? (
          <Consent {...props} />
        ) : (
          <RequestCard
            request={request}
            known={about.data?.known}
            nowMs={now}
            isBare
            pill={<Kind kind={kindOf(approval)} />}
            onAnswer={({ optionId, text }) => onAnswer(given(optionId, text))}
          />
        )}
      </div>
      <Conversation
        said={about.data?.said}
        agent={approval.agentId ?? "agent"}
        tool={actionName(request.action)}
        isForeign={isForeign}
      />
      <About approval={approval} nowMs={now} isForeign={isForeign} />
    </section>
  );
}

interface ConversationProps {
  readonly said: readonly Said[] | undefined;
  readonly agent: string;
  readonly tool: string;
  readonly isForeign: boolean;
}

/** The last words of the run that asks, and the call that came with them; their place is kept while they are read. */
function Conversation({ said: messages = [], agent, tool, isForeign }: ConversationProps): ReactNode {
  return (
    <section aria-label="The conversation" className="flex min-h-40 min-w-0 flex-col gap-2 2xl:row-span-2">
      <h2 className="text-xs font-semibold text-agent-muted">The conversation</h2>
      {isForeign && <p className="text-agent-muted">It belongs to another user, and only that user can read it.</p>}
      {messages.map(({ id, isUser, text, isAbout }) => (
        <p key={id} className={classes(CARD, "rounded-md! px-2.5 py-2 whitespace-pre-wrap")}>
          <strong className="text-xs text-agent-muted">{isUser ? "user" : agent}</strong>{" "}
          {visible(cut(text, SAID_CHARS_MAX))}
          {isAbout && (
            <Badge tone="wait" className="ml-1.5 align-middle">
              <Pause aria-hidden className="size-3" strokeWidth={2.5} />
              {tool}
            </Badge>
          )}
        </p>
      ))}
    </section>
  );
}

function given(optionId: string | undefined, text: string | undefined): Answer {
  return { ...(optionId === undefined ? {} : { optionId }), ...(text === undefined || text === "" ? {} : { text }) };
}

/** The option of a request by its id, if it is offered. */
type Give = (optionId: string) => void;

function Consent({ approval, isSending, onAnswer }: ApprovalPanelProps): ReactNode {
  const { request } = approval;
  const { action } = request;
  const [reason, setReason] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const draft = useArgumentDraft(action.input);
  const options = (request.options ?? []).filter(({ id }) => !draft.isOpen || id !== "approve_session");
  const isChanged = draft.changed !== undefined;
  const isReady = ({ id }: InputOption): boolean => !isSending && (id !== "approve" || draft.unreadable.length === 0);
  const give: Give = (optionId) => {
    const answer = given(optionId, reason);
    void onAnswer(optionId === "approve" && isChanged ? { ...answer, arguments: draft.changed } : answer).catch(
      IS_SHOWN,
    );
  };
  const press = (optionId: string) => (): void => {
    if (options.some((option) => option.id === optionId && isReady(option))) give(optionId);
  };
  useKeys({
    a: press("approve"),
    s: press("approve_session"),
    d: () => {
      field.current?.focus();
    },
    e: () => {
      if (isSending || !hasFields(action.input)) return;
      if (draft.isOpen) draft.close();
      else draft.open();
    },
  });
  const tool = actionName(action);
  return (
    <>
      <div className="flex flex-col gap-1">
        <div className="flex items-center gap-2">
          <Kind kind={kindOf(approval)} />
          <h2 className="text-base font-semibold">
            Run <span className="break-words">{tool}</span>?
          </h2>
        </div>
        <p className="break-words whitespace-pre-wrap text-agent-muted">{wordsOf(request)}</p>
      </div>
      <div className={classes(CARD, "px-4 py-3")}>
        <div className="mb-1 flex items-center justify-between text-xs font-semibold text-agent-muted">
          <span>{draft.isOpen ? "The call, as you change it" : "The call, with exactly these arguments"}</span>
          <EditButton input={action.input} draft={draft} isDisabled={isSending} />
        </div>
        <Arguments input={action.input} draft={draft} label={`Arguments of ${tool}`} isDisabled={isSending} />
      </div>
      <Reason field={field} value={reason} onChange={setReason} onGive={give} />
      <ul aria-label="Answers" className={classes(CARD, "flex flex-col")}>
        {options.map((option) => (
          <Option
            key={option.id}
            option={option}
            isChanged={option.id === "approve" && isChanged}
            isDisabled={!isReady(option)}
            onGive={give}
          />
        ))}
      </ul>
    </>
  );
}

/** Whether a call has arguments that can be changed. */
function hasFields(input: unknown): boolean {
  return typeof input === "object" && input !== null && !Array.isArray(input) && Object.keys(input).length > 0;
}

interface ReasonProps {
  readonly field: RefObject<HTMLTextAreaElement | null>;
  readonly value: string;
  readonly onChange: (reason: string) => void;
  readonly onGive: Give;
}

/** A field for why; Enter denies, Escape leaves it. */
function Reason({ field, value, onChange, onGive }: ReasonProps): ReactNode {
  const id = useId();
  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      onGive("deny");
    } else if (event.key === "Escape") event.currentTarget.blur();
  };
  return (
    <div className="flex flex-col gap-1">
      <label htmlFor={id} className="text-xs text-agent-muted">
        Reason (the agent sees it<span className={KEY_HINT}>; Enter denies</span>)
      </label>
      <Area id={id} ref={field} rows={1} value={value} onChange={onChange} onKeyDown={onKeyDown} />
    </div>
  );
}

const KEYS: Readonly<Record<string, string>> = { approve: "a", deny: "d", approve_session: "s" };

interface OptionProps {
  readonly option: InputOption;
  /** Whether it counts for other arguments than were asked about. */
  readonly isChanged: boolean;
  readonly isDisabled: boolean;
  readonly onGive: Give;
}

/** An answer to choose, and its effect. */
function Option({ option, isChanged, isDisabled, onGive }: OptionProps): ReactNode {
  const { id, label, style } = option;
  const key = KEYS[id];
  return (
    <li className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2 border-agent-border px-4 py-2.5 not-last:border-b">
      <p className="min-w-52 flex-1 text-agent-muted">{effectOf(option, isChanged)}</p>
      <Button
        variant={style ?? "default"}
        disabled={isDisabled}
        aria-keyshortcuts={key}
        onClick={() => {
          onGive(id);
        }}
      >
        {isChanged ? "Approve with changes" : label}
        {key !== undefined && (
          <kbd aria-hidden className={classes("text-xs opacity-80", KEY_HINT)}>
            {key}
          </kbd>
        )}
      </Button>
    </li>
  );
}

interface AboutProps {
  readonly approval: Approval;
  readonly nowMs: number;
  /** Whether its session and its run cannot be opened with this key. */
  readonly isForeign: boolean;
}

function About({ approval, nowMs: now, isForeign }: AboutProps): ReactNode {
  const tools = useQuery(toolsQuery);
  const { request, agentId, sessionId, runId, askedAt } = approval;
  const name = actionName(request.action);
  const tool = tools.data?.find((info) => info.name === name && (agentId == null || info.agents.includes(agentId)));
  const owner = approval["owner"];
  const facts: (readonly [string, ReactNode] | false)[] = [
    [
      "Asked by",
      <>
        {agentId ?? "an agent"},{" "}
        {isForeign ? (
          `session ${shortId(sessionId)}`
        ) : (
          <TextLink href={to("chat", [sessionId])}>session {shortId(sessionId)}</TextLink>
        )}
        {runId != null && !isForeign && (
          <>
            , <TextLink href={to("run", [runId])}>run {shortId(runId)}</TextLink>
          </>
        )}
      </>,
    ],
    typeof owner === "string" && ["For", owner],
    askedAt != null && ["Asked", <Ago key="asked" at={askedAt} tickMs={SECOND_MS} />],
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

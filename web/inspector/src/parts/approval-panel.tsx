/** One request, whole: what will be done if somebody agrees, who wants it, and until when. */
import { useQuery } from "@tanstack/react-query";
import { actionName, type InputOption } from "@windlass/protocol";
import type { Answer, Approval } from "@windlass/protocol/client";
import { BUTTONS, classes, CODE, FIELD, FOCUS, formatExactly, QuestionCard, wordsOf } from "@windlass/ui";
import { useEffect, useId, useRef, useState, type ReactNode } from "react";
import { formatAgo, shortId } from "../lib/format.js";
import { toolsQuery } from "../lib/queries.js";
import { to } from "../lib/router.js";
import { Ago, Facts, TextLink, useNow } from "./basics.js";
import { KEY_HINT } from "./styles.js";

const SECOND_MS = 1_000;

interface ApprovalPanelProps {
  readonly approval: Approval;
  readonly isDenying: boolean;
  readonly isSending: boolean;
  readonly onDenying: (isDenying: boolean) => void;
  readonly onAnswer: (answer: Answer) => void;
}

export function ApprovalPanel(props: ApprovalPanelProps): ReactNode {
  const { approval, onAnswer } = props;
  const { request } = approval;
  const isQuestion = request.kind === "question" || request.options?.some(({ id }) => id === "approve") !== true;
  return (
    <section aria-label="The selected request" className="min-w-0 flex-1 overflow-y-auto">
      <div className="flex max-w-3xl flex-col gap-4 p-4">
        {isQuestion ? (
          <QuestionCard
            request={request}
            onAnswer={({ optionId, text }) => {
              onAnswer(given(optionId, text));
            }}
          />
        ) : (
          <Consent {...props} />
        )}
        <About approval={approval} />
      </div>
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
        <pre className={classes(CODE, FOCUS)} tabIndex={0} role="group" aria-label={`Arguments of ${tool}`}>
          {formatExactly(request.action.input)}
        </pre>
      </div>
      <p className="text-sm break-words whitespace-pre-wrap text-agent-muted">{wordsOf(request)}</p>
      <div className="flex flex-col gap-1">
        <label htmlFor={id} className="text-xs text-agent-muted">
          Reason (the agent is told<span className={KEY_HINT}>; Enter denies</span>)
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
              onAnswer(given("deny", reason));
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
              onAnswer(given(option.id, reason));
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

function About({ approval }: { readonly approval: Approval }): ReactNode {
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
          <time dateTime={request.expiresAt}>{new Date(request.expiresAt).toLocaleString()}</time> (
          {formatAgo(request.expiresAt, now)})
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

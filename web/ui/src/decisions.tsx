/** Decisions of an agent. */
import type { Decision, Option } from "@windlass/protocol";
import { Collapsible } from "radix-ui";
import { useId, type ReactNode } from "react";
import { useWording } from "./labels.js";
import { Fields } from "./requests.js";
import { CARD, classes, FOCUS } from "./styles.js";

/** A choice that an agent made: what it wanted, what it could have done, what came of it. */
export function DecisionCard({
  decision,
  className,
}: {
  readonly decision: Decision;
  readonly className?: string;
}): ReactNode {
  const id = useId();
  const { labels, formatCount } = useWording();
  const { options, chosenOptionId, outcome, evaluation } = decision;
  const chosen = options.find((option) => option.id === chosenOptionId);
  const others = options.filter((option) => option !== chosen);
  return (
    <article aria-labelledby={id} className={classes(CARD, "flex flex-col gap-2 p-4 text-sm", className)}>
      <p id={id} className="font-semibold">
        {decision.intent === "" ? decision.decisionType : decision.intent}
      </p>
      <p>
        {labels.decisions.chose} <span className="font-mono">{chosenOptionId}</span>
        {chosen?.actionParams === undefined && chosen?.description !== undefined && (
          <span className="text-agent-muted">: {chosen.description}</span>
        )}
      </p>
      {chosen?.actionParams !== undefined && (
        <Fields value={chosen.actionParams} label={labels.requests.argumentsOf(chosenOptionId)} />
      )}
      {decision.reasoning !== "" && (
        <p className="whitespace-pre-wrap break-words text-agent-muted">{decision.reasoning}</p>
      )}
      <OutcomeLine outcome={outcome} />
      {evaluation !== undefined && (
        <p className="text-xs text-agent-muted">
          {evaluation.goalAligned ? labels.decisions.aligned : labels.decisions.notAligned}
          {evaluation.betterOptionExisted === true && ` ${labels.decisions.better(evaluation.betterOptionId)}`}{" "}
          {evaluation.explanation ?? ""}
        </p>
      )}
      {others.length > 0 && (
        <Collapsible.Root>
          <Collapsible.Trigger className={classes("cursor-pointer rounded text-xs underline decoration-dotted", FOCUS)}>
            {labels.decisions.others(others.length, formatCount(others.length))}
          </Collapsible.Trigger>
          <Collapsible.Content>
            <ul className="mt-2 flex flex-col gap-2">
              {others.map((option) => (
                <OptionRow key={option.id} option={option} />
              ))}
            </ul>
          </Collapsible.Content>
        </Collapsible.Root>
      )}
    </article>
  );
}

function OutcomeLine({ outcome }: Pick<Decision, "outcome">): ReactNode {
  const {
    labels: { decisions },
    formatDuration,
  } = useWording();
  if (outcome === undefined) return <p className="text-xs text-agent-muted">{decisions.noOutcome}</p>;
  const summary = outcome.summary ?? outcome.error ?? "";
  return (
    <p className={outcome.success ? "text-agent-success" : "text-agent-danger-text"}>
      <span aria-hidden>{outcome.success ? "✓" : "✕"}</span> {outcome.success ? decisions.worked : decisions.failed}
      {summary !== "" && `: ${summary}`}
      {outcome.latencyMs !== undefined && (
        <span className="text-xs text-agent-muted"> {formatDuration(outcome.latencyMs)}</span>
      )}
    </p>
  );
}

function OptionRow({ option }: { readonly option: Option }): ReactNode {
  const { id, description, confidence, pros = [], cons = [] } = option;
  const { labels, formatCount } = useWording();
  return (
    <li className="border-l-2 border-agent-border pl-3 text-xs">
      <span className="font-mono">{id}</span>
      {description !== undefined && <span className="text-agent-muted"> {description}</span>}
      {confidence !== undefined && (
        <span className="text-agent-muted"> {labels.decisions.sure(formatCount(Math.round(confidence * 100)))}</span>
      )}
      {[...pros.map((text) => `+ ${text}`), ...cons.map((text) => `− ${text}`)].map((text) => (
        <span key={text} className="block text-agent-muted">
          {text}
        </span>
      ))}
    </li>
  );
}

/** Decisions of an agent. */
import type { Decision, Option } from "@windlass/protocol";
import { Collapsible } from "radix-ui";
import { useId, type ReactNode } from "react";
import { formatDuration } from "./format.js";
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
  const { options, chosenOptionId, outcome, evaluation } = decision;
  const chosen = options.find((option) => option.id === chosenOptionId);
  const others = options.filter((option) => option !== chosen);
  return (
    <article aria-labelledby={id} className={classes(CARD, "flex flex-col gap-2 p-4 text-sm", className)}>
      <p id={id} className="font-semibold">
        {decision.intent === "" ? decision.decisionType : decision.intent}
      </p>
      <p>
        Chose <span className="font-mono">{chosenOptionId}</span>
        {chosen?.description !== undefined && <span className="text-agent-muted">: {chosen.description}</span>}
      </p>
      {decision.reasoning !== "" && (
        <p className="whitespace-pre-wrap break-words text-agent-muted">{decision.reasoning}</p>
      )}
      <OutcomeLine outcome={outcome} />
      {evaluation !== undefined && (
        <p className="text-xs text-agent-muted">
          {evaluation.goalAligned ? "It served the goal." : "It did not serve the goal."}
          {evaluation.betterOptionExisted === true && ` Better: ${evaluation.betterOptionId ?? "another option"}.`}{" "}
          {evaluation.explanation ?? ""}
        </p>
      )}
      {others.length > 0 && (
        <Collapsible.Root>
          <Collapsible.Trigger className={classes("cursor-pointer rounded text-xs underline decoration-dotted", FOCUS)}>
            {others.length === 1 ? "1 other option" : `${others.length} other options`}
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
  if (outcome === undefined) return <p className="text-xs text-agent-muted">No outcome yet.</p>;
  const said = outcome.summary ?? outcome.error ?? "";
  return (
    <p className={outcome.success ? "text-agent-success" : "text-agent-danger-text"}>
      <span aria-hidden>{outcome.success ? "✓" : "✕"}</span> {outcome.success ? "It worked" : "It failed"}
      {said !== "" && `: ${said}`}
      {outcome.latencyMs !== undefined && (
        <span className="text-xs text-agent-muted"> {formatDuration(outcome.latencyMs)}</span>
      )}
    </p>
  );
}

function OptionRow({ option }: { readonly option: Option }): ReactNode {
  const { id, description, confidence, pros = [], cons = [] } = option;
  return (
    <li className="border-l-2 border-agent-border pl-3 text-xs">
      <span className="font-mono">{id}</span>
      {description !== undefined && <span className="text-agent-muted"> {description}</span>}
      {confidence !== undefined && <span className="text-agent-muted"> {Math.round(confidence * 100)} % sure</span>}
      {[...pros.map((text) => `+ ${text}`), ...cons.map((text) => `− ${text}`)].map((text) => (
        <span key={text} className="block text-agent-muted">
          {text}
        </span>
      ))}
    </li>
  );
}

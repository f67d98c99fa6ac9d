import type { Conversation } from "@windlass/protocol";
import { useId, type ReactNode } from "react";
import { CARD, classes } from "./styles.js";

/** One piece of work of a plan. */
export interface PlanStep {
  readonly id: string;
  readonly title: string;
  readonly status: "pending" | "running" | "completed" | "failed";
  readonly detail?: string | undefined;
}

/** A plan to show. */
export interface OrchestrationPlanCardProps {
  readonly steps: readonly PlanStep[];
  readonly title?: string | undefined;
  readonly className?: string | undefined;
}

const SIGNS: Readonly<Record<PlanStep["status"], readonly [string, string]>> = {
  pending: ["○", "text-agent-muted"],
  running: ["▸", "text-agent-accent-text motion-safe:animate-pulse"],
  completed: ["✓", "text-agent-success"],
  failed: ["✕", "text-agent-danger-text"],
};

/** The subagents of a conversation as the steps of a plan, in the order in which they were called. */
export function planOf({ subagents }: Conversation): readonly PlanStep[] {
  return [...subagents.values()].map(({ callId, name, status, output }) => ({
    id: callId,
    title: name,
    status,
    detail: output,
  }));
}

/** Who works on what, and how far it is. */
export function OrchestrationPlanCard({ steps, title = "Plan", className }: OrchestrationPlanCardProps): ReactNode {
  const id = useId();
  const doneCount = steps.filter(({ status }) => status === "completed").length;
  return (
    <div role="group" aria-labelledby={id} className={classes(CARD, "p-3 text-sm", className)}>
      <p id={id} className="mb-2 font-semibold">
        {title}{" "}
        <span className="font-normal text-agent-muted">
          {doneCount} of {steps.length} done
        </span>
      </p>
      <ol className="flex flex-col gap-1">
        {steps.map((step) => {
          const [sign, color] = SIGNS[step.status];
          return (
            <li key={step.id} className="flex gap-2">
              <span aria-hidden className={classes("w-4 text-center", color)}>
                {sign}
              </span>
              <span className="min-w-0">
                {step.title} <span className="text-xs text-agent-muted">{step.status}</span>
                {step.detail !== undefined && step.detail !== "" && (
                  <span className="line-clamp-2 block text-xs text-agent-muted">{step.detail}</span>
                )}
              </span>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

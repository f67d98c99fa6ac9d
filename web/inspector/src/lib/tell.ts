/** Records in words, for people who read a journal. */
import { actionName, isKnown, type Event, type KnownEvent, type RuntimeActionResult } from "@windlass/protocol";
import { formatCost, formatCount, formatDuration, formatValue } from "@windlass/ui";
import { plural } from "./format.js";

/** How a row looks. */
export type Tone = "plain" | "model" | "tool" | "wait" | "good" | "bad";

/** A record in one line. */
export interface Told {
  readonly title: string;
  readonly detail: string;
  readonly tone: Tone;
  /** How far in it stands. */
  readonly depth: number;
}

type Teller<K extends KnownEvent["type"]> = (
  data: Extract<KnownEvent, { type: K }>["data"],
) => Partial<Told> & Pick<Told, "title">;
type Tellers = { readonly [K in KnownEvent["type"]]?: Teller<K> };

const DETAIL_CHARS_MAX = 240;

const TELLERS: Tellers = {
  "run.started": ({ agentId, modelId }) => ({ title: "Run began", detail: `${agentId}, model ${modelId}` }),
  "run.resumed": ({ reason }) => ({ title: "Run goes on", detail: reason }),
  "run.waiting": ({ on }) => ({ title: "Run waits", detail: on, tone: "wait" }),
  "run.cancel_requested": ({ reason }) => ({ title: "Somebody asked to cancel", detail: reason ?? "", tone: "bad" }),
  "run.completed": ({ output }) => ({ title: "Run completed", detail: output ?? "", tone: "good" }),
  "run.failed": ({ error }) => ({ title: "Run failed", detail: `${error.code}: ${error.message}`, tone: "bad" }),
  "run.cancelled": ({ reason }) => ({ title: "Run was cancelled", detail: reason ?? "", tone: "bad" }),
  "run.budget_exhausted": () => ({ title: "Budget was used up", tone: "bad" }),
  "message.received": ({ message, delivery }) => ({
    title: delivery === "steer" ? "User steered" : "User said",
    detail: message,
  }),
  "message.completed": ({ message }) => ({ title: "Model said", detail: message ?? "", tone: "model", depth: 1 }),
  "step.started": ({ modelId, stepIndex, promptMessageCount }) => ({
    title: `Model call ${stepIndex + 1}`,
    detail: [modelId, promptMessageCount === undefined ? undefined : plural(promptMessageCount, "message")]
      .filter((part) => part !== undefined)
      .join(", "),
    tone: "model",
  }),
  "step.completed": ({ usage = {}, latencyMs }) => ({
    title: "Model answered",
    detail: [
      latencyMs === undefined ? undefined : formatDuration(latencyMs),
      `${formatCount(usage.inputTokens ?? 0)} in, ${formatCount(usage.outputTokens ?? 0)} out`,
      usage.costMicros === undefined ? undefined : formatCost(usage.costMicros),
    ]
      .filter((part) => part !== undefined)
      .join(", "),
    tone: "model",
    depth: 1,
  }),
  "step.retrying": ({ attempt, code, message, delayMs }) => ({
    title: `Attempt ${attempt} failed, tried again after ${formatDuration(delayMs)}`,
    detail: message ?? code,
    tone: "bad",
    depth: 1,
  }),
  "step.failed": ({ code, message }) => ({
    title: "Model call failed",
    detail: `${code}: ${message}`,
    tone: "bad",
    depth: 1,
  }),
  "actions.requested": ({ actions }) => ({
    title: `Model asks for ${actions.map(actionName).join(", ")}`,
    detail: actions.map(({ input }) => formatValue(input)).join(" "),
    tone: "model",
    depth: 1,
  }),
  "policy.decided": ({ decision, toolName }) => ({
    title: `Policy: ${decision.decision}${toolName === undefined ? "" : ` ${toolName}`}`,
    detail: decision.reason,
    tone: decision.decision === "deny" ? "bad" : decision.decision === "ask" ? "wait" : "plain",
    depth: 1,
  }),
  "action.started": ({ toolName, mode, effect }) => ({
    title: `Tool ${toolName} began`,
    detail: kindOf(mode, effect),
    tone: "tool",
    depth: 1,
  }),
  "action.result": ({ result, status, durationMs, error }) => ({
    title: `${nameOf(result)} ${status}${durationMs === undefined ? "" : ` in ${formatDuration(durationMs)}`}`,
    detail: error?.message ?? formatValue(result.output),
    tone: status === "completed" ? "good" : "bad",
    depth: 1,
  }),
  "input.requested": ({ requests }) => ({
    title: "A person is asked",
    detail: requests.map(({ prompt }) => prompt).join(" "),
    tone: "wait",
    depth: 1,
  }),
  "input.resolved": ({ resolutions }) => ({
    title: `Answer: ${resolutions.map(({ outcome }) => outcome).join(", ")}`,
    detail: resolutions
      .map(({ response }) => [response?.responder, response?.text].filter((part) => part !== undefined).join(": "))
      .join(" "),
    tone: resolutions.every(({ outcome }) => outcome === "approved" || outcome === "answered") ? "good" : "bad",
    depth: 1,
  }),
  "subagent.called": ({ name }) => ({ title: `Subagent ${name} is called`, tone: "tool", depth: 1 }),
  "subagent.completed": ({ subagentName, output }) => ({
    title: `Subagent ${subagentName} is done`,
    detail: output,
    tone: "good",
    depth: 1,
  }),
  "compaction.completed": () => ({ title: "History was shortened", tone: "plain" }),
  "compaction.failed": ({ message }) => ({ title: "History could not be shortened", detail: message, tone: "bad" }),
  "session.forked": () => ({ title: "Session was forked" }),
  "recovery.started": () => ({ title: "Recovery after a crash began", tone: "wait" }),
  "recovery.effect_found": ({ callId }) => ({
    title: "A call was under way when the process died",
    detail: callId,
    tone: "wait",
    depth: 1,
  }),
  "recovery.effect_settled": ({ choice }) => ({ title: "That call is settled", detail: choice, depth: 1 }),
  "recovery.completed": () => ({ title: "Recovery is done", tone: "good" }),
  "problem.reported": () => ({ title: "Problem reported", tone: "bad" }),
};

/** What a call may do, in words. */
export function kindOf(mode: string | undefined, effect: string | undefined): string {
  return [mode === undefined ? "" : `mode ${mode}`, effect === undefined ? "" : `effect ${effect}`]
    .filter((part) => part !== "")
    .join(", ");
}

function nameOf(result: RuntimeActionResult): string {
  switch (result.kind) {
    case "tool-result":
      return `Tool ${result.toolName}`;
    case "subagent-result":
      return `Subagent ${result.subagentName}`;
    case "load-skill-result":
      return `Skill ${result.name ?? ""}`;
  }
}

/** A record in words; the type and the data of one that has none. */
export function tell(record: Event): Told {
  const told = tellKnown(record);
  return {
    title: told?.title ?? record.type,
    detail: oneLine(told === undefined ? JSON.stringify(record.data) : (told.detail ?? "")),
    tone: told?.tone ?? "plain",
    depth: told?.depth ?? 0,
  };
}

function tellKnown(record: Event): (Partial<Told> & Pick<Told, "title">) | undefined {
  if (!isKnown(record)) return undefined;
  const teller = TELLERS[record.type] as ((data: unknown) => Partial<Told> & Pick<Told, "title">) | undefined;
  return teller?.(record.data);
}

function oneLine(text: string): string {
  const flat = text
    .slice(0, DETAIL_CHARS_MAX * 2)
    .replace(/\s+/gu, " ")
    .trim();
  return flat.length > DETAIL_CHARS_MAX ? `${flat.slice(0, DETAIL_CHARS_MAX)}…` : flat;
}

/** Whether a record belongs to the story of a run; the others are bookkeeping. */
export function isStory(record: Event): boolean {
  return isKnown(record) && Object.hasOwn(TELLERS, record.type);
}

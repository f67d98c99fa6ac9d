import type { CallStatus, CallView, ToolCall, ToolMode, ToolResult } from "@windlass/protocol";
import { useMemo } from "react";

/** A call: as a row has it, or by its parts. */
export type ToolCallFacts =
  | CallView
  | { readonly call: ToolCall; readonly result?: ToolResult | undefined; readonly mode?: ToolMode | undefined };

/** How a call stands. */
export interface ToolCallStatus {
  readonly status: CallStatus;
  /** What the tool may do, when that is known. */
  readonly mode: ToolMode | undefined;
  /** Whether a person must say yes before it goes on. */
  readonly requiresApproval: boolean;
  readonly isDestructive: boolean;
  /** Whether nothing more will come of it. */
  readonly isOver: boolean;
}

const OVER: ReadonlySet<CallStatus> = new Set(["succeeded", "failed", "denied", "abandoned"]);

/** How a call stands, for whoever draws it. */
export function useToolCallStatus(facts: ToolCallFacts): ToolCallStatus {
  return useMemo(() => {
    const status = "status" in facts ? facts.status : statusOf(facts.result);
    const mode = "status" in facts ? facts.progress?.mode : facts.mode;
    const isDestructive = mode === "destructive" || mode === "local";
    return { status, mode, requiresApproval: status === "waiting", isDestructive, isOver: OVER.has(status) };
  }, [facts]);
}

function statusOf(result: ToolResult | undefined): CallStatus {
  if (result === undefined) return "requested";
  return result.success ? "succeeded" : "failed";
}

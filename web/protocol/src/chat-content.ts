/** Calls and results as chat clients see them; the twin of `views/content.py`. */
import type {
  ActionResultData,
  ActionStartedData,
  InputRequest,
  InputResolution,
  RuntimeActionRequest,
  ToolCall,
  ToolResult,
} from "./generated/index.js";
import type { JsonObject, JsonValue } from "./wire.js";

/** What came of a call, as the model sees it. */
export type Output =
  | { readonly type: "value"; readonly value: JsonValue }
  | { readonly type: "error"; readonly value: JsonValue }
  | { readonly type: "denied"; readonly reason: string };

export const SKIPPED: Output = {
  type: "denied",
  reason: "Skipped: the call was interrupted and is not run again. It may or may not have taken effect.",
};
const DENIED = "Tool execution was denied.";
const LOAD_SKILL = "load_skill";
const APPROVAL_OPTIONS = "approve,deny";

/** The name of the tool under which the model asked for an action. */
export function actionName(action: RuntimeActionRequest): string {
  switch (action.kind) {
    case "tool-call":
      return action.toolName;
    case "load-skill":
      return LOAD_SKILL;
    case "subagent-call":
    case "remote-agent-call":
      return action.name;
  }
}

/** The call of an intent that nobody announced. */
export function startedAction(data: ActionStartedData): RuntimeActionRequest {
  return { kind: "tool-call", callId: data.callId, toolName: data.toolName, input: data.arguments ?? {} };
}

/** A result as the model sees it. */
export function outputOf(data: ActionResultData): Output {
  const { output, isError } = data.result;
  const message = data.error?.message;
  if (data.status === "rejected") return { type: "denied", reason: message ?? DENIED };
  if (data.status === "completed" && isError !== true) return { type: "value", value: output };
  return { type: "error", value: output === null && message !== undefined ? message : output };
}

/** A call as chat clients see it; arguments must be an object there. */
export function toolCallOf(action: RuntimeActionRequest): ToolCall {
  const { input } = action;
  const isObject = typeof input === "object" && input !== null && !Array.isArray(input);
  return { id: action.callId, name: actionName(action), arguments: isObject ? input : { input } };
}

/** A result as chat clients see it, with the `id` of its call. */
export function toolResultOf(callId: string, output: Output): ToolResult {
  switch (output.type) {
    case "denied":
      return { success: false, error: output.reason, id: callId };
    case "error":
      return { success: false, error: asText(output.value), id: callId };
    case "value":
      return { success: true, data: output.value, id: callId };
  }
}

/** The text of a result. */
export function textOf(output: Output): string {
  return output.type === "denied" ? output.reason : asText(output.value);
}

/** A value as text for people: itself, or its JSON. Python writes `1.0` where this writes `1`. */
export function asText(value: JsonValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a question gave the model; undefined if the request was not a question. */
export function questionOutcome(request: InputRequest, resolution: InputResolution): Output | undefined {
  const kind = resolution.kind ?? request.kind;
  const options = (request.options ?? []).map((option) => option.id).sort();
  // Without a kind, an approval is known by its two options.
  if (kind === undefined ? options.join() === APPROVAL_OPTIONS : kind !== "question") return undefined;
  const answer: JsonObject = { status: resolution.outcome };
  if (resolution.outcome === "answered" && resolution.response !== undefined) {
    const { optionId, text } = resolution.response;
    if (optionId !== undefined) answer["optionId"] = optionId;
    if (text !== undefined) answer["text"] = text;
  }
  return { type: "value", value: answer };
}

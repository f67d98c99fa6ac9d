/** A stream of the sidecar told as events, so that one fold serves both ways to an agent. */
import type { ErrorInfo, Event, InputResponse } from "./generated/index.js";
import { toJson } from "./handlers.js";
import type { StreamChunk, StreamDone, StreamNotice } from "./sidecar-types.js";
import type { JsonObject } from "./wire.js";

const AGENT = "sidecar";

/**
 * Makes the events of one session out of its streams.
 *
 * The numbers are its own: a session that is told from the beginning has them without gaps. Which calls have begun
 * is not told by the sidecar, nor whether a call was refused or failed.
 */
export class StreamTeller {
  private seq = 0;
  private turn = -1;
  private step = -1;
  private index = 0;
  private runId = "";
  private text = "";
  private isStepOpen = false;
  private error: { readonly kind: string; readonly message: string } | undefined;
  private readonly asked = new Set<string>();

  /** `now` gives the moment of each event, as text. */
  constructor(
    private readonly sessionId: string,
    private readonly now: () => string,
  ) {}

  /** A stream begins with what the user says. */
  begin(streamId: string, message: string): Event[] {
    this.runId = streamId;
    this.turn += 1;
    this.step = -1;
    this.isStepOpen = false;
    this.error = undefined;
    const turnId = this.turnId();
    return [
      this.record("run.started", { runId: streamId, agentId: AGENT }),
      this.record("turn.started", { sequence: this.turn, turnId }),
      this.record("message.received", { message, sequence: this.turn, turnId }),
    ];
  }

  /** The events of a notice. */
  told(notice: StreamNotice): Event[] {
    switch (notice.type) {
      case "chunk":
        return this.chunk(notice.chunk);
      case "error":
        this.error = notice.error;
        return [];
      case "done":
        return [...this.finishWords("stop"), ...this.settleAll("cancelled"), this.end(notice.done)];
    }
  }

  /** A person answered. */
  answered(response: InputResponse): Event[] {
    if (!this.asked.delete(response.requestId)) return [];
    const outcome = response.optionId === "deny" ? "denied" : "answered";
    const resolution = { requestId: response.requestId, outcome, response: toJson(response) };
    return [
      this.record("input.resolved", { ...this.place(), resolutions: [resolution] }),
      this.record("run.resumed", { runId: this.runId, reason: "input" }),
    ];
  }

  private chunk(chunk: StreamChunk): Event[] {
    const { toolCall, toolResult, inputRequests, finishReason, usage } = chunk;
    if (chunk.restart === true) return this.restart();
    const events = this.deltas(chunk);
    if (toolCall !== undefined) {
      const action = { kind: "tool-call", callId: toolCall.id, toolName: toolCall.name, input: toolCall.arguments };
      events.push(...this.open(), ...this.finishWords("tool-calls"));
      events.push(this.record("actions.requested", { ...this.place(), actions: [action] }));
    }
    if (finishReason !== undefined) {
      events.push(...this.open(), ...this.finishWords(finishReason));
      const used: JsonObject = usage === undefined ? {} : { usage: toJson(usage) };
      events.push(this.record("step.completed", { ...this.place(), finishReason, ...used }));
      this.isStepOpen = false;
    }
    if (inputRequests !== undefined) {
      for (const { requestId } of inputRequests) this.asked.add(requestId);
      events.push(this.record("input.requested", { ...this.place(), requests: inputRequests.map(toJson) }));
      events.push(this.record("run.waiting", { runId: this.runId, on: "input" }));
    }
    if (toolResult !== undefined) events.push(this.result(toJson(toolResult)));
    return events;
  }

  private deltas({ delta, reasoningDelta, toolCallDelta }: StreamChunk): Event[] {
    const events: Event[] = [];
    const add = (type: string, data: JsonObject): void => {
      events.push(...this.open(), this.delta(type, data));
    };
    if (delta !== undefined) {
      add("message.appended", { messageDelta: delta });
      this.text += delta;
    }
    if (reasoningDelta !== undefined) add("reasoning.appended", { reasoningDelta });
    if (toolCallDelta !== undefined) {
      const { id: callId, name, argumentsDelta: inputDelta } = toolCallDelta;
      add("action.input.appended", { callId, inputDelta, ...(name === undefined ? {} : { toolName: name }) });
    }
    return events;
  }

  /** Begins a step, unless one is under way. */
  private open(): Event[] {
    if (this.isStepOpen) return [];
    this.isStepOpen = true;
    this.step += 1;
    return [this.stepStarted()];
  }

  private restart(): Event[] {
    if (!this.isStepOpen) return this.open();
    return [this.stepStarted()];
  }

  private stepStarted(): Event {
    this.index = 0;
    this.text = "";
    return this.record("step.started", this.place());
  }

  private finishWords(finishReason: string): Event[] {
    const message = this.text;
    this.text = "";
    return message === "" ? [] : [this.record("message.completed", { ...this.place(), message, finishReason })];
  }

  private result(toolResult: JsonObject): Event {
    const { id, name, success, data, error } = toolResult;
    const isGood = success === true;
    const result = {
      kind: "tool-result",
      callId: typeof id === "string" ? id : "",
      toolName: typeof name === "string" ? name : "",
      output: (isGood ? data : error) ?? null,
    };
    return this.record("action.result", { ...this.place(), result, status: isGood ? "completed" : "failed" });
  }

  /** Nobody is asked any more. */
  private settleAll(outcome: string): Event[] {
    if (this.asked.size === 0) return [];
    const resolutions = [...this.asked].map((requestId) => ({ requestId, outcome }));
    this.asked.clear();
    return [this.record("input.resolved", { ...this.place(), resolutions })];
  }

  private end({ ok, cancelled }: StreamDone): Event {
    const { runId } = this;
    if (ok) return this.record("run.completed", { runId });
    if (cancelled === true) return this.record("run.cancelled", { runId });
    return this.record("run.failed", { runId, error: toJson(errorOf(this.error)) });
  }

  private turnId(): string {
    return `turn_${this.turn}`;
  }

  private place(): JsonObject {
    return { sequence: this.turn, turnId: this.turnId(), stepIndex: Math.max(this.step, 0) };
  }

  private record(type: string, data: JsonObject): Event {
    this.seq += 1;
    return this.event(type, data);
  }

  private delta(type: string, data: JsonObject): Event {
    return { ...this.event(type, { ...this.place(), ...data }), index: this.index++ };
  }

  private event(type: string, data: JsonObject): Event {
    const { seq, sessionId, runId } = this;
    return { type, data, meta: { at: this.now() }, sessionId, seq, runId, agentId: AGENT };
  }
}

function errorOf(error: { readonly kind: string; readonly message: string } | undefined): ErrorInfo {
  const message = error?.message ?? "the stream failed";
  switch (error?.kind) {
    case "budget_exhausted":
    case "policy_denied":
      return { code: "denied", kind: "policy_denial", retry: "user_action_needed", message };
    case "invalid_params":
    case "invalid_request":
      return { code: "rejected", kind: "host_configuration_needed", retry: "host_configuration_needed", message };
    default:
      return { code: "unavailable", kind: "provider_failure", retry: "retryable", message };
  }
}

// Generated from spec/errors.schema.json by `make gen`. Do not edit.
/** The one error shape. Codes are stable; texts are not. */
import { z } from "zod";
import { JsonObject, open, text } from "../wire.js";
import { CausalIds, Count, PolicyRef, SourceRef } from "./common.js";

/** What the caller should do: rejected = fix the request; denied = ask a person; conflict = read again, then decide; unavailable = retry later with the same key; ambiguous = reconcile, never retry blindly; corrupt = stop and call a human. */
export const ErrorCode = z.enum(["rejected", "denied", "conflict", "unavailable", "ambiguous", "corrupt"]);
export type ErrorCode = z.infer<typeof ErrorCode>;

/** Which part of the machine failed. */
export const ErrorKind = z.enum(["invalid_package", "invalid_state_transition", "provider_failure", "projection_failure", "tool_failure", "approval_failure", "policy_denial", "journal_failure", "telemetry_failure", "stream_rule_failure", "child_lifecycle_failure", "extension_failure", "subagent_failure", "isolation_failure", "structured_output_failure", "cancellation", "hook_failure", "timeout", "recovery_repair_needed", "host_configuration_needed"]);
export type ErrorKind = z.infer<typeof ErrorKind>;

/** Whether and after what a failed request may be tried again. */
export const RetryClass = z.enum(["retryable", "not_retryable", "repair_needed", "user_action_needed", "host_configuration_needed"]);
export type RetryClass = z.infer<typeof RetryClass>;

/** An error as it crosses the wire. */
export const ErrorInfo = open({
  /** What the caller should do. */
  code: ErrorCode,
  /** Which part failed. */
  kind: ErrorKind,
  /** Whether trying again can help. */
  retry: RetryClass,
  /** What was expected, what was found, and what to do next. Never a payload. */
  message: text({ min: 1, max: 4096 }),
  /** The things that led to the error. */
  causalIds: CausalIds.optional(),
  /** The policies that refused, in order. */
  policyRefs: z.array(PolicyRef).optional(),
  /** The code of the decision of a policy that refused. */
  policyCode: z.string().optional(),
  /** Where the failed request came from. */
  source: SourceRef.optional(),
  /** Earliest time to try again, in milliseconds from now. */
  retryAfterMs: Count.optional(),
  /** Further facts, already redacted. */
  details: JsonObject.optional(),
});
export type ErrorInfo = z.infer<typeof ErrorInfo>;

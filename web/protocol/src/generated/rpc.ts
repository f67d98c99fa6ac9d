// Generated from spec/rpc.schema.json by `make gen`. Do not edit.
/** JSON-RPC 2.0 as the sidecar speaks it on stdio. */
import { z } from "zod";
import { Json, JsonObject, exactlyOne, open, record, text } from "../wire.js";
import { Count, Integer } from "./common.js";

/** A call that wants an answer. */
export const SidecarRequest = z.strictObject({
  /** Protocol version. */
  jsonrpc: z.literal("2.0"),
  /** Identifier of the call; the answer carries the same one. */
  id: z.union([z.string(), Integer]).nullable(),
  /** Method name, such as system.ping. */
  method: text({ min: 1 }),
  /** Parameters by name or by position. */
  params: z.union([JsonObject, z.array(Json)]).nullable().optional(),
});
export type SidecarRequest = z.infer<typeof SidecarRequest>;

/** A message that wants no answer. */
export const SidecarNotification = z.strictObject({
  /** Protocol version. */
  jsonrpc: z.literal("2.0"),
  /** Method name, such as stream.chunk. */
  method: text({ min: 1 }),
  /** Parameters by name or by position. */
  params: z.union([JsonObject, z.array(Json)]).nullable().optional(),
});
export type SidecarNotification = z.infer<typeof SidecarNotification>;

/** What kind of failure a sidecar error is. */
export const SidecarErrorKind = z.enum(["parse", "invalid_request", "method_not_found", "invalid_params", "internal", "budget_exhausted", "policy_denied", "tool_failed", "transport_closed", "timeout", "cancelled"]);
export type SidecarErrorKind = z.infer<typeof SidecarErrorKind>;

/** Why a call failed. */
export const SidecarError = z.strictObject({
  /** JSON-RPC error code. */
  code: Integer,
  /** What went wrong, for people. */
  message: text({ max: 1024 }),
  /** Further facts, already redacted. */
  data: Json.optional(),
  /** What kind of failure it is. */
  kind: SidecarErrorKind.optional(),
});
export type SidecarError = z.infer<typeof SidecarError>;

/** The answer to a call: exactly one of `result` (which may be null) and `error`. */
export const SidecarResponse = z.strictObject({
  /** Protocol version. */
  jsonrpc: z.literal("2.0"),
  /** Identifier of the call; null when it could not be read. */
  id: z.union([z.string(), Integer]).nullable(),
  /** What the method returned. */
  result: Json.optional(),
  /** Why the call failed. */
  error: SidecarError.optional(),
}).superRefine(exactlyOne(["result", "error"]));
export type SidecarResponse = z.infer<typeof SidecarResponse>;

/** How the sidecar is. */
export const SidecarStatus = z.enum(["ok", "degraded", "starting", "shutting_down"]);
export type SidecarStatus = z.infer<typeof SidecarStatus>;

/** How one check went. */
export const CheckStatus = z.enum(["ok", "warn", "error"]);
export type CheckStatus = z.infer<typeof CheckStatus>;

/** One health check. */
export const SidecarCheck = open({
  /** How it went. */
  status: CheckStatus,
  /** What it found. */
  message: z.string().optional(),
  /** How long it took. */
  latencyMs: z.number().optional(),
});
export type SidecarCheck = z.infer<typeof SidecarCheck>;

/** How the sidecar is and what it has loaded. */
export const SidecarHealth = open({
  /** How it is. */
  status: SidecarStatus,
  /** Version of the sidecar. */
  version: z.string(),
  /** Time since start. */
  uptimeMs: z.number().min(0),
  /** Version of the wire. */
  protocolVersion: z.string().optional(),
  /** Process id. */
  pid: Count.optional(),
  /** Version of Python. */
  pythonVersion: z.string().optional(),
  /** Operating system. */
  platform: z.string().optional(),
  /** Providers that are ready. */
  loadedProviders: z.array(z.string()).optional(),
  /** Number of tools. */
  loadedTools: Count.optional(),
  /** Number of running traces. */
  activeTraces: Count.optional(),
  /** Checks by name. */
  checks: record(SidecarCheck).optional(),
});
export type SidecarHealth = z.infer<typeof SidecarHealth>;

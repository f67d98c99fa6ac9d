// Generated from spec/tools.schema.json by `make gen`. Do not edit.
/** Calls, results, and what a tool says of itself. */
import { z } from "zod";
import { Json, JsonObject, open } from "../wire.js";
import { Id, Positive } from "./common.js";

/** A call of a tool that the model asked for. */
export const ToolCall = z.strictObject({
  /** Identifier of the call; its result carries the same one. */
  id: z.string(),
  /** Name of the tool. */
  name: z.string(),
  /** Arguments by parameter name. */
  arguments: JsonObject,
  /** The call of the program that made it; absent if the model did. */
  parentCallId: Id.optional(),
});
export type ToolCall = z.infer<typeof ToolCall>;

/** What came of a tool call. */
export const ToolResult = open({
  /** Whether the tool did what was asked. */
  success: z.boolean(),
  /** Whether the loop should stop after this result. */
  terminal: z.boolean().optional(),
  /** Whether the model should react to a failure. */
  needsFollowup: z.boolean().optional(),
  /** What the tool suggests to do next. */
  nextAction: z.string().optional(),
  /** A text for people. */
  message: z.string().optional(),
  /** What went wrong, as a text for the model. */
  error: z.string().optional(),
  /** The result itself. */
  data: Json.optional(),
});
export type ToolResult = z.infer<typeof ToolResult>;

/** What a tool may do: read; safe_write (inside the product, undoable); destructive; local (on this machine, such as a shell); external (anything else). */
export const ToolMode = z.enum(["read", "safe_write", "destructive", "local", "external"]);
export type ToolMode = z.infer<typeof ToolMode>;

/** What happens to a call that was started before a crash and has no result: read = run again; idempotent = run again with the same key; once = ask a person. */
export const EffectClass = z.enum(["read", "idempotent", "once"]);
export type EffectClass = z.infer<typeof EffectClass>;

/** When a call of a tool needs a person's consent; `policy` leaves it to the policy. */
export const ApprovalRule = z.enum(["policy", "always", "once", "never"]);
export type ApprovalRule = z.infer<typeof ApprovalRule>;

/** Taint of a session: untrusted for content of unknown authors, private for data that must not be sent out. */
export const Taint = z.enum(["untrusted", "private"]);
export type Taint = z.infer<typeof Taint>;

/** A tool as the model and the policy see it. */
export const ToolSpec = open({
  /** Name of the tool, unique in its package. */
  name: Id,
  /** What the tool does, for the model. */
  description: z.string().optional(),
  /** JSON Schema of the arguments. */
  inputSchema: JsonObject,
  /** JSON Schema of the result data. */
  outputSchema: JsonObject.optional(),
  /** What the tool may do; a declared mode wins over the name. */
  mode: ToolMode.optional(),
  /** What happens to an interrupted call. */
  effect: EffectClass.optional(),
  /** When a call needs consent. */
  approval: ApprovalRule.optional(),
  /** Longest time one call may take. */
  timeoutMs: Positive.optional(),
  /** Most calls of this tool at the same time. */
  concurrency: Positive.optional(),
  /** Whether the tool runs shell commands, which are then graded. */
  isShell: z.boolean().optional(),
  /** Whether a call can carry data out; assumed when absent. */
  isOutbound: z.boolean().optional(),
  /** What its results bring into a session; nothing when absent. */
  reads: z.array(Taint).optional(),
  /** Further JSON that the author pins. */
  metadata: JsonObject.optional(),
});
export type ToolSpec = z.infer<typeof ToolSpec>;

/** A custom rule that raises the grade of matching shell commands. */
export const CommandSafetyPattern = z.strictObject({
  /** Identifier of the rule. */
  id: z.string(),
  /** Short name for people. */
  label: z.string(),
  /** What the rule guards against. */
  description: z.string(),
  /** Regular expression in the dialect that Python and JavaScript share. */
  pattern: z.string(),
  /** Category that a match reports. */
  category: z.string(),
  /** critical grades a match dangerous, warning grades it caution. */
  severity: z.enum(["critical", "warning"]),
  /** Where the rule applies. */
  platform: z.enum(["all", "unix", "windows"]),
});
export type CommandSafetyPattern = z.infer<typeof CommandSafetyPattern>;

// Generated from spec/packages.schema.json by `make gen`. Do not edit.
/** An agent compiled to immutable data with a fingerprint. */
import { z } from "zod";
import { JsonObject, open, text } from "../wire.js";
import { Id, Integer, PolicyRef, Positive, Timestamp } from "./common.js";
import { OutputContract } from "./output.js";
import { BudgetLimits } from "./policy.js";
import { ToolSpec } from "./tools.js";

/** The agent inside a package. */
export const AgentSnapshot = z.strictObject({
  /** Identifier of the agent. */
  agentId: Id,
  /** Its name. */
  name: text({ min: 1 }),
  /** Its instructions. */
  instructions: z.string().optional(),
  /** What it is for. */
  description: z.string().optional(),
});
export type AgentSnapshot = z.infer<typeof AgentSnapshot>;

/** Which provider and model run the agent. */
export const ProviderRoute = z.strictObject({
  /** Provider adapter. */
  routeId: Id,
  /** Model. */
  modelId: Id,
  /** Policy of the provider. */
  providerPolicyRef: PolicyRef.optional(),
  /** Temperature and the like. */
  settings: JsonObject.optional(),
});
export type ProviderRoute = z.infer<typeof ProviderRoute>;

/** Coarse order of hooks. */
export const HookPhase = z.enum(["early", "normal", "late"]);
export type HookPhase = z.infer<typeof HookPhase>;

/** What happens when a hook fails. */
export const HookFailure = z.enum(["fail_open", "deny", "interrupt_run", "fail_run"]);
export type HookFailure = z.infer<typeof HookFailure>;

/** What a hook may do. */
export const HookRight = z.enum(["observe", "mutate", "veto"]);
export type HookRight = z.infer<typeof HookRight>;

/** A hook at a named point. */
export const HookSpec = z.strictObject({
  /** Identifier of the hook. */
  hookId: Id,
  /** Where it runs, such as before_tool_call. */
  point: Id,
  /** Coarse order; normal when absent. */
  phase: HookPhase.optional(),
  /** Fine order; 100 when absent. */
  order: Integer.optional(),
  /** What it may do; observe when absent. */
  right: HookRight.optional(),
  /** Deadline; 250 when absent. */
  timeoutMs: Positive.optional(),
  /** What happens when it fails; fail_open when absent. */
  failure: HookFailure.optional(),
});
export type HookSpec = z.infer<typeof HookSpec>;

/** Where output is delivered. */
export const OutputSinkSpec = z.strictObject({
  /** Identifier of the sink. */
  sinkId: Id,
  /** How repeated deliveries are recognised. */
  dedupePolicy: z.string().optional(),
  /** Policy of the delivery. */
  policyRef: PolicyRef.optional(),
});
export type OutputSinkSpec = z.infer<typeof OutputSinkSpec>;

/** A subagent the agent may call. */
export const SubagentSpec = z.strictObject({
  /** Name the model uses. */
  name: Id,
  /** What it is for. */
  description: z.string().optional(),
  /** Its package. */
  packageId: Id,
  /** Fingerprint of its package. */
  fingerprint: z.string().optional(),
  /** Whether a call is answered with a job, and the caller goes on. */
  background: z.boolean().optional(),
});
export type SubagentSpec = z.infer<typeof SubagentSpec>;

/** Facts that do not count for the fingerprint. */
export const PackageVolatile = open({
  /** Run that made the package. */
  runId: Id.optional(),
  /** When it was compiled. */
  compiledAt: Timestamp.optional(),
  /** Where it was compiled. */
  host: z.string().optional(),
});
export type PackageVolatile = z.infer<typeof PackageVolatile>;

/** What a resolver gives. */
export const ResolverPart = z.enum(["instructions", "tools", "skills"]);
export type ResolverPart = z.infer<typeof ResolverPart>;

/** How long what a resolver gave holds. */
export const ResolverScope = z.enum(["session", "turn", "step"]);
export type ResolverScope = z.infer<typeof ResolverScope>;

/** A function of the host that gives a part of the agent when it is needed. */
export const ResolverSpec = z.strictObject({
  /** Name of the resolver. */
  name: Id,
  /** What it gives. */
  part: ResolverPart,
  /** How long that holds. */
  scope: ResolverScope,
});
export type ResolverSpec = z.infer<typeof ResolverSpec>;

/** The sandbox in which the commands of an agent run. */
export const SandboxSpec = z.strictObject({
  /** Name of the adapter that makes it. */
  adapter: text({ min: 1, max: 64 }),
  /** Host names that its commands may reach over http and https; none when left out. */
  network: z.array(text({ min: 1, max: 253 })).max(64).optional(),
  /** Most memory. */
  memoryBytes: Positive.optional(),
  /** Most processes at once. */
  processes: Positive.optional(),
  /** Most CPU time of one process. */
  cpuSeconds: Positive.optional(),
  /** Largest file. */
  fileBytes: Positive.optional(),
  /** Most disk space that one command may add. */
  diskBytes: Positive.optional(),
});
export type SandboxSpec = z.infer<typeof SandboxSpec>;

/** An agent compiled to immutable data. Every run pins the fingerprint it runs under. */
export const RuntimePackage = z.strictObject({
  /** Version of this shape. */
  schemaVersion: z.literal(1),
  /** Identifier of the package. */
  packageId: Id,
  /** The agent. */
  agent: AgentSnapshot,
  /** Provider and model. */
  providerRoute: ProviderRoute,
  /** Tools with their schemas and metadata. */
  tools: z.array(ToolSpec).optional(),
  /** Subagents. */
  subagents: z.array(SubagentSpec).optional(),
  /** Policies in force. */
  policies: z.array(PolicyRef).optional(),
  /** Hooks. */
  hooks: z.array(HookSpec).optional(),
  /** What runs must return. */
  outputContracts: z.array(OutputContract).optional(),
  /** Where output goes. */
  outputSinks: z.array(OutputSinkSpec).optional(),
  /** Most that a run may use. */
  budget: BudgetLimits.optional(),
  /** Skills it may load. */
  skills: z.array(z.string()).optional(),
  /** Programs that the model may write: `code` calls tools and subagents, `workflow` calls subagents alone. */
  programs: z.array(z.enum(["code", "workflow"])).optional(),
  /** Whether variables of programs of kind `code` live for the session; for one program when absent. */
  keepsVariables: z.boolean().optional(),
  /** Whether a run ends only after its jobs. */
  waitsForJobs: z.boolean().optional(),
  /** Where its commands run; outside of any sandbox when left out. */
  sandbox: SandboxSpec.optional(),
  /** What is resolved when a run needs it; what it gives does not count for the fingerprint. */
  resolvers: z.array(ResolverSpec).optional(),
  /** Facts that do not count for the fingerprint. */
  volatile: PackageVolatile.optional(),
});
export type RuntimePackage = z.infer<typeof RuntimePackage>;

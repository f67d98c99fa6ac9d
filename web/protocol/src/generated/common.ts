// Generated from spec/common.schema.json by `make gen`. Do not edit.
/** Identifiers, times, references and amounts that the other files share. */
import { z } from "zod";
import { open, text } from "../wire.js";

/** An identifier: 1 to 512 characters, none of them a control character. */
export const Id = text({ says: "an identifier: 1 to 512 characters, none of them a control character", min: 1, max: 512, pattern: new RegExp("^[^\\u0000-\\u001f\\u007f]+$", "u") });
export type Id = z.infer<typeof Id>;

/** A moment, as RFC 3339 with a time zone: 2026-01-31T09:30:00.250Z. */
export const Timestamp = text({ says: "a moment, as RFC 3339 with a time zone: 2026-01-31T09:30:00.250Z", pattern: new RegExp("^(?:(?:(?:[1-9][0-9](?:[2468][048]|[13579][26]|0[48])|(?:[2468][048]|[13579][26])00)-02-29)|[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8])))T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$", "u") });
export type Timestamp = z.infer<typeof Timestamp>;

/** A SHA-256 digest: `sha256:` and 64 hexadecimal digits. */
export const Sha256 = text({ says: "a SHA-256 digest: `sha256:` and 64 hexadecimal digits", pattern: new RegExp("^sha256:[0-9a-f]{64}$", "u") });
export type Sha256 = z.infer<typeof Sha256>;

/** A whole number that every language can hold. */
export const Integer = z.int().min(-9007199254740991).max(9007199254740991);
export type Integer = z.infer<typeof Integer>;

/** A whole number from 0 that every language can hold. */
export const Count = z.int().min(0).max(9007199254740991);
export type Count = z.infer<typeof Count>;

/** A whole number from 1 that every language can hold. */
export const Positive = z.int().min(1).max(9007199254740991);
export type Positive = z.infer<typeof Positive>;

/** How long a value may be kept. */
export const RetentionClass = z.enum(["ephemeral", "run_scoped", "session_scoped", "durable", "persistent", "host_policy"]);
export type RetentionClass = z.infer<typeof RetentionClass>;

/** How far the origin of a value is trusted. */
export const TrustClass = z.enum(["trusted", "sdk_generated", "host_provided", "user_provided", "external", "untrusted"]);
export type TrustClass = z.infer<typeof TrustClass>;

/** What kind of thing a request or value comes from. */
export const SourceKind = z.enum(["sdk", "host", "user", "system", "developer", "memory", "compaction", "hook", "extension", "tool", "remote_channel", "scheduled_task", "subagent", "external_runtime", "replay"]);
export type SourceKind = z.infer<typeof SourceKind>;

/** What a policy is about. */
export const PolicyKind = z.enum(["approval", "permission", "sandbox", "context", "privacy", "retention", "redaction", "runtime_package", "host"]);
export type PolicyKind = z.infer<typeof PolicyKind>;

/** Where a request or value comes from. */
export const SourceRef = open({
  /** What kind of origin this is. */
  kind: SourceKind,
  /** Identifier of the origin. */
  id: Id,
  /** How far the origin is trusted; host_provided when absent. */
  trust: TrustClass.optional(),
});
export type SourceRef = z.infer<typeof SourceRef>;

/** Names the policy or rule that made a decision. */
export const PolicyRef = open({
  /** What the policy is about. */
  kind: PolicyKind,
  /** Identifier of the policy or rule. */
  id: Id,
  /** Version of the policy, when it has one. */
  version: z.string().optional(),
});
export type PolicyRef = z.infer<typeof PolicyRef>;

/** Tokens and money that model calls used. */
export const Usage = open({
  /** Tokens sent to the model. */
  inputTokens: Count.optional(),
  /** Tokens the model produced. */
  outputTokens: Count.optional(),
  /** Input tokens that came from the provider's cache. */
  cacheReadTokens: Count.optional(),
  /** Input tokens written to the provider's cache. */
  cacheWriteTokens: Count.optional(),
  /** Output tokens spent on reasoning. */
  reasoningTokens: Count.optional(),
  /** Cost in millionths of a US dollar, when known. */
  costMicros: Count.optional(),
});
export type Usage = z.infer<typeof Usage>;

/** The figure that is the cost of a model call. */
export const PriceSource = z.enum(["provider", "table", "own", "none"]);
export type PriceSource = z.infer<typeof PriceSource>;

/** Why a model call has no price: the server is not in the price table, the table does not have the model, the usage is incomplete or contradicts itself, or the provider reported none. */
export const PriceGap = z.enum(["no-prices", "unlisted", "unusable", "no-usage"]);
export type PriceGap = z.infer<typeof PriceGap>;

/** A part of the price of a model call. */
export const PricePart = open({
  /** What is counted, such as input_tokens or cache_write_1h_tokens. */
  unit: z.string(),
  /** How many, without those that another part counts. */
  count: Count,
  /** Millionths of a US dollar; the parts add up to the amount by the prices. */
  micros: Count,
});
export type PricePart = z.infer<typeof PricePart>;

/** How the cost of a model call was found, or why it has none; the cost itself is in the usage. */
export const Price = open({
  /** The figure that is the cost. */
  source: PriceSource,
  /** Amount by the prices of the agent or of the table. */
  listMicros: Count.optional(),
  /** Amount that the provider reported. */
  reportedMicros: Count.optional(),
  /** Parts of the amount by the prices. */
  parts: z.array(PricePart).optional(),
  /** Name and version of the price table. */
  table: z.string().optional(),
  /** Provider and model in the price table, or the pattern among the application's own prices. */
  entry: z.string().optional(),
  /** Why there is no amount by prices. */
  gap: PriceGap.optional(),
});
export type Price = z.infer<typeof Price>;

/** What a model call may cost at most, set aside before it is made. */
export const Reservation = open({
  /** Millionths of a US dollar. */
  costMicros: Count,
  /** Tokens of the longest answer that this pays for. */
  answerTokens: Count,
  /** What the call is known by where limits of people and teams are kept; absent if it counts for none. */
  sharedCall: z.string().optional(),
});
export type Reservation = z.infer<typeof Reservation>;

/** A kind of part of a prompt. */
export const PromptPart = z.enum(["tool", "system", "message"]);
export type PromptPart = z.infer<typeof PromptPart>;

/** Tokens of a prompt that the provider had in its cache and read anew. */
export const CacheLoss = open({
  /** Tokens that the call before had in the cache, and this one did not find there. */
  tokens: Count,
  /** Kind of the first part of the prompt that changed; absent if none did. */
  part: PromptPart.optional(),
  /** Its number among the parts of its kind, from 0; messages are counted together. */
  index: Count.optional(),
  /** The tool, or the role of the message. */
  name: z.string().optional(),
});
export type CacheLoss = z.infer<typeof CacheLoss>;

/** The parts of a prompt that a provider may cache, as far as they changed. */
export const PromptCache = open({
  /** Parts at the start that are those of the call before. */
  kept: Count,
  /** A digest of each part after them: its kind, a colon, and twelve digits. */
  added: z.array(z.string()),
  /** What was paid again, if it was. */
  loss: CacheLoss.optional(),
});
export type PromptCache = z.infer<typeof PromptCache>;

/** The things that led to a record or an error. */
export const CausalIds = open({
  /** The session. */
  sessionId: Id.optional(),
  /** The run. */
  runId: Id.optional(),
  /** The turn. */
  turnId: Id.optional(),
  /** The step of the turn, from 0. */
  stepIndex: Count.optional(),
  /** The attempt. */
  attemptId: Id.optional(),
  /** The event. */
  eventId: Id.optional(),
  /** The tool call. */
  callId: Id.optional(),
  /** The request to a person. */
  requestId: Id.optional(),
  /** The decision. */
  decisionId: Id.optional(),
  /** The trace span. */
  spanId: Id.optional(),
});
export type CausalIds = z.infer<typeof CausalIds>;

/** Points at content that is stored once and referred to by its hash. */
export const ContentRef = open({
  /** Identifier of the stored content. */
  contentId: Id,
  /** Digest of the stored bytes. */
  hash: Sha256,
  /** Length of the stored bytes. */
  sizeBytes: Count,
  /** Media type, such as text/plain. */
  mediaType: z.string().optional(),
  /** How long the content may be kept. */
  retention: RetentionClass.optional(),
  /** A short text that may be shown instead of the content. */
  summary: z.string().optional(),
});
export type ContentRef = z.infer<typeof ContentRef>;

/** Ties a record to a distributed trace. */
export const TraceContext = open({
  /** W3C trace id. */
  traceId: z.string(),
  /** W3C span id. */
  spanId: z.string().optional(),
  /** W3C tracestate. */
  traceState: z.string().optional(),
});
export type TraceContext = z.infer<typeof TraceContext>;

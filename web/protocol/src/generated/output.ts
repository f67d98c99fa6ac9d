// Generated from spec/output.schema.json by `make gen`. Do not edit.
/** What a run must return. */
import { z } from "zod";
import { JsonObject, open } from "../wire.js";
import { Count, Id, Positive, Sha256 } from "./common.js";

/** Version of a schema. */
export const SchemaVersion = z.strictObject({
  /** Breaking changes. */
  major: Count,
  /** Additions. */
  minor: Count,
  /** Corrections. */
  patch: Count,
});
export type SchemaVersion = z.infer<typeof SchemaVersion>;

/** The JSON Schema a run's output must meet, and how hard to try. */
export const OutputContract = z.strictObject({
  /** Identifier of the schema. */
  schemaId: Id,
  /** Its version. */
  schemaVersion: SchemaVersion,
  /** JSON Schema, draft 2020-12. */
  schema: JsonObject,
  /** Digest of the canonical schema. */
  contentHash: Sha256.optional(),
  /** Longest answer to look at; 32,768 when absent. */
  maxCandidateBytes: Positive.optional(),
  /** Most errors to report; 32 when absent. */
  maxErrorsReturned: Positive.optional(),
  /** How often the model may correct itself; 2 when absent. */
  maxRepairAttempts: Count.optional(),
});
export type OutputContract = z.infer<typeof OutputContract>;

/** One way in which an answer misses its schema. */
export const OutputError = open({
  /** JSON pointer to the place. */
  path: z.string(),
  /** Stable code. */
  code: z.string(),
  /** What was expected. Never the value. */
  message: z.string(),
});
export type OutputError = z.infer<typeof OutputError>;

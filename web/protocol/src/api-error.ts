/** What the server refuses, and connections that break. */
import type { JsonObject } from "./wire.js";

/** What happened to a request, by what the caller can do about it. */
export type ApiErrorKind =
  /** 401: log in. */
  | "unauthorized"
  /** 403: ask a person. */
  | "denied"
  /** 404: it does not exist, or not for you. */
  | "not_found"
  /** 409: read again, then decide. */
  | "conflict"
  /** 410: what the cursor points behind is gone; read from the beginning. */
  | "cursor_expired"
  /** Any other 4xx: fix the request. */
  | "rejected"
  /** 429: wait. */
  | "rate_limited"
  /** 502 and 503: try again later, with the same key. */
  | "unavailable"
  /** 504: it may have happened; look before you repeat it. */
  | "ambiguous"
  /** Any other 5xx: the server is at fault. */
  | "failed";

const KINDS: ReadonlyMap<number, ApiErrorKind> = new Map([
  [401, "unauthorized"],
  [403, "denied"],
  [404, "not_found"],
  [409, "conflict"],
  [410, "cursor_expired"],
  [429, "rate_limited"],
  [502, "unavailable"],
  [503, "unavailable"],
  [504, "ambiguous"],
]);
const PROBLEM_CHARS_MAX = 65_536;
const MS_PER_S = 1_000;

/** An answer of the server that is no success; the fields are those of its problem document. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly kind: ApiErrorKind;
  /** The stable code of the error, when the server says it. */
  readonly code: string | undefined;

  constructor(
    readonly status: number,
    /** The problem document; empty if there was none. */
    readonly problem: JsonObject = {},
    /** How long the server wants to be left alone. */
    readonly retryAfterMs?: number,
  ) {
    const detail = problem["detail"] ?? problem["title"];
    super(typeof detail === "string" ? detail : `the server answered ${status}`);
    this.kind = KINDS.get(status) ?? (status >= 500 ? "failed" : "rejected");
    const code = problem["code"];
    this.code = typeof code === "string" ? code : undefined;
  }

  /** Whether the same request may succeed later. */
  get isPassing(): boolean {
    return this.status >= 500 || this.kind === "rate_limited" || this.status === 408;
  }
}

/** The server could not be reached, or the connection broke. Whether a request arrived is not known. */
export class ConnectionError extends Error {
  override readonly name = "ConnectionError";
}

/** The server said something that is no answer of this protocol. Trying again does not help. */
export class ProtocolError extends Error {
  override readonly name = "ProtocolError";
}

/** Reads an answer that is no success as an error; `nowMs` is for a Retry-After that names a moment. */
export async function toApiError(response: Response, nowMs: number): Promise<ApiError> {
  const retryAfterMs = readRetryAfter(response.headers.get("retry-after"), nowMs);
  return new ApiError(response.status, await readProblem(response), retryAfterMs);
}

async function readProblem(response: Response): Promise<JsonObject> {
  if (!(response.headers.get("content-type") ?? "").includes("json")) {
    await response.body?.cancel().catch(() => undefined);
    return {};
  }
  try {
    const text = await response.text();
    const value: unknown = text.length > PROBLEM_CHARS_MAX ? undefined : JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
  } catch {
    // The status alone says enough.
    return {};
  }
}

/** Reads the header: seconds, or a moment. */
export function readRetryAfter(text: string | null, nowMs: number): number | undefined {
  if (text === null) return undefined;
  if (/^\d{1,9}$/u.test(text.trim())) return Number(text) * MS_PER_S;
  const moment = Date.parse(text);
  return Number.isNaN(moment) ? undefined : Math.max(moment - nowMs, 0);
}

/** Shared by all clients: errors, clock, and waits between attempts. */
import type { JsonObject } from "../wire.js";

/** Kinds of refused requests, by what the caller can do. */
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
    /** The Retry-After of the server. */
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

// Time and chance: given to the clients, so that tests decide.

/** Tells the time and waits. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after this many milliseconds; rejects with the signal's reason once it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A number from 0 up to, but not including, 1. */
export type Chance = () => number;

/** A random id: one request, however often the network repeats it. Over plain HTTP a browser makes no UUIDs itself. */
export function newId(): string {
  const bytes = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0"));
  return bytes.join("");
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const fail = (): void => {
        clearTimeout(timer);
        reject(reasonOf(signal));
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", fail);
        resolve();
      }, ms);
      if (signal?.aborted === true) fail();
      else signal?.addEventListener("abort", fail, { once: true });
    }),
};

/** Why a signal was aborted, as an error. */
export function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new DOMException("the work was aborted", "AbortError");
}

// Backoff.

/** Waits between attempts, in milliseconds: doubled each time, up to the longest. */
export interface Backoff {
  readonly baseMs: number;
  readonly maxMs: number;
}

export const DEFAULT_BACKOFF: Backoff = { baseMs: 250, maxMs: 15_000 };

const DOUBLINGS_MAX = 30;

/**
 * The wait before attempt `attempt` + 1, from the number of attempts that failed in a row (from 1).
 *
 * Half of it is left to chance: clients that lost the same server do not come back in one moment.
 */
export function backoffMs(attempt: number, { baseMs, maxMs }: Backoff, chance: Chance): number {
  const doublings = Math.min(Math.max(attempt, 1) - 1, DOUBLINGS_MAX);
  const whole = Math.min(baseMs * 2 ** doublings, maxMs);
  return Math.round(whole / 2 + (whole / 2) * chance());
}

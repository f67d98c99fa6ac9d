/**
 * Whether to try again, and how long to wait first.
 *
 * A retry class says only that a second try *can* help. Whether it *may* be made is the business of the
 * call's effect class: a tool that writes once is never repeated by itself.
 */
import type { RetryClass } from "@windlass/protocol";

const KINDS = ["timeout", "connection", "truncated", "malformed", "invalid_output", "cancelled"] as const;
export type FailureKind = (typeof KINDS)[number];

/** The longest wait that a timer of every platform can hold, about 24 days. */
export const DELAY_MS_MAX = 2 ** 31 - 1;
export const RETRY_AFTER_MS_MAX = 3_600_000;
export const RETRY_AFTER_CHARS_MAX = 64;
const DOUBLINGS_MAX = 31; // one millisecond doubled this often is above DELAY_MS_MAX

/**
 * How often to try, and how the waits grow.
 *
 * `jitter` spreads the waits of many callers, and needs a random source: give `nextRetryDelayMs` an `rng`, or
 * there is no jitter.
 */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  readonly jitter: boolean;
}

/** Facts of a failure that an adapter knows: HTTP status, provider's code, kind. */
export interface ErrorFacts {
  readonly status?: number;
  readonly code?: string;
  readonly kind?: FailureKind;
}

/** Fill in the defaults; throws a RangeError on an attempt count under 1 or a delay out of range. */
export function retryPolicy(given: Partial<RetryPolicy> = {}): RetryPolicy {
  const policy = { maxAttempts: 3, baseDelayMs: 200, maxDelayMs: 5000, jitter: true, ...given };
  if (!(policy.maxAttempts >= 1)) {
    throw new RangeError(`maxAttempts must be 1 or more, found ${policy.maxAttempts}; 1 never retries`);
  }
  for (const name of ["baseDelayMs", "maxDelayMs"] as const) {
    if (!(policy[name] >= 0 && policy[name] <= DELAY_MS_MAX)) {
      throw new RangeError(`${name} must be from 0 to ${DELAY_MS_MAX}, found ${policy[name]}`);
    }
  }
  return policy;
}

/**
 * Return how long to wait after failed attempt number `attempt` (from 1).
 *
 * The base delay doubles with each attempt up to the policy's maximum. Jitter multiplies it by 0.8 to 1.2
 * and never lifts it above the maximum; `rng` returns a number in [0, 1), and without it there is no jitter.
 * A server's Retry-After is a floor, even above the maximum, but only up to `RETRY_AFTER_MS_MAX`.
 */
export function nextRetryDelayMs(
  policy: RetryPolicy,
  attempt: number,
  rng?: () => number,
  options: { readonly retryAfterMs?: number } = {},
): number {
  const doublings = Math.min(Math.max(attempt, 1) - 1, DOUBLINGS_MAX);
  let delayMs = Math.min(policy.baseDelayMs * 2 ** doublings, policy.maxDelayMs);
  if (policy.jitter && rng) delayMs = Math.min(Math.floor(delayMs * (0.8 + 0.4 * rng())), policy.maxDelayMs);
  return Math.max(delayMs, Math.min(options.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX));
}

/** Say whether to try again after failed attempt number `attempt` (from 1). */
export function shouldRetry(policy: RetryPolicy, attempt: number, retryClass: RetryClass): boolean {
  return retryClass === "retryable" && Math.max(attempt, 1) < policy.maxAttempts;
}

/**
 * Read a Retry-After header: seconds or an HTTP date; undefined if it is neither.
 *
 * Negative seconds and dates in the past are 0; the result is at most `DELAY_MS_MAX`.
 */
export function parseRetryAfterMs(value: string, now: Date): number | undefined {
  const text = stripBlanks(value);
  if (text.length > RETRY_AFTER_CHARS_MAX) return undefined;
  if (SECONDS.test(text)) return Math.max(0, Math.ceil(Math.min(Number(text) * 1000, DELAY_MS_MAX)));
  const date = httpDate(text, now);
  return date === undefined ? undefined : Math.min(Math.max(0, date - now.getTime()), DELAY_MS_MAX);
}

/** Without the blanks at both ends; an expression would take quadratic time on a text of many blanks. */
function stripBlanks(text: string): string {
  const isBlank = (at: number): boolean => text[at] === " " || text[at] === "\t";
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(start)) start += 1;
  while (end > start && isBlank(end - 1)) end -= 1;
  return text.slice(start, end);
}

/**
 * Say what can help after a failure.
 *
 * The provider's code is the most exact and is looked at first, then the status, then the kind. Codes are
 * compared whole, without case. An unknown error is not retryable. Throws a RangeError if the kind is none
 * of `FailureKind`.
 */
export function classifyError(facts: ErrorFacts): RetryClass {
  if (facts.kind !== undefined && !KINDS.includes(facts.kind)) {
    throw new RangeError(
      `kind must be one of ${KINDS.join(", ")}, found ${facts.kind}; leave it out if none of them fits`,
    );
  }
  const byCode = facts.code === undefined ? undefined : BY_CODE.get(facts.code.toLowerCase());
  const byStatus = facts.status === undefined ? undefined : classOfStatus(facts.status);
  const byKind = facts.kind === undefined ? undefined : BY_KIND[facts.kind];
  return byCode ?? byStatus ?? byKind ?? "not_retryable";
}

/** A status below 400 says nothing: the failure came after it, and its kind tells. */
function classOfStatus(status: number): RetryClass | undefined {
  const known = BY_STATUS.get(status);
  if (known !== undefined) return known;
  if (status >= 500) return "retryable";
  return status >= 400 ? "not_retryable" : undefined;
}

/** Parse the three date forms that RFC 9110 makes every recipient accept, to milliseconds. */
function httpDate(text: string, now: Date): number | undefined {
  const part = (DATE.exec(text) ?? ASCTIME.exec(text))?.groups;
  if (part === undefined) return undefined;
  let year = Number(part["year"]);
  if (part["year"]?.length === 2) {
    // RFC 9110: a two-digit year that seems more than 50 years ahead is in the past century.
    year += Math.floor(now.getUTCFullYear() / 100) * 100;
    if (year > now.getUTCFullYear() + 50) year -= 100;
  }
  const fields = [
    year,
    MONTHS.indexOf(part["month"] ?? ""),
    Number(part["day"]),
    Number(part["hour"]),
    Number(part["minute"]),
    Math.min(Number(part["second"]), 59), // a leap second has no other home
  ] as const;
  const date = new Date(Date.UTC(...fields));
  const made = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours()];
  // Date.UTC rolls the 31st of February over into March; such a date is none.
  return made.every((field, index) => field === fields[index]) && fields[4] < 60 ? date.getTime() : undefined;
}

const SECONDS = /^-?[0-9]+(?:\.[0-9]+)?$/;
const DATE =
  /^[A-Z][a-z]{2,8}, (?<day>[0-9]{2})[ -](?<month>[A-Z][a-z]{2})[ -](?<year>[1-9][0-9]{3}|[0-9]{2}) (?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-5][0-9]|60) GMT$/;
const ASCTIME =
  /^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ 0-9][0-9]) (?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-5][0-9]|60) (?<year>[1-9][0-9]{3})$/;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const BY_KIND: Readonly<Record<FailureKind, RetryClass>> = {
  timeout: "retryable",
  connection: "retryable",
  truncated: "retryable",
  malformed: "retryable",
  invalid_output: "repair_needed",
  cancelled: "not_retryable",
};

const BY_STATUS: ReadonlyMap<number, RetryClass> = new Map<number, RetryClass>([
  [401, "host_configuration_needed"],
  [402, "user_action_needed"],
  [403, "host_configuration_needed"],
  [407, "host_configuration_needed"],
  [408, "retryable"],
  [409, "retryable"],
  [413, "repair_needed"],
  [425, "retryable"],
  [429, "retryable"],
]);

const CODES: Readonly<Record<RetryClass, string>> = {
  retryable: `
    rate_limit_exceeded rate_limit_error overloaded overloaded_error server_error api_error timeout_error
    resource_exhausted unavailable deadline_exceeded internal aborted throttlingexception
    serviceunavailableexception internalserverexception modeltimeoutexception modelnotreadyexception
    modelerrorexception modelstreamerrorexception
    econnreset econnrefused econnaborted epipe etimedout ehostunreach enetunreach enotfound eai_again
  `,
  not_retryable: `
    invalid_request_error not_found_error model_not_found invalid_argument validationexception
    content_filter content_policy_violation
  `,
  repair_needed: `
    context_length_exceeded model_context_window_exceeded request_too_large string_above_max_length
    invalid_tool_arguments
  `,
  user_action_needed: `
    insufficient_quota billing_error billing_hard_limit_reached billing_not_active
  `,
  host_configuration_needed: `
    invalid_api_key authentication_error permission_error permission_denied unauthenticated
    accessdeniedexception unrecognizedclientexception
  `,
};

const BY_CODE: ReadonlyMap<string, RetryClass> = new Map(
  (Object.keys(CODES) as RetryClass[]).flatMap((retryClass) =>
    CODES[retryClass]
      .trim()
      .split(/\s+/)
      .map((code) => [code, retryClass] as const),
  ),
);

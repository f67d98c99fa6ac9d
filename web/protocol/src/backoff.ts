/** How long to wait before the next attempt. */
import type { Chance } from "./clock.js";

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

/** How long runs took. */
import type { RunRow } from "@windlass/protocol/client";

/** How long a run took; undefined while it goes on. */
export function durationOf({ startedAt, endedAt }: RunRow): number | undefined {
  return startedAt == null || endedAt == null ? undefined : Date.parse(endedAt) - Date.parse(startedAt);
}

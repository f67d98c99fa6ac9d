/** Whether a tool's result ends the loop. */

/**
 * Say whether the loop should stop after this result.
 *
 * It stops if `terminal` is true, or if `success` is false and `needsFollowup` is not true. Only the
 * literals true and false count: "true", 1 and null are neither.
 */
export function isTerminalResult(result: Readonly<Record<string, unknown>> | null | undefined): boolean {
  if (!result) return false;
  return result["terminal"] === true || (result["success"] === false && result["needsFollowup"] !== true);
}

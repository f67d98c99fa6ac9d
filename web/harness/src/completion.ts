/** Whether a tool's result ends the loop. */

/**
 * Say whether the loop should stop after this result.
 *
 * It stops if `terminal` is true, or if `success` is false and `needsFollowup` is not true. Only the
 * literals true and false count: "true", 1 and null are neither. No result at all does not stop it.
 * Throws a TypeError if the result is something else.
 */
export function isTerminalResult(result: Readonly<Record<string, unknown>> | null | undefined): boolean {
  if (result === null || result === undefined) return false;
  if (typeof result !== "object" || Array.isArray(result)) {
    const kind = Array.isArray(result) ? "array" : typeof result;
    throw new TypeError(
      `isTerminalResult takes a tool result or null, found ${kind}; put a bare value into a tool result`,
    );
  }
  return result["terminal"] === true || (result["success"] === false && result["needsFollowup"] !== true);
}

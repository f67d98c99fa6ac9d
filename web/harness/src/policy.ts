/** Tool modes: the effect that a tool declares, or a guess from its name. */
import { ToolMode } from "@windlass/protocol";

const PREFIXES: readonly (readonly [ToolMode, readonly string[]])[] = [
  ["read", ["get_", "list_", "read_", "search_"]],
  ["safe_write", ["create_", "update_", "set_", "write_", "apply_", "add_"]],
  ["destructive", ["delete_", "drop_", "remove_", "destroy_", "archive_", "purge_"]],
  ["local", ["local_", "shell_", "exec_"]],
];

/**
 * Return the declared mode, or guess one from the prefix of the name; `external` if no prefix matches.
 *
 * The name is only a guess: `get_and_delete_all` is taken for a read. The policy of a server therefore lets a
 * guess raise a decision and never lower it. Throws a TypeError if the name is not a string, and a RangeError
 * if the declared mode is unknown.
 */
export function decideToolMode(name: string, declared?: ToolMode): ToolMode {
  const given: unknown = name;
  if (typeof given !== "string") throw new TypeError(`name must be a string, found ${JSON.stringify(given)}`);
  if (declared !== undefined) {
    if (ToolMode.options.includes(declared)) return declared;
    throw new RangeError(`declared must be one of ${ToolMode.options.join(", ")}, found ${JSON.stringify(declared)}`);
  }
  const lowered = name.toLowerCase();
  const guess = PREFIXES.find(([, prefixes]) => prefixes.some((prefix) => lowered.startsWith(prefix)));
  return guess === undefined ? "external" : guess[0];
}

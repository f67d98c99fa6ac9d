/** Variables that are set before or without a command. */
import { EXECUTING_SETTINGS, HARMLESS_SETTINGS } from "../generated/shell-tables.js";
import { matchesExactly } from "./paths.js";
import type { Call } from "./scene.js";

/** Report what setting a variable means; a prefix reaches the command after it. */
export function gradeSetting(call: Call, name: string, isPrefix: boolean): void {
  if (HARMLESS_SETTINGS.has(name)) return;
  if (matchesExactly(name, EXECUTING_SETTINGS)) call.note("destructive/env-exec");
  else if (isPrefix) call.note("unknown/env");
}

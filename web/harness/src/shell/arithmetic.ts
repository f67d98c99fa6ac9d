/**
 * Text that the shell evaluates as a number, or as a name with a subscript.
 *
 * Both can run commands: a subscript is expanded, and the value of a variable is evaluated again.
 */
import { EXECUTING_SETTINGS, HARMLESS_SETTINGS } from "../generated/shell-tables.js";
import { matchesExactly } from "./paths.js";
import type { Engine, Scene } from "./scene.js";
import { Call, UNKNOWNS } from "./scene.js";
import { partition } from "./text.js";

const IDENTIFIERS = /[A-Za-z_][A-Za-z0-9_]*/g;

/** Report what setting a variable means; a prefix reaches the command after it. */
export function gradeSetting(call: Call, name: string, isPrefix: boolean): void {
  if (HARMLESS_SETTINGS.has(name)) return;
  if (matchesExactly(name, EXECUTING_SETTINGS)) call.note("destructive/env-exec");
  else if (isPrefix) call.note("unknown/env");
}

/** Grade what evaluating a number runs, through every variable that it names. */
export function evaluateNumber(text: string, scene: Scene, engine: Engine): void {
  const pending = [text];
  const seen = new Set<string>();
  for (const current of pending) {
    engine.spend();
    engine.evaluateText(current, scene);
    if (UNKNOWNS.some((mark) => current.includes(mark))) engine.note("unknown/dynamic", current);
    for (const [name] of current.matchAll(IDENTIFIERS)) {
      if (seen.has(name)) continue;
      seen.add(name);
      // An expression may set what it names.
      gradeSetting(new Call(name, [], scene, engine, text), name, false);
      for (const value of scene.values.get(name) ?? []) {
        pending.push(value.text);
        if (value.isGlob) engine.note("unknown/dynamic", name);
      }
    }
  }
}

/** Grade what evaluating a variable's name runs: its subscript is a number. */
export function evaluateName(text: string, scene: Scene, engine: Engine): void {
  const [name, bracket, subscript] = partition(text, "[");
  if (UNKNOWNS.some((mark) => name.includes(mark))) engine.note("unknown/dynamic", text);
  if (bracket) evaluateNumber(subscript, scene, engine);
}

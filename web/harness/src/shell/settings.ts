/** Variables that are set: by an assignment, a loop, a builtin or an expression. */
import { INTEGER_VARIABLES } from "../generated/shell-tables.js";
import { evaluateNumber, gradeSetting } from "./arithmetic.js";
import type { Call, Field } from "./scene.js";

/** Set a variable and report what that means; a number is evaluated. */
export function setVariable(call: Call, name: string, value: readonly Field[]): void {
  gradeSetting(call, name, false);
  if (call.scene.integers.has(name) || INTEGER_VARIABLES.has(name)) {
    for (const field of value) evaluateNumber(field.text, call.scene, call.engine);
  }
  call.scene.assign(name, value);
}

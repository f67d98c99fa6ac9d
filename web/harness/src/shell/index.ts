/** Grade shell commands: prove that a command only reads, or say why not. */
export { classifyShellCommand } from "./classify.js";
export type { Severity } from "./model.js";
export { ShellConfig, ShellReason, ShellVerdict } from "./model.js";
export type { ShellGrammar } from "./referee.js";
export { loadShellGrammar } from "./referee.js";

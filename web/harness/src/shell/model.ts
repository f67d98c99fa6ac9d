/** What the shell grader answers, and what it can be told. */
import type { CommandSafetyPattern } from "@windlass/protocol";

import type { ShellGrammar } from "./referee.js";

export type Severity = "safe" | "caution" | "dangerous";
export type Platform = "unix" | "windows";

/** One finding: what was seen, how bad it is, and the text it was seen in. */
export class ShellReason {
  constructor(
    readonly code: string,
    readonly severity: Severity,
    readonly message: string,
    readonly part: string,
  ) {}
}

/** The grade of a command; `reasons` holds the worst findings first. */
export class ShellVerdict {
  constructor(
    readonly severity: Severity,
    readonly category: string,
    readonly reasons: readonly ShellReason[],
  ) {}
}

/**
 * Extra rules of the host; they can raise a grade and never lower one.
 *
 * The `grammar` is loaded by the host (see `loadShellGrammar`); without it nothing can be called safe.
 */
export class ShellConfig {
  constructor(
    readonly patterns: readonly CommandSafetyPattern[] = [],
    readonly platform: Platform = "unix",
    readonly grammar?: ShellGrammar,
  ) {}
}

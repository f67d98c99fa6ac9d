/** What the shell grader answers, and what it can be told. */
import type { CommandSafetyPattern } from "@windlass/protocol";

import type { ShellGrammar } from "./referee.js";

export type Severity = "safe" | "caution" | "dangerous";
export type Platform = "unix" | "windows";
/** The words of each simple command. */
export type Commands = readonly (readonly string[])[];

/** One finding: what was seen, how bad it is, and the text it was seen in. */
export class ShellReason {
  constructor(
    readonly code: string,
    readonly severity: Severity,
    readonly message: string,
    readonly part: string,
  ) {}
}

/**
 * The grade of a command; `reasons` holds the worst findings first.
 *
 * `commands` holds the words of every simple command, for rules that go by the first words. It is empty
 * unless the whole command is literal: no variable, substitution or pattern, no assignment, no compound
 * command, no background job, and no redirection but to `/dev/null` or another descriptor.
 */
export class ShellVerdict {
  constructor(
    readonly severity: Severity,
    readonly category: string,
    readonly reasons: readonly ShellReason[],
    readonly commands: Commands = [],
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

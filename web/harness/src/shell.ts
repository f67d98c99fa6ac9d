/** Shell command grading: TypeScript has no grader of its own and asks the sidecar for a verdict. */
import type { CommandSafetyPattern, JsonObject } from "@windlass/protocol";

const METHOD = "harness.classifyShell";
const SEVERITIES = ["safe", "caution", "dangerous"] as const;

/** safe: run without asking. caution: in a sandbox, or ask. dangerous: always ask. */
export type Severity = (typeof SEVERITIES)[number];

/** One finding: its code, its severity, a sentence, and the part of the command that it is about. */
export interface ShellReason {
  readonly code: string;
  readonly severity: Severity;
  readonly message: string;
  readonly part: string;
}

/**
 * The grade of a command; `reasons` holds the worst findings first.
 *
 * `commands` holds the words of every simple command. It is empty unless the whole command is literal: no
 * variable, substitution or pattern, no compound command, no redirection to a file.
 */
export interface ShellVerdict {
  readonly severity: Severity;
  readonly category: string;
  readonly reasons: readonly ShellReason[];
  readonly commands: readonly (readonly string[])[];
}

/** Extra rules of the host; they can raise a grade and never lower one. */
export interface ShellConfig {
  readonly patterns?: readonly CommandSafetyPattern[];
  readonly platform?: "unix" | "windows";
}

/** Sends a JSON-RPC request to a sidecar; `SidecarClient` of `@windlass/protocol/client` is one. */
export interface SidecarConnection {
  request(method: string, params: JsonObject): Promise<unknown>;
}

/**
 * Ask a sidecar how dangerous a shell command is.
 *
 * Rejects if the sidecar refuses the request or is gone, or if its answer has no verdict: treat a rejection as
 * dangerous.
 */
export async function classifyShellCommand(
  sidecar: SidecarConnection,
  command: string,
  config: ShellConfig = {},
): Promise<ShellVerdict> {
  const { patterns, platform } = config;
  const answer = await sidecar.request(METHOD, {
    command,
    ...(patterns !== undefined && { patterns: patterns.map((pattern) => ({ ...pattern })) }),
    ...(platform !== undefined && { platform }),
  });
  if (isVerdict(answer)) return answer;
  throw new TypeError(`the answer to ${METHOD} is no verdict: expected severity, category, reasons and commands`);
}

function isVerdict(answer: unknown): answer is ShellVerdict {
  if (typeof answer !== "object" || answer === null) return false;
  const { severity, category, reasons, commands } = answer as Partial<Record<keyof ShellVerdict, unknown>>;
  return (
    SEVERITIES.some((known) => known === severity) &&
    typeof category === "string" &&
    Array.isArray(reasons) &&
    Array.isArray(commands)
  );
}

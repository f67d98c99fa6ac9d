/** Shell command grading: TypeScript has no grader of its own and asks the sidecar for a verdict. */
import { ShellVerdict, type CommandSafetyPattern, type JsonObject, type ShellPlatform } from "@windlass/protocol";

const METHOD = "harness.classifyShell";

/** Extra rules of the host; they can raise a grade and never lower one. */
export interface ShellConfig {
  readonly patterns?: readonly CommandSafetyPattern[];
  readonly platform?: ShellPlatform;
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
  const verdict = ShellVerdict.safeParse(answer);
  if (verdict.success) return verdict.data;
  throw new TypeError(`the answer to ${METHOD} is not a verdict: expected severity, category, reasons and commands`);
}

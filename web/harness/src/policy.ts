/**
 * May this tool be called? Rules, mode, grade and taint in, one decision out.
 *
 * Effects in order of strength: deny, interrupt, defer, ask, modify, allow. The strongest that applies
 * decides, so a deny cannot be undone by any other rule, and the order of rules means nothing. What applies:
 *
 * - every rule that matches;
 * - without a matching allow or modify rule, the default: declared reads and safe writes are allowed;
 *   destructive, local and external tools, and all whose mode is only guessed from their name, ask;
 * - floors that no ordinary grant lowers: a dangerous shell command asks, a cautious one asks unless a rule
 *   grants it, and once a session has read untrusted content and private data, every way out asks.
 *
 * Nobody there to ask means no: an unattended ask is a deny.
 */
import type { JsonObject, PolicyDecision } from "@windlass/protocol";
import { ToolMode } from "@windlass/protocol";

import type { CallFacts, Effect, PolicySet, Rule } from "./policy-rules.js";
import { problemOfChoice } from "./policy-checks.js";
import { callFacts, EFFECTS, isBlind, isGrant, isTainted, matches, policySet } from "./policy-rules.js";

export type { CallFacts, Effect, PolicySet, Rule, Taint } from "./policy-rules.js";
export { policySet } from "./policy-rules.js";

const PREFIXES: readonly (readonly [ToolMode, readonly string[]])[] = [
  ["read", ["get_", "list_", "read_", "search_"]],
  ["safe_write", ["create_", "update_", "set_", "write_", "apply_", "add_"]],
  ["destructive", ["delete_", "drop_", "remove_", "destroy_", "archive_", "purge_"]],
  ["local", ["local_", "shell_", "exec_"]],
];

/**
 * Return the declared mode, or guess one from the start of the name.
 *
 * The name is only a guess: `get_and_delete_all` is taken for a read. `decide` therefore lets a guess
 * raise a decision and never lower it, unless the policy trusts names. Throws a RangeError if the declared
 * mode is not known.
 */
export function decideToolMode(name: string, declared?: ToolMode): ToolMode {
  if (declared !== undefined) {
    const problem = problemOfChoice(declared, "declared", ToolMode.options);
    if (problem !== undefined) throw new RangeError(problem);
    return declared;
  }
  const lowered = name.toLowerCase();
  const guess = PREFIXES.find(([, starts]) => starts.some((start) => lowered.startsWith(start)));
  return guess === undefined ? "external" : guess[0];
}

/** One thing that applies to a call. */
interface Vote {
  readonly effect: Effect;
  readonly code: string;
  readonly reason: string;
  readonly ref: string;
}

/**
 * Decide about one call; the decision names what made it.
 *
 * The arguments that modify rules give are in a modify decision, and also in an ask decision when both
 * apply: ask about these, and run these. Throws a RangeError if the policy or the facts are not what they
 * should be: a plain object may never have passed `policySet`.
 */
export function decide(policy: PolicySet, call: CallFacts, options: { readonly isAttended: boolean }): PolicyDecision {
  policySet(policy);
  callFacts(call);
  const mode = decideToolMode(call.tool, call.declared);
  const isSure = call.declared !== undefined || policy.trustsNames === true;
  const matching = policy.rules.filter((rule) => matches(rule, call, mode, isSure)).sort(byId);
  const grants = matching.filter(isGrant);
  const votes = [
    ...matching.map((rule) => voteOf(rule, call)),
    ...floors(call, grants, isOutbound(call, mode, isSure)),
  ];
  if (grants.length === 0) votes.push(defaultVote(mode, isSure));
  const effect = strongest(votes);
  const winners = votes.filter((vote) => vote.effect === effect);
  if (effect !== "ask") return build(effect, winners, policy, matching, call);
  if (!options.isAttended) return build("deny", [UNATTENDED, ...winners], policy, matching, call);
  return build("ask", [...winners, ...votes.filter((vote) => vote.effect === "modify")], policy, matching, call);
}

function strongest(votes: readonly Vote[]): Effect {
  return EFFECTS[Math.max(...votes.map((vote) => EFFECTS.indexOf(vote.effect)))] ?? "deny";
}

/** By code points, as Python sorts; the default order is by UTF-16 units. */
function byId(a: Rule, b: Rule): number {
  const [left, right] = [Array.from(a.id), Array.from(b.id)];
  const at = left.findIndex((letter, index) => letter !== right[index]);
  return at < 0 ? left.length - right.length : (left[at]?.codePointAt(0) ?? 0) - (right[at]?.codePointAt(0) ?? 0);
}

function voteOf(rule: Rule, call: CallFacts): Vote {
  const { code, reason: usual } = WORDS[rule.effect];
  const reason = rule.reason === undefined || rule.reason === "" ? usual : rule.reason;
  return { effect: rule.effect, code, reason: isBlind(rule, call) ? `${reason} ${BLIND}` : reason, ref: rule.id };
}

function defaultVote(mode: ToolMode, isSure: boolean): Vote {
  const ref = `default.${mode}`;
  if (mode !== "read" && mode !== "safe_write") {
    return {
      effect: "ask",
      code: "policy.consent_needed",
      reason: `A tool of mode ${mode} needs a person's consent.`,
      ref,
    };
  }
  return isSure
    ? { effect: "allow", code: "policy.default", reason: "Reads and safe writes need no consent.", ref }
    : {
        effect: "ask",
        code: "policy.undeclared_mode",
        reason: "The tool declares no mode, and a name is only a guess.",
        ref,
      };
}

function floors(call: CallFacts, grants: readonly Rule[], canCarryOut: boolean): Vote[] {
  const found: Vote[] = [];
  if (call.shell === "dangerous" && grants.every((rule) => rule.maxShell !== "dangerous")) {
    found.push({
      effect: "ask",
      code: "policy.shell_dangerous",
      reason: "The shell command is dangerous.",
      ref: "floor.shell",
    });
  }
  if (call.shell === "caution" && grants.length === 0) {
    found.push({
      effect: "ask",
      code: "policy.shell_caution",
      reason: "The shell command is more than a read.",
      ref: "floor.shell",
    });
  }
  if (canCarryOut && isTainted(call) && grants.every((rule) => rule.tainted !== true)) {
    const reason = "The session has read untrusted content and private data, and this is a way out.";
    found.push({ effect: "ask", code: "policy.tainted", reason, ref: "floor.taint" });
  }
  return found;
}

function isOutbound(call: CallFacts, mode: ToolMode, isSure: boolean): boolean {
  if (call.isOutbound !== undefined) return call.isOutbound;
  // A read may fetch an address, and a write may be public: only what is known to stay here stays here.
  return !(isSure && mode === "local" && call.shell === "safe");
}

function build(
  effect: Effect,
  votes: readonly Vote[],
  policy: PolicySet,
  matching: readonly Rule[],
  call: CallFacts,
): PolicyDecision {
  const version = policy.version === undefined ? {} : { version: policy.version };
  const answer = {
    code: votes[0]?.code ?? "",
    reason: votes[0]?.reason ?? "",
    policyRefs: votes.map((vote) => ({ kind: "permission" as const, id: vote.ref, ...version })),
  };
  switch (effect) {
    case "modify":
      return { decision: "modify", ...answer, arguments: modified(matching, call) };
    case "ask":
      return matching.some((rule) => rule.effect === "modify")
        ? { decision: "ask", ...answer, arguments: modified(matching, call) }
        : { decision: "ask", ...answer };
    case "defer": {
      const waits = matching.flatMap((rule) => rule.resumeAfterMs ?? []);
      return { decision: "defer", ...answer, ...(waits.length > 0 && { resumeAfterMs: Math.max(...waits) }) };
    }
    default:
      return { decision: effect, ...answer };
  }
}

function modified(matching: readonly Rule[], call: CallFacts): JsonObject {
  const parts = [call.arguments, ...matching.map((rule) => rule.arguments)];
  return Object.fromEntries(parts.flatMap((part) => Object.entries(part ?? {})));
}

const WORDS: Readonly<Record<Effect, { readonly code: string; readonly reason: string }>> = {
  allow: { code: "policy.allowed", reason: "A rule allows it." },
  modify: { code: "policy.modified", reason: "A rule allows it with other arguments." },
  ask: { code: "policy.asked", reason: "A rule wants a person's consent." },
  defer: { code: "policy.deferred", reason: "A rule puts it off." },
  interrupt: { code: "policy.interrupted", reason: "A rule stops the run here." },
  deny: { code: "policy.denied", reason: "A rule forbids it." },
};

const BLIND =
  "The rule is about certain commands, and those of this call cannot be told from its text; " +
  "write it as plain commands.";

const UNATTENDED: Vote = {
  effect: "deny",
  code: "policy.unattended",
  reason: "It needs a person's consent, and nobody is there to ask.",
  ref: "floor.unattended",
};

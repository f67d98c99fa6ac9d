import type { ToolMode } from "@windlass/protocol";
import { PolicyDecision } from "@windlass/protocol";
import { expect, test } from "vitest";

import type { CallFacts, Rule } from "../src/policy-rules.js";
import { matchesName, policySet, RULES_MAX } from "../src/policy-rules.js";
import { decide, decideToolMode } from "../src/policy.js";
import { readCases } from "./cases.js";

interface Case {
  readonly name: string;
  readonly names?: readonly string[];
  readonly declared?: ToolMode;
  readonly mode?: ToolMode;
  readonly patterns?: readonly (readonly [string, string])[];
  readonly matches?: boolean;
  readonly commands?: readonly string[];
  readonly rules?: readonly Rule[];
  readonly version?: string;
  readonly trustsNames?: boolean;
  readonly call?: CallFacts;
  readonly attended?: boolean;
  readonly decision?: string;
  readonly code?: string;
  readonly refs?: readonly string[];
  readonly also?: Readonly<Record<string, unknown>>;
  readonly refused?: boolean;
}

const CASES = readCases("policy") as readonly Case[];

test.each(CASES.filter((given) => given.mode))("shared names have the mode of every language: $name", (given) => {
  const modes = given.names?.map((name) => decideToolMode(name, given.declared));
  expect([...new Set(modes)]).toEqual([given.mode]);
});

test.each(CASES.filter((given) => given.patterns))("shared names match as in every language: $name", (given) => {
  expect(given.patterns?.filter(([pattern, name]) => matchesName(pattern, name) !== given.matches)).toEqual([]);
});

test.each(CASES.filter((given) => given.commands))(
  "shared commands can be granted as in every language: $name",
  (given) => {
    for (const command of given.commands ?? []) {
      const grant = () => policySet({ rules: [{ id: "always", effect: "allow", commands: [command] }] });
      if (given.refused) expect(grant, command).toThrow(/^rule always: .*(?:can run any program|plain words)/s);
      else expect(grant, command).not.toThrow();
    }
  },
);

test.each(CASES.filter((given) => given.rules && given.refused))(
  "a shared policy is refused in every language: $name",
  (given) => {
    const { rules = [], version, trustsNames = false, call = { tool: "x" } } = given;
    const policy = { rules, trustsNames, ...(version !== undefined && { version }) };
    if (given.call === undefined) expect(() => policySet(policy)).toThrow(RangeError);
    expect(() => decide(policy, call, { isAttended: true })).toThrow(RangeError);
  },
);

test.each(CASES.filter((given) => given.decision))(
  "a shared call has the decision of every language: $name",
  (given) => {
    const { rules = [], version, trustsNames = false, call = { tool: "" }, attended = true } = given;
    const policy = policySet({ rules, trustsNames, ...(version !== undefined && { version }) });
    const decision = decide(policy, call, { isAttended: attended });
    const refs = decision.policyRefs.map((ref) => ref.id);
    expect([decision.decision, decision.code, refs]).toEqual([given.decision, given.code, given.refs]);
    for (const [name, value] of Object.entries(given.also ?? {})) {
      expect((decision as Readonly<Record<string, unknown>>)[name] ?? null).toEqual(value);
    }
    expect(decide({ ...policy, rules: rules.toReversed() }, call, { isAttended: attended })).toEqual(decision);
    expect(PolicyDecision.parse(decision)).toEqual(decision);
  },
);

test("a policy holds so many rules and not one more", () => {
  const rules = Array.from({ length: RULES_MAX + 1 }, (_, number): Rule => ({ id: `r${number}`, effect: "deny" }));
  expect(() => policySet({ rules: rules.slice(1) })).not.toThrow();
  expect(() => policySet({ rules })).toThrow("too many rules: 1001, limit 1000");
});

test.each([
  [{ tools: "deploy_prod" }, 'rule a: tools takes a list of names, found a text: write ["deploy_prod"]'],
  [{ tools: null }, "rule a: tools takes a list of names, found null"],
  [{ tools: [["x"]] }, "rule a: tools takes names as texts, found a value of type array"],
  [{ modes: ["reads"] }, 'rule a: modes must be one of read, safe_write, destructive, local, external, found "reads"'],
  [{ tainted: "yes" }, 'rule a: tainted must be true or false, found "yes"'],
  [{ minShell: 5 }, "rule a: minShell must be one of safe, caution, dangerous, found a value of type number"],
])("a slip in a rule is refused with advice: %j", (fields, message) => {
  const rules = [{ id: "a", effect: "deny", ...fields }] as unknown as readonly Rule[];
  expect(() => policySet({ rules })).toThrow(message);
});

test("a declared mode that is not known is refused", () => {
  expect(() => decideToolMode("get_x", "reads" as ToolMode)).toThrow("declared must be one of read, ");
});

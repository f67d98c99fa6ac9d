import type { EvalCase, EvalComparison, EvalPair } from "@windlass/protocol/client";
import { describe, expect, it } from "vitest";
import { expectedIn, textOf } from "../src/add-to-dataset.js";
import { SEARCH } from "../src/addresses.js";
import { shellWord } from "../src/pages/datasets.js";
import { casesIn, interval, pairsIn, verdictWords } from "../src/pages/experiments.js";
import { searchIn } from "../src/router.js";
import { ruleWords } from "../src/rules.js";

function attempt(name: string, isPassed: boolean, more: Partial<EvalCase> = {}): EvalCase {
  const place = { experimentId: "e", repeat: 1, runId: `e/${name}/1`, sessionId: `e/${name}/1` };
  const facts = { score: isPassed ? 1 : 0, verdicts: [], input: "", output: "" };
  return { ...place, ...facts, status: "completed", name, isPassed, ...more };
}

describe("cases of experiments", () => {
  const cases = [
    attempt("a", true, { tags: ["smoke"], output: "Oslo" }),
    attempt("b", false, { input: "Rome" }),
    attempt("c", false, { tags: ["smoke"], expected: "Turin" }),
  ];
  it.each([
    ["", "b c a"],
    ["show=failed", "b c"],
    ["show=passed", "a"],
    ["tag=smoke", "c a"],
    ["text=OSLO", "a"],
    ["text=turin", "c"],
    ["text=rome&show=passed", ""],
  ])("an address with %s shows %s, failed ones first", (query, names) => {
    const found = casesIn(cases, searchIn(SEARCH.experiment, query));
    expect(found.map(({ name }) => name).join(" ")).toBe(names);
  });

  const pairs: EvalPair[] = [
    { name: "b", change: "broken", old: [attempt("b", true)], new: [attempt("b", false, { tags: ["smoke"] })] },
    { name: "f", change: "fixed", old: [attempt("f", false)], new: [attempt("f", true)] },
    { name: "s", change: "same", old: [attempt("s", false)], new: [attempt("s", false, { output: "Oslo" })] },
  ];
  it.each([
    ["", "b f s"],
    ["show=broken", "b"],
    ["show=failed", "b s"],
    ["tag=smoke", "b"],
    ["text=oslo", "s"],
  ])("a comparison with %s shows %s", (query, names) => {
    const found = pairsIn(pairs, searchIn(SEARCH.experiment, query));
    expect(found.map(({ name }) => name).join(" ")).toBe(names);
  });

  it("a verdict is told in words, and too few cases are called that", () => {
    const of = (verdict: "better" | "worse" | "unclear", some: EvalPair[]): string =>
      verdictWords({ comparison: { verdict }, pairs: some } as unknown as EvalComparison);
    expect(of("better", pairs)).toBe("The newer version passes more cases.");
    expect(of("worse", pairs)).toBe("The newer version passes fewer cases.");
    expect(of("unclear", pairs)).toMatch(/^3 cases of both are too few/u);
    expect(of("unclear", pairs.slice(2))).toBe("No case changed.");
  });

  it("intervals are short", () => {
    expect(interval({ value: 0.5, low: 0.31, high: 0.86 })).toBe("31–86 %");
    expect(interval({ value: 0.5 })).toBe("");
  });
});

describe("cases of data sets", () => {
  it("inputs and answers are texts to read", () => {
    expect(textOf(undefined)).toBe("");
    expect(textOf("Hello.")).toBe("Hello.");
    expect(textOf({ conversation: ["Hello.", "Bye."] })).toBe("Hello.\nBye.");
    expect(textOf({ price: 60 })).toBe('{\n  "price": 60\n}');
  });

  it("an edited answer stays data if it was data, and nothing is no answer", () => {
    expect(expectedIn("  ", "x")).toBeNull();
    expect(expectedIn("60", "x")).toBe("60");
    expect(expectedIn("60", 55)).toBe(60);
    expect(expectedIn('{"a":1}', { a: 2 })).toEqual({ a: 1 });
    expect(expectedIn("sixty", 55)).toBe("sixty");
  });

  it("a name in a command is quoted where a shell would cut it", () => {
    expect([shellWord("prices"), shellWord("my cases"), shellWord("it's")]).toEqual([
      "prices",
      "'my cases'",
      String.raw`'it'\''s'`,
    ]);
  });
});

describe("rules of schedules", () => {
  it.each([
    [{ everyS: 300 }, "every 5 min"],
    [{ everyS: 5 }, "every 5 s"],
    [{ cron: "* * * * *" }, "every minute"],
    [{ cron: "*/15 * * * *" }, "every 15 minutes"],
    [{ cron: "0 * * * *" }, "every hour"],
    [{ cron: "5 */2 * * *" }, "every 2 hours at :05"],
    [{ cron: "0 3 * * MON-FRI" }, "at 03:00, Monday to Friday"],
    [{ cron: "30 8,17 * * 1,3" }, "at 08:30 and 17:30, Monday, Wednesday"],
    [{ cron: "0 9 1 1,7 *" }, "at 09:00, on day 1 of the month in January, July"],
    [{ cron: "0 9 L * *" }, "at 09:00, on the last day of the month"],
    [{ cron: "0 9 1 * MON" }, "cron 0 9 1 * MON"],
    [{ cron: "0 9 * * MON#2" }, "cron 0 9 * * MON#2"],
    [{ cron: "0-10 9 * * *" }, "cron 0-10 9 * * *"],
    [{ cron: "0 0 9 * * *" }, "cron 0 0 9 * * *"],
    [{}, "never"],
  ])("%o is told as %s", (rule, words) => {
    expect(ruleWords(rule)).toBe(words);
  });
});

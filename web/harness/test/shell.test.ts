import { readFileSync } from "node:fs";

import type { CommandSafetyPattern } from "@windlass/protocol";
import { expect, test } from "vitest";

import type { Severity } from "../src/shell/index.js";
import { classifyShellCommand, loadShellGrammar, ShellConfig } from "../src/shell/index.js";

interface Row {
  readonly command: string;
  readonly expected: string;
}

function read(path: string): Uint8Array {
  return readFileSync(new URL(`../../../${path}`, import.meta.url));
}

/** The commands that people graded; a field that begins with a quote is JSON. */
function readRows(): readonly Row[] {
  const lines = Buffer.from(read("conformance/cases/safety/corpus.tsv"))
    .toString("utf-8")
    .trimEnd()
    .split("\n")
    .slice(1);
  return lines.map((line) => {
    const [field = "", expected = ""] = line.split("\t");
    const command = field.startsWith('"') ? (JSON.parse(field) as string) : field;
    return { command, expected };
  });
}

const ROWS = readRows();
const GRAMMAR = await loadShellGrammar(
  read("node_modules/tree-sitter-bash/tree-sitter-bash.wasm"),
  read("node_modules/web-tree-sitter/web-tree-sitter.wasm"),
);
const CONFIG = new ShellConfig([], "unix", GRAMMAR);
const RANK: readonly Severity[] = ["safe", "caution", "dangerous"];

test("the graded commands are many and of every grade", () => {
  expect(ROWS.length).toBeGreaterThan(300);
  expect(new Set(ROWS.map((row) => row.expected))).toEqual(new Set(RANK));
});

test.each(ROWS)("a graded command has the grade that people gave it: $command", ({ command, expected }) => {
  expect(classifyShellCommand(command, CONFIG).severity).toBe(expected);
});

test("without a grammar nothing is safe, and nothing else changes", () => {
  for (const { command, expected } of ROWS) {
    expect(classifyShellCommand(command).severity, command).toBe(expected === "safe" ? "caution" : expected);
  }
});

test("the worst reason comes first and names the category", () => {
  for (const { command } of ROWS) {
    const { category, reasons, severity } = classifyShellCommand(command, CONFIG);
    const ranks = reasons.map((reason) => RANK.indexOf(reason.severity));
    expect(ranks).toEqual(ranks.toSorted((one, other) => other - one));
    expect([category, severity]).toEqual(reasons[0] ? [reasons[0].code, reasons[0].severity] : ["read", "safe"]);
  }
});

test("a pattern of the host raises a grade on its platform and never lowers one", () => {
  const pattern: CommandSafetyPattern = {
    id: "no-log",
    label: "No logs",
    description: "Logs are private.",
    category: "host/log",
    severity: "critical",
    pattern: "\\.log$",
    platform: "unix",
  };
  const grade = (command: string, platform: "unix" | "windows", given = pattern): string =>
    classifyShellCommand(command, new ShellConfig([given], platform, GRAMMAR)).severity;
  expect(grade("cat build.log", "unix")).toBe("dangerous");
  expect(grade("cat build.txt", "unix")).toBe("safe");
  expect(grade("cat build.log", "windows")).toBe("safe");
  expect(grade("rm -rf build.log", "unix", { ...pattern, severity: "warning" })).toBe("dangerous");
  expect(grade("cat build.txt", "unix", { ...pattern, pattern: "(a+)+" })).toBe("caution");
});

test("what bash and other shells read differently is not safe on Windows", () => {
  const config = new ShellConfig([], "windows", GRAMMAR);
  expect(classifyShellCommand("cat a.txt", config).severity).toBe("safe");
  expect(classifyShellCommand("cat 'a.txt'", config).severity).toBe("caution");
});

test("a grader that fails does not let the command through", () => {
  const broken = new ShellConfig([], "unix", {
    parse: () => {
      throw new Error("no memory");
    },
  });
  expect(classifyShellCommand("ls", broken)).toMatchObject({ severity: "caution", category: "unknown/error" });
  const silent = new ShellConfig([], "unix", { parse: () => undefined });
  expect(classifyShellCommand("ls", silent)).toMatchObject({ severity: "caution", category: "unknown/parse" });
});

test("work beyond a limit is caution at least, and what was seen of it counts", () => {
  expect(classifyShellCommand("echo a; ".repeat(2_000), CONFIG).severity).toBe("caution");
  expect(classifyShellCommand(`rm -rf x; ${"echo a; ".repeat(2_000)}`, CONFIG).severity).toBe("dangerous");
  expect(classifyShellCommand(`ls ${"\u{1f600}".repeat(9_997)}`, CONFIG).severity).toBe("safe");
  expect(classifyShellCommand(`ls ${"\u{1f600}".repeat(9_998)}`, CONFIG).category).toBe("unknown/size");
});

test("the words of literal commands are told, and of nothing more than that", () => {
  const words = (command: string): unknown => classifyShellCommand(command, CONFIG).commands;
  expect(words("npm test 2>&1 && git status -s | head")).toEqual([["npm", "test"], ["git", "status", "-s"], ["head"]]);
  expect(words("git commit -m 'a b'")).toEqual([["git", "commit", "-m", "a b"]]);
  const more = [
    "npm test > out",
    "npm test $(id)",
    "npm test $x",
    "npm test *.js",
    "A=1 npm test",
    "npm test &",
    "(npm test)",
  ];
  for (const command of more) expect(words(command), command).toEqual([]);
  expect(classifyShellCommand("npm test").commands).toEqual([]);
});

test("what is not text is never safe, and the reason says so", () => {
  for (const value of [null, undefined, 5, ["ls"], {}]) {
    const verdict = classifyShellCommand(value as string, CONFIG);
    expect(verdict).toMatchObject({ severity: "caution", category: "unknown/type", commands: [] });
    expect(verdict.reasons[0]?.message).toBe("the command is not text");
  }
});

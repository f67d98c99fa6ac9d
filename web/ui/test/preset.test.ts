import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { compile } from "tailwindcss";
import { describe, expect, it, test } from "vitest";
import { styles } from "../styles/build.mjs";

const UI = new URL("../", import.meta.url);
const PRESET = readFileSync(new URL("styles/preset.css", UI), "utf8");

type Tokens = ReadonlyMap<string, string>;

const PAIRS = [...PRESET.matchAll(/--agent-([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);/gu)];
const THEMES: readonly (readonly [string, Tokens])[] = [
  ["light", new Map(PAIRS.map(([, name = "", light = ""]) => [name, light]))],
  ["dark", new Map(PAIRS.map(([, name = "", , dark = ""]) => [name, dark]))],
];

/** The contrast of two colours, as WCAG 2 reckons it. */
function contrast(first: string, second: string): number {
  const [low = 0, high = 0] = [luminance(first), luminance(second)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const part = parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const GROUNDS = ["bg", "surface", "raised", "code"];
const WORDS = ["text", "muted", "link", "accent-text", "danger-text", "success", "warning"];

describe.each(THEMES)("the %s colours", (_, tokens) => {
  const color = (name: string): string => tokens.get(name) ?? `no token ${name}`;

  it.each(GROUNDS.flatMap((ground) => WORDS.map((word) => [word, ground])))(
    "let %s be read on %s",
    (word = "", ground = "") => {
      expect(contrast(color(word), color(ground))).toBeGreaterThanOrEqual(4.5);
    },
  );

  it.each([
    ["on-accent", "accent"],
    ["on-accent", "accent-strong"],
    ["on-danger", "danger"],
    ["on-danger", "danger-strong"],
  ])("let %s be read on %s", (word, ground) => {
    expect(contrast(color(word), color(ground))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(GROUNDS.flatMap((ground) => ["model", "tool", "agent", "code", "wait"].map((kind) => [kind, ground])))(
    "show the bar of a %s on %s",
    (kind = "", ground = "") => {
      expect(contrast(color(`kind-${kind}`), color(ground))).toBeGreaterThanOrEqual(3);
    },
  );

  it.each(GROUNDS)("show the focus and the border of a field on %s", (ground) => {
    expect(contrast(color("focus"), color(ground))).toBeGreaterThanOrEqual(3);
    expect(contrast(color("field"), color(ground))).toBeGreaterThanOrEqual(3);
  });

  it.each([
    ["success", "success-soft"],
    ["danger-text", "danger-soft"],
    ["warning", "warning-soft"],
    ["accent-text", "accent-soft"],
    ["text", "accent-soft"],
    ["muted", "accent-soft"],
    ["danger-text", "accent-soft"],
    ["success", "accent-soft"],
    ["warning", "accent-soft"],
  ])("let %s be read on %s: badges, and rows that are selected", (word, ground) => {
    expect(contrast(color(word), color(ground))).toBeGreaterThanOrEqual(4.5);
  });
});

test("contrast is computed as the standard says", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21);
  expect(contrast("#777777", "#ffffff")).toBeCloseTo(4.48, 2);
});

test("every colour is defined once, for light and dark, and exists in Tailwind", () => {
  const names = PAIRS.map(([, name = ""]) => name);
  expect(new Set(names).size).toBe(names.length);
  expect(PRESET.match(/#[0-9a-f]{6}/gu)).toHaveLength(2 * names.length);
  expect([...PRESET.matchAll(/--color-agent-([\w-]+): var\(--agent-\1\);/gu)].map(([, name]) => name)).toEqual(names);
});

test("motion is over at once for those who want none, and a finger gets more room than a pointer", () => {
  expect(PRESET).toMatch(/prefers-reduced-motion: reduce\) \{\s*:root \{\s*--agent-motion: 0ms;/u);
  const sizes = [...PRESET.matchAll(/--agent-control: ([\d.]+)rem;/gu)].map(([, size]) => Number(size));
  expect(sizes).toHaveLength(2);
  expect(sizes[1]).toBeGreaterThan(sizes[0] ?? 0);
});

test("every colour of the components is one that Tailwind makes with the preset", async () => {
  const css = `@import "tailwindcss";\n${PRESET.replace('@source "../dist";', "")}`;
  const loadStylesheet = (id: string, base: string): Promise<{ path: string; base: string; content: string }> => {
    const path = fileURLToPath(import.meta.resolve(id === "tailwindcss" ? "tailwindcss/index.css" : id));
    return Promise.resolve({ path, base, content: readFileSync(path, "utf8") });
  };
  const sheet = await compile(css, { base: fileURLToPath(UI), loadStylesheet });
  const found = new Set<string>();
  const folder = new URL("src/", UI);
  for (const name of readdirSync(folder)) {
    const text = readFileSync(new URL(name, folder), "utf8");
    for (const [word] of text.matchAll(/[\w:[\]().%#-]*agent-[\w-]+/gu))
      if (!word.startsWith("--") && word !== "agent-ui") found.add(word);
  }
  expect(found.size).toBeGreaterThan(20);
  const made = sheet.build([...found]);
  const missing = [...found].filter((word) => !made.includes(`.${word.replaceAll(/[^\w-]/gu, (sign) => `\\${sign}`)}`));
  expect(missing).toEqual([]);
  expect(sheet.build(["bg-agent-nothing"])).not.toContain("agent-nothing");
});

test("the ready style sheet has every class of the components, and resets nothing outside of them", async () => {
  const sheet = await styles();
  for (const name of [".bg-agent-surface", ".text-agent-muted", ".min-h-agent-control", ".agent-ui", "--agent-bg:"])
    expect(sheet).toContain(name);
  expect(sheet).not.toContain("@import");
  expect(sheet).not.toContain("@theme");
  // What Tailwind resets stands inside of our element.
  expect(sheet).toMatch(/\.agent-ui a \{/u);
  expect(sheet).not.toMatch(/^\s*(?:html|body|a|button|hr|h1|ul|ol|img)[ ,:{]/mu);
  expect(sheet.length).toBeLessThan(100_000);
});

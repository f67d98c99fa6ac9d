import { describe, expect, it } from "vitest";
import {
  cut,
  formatAgo,
  formatClock,
  formatCost,
  formatDuration,
  formatMoment,
  formatPercent,
  formatShort,
  formatSigned,
  formatWhen,
  inOneLine,
  plural,
  sentence,
  shortHash,
} from "@windlass/ui";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

describe("durations", () => {
  it.each([
    [0, "0 ms"],
    [849.6, "850 ms"],
    [999.4, "999 ms"],
    [999.6, "1.0 s"],
    [1_240, "1.2 s"],
    [59_949, "59.9 s"],
    [59_950, "1 min"],
    [MINUTE + 12 * SECOND, "1 min 12 s"],
    [2 * MINUTE - 1, "2 min"],
    [HOUR - 1, "1 h"],
    [2 * HOUR + 4 * MINUTE + 29 * SECOND, "2 h 4 min"],
    [DAY - 1, "1 d"],
    [3 * DAY + HOUR + 20 * MINUTE, "3 d 1 h"],
  ])("%s ms is %s", (ms, text) => {
    expect(formatDuration(ms)).toBe(text);
  });

  it("no unit has as many as the next larger one", () => {
    for (let ms = 0; ms < 3 * DAY; ms = Math.ceil(ms * 1.003) + 7)
      expect(formatDuration(ms)).not.toMatch(/\b(?:60(?:\.0)? s|60 min|24 h|1000 ms)/u);
  });
});

describe("moments", () => {
  const at = (day: number, ms = 204): string => new Date(2026, 10, day, 4, 13, 9, ms).toISOString();

  it("a moment of another day names the day", () => {
    const now = new Date(2026, 10, 16, 12).getTime();
    expect(formatMoment(at(16), now)).toBe("04:13:09.204");
    expect(formatMoment(at(15, 7), now)).toBe("15 Nov 2026, 04:13:09.007");
    expect(formatWhen(at(16))).toBe("Mon 16 Nov 2026, 04:13:09");
  });

  it("a text that is no moment is shown as it is", () => {
    expect([formatWhen("yesterday"), formatMoment("")]).toEqual(["yesterday", ""]);
  });

  it.each([
    [0, "just now"],
    [-5 * SECOND, "in a moment"],
    [119 * SECOND, "1 min ago"],
    [-61 * MINUTE, "in 1 h"],
    [50 * HOUR, "2 d ago"],
  ])("%s ms ago is %s", (ms, text) => {
    const now = Date.parse("2026-11-16T12:00:00Z");
    expect(formatAgo(new Date(now - ms).toISOString(), now)).toBe(text);
  });
});

it("the time of a message has its day unless that is today", () => {
  const at = (day: number): string => new Date(2026, 10, day, 9, 5).toISOString();
  const now = new Date(2026, 10, 17, 12).getTime();
  expect([at(17), at(16)].map((one) => formatClock(one, now))).toEqual(["09:05", "16 Nov 2026, 09:05"]);
});

it("money keeps the digits that tell it from nothing", () => {
  expect([0, 42, 4_200, 42_000, 610_400, 12_340_000].map(formatCost)).toEqual([
    "$0",
    "$0.000042",
    "$0.0042",
    "$0.042",
    "$0.610",
    "$12.34",
  ]);
});

it("large counts are short", () => {
  expect([7, 999, 18_904, 3_400_000].map(formatShort)).toEqual(["7", "999", "18.9k", "3.4M"]);
});

it("shares have one digit where it says something, and differences a sign", () => {
  expect([0, 0.05, 0.625, 1 / 3, 1, 20].map(formatPercent)).toEqual([
    "0 %",
    "5 %",
    "62.5 %",
    "33.3 %",
    "100 %",
    "2,000 %",
  ]);
  expect([0.25, -0.25, 0].map((share) => formatSigned(share, formatPercent))).toEqual([
    "+25 %",
    "−25 %",
    "no difference",
  ]);
});

it("a hash is told by its beginning, without its kind", () => {
  expect([shortHash("sha256:0123456789abcdef"), shortHash("0123456789abcdef")]).toEqual(["01234567", "01234567"]);
});

it.each([
  [1, "delivery", "1 delivery"],
  [2, "delivery", "2 deliveries"],
  [0, "key", "0 keys"],
  [3, "crash", "3 crashes"],
  [1_000, "run", "1,000 runs"],
])("%s of %s is %s", (count, word, text) => {
  expect(plural(count, word)).toBe(text);
});

it("arguments are told in one line by their names and values, which hide nothing", () => {
  expect(inOneLine({ order: 7, reason: "it\nbroke", tags: ["a"] })).toBe('order 7, reason it broke, tags ["a"]');
  expect([inOneLine("as it is"), inOneLine([1]), inOneLine({})]).toEqual(["as it is", "[1]", ""]);
  expect(inOneLine({ name: "a\u202eb" })).toBe(String.raw`name a\u202eb`);
  expect(inOneLine({ long: "x".repeat(500) })).toHaveLength(120);
});

it("a text is not cut inside a character, and an error hides nothing", () => {
  expect(cut("ab😀c", 4)).toBe("ab…");
  expect(sentence("paid \u202e05 to ann")).toBe("Paid \\u202e05 to ann");
});

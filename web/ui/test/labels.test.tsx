import "./dom.js";
import { act, fireEvent, render, screen } from "@testing-library/react";
import { isValidElement, type ReactNode } from "react";
import { describe, expect, it, vi } from "vitest";
import { PAGES } from "../gallery/pages.js";
import { CostMeter } from "../src/chat.js";
import { ENGLISH, LabelsProvider, useWording, type SomeLabels } from "../src/labels.js";
import { Markdown } from "../src/markdown.js";
import { ApprovalCard } from "../src/requests.js";
import { TraceTree } from "../src/trace.js";
import { withHeight } from "./dom.js";
import { APPROVAL, TRACE } from "./samples.js";

type Told = (...given: readonly unknown[]) => string;

/** Labels with a mark around every text. */
function marked(labels: object): SomeLabels {
  const entries = Object.entries(labels).map(([name, value]: [string, unknown]) => {
    if (typeof value === "function") return [name, (...given: unknown[]) => `⟦${(value as Told)(...given)}⟧`];
    return [name, typeof value === "string" ? `⟦${value}⟧` : marked(value as object)];
  });
  return Object.fromEntries(entries) as SomeLabels;
}

const MARKED = marked(ENGLISH);
const ATTRIBUTES = ["aria-label", "aria-description", "aria-valuetext", "placeholder", "title", "alt"];
/** Fields whose values choose a label, and are not shown themselves. */
const CHOICES = new Set(["status", "kind", "mode", "role", "stage", "style", "display", "outcome", "className"]);

/** Data that states hold inside, by page. */
const INSIDE: Readonly<Record<string, string>> = {
  ChatPanel: "You said. This gallery has no server, so that is all.",
  MessageList: "Nothing was said yet.",
  Chip: "fold waits, errors only",
  Dialog: "Stop the run? What was said stays.",
  RepeatDialog: "Ask again",
  Arguments: "Arguments of refund: cents, reason. The lamp arrived broken. Twice.",
  EditButton: "Arguments of refund: cents, reason. The lamp arrived broken. Twice.",
  SessionList: "Book the hotel",
  DataTable: "Sales: Name, Cents. Rope, Anchor.",
};
const ESCAPES = /\\(?:u[0-9a-f]{4}|[n"])/gu;
/** A text of this length may be cut in the middle of a word. */
const CUT_CHARS_MIN = 100;
const PRESSED_MAX = 5;
const SETTLED_MS = 200;

/** What stands outside of all marks. */
function unmarked(text: string): string {
  const inner = text.replace(/⟦[^⟦⟧]*⟧/gu, "");
  return inner === text ? text : unmarked(inner);
}

function wordsIn(text: string): string[] {
  return text.match(/\p{L}+/gu) ?? [];
}

/** All words of the data that a state draws, those of its elements included. */
function dataOf(value: unknown, found: Set<string>, seen = new Set<unknown>()): Set<string> {
  if (typeof value === "string") for (const word of wordsIn(value)) found.add(word);
  if (typeof value !== "object" || value === null || seen.has(value)) return found;
  seen.add(value);
  const isElement = isValidElement<object>(value);
  for (const [name, inner] of Object.entries(isElement ? value.props : value) as [string, unknown][]) {
    if (CHOICES.has(name) && typeof inner === "string") continue;
    if (!isElement) for (const word of wordsIn(name)) found.add(word);
    dataOf(inner, found, seen);
  }
  return found;
}

/** Texts and attributes with words that are neither labels nor data. */
function strange(data: ReadonlySet<string>): string[] {
  const texts: string[] = [];
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = nodes.nextNode(); node !== null; node = nodes.nextNode())
    if (node.parentElement?.closest("time") === null) texts.push(node.textContent ?? "");
  for (const element of document.body.querySelectorAll(":not(time)"))
    for (const name of ATTRIBUTES) texts.push(element.getAttribute(name) ?? "");
  return texts.filter((text) => {
    const whole = text.length < CUT_CHARS_MIN ? text : text.replace(/\p{L}+…$/u, "");
    return wordsIn(unmarked(whole).replace(ESCAPES, " ")).some((word) => !data.has(word));
  });
}

/** Lets a transport tell what it has. */
async function settle(): Promise<void> {
  await act(() => vi.advanceTimersByTimeAsync(SETTLED_MS));
}

describe("with marked labels, nothing but data is unmarked, also behind buttons", () => {
  const states = PAGES.flatMap(({ name, states: all }) => all.map((state) => [name, state.name, state] as const));

  it.each(states)("%s: %s", async (page, _, state) => {
    vi.useFakeTimers();
    const undo = withHeight(600);
    try {
      const scene = state.draw();
      const data = dataOf([scene, INSIDE[page]], new Set(["true", "false", "null"]));
      render(<LabelsProvider labels={MARKED}>{scene}</LabelsProvider>);
      await settle();
      expect(strange(data)).toEqual([]);
      const isLong = state.name === "Long" || state.name === "Hostile";
      for (const button of [...document.body.querySelectorAll("button")].slice(0, isLong ? 0 : PRESSED_MAX)) {
        fireEvent.click(button);
        await settle();
        expect(strange(data)).toEqual([]);
      }
    } finally {
      undo();
      vi.useRealTimers();
    }
  });
});

function leaves(labels: object): string[] {
  return Object.entries(labels).flatMap(([name, value]: [string, unknown]) =>
    typeof value === "object" ? leaves(value ?? {}).map((inner) => `${name}.${inner}`) : [name],
  );
}

it("words are replaced one by one, and the others stay; an inner provider adds to the outer one", () => {
  const outer: SomeLabels = { requests: { approve: (tool) => `${tool} erlauben?`, reason: "Grund" } };
  const inner: SomeLabels = {
    requests: { reason: "Warum?", option: ({ id, label }) => ({ deny: "Nein" })[id] ?? label },
  };
  let found: object = {};
  function Look(): ReactNode {
    found = useWording().labels;
    return null;
  }
  render(
    <LabelsProvider labels={outer}>
      <LabelsProvider labels={inner}>
        <ApprovalCard request={APPROVAL} onAnswer={() => undefined} />
        <Look />
      </LabelsProvider>
    </LabelsProvider>,
  );
  expect(screen.getByRole("group", { name: "pay erlauben?" })).toBeTruthy();
  expect(screen.getByRole("textbox", { name: "Warum?" })).toBeTruthy();
  expect(screen.getByRole("button", { name: "Edit" })).toBeTruthy();
  expect(screen.getAllByRole("button").map(({ textContent }) => textContent)).toContain("Nein");
  expect(leaves(found)).toEqual(leaves(ENGLISH));
});

it("numbers and times are those of the locale", () => {
  const usage = { usage: { inputTokens: 12_400, costMicros: 6_300 }, steps: 1, toolCalls: 2, delegated: {} };
  const labels: SomeLabels = {
    units: { spaces: (count) => `${count} Leerzeichen` },
    cost: { calls: (count, text) => `${text} ${count === 1 ? "Aufruf" : "Aufrufe"}` },
  };
  const expiresAt = new Date(2026, 0, 31, 9, 30).toISOString();
  const action = { ...APPROVAL.action, input: { note: `a${" ".repeat(1_200)}b` } };
  render(
    <LabelsProvider locale="de" labels={labels}>
      <CostMeter usage={usage} />
      <ApprovalCard request={{ ...APPROVAL, action, expiresAt }} onAnswer={() => undefined} nowMs={0} />
    </LabelsProvider>,
  );
  expect(document.body.textContent).toContain("12.400 in · 0 out · 2 Aufrufe · 0,0063\u00a0$");
  expect(document.body.textContent).toContain("a\\[1.200 Leerzeichen]b");
  expect(document.querySelector("time")?.textContent).toMatch(/^Lapses at Sa., 31. Jan. 2026, 09:30:00$/u);
});

it("a trace is found by the words that are shown", () => {
  render(
    <LabelsProvider labels={{ trace: { kinds: { model: "Modell" }, modelCall: () => "Anfrage" } }}>
      <TraceTree traces={[TRACE]} />
    </LabelsProvider>,
  );
  expect(screen.getByText("5 spans")).toBeTruthy();
  fireEvent.change(screen.getByRole("searchbox"), { target: { value: "modell" } });
  expect(screen.getByText("2 of 5 spans")).toBeTruthy();
});

it("footnotes have a heading of the reader's language", () => {
  render(
    <LabelsProvider labels={{ markdown: { footnotes: "Fußnoten" } }}>
      <Markdown text={"Fish[^1]\n\n[^1]: Cod."} />
    </LabelsProvider>,
  );
  expect(screen.getByText("Fußnoten")).toBeTruthy();
});

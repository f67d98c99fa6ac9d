import "./dom.js";
import { render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { expect, it } from "vitest";
import { ChatPanel } from "../src/chat.js";
import { Journal, play } from "../gallery/play.js";
import { PAGE_RECORDS } from "../src/session.js";
import type { Transport } from "../src/transport.js";
import type { JsonObject, UserContent } from "@windlass/protocol";
import type { FeedItem } from "@windlass/protocol/client";

const STEP = { sequence: 0, turnId: "turn_0", stepIndex: 0 };

/** Adds a step that makes a call. */
function call(journal: Journal, toolName: string, mode = "external", isBegun = true): Journal {
  const input = { cents: 2_500 };
  const step = { ...STEP, stepIndex: journal.events.length };
  const callId = `c${step.stepIndex}`;
  const action = { kind: "tool-call", callId, toolName, input };
  journal.add("step.started", step).add("actions.requested", { ...step, actions: [action] });
  if (!isBegun) return journal;
  const result = { kind: "tool-result", callId, toolName, output: "ok" };
  return journal
    .add("action.started", { ...step, callId, toolName, mode, arguments: input, idempotencyKey: "k" })
    .add("action.result", { ...step, result, status: "completed" });
}

/** A run that made a call and failed behind it. */
function failedAfter(toolName: string, mode: string, isBegun = true): Journal {
  return call(new Journal().begin("Pay."), toolName, mode, isBegun).fail("unavailable", "gone");
}

/** Adds a message to the run under way. */
function steer(journal: Journal, message: string, more: JsonObject = {}): Journal {
  return journal.add("message.received", { message, delivery: "steer", sequence: 0, turnId: "turn_0", ...more });
}

const BILL = {
  type: "file",
  data: "data:application/pdf;base64,AAAA",
  mediaType: "application/pdf",
  filename: "a.pdf",
};
const PICTURE = { type: "image", image: "data:image/png;base64,AAAA", mediaType: "image/png" };

interface Heard {
  /** Messages that were sent and runs that were continued. */
  readonly heard: (string | UserContent)[];
  readonly user: ReturnType<typeof userEvent.setup>;
}

function open(journal: Journal, changes: Partial<Transport> = {}): Heard {
  const heard: (string | UserContent)[] = [];
  const transport: Transport = {
    ...play(journal),
    ...changes,
    send: (sessionId, message) => {
      heard.push(typeof message === "string" ? `send ${message}` : message);
      return Promise.resolve({ sessionId });
    },
    retry: (runId) => {
      heard.push(`retry ${runId}`);
      return Promise.resolve({ sessionId: "s1", runId: `retry:${runId}` });
    },
  };
  render(<ChatPanel transport={transport} sessionId="s1" />);
  return { heard, user: userEvent.setup() };
}

it("continues a failed run, and says nothing again", async () => {
  const { heard, user } = open(failedAfter("charge", "external"));
  await user.click(await screen.findByRole("button", { name: "Continue" }));
  await waitFor(() => {
    expect(heard).toEqual(["retry r1"]);
  });
});

it("continues a failed run that began without words, such as with files alone", async () => {
  const { heard, user } = open(new Journal().begin("").fail("unavailable", "gone"));
  await user.click(await screen.findByRole("button", { name: "Continue" }));
  await waitFor(() => {
    expect(heard).toEqual(["retry r1"]);
  });
  expect(screen.queryByRole("button", { name: "Ask again" })).toBeNull();
});

it("names the calls that may be repeated before words are sent again", async () => {
  const { heard, user } = open(failedAfter("charge", "external"));
  const again = await screen.findByRole("button", { name: "Ask again" });
  await user.click(again);
  let dialog = await screen.findByRole("dialog", { name: "Make these calls again?" });
  expect(within(dialog).getByRole("listitem").textContent).toMatch(/charge[^]*2,?500/u);
  await user.click(within(dialog).getByRole("button", { name: "Do not ask" }));
  expect(heard).toEqual([]);
  await user.click(again);
  dialog = await screen.findByRole("dialog", { name: "Make these calls again?" });
  await user.click(within(dialog).getByRole("button", { name: "Ask again" }));
  expect(heard).toEqual(["send Pay."]);
});

it.each([
  ["a call that only reads", failedAfter("look", "read")],
  ["a call that was never begun", failedAfter("charge", "external", false)],
])("asks again at once after %s", async (_, journal) => {
  const { heard, user } = open(journal);
  await user.click(await screen.findByRole("button", { name: "Ask again" }));
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(heard).toEqual(["send Pay."]);
});

it("offers no Continue after a cancel", async () => {
  const cancelled = new Journal().begin("Pay.").add("run.cancelled", { runId: "r1", reason: "Stopped." });
  open(cancelled);
  await screen.findByRole("button", { name: "Ask again" });
  expect(screen.queryByRole("button", { name: "Continue" })).toBeNull();
});

/** The names of the calls in the question that Ask again opens; it is then answered with yes. */
async function namedCalls({ user }: Heard): Promise<readonly string[]> {
  await user.click(await screen.findByRole("button", { name: "Ask again" }));
  const dialog = await screen.findByRole("dialog", { name: "Make these calls again?" });
  const names = within(dialog)
    .getAllByRole("listitem")
    .map((item) => item.querySelector("p")?.textContent ?? "");
  await user.click(within(dialog).getByRole("button", { name: "Ask again" }));
  return names;
}

it("names every call of a run that was steered, and sends all its messages again", async () => {
  const journal = call(new Journal().begin("Pay."), "charge");
  steer(call(steer(journal, "In euros."), "refund"), "Be quick.");
  const page = open(call(journal, "look", "read").fail("unavailable", "gone"));
  expect(await namedCalls(page)).toEqual(["charge", "refund"]);
  expect(page.heard).toEqual(["send Pay.\n\nIn euros.\n\nBe quick."]);
});

it("names the calls on both sides of an answer to a question and of what a hook added", async () => {
  const journal = call(new Journal().begin("Pay."), "charge");
  const ask = { kind: "tool-call", callId: "q", toolName: "ask_question", input: {} };
  const request = { requestId: "r", action: ask, prompt: "Which card?", kind: "question", allowFreeform: true };
  const resolution = { requestId: "r", outcome: "answered", response: { requestId: "r", text: "The blue one" } };
  journal
    .add("message.received", { message: "", context: ["Hi"], delivery: "hook", sequence: 0, turnId: "turn_0" })
    .add("actions.requested", { ...STEP, actions: [ask] })
    .add("input.requested", { ...STEP, requests: [request] })
    .add("input.resolved", { ...STEP, resolutions: [resolution] })
    .add("message.received", { message: "", context: ["No"], delivery: "correction", sequence: 0, turnId: "turn_0" });
  const page = open(call(journal, "refund").fail("unavailable", "gone"));
  expect(await namedCalls(page)).toEqual(["charge", "refund"]);
  expect(page.heard).toEqual(["send Pay."]);
});

it("names the calls of a failed run and of the run that continued it", async () => {
  const journal = call(new Journal().begin("Pay."), "charge").fail("unavailable", "gone");
  journal.add("run.started", { runId: "r2", agentId: "clerk", retryOf: "r1" });
  steer(call(journal, "refund"), "Hurry.");
  const error = { code: "unavailable", kind: "provider_failure", retry: "retryable", message: "gone" };
  const page = open(call(journal, "mail").add("run.failed", { runId: "r2", error }));
  expect(await namedCalls(page)).toEqual(["charge", "refund", "mail"]);
  expect(page.heard).toEqual(["send Pay.\n\nHurry."]);
});

it("leaves out the calls and messages of the run before", async () => {
  const journal = call(new Journal().begin("Pay."), "charge").end("Paid.").begin("Pay it back.");
  const page = open(call(journal, "refund").fail("unavailable", "gone"));
  expect(await namedCalls(page)).toEqual(["refund"]);
  expect(page.heard).toEqual(["send Pay it back."]);
});

it("sends the files of messages again, in their order", async () => {
  const text = { type: "text", text: "Pay this." };
  const journal = new Journal().begin("Pay this.", [text, BILL]);
  steer(steer(journal, "Or that."), "", { parts: [PICTURE] });
  const { heard, user } = open(journal.fail("unavailable", "gone"));
  const again = await screen.findByRole("button", { name: "Ask again" });
  expect(again.title).toMatch(/Pay this\.\nOr that\.$/u);
  await user.click(again);
  expect(heard).toEqual([[text, BILL, { type: "text", text: "Or that." }, PICTURE]]);
});

it("asks again with files alone, and names them", async () => {
  const { heard, user } = open(new Journal().begin("", [BILL, PICTURE]).fail("unavailable", "gone"));
  const again = await screen.findByRole("button", { name: "Ask again" });
  expect(again.title).toMatch(/a\.pdf, picture$/u);
  await user.click(again);
  expect(heard).toEqual([[BILL, PICTURE]]);
});

/** The newest records of a journal first, page by page, as a server sends them. */
function paged(journal: Journal, isAway = false): Pick<Transport, "events"> {
  const page = journal.events.map((event, at): FeedItem => ({ event, cursor: String(at + 1) }));
  return {
    async *events(_, { last = Infinity, before, signal, onState }) {
      if (before !== undefined && isAway) throw new Error("the earlier records are gone");
      onState?.({ status: "open" });
      const items = page.slice(0, before === undefined ? undefined : before - 1);
      yield* items.slice(Math.max(items.length - last, 0));
      if (before === undefined) await new Promise((resolve) => signal?.addEventListener("abort", resolve));
    },
  };
}

/** A run of several pages that was steered behind its first call. */
function longRun(): Journal {
  const journal = steer(call(new Journal().begin("Pay."), "charge"), "In euros.");
  while (journal.events.length < 3 * PAGE_RECORDS) call(journal, "look", "read");
  return call(journal, "refund").fail("unavailable", "gone");
}

it("reads a long run from its first message on before it names the calls", async () => {
  const journal = longRun();
  const page = open(journal, paged(journal));
  expect(await namedCalls(page)).toEqual(["charge", "refund"]);
  expect(page.heard).toEqual(["send Pay.\n\nIn euros."]);
});

it("sends nothing again while the beginning of the run cannot be read", async () => {
  const journal = longRun();
  const { heard, user } = open(journal, paged(journal, true));
  await user.click(await screen.findByRole("button", { name: "Ask again" }));
  await screen.findByText(/earlier records are gone/u);
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(heard).toEqual([]);
});

import "./dom.js";
import { render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { expect, it } from "vitest";
import { ChatPanel } from "../src/chat.js";
import { Journal, play } from "../gallery/play.js";
import type { Transport } from "../src/transport.js";

const STEP = { sequence: 0, turnId: "turn_0", stepIndex: 0 };

/** A run that made a call and failed behind it. */
function failedAfter(toolName: string, mode: string, isBegun = true): Journal {
  const input = { cents: 2_500 };
  const action = { kind: "tool-call", callId: "c1", toolName, input };
  const journal = new Journal().begin("Pay.").add("actions.requested", { ...STEP, actions: [action] });
  if (isBegun) {
    const result = { kind: "tool-result", callId: "c1", toolName, output: "ok" };
    journal
      .add("action.started", { ...STEP, callId: "c1", toolName, mode, arguments: input, idempotencyKey: "k" })
      .add("action.result", { ...STEP, result, status: "completed" });
  }
  return journal.fail("unavailable", "gone");
}

function open(journal: Journal): { readonly heard: string[]; readonly user: ReturnType<typeof userEvent.setup> } {
  const heard: string[] = [];
  const transport: Transport = {
    ...play(journal),
    send: (sessionId, message) => {
      heard.push(`send ${typeof message === "string" ? message : "parts"}`);
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

import { withHeight } from "./dom.js";
import {
  EMPTY_CONVERSATION,
  reduceConversation,
  type CallStatus,
  type ChatItem,
  type InputRequest,
  type InputResponse,
} from "@windlass/protocol";
import { act, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { afterEach, beforeEach, describe, expect, it, test, vi } from "vitest";
import { CostMeter } from "../src/chat.js";
import { DecisionCard } from "../src/decisions.js";
import { MessageList, OrchestrationPlanCard, planOf, ToolCallRenderer } from "../src/messages.js";
import { ApprovalCard, QuestionCard, RequestCard, wordsOf } from "../src/requests.js";
import { SSEStreamView, TraceTree } from "../src/trace.js";
import { record } from "../../protocol/test/fakes.js";
import { APPROVAL, CALL, DECISION, events, message, QUESTION, TRACE } from "./samples.js";

const names = (role: string): (string | null)[] => screen.queryAllByRole(role).map((element) => element.textContent);

describe("an approval", () => {
  it("shows exactly what will be done, and answers for those arguments alone", async () => {
    const user = userEvent.setup();
    const onAnswer = vi.fn<(response: InputResponse) => void>();
    render(<ApprovalCard request={APPROVAL} onAnswer={onAnswer} />);
    expect(screen.getByRole("group", { name: "Arguments of pay" }).textContent).toBe("cents9900to“<b>Fjord Inn</b>”");
    expect(names("button")).toEqual(["Edit", "Approve", "Approve every call of pay in this session", "Deny"]);
    screen.getByLabelText("Reason (optional)").focus();
    await user.keyboard("too expensive");
    await user.tab();
    await user.tab();
    await user.tab();
    await user.keyboard("{Enter}");
    const { argumentsHash } = APPROVAL;
    expect(onAnswer.mock.calls).toEqual([
      [{ requestId: "q1", optionId: "deny", text: "too expensive", argumentsHash }],
    ]);
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
  });

  it("shows the arguments once, also if the prompt repeats them", () => {
    const { input } = APPROVAL.action;
    // As the server lays them out: in order of their names, with what cannot be seen made visible.
    const laidOut = '{\n  "note": "a\\u200bb\\[12 spaces]c",\n  "zeta": "\\U000e0101"\n}';
    const odd = { zeta: "\u{e0101}", note: `a\u200bb${" ".repeat(12)}c` };
    const action = { ...APPROVAL.action, input: odd };
    const prompt = `Run pay? It costs money.\n${laidOut}`;
    expect(wordsOf({ ...APPROVAL, action, prompt })).toBe("It costs money.");
    expect(wordsOf({ ...APPROVAL, prompt: `Run pay? It costs money.\n${JSON.stringify(input)}` })).toBe(
      "It costs money.",
    );
    // Any other text of the prompt is shown: other arguments, or text of the product.
    expect(wordsOf({ ...APPROVAL, prompt })).toContain("spaces");
    expect(wordsOf({ ...APPROVAL, prompt: "Pay?\nThink twice." })).toBe("Pay?\nThink twice.");
    render(
      <ToolCallRenderer
        view={{ ...CALL, status: "waiting", request: { ...APPROVAL, action, prompt } }}
        onAnswer={() => undefined}
        isOpen
      />,
    );
    expect(screen.getAllByText(/zeta/u)).toHaveLength(1);
    expect(screen.getByRole("group", { name: "Arguments of pay" }).textContent).toBe(
      "zeta“\\U000e0101”note“a\\u200bb\\[12 spaces]c”",
    );
  });

  it("is given for changed arguments: a text stays a text, anything else must be JSON", async () => {
    const user = userEvent.setup();
    const onAnswer = vi.fn<(response: InputResponse) => void>();
    render(<ApprovalCard request={APPROVAL} onAnswer={onAnswer} />);
    await user.click(screen.getByRole("button", { name: "Edit" }));
    // Nothing is changed yet, and nothing is approved for the session with arguments that nobody saw.
    expect(names("button")).toEqual(["Undo changes", "Approve", "Deny"]);
    await user.clear(screen.getByLabelText("cents"));
    await user.type(screen.getByLabelText("cents"), "much");
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
    screen.getByText(/^Expected JSON, such as 12, true or \[1, 2\]/u);
    // It would be rounded to another number.
    await user.clear(screen.getByLabelText("cents"));
    await user.type(screen.getByLabelText("cents"), "9007199254740993");
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
    await user.clear(screen.getByLabelText("cents"));
    await user.type(screen.getByLabelText("cents"), "20");
    await user.clear(screen.getByLabelText("to"));
    await user.type(screen.getByLabelText("to"), "7{Enter}8");
    await user.click(screen.getByRole("button", { name: "Approve with changes" }));
    const { argumentsHash } = APPROVAL;
    const changed = { cents: 20, to: "7\n8" };
    expect(onAnswer.mock.calls).toEqual([
      [{ requestId: "q1", optionId: "approve", argumentsHash, arguments: changed }],
    ]);
  });

  it("that could not be sent shows the reason, and can be answered again", async () => {
    const onAnswer = vi.fn(() => Promise.reject(new Error("the server is away")));
    render(<ApprovalCard request={APPROVAL} onAnswer={onAnswer} />);
    fireEvent.click(screen.getByRole("button", { name: "Approve" }));
    expect((await screen.findByRole("alert")).textContent).toBe("The server is away");
    fireEvent.click(screen.getByRole("button", { name: "Approve" }));
    await waitFor(() => {
      expect(onAnswer).toHaveBeenCalledTimes(2);
    });
  });

  it("that could not be sent says so until the connection is back", async () => {
    const onAnswer = vi.fn(() => Promise.reject(new Error("the server is away")));
    const { rerender } = render(<ApprovalCard request={APPROVAL} onAnswer={onAnswer} reconnects={0} />);
    fireEvent.click(screen.getByRole("button", { name: "Approve" }));
    await screen.findByRole("alert");
    rerender(<ApprovalCard request={APPROVAL} onAnswer={onAnswer} reconnects={0} />);
    expect(screen.queryByRole("alert")).not.toBeNull();
    rerender(<ApprovalCard request={APPROVAL} onAnswer={onAnswer} reconnects={1} />);
    expect(screen.queryByRole("alert")).toBeNull();
  });

  it("that has lapsed cannot be answered", () => {
    const expiresAt = "2026-01-31T09:30:00Z";
    const { rerender } = render(
      <ApprovalCard
        request={{ ...APPROVAL, expiresAt }}
        onAnswer={() => undefined}
        nowMs={Date.parse(expiresAt) - 1}
      />,
    );
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(false);
    rerender(
      <ApprovalCard request={{ ...APPROVAL, expiresAt }} onAnswer={() => undefined} nowMs={Date.parse(expiresAt)} />,
    );
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Approve" }).disabled).toBe(true);
    expect(screen.getByText("This request has lapsed.")).toBeTruthy();
  });

  it("without options of its own has the usual two", () => {
    render(<RequestCard request={{ ...APPROVAL, options: undefined, kind: undefined }} onAnswer={() => undefined} />);
    expect(names("button")).toEqual(["Edit", "Approve", "Deny"]);
  });
});

describe("a question", () => {
  it("is answered with an option, by keyboard", async () => {
    const user = userEvent.setup();
    const onAnswer = vi.fn<(response: InputResponse) => void>();
    render(<RequestCard request={QUESTION} onAnswer={onAnswer} />);
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Answer" }).disabled).toBe(true);
    await user.tab();
    // Held: an option is picked when it gets the focus, a moment after the key goes down.
    await user.keyboard(" {ArrowDown>}");
    await waitFor(() => {
      expect(screen.getByRole("radio", { name: "Bergen" }).getAttribute("aria-checked")).toBe("true");
    });
    await user.keyboard("{/ArrowDown}");
    await user.click(screen.getByRole("button", { name: "Answer" }));
    expect(onAnswer.mock.calls).toEqual([[{ requestId: "q2", optionId: "bergen" }]]);
  });

  it("has options that hide nothing", () => {
    const options = [{ id: "red", label: "\u202eder", description: "not\u200bhing" }];
    render(<QuestionCard request={{ ...QUESTION, options }} onAnswer={() => undefined} />);
    expect(screen.getByRole("radiogroup").textContent).toBe("\\u202edernot\\u200bhing");
  });

  it("is answered with text", async () => {
    const user = userEvent.setup();
    const onAnswer = vi.fn<(response: InputResponse) => void>();
    render(<QuestionCard request={{ ...QUESTION, options: undefined, display: "text" }} onAnswer={onAnswer} />);
    await user.type(screen.getByRole("textbox", { name: "Your answer" }), "Tromsø");
    await user.click(screen.getByRole("button", { name: "Answer" }));
    expect(onAnswer.mock.calls).toEqual([[{ requestId: "q2", text: "Tromsø" }]]);
  });
});

describe("a call", () => {
  it("shows its arguments and its result as text, when it is opened", async () => {
    const { container } = render(<ToolCallRenderer view={CALL} />);
    const trigger = screen.getByRole("button", { name: /pay.*destructive.*done.*1\.2 s/u });
    expect(screen.queryByRole("group", { name: "Result" })).toBeNull();
    await userEvent.setup().click(trigger);
    expect(screen.getByRole("group", { name: "Result" }).textContent).toBe("<script>paid</script>");
    expect(container.querySelector("script")).toBeNull();
  });

  it.each<[CallStatus, string]>([
    ["writing", "being written"],
    ["requested", "requested"],
    ["waiting", "waits for approval"],
    ["running", "running"],
    ["failed", "failed"],
    ["denied", "denied"],
    ["abandoned", "never finished"],
  ])("that is %s says so in words", (status, words) => {
    render(<ToolCallRenderer view={{ ...CALL, status, progress: undefined }} />);
    expect(screen.getByRole("button").textContent).toContain(words);
  });

  it("is drawn by its own renderer, if there is one for its name", () => {
    const renderers = { pay: () => <b>own</b> };
    const { rerender } = render(<ToolCallRenderer view={CALL} renderers={renderers} isOpen />);
    expect(screen.getByText("own")).toBeTruthy();
    rerender(
      <ToolCallRenderer view={{ ...CALL, call: { ...CALL.call, name: "toString" } }} renderers={renderers} isOpen />,
    );
    expect(screen.queryByText("own")).toBeNull();
  });
});

describe("a list of messages", () => {
  let restore: (() => void) | undefined;
  afterEach(() => restore?.());

  it("draws only the visible rows of ten thousand", () => {
    restore = withHeight(600);
    const items = Array.from({ length: 10_000 }, (_, n) => message(n));
    const { container } = render(<MessageList items={items} />);
    const drawn = container.querySelectorAll("article").length;
    expect(drawn).toBeGreaterThan(0);
    expect(drawn).toBeLessThan(60);
  });

  it("has the calls of a program below the call of the program", () => {
    const of = (id: string, name: string, parentCallId?: string) => ({
      ...CALL,
      key: id,
      call: { id, name, arguments: {}, ...(parentCallId === undefined ? {} : { parentCallId }) },
    });
    const calls = [of("c1", "run_code"), of("c2", "look"), of("c1/0", "pay", "c1"), of("x/0", "stray", "x")];
    render(<MessageList items={[{ ...message(1), calls } as ChatItem]} />);
    const inside = screen.getByRole("group", { name: "Calls of run_code" });
    expect(within(inside).getAllByRole("button")).toHaveLength(1);
    expect(within(inside).getByRole("button", { name: /pay/u })).toBeTruthy();
    const all = screen.getAllByRole("button").map((button) => button.textContent);
    const order = ["run_code", "pay", "look", "stray"].map((name) => all.findIndex((text) => text.includes(name)));
    expect(order).toEqual([...order].toSorted((a, b) => a - b));
  });

  it("draws a row again only when it changed", () => {
    const seen: string[] = [];
    const Own = ({ view }: { readonly view: { readonly key: string } }) => {
      seen.push(view.key);
      return null;
    };
    const row = (n: number): ChatItem =>
      ({ ...message(n), calls: [{ ...CALL, key: `k${n}`, status: "waiting", request: APPROVAL }] }) as ChatItem;
    const [first, second] = [row(1), row(2)];
    const renderers = { pay: Own };
    const list = (items: readonly ChatItem[]) => <MessageList items={items} renderers={renderers} />;
    const { rerender } = render(list([first, second]));
    for (const button of screen.getAllByRole("button", { name: /pay/u })) fireEvent.click(button);
    const before = seen.length;
    rerender(list([first, second, message(3)]));
    expect(seen.length).toBe(before);
  });

  it("announces finished messages once, and never deltas", () => {
    const live = { ...message(1), isLive: true } as ChatItem;
    const { rerender } = render(<MessageList items={[live]} />);
    expect(screen.getByRole("status").textContent).toBe("");
    rerender(<MessageList items={[message(1)]} />);
    expect(screen.getByRole("status").textContent).toBe("message 1");
    rerender(
      <MessageList items={[message(1), { kind: "request", id: "q", request: QUESTION }]} onAnswer={() => undefined} />,
    );
    expect(screen.getByRole("status").textContent).toBe("The agent asks: Which city?");
  });

  it("stays at its end until the user scrolls away, and returns on demand", () => {
    const { rerender } = render(<MessageList items={[message(1)]} />);
    const log = screen.getByRole("log");
    const size = { scrollHeight: 1_000, clientHeight: 300 };
    for (const [name, value] of Object.entries(size)) Object.defineProperty(log, name, { configurable: true, value });
    rerender(<MessageList items={[message(1), message(2)]} />);
    expect(log.scrollTop).toBe(1_000);
    Object.defineProperty(log, "scrollHeight", { configurable: true, value: 2_000 });
    fireEvent.scroll(log); // The rows grew, and the user did not scroll.
    expect(screen.queryByRole("button", { name: "Newest" })).toBeNull();
    Object.defineProperty(log, "scrollHeight", { configurable: true, value: 1_000 });
    fireEvent.wheel(log);
    log.scrollTop = 100;
    fireEvent.scroll(log);
    rerender(<MessageList items={[message(1), message(2), message(3)]} />);
    expect(log.scrollTop).toBe(100);
    fireEvent.click(screen.getByRole("button", { name: "Newest" }));
    expect(log.scrollTop).toBe(1_000);
    expect(screen.queryByRole("button", { name: "Newest" })).toBeNull();
  });

  it("shows notes: truncated text, errors, retries, stops", () => {
    const notes: ChatItem[] = [
      { kind: "note", id: "1", note: { kind: "partial", id: "1", at: 0, text: "half a *sen*" } },
      { kind: "note", id: "2", note: { kind: "error", id: "2", at: 0, code: "x", text: "It broke.", isPassing: true } },
      {
        kind: "note",
        id: "3",
        note: { kind: "error", id: "3", at: 0, code: "x", text: "It is broken.", isPassing: false },
      },
      { kind: "note", id: "4", note: { kind: "compacted", id: "4", at: 0, text: "" } },
      { kind: "note", id: "5", note: { kind: "cancelled", id: "5", at: 0, text: "Stopped." } },
    ];
    render(<MessageList items={notes} />);
    const log = within(screen.getByRole("log"));
    expect(log.getByText("It broke. Retrying.")).toBeTruthy();
    expect(log.getByText("It is broken.")).toBeTruthy();
    expect(log.getByLabelText("The agent began to say").textContent).toContain("half a sen");
  });

  it("shows the reasoning of the model on demand", () => {
    render(<MessageList items={[{ ...message(1), reasoning: "hmm" } as ChatItem]} />);
    fireEvent.click(screen.getByRole("button", { name: "Reasoning" }));
    expect(screen.getByText("hmm")).toBeTruthy();
  });
});

test("a question is Markdown that can format words, and nothing else", () => {
  const prompt = "**Which** city?\n\n- Oslo\n\n<img src=x onerror=alert(1)> [go](javascript:alert(1))";
  const { container } = render(<RequestCard request={{ ...QUESTION, prompt }} onAnswer={() => undefined} />);
  expect(container.querySelector("strong")?.textContent).toBe("Which");
  expect(container.querySelectorAll("img, script, a[href^=javascript]")).toHaveLength(0);
});

test("an interrupted call shows its arguments line by line, what is known, and takes a result", async () => {
  const user = userEvent.setup();
  const onAnswer = vi.fn();
  const options = ["retry", "skip", "supply"].map((id) => ({ id, label: `${id} it`, description: `risk of ${id}` }));
  const action = { ...APPROVAL.action, input: { to: "ann\nbob\u202e" } };
  const request: InputRequest = { ...APPROVAL, action, kind: "recovery", display: "select", options };
  const answer = { outcome: "approved", at: "2026-01-31T09:29:00Z", by: "ann", isChanged: false } as const;
  const known = { startedAt: "2026-01-31T09:30:00Z", attempt: 2, idempotencyKey: "r1/0/c1", answer };
  const nowMs = Date.parse("2026-01-31T09:37:30Z");
  const { container } = render(<RequestCard request={request} known={known} onAnswer={onAnswer} nowMs={nowMs} />);
  expect(screen.getByText(/\(7 min ago\)$/u)).toBeTruthy();
  expect(screen.getByText(/^ann, /u)).toBeTruthy();
  expect(screen.getAllByText(/^(?:Run it again|It did happen|Leave it)$/u)).toHaveLength(3);
  expect(container.textContent).toContain("“ann\nbob\\u202e”");
  for (const text of ["2", "r1/0/c1", "risk of retry", "risk of skip", "risk of supply"])
    expect(screen.getByText(text)).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Supply result…" }));
  await user.keyboard("done");
  await user.click(screen.getByRole("button", { name: "Supply result" }));
  expect(onAnswer.mock.calls).toMatchObject([[{ optionId: "supply", text: "done" }]]);
});

describe("a trace", () => {
  let restore: () => void;
  beforeEach(() => {
    restore = withHeight(320);
  });
  afterEach(() => {
    restore();
  });

  it("is navigated by arrow keys, opened and closed, and names what is selected", async () => {
    const user = userEvent.setup();
    const onSelect = vi.fn();
    const { rerender } = render(<TraceTree traces={[TRACE]} onSelect={onSelect} />);
    await user.tab();
    screen.getByRole("tree").focus();
    const press = async (key: string): Promise<void> => {
      await user.keyboard(key);
      const node = onSelect.mock.lastCall?.[0] as { id: string } | undefined;
      rerender(<TraceTree traces={[TRACE]} selected={node?.id} onSelect={onSelect} />);
    };
    await press("{ArrowDown}");
    await press("{ArrowDown}");
    await press("{ArrowDown}");
    expect(onSelect.mock.lastCall).toMatchObject([{ name: "pay", kind: "tool" }]);
    expect(screen.getByRole("treeitem", { selected: true }).textContent).toContain("pay");
    await press("{ArrowLeft}");
    expect(onSelect.mock.lastCall).toMatchObject([{ kind: "agent" }]);
    await press("{ArrowLeft}");
    expect(screen.getAllByRole("treeitem")).toHaveLength(2);
    await press("{ArrowRight}");
    expect(screen.getAllByRole("treeitem")).toHaveLength(5);
  });

  it("shows what is found, with the spans around it", () => {
    render(<TraceTree traces={[TRACE]} />);
    fireEvent.change(screen.getByLabelText("Find in trace"), { target: { value: "PAY" } });
    expect(screen.getAllByRole("treeitem").map((row) => row.getAttribute("aria-level"))).toEqual(["1", "2"]);
    expect(screen.getByRole("status").textContent).toBe("2 of 5 spans");
    fireEvent.change(screen.getByLabelText("Find in trace"), { target: { value: "nowhere" } });
    expect(screen.getByText("No span fits.")).toBeTruthy();
  });

  it("without spans says so", () => {
    render(<TraceTree traces={[{ spans: [], events: [] }]} />);
    expect(screen.getByText("No spans yet.")).toBeTruthy();
  });
});

test("a decision shows its choice, its outcome and the other options", () => {
  const { container } = render(<DecisionCard decision={DECISION} />);
  expect(container.textContent).toContain("Chose pay: Pay now");
  expect(container.textContent).toContain("It failed: no money 1.5 s");
  expect(container.textContent).toContain("It did not serve the goal. Better: wait.");
  fireEvent.click(screen.getByRole("button", { name: "1 other option" }));
  expect(container.textContent).toContain("40 % sure");
  expect(container.textContent).toContain("− late");
});

test("a meter shows tokens, calls and money, and how much of the tightest budget is used", () => {
  const usage = {
    usage: { inputTokens: 1_200, outputTokens: 34, costMicros: 2_500 },
    steps: 2,
    toolCalls: 3,
    delegated: { costMicros: 500 },
  };
  const { rerender } = render(<CostMeter usage={usage} />);
  expect(screen.getByText("1,200 in · 34 out · 3 calls · $0.0030")).toBeTruthy();
  expect(screen.queryByRole("progressbar")).toBeNull();
  rerender(<CostMeter usage={usage} budget={{ maxSteps: 8, maxToolCalls: 4 }} />);
  expect(screen.getByRole("progressbar").getAttribute("aria-valuenow")).toBe("75");
});

test("a plan shows the agent of each task", () => {
  const called = {
    callId: "c1",
    childSessionId: "s2",
    sessionId: "s1",
    name: "scout",
    toolName: "scout",
    sequence: 0,
    turnId: "t",
  };
  const state = reduceConversation(EMPTY_CONVERSATION, [
    record(1, "subagent.called", called),
    record(2, "subagent.called", { ...called, callId: "c2", name: "clerk" }),
    record(3, "subagent.completed", { callId: "c1", subagentName: "scout", output: "found it" }),
  ]);
  render(<OrchestrationPlanCard steps={planOf(state)} />);
  expect(names("listitem")).toEqual(["✓scout completedfound it", "▸clerk running"]);
  expect(screen.getByText("1 of 2 done")).toBeTruthy();
});

test("a view of a stream draws visible rows only, filters by type, and shows data on demand", () => {
  const restore = withHeight(320);
  render(<SSEStreamView events={events(10_000)} />);
  expect(screen.getAllByRole("button").length).toBeLessThan(60);
  fireEvent.change(screen.getByRole("searchbox"), { target: { value: "message" } });
  expect(screen.getByRole("group", { name: "Events: 5,000 rows" })).toBeTruthy();
  const [first] = screen.getAllByRole("button");
  act(() => {
    first?.click();
  });
  expect(first?.parentElement?.textContent).toContain('"at": 1');
  restore();
});

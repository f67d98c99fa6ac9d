import "./dom.js";
import { render } from "@testing-library/react";
import axe from "axe-core";
import type { ReactNode } from "react";
import { expect, it } from "vitest";
import { ChatPanel, CostMeter } from "../src/chat.js";
import { DecisionCard } from "../src/decisions.js";
import { Markdown } from "../src/markdown.js";
import { MessageList, OrchestrationPlanCard, ToolCallRenderer } from "../src/messages.js";
import { ApprovalCard, QuestionCard } from "../src/requests.js";
import { SSEStreamView, TraceTree } from "../src/trace.js";
import { httpTransport } from "../src/http.js";
import { APPROVAL, CALL, DECISION, events, message, QUESTION, TRACE } from "./samples.js";

const TALLY = { usage: { inputTokens: 5, costMicros: 7 }, steps: 1, toolCalls: 1, delegated: {} };
const MARKDOWN =
  "# T\n\n- [x] a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```ts\nx\n```\n\n[x](https://example.com) ![alt](https://example.com/x.png)";

const SCENES: readonly (readonly [string, ReactNode])[] = [
  ["ChatPanel", <ChatPanel key="x" transport={httpTransport({ baseUrl: "http://127.0.0.1:1" })} />],
  [
    "MessageList",
    <MessageList
      key="x"
      items={[message(1, "user"), message(2), { kind: "request", id: "q", request: QUESTION }]}
      onAnswer={() => undefined}
    />,
  ],
  ["Markdown", <Markdown key="x" text={MARKDOWN} />],
  [
    "ToolCallRenderer",
    <ToolCallRenderer
      key="x"
      view={{ ...CALL, status: "waiting", request: APPROVAL }}
      onAnswer={() => undefined}
      isOpen
    />,
  ],
  ["ApprovalCard", <ApprovalCard key="x" request={APPROVAL} onAnswer={() => undefined} />],
  ["QuestionCard", <QuestionCard key="x" request={QUESTION} onAnswer={() => undefined} />],
  ["OrchestrationPlanCard", <OrchestrationPlanCard key="x" steps={[{ id: "1", title: "a", status: "running" }]} />],
  ["SSEStreamView", <SSEStreamView key="x" events={events(20)} />],
  ["TraceTree", <TraceTree key="x" traces={[TRACE]} />],
  ["DecisionCard", <DecisionCard key="x" decision={DECISION} />],
  ["CostMeter", <CostMeter key="x" usage={TALLY} budget={{ maxSteps: 4 }} />],
];

async function violations(scene: ReactNode): Promise<string[]> {
  const { container } = render(<main>{scene}</main>);
  // Colours are those of a style sheet that is not loaded here; the test of the tokens looks at them.
  const { violations: found } = await axe.run(container, {
    rules: { "color-contrast": { enabled: false }, region: { enabled: false } },
  });
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
}

it.each(SCENES)(
  "%s has nothing that axe objects to",
  async (_, scene) => {
    expect(await violations(scene)).toEqual([]);
  },
  30_000,
);

it("reports a field without a name", async () => {
  expect(await violations(<input type="text" />)).toHaveLength(1);
});

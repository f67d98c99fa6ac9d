/** Things to draw that tests do not need: long ones, and such as mean harm. */
import type { CallView, ChatItem, InputRequest } from "@windlass/protocol";
import { APPROVAL, CALL, message } from "../test/samples.js";
import { Journal } from "./play.js";

export const MARKDOWN = `## Harbour of Bergen

The **fish market** opens at *seven*. It has ~~no~~ many stalls, [a page](https://example.com/market) and:

1. cod
2. crab
   - [x] fresh
   - [ ] cheap

> Bring a bag.

| stall | price |
|---|---:|
| cod | 120 |
| crab | 340 |

\`\`\`ts
const dinner = stalls.filter(({ price }) => price < 200);
\`\`\`

Then \`npm run lunch\`.`;

export const HOSTILE = `# Free <script>document.title = "hacked"</script>money

<img src="http://evil.example/pixel.png" onerror="document.title = 'hacked'">
<svg onload="document.title = 'hacked'"></svg><iframe src="http://evil.example"></iframe>

![pixel](http://evil.example/pixel.png) [run me](javascript:document.title='hacked') [data](data:text/html,<script>1</script>) [good](https://example.com/)

| a | b |
|---|---|
| <img src=x onerror=alert(1)> | [x](vbscript:1) |

${"unbroken".repeat(60)}`;

/** Words with a sign that turns the order of what follows around, and many blanks. */
export const DECEIT = { path: "invoice-\u202Efdp.exe", note: `harmless${" ".repeat(60)}rm -rf /`, zero: "a\u200Bb" };

export const LONG = Array.from(
  { length: 40 },
  (_, at) => `Sentence ${at + 1} of a very long text, which a reader scrolls through to its very end.`,
).join(" ");

/** A request for consent with another tool and other arguments. */
export function approval(
  toolName: string,
  input: InputRequest["action"]["input"],
  changes: Partial<InputRequest> = {},
): InputRequest {
  const action = { kind: "tool-call", callId: toolName, toolName, input } as const;
  const prompt = `Run ${toolName}? A tool of mode external needs a person's consent.\n${JSON.stringify(input, undefined, 2)}`;
  return { ...APPROVAL, requestId: toolName, action, prompt, ...changes };
}

/** A call of another tool. */
export function call(name: string, changes: Partial<CallView> = {}): CallView {
  return { ...CALL, key: `m/${name}`, call: { id: name, name, arguments: { city: "Bergen" } }, ...changes };
}

export function withCalls(item: ChatItem, calls: readonly CallView[]): ChatItem {
  return item.kind === "message" ? { ...item, calls } : item;
}

export function live(item: ChatItem): ChatItem {
  return item.kind === "message" ? { ...item, isLive: true, reasoning: "The market is closed on Sundays." } : item;
}

export const TALK: readonly ChatItem[] = [
  message(1, "user", "What can I eat in Bergen?"),
  withCalls(message(2, "assistant", MARKDOWN), [call("weather")]),
  message(3, "user", "And to drink?"),
];

/** A long talk, as a session has it. */
export function longTalk(): Journal {
  const journal = new Journal();
  for (let at = 1; at <= 80; at += 1) journal.begin(`Question ${at}?`).end(at % 10 === 0 ? MARKDOWN : `Answer ${at}.`);
  return journal;
}

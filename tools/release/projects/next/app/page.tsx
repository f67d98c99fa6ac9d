// A server component: it decodes on the server, and renders a component of @windlass/ui without a wrapper.
import { decode, ToolCall } from "@windlass/protocol";
import { JsonView } from "@windlass/ui";
import { Chat } from "./chat";

export default function Page() {
  const call = decode(ToolCall, '{"id":"c1","name":"look","arguments":{"place":"Oslo"}}');
  return (
    <main>
      <h1>{call.name}</h1>
      <JsonView title="Arguments" value={call.arguments} />
      <Chat />
    </main>
  );
}

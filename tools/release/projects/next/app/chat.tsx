"use client";

import { AgentProvider, ChatPanel, httpTransport } from "@windlass/ui";

const transport = httpTransport({ baseUrl: "http://127.0.0.1:8700" });

export function Chat() {
  return (
    <AgentProvider transport={transport}>
      <ChatPanel title="Clerk" agent="clerk" />
    </AgentProvider>
  );
}

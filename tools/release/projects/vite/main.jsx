import { AgentProvider, ChatPanel, httpTransport } from "@windlass/ui";
import "@windlass/ui/styles.css";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

const transport = httpTransport({ baseUrl: "http://127.0.0.1:8700" });
const panel = createElement(ChatPanel, { title: "Clerk", agent: "clerk" });
createRoot(document.getElementById("root")).render(createElement(AgentProvider, { transport }, panel));

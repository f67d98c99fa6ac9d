import "./dom.js";
import { childDuplex, RpcPeer, SidecarClient } from "@windlass/protocol/client";
import { act, render, renderHook, screen, waitFor, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { StrictMode } from "react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { AgentProvider, useAgentSession } from "../src/session.js";
import { ChatPanel } from "../src/chat.js";
import { httpTransport } from "../src/http.js";
import { sidecarTransport } from "../src/sidecar.js";
import type { Transport } from "../src/transport.js";
import { JumpingClock } from "../../protocol/test/fakes.js";
import { FakeServer } from "./fake-server.js";

interface Place {
  readonly transport: Transport;
  /** Calls that reached the other side, by name. */
  readonly heard: () => readonly string[];
}

let close: () => Promise<unknown>;
let server: FakeServer;

async function http(): Promise<Place> {
  server = new FakeServer();
  const baseUrl = await server.open();
  close = () => server.scene.close();
  const transport = httpTransport({ baseUrl, clock: new JumpingClock() });
  return { transport, heard: () => server.asked.map(({ method, path }) => `${method} ${path}`) };
}

function sidecar(): Promise<Place> {
  const child = spawn(process.execPath, [
    fileURLToPath(new URL("../../protocol/test/fake-sidecar.mjs", import.meta.url)),
  ]);
  const peer = new RpcPeer(childDuplex(child));
  const client = new SidecarClient(peer);
  const heard: string[] = [];
  const call = peer.call.bind(peer);
  peer.call = (method, ...rest) => {
    heard.push(method);
    return call(method, ...rest);
  };
  close = () => {
    peer.close();
    return peer.closed;
  };
  return Promise.resolve({
    transport: sidecarTransport(client, { provider: "demo", model: "guide" }),
    heard: () => heard,
  });
}

afterEach(() => close());

/** The component tree: independent of the transport. */
function mount({ transport }: Place): ReturnType<typeof userEvent.setup> {
  render(
    <StrictMode>
      <AgentProvider transport={transport}>
        <ChatPanel title="Clerk" />
      </AgentProvider>
    </StrictMode>,
  );
  return userEvent.setup();
}

describe.each([
  ["HTTP and server-sent events", http, "POST /v1/runs/r1/cancel"],
  ["a sidecar", sidecar, "agent.chat.cancel"],
] as const)("one tree over %s", (_, open, cancelCall) => {
  it("shows text, a call, an approval answered by keyboard, and the end", async () => {
    const user = mount(await open());
    await user.type(screen.getByRole("textbox", { name: "Message" }), "ask{Enter}");
    const log = within(screen.getByRole("log", { name: "Clerk" }));
    await log.findByText("Let me see. 🌍");
    expect(log.getByLabelText("You said").textContent).toMatch(/^ask/u);
    const card = within(await log.findByRole("group", { name: "Approve pay?" }));
    expect(card.getByRole("group", { name: "Arguments of pay" }).textContent).toBe("cents5");
    card.getByRole("button", { name: "Approve" }).focus();
    await user.keyboard("{Enter}");
    await log.findByText("All paid.");
    expect(log.queryByRole("group", { name: "Approve pay?" })).toBeNull();
    expect(log.getByRole("button", { name: /pay.*done/u })).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
    expect(screen.getByText("3 in · 4 out", { exact: false })).toBeTruthy();
  });

  it("has the stage of the current session, and changes it", async () => {
    const { transport } = await open();
    const { result } = renderHook(() => useAgentSession({ transport }));
    const sessionId = await act(() => result.current.create());
    await waitFor(() => {
      expect(result.current.session).toMatchObject({ sessionId, currentStage: "START", isActive: true });
    });
    const change = { currentStage: "PAYING", nextStage: null, stageData: { cents: 5 } };
    expect(await act(() => result.current.update(change))).toMatchObject({ sessionId, ...change });
    expect(result.current.session).toMatchObject({ sessionId, ...change });
  });

  it("creates a session with its chat, scenario, project and first stage", async () => {
    const { transport } = await open();
    const { result } = renderHook(() => useAgentSession({ transport }));
    const document = {
      chatId: "chat-7",
      currentStage: "PLANNING",
      scenario: "travel",
      stageData: { city: "Oslo" },
      projectId: "p1",
    };
    const sessionId = await act(() => result.current.create(document));
    await waitFor(() => {
      expect(result.current.session).toMatchObject({ sessionId, ...document });
    });
  });

  it("cancels the remote run, and keeps the shown messages", async () => {
    const place = await open();
    const user = mount(place);
    await user.type(screen.getByRole("textbox", { name: "Message" }), "ask{Enter}");
    await screen.findByRole("group", { name: "Approve pay?" });
    await user.click(screen.getByRole("button", { name: "Stop" }));
    expect(place.heard()).not.toContain(cancelCall);
    await user.click(screen.getByRole("button", { name: "Stop the run" }));
    await screen.findAllByText("Stopped.");
    expect(place.heard()).toContain(cancelCall);
    expect(screen.getByText("Let me see. 🌍")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
    expect(screen.queryByRole("group", { name: "Approve pay?" })).toBeNull();
  });

  it("shows an error, and keeps the shown messages", async () => {
    const user = mount(await open());
    await user.type(screen.getByRole("textbox", { name: "Message" }), "fail{Enter}");
    await screen.findAllByText("The model is gone");
    expect(screen.getByText("All paid.")).toBeTruthy();
  });
});

it("shows a run as failed when the sidecar breaks off its stream, and goes on with the next message", async () => {
  const user = mount(await sidecar());
  const box = screen.getByRole("textbox", { name: "Message" });
  await user.type(box, "break{Enter}");
  await screen.findAllByText("The sidecar shuts down");
  expect(screen.getByText("All paid.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
  await user.type(box, "go{Enter}");
  const log = within(screen.getByRole("log", { name: "Clerk" }));
  await waitFor(() => {
    expect(log.getAllByText("All paid.")).toHaveLength(2);
  });
});

it("shows the message of a run that never began as failed", async () => {
  const place = await sidecar();
  const user = mount(place);
  await user.type(screen.getByRole("textbox", { name: "Message" }), "exit{Enter}");
  await screen.findAllByText("The sidecar is gone");
  expect(screen.getByLabelText("You said").textContent).toMatch(/^exit/u);
  expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
});

it("resumes after a broken connection in the middle of an answer", async () => {
  const user = mount(await http());
  await user.type(screen.getByRole("textbox", { name: "Message" }), "hang{Enter}");
  await screen.findByText("Let me see. 🌍");
  server.cut();
  await waitFor(() => {
    expect(server.scene.requests.filter(({ pathname }) => pathname.endsWith("/events")).length).toBeGreaterThan(1);
  });
  await user.keyboard("{Escape}");
  await user.click(screen.getByRole("button", { name: "Stop the run" }));
  await screen.findAllByText("Stopped.");
  expect(screen.getAllByText("Let me see. 🌍")).toHaveLength(1);
});

it("speaks from a page that came over plain HTTP, where a browser makes no UUIDs", async () => {
  const { transport } = await http();
  vi.spyOn(crypto, "randomUUID").mockImplementation(() => {
    throw new TypeError("crypto.randomUUID is not a function");
  });
  expect(await transport.createSession({ message: "hang" })).toEqual({ sessionId: "s1", runId: "r1" });
  vi.restoreAllMocks();
});

it("restores the text of a message that could not be sent, with the reason", async () => {
  const place = await http();
  const user = mount(place);
  const box = screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Message" });
  await close();
  await user.type(box, "ask{Enter}");
  expect((await screen.findByRole("alert")).textContent).toContain("could not be reached");
  expect(box.value).toBe("ask");
});

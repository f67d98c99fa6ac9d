import "../../ui/test/dom.js";
import { EMPTY_CONVERSATION, reduceConversation, type Conversation } from "@windlass/protocol";
import { RpcClosed, SidecarClient, streamNumbers, type RpcPeer } from "@windlass/protocol/client";
import { render, screen, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createElement, StrictMode, type FunctionComponent } from "react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { app, BrowserWindow, type PagePort } from "./electron.js";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const PYTHON = process.env["PYTHON"] ?? join(ROOT, ".venv/bin/python");
const PATH = process.env["PATH"] ?? "";
const WAIT = { timeout: 120_000, interval: 20 };

const load = <T>(name: string): Promise<T> => import(/* @vite-ignore */ `./page/${name}`) as Promise<T>;
await load("main.mjs");
const { App, connect } = await load<{ App: FunctionComponent; connect: () => Promise<RpcPeer> }>("app.tsx");
await vi.waitFor(() => {
  expect(BrowserWindow.last).toBeDefined();
});
const page = BrowserWindow.last as BrowserWindow;
const PAGE_URL = new URL("index.html", new URL("page/main.mjs", import.meta.url)).href;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "windlass-electron-"));
  const program = join(folder, "windlass-sidecar");
  // The command of this checkout, which notes the ids of its processes.
  writeFileSync(program, `#!/bin/sh\necho $$ >> "${folder}/pids"\nexec "${PYTHON}" -m windlass_sidecar "$@"\n`);
  chmodSync(program, 0o755);
  writeFileSync(join(folder, "pids"), "");
  process.env["PATH"] = folder + delimiter + PATH;
  app.userData = folder;
});
afterEach(async () => {
  page.navigate(PAGE_URL);
  await vi.waitFor(() => {
    expect(pids().filter(isAlive)).toEqual([]);
  }, WAIT);
  process.env["PATH"] = PATH;
  rmSync(folder, { recursive: true, force: true });
});

/** The processes of all sidecars that were started. */
function pids(): number[] {
  const lines = readFileSync(join(folder, "pids"), "utf8").trim().split("\n");
  return lines.filter((line) => line !== "").map(Number);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const failure = (work: Promise<unknown>): Promise<unknown> => work.then(String, (error: unknown) => error);

const chat = (content: string) =>
  ({
    provider: "demo",
    model: "guide",
    messages: [{ role: "user", content }],
    requestInput: true,
    shape: "events",
    sessionId: "s1",
    streamId: "st1",
  }) as const;

/** Reads a stream up to its end; `decide` is called when people are asked. */
async function read(
  client: SidecarClient,
  content: string,
  decide: (state: Conversation) => Promise<void>,
): Promise<{ state: Conversation; types: string[] }> {
  const numbered = streamNumbers();
  const types: string[] = [];
  let state = EMPTY_CONVERSATION;
  const { notices } = await client.stream(chat(content));
  for await (const notice of notices) {
    if (notice.type !== "event") continue;
    types.push(notice.event.type);
    state = reduceConversation(state, [numbered(notice.event)]);
    if (notice.event.type === "run.waiting") await decide(state);
  }
  return { state, types };
}

async function approve(client: SidecarClient, { chat: { requests } }: Conversation): Promise<void> {
  for (const { requestId } of requests.values()) await client.answer("st1", { requestId, optionId: "approve" });
}

const lastText = ({ chat: { messages } }: Conversation): string | undefined =>
  messages.findLast(({ role }) => role === "assistant")?.content;

describe("a page over the bridge of docs/electron.md", () => {
  it("chats, sees a tool call, and answers an approval", async () => {
    const client = new SidecarClient(await connect());
    const { state } = await read(client, "weather in Oslo, then pay", (state) => approve(client, state));
    expect(lastText(state)).toMatch(/weather says: Rain all day in Oslo.*pay says: paid 1 cents/su);
    expect((await client.listSessions()).map(({ sessionId }) => sessionId)).toEqual(["s1"]);
  });

  it("sees that the sidecar was killed, and continues its stream with another", async () => {
    const peer = await connect();
    const first = new SidecarClient(peer);
    const broken = await failure(
      read(first, "weather in Oslo, then pay", () => {
        process.kill(pids()[0] ?? 0, "SIGKILL");
        return Promise.resolve();
      }),
    );
    expect(broken).toBeInstanceOf(RpcClosed);
    expect(await peer.closed).toBeUndefined();
    expect(await failure(first.ping())).toBeInstanceOf(RpcClosed);

    const second = new SidecarClient(await connect());
    const { state, types } = await read(second, "weather in Oslo, then pay", (state) => approve(second, state));
    expect(lastText(state)).toContain("paid 1 cents");
    expect(types.filter((type) => type === "action.result")).toHaveLength(2);
    expect(types.filter((type) => type === "input.requested")).toHaveLength(1);
    expect(pids()).toHaveLength(2);
  });

  it("that is closed ends its sidecar, also in the middle of a run, and the next page continues the run", async () => {
    const client = new SidecarClient(await connect());
    const left = read(client, "pay", () => {
      page.close();
      return Promise.resolve();
    });
    void failure(left);
    await vi.waitFor(() => {
      expect(pids().map(isAlive)).toEqual([false]);
    }, WAIT);
    page.navigate(PAGE_URL);
    const next = new SidecarClient(await connect());
    const { state } = await read(next, "pay", (state) => approve(next, state));
    expect(lastText(state)).toContain("paid 1 cents");
  });

  it("lets go of the sidecar by itself: calls under way end, and so does the process", async () => {
    const peer = await connect();
    const client = new SidecarClient(peer);
    const waiting = failure(
      read(client, "pay", () => {
        peer.close();
        return Promise.resolve();
      }),
    );
    expect(await waiting).toBeInstanceOf(RpcClosed);
    await peer.closed;
    await vi.waitFor(() => {
      expect(pids().map(isAlive)).toEqual([false]);
    }, WAIT);
  });

  it("sends and gets frames of megabytes, whole", async () => {
    const client = new SidecarClient(await connect());
    const content = `hello ${"Ø🌍".repeat(150_000)}`;
    const { state } = await read(client, content, () => Promise.resolve());
    expect(state.chat.messages[0]?.content === content).toBe(true);
    expect(lastText(state)).toContain("I am a demo");
    expect(await client.request("system.ping", { text: "x".repeat(7 * 1_048_576) })).toMatchObject({ status: "ok" });
    expect(await failure(client.request("system.ping", { text: "x".repeat(8 * 1_048_576) }))).toMatchObject({
      name: "CodecError",
    });
    expect(await client.ping()).toMatchObject({ status: "ok" });
  });

  it("that sends what is no frame gets errors, and the sidecar goes on", async () => {
    const peer = await connect();
    const port = page.pagePorts.at(-1) as PagePort;
    const errors: string[] = [];
    port.addEventListener("message", ({ data }) => {
      const { id, error } = JSON.parse(String(data)) as { id: unknown; error?: { code: number } };
      if (id === null && error !== undefined) errors.push(String(error.code));
    });
    for (const message of [{ jsonrpc: "2.0" }, 7, null, new Uint8Array(8)]) port.postMessage(message);
    for (const text of ["no JSON", '{"jsonrpc":"2.0"', "[]", "\ud800", "x".repeat(9 * 1_048_576)])
      port.postMessage(text);
    expect(await new SidecarClient(peer).ping()).toMatchObject({ status: "ok" });
    await vi.waitFor(() => {
      expect(errors).toHaveLength(5);
    }, WAIT);
    expect(pids().map(isAlive)).toEqual([true]);
  });

  it("sees the end when there is no sidecar to start", async () => {
    process.env["PATH"] = "/nowhere";
    const peer = await connect();
    expect(await failure(new SidecarClient(peer).ping())).toBeInstanceOf(RpcClosed);
    await peer.closed;
  });

  it("of another address gets no port, and starts nothing", async () => {
    const bridge = window as unknown as { windlass: { connect(): void } };
    for (const url of ["https://example.com/", `${PAGE_URL}.example.com/`, `${PAGE_URL}?other`]) {
      page.navigate(url);
      bridge.windlass.connect();
      await new Promise(setImmediate);
      expect(page.pagePorts.length).toBe(0);
    }
    page.navigate(`${PAGE_URL}#s1`);
    expect(await new SidecarClient(await connect()).ping()).toMatchObject({ status: "ok" });
    expect([page.pagePorts.length, pids().length]).toEqual([1, 1]);
  });

  it("shows the components: a call, an approval, a killed sidecar, and a new start", async () => {
    render(createElement(StrictMode, null, createElement(App)));
    const user = userEvent.setup();
    const say = async (text: string): Promise<void> => {
      await user.type(await screen.findByRole("textbox", { name: "Message" }), `${text}{Enter}`);
    };
    await say("weather, then pay");
    const card = within(await screen.findByRole("group", { name: "Approve pay?" }));
    await user.click(card.getByRole("button", { name: "Approve" }));
    await screen.findAllByText(/paid 1 cents/u);
    // React mounts twice in strict mode: the port of the first time was closed.
    await vi.waitFor(() => {
      expect(pids().filter(isAlive)).toHaveLength(1);
    }, WAIT);

    await say("pay");
    await screen.findByRole("group", { name: "Approve pay?" });
    for (const pid of pids().filter(isAlive)) process.kill(pid, "SIGKILL");
    await screen.findAllByText("The sidecar is gone");
    expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
    await user.click(await screen.findByRole("button", { name: "Start the agent again" }));
    await vi.waitFor(() => {
      expect(screen.queryByText("The sidecar is gone")).toBeNull();
    }, WAIT);
    await say("weather");
    await screen.findAllByText(/Rain all day/u);
    expect(screen.queryByRole("button", { name: "Start the agent again" })).toBeNull();
  });
});

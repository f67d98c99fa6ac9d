/** Fakes of the client tests: a clock that jumps, events, and a server that breaks on demand. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Clock } from "../src/client/connection.js";
import type { Event } from "../src/generated/index.js";
import type { JsonObject } from "../src/wire.js";

/** Waits shorter than `patienceMs` are over at once and noted; longer ones last until they are aborted. */
export class JumpingClock implements Clock {
  readonly waits: number[] = [];
  time = Date.parse("2026-01-31T09:30:00Z");
  /** Told of each long wait that begins, with the number of those so far. */
  onHeld: ((count: number) => void) | undefined;
  private heldCount = 0;
  private readonly held = new Set<() => void>();

  constructor(private readonly patienceMs = 40_000) {}

  now(): number {
    return this.time;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    if (ms < this.patienceMs) {
      this.waits.push(ms);
      this.time += ms;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      this.held.add(resolve);
      this.heldCount += 1;
      this.onHeld?.(this.heldCount);
      const fail = (): void => {
        this.held.delete(resolve);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener("abort", fail, { once: true });
    });
  }

  /** Ends the long waits that are under way. */
  runOut(): void {
    for (const resolve of this.held) resolve();
    this.held.clear();
  }
}

/** A record of session `s1` as an event. */
export function record(seq: number, type: string, data: JsonObject = {}): Event {
  return { type, data, meta: { at: "2026-01-31T09:30:00.000Z" }, sessionId: "s1", seq, runId: "r1", agentId: "a" };
}

/** A live delta of session `s1`. */
export function delta(seq: number, index: number, type: string, data: JsonObject): Event {
  return { ...record(seq, type, { sequence: 0, turnId: "t0", stepIndex: 0, ...data }), index };
}

/** An event as the server writes it. */
export function frame(event: Event, cursor?: string): string {
  const place = event.index === undefined ? `${event.seq ?? 0}` : `${event.seq ?? 0}.i${event.index + 1}`;
  return `id: ${cursor ?? `c.${place}`}\ndata: ${JSON.stringify(event)}\n\n`;
}

export type Answer = (request: IncomingMessage, response: ServerResponse, url: URL) => void;

/** A real HTTP server on a free port; `answer` may be changed at any time. */
export class Scene {
  answer: Answer = (_, response) => response.writeHead(404).end();
  readonly requests: URL[] = [];
  readonly headers: IncomingMessage["headers"][] = [];
  private readonly server: Server;
  private readonly sockets = new Set<Socket>();
  baseUrl = "";

  constructor() {
    this.server = createServer((request, response) => {
      const url = new URL(request.url ?? "", "http://localhost");
      this.requests.push(url);
      this.headers.push(request.headers);
      this.answer(request, response, url);
    });
    this.server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
      socket.on("error", () => undefined);
    });
  }

  async open(port = 0): Promise<number> {
    await new Promise<void>((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    const at = (this.server.address() as AddressInfo).port;
    this.baseUrl = `http://127.0.0.1:${at}`;
    return at;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Begins an answer that is a stream. */
export function stream(response: ServerResponse): ServerResponse {
  response.writeHead(200, { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store" });
  response.flushHeaders();
  return response;
}

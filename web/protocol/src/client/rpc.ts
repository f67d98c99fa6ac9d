/** JSON-RPC 2.0 with another process, in both directions, over a child process or a message port. */
import { ProtocolError, reasonOf, systemClock, type Clock } from "./connection.js";
import { CodecError, DEPTH_MAX, encode, parse } from "../codec.js";
import { SidecarNotification, SidecarRequest, SidecarResponse, type SidecarErrorKind } from "../generated/index.js";
import { given } from "../events.js";
import type { JsonObject, JsonValue } from "../wire.js";

// Duplexes: how frames are carried.

/** Characters of one frame of the other side; what is longer closes the duplex. */
export const FRAME_CHARS_MAX = 8 * 1_048_576;

/** Carries frames both ways. A frame is a JSON text without a line break. */
export interface Duplex {
  /** Sends a frame. */
  send(frame: string): void;
  /** Says who takes what arrives; called once, before anything is sent. */
  listen(listener: DuplexListener): void;
  /** Lets go of the other side. */
  close(): void;
}

/** Who takes what a duplex brings. */
export interface DuplexListener {
  frame(frame: string): void;
  /** Nothing more will come; without an error the other side ended by itself. */
  closed(error?: Error): void;
}

/** The streams of a child process, as far as they are needed. */
export interface ChildStreams {
  readonly stdin: {
    write(text: string): unknown;
    end(): unknown;
    on(event: "error", listener: (error: Error) => void): unknown;
  };
  readonly stdout: {
    on(event: "data", listener: (bytes: Uint8Array) => void): unknown;
    on(event: "end" | "close", listener: () => void): unknown;
    on(event: "error", listener: (error: Error) => void): unknown;
  };
}

/** Frames as lines on the standard streams of a child process. */
export function childDuplex({ stdin, stdout }: ChildStreams): Duplex {
  return {
    send: (frame) => {
      stdin.write(`${frame}\n`);
    },
    listen: (listener) => {
      const closed = once(listener);
      const lines = new Lines(listener.frame.bind(listener));
      stdout.on("data", (bytes) => {
        try {
          lines.add(bytes);
        } catch (error) {
          stdin.end();
          closed(error instanceof Error ? error : undefined);
        }
      });
      stdout.on("end", () => {
        closed();
      });
      stdout.on("close", () => {
        closed();
      });
      stdout.on("error", closed);
      // The pipe of an exited child is broken; the end of its output reports the exit.
      stdin.on("error", () => undefined);
    },
    close: () => {
      stdin.end();
    },
  };
}

/** A message port of the browser, of node, or of a bridge in Electron. */
export interface MessagePortLike {
  postMessage(message: string): void;
  addEventListener(type: "message", listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: "close", listener: () => void): void;
  start?(): void;
  close(): void;
}

/** Frames as messages of a port, such as the one that Electron's main process bridges to a sidecar. */
export function portDuplex(port: MessagePortLike): Duplex {
  let closed: (error?: Error) => void = () => undefined;
  // A page gets no close event of a port that it closed itself.
  const close = (error?: Error): void => {
    port.close();
    closed(error);
  };
  return {
    send: (frame) => {
      port.postMessage(frame);
    },
    listen: (listener) => {
      closed = once(listener);
      port.addEventListener("message", ({ data }) => {
        if (typeof data === "string") listener.frame(data);
        else close(new ProtocolError(`expected a frame as text, found ${typeof data}`));
      });
      port.addEventListener("close", () => {
        closed();
      });
      port.start?.();
    },
    close: () => {
      close();
    },
  };
}

function once(listener: DuplexListener): (error?: Error) => void {
  let isClosed = false;
  return (error) => {
    if (isClosed) return;
    isClosed = true;
    listener.closed(error);
  };
}

/** Lines out of bytes, wherever these are cut. */
class Lines {
  private readonly text = new TextDecoder("utf-8", { fatal: true });
  private parts: string[] = [];
  private chars = 0;

  constructor(private readonly emit: (line: string) => void) {}

  /** Throws ProtocolError if a line is too long or no UTF-8. */
  add(bytes: Uint8Array): void {
    const [first = "", ...rest] = this.decode(bytes).split("\n");
    this.keep(first);
    for (const piece of rest) {
      const line = this.parts.join("");
      this.parts = [];
      this.chars = 0;
      if (line.trim() !== "") this.emit(line);
      this.keep(piece);
    }
  }

  private decode(bytes: Uint8Array): string {
    try {
      return this.text.decode(bytes, { stream: true });
    } catch {
      throw new ProtocolError("a frame of the other side is not UTF-8");
    }
  }

  private keep(piece: string): void {
    this.chars += piece.length;
    if (this.chars > FRAME_CHARS_MAX) {
      throw new ProtocolError(`frame too long: limit ${FRAME_CHARS_MAX.toLocaleString("en-US")} characters`);
    }
    if (piece !== "") this.parts.push(piece);
  }
}

// JSON-RPC.

const METHOD_NOT_FOUND = -32_601;
const INTERNAL = -32_603;
const MESSAGE_CHARS_MAX = 1_024;
/** The other side no longer wants our answer to a call. */
const WITHDRAWN = "host.request.cancelled";
const LIMITS = { messageBytesMax: FRAME_CHARS_MAX, depthMax: DEPTH_MAX };

/** A call that the other side refused, with the code and kind that it gave. */
export class RpcError extends Error {
  override readonly name = "RpcError";

  constructor(
    readonly code: number,
    message: string,
    readonly kind?: SidecarErrorKind,
    readonly data?: JsonValue,
  ) {
    super(message);
  }
}

/** The other side is gone; whether a call under way had its effect is not known. */
export class RpcClosed extends Error {
  override readonly name = "RpcClosed";
}

/** Answers a call of the other side. The signal is aborted when the answer is no longer wanted. */
export type RpcHandler = (params: JsonObject, signal: AbortSignal) => JsonValue | Promise<JsonValue>;

/** Takes a notification. */
export type RpcListener = (params: JsonObject) => void;

/** How to make one call. */
export interface CallOptions {
  /** Gives the call up: the caller gets its reason, and a late answer is dropped. */
  readonly signal?: AbortSignal | undefined;
  /** Longest time to wait for the answer; no limit when absent. */
  readonly timeoutMs?: number | undefined;
}

/** Options of a peer. */
export interface PeerOptions {
  readonly clock?: Clock;
  /** Told of frames that are no JSON-RPC and of listeners that fail; nothing else is done about them. */
  readonly onFault?: (error: Error) => void;
}

interface Pending {
  resolve(value: JsonValue): void;
  reject(error: Error): void;
}

/** One end of a JSON-RPC connection. Both ends are alike. */
export class RpcPeer {
  /** Resolves once the other side is gone, with the error if there was one. */
  readonly closed: Promise<Error | undefined>;
  private readonly pending = new Map<number, Pending>();
  private readonly handlers = new Map<string, RpcHandler>();
  private readonly listeners = new Map<string, Set<RpcListener>>();
  private readonly answering = new Map<string | number, AbortController>();
  private readonly gone = new AbortController();
  private readonly clock: Clock;
  private nextId = 1;

  constructor(
    private readonly duplex: Duplex,
    private readonly options: PeerOptions = {},
  ) {
    this.clock = options.clock ?? systemClock;
    this.closed = new Promise((resolve) => {
      duplex.listen({
        frame: (frame) => {
          this.receive(frame);
        },
        closed: (error) => {
          this.end(error);
          resolve(error);
        },
      });
    });
  }

  /** Makes a call. Throws RpcError if it is refused, RpcClosed if the other side is gone before it answers. */
  async call(method: string, params: JsonObject = {}, options: CallOptions = {}): Promise<JsonValue> {
    options.signal?.throwIfAborted();
    if (this.gone.signal.aborted) throw new RpcClosed(`${method}: the other side is gone`);
    const id = this.nextId++;
    const settled = new AbortController();
    const answer = new Promise<JsonValue>((resolve, reject) => this.pending.set(id, { resolve, reject }));
    const giveUp = (): void => this.pending.get(id)?.reject(reasonOf(options.signal));
    options.signal?.addEventListener("abort", giveUp, { once: true });
    if (options.timeoutMs !== undefined) this.limit(id, method, options.timeoutMs, settled.signal);
    try {
      this.send({ jsonrpc: "2.0", id, method, params });
      return await answer;
    } finally {
      this.pending.delete(id);
      settled.abort();
      options.signal?.removeEventListener("abort", giveUp);
    }
  }

  /** Sends something that wants no answer. */
  notify(method: string, params: JsonObject = {}): void {
    if (!this.gone.signal.aborted) this.send({ jsonrpc: "2.0", method, params });
  }

  /** Answers the calls of the other side to a method; the last handler counts. */
  handle(method: string, handler: RpcHandler): void {
    this.handlers.set(method, handler);
  }

  /** Takes the notifications of a method; returns what ends that. */
  on(method: string, listener: RpcListener): () => void {
    const listeners = this.listeners.get(method) ?? new Set();
    this.listeners.set(method, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Lets go of the other side. */
  close(): void {
    this.duplex.close();
  }

  private limit(id: number, method: string, timeoutMs: number, settled: AbortSignal): void {
    this.clock.sleep(timeoutMs, settled).then(
      () => this.pending.get(id)?.reject(new RpcError(INTERNAL, `${method}: no answer in ${timeoutMs} ms`, "timeout")),
      () => undefined,
    );
  }

  private send(frame: JsonObject): void {
    this.duplex.send(encode(frame, LIMITS));
  }

  private receive(frame: string): void {
    let value: JsonValue;
    try {
      value = parse(frame, LIMITS);
    } catch (error) {
      this.fault(error);
      return;
    }
    for (const message of Array.isArray(value) ? value : [value]) this.dispatch(message);
  }

  private dispatch(message: JsonValue): void {
    const response = SidecarResponse.safeParse(message);
    if (response.success) {
      this.settle(response.data);
      return;
    }
    const request = SidecarRequest.safeParse(message);
    if (request.success) {
      void this.answer(request.data);
      return;
    }
    const notification = SidecarNotification.safeParse(message);
    if (notification.success) this.tell(notification.data);
    else this.fault(new CodecError("invalid", "a frame of the other side is no JSON-RPC"));
  }

  private settle({ id, result, error }: SidecarResponse): void {
    const pending = typeof id === "number" ? this.pending.get(id) : undefined;
    if (pending === undefined) {
      if (id === null && error !== undefined) this.fault(new RpcError(error.code, error.message, error.kind));
      return;
    }
    if (error === undefined) pending.resolve(result ?? null);
    else pending.reject(new RpcError(error.code, error.message, error.kind, error.data));
  }

  private async answer({ id, method, params }: SidecarRequest): Promise<void> {
    const handler = this.handlers.get(method);
    const answer: JsonObject = { jsonrpc: "2.0", id };
    const withdrawn = new AbortController();
    if (id !== null) this.answering.set(id, withdrawn);
    try {
      if (handler === undefined) throw new RpcError(METHOD_NOT_FOUND, `no such method: ${method}`, "method_not_found");
      answer["result"] = await handler(byName(params), AbortSignal.any([this.gone.signal, withdrawn.signal]));
    } catch (error) {
      answer["error"] = toWire(error);
    } finally {
      if (id !== null) this.answering.delete(id);
    }
    if (this.gone.signal.aborted || withdrawn.signal.aborted) return;
    try {
      this.send(answer);
    } catch (error) {
      // The result of a handler is no JSON: the other side gets an error.
      this.fault(error);
      this.send({ jsonrpc: "2.0", id, error: toWire(error) });
    }
  }

  private tell({ method, params }: SidecarNotification): void {
    if (method === WITHDRAWN) {
      const { id } = byName(params);
      if (typeof id === "string" || typeof id === "number") this.answering.get(id)?.abort();
    }
    for (const listener of this.listeners.get(method) ?? []) {
      try {
        listener(byName(params));
      } catch (error) {
        this.fault(error);
      }
    }
  }

  private end(error: Error | undefined): void {
    this.gone.abort();
    const reason = new RpcClosed("the other side is gone", error === undefined ? {} : { cause: error });
    for (const pending of this.pending.values()) pending.reject(reason);
  }

  private fault(error: unknown): void {
    this.options.onFault?.(error instanceof Error ? error : new Error(String(error)));
  }
}

function byName(params: SidecarRequest["params"]): JsonObject {
  return params === undefined || params === null || Array.isArray(params) ? {} : params;
}

function toWire(error: unknown): JsonObject {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, MESSAGE_CHARS_MAX);
  const found = error instanceof RpcError ? error : new RpcError(INTERNAL, message, "internal");
  return { code: found.code, message, ...given({ kind: found.kind, data: found.data }) };
}

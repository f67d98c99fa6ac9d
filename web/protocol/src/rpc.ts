/** JSON-RPC 2.0 with another process: calls of ours, calls of theirs, and notifications both ways. */
import { reasonOf, systemClock, type Clock } from "./clock.js";
import { encode, parse } from "./codec.js";
import { CodecError } from "./codec-error.js";
import type { Duplex } from "./duplex.js";
import { FRAME_CHARS_MAX } from "./duplex.js";
import type { SidecarErrorKind } from "./generated/index.js";
import { SidecarNotification, SidecarRequest, SidecarResponse } from "./generated/index.js";
import { given } from "./handlers.js";
import { DEPTH_MAX } from "./limits.js";
import type { JsonObject, JsonValue } from "./wire.js";

const METHOD_NOT_FOUND = -32_601;
const INTERNAL = -32_603;
const MESSAGE_CHARS_MAX = 1_024;
/** Says that nobody waits any more for our answer to a call. */
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

/** Answers a call of the other side. The signal is aborted when nobody waits for the answer any more. */
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

/** What a peer tells apart from answers. */
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
      // What a handler returned is no JSON: the other side still hears of it.
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

/** Requests to a server: their addresses and headers, the answers, and when a request is sent again. */
import type { z } from "zod";
import {
  ApiError,
  backoffMs,
  ConnectionError,
  newId,
  ProtocolError,
  reasonOf,
  systemClock,
  toApiError,
  type Backoff,
  type Clock,
} from "./connection.js";
import { CodecError, decode, DEPTH_MAX, encode } from "../codec.js";
import type { JsonValue } from "../wire.js";

/** Bytes of one answer; pages and exports are larger than a message. */
const ANSWER_BYTES_MAX = 64 * 1_048_576;
/** Characters of one line of a stream or an export. */
const LINE_CHARS_MAX = 4 * 1_048_576;
const LIMITS = { messageBytesMax: ANSWER_BYTES_MAX, depthMax: DEPTH_MAX };
const JSON_TYPE = "application/json";
const LINE_TOO_LONG = `line too long: limit ${LINE_CHARS_MAX.toLocaleString("en-US")} characters`;
/** How often a request that writes is sent, and the waits between. */
const ATTEMPTS_MAX = 5;
const BACKOFF: Backoff = { baseMs: 250, maxMs: 5_000 };
/** The longest Retry-After that is waited for. */
const RETRY_WAIT_MS_MAX = 60_000;

/** Where the server is, and how to reach it. */
export interface ClientOptions {
  /** Address before `/v1`, such as `https://agents.example.com`; that of the page when absent. */
  readonly baseUrl?: string | undefined;
  /** A key or token; asked for before each request, so that it may be renewed. */
  readonly token?: string | (() => string | undefined | Promise<string | undefined>) | undefined;
  readonly fetch?: typeof fetch | undefined;
  readonly clock?: Clock | undefined;
}

/** Options of every request. */
export interface RequestOptions {
  readonly signal?: AbortSignal | undefined;
  /** The same key and the same body again is the same request: nothing happens twice. By default a new one. */
  readonly idempotencyKey?: string | undefined;
}

/** A type of which some fields must be given. */
export type Requires<T, K extends keyof T> = T & { readonly [P in K]-?: Exclude<T[P], undefined> };

/** One request. */
export interface Call {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: object | undefined;
  readonly body?: object | undefined;
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined;
  /** What a repeated request does, see `spec/operations.md`; requests that only read are left to their callers. */
  readonly repeat?: "harmless" | "keyed" | "derived" | "refused" | undefined;
}

/**
 * Requests to one server.
 *
 * A request that writes is sent again if the server is away or busy, and if its answer was lost: it has a key, unless
 * it is harmless, so it has one effect.
 */
export class Requests {
  readonly clock: Clock;

  constructor(private readonly options: ClientOptions = {}) {
    this.clock = options.clock ?? systemClock;
  }

  /** Returns the answer to a request. */
  async ask<S extends z.ZodType>(schema: S, call: Call, options?: RequestOptions): Promise<z.output<S>> {
    const bytes = await this.bytes(call, options);
    try {
      return decode(schema, bytes, LIMITS);
    } catch (error) {
      if (!(error instanceof CodecError)) throw error;
      throw new ProtocolError(`the answer to ${call.path} cannot be read: ${error.message}`);
    }
  }

  /** Returns an answer as any JSON. */
  async json(call: Call, options?: RequestOptions): Promise<JsonValue> {
    return JSON.parse(await this.text(call, options)) as JsonValue;
  }

  /** Returns an answer as text. */
  async text(call: Call, options?: RequestOptions): Promise<string> {
    return new TextDecoder().decode(await this.bytes(call, options));
  }

  /** Returns an answer as bytes. */
  bytes(call: Call, options: RequestOptions = {}): Promise<Uint8Array> {
    return this.repeat(call, options, async (options) => {
      const response = await this.fetch(call, JSON_TYPE, options);
      if (!response.ok) throw await toApiError(response, this.clock.now());
      try {
        return new Uint8Array(await response.arrayBuffer());
      } catch (error) {
        throw broken(error, options.signal);
      }
    });
  }

  /** Yields the lines of an answer. */
  async *lines(call: Call, accept: string, options: RequestOptions = {}): AsyncGenerator<string, void, undefined> {
    const response = await this.repeat(call, options, async (options) => {
      const response = await this.fetch(call, accept, options);
      if (!response.ok) throw await toApiError(response, this.clock.now());
      return response;
    });
    if (response.body === null) return;
    let rest = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw broken(error, options.signal);
        });
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop() ?? "";
        yield* lines;
        if (rest.length > LINE_CHARS_MAX) throw new ProtocolError(LINE_TOO_LONG);
      }
    } finally {
      await reader.cancel().catch(() => undefined);
    }
    if (rest !== "") yield rest;
  }

  /** Sends a request once. */
  async fetch(call: Call, accept: string, { signal, idempotencyKey }: RequestOptions = {}): Promise<Response> {
    const headers = new Headers({ accept });
    for (const [name, value] of Object.entries(call.headers ?? {})) if (value !== undefined) headers.set(name, value);
    const token = await this.token();
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    if (call.body !== undefined) headers.set("content-type", JSON_TYPE);
    if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey);
    const address = `${this.options.baseUrl ?? ""}${call.path}${search(call.query ?? {})}`;
    const init: RequestInit = { method: call.method, headers, redirect: "error", credentials: "same-origin" };
    if (call.body !== undefined) init.body = encode(call.body);
    if (signal !== undefined) init.signal = signal;
    try {
      return await (this.options.fetch ?? fetch)(address, init);
    } catch (error) {
      throw broken(error, signal);
    }
  }

  /** Does something until it succeeds, or fails for a reason that does not pass. */
  private async repeat<T>(
    { repeat = "refused" }: Call,
    { signal, idempotencyKey }: RequestOptions,
    send: (options: RequestOptions) => Promise<T>,
  ): Promise<T> {
    const hasKey = repeat === "keyed" || repeat === "derived";
    const options = { signal, idempotencyKey: hasKey ? (idempotencyKey ?? newId()) : undefined };
    for (let attempt = 1; ; attempt++) {
      try {
        return await send(options);
      } catch (error) {
        const waitMs = backoffMs(attempt, BACKOFF, Math.random);
        const askedMs = error instanceof ApiError ? error.retryAfterMs : undefined;
        if (repeat === "refused" || attempt === ATTEMPTS_MAX || !mayPass(error)) throw error;
        await this.clock.sleep(askedMs ?? waitMs, signal);
      }
    }
  }

  private async token(): Promise<string | undefined> {
    const { token } = this.options;
    return typeof token === "function" ? token() : token;
  }
}

/** Whether a request may succeed when it is sent again. */
function mayPass(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError) || !error.isPassing) return false;
  // A server that will be there soon says when; one that says nothing lacks something, such as the key of a model.
  if (error.status === 503 && error.retryAfterMs === undefined) return error.code === undefined;
  return (error.retryAfterMs ?? 0) <= RETRY_WAIT_MS_MAX;
}

function broken(error: unknown, signal: AbortSignal | undefined): Error {
  if (signal?.aborted === true) return reasonOf(signal);
  return new ConnectionError("the server could not be reached, or the connection broke", { cause: error });
}

/** A path with ids, which may hold anything, a slash too. */
export function path(parts: TemplateStringsArray, ...ids: readonly (string | number)[]): string {
  return String.raw({ raw: parts }, ...ids.map((id) => encodeURIComponent(id)));
}

function search(query: object): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) found.set(key, String(value));
  return found.size === 0 ? "" : `?${found.toString()}`;
}

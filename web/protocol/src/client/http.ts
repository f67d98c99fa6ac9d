/** The client of a server: its operations, and its feeds. */
import { Operations } from "../generated/operations.js";
import { readFeed, type FeedItem, type FeedOptions, type FeedSource } from "./feed.js";
import { path, Requests, type ClientOptions } from "./requests.js";

/** Which events of all sessions. */
export interface AllEventsOptions extends FeedOptions {
  /** The types that are wanted; all that are kept when absent. */
  readonly types?: readonly string[] | undefined;
}

/**
 * A client of one server: `client.sessions.create(…)`, `client.runs.list(…)`.
 *
 * Every method throws ApiError if the server refuses, ConnectionError if it cannot be reached, and ProtocolError
 * if its answer is not what the route promises.
 */
export class Client extends Operations {
  constructor(options: ClientOptions = {}) {
    super(new Requests(options));
  }

  /** Every event of a session, those that are stored and then those that come; see `readFeed`. */
  sessionEvents(sessionId: string, options: FeedOptions = {}): AsyncGenerator<FeedItem, void, undefined> {
    return this.feed("session", path`/v1/sessions/${sessionId}/events`, options);
  }

  /** Every event of a run; ends with it. */
  runEvents(runId: string, options: FeedOptions = {}): AsyncGenerator<FeedItem, void, undefined> {
    return this.feed("run", path`/v1/runs/${runId}/events`, options);
  }

  /** Events of all sessions as they come, from now on unless a cursor says from where. Live words only if `types` name them. */
  allEvents({ types, ...options }: AllEventsOptions = {}): AsyncGenerator<FeedItem, void, undefined> {
    return this.feed("all", "/v1/events", { ...options, after: options.after ?? "now" }, { types: types?.join(",") });
  }

  private feed(
    scope: FeedSource["scope"],
    address: string,
    options: FeedOptions,
    query: object = {},
  ): AsyncGenerator<FeedItem, void, undefined> {
    const follow = options.follow === false ? false : undefined;
    const { last, before } = options;
    const source: FeedSource = {
      scope,
      connect: (after, signal) => {
        const place = after === undefined ? { last } : { after };
        const call = { method: "GET", path: address, query: { ...query, ...place, before, follow } } as const;
        return this.requests.fetch(call, "text/event-stream", { signal });
      },
    };
    return readFeed(source, { clock: this.requests.clock, ...options });
  }
}

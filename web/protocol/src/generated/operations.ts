// Generated from spec/operations.json by `make gen`. Do not edit.
/** The operations of a server, by group. */
import * as wire from "../client/answers.js";
import { path, type RequestOptions, type Requests, type Requires } from "../client/requests.js";
import type { JsonValue } from "../wire.js";

/** The query of `sessions.list`. */
export interface SessionsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Sessions of this agent. */
  readonly agent?: string | undefined;
  /** Sessions with this status. */
  readonly status?: wire.SessionStatus | undefined;
  /** Words of messages, answers and names of called tools, or prefixes of them. */
  readonly text?: string | undefined;
  /** Include sessions of subagents. By default false. */
  readonly subagents?: boolean | undefined;
  /** What one of its runs waits for, as in the list of runs. */
  readonly waitsOn?: wire.WaitCause | undefined;
  /** The fingerprint of the package of one of its runs. */
  readonly version?: string | undefined;
  /** The kind of the error of one of its runs; `any` for every error. */
  readonly error?: wire.ErrorKind | "any" | undefined;
  /** A tag of one of its runs. */
  readonly tag?: string | undefined;
  /** One of its runs has a thumb, or none has. */
  readonly feedback?: "up" | "down" | "none" | undefined;
  /** One of its runs was taken over after a crash. */
  readonly crashed?: boolean | undefined;
  /** Changed then or later. */
  readonly since?: wire.Timestamp | undefined;
  /** Not changed since. */
  readonly until?: wire.Timestamp | undefined;
  /** Millionths of a dollar, of all its runs. */
  readonly costMin?: number | undefined;
  /** Millionths of a dollar, of all its runs. */
  readonly costMax?: number | undefined;
  /** The order, newest or largest first. By default "created". */
  readonly sort?: wire.SessionSort | undefined;
  /** The opposite order. By default false. */
  readonly ascending?: boolean | undefined;
  /** Whether to count the rows that match, up to 10,001. By default false. */
  readonly total?: boolean | undefined;
}

/** The query of `sessions.history`. */
export interface SessionsHistoryQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** The query of `sessions.safePoints`. */
export interface SessionsSafePointsQuery {
  /** Only records below this number. */
  readonly before?: number | undefined;
  /** Points per response. By default 1000. */
  readonly limit?: number | undefined;
}

/** The query of `sessions.contents`. */
export interface SessionsContentsQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** Sessions: created, continued, read, forked, exported and deleted. */
export class SessionsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Create a session with its first message, which starts a run.
   *
   * The answer comes when the message is durable. With `chatId`, `currentStage`, `scenario`, `stageData` or `projectId` the session is journaled with its `AgentSession` before its first message, and stays if that message is refused.
   */
  create(body: Requires<wire.NewSession, "message">, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: "/v1/sessions", body, repeat: "derived" }, options);
  }

  /**
   * Create a session without a message.
   */
  createEmpty(body: Pick<wire.NewSession, "agent" | "chatId" | "currentStage" | "scenario" | "stageData" | "projectId"> = {}, options?: RequestOptions): Promise<wire.Accepted> {
    return this.requests.ask(wire.Accepted, { method: "POST", path: "/v1/sessions", body, repeat: "derived" }, options);
  }

  /**
   * Return your sessions, newest first unless sorted otherwise.
   *
   * Sessions without a message are left out.
   */
  list(query: SessionsListQuery = {}, options?: RequestOptions): Promise<wire.SessionPage> {
    return this.requests.ask(wire.SessionPage, { method: "GET", path: "/v1/sessions", query }, options);
  }

  /**
   * Return the title, status and usage of a session.
   */
  get(sessionId: string, options?: RequestOptions): Promise<wire.SessionInfo> {
    return this.requests.ask(wire.SessionInfo, { method: "GET", path: path`/v1/sessions/${sessionId}` }, options);
  }

  /**
   * Delete a session and everything that is stored of it.
   *
   * The sessions of its subagents are deleted as well. It is refused while a run is open: cancel that first.
   */
  delete(sessionId: string, options?: RequestOptions): Promise<wire.Deleted> {
    return this.requests.ask(wire.Deleted, { method: "DELETE", path: path`/v1/sessions/${sessionId}`, repeat: "keyed" }, options);
  }

  /**
   * Send a message to a session: it starts a run after the current one.
   *
   * With a `continuationToken` it is refused if the session has changed since.
   */
  send(sessionId: string, body: Requires<Pick<wire.NewMessage, "message" | "continuationToken" | "agent" | "mode" | "outputSchema" | "context" | "metadata" | "budget" | "batch" | "goal">, "message">, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/sessions/${sessionId}/messages`, body, repeat: "keyed" }, options);
  }

  /**
   * Send a message to the current run of a session.
   */
  steer(sessionId: string, body: Requires<Pick<wire.NewMessage, "message" | "agent">, "message">, options?: RequestOptions): Promise<wire.Accepted> {
    return this.requests.ask(wire.Accepted, { method: "POST", path: path`/v1/sessions/${sessionId}/messages`, body: { ...body, delivery: "steer" }, repeat: "keyed" }, options);
  }

  /**
   * Answer open requests of a session.
   */
  answer(sessionId: string, body: Requires<Pick<wire.NewMessage, "responses" | "continuationToken">, "responses">, options?: RequestOptions): Promise<wire.Accepted> {
    return this.requests.ask(wire.Accepted, { method: "POST", path: path`/v1/sessions/${sessionId}/messages`, body, repeat: "keyed" }, options);
  }

  /**
   * Cancel the current run; queued runs start next.
   *
   * The response names the run; without one no run was active.
   */
  cancel(sessionId: string, body: wire.Cancel = {}, options?: RequestOptions): Promise<wire.Accepted> {
    return this.requests.ask(wire.Accepted, { method: "POST", path: path`/v1/sessions/${sessionId}/cancel`, body, repeat: "keyed" }, options);
  }

  /**
   * Compact the history: now, or before the next model call of the current run.
   */
  compact(sessionId: string, options?: RequestOptions): Promise<wire.Accepted> {
    return this.requests.ask(wire.Accepted, { method: "POST", path: path`/v1/sessions/${sessionId}/compact`, repeat: "derived" }, options);
  }

  /**
   * Create a copy of a session as it is now, or was after one of its records.
   *
   * No run is repeated. A run that was open at that record is cancelled in the fork.
   */
  fork(sessionId: string, body: wire.Fork = {}, options?: RequestOptions): Promise<wire.SessionInfo> {
    return this.requests.ask(wire.SessionInfo, { method: "POST", path: path`/v1/sessions/${sessionId}/fork`, body, repeat: "derived" }, options);
  }

  /**
   * Return the messages of a session, oldest first.
   */
  history(sessionId: string, query: SessionsHistoryQuery = {}, options?: RequestOptions): Promise<wire.HistoryPage> {
    return this.requests.ask(wire.HistoryPage, { method: "GET", path: path`/v1/sessions/${sessionId}/history`, query }, options);
  }

  /**
   * Return the records at which a fork can begin: no call is open there.
   *
   * A fork at another record begins at the last safe point before it. The newest points are returned, in
   * order; `before` leads to older ones.
   */
  safePoints(sessionId: string, query: SessionsSafePointsQuery = {}, options?: RequestOptions): Promise<wire.SafePoints> {
    return this.requests.ask(wire.SafePoints, { method: "GET", path: path`/v1/sessions/${sessionId}/safe-points`, query }, options);
  }

  /**
   * Send everything that is stored of a session.
   *
   * The last line has a checksum of the others. The response counts as a stream.
   */
  export(sessionId: string, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: path`/v1/sessions/${sessionId}/export` }, "application/x-ndjson", options);
  }

  /**
   * Return the contents of a session: values that are too large for a record.
   */
  contents(sessionId: string, query: SessionsContentsQuery = {}, options?: RequestOptions): Promise<wire.ContentList> {
    return this.requests.ask(wire.ContentList, { method: "GET", path: path`/v1/sessions/${sessionId}/contents`, query }, options);
  }

  /**
   * Send a content as a download; a browser does not show or run it.
   *
   * Records and messages refer to a content by its hash.
   */
  content(sessionId: string, contentHash: string, options?: RequestOptions): Promise<Uint8Array> {
    return this.requests.bytes({ method: "GET", path: path`/v1/sessions/${sessionId}/contents/${contentHash}` }, options);
  }
}

/** The query of `agentSessions.list`. */
export interface AgentSessionsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Sessions of this chat. */
  readonly chatId?: string | undefined;
  /** Leave out sessions that have ended. By default false. */
  readonly activeOnly?: boolean | undefined;
}

/** Sessions as `AgentSession` documents, with their stages. */
export class AgentSessionsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return your sessions as `AgentSession` documents, newest first.
   *
   * Sessions without a message are left out, unless they were created with such fields.
   */
  list(query: AgentSessionsListQuery = {}, options?: RequestOptions): Promise<wire.AgentSessionList> {
    return this.requests.ask(wire.AgentSessionList, { method: "GET", path: "/v1/agent-sessions", query }, options);
  }

  /**
   * Return a session as an `AgentSession` document: user, chat and stage.
   */
  get(sessionId: string, options?: RequestOptions): Promise<wire.AgentSession> {
    return this.requests.ask(wire.AgentSession, { method: "GET", path: path`/v1/sessions/${sessionId}/agent-session` }, options);
  }

  /**
   * Change the stage; fields that are left out stay as they are, and `nextStage: null` removes it.
   *
   * The change is durable when the response is sent. It is a `session.state_changed` among the events of the
   * session, also while a run is under way.
   */
  update(sessionId: string, body: wire.AgentSessionChange = {}, options?: RequestOptions): Promise<wire.AgentSession> {
    return this.requests.ask(wire.AgentSession, { method: "POST", path: path`/v1/sessions/${sessionId}/agent-session`, body, repeat: "derived" }, options);
  }
}

/** The query of `approvals.list`. */
export interface ApprovalsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** Requests to people over all sessions, and their answers. */
export class ApprovalsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the open requests of your sessions and their subagents, oldest first.
   *
   * You also get the questions of tools that name you or a role of yours, in sessions of all owners. Approvers
   * get the requests of all sessions of the tenant.
   */
  list(query: ApprovalsListQuery = {}, options?: RequestOptions): Promise<wire.ApprovalPage> {
    return this.requests.ask(wire.ApprovalPage, { method: "GET", path: "/v1/approvals", query }, options);
  }

  /**
   * Return a request, open or closed: one that you may answer, or might have.
   *
   * A closed request says how it was closed, when, and by which user.
   */
  get(requestId: string, options?: RequestOptions): Promise<wire.ApprovalView> {
    return this.requests.ask(wire.ApprovalView, { method: "GET", path: path`/v1/approvals/${requestId}` }, options);
  }

  /**
   * Answer a request: with one of its options, a text, or both.
   *
   * An approval holds for one call with the arguments that were shown, or with those that the answer gives
   * instead: they are validated, and the policy decides about them. With the `argumentsHash` of the
   * request, the answer is refused if the call has other arguments. A request that was already answered is a
   * conflict, which names the option, the person and the time of that answer.
   */
  answer(requestId: string, body: wire.Answer = {}, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/approvals/${requestId}`, body, repeat: "keyed" }, options);
  }
}

/** The query of `runs.list`. */
export interface RunsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Runs of this session. */
  readonly session?: string | undefined;
  /** Ids of runs, one a line; at most 100, in a query of 8 KiB. */
  readonly runs?: string | undefined;
  /** Runs of this agent. */
  readonly agent?: string | undefined;
  /** Runs with this status. */
  readonly status?: wire.RunStatus | undefined;
  /** Include runs of subagents. By default true. */
  readonly subagents?: boolean | undefined;
  /** Include playground runs. By default false. */
  readonly playground?: boolean | undefined;
  /** `person`: input or recovery. */
  readonly waitsOn?: wire.WaitCause | undefined;
  /** The fingerprint of the package. */
  readonly version?: string | undefined;
  /** The kind of the error; `any` for every error. */
  readonly error?: wire.ErrorKind | "any" | undefined;
  /** Runs with this tag. */
  readonly tag?: string | undefined;
  /** Runs with such a thumb, or without one. */
  readonly feedback?: "up" | "down" | "none" | undefined;
  /** Taken over after a crash, or not. */
  readonly crashed?: boolean | undefined;
  /** Started then or later. */
  readonly since?: wire.Timestamp | undefined;
  /** Started before. */
  readonly until?: wire.Timestamp | undefined;
  /** Millionths of a dollar. */
  readonly costMin?: number | undefined;
  /** Millionths of a dollar. */
  readonly costMax?: number | undefined;
  /** Milliseconds; 0 until a run has ended. */
  readonly durationMin?: number | undefined;
  /** Milliseconds. */
  readonly durationMax?: number | undefined;
  /** Words in their sessions. */
  readonly text?: string | undefined;
  /** The order, newest or largest first. By default "started". */
  readonly sort?: wire.RunSort | undefined;
  /** The opposite order. By default false. */
  readonly ascending?: boolean | undefined;
  /** Whether to count the rows that match, up to 10,001. By default false. */
  readonly total?: boolean | undefined;
}

/** The query of `runs.trace`. */
export interface RunsTraceQuery {
  /** Whether its events come too; without them it is half. By default true. */
  readonly events?: boolean | undefined;
  /** The `seq` of an earlier answer: what is new since. By default 0. */
  readonly after?: number | undefined;
}

/** The query of `runs.decisions`. */
export interface RunsDecisionsQuery {
  /** How many to pass over. By default 0. */
  readonly after?: number | undefined;
  /** The most; all if left out. */
  readonly limit?: number | undefined;
}

/** The query of `runs.feedback`. */
export interface RunsFeedbackQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** The query of `runs.refused`. */
export interface RunsRefusedQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Starts of this agent. */
  readonly agent?: string | undefined;
}

/** The query of `runs.stats`. */
export interface RunsStatsQuery {
  /** Runs that started then or later. */
  readonly since?: wire.Timestamp | undefined;
  /** Runs that started before. */
  readonly until?: wire.Timestamp | undefined;
  /** Seconds per interval. By default 3600. */
  readonly bucket?: number | undefined;
  /** Runs of this agent. */
  readonly agent?: string | undefined;
  /** Also the same numbers by agent, user, model or version, or the calls by tool. */
  readonly split?: "agent" | "user" | "model" | "version" | "tool" | undefined;
}

/** The query of `runs.failures`. */
export interface RunsFailuresQuery {
  /** Runs that started then or later. */
  readonly since?: wire.Timestamp | undefined;
  /** Runs that started before. */
  readonly until?: wire.Timestamp | undefined;
  /** Runs of this agent. */
  readonly agent?: string | undefined;
}

/** Runs: listed, read, explained, cancelled, continued and judged. */
export class RunsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the runs of your sessions, newest first unless sorted otherwise.
   */
  list(query: RunsListQuery = {}, options?: RequestOptions): Promise<wire.RunPage> {
    return this.requests.ask(wire.RunPage, { method: "GET", path: "/v1/runs", query }, options);
  }

  /**
   * Return the state of a run, its open requests and its result.
   */
  get(runId: string, options?: RequestOptions): Promise<wire.RunInfo> {
    return this.requests.ask(wire.RunInfo, { method: "GET", path: path`/v1/runs/${runId}` }, options);
  }

  /**
   * Return the spans of a run: model calls, tool calls with their arguments in short, and waits; and its
   * events.
   *
   * With `after`, the `seq` of an earlier answer, only spans that began or changed since.
   */
  trace(runId: string, query: RunsTraceQuery = {}, options?: RequestOptions): Promise<wire.TraceInfo> {
    return this.requests.ask(wire.TraceInfo, { method: "GET", path: path`/v1/runs/${runId}/trace`, query }, options);
  }

  /**
   * Return what a run cost so far, by step, model, subagent and tool, and the results of tools that cost most.
   *
   * A result of a tool is paid for again with each later prompt that has it.
   */
  costs(runId: string, options?: RequestOptions): Promise<wire.RunCosts> {
    return this.requests.ask(wire.RunCosts, { method: "GET", path: path`/v1/runs/${runId}/costs` }, options);
  }

  /**
   * Return the decisions of a run with their alternatives, outcomes and problems.
   *
   * With `limit` it is a page of them; `metrics.totalDecisions` counts all.
   */
  decisions(runId: string, query: RunsDecisionsQuery = {}, options?: RequestOptions): Promise<wire.DecisionRun> {
    return this.requests.ask(wire.DecisionRun, { method: "GET", path: path`/v1/runs/${runId}/decisions`, query }, options);
  }

  /**
   * Return the instructions, tools and messages that the model received in a step.
   *
   * They are rebuilt from the journal and the version of the agent that the run is pinned to; `unknown` lists
   * what cannot be rebuilt. Of several attempts at a step it is the last one.
   */
  prompt(runId: string, stepIndex: number, options?: RequestOptions): Promise<wire.StepPrompt> {
    return this.requests.ask(wire.StepPrompt, { method: "GET", path: path`/v1/runs/${runId}/steps/${stepIndex}/prompt` }, options);
  }

  /**
   * Return the parts of a model call that the playground can change, the models that can be chosen, and the
   * answer that the call got.
   */
  draft(runId: string, stepIndex: number, options?: RequestOptions): Promise<wire.PlaygroundDraft> {
    return this.requests.ask(wire.PlaygroundDraft, { method: "GET", path: path`/v1/runs/${runId}/steps/${stepIndex}/playground` }, options);
  }

  /**
   * Start a playground run: a model call of a run again, in a session of its own.
   *
   * Calls are answered from the record, and a call without a record fails; with `"calls": "real"` tools are
   * executed, under the policy of the agent. Lists leave playground runs out. A model that no agent of
   * the server has is refused.
   */
  play(runId: string, stepIndex: number, body: wire.NewPlaygroundRun = {}, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/runs/${runId}/steps/${stepIndex}/playground`, body, repeat: "derived" }, options);
  }

  /**
   * Cancel a run; no effect on a run that has ended.
   */
  cancel(runId: string, body: wire.Cancel = {}, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/runs/${runId}/cancel`, body, repeat: "harmless" }, options);
  }

  /**
   * Send an event that the workflow of a run waits for; it is kept until then, and taken once.
   */
  send(runId: string, body: wire.NewRunEvent, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/runs/${runId}/events`, body, repeat: "derived" }, options);
  }

  /**
   * Continue a failed run in a new run of its session, without repeating finished calls.
   *
   * A budget is that of both runs together, within that of the agent.
   */
  retry(runId: string, body: wire.RetryRun = {}, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/runs/${runId}/retry`, body, repeat: "harmless" }, options);
  }

  /**
   * Return the calls of a run that may have changed something, newest first.
   */
  undoPlan(runId: string, options?: RequestOptions): Promise<wire.UndoPlan> {
    return this.requests.ask(wire.UndoPlan, { method: "GET", path: path`/v1/runs/${runId}/undo` }, options);
  }

  /**
   * Reverse the calls of a run, newest first, in a new run of its session.
   */
  undo(runId: string, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/runs/${runId}/undo`, repeat: "keyed" }, options);
  }

  /**
   * Record what you say of a run, of one of its steps, or of an answer.
   */
  giveFeedback(runId: string, body: wire.NewFeedback = {}, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/runs/${runId}/feedback`, body, repeat: "derived" }, options);
  }

  /**
   * Return what people said of a run, its steps and its answers, oldest first.
   */
  feedback(runId: string, query: RunsFeedbackQuery = {}, options?: RequestOptions): Promise<wire.FeedbackList> {
    return this.requests.ask(wire.FeedbackList, { method: "GET", path: path`/v1/runs/${runId}/feedback`, query }, options);
  }

  /**
   * Return the runs that you asked for and that were not started, newest first, with their errors.
   */
  refused(query: RunsRefusedQuery = {}, options?: RequestOptions): Promise<wire.RefusedStartPage> {
    return this.requests.ask(wire.RefusedStartPage, { method: "GET", path: "/v1/refused-starts", query }, options);
  }

  /**
   * Return counts, durations and cost of your runs.
   *
   * The default is the last day in hours. Runs of subagents count as part of the run that they work for,
   * unless `agent` names the subagent. `split` adds the eight groups with the most runs. A run counts for each
   * model that answered it or a subagent of it, `provider/model`, with what that model used; durations of a model
   * that several versions use are left out. `split=tool` adds the calls of the eight tools with the most.
   */
  stats(query: RunsStatsQuery = {}, options?: RequestOptions): Promise<wire.Stats> {
    return this.requests.ask(wire.Stats, { method: "GET", path: "/v1/stats", query }, options);
  }

  /**
   * Return why your runs failed: by kind and by cause, with the runs of each.
   *
   * Errors that differ only in numbers, ids, paths or quoted values are one cause. The newest 10,000 runs are
   * counted.
   */
  failures(query: RunsFailuresQuery = {}, options?: RequestOptions): Promise<wire.Failures> {
    return this.requests.ask(wire.Failures, { method: "GET", path: "/v1/failures", query }, options);
  }
}

/** The query of `feeds.all`. */
export interface FeedsAllQuery {
  /** The `id` of the last event that was received, or `now`; from the beginning when left out. */
  readonly after?: string | undefined;
  /** False ends the stream at the present end of the journal. By default true. */
  readonly follow?: boolean | undefined;
  /** By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`. */
  readonly format?: "sse" | "ndjson" | undefined;
  /** Event types, separated by commas. */
  readonly types?: string | undefined;
}

/** The query of `feeds.session`. */
export interface FeedsSessionQuery {
  /** The `id` of the last event that was received; from the beginning when left out. */
  readonly after?: string | undefined;
  /** False ends the stream at the present end of the journal. By default true. */
  readonly follow?: boolean | undefined;
  /** By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`; with `shape=eve`, lines unless it names `text/event-stream`. */
  readonly format?: "sse" | "ndjson" | undefined;
  /** `steerable` sends the few kinds of events that a simple chat needs, and then `[DONE]`; `eve`, for sessions, sends the events of eve 0.13.8 in its order. By default "events". */
  readonly shape?: "events" | "steerable" | "eve" | undefined;
  /** Only with `shape=events`: `slim` leaves out of a text delta what it shares with the one before it. By default "whole". */
  readonly deltas?: "whole" | "slim" | undefined;
  /** Only with `shape=eve`: the number of events to leave out. */
  readonly startIndex?: number | undefined;
  /** Start with the newest records, this many of them. */
  readonly last?: number | undefined;
  /** End before this record; only with `follow=false`. */
  readonly before?: number | undefined;
}

/** The query of `feeds.run`. */
export interface FeedsRunQuery {
  /** The `id` of the last event that was received; from the beginning when left out. */
  readonly after?: string | undefined;
  /** False ends the stream at the present end of the journal. By default true. */
  readonly follow?: boolean | undefined;
  /** By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`. */
  readonly format?: "sse" | "ndjson" | undefined;
  /** `steerable` sends the few kinds of events that a simple chat needs, and then `[DONE]`; `eve`, for sessions, sends the events of eve 0.13.8 in its order. By default "events". */
  readonly shape?: "events" | "steerable" | "eve" | undefined;
  /** Only with `shape=events`: `slim` leaves out of a text delta what it shares with the one before it. By default "whole". */
  readonly deltas?: "whole" | "slim" | undefined;
  /** Only with `shape=eve`: the number of events to leave out. */
  readonly startIndex?: number | undefined;
}

/** The query of `feeds.replay`. */
export interface FeedsReplayQuery {
  /** The `id` of the last event that was received; from the beginning when left out. */
  readonly after?: string | undefined;
  /** By default `Accept` decides: Server-Sent Events unless it names `application/x-ndjson`. */
  readonly format?: "sse" | "ndjson" | undefined;
  /** 2 halves the pauses. By default 1.0. */
  readonly speed?: number | undefined;
  /** The longest pause, seconds. By default 5.0. */
  readonly pauseMax?: number | undefined;
}

/** Events, stored and live. */
export class FeedsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Send the events of all your sessions, in their order.
   *
   * `after=now` starts with the next event. The header `windlass-cursor` has the cursor at which the stream
   * begins: a client that is disconnected before the first event resumes there. Deltas are sent only if
   * `types` names them. To keep a list up to date, open this feed first, then read the list.
   */
  all(query: FeedsAllQuery = {}, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: "/v1/events", query }, "application/x-ndjson", options);
  }

  /**
   * Send every event of a session: first the stored ones, then new ones.
   *
   * Each has an `id`. A client that reconnects with the last `id` misses no event and gets none twice, even
   * after a restart of the server. With `last` the feed starts near the end; `before` with `last` and
   * `follow=false` is the page before a record. With `shape=eve` the `id` is the number of the event, and
   * lines of JSON resume with `startIndex`.
   */
  session(sessionId: string, query: FeedsSessionQuery = {}, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: path`/v1/sessions/${sessionId}/events`, query }, "application/x-ndjson", options);
  }

  /**
   * Send every event of a run; the stream ends with the run.
   */
  run(runId: string, query: FeedsRunQuery = {}, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: path`/v1/runs/${runId}/events`, query }, "application/x-ndjson", options);
  }

  /**
   * Send the events of a run again, with the original pauses.
   *
   * Nothing is executed. The stream ends with the last event of the run so far. Deltas are not stored, so
   * texts come whole.
   */
  replay(runId: string, query: FeedsReplayQuery = {}, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: path`/v1/runs/${runId}/replay`, query }, "application/x-ndjson", options);
  }
}

/** The query of `schedules.list`. */
export interface SchedulesListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** Schedules: runs that start by the clock. */
export class SchedulesOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return your schedules by name, with their next and last ticks.
   */
  list(query: SchedulesListQuery = {}, options?: RequestOptions): Promise<wire.SchedulePage> {
    return this.requests.ask(wire.SchedulePage, { method: "GET", path: "/v1/schedules", query }, options);
  }

  /**
   * Make a schedule that runs an agent for you, or replace yours with this name.
   *
   * An equal schedule stays as it is.
   */
  put(body: wire.NewSchedule, options?: RequestOptions): Promise<wire.ScheduleInfo> {
    return this.requests.ask(wire.ScheduleInfo, { method: "POST", path: "/v1/schedules", body, repeat: "keyed" }, options);
  }

  /**
   * Return a schedule with its next and last ticks.
   */
  get(scheduleId: string, options?: RequestOptions): Promise<wire.ScheduleInfo> {
    return this.requests.ask(wire.ScheduleInfo, { method: "GET", path: path`/v1/schedules/${scheduleId}` }, options);
  }

  /**
   * Return up to ten ticks that come next, and the last ten with their runs; a skipped tick has none.
   */
  ticks(scheduleId: string, options?: RequestOptions): Promise<wire.ScheduleTicks> {
    return this.requests.ask(wire.ScheduleTicks, { method: "GET", path: path`/v1/schedules/${scheduleId}/ticks` }, options);
  }

  /**
   * Start no further runs; those that go on are not affected.
   */
  pause(scheduleId: string, options?: RequestOptions): Promise<wire.ScheduleInfo> {
    return this.requests.ask(wire.ScheduleInfo, { method: "POST", path: path`/v1/schedules/${scheduleId}/pause`, repeat: "keyed" }, options);
  }

  /**
   * Start runs again, from the next tick on.
   */
  resume(scheduleId: string, options?: RequestOptions): Promise<wire.ScheduleInfo> {
    return this.requests.ask(wire.ScheduleInfo, { method: "POST", path: path`/v1/schedules/${scheduleId}/resume`, repeat: "keyed" }, options);
  }

  /**
   * Start a run at once, beside the ticks; a second request within the same second is the same run.
   */
  run(scheduleId: string, options?: RequestOptions): Promise<wire.AcceptedRun> {
    return this.requests.ask(wire.AcceptedRun, { method: "POST", path: path`/v1/schedules/${scheduleId}/run`, repeat: "derived" }, options);
  }

  /**
   * Delete a schedule; its runs stay.
   */
  delete(scheduleId: string, options?: RequestOptions): Promise<wire.Deleted> {
    return this.requests.ask(wire.Deleted, { method: "DELETE", path: path`/v1/schedules/${scheduleId}`, repeat: "keyed" }, options);
  }
}

/** The query of `limits.list`. */
export interface LimitsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** Limits for people and teams: what runs may spend together. */
export class LimitsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the limits that your runs count for, with what is left of them now.
   *
   * An operator gets all limits of the tenant.
   */
  list(query: LimitsListQuery = {}, options?: RequestOptions): Promise<wire.LimitList> {
    return this.requests.ask(wire.LimitList, { method: "GET", path: "/v1/limits", query }, options);
  }

  /**
   * Set a limit, or replace the one with this name; for operators only.
   *
   * It holds in every process of the fleet within two seconds. What was spent of a limit with the same name in
   * the same period counts.
   */
  put(body: wire.NewLimit, options?: RequestOptions): Promise<wire.LimitInfo> {
    return this.requests.ask(wire.LimitInfo, { method: "POST", path: "/v1/limits", body, repeat: "keyed" }, options);
  }

  /**
   * Remove a limit; for operators only. What was spent of it is kept to the end of its period.
   */
  delete(limitName: string, options?: RequestOptions): Promise<wire.LimitInfo> {
    return this.requests.ask(wire.LimitInfo, { method: "DELETE", path: path`/v1/limits/${limitName}`, repeat: "keyed" }, options);
  }
}

/** The query of `datasets.list`. */
export interface DatasetsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** The query of `datasets.get`. */
export interface DatasetsGetQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
}

/** The query of `datasets.deleteCase`. */
export interface DatasetsDeleteCaseQuery {
  /** The case. */
  readonly name: string;
}

/** Data sets of evaluations, and their cases. */
export class DatasetsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return your data sets by name.
   */
  list(query: DatasetsListQuery = {}, options?: RequestOptions): Promise<wire.EvalDatasetPage> {
    return this.requests.ask(wire.EvalDatasetPage, { method: "GET", path: "/v1/datasets", query }, options);
  }

  /**
   * Make a data set without cases; yours with this name stays as it is.
   */
  make(body: wire.NewDataset, options?: RequestOptions): Promise<wire.EvalDataset> {
    return this.requests.ask(wire.EvalDataset, { method: "POST", path: "/v1/datasets", body, repeat: "harmless" }, options);
  }

  /**
   * Return a data set with a page of its cases, in their order.
   */
  get(datasetId: string, query: DatasetsGetQuery = {}, options?: RequestOptions): Promise<wire.EvalDatasetView> {
    return this.requests.ask(wire.EvalDatasetView, { method: "GET", path: path`/v1/datasets/${datasetId}`, query }, options);
  }

  /**
   * Return a data set as a YAML file in the form of pydantic-evals.
   */
  yaml(datasetId: string, options?: RequestOptions): Promise<string> {
    return this.requests.text({ method: "GET", path: path`/v1/datasets/${datasetId}/yaml` }, options);
  }

  /**
   * Delete a data set with its cases; experiments on it stay.
   */
  delete(datasetId: string, options?: RequestOptions): Promise<wire.Deleted> {
    return this.requests.ask(wire.Deleted, { method: "DELETE", path: path`/v1/datasets/${datasetId}`, repeat: "keyed" }, options);
  }

  /**
   * Add a case to a data set: from a run of yours, or from inputs. An equal case stays as it is.
   *
   * What is given beside `runId` replaces what the run says. `inputs` with `conversation` are messages.
   */
  addCase(datasetId: string, body: wire.NewDatasetCase = {}, options?: RequestOptions): Promise<wire.EvalDatasetCase> {
    return this.requests.ask(wire.EvalDatasetCase, { method: "POST", path: path`/v1/datasets/${datasetId}/cases`, body, repeat: "keyed" }, options);
  }

  /**
   * Change inputs, expected answer, tags or metadata of the case that `name` names; the rest stays.
   */
  changeCase(datasetId: string, body: wire.DatasetCaseChange, options?: RequestOptions): Promise<wire.EvalDatasetCase> {
    return this.requests.ask(wire.EvalDatasetCase, { method: "PATCH", path: path`/v1/datasets/${datasetId}/cases`, body, repeat: "keyed" }, options);
  }

  /**
   * Delete a case of a data set.
   */
  deleteCase(datasetId: string, query: DatasetsDeleteCaseQuery, options?: RequestOptions): Promise<wire.EvalDataset> {
    return this.requests.ask(wire.EvalDataset, { method: "DELETE", path: path`/v1/datasets/${datasetId}/cases`, query, repeat: "keyed" }, options);
  }
}

/** The query of `experiments.list`. */
export interface ExperimentsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Experiments with this agent. */
  readonly agent?: string | undefined;
  /** Experiments with this data set. */
  readonly dataset?: string | undefined;
}

/** The query of `experiments.compare`. */
export interface ExperimentsCompareQuery {
  /** The older experiment. */
  readonly old: string;
}

/** Evaluations with their cases. */
export class ExperimentsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return your experiments, the newest first; one that has not ended with what was scored so far.
   */
  list(query: ExperimentsListQuery = {}, options?: RequestOptions): Promise<wire.EvalExperimentPage> {
    return this.requests.ask(wire.EvalExperimentPage, { method: "GET", path: "/v1/experiments", query }, options);
  }

  /**
   * Return an experiment with its attempts at cases.
   */
  get(experimentId: string, options?: RequestOptions): Promise<wire.EvalResult> {
    return this.requests.ask(wire.EvalResult, { method: "GET", path: path`/v1/experiments/${experimentId}` }, options);
  }

  /**
   * Compare an experiment with an older one of yours, case by case.
   */
  compare(experimentId: string, query: ExperimentsCompareQuery, options?: RequestOptions): Promise<wire.EvalComparison> {
    return this.requests.ask(wire.EvalComparison, { method: "GET", path: path`/v1/experiments/${experimentId}/comparison`, query }, options);
  }
}

/** The query of `deliveries.list`. */
export interface DeliveriesListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Only those that are tried no more. By default false. */
  readonly dead?: boolean | undefined;
}

/** Notifications and messages of channels that were not taken. */
export class DeliveriesOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the deliveries of your sessions that were not taken; with `dead`, the dead letters alone.
   */
  list(query: DeliveriesListQuery = {}, options?: RequestOptions): Promise<wire.DeliveryPage> {
    return this.requests.ask(wire.DeliveryPage, { method: "GET", path: "/v1/deliveries", query }, options);
  }

  /**
   * Return a delivery that was not taken.
   */
  get(deliveryId: string, options?: RequestOptions): Promise<wire.DeliveryInfo> {
    return this.requests.ask(wire.DeliveryInfo, { method: "GET", path: path`/v1/deliveries/${deliveryId}` }, options);
  }

  /**
   * Try a delivery again now; its attempts are counted from the beginning.
   */
  retry(deliveryId: string, options?: RequestOptions): Promise<wire.DeliveryInfo> {
    return this.requests.ask(wire.DeliveryInfo, { method: "POST", path: path`/v1/deliveries/${deliveryId}/retry`, repeat: "keyed" }, options);
  }

  /**
   * Delete a delivery: it is tried no more.
   */
  delete(deliveryId: string, options?: RequestOptions): Promise<wire.DeliveryInfo> {
    return this.requests.ask(wire.DeliveryInfo, { method: "DELETE", path: path`/v1/deliveries/${deliveryId}`, repeat: "keyed" }, options);
  }
}

/** The query of `proposals.list`. */
export interface ProposalsListQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** Proposals with this status. */
  readonly status?: "open" | "accepted" | "refused" | "applied" | undefined;
  /** Proposals for this agent. */
  readonly agent?: string | undefined;
}

/** Proposals to change agents; for improvers. */
export class ProposalsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the proposals to change agents of the tenant, newest first.
   *
   * For improvers: a proposal quotes runs of all users of the tenant.
   */
  list(query: ProposalsListQuery = {}, options?: RequestOptions): Promise<wire.ProposalList> {
    return this.requests.ask(wire.ProposalList, { method: "GET", path: "/v1/proposals", query }, options);
  }

  /**
   * Let the builder model propose a change to an agent, for a goal.
   *
   * It works on recorded runs. The response is sent at once; the proposal appears in the list when it is made.
   * After a restart of the server, the same key resumes the work.
   */
  create(body: wire.NewProposal, options?: RequestOptions): Promise<wire.ProposalAccepted> {
    return this.requests.ask(wire.ProposalAccepted, { method: "POST", path: "/v1/proposals", body, repeat: "derived" }, options);
  }

  /**
   * Return a proposal: the change, its evidence, its check and its verdict.
   */
  get(proposalId: string, options?: RequestOptions): Promise<wire.ProposalView> {
    return this.requests.ask(wire.ProposalView, { method: "GET", path: path`/v1/proposals/${proposalId}` }, options);
  }

  /**
   * Repeat recorded runs with both versions, and compare the results.
   *
   * Tools are replayed; models are called. The response is sent at once; the check appears in the proposal
   * when it is done.
   */
  check(proposalId: string, body: wire.ProposalTrial = {}, options?: RequestOptions): Promise<wire.ProposalAccepted> {
    return this.requests.ask(wire.ProposalAccepted, { method: "POST", path: path`/v1/proposals/${proposalId}/check`, body, repeat: "keyed" }, options);
  }

  /**
   * Record your approval; it can be withdrawn until the change is applied.
   *
   * The operator of the server applies the change with `builder.apply`.
   */
  approve(proposalId: string, body: wire.Verdict = {}, options?: RequestOptions): Promise<wire.ProposalView> {
    return this.requests.ask(wire.ProposalView, { method: "POST", path: path`/v1/proposals/${proposalId}/approve`, body, repeat: "keyed" }, options);
  }

  /**
   * Record your refusal and its reason.
   */
  refuse(proposalId: string, body: wire.Verdict = {}, options?: RequestOptions): Promise<wire.ProposalView> {
    return this.requests.ask(wire.ProposalView, { method: "POST", path: path`/v1/proposals/${proposalId}/refuse`, body, repeat: "keyed" }, options);
  }
}

/** The query of `agents.versions`. */
export interface AgentsVersionsQuery {
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
  /** Items per page. By default 50. */
  readonly limit?: number | undefined;
  /** An agent. */
  readonly agent: string;
}

/** The query of `agents.compare`. */
export interface AgentsCompareQuery {
  /** An agent. */
  readonly agent: string;
  /** A version of the agent, as `/versions` names it. */
  readonly old: wire.Sha256;
  /** A version of the agent, as `/versions` names it. */
  readonly new: wire.Sha256;
}

/** Agents and their versions. */
export class AgentsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the agents that runs can be started with.
   *
   * All of them: the program registers them when it starts, so the list has no pages.
   */
  list(options?: RequestOptions): Promise<wire.AgentList> {
    return this.requests.ask(wire.AgentList, { method: "GET", path: "/v1/agents" }, options);
  }

  /**
   * Return the versions of an agent in your runs, with the results of those runs.
   *
   * Rates and means have 95 % confidence intervals.
   */
  versions(query: AgentsVersionsQuery, options?: RequestOptions): Promise<wire.AgentVersions> {
    return this.requests.ask(wire.AgentVersions, { method: "GET", path: "/v1/versions", query }, options);
  }

  /**
   * Return the results of two versions of an agent, and the confidence of their difference.
   *
   * The verdict is `better` or `worse` only with at least five runs of each version, if Fisher's exact test
   * (`pValue`) and the whole confidence interval of the difference say so. Otherwise it is `unclear`.
   */
  compare(query: AgentsCompareQuery, options?: RequestOptions): Promise<wire.AgentComparison> {
    return this.requests.ask(wire.AgentComparison, { method: "GET", path: "/v1/compare", query }, options);
  }
}

/** Tools of the agents. */
export class ToolsOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return the tools of all agents; tools that are added at run time are not included.
   *
   * All of them: the program registers them when it starts, so the list has no pages.
   */
  list(options?: RequestOptions): Promise<wire.ToolList> {
    return this.requests.ask(wire.ToolList, { method: "GET", path: "/v1/tools" }, options);
  }
}

/** Health and metrics of the server. */
export class ServerOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Return whether the server is alive; needs no credentials.
   *
   * `problem` says why a store cannot write: a restart would not help.
   */
  health(options?: RequestOptions): Promise<wire.Health> {
    return this.requests.ask(wire.Health, { method: "GET", path: "/v1/health" }, options);
  }

  /**
   * Return whether requests should be sent here; needs no credentials.
   *
   * 503 from the signal that ends the server on: it still answers requests until its runs are drained. 503
   * also while a store cannot be written, such as on a full disk, until a write has succeeded.
   */
  ready(options?: RequestOptions): Promise<wire.Health> {
    return this.requests.ask(wire.Health, { method: "GET", path: "/v1/ready" }, options);
  }

  /**
   * Return metrics of the whole server; for operators only.
   */
  metrics(options?: RequestOptions): Promise<string> {
    return this.requests.text({ method: "GET", path: "/v1/metrics" }, options);
  }
}

/** AG-UI, for its clients. */
export class AguiOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Send a message to a thread, or answer its interrupts, and follow the run.
   *
   * The server has the history: of `messages` only the last is used, if it is a user message. A repeated
   * `runId` is the same run, from its beginning. A run that waits for people ends with an interrupt; the next
   * run answers all of them in `resume`. A refused request is a `RUN_ERROR` with a stable code.
   */
  run(agent: string, body: wire.JsonObject, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "POST", path: path`/v1/agui/${agent}`, body, repeat: "harmless" }, "text/event-stream", options);
  }
}

/** The AI SDK, for its clients. */
export class AiOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Send a message to a chat, or answer its requests, and follow the run.
   *
   * The server has the history: only the last message is used. A repeated message is the same run. A
   * regenerated answer or an edited message continues in a copy of the session.
   */
  chat(agent: string, body: wire.JsonObject, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "POST", path: path`/v1/ai/${agent}/chat`, body, repeat: "harmless" }, "text/event-stream", options);
  }

  /**
   * Return the messages of a chat as `UIMessage[]`, oldest first; a new chat has none.
   *
   * The run under way is the last message, as far as it is stored: the stream replaces it.
   */
  history(agent: string, chatId: string, options?: RequestOptions): Promise<JsonValue> {
    return this.requests.json({ method: "GET", path: path`/v1/ai/${agent}/chat/${chatId}` }, options);
  }

  /**
   * Send the current run of a chat from its beginning; 204 without one.
   */
  resume(agent: string, chatId: string, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: path`/v1/ai/${agent}/chat/${chatId}/stream` }, "text/event-stream", options);
  }
}

/** The query of `eve.stream`. */
export interface EveStreamQuery {
  /** The number of events to leave out. */
  readonly startIndex?: number | undefined;
  /** False ends the stream at the current end of the journal. By default true. */
  readonly follow?: boolean | undefined;
}

/** Routes of eve 0.13.8, for its clients. */
export class EveOperations {
  constructor(private readonly requests: Requests) {}

  /**
   * Create a session with its first message; the response is sent when the message is durable.
   */
  create(body: wire.JsonObject, headers: { "windlass-agent"?: string; } = {}, options?: RequestOptions): Promise<wire.JsonObject> {
    return this.requests.ask(wire.JsonObject, { method: "POST", path: "/eve/v1/session", body, headers, repeat: "keyed" }, options);
  }

  /**
   * Send a message to a session, answer its requests, or both.
   *
   * A message to a session that waits for answers joins its run, and open requests without an answer are
   * ignored. Any other message starts a run after the current one.
   */
  send(sessionId: string, body: wire.JsonObject, options?: RequestOptions): Promise<wire.JsonObject> {
    return this.requests.ask(wire.JsonObject, { method: "POST", path: path`/eve/v1/session/${sessionId}`, body, repeat: "keyed" }, options);
  }

  /**
   * Send the events of a session in the sequence of eve, as lines of JSON; then new ones.
   *
   * The stream does not end by itself: `session.waiting`, `session.completed` and `session.failed` end a turn.
   */
  stream(sessionId: string, query: EveStreamQuery = {}, options?: RequestOptions): AsyncGenerator<string, void, undefined> {
    return this.requests.lines({ method: "GET", path: path`/eve/v1/session/${sessionId}/stream`, query }, "application/x-ndjson", options);
  }

  /**
   * Return whether the server accepts requests, as `/v1/ready` does; needs no credentials.
   *
   * 503 while the server shuts down, and while a store cannot be written.
   */
  health(options?: RequestOptions): Promise<wire.JsonObject> {
    return this.requests.ask(wire.JsonObject, { method: "GET", path: "/eve/v1/health" }, options);
  }
}

/** All operations of a server. */
export class Operations {
  /** Sessions: created, continued, read, forked, exported and deleted. */
  readonly sessions: SessionsOperations;
  /** Sessions as `AgentSession` documents, with their stages. */
  readonly agentSessions: AgentSessionsOperations;
  /** Requests to people over all sessions, and their answers. */
  readonly approvals: ApprovalsOperations;
  /** Runs: listed, read, explained, cancelled, continued and judged. */
  readonly runs: RunsOperations;
  /** Events, stored and live. */
  readonly feeds: FeedsOperations;
  /** Schedules: runs that start by the clock. */
  readonly schedules: SchedulesOperations;
  /** Limits for people and teams: what runs may spend together. */
  readonly limits: LimitsOperations;
  /** Data sets of evaluations, and their cases. */
  readonly datasets: DatasetsOperations;
  /** Evaluations with their cases. */
  readonly experiments: ExperimentsOperations;
  /** Notifications and messages of channels that were not taken. */
  readonly deliveries: DeliveriesOperations;
  /** Proposals to change agents; for improvers. */
  readonly proposals: ProposalsOperations;
  /** Agents and their versions. */
  readonly agents: AgentsOperations;
  /** Tools of the agents. */
  readonly tools: ToolsOperations;
  /** Health and metrics of the server. */
  readonly server: ServerOperations;
  /** AG-UI, for its clients. */
  readonly agui: AguiOperations;
  /** The AI SDK, for its clients. */
  readonly ai: AiOperations;
  /** Routes of eve 0.13.8, for its clients. */
  readonly eve: EveOperations;

  constructor(protected readonly requests: Requests) {
    this.sessions = new SessionsOperations(requests);
    this.agentSessions = new AgentSessionsOperations(requests);
    this.approvals = new ApprovalsOperations(requests);
    this.runs = new RunsOperations(requests);
    this.feeds = new FeedsOperations(requests);
    this.schedules = new SchedulesOperations(requests);
    this.limits = new LimitsOperations(requests);
    this.datasets = new DatasetsOperations(requests);
    this.experiments = new ExperimentsOperations(requests);
    this.deliveries = new DeliveriesOperations(requests);
    this.proposals = new ProposalsOperations(requests);
    this.agents = new AgentsOperations(requests);
    this.tools = new ToolsOperations(requests);
    this.server = new ServerOperations(requests);
    this.agui = new AguiOperations(requests);
    this.ai = new AiOperations(requests);
    this.eve = new EveOperations(requests);
  }
}

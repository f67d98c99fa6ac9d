/** The server's routes as functions. */
import { z } from "zod";
import { ConnectionError, ProtocolError, reasonOf, systemClock, toApiError, type Clock } from "./connection.js";
import { CodecError, decode, DEPTH_MAX, encode } from "../codec.js";
import { readFeed, type FeedItem, type FeedOptions, type FeedSource } from "./feed.js";
import {
  AgentSession,
  DecisionRun,
  EvalComparison,
  EvalDataset,
  EvalDatasetCase,
  EvalDatasetPage,
  EvalDatasetView,
  EvalExperimentPage,
  EvalResult,
  TraceSpan,
  type AgentSessionChange,
  type BudgetLimits,
  type InputResponse,
  type RunStatus,
} from "../generated/index.js";
import * as rest from "../generated/rest.js";
import { open, quickArray, type JsonValue } from "../wire.js";

/** Bytes of one answer; pages and exports are larger than a message. */
const ANSWER_BYTES_MAX = 64 * 1_048_576;
/** A trace may have tens of thousands of spans: each is looked at once, and by the validators only if it does not fit. */
const TraceInfo = open({ ...rest.TraceInfo.shape, spans: quickArray(TraceSpan, isSpan) });

function isSpan(value: JsonValue): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { spanId, name, seq, startAt, endAt, parentId, attrs } = value;
  return (
    typeof spanId === "string" &&
    typeof name === "string" &&
    isUtc(startAt) &&
    (endAt === undefined || isUtc(endAt)) &&
    (parentId === undefined || typeof parentId === "string") &&
    (seq === undefined || (Number.isSafeInteger(seq) && Number(seq) > 0)) &&
    (attrs === undefined || (typeof attrs === "object" && attrs !== null && !Array.isArray(attrs)))
  );
}

/** A moment as the server writes it; the 29th of February is left to the validator. */
const UTC =
  /^[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}\.[0-9]{3}Z$/u;

function isUtc(value: JsonValue | undefined): boolean {
  return typeof value === "string" && UTC.test(value);
}

const LIMITS = { messageBytesMax: ANSWER_BYTES_MAX, depthMax: DEPTH_MAX };

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
  /** The same key and the same body again is the same request: nothing happens twice. */
  readonly idempotencyKey?: string | undefined;
}

/** How to continue a failed run. */
export interface RetryOptions extends RequestOptions {
  /** The most that both runs together may use, within the budget of the agent; what the failed run left when absent. */
  readonly budget?: BudgetLimits | undefined;
}

/** How much of a trace. */
export interface TraceOptions extends RequestOptions {
  /** Whether its events come too; yes when absent. */
  readonly events?: boolean | undefined;
  /** The `seq` of an earlier answer: only spans and events that are new or changed since. */
  readonly after?: number | undefined;
}

/** Which part of a list. */
export interface PageQuery {
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** Filters of a list of sessions. */
export interface SessionQuery extends ListQuery {
  readonly agent?: string | undefined;
  readonly status?: rest.SessionStatus | undefined;
  /** Words of messages, answers and names of called tools, or beginnings of them. */
  readonly text?: string | undefined;
  /** Whether sessions of subagents are listed as well. */
  readonly subagents?: boolean | undefined;
  readonly sort?: "created" | "updated" | "cost" | undefined;
}

/** Filters of a list of runs. */
export interface RunQuery extends ListQuery {
  readonly session?: string | undefined;
  /** Ids of runs, one a line; at most 100. */
  readonly runs?: string | undefined;
  readonly agent?: string | undefined;
  readonly status?: RunStatus | undefined;
  /** Whether runs of subagents are listed as well; they are when left out. */
  readonly subagents?: boolean | undefined;
  /** Milliseconds. */
  readonly durationMin?: number | undefined;
  readonly durationMax?: number | undefined;
  /** Words that must all occur in the session of the run. */
  readonly text?: string | undefined;
  readonly sort?: "started" | "duration" | "cost" | undefined;
}

/** Filters that runs and sessions share: of a run, or of one of the runs of a session. */
interface ListQuery extends PageQuery {
  /** What a waiting run waits for: input, recovery, person (one of both), subagent, provider, timer or budget. */
  readonly waitsOn?: string | undefined;
  /** The fingerprint of the package. */
  readonly version?: string | undefined;
  /** The kind of the error; `any` for every error. */
  readonly error?: string | undefined;
  readonly tag?: string | undefined;
  readonly feedback?: "up" | "down" | "none" | undefined;
  /** Whether a process took the run over after a crash. */
  readonly crashed?: boolean | undefined;
  /** ISO moments, the end left out: when a run started, or a session changed. */
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  /** Millionths of a dollar. */
  readonly costMin?: number | undefined;
  readonly costMax?: number | undefined;
  readonly ascending?: boolean | undefined;
  /** Whether the rows that match are counted, up to 10,001. */
  readonly total?: boolean | undefined;
}

/** Which decisions of a run; all without a limit. */
export interface DecisionQuery {
  readonly after?: number | undefined;
  readonly limit?: number | undefined;
}

/** Which refused starts. */
export interface RefusedQuery extends PageQuery {
  readonly agent?: string | undefined;
}

/** Which experiments. */
export interface ExperimentQuery extends PageQuery {
  readonly agent?: string | undefined;
  readonly dataset?: string | undefined;
}

/** Which deliveries. */
export interface DeliveryQuery extends PageQuery {
  /** Only those that are tried no more. */
  readonly dead?: boolean | undefined;
}

/** Which time, and of which agent; ISO moments, the end left out. */
export interface TimeQuery {
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly agent?: string | undefined;
}

/** Into which parts to cut the time. */
export interface StatsQuery extends TimeQuery {
  /** Seconds of each part. */
  readonly bucket?: number | undefined;
  /** Also the same numbers by agent, model or version. */
  readonly split?: "agent" | "model" | "version" | "tool" | undefined;
}

/** Which sessions with their stages. */
export interface AgentSessionQuery {
  readonly chatId?: string | undefined;
  readonly activeOnly?: boolean | undefined;
  readonly limit?: number | undefined;
}

/** Which of the safe points: the newest `limit` below `before`. */
export interface SafePointQuery {
  readonly before?: number | undefined;
  readonly limit?: number | undefined;
}

/** Which events of all sessions. */
export interface AgentEventsOptions extends FeedOptions {
  /** The types that are wanted; all that are kept when absent. */
  readonly types?: readonly string[] | undefined;
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

interface Call extends RequestOptions {
  readonly method?: "GET" | "POST" | "PATCH" | "DELETE";
  readonly query?: object;
  readonly body?: object | undefined;
}

/**
 * A client of one server.
 *
 * Every method throws ApiError if the server refuses, ConnectionError if it cannot be reached, and ProtocolError
 * if its answer is not what the route promises.
 */
export class Client {
  private readonly clock: Clock;

  constructor(private readonly options: ClientOptions = {}) {
    this.clock = options.clock ?? systemClock;
  }

  // Sessions.

  /** Begins a session, with its first message or without. */
  createSession(session: rest.NewSession, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, "/sessions", { ...options, method: "POST", body: session });
  }

  /** Says something in a session. */
  sendMessage(sessionId: string, message: rest.NewMessage, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, at("sessions", sessionId, "messages"), {
      ...options,
      method: "POST",
      body: message,
    });
  }

  /** Answers what a session asks. */
  answer(sessionId: string, responses: readonly InputResponse[], options?: RequestOptions): Promise<rest.Accepted> {
    const body = { responses };
    return this.ask(rest.Accepted, at("sessions", sessionId, "messages"), { ...options, method: "POST", body });
  }

  /** Asks for a shorter history. */
  compact(sessionId: string, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, at("sessions", sessionId, "compact"), { ...options, method: "POST" });
  }

  /** A page of sessions, newest first. */
  listSessions(query: SessionQuery = {}, options?: RequestOptions): Promise<rest.SessionPage> {
    return this.ask(rest.SessionPage, "/sessions", { ...options, query });
  }

  /** A session as an `AgentSession`: its user, chat and stage. */
  agentSession(sessionId: string, options?: RequestOptions): Promise<AgentSession> {
    return this.ask(AgentSession, at("sessions", sessionId, "agent-session"), options);
  }

  /** Changes the stage of a session; fields that are absent stay as they are. */
  updateAgentSession(sessionId: string, body: AgentSessionChange, options?: RequestOptions): Promise<AgentSession> {
    return this.ask(AgentSession, at("sessions", sessionId, "agent-session"), { ...options, method: "POST", body });
  }

  /** The sessions with their stages, newest first. */
  listAgentSessions(query: AgentSessionQuery = {}, options?: RequestOptions): Promise<rest.AgentSessionList> {
    return this.ask(rest.AgentSessionList, "/agent-sessions", { ...options, query });
  }

  /** One session. */
  getSession(sessionId: string, options?: RequestOptions): Promise<rest.SessionInfo> {
    return this.ask(rest.SessionInfo, at("sessions", sessionId), options);
  }

  /** A page of messages, oldest first. */
  history(sessionId: string, query: PageQuery = {}, options?: RequestOptions): Promise<rest.HistoryPage> {
    return this.ask(rest.HistoryPage, at("sessions", sessionId, "history"), { ...options, query });
  }

  /** A new session that begins as this one was at a record. */
  fork(sessionId: string, body: { readonly at?: number } = {}, options?: RequestOptions): Promise<rest.SessionInfo> {
    return this.ask(rest.SessionInfo, at("sessions", sessionId, "fork"), { ...options, method: "POST", body });
  }

  /** Removes a session and everything in it, those of its subagents included; returns which are gone. */
  async deleteSession(sessionId: string, options?: RequestOptions): Promise<readonly string[]> {
    return (await this.ask(rest.Deleted, at("sessions", sessionId), { ...options, method: "DELETE" })).deleted;
  }

  /** Asks the run under way in a session to end; the answer names it if there was one. */
  cancelSession(sessionId: string, reason?: string, options?: RequestOptions): Promise<rest.Accepted> {
    return this.cancel(at("sessions", sessionId, "cancel"), reason, options);
  }

  /** The records at which a fork of a session may begin. */
  safePoints(sessionId: string, query: SafePointQuery = {}, options?: RequestOptions): Promise<rest.SafePoints> {
    return this.ask(rest.SafePoints, at("sessions", sessionId, "safe-points"), { ...options, query });
  }

  /** Everything that is stored of a session, as lines of JSON. */
  exportSession(sessionId: string, options: RequestOptions = {}): Promise<string> {
    return this.sendText(at("sessions", sessionId, "export"), options);
  }

  // Runs.

  /** Where a run is. */
  getRun(runId: string, options?: RequestOptions): Promise<rest.RunInfo> {
    return this.ask(rest.RunInfo, at("runs", runId), options);
  }

  /** Asks a run to end; nothing happens to one that has ended. */
  cancelRun(runId: string, reason?: string, options?: RequestOptions): Promise<rest.Accepted> {
    return this.cancel(at("runs", runId, "cancel"), reason, options);
  }

  /** Continues a failed run in a new run of its session, which the answer names; calls with a result are not repeated. */
  retryRun(runId: string, { budget, ...options }: RetryOptions = {}): Promise<rest.Accepted> {
    const body = budget === undefined ? undefined : { budget };
    return this.ask(rest.Accepted, at("runs", runId, "retry"), { ...options, method: "POST", body });
  }

  /** The calls of a run that may have changed something, newest first, and whether each can be reversed. */
  undoPlan(runId: string, options?: RequestOptions): Promise<rest.UndoPlan> {
    return this.ask(rest.UndoPlan, at("runs", runId, "undo"), options);
  }

  /** Reverses the calls of a run that has ended, in a new run of its session, which the answer names. */
  undoRun(runId: string, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, at("runs", runId, "undo"), { ...options, method: "POST" });
  }

  /** A page of runs, newest first unless sorted otherwise. */
  listRuns(query: RunQuery = {}, options?: RequestOptions): Promise<rest.RunPage> {
    return this.ask(rest.RunPage, "/runs", { ...options, query });
  }

  /** Records what you say of a run, of one of its steps, or of an answer. */
  giveFeedback(runId: string, feedback: rest.NewFeedback, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, at("runs", runId, "feedback"), { ...options, method: "POST", body: feedback });
  }

  /** What people said of a run, oldest first. */
  async feedback(runId: string, options?: RequestOptions): Promise<readonly rest.FeedbackInfo[]> {
    return (await this.ask(rest.FeedbackList, at("runs", runId, "feedback"), options)).feedback;
  }

  /** A page of starts that were refused, newest first, with their errors. */
  refusedStarts(query: RefusedQuery = {}, options?: RequestOptions): Promise<rest.RefusedStartPage> {
    return this.ask(rest.RefusedStartPage, "/refused-starts", { ...options, query });
  }

  /** A page of schedules, by name. */
  schedules(query: PageQuery = {}, options?: RequestOptions): Promise<rest.SchedulePage> {
    return this.ask(rest.SchedulePage, "/schedules", { ...options, query });
  }

  /** Makes a schedule, or replaces the one with this name. */
  putSchedule(schedule: rest.NewSchedule, options?: RequestOptions): Promise<rest.ScheduleInfo> {
    return this.ask(rest.ScheduleInfo, "/schedules", { ...options, method: "POST", body: schedule });
  }

  /** Starts a run of a schedule at once, beside its ticks. */
  runSchedule(name: string, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, at("schedules", name, "run"), { ...options, method: "POST" });
  }

  /** The ticks of a schedule that come next, and the last ones with their runs. */
  scheduleTicks(name: string, options?: RequestOptions): Promise<rest.ScheduleTicks> {
    return this.ask(rest.ScheduleTicks, at("schedules", name, "ticks"), options);
  }

  /** A page of deliveries that were not taken. */
  deliveries(query: DeliveryQuery = {}, options?: RequestOptions): Promise<rest.DeliveryPage> {
    return this.ask(rest.DeliveryPage, "/deliveries", { ...options, query });
  }

  /** Tries a delivery again now. */
  retryDelivery(deliveryId: string, options?: RequestOptions): Promise<rest.DeliveryInfo> {
    return this.ask(rest.DeliveryInfo, at("deliveries", deliveryId, "retry"), { ...options, method: "POST" });
  }

  /** Gives a delivery up. */
  deleteDelivery(deliveryId: string, options?: RequestOptions): Promise<rest.DeliveryInfo> {
    return this.ask(rest.DeliveryInfo, at("deliveries", deliveryId), { ...options, method: "DELETE" });
  }

  // Evaluations.

  /** A page of data sets, by name. */
  datasets(query: PageQuery = {}, options?: RequestOptions): Promise<EvalDatasetPage> {
    return this.ask(EvalDatasetPage, "/datasets", { ...options, query });
  }

  /** Makes a data set without cases; one with this name stays as it is. */
  makeDataset(name: string, options?: RequestOptions): Promise<EvalDataset> {
    return this.ask(EvalDataset, "/datasets", { ...options, method: "POST", body: { name } });
  }

  /** A data set with a page of its cases. */
  dataset(name: string, query: PageQuery = {}, options?: RequestOptions): Promise<EvalDatasetView> {
    return this.ask(EvalDatasetView, at("datasets", name), { ...options, query });
  }

  /** A data set as a YAML file of pydantic-evals. */
  datasetFile(name: string, options: RequestOptions = {}): Promise<string> {
    return this.sendText(at("datasets", name, "yaml"), options);
  }

  /** Deletes a data set; experiments on it stay. */
  deleteDataset(name: string, options?: RequestOptions): Promise<EvalDataset> {
    return this.ask(EvalDataset, at("datasets", name), { ...options, method: "DELETE" });
  }

  /** Adds a case to a data set: from a recorded run, or from inputs. */
  addCase(dataset: string, body: rest.NewDatasetCase, options?: RequestOptions): Promise<EvalDatasetCase> {
    return this.ask(EvalDatasetCase, at("datasets", dataset, "cases"), { ...options, method: "POST", body });
  }

  /** Changes the case that the body names. */
  changeCase(dataset: string, body: rest.DatasetCaseChange, options?: RequestOptions): Promise<EvalDatasetCase> {
    return this.ask(EvalDatasetCase, at("datasets", dataset, "cases"), { ...options, method: "PATCH", body });
  }

  /** Removes a case from a data set. */
  removeCase(dataset: string, name: string, options?: RequestOptions): Promise<EvalDataset> {
    const query = { name };
    return this.ask(EvalDataset, at("datasets", dataset, "cases"), { ...options, method: "DELETE", query });
  }

  /** A page of experiments, newest first. */
  experiments(query: ExperimentQuery = {}, options?: RequestOptions): Promise<EvalExperimentPage> {
    return this.ask(EvalExperimentPage, "/experiments", { ...options, query });
  }

  /** An experiment with its attempts at cases. */
  experiment(experimentId: string, options?: RequestOptions): Promise<EvalResult> {
    return this.ask(EvalResult, at("experiments", experimentId), options);
  }

  /** An experiment beside an older one, case by case. */
  compareExperiments(experimentId: string, old: string, options?: RequestOptions): Promise<EvalComparison> {
    return this.ask(EvalComparison, at("experiments", experimentId, "comparison"), { ...options, query: { old } });
  }

  /** Stops a schedule from starting runs. */
  pauseSchedule(name: string, options?: RequestOptions): Promise<rest.ScheduleInfo> {
    return this.ask(rest.ScheduleInfo, at("schedules", name, "pause"), { ...options, method: "POST" });
  }

  /** Starts the runs of a schedule again, from its next tick on. */
  resumeSchedule(name: string, options?: RequestOptions): Promise<rest.ScheduleInfo> {
    return this.ask(rest.ScheduleInfo, at("schedules", name, "resume"), { ...options, method: "POST" });
  }

  /** Deletes a schedule; its runs stay. */
  deleteSchedule(name: string, options?: RequestOptions): Promise<rest.ScheduleInfo> {
    return this.ask(rest.ScheduleInfo, at("schedules", name), { ...options, method: "DELETE" });
  }

  /** The trace of a run: its spans with durations, and its events unless they are not wanted. */
  trace(runId: string, { events, after, ...options }: TraceOptions = {}): Promise<rest.TraceInfo> {
    return this.ask(TraceInfo, at("runs", runId, "trace"), { ...options, query: { events, after } });
  }

  /** The decisions of a run, with their outcomes; with a limit a page of them, behind the first `after`. */
  decisions(runId: string, options: RequestOptions & DecisionQuery = {}): Promise<DecisionRun> {
    const { after, limit, ...rest } = options;
    return this.ask(DecisionRun, at("runs", runId, "decisions"), { ...rest, query: { after, limit } });
  }

  /** The model request of a step of a run, counted from 0. */
  prompt(runId: string, stepIndex: number, options?: RequestOptions): Promise<rest.StepPrompt> {
    return this.ask(rest.StepPrompt, at("runs", runId, "steps", String(stepIndex), "prompt"), options);
  }

  /** What the playground can change of a step of a run, and the answer that the step got. */
  playground(runId: string, stepIndex: number, options?: RequestOptions): Promise<rest.PlaygroundDraft> {
    return this.ask(rest.PlaygroundDraft, at("runs", runId, "steps", String(stepIndex), "playground"), options);
  }

  /** Starts a playground run: a step of a run again, with changes. */
  play(
    runId: string,
    stepIndex: number,
    body: rest.NewPlaygroundRun,
    options?: RequestOptions,
  ): Promise<rest.Accepted> {
    const path = at("runs", runId, "steps", String(stepIndex), "playground");
    return this.ask(rest.Accepted, path, { ...options, method: "POST", body });
  }

  // Many runs.

  /** Runs over time, in numbers. */
  stats(query: StatsQuery = {}, options?: RequestOptions): Promise<rest.Stats> {
    return this.ask(rest.Stats, "/stats", { ...options, query });
  }

  /** Why runs failed. */
  failures(query: TimeQuery = {}, options?: RequestOptions): Promise<rest.Failures> {
    return this.ask(rest.Failures, "/failures", { ...options, query });
  }

  /** The versions of an agent that have run. */
  versions(agent: string, options?: RequestOptions): Promise<rest.AgentVersions> {
    return this.ask(rest.AgentVersions, "/versions", { ...options, query: { agent } });
  }

  /** Two versions of an agent side by side. */
  compare(
    query: { readonly agent: string; readonly old: string; readonly new: string },
    options?: RequestOptions,
  ): Promise<rest.AgentComparison> {
    return this.ask(rest.AgentComparison, "/compare", { ...options, query });
  }

  /** The proposed changes. */
  proposals(
    query: { readonly agent?: string | undefined; readonly status?: string | undefined } = {},
    options?: RequestOptions,
  ): Promise<rest.ProposalList> {
    return this.ask(rest.ProposalList, "/proposals", { ...options, query });
  }

  /** Asks for a proposal that helps a goal; returns its id, under which it will be found. */
  async propose(goal: string, agent?: string, options?: RequestOptions): Promise<string> {
    const body = agent === undefined ? { goal } : { goal, agent };
    return (await this.ask(rest.ProposalAccepted, "/proposals", { ...options, method: "POST", body })).proposalId;
  }

  /** Does recorded runs again with a proposal; the result will be in it. */
  async checkProposal(proposalId: string, options?: RequestOptions): Promise<void> {
    await this.ask(rest.ProposalAccepted, at("proposals", proposalId, "check"), {
      ...options,
      method: "POST",
      body: {},
    });
  }

  /** Accepts a proposal, or refuses it. */
  settleProposal(
    proposalId: string,
    verdict: "approve" | "refuse",
    body: rest.Verdict,
    options?: RequestOptions,
  ): Promise<rest.ProposalView> {
    return this.ask(rest.ProposalView, at("proposals", proposalId, verdict), { ...options, method: "POST", body });
  }

  // People.

  /** Everything that waits for a person. */
  approvals(query: PageQuery = {}, options?: RequestOptions): Promise<rest.ApprovalPage> {
    return this.ask(rest.ApprovalPage, "/approvals", { ...options, query });
  }

  /** Answers one request, wherever it was asked. */
  approve(requestId: string, answer: rest.Answer, options?: RequestOptions): Promise<rest.Accepted> {
    return this.ask(rest.Accepted, at("approvals", requestId), { ...options, method: "POST", body: answer });
  }

  // The server.

  /** The agents that runs can be started with. */
  async agents(options?: RequestOptions): Promise<readonly rest.AgentInfo[]> {
    return (await this.ask(rest.AgentList, "/agents", options)).agents;
  }

  /** The tools of all agents. */
  async tools(options?: RequestOptions): Promise<readonly rest.ToolInfo[]> {
    return (await this.ask(rest.ToolList, "/tools", options)).tools;
  }

  /** Whether the server is there. */
  health(options?: RequestOptions): Promise<rest.Health> {
    return this.ask(rest.Health, "/health", options);
  }

  // Feeds.

  /** Every event of a session, those that are stored and then those that come; see `readFeed`. */
  sessionEvents(sessionId: string, options: FeedOptions = {}): AsyncGenerator<FeedItem, void, undefined> {
    return this.feed("session", at("sessions", sessionId, "events"), options);
  }

  /** Every event of a run; ends with it. */
  runEvents(runId: string, options: FeedOptions = {}): AsyncGenerator<FeedItem, void, undefined> {
    return this.feed("run", at("runs", runId, "events"), options);
  }

  /** Events of all sessions as they come, from now on unless a cursor says from where. Live words only if `types` name them. */
  allEvents({ types, ...options }: AgentEventsOptions = {}): AsyncGenerator<FeedItem, void, undefined> {
    return this.feed("all", "/events", { ...options, after: options.after ?? "now" }, { types: types?.join(",") });
  }

  private feed(
    scope: FeedSource["scope"],
    path: string,
    options: FeedOptions,
    query: Query = {},
  ): AsyncGenerator<FeedItem, void, undefined> {
    const follow = options.follow === false ? false : undefined;
    const { last, before } = options;
    const source: FeedSource = {
      scope,
      connect: (after, signal) => {
        const place = after === undefined ? { last } : { after };
        return this.request(path, { query: { ...query, ...place, before, follow }, signal }, "text/event-stream");
      },
    };
    return readFeed(source, { clock: this.clock, ...options });
  }

  // Requests.

  private cancel(path: string, reason: string | undefined, options?: RequestOptions): Promise<rest.Accepted> {
    const body = reason === undefined ? undefined : { reason };
    return this.ask(rest.Accepted, path, { ...options, method: "POST", body });
  }

  private async ask<S extends z.ZodType>(schema: S, path: string, call: Call = {}): Promise<z.output<S>> {
    const bytes = await this.send(path, call);
    try {
      return decode(schema, bytes, LIMITS);
    } catch (error) {
      if (!(error instanceof CodecError)) throw error;
      throw new ProtocolError(`the answer to ${path} cannot be read: ${error.message}`);
    }
  }

  private async sendText(path: string, call: Call): Promise<string> {
    return new TextDecoder().decode(await this.send(path, call));
  }

  private async send(path: string, call: Call): Promise<Uint8Array> {
    const response = await this.request(path, call, "application/json");
    if (!response.ok) throw await toApiError(response, this.clock.now());
    try {
      return new Uint8Array(await response.arrayBuffer());
    } catch (error) {
      throw this.broken(error, call.signal);
    }
  }

  private async request(path: string, call: Call, accept: string): Promise<Response> {
    const { method = "GET", body, query = {}, signal, idempotencyKey } = call;
    const headers = new Headers({ accept });
    const token = await this.token();
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    if (body !== undefined) headers.set("content-type", "application/json");
    if (idempotencyKey !== undefined) headers.set("idempotency-key", idempotencyKey);
    const address = `${this.options.baseUrl ?? ""}/v1${path}${search(query as Query)}`;
    const init: RequestInit = { method, headers, redirect: "error", credentials: "same-origin" };
    if (body !== undefined) init.body = encode(body);
    if (signal !== undefined) init.signal = signal;
    try {
      return await (this.options.fetch ?? fetch)(address, init);
    } catch (error) {
      throw this.broken(error, signal);
    }
  }

  private broken(error: unknown, signal: AbortSignal | undefined): Error {
    if (signal?.aborted === true) return reasonOf(signal);
    return new ConnectionError("the server could not be reached, or the connection broke", { cause: error });
  }

  private async token(): Promise<string | undefined> {
    const { token } = this.options;
    return typeof token === "function" ? token() : token;
  }
}

/** The path of a thing; ids may hold anything, a slash too. */
function at(kind: string, id: string, ...rest: readonly string[]): string {
  return ["", kind, encodeURIComponent(id), ...rest].join("/");
}

function search(query: Query): string {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) if (value !== undefined) found.set(key, String(value));
  return found.size === 0 ? "" : `?${found.toString()}`;
}

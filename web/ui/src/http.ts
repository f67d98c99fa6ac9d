/** Transport to a server: requests over HTTP, events over server-sent events. */
import { Client, type Accepted, type AcceptedRun, type ClientOptions, type RunInfo } from "@windlass/protocol/client";
import type { RunFacts, Sent, Transport } from "./transport.js";

/** Makes a transport to a server. */
export function httpTransport(options: ClientOptions | Client = {}): Transport {
  const client = options instanceof Client ? options : new Client(options);
  return {
    features: { steer: true, decisions: true, attachments: true },
    createSession: async ({ message, ...wish }, call) =>
      sent(
        message === undefined
          ? await client.sessions.createEmpty(wish, call)
          : await client.sessions.create({ ...wish, message }, call),
      ),
    listSessions: async (call) => (await client.sessions.list({}, call)).sessions,
    agentSession: (sessionId, call) => client.agentSessions.get(sessionId, call),
    updateAgentSession: (sessionId, change, call) => client.agentSessions.update(sessionId, change, call),
    events: (sessionId, watch) =>
      client.sessionEvents(sessionId, watch.before === undefined ? watch : { ...watch, follow: false }),
    runEvents: (runId, watch) => client.runEvents(runId, watch),
    send: async (sessionId, message, { delivery, ...call } = {}) =>
      sent(
        delivery === "steer"
          ? await client.sessions.steer(sessionId, { message }, call)
          : await client.sessions.send(sessionId, { message }, call),
      ),
    cancel: async (runId, call) => {
      await client.runs.cancel(runId, {}, call);
    },
    retry: async (runId, call) => sent(await client.runs.retry(runId, {}, call)),
    answer: async (sessionId, response, call) => {
      await client.sessions.answer(sessionId, { responses: [response] }, call);
    },
    approvals: async (call) => (await client.approvals.list({}, call)).requests,
    run: async (runId, call) => facts(await client.runs.get(runId, call)),
    trace: (runId, call) => client.runs.trace(runId, {}, call),
    decisions: (runId, call) => client.runs.decisions(runId, {}, call),
  };
}

function sent({ sessionId, runId }: Accepted | AcceptedRun): Sent {
  return { sessionId, runId };
}

function facts({ run, result, requests }: RunInfo): RunFacts {
  const { runId, sessionId, agentId, status } = run;
  return {
    runId,
    sessionId,
    agentId,
    status,
    output: result?.output,
    error: result?.error,
    usage: result?.usage,
    requests,
  };
}

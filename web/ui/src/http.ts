/** Transport to a server: requests over HTTP, events over server-sent events. */
import { Client, newId, type Accepted, type ClientOptions } from "@windlass/protocol/client";
import type { RunFacts, Sent, Transport } from "./transport.js";

/** Makes a transport to a server. */
export function httpTransport(options: ClientOptions | Client = {}): Transport {
  const client = options instanceof Client ? options : new Client(options);
  return {
    features: { steer: true, decisions: true, attachments: true },
    createSession: async (wish, call) => sent(await client.createSession(wish, { ...call, idempotencyKey: newId() })),
    listSessions: async (call) => (await client.listSessions({}, call)).sessions,
    agentSession: (sessionId, call) => client.agentSession(sessionId, call),
    updateAgentSession: (sessionId, change, call) => client.updateAgentSession(sessionId, change, call),
    events: (sessionId, watch) =>
      client.sessionEvents(sessionId, watch.before === undefined ? watch : { ...watch, follow: false }),
    runEvents: (runId, watch) => client.runEvents(runId, watch),
    send: async (sessionId, message, { delivery, ...call } = {}) =>
      sent(await client.sendMessage(sessionId, { message, delivery }, { ...call, idempotencyKey: newId() })),
    cancel: async (runId, call) => {
      await client.cancelRun(runId, undefined, call);
    },
    retry: async (runId, call) => sent(await client.retryRun(runId, call)),
    answer: async (sessionId, response, call) => {
      await client.answer(sessionId, [response], call);
    },
    approvals: async (call) => (await client.approvals({}, call)).requests,
    run: async (runId, call) => facts(await client.getRun(runId, call)),
    trace: (runId, call) => client.trace(runId, call),
    decisions: (runId, call) => client.decisions(runId, call),
  };
}

function sent({ sessionId, runId }: Accepted): Sent {
  return { sessionId, runId };
}

function facts({ run, result, requests }: Awaited<ReturnType<Client["getRun"]>>): RunFacts {
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

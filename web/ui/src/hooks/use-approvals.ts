import type { InputResponse } from "@windlass/protocol";
import type { Approval } from "@windlass/protocol/client";
import { useCallback, useMemo } from "react";
import { useTransport } from "../context.js";
import type { Transport } from "../transport.js";
import { useAsync } from "./use-async.js";
import { useSession } from "./use-session.js";

/** Whose approvals: those of a session as they come, or everybody's, asked for again and again. */
export interface ApprovalsOptions {
  readonly transport?: Transport | undefined;
  readonly sessionId?: string | undefined;
  /** How often to ask, when no session is named. */
  readonly pollMs?: number | undefined;
}

/** What waits for a person. */
export interface Approvals {
  readonly approvals: readonly Approval[];
  readonly isLoading: boolean;
  readonly error: Error | undefined;
  readonly answer: (approval: Approval, response: Omit<InputResponse, "requestId">) => Promise<void>;
  readonly refresh: () => Promise<void>;
}

const POLL_MS = 5_000;
const NONE: readonly Approval[] = [];

/** What waits for a person: in one session, or everywhere. */
export function useApprovals({ transport: given, sessionId, pollMs = POLL_MS }: ApprovalsOptions = {}): Approvals {
  const transport = useTransport(given);
  const load = useMemo(
    () => (sessionId === undefined ? (signal: AbortSignal) => transport.approvals({ signal }) : undefined),
    [transport, sessionId],
  );
  const everywhere = useAsync(load, pollMs);
  const { conversation, error } = useSession(sessionId, given);
  const { requests, runId } = conversation.chat;
  const here = useMemo(
    () => (sessionId === undefined ? NONE : [...requests.values()].map((request) => ({ request, sessionId, runId }))),
    [requests, sessionId, runId],
  );
  const { refresh } = everywhere;
  const answer = useCallback(
    async (approval: Approval, response: Omit<InputResponse, "requestId">) => {
      await transport.answer(approval.sessionId, { ...response, requestId: approval.request.requestId });
      await refresh();
    },
    [transport, refresh],
  );
  if (sessionId !== undefined) return { approvals: here, isLoading: false, error, answer, refresh };
  return {
    approvals: everywhere.data ?? NONE,
    isLoading: everywhere.isLoading,
    error: everywhere.error,
    answer,
    refresh,
  };
}

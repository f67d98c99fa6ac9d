import type { SessionInfo } from "@windlass/protocol/client";
import { useCallback, useState } from "react";
import { useTransport } from "../context.js";
import type { SessionWish, Transport } from "../transport.js";
import { toError, useAsync } from "./use-async.js";

/** The sessions, and the one that is open. */
export interface AgentSessions {
  readonly sessions: readonly SessionInfo[];
  /** The session that was made or resumed last. */
  readonly current: string | undefined;
  readonly isLoading: boolean;
  readonly error: Error | undefined;
  /** Begins a session and opens it; returns its id. */
  readonly create: (wish?: SessionWish) => Promise<string>;
  /** Opens a session. */
  readonly resume: (sessionId: string) => void;
  readonly refresh: () => Promise<void>;
}

const NONE: readonly SessionInfo[] = [];

/** The sessions of a transport: to list, begin and resume them. */
export function useAgentSession(options: { readonly transport?: Transport | undefined } = {}): AgentSessions {
  const transport = useTransport(options.transport);
  const [current, setCurrent] = useState<string>();
  const [failure, setFailure] = useState<Error>();
  const load = useCallback((signal: AbortSignal) => transport.listSessions({ signal }), [transport]);
  const { data, isLoading, error, refresh } = useAsync(load);

  const create = useCallback(
    async (wish: SessionWish = {}): Promise<string> => {
      setFailure(undefined);
      try {
        const { sessionId } = await transport.createSession(wish);
        setCurrent(sessionId);
        void refresh();
        return sessionId;
      } catch (error) {
        setFailure(toError(error));
        throw error;
      }
    },
    [transport, refresh],
  );
  return { sessions: data ?? NONE, current, isLoading, error: failure ?? error, create, resume: setCurrent, refresh };
}

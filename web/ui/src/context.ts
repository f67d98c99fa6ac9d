/** The transport of a tree, given once at its top. */
import { createContext, createElement, use, useMemo, type ReactNode } from "react";
import { SessionStore } from "./session-store.js";
import type { Transport } from "./transport.js";

interface Scope {
  readonly transport: Transport;
  /** The one store of a session: however many components show it, it is read once. */
  readonly store: (sessionId: string) => SessionStore;
}

/** Sessions that a tree remembers, to show them at once when somebody comes back. */
export const SESSIONS_KEPT_MAX = 32;

const ScopeContext = createContext<Scope | undefined>(undefined);

/** Gives a transport to everything below. */
export function AgentProvider({
  transport,
  children,
}: {
  readonly transport: Transport;
  readonly children?: ReactNode;
}): ReactNode {
  const scope = useMemo(() => scopeOf(transport), [transport]);
  return createElement(ScopeContext, { value: scope }, children);
}

/** The scope of the given transport, or else of the nearest provider. */
export function useScope(transport?: Transport): Scope {
  const around = use(ScopeContext);
  const own = useMemo(
    () => (transport === undefined || transport === around?.transport ? undefined : scopeOf(transport)),
    [transport, around],
  );
  const scope = own ?? around;
  if (scope === undefined) throw new Error("no transport: put an AgentProvider around the component, or give it one");
  return scope;
}

/** The transport of the nearest provider. */
export function useTransport(transport?: Transport): Transport {
  return useScope(transport).transport;
}

function scopeOf(transport: Transport): Scope {
  const stores = new Map<string, SessionStore>();
  return {
    transport,
    store: (sessionId) => {
      const known = stores.get(sessionId);
      if (known !== undefined) return known;
      if (stores.size >= SESSIONS_KEPT_MAX) forgetOne(stores);
      const store = new SessionStore(transport, sessionId);
      stores.set(sessionId, store);
      return store;
    },
  };
}

/** Forgets the oldest session that nobody watches. */
function forgetOne(stores: Map<string, SessionStore>): void {
  for (const [sessionId, store] of stores) {
    if (!store.isIdle) continue;
    stores.delete(sessionId);
    return;
  }
}

import { useSyncExternalStore } from "react";
import { useScope } from "../context.js";
import { EMPTY_VIEW, type SessionView } from "../session-store.js";
import type { Transport } from "../transport.js";

const NOTHING = (): (() => void) => () => undefined;

/** A session as it happens; nothing while there is no id. */
export function useSession(sessionId: string | undefined, transport?: Transport): SessionView {
  const store = useScope(transport);
  const found = sessionId === undefined ? undefined : store.store(sessionId);
  const getView = found?.getView ?? (() => EMPTY_VIEW);
  return useSyncExternalStore(found?.subscribe ?? NOTHING, getView, getView);
}

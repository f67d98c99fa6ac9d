/** What was done, told once: it stays until it is read or something else is told. */
import { useSyncExternalStore } from "react";

let text: string | undefined;
const listeners = new Set<() => void>();

/** Tells something; nothing takes it back. */
export function tellDone(next: string | undefined): void {
  text = next;
  for (const listener of listeners) listener();
}

/** What was told last. */
export function useNotice(): string | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => text,
  );
}

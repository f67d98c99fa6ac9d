/** Something that is loaded, and loaded again. */
import { useCallback, useEffect, useRef, useState } from "react";

/** What was loaded, and how that stands. What was loaded before stays while it is loaded again. */
export interface Loaded<T> {
  readonly data: T | undefined;
  readonly isLoading: boolean;
  readonly error: Error | undefined;
  /** Loads it again. */
  readonly refresh: () => Promise<void>;
}

interface State<T> {
  readonly data: T | undefined;
  readonly isLoading: boolean;
  readonly error: Error | undefined;
}

/**
 * Loads something whenever `load` changes, and every `pollMs` after that.
 *
 * An answer that comes after a later question is dropped. Without `load` nothing is loaded.
 */
export function useAsync<T>(load: ((signal: AbortSignal) => Promise<T>) | undefined, pollMs?: number): Loaded<T> {
  const [state, setState] = useState<State<T>>({ data: undefined, isLoading: load !== undefined, error: undefined });
  const current = useRef<AbortController | undefined>(undefined);

  const refresh = useCallback(async (): Promise<void> => {
    current.current?.abort();
    if (load === undefined) return;
    const stop = (current.current = new AbortController());
    setState((before) => ({ ...before, isLoading: true }));
    try {
      const data = await load(stop.signal);
      if (!stop.signal.aborted) setState({ data, isLoading: false, error: undefined });
    } catch (error) {
      if (!stop.signal.aborted) setState((before) => ({ ...before, isLoading: false, error: toError(error) }));
    }
  }, [load]);

  useEffect(() => {
    setState({ data: undefined, isLoading: load !== undefined, error: undefined });
    void refresh();
    const timer = pollMs === undefined ? undefined : setInterval(() => void refresh(), pollMs);
    return () => {
      clearInterval(timer);
      current.current?.abort();
    };
  }, [load, refresh, pollMs]);

  return { ...state, refresh };
}

/** Whatever was thrown, as an error. */
export function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

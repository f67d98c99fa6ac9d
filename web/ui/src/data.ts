/** Data that hooks load and refresh: runs, traces and decisions. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { DecisionRun } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { useTransport } from "./session.js";
import type { CallOptions, RunFacts, Transport } from "./transport.js";

/** Loaded data and its state. The data of the last load stays while it is loaded again. */
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
 * Loads something whenever `load` changes, and every `pollMs` after that until it is over, while the page is seen.
 *
 * An answer that comes after a later question is dropped. Without `load` nothing is loaded.
 */
export function useAsync<T>(
  load: ((signal: AbortSignal) => Promise<T>) | undefined,
  pollMs?: number,
  isOver?: (data: T) => boolean,
): Loaded<T> {
  const isDone = useRef(false);
  const [state, setState] = useState<State<T>>({ data: undefined, isLoading: load !== undefined, error: undefined });
  const current = useRef<AbortController | undefined>(undefined);

  const refresh = useCallback(async (): Promise<void> => {
    current.current?.abort();
    if (load === undefined) return;
    const stop = (current.current = new AbortController());
    setState((before) => ({ ...before, isLoading: true }));
    try {
      const data = await load(stop.signal);
      if (stop.signal.aborted) return;
      isDone.current = isOver?.(data) ?? false;
      setState({ data, isLoading: false, error: undefined });
    } catch (error) {
      if (!stop.signal.aborted) setState((before) => ({ ...before, isLoading: false, error: toError(error) }));
    }
  }, [load, isOver]);

  useEffect(() => {
    isDone.current = false;
    setState({ data: undefined, isLoading: load !== undefined, error: undefined });
    void refresh();
    const again = (): void => {
      if (!isDone.current && document.visibilityState !== "hidden") void refresh();
    };
    const timer = pollMs === undefined ? undefined : setInterval(again, pollMs);
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

/** Which transport, and how often to ask. */
export interface RunOptions {
  readonly transport?: Transport | undefined;
  /** How often to ask again until the run is over; 2 s when absent. */
  readonly pollMs?: number | undefined;
}

/** A run, and the way to end it. */
export interface RunControl extends Loaded<RunFacts> {
  readonly cancel: () => Promise<void>;
}

/** Where a run is. */
export function useRun(runId: string | undefined, options: RunOptions = {}): RunControl {
  const transport = useTransport(options.transport);
  const loaded = useOfRun(runId, options, readRun, isRunOver);
  const { refresh } = loaded;
  const cancel = useCallback(async () => {
    if (runId === undefined) return;
    await transport.cancel(runId);
    await refresh();
  }, [transport, runId, refresh]);
  return { ...loaded, cancel };
}

/** The trace of a run. */
export function useTrace(runId: string | undefined, options: RunOptions = {}): Loaded<TraceInfo> {
  return useOfRun(runId, options, readTrace, isTraceOver);
}

/** The decisions of a run. */
export function useDecisions(runId: string | undefined, options: RunOptions = {}): Loaded<DecisionRun> {
  return useOfRun(runId, options, readDecisions, isDecided);
}

type Read<T> = (transport: Transport, runId: string, call: CallOptions) => Promise<T>;

const readRun: Read<RunFacts> = (transport, runId, call) => transport.run(runId, call);
const readTrace: Read<TraceInfo> = (transport, runId, call) => transport.trace(runId, call);
const readDecisions: Read<DecisionRun> = (transport, runId, call) => transport.decisions(runId, call);

const FOLLOW_MS = 2_000;
const OVER: ReadonlySet<string> = new Set(["completed", "failed", "cancelled", "budget_exhausted"]);
const isRunOver = ({ status }: RunFacts): boolean => OVER.has(status);
const isDecided = ({ completedAt }: DecisionRun): boolean => completedAt != null;
const isTraceOver = ({ spans }: TraceInfo): boolean =>
  spans.some(({ parentId, endAt }) => parentId === undefined && endAt !== undefined);

function useOfRun<T>(
  runId: string | undefined,
  options: RunOptions,
  read: Read<T>,
  isOver: (data: T) => boolean,
): Loaded<T> {
  const transport = useTransport(options.transport);
  const load = useMemo(
    () => (runId === undefined ? undefined : (signal: AbortSignal) => read(transport, runId, { signal })),
    [runId, transport, read],
  );
  return useAsync(load, options.pollMs ?? FOLLOW_MS, isOver);
}

/** An error, and a way to set it. It is forgotten as soon as `reconnects` changes: what failed before may be tried again. */
export function useErrorUntil(
  reconnects: number | string,
): readonly [Error | undefined, (error: Error | undefined) => void] {
  const [error, setError] = useState<Error>();
  const [seen, setSeen] = useState(reconnects);
  if (seen !== reconnects) {
    setSeen(reconnects);
    setError(undefined);
  }
  return [error, setError];
}

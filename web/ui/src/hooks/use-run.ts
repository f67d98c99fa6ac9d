import type { DecisionRun } from "@windlass/protocol";
import type { TraceInfo } from "@windlass/protocol/client";
import { useCallback, useMemo } from "react";
import { useTransport } from "../context.js";
import type { CallOptions, RunFacts, Transport } from "../transport.js";
import { useAsync, type Loaded } from "./use-async.js";

/** Which transport, and how often to ask again; once when `pollMs` is absent. */
export interface RunOptions {
  readonly transport?: Transport | undefined;
  readonly pollMs?: number | undefined;
}

/** A run, and the way to end it. */
export interface RunControl extends Loaded<RunFacts> {
  readonly cancel: () => Promise<void>;
}

/** Where a run is. */
export function useRun(runId: string | undefined, options: RunOptions = {}): RunControl {
  const transport = useTransport(options.transport);
  const loaded = useOfRun(runId, options, readRun);
  const { refresh } = loaded;
  const cancel = useCallback(async () => {
    if (runId === undefined) return;
    await transport.cancel(runId);
    await refresh();
  }, [transport, runId, refresh]);
  return { ...loaded, cancel };
}

/** What a run did and how long it took. */
export function useTrace(runId: string | undefined, options: RunOptions = {}): Loaded<TraceInfo> {
  return useOfRun(runId, options, readTrace);
}

/** What a run chose, among what, and what came of it. */
export function useDecisions(runId: string | undefined, options: RunOptions = {}): Loaded<DecisionRun> {
  return useOfRun(runId, options, readDecisions);
}

type Read<T> = (transport: Transport, runId: string, call: CallOptions) => Promise<T>;

const readRun: Read<RunFacts> = (transport, runId, call) => transport.run(runId, call);
const readTrace: Read<TraceInfo> = (transport, runId, call) => transport.trace(runId, call);
const readDecisions: Read<DecisionRun> = (transport, runId, call) => transport.decisions(runId, call);

function useOfRun<T>(runId: string | undefined, options: RunOptions, read: Read<T>): Loaded<T> {
  const transport = useTransport(options.transport);
  const load = useMemo(
    () => (runId === undefined ? undefined : (signal: AbortSignal) => read(transport, runId, { signal })),
    [runId, transport, read],
  );
  return useAsync(load, options.pollMs);
}

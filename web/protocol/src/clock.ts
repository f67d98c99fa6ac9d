/** Time and chance, as the clients take them: given, so that tests decide. */

/** Tells the time and waits. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after this many milliseconds; rejects with the signal's reason once it is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A number from 0 up to, but not including, 1. */
export type Chance = () => number;

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const fail = (): void => {
        clearTimeout(timer);
        reject(reasonOf(signal));
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", fail);
        resolve();
      }, ms);
      if (signal?.aborted === true) fail();
      else signal?.addEventListener("abort", fail, { once: true });
    }),
};

/** Why a signal was aborted, as an error. */
export function reasonOf(signal: AbortSignal | undefined): Error {
  const reason: unknown = signal?.reason;
  return reason instanceof Error ? reason : new DOMException("the work was aborted", "AbortError");
}

import { useState } from "react";

/** An error, and a way to set it. It is forgotten as soon as `reconnects` changes: what failed before may be tried again. */
export function useErrorUntil(reconnects: number): readonly [Error | undefined, (error: Error | undefined) => void] {
  const [error, setError] = useState<Error>();
  const [seen, setSeen] = useState(reconnects);
  if (seen !== reconnects) {
    setSeen(reconnects);
    setError(undefined);
  }
  return [error, setError];
}

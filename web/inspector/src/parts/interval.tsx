import type { Estimate } from "@windlass/protocol";
import { classes } from "@windlass/ui";
import type { ReactNode } from "react";

const FULL = 100;

/** A number and how sure it is, on a scale from 0. What cannot be seen stands beside it in words. */
export function Interval({
  estimate,
  most,
  color,
}: {
  readonly estimate: Estimate | undefined;
  readonly most: number;
  readonly color: string;
}): ReactNode {
  const at = (value: number): number => (most === 0 ? 0 : Math.min(Math.max(value / most, 0), 1) * FULL);
  const low = at(estimate?.low ?? estimate?.value ?? 0);
  const high = at(estimate?.high ?? estimate?.value ?? 0);
  return (
    <span aria-hidden className="relative mx-1.5 block h-4">
      <span className="absolute inset-x-0 top-1/2 h-px -translate-y-1/2 bg-agent-border" />
      {estimate !== undefined && (
        <>
          <span
            className={classes("absolute top-1/2 h-1.5 -translate-y-1/2 rounded opacity-40", color)}
            style={{ left: `${low}%`, width: `${high - low}%` }}
          />
          <span
            className={classes("absolute top-1/2 size-3 -translate-1/2 rounded-full", color)}
            style={{ left: `${at(estimate.value)}%` }}
          />
        </>
      )}
    </span>
  );
}

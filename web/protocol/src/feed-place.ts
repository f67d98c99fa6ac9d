/** Where a reader of a feed stands: what is new to it, what it has seen, and what is missing. */
import type { Event } from "./generated/index.js";

/** What an event is to a reader: new, seen before, or behind one that never came. */
export type Verdict = "new" | "seen" | "gap";

/**
 * Keeps count of what was read.
 *
 * Records have numbers without gaps in their session. Live deltas have a number in their step, which begins again
 * with each `step.started`. In the feed of one run the records of other runs are left out, so numbers may be
 * missing there.
 */
export class FeedPlace {
  private seq: number | undefined;
  private index = -1;

  /** `fromStart` says that the feed begins with record 1; `hasAll` that no record is left out. */
  constructor(
    private readonly hasAll: boolean,
    fromStart: boolean,
  ) {
    this.seq = fromStart ? 0 : undefined;
  }

  /** Takes the next event in, unless it was seen before or something is missing before it. */
  take(event: Event): Verdict {
    if (event.seq === undefined) return "new";
    return event.index === undefined ? this.record(event.seq, event.type) : this.delta(event.index);
  }

  private record(seq: number, type: string): Verdict {
    if (this.seq !== undefined) {
      if (seq <= this.seq) return "seen";
      if (this.hasAll && seq > this.seq + 1) return "gap";
    }
    this.seq = seq;
    if (type === "step.started") this.index = -1;
    return "new";
  }

  private delta(index: number): Verdict {
    if (index <= this.index) return "seen";
    this.index = index;
    return "new";
  }
}

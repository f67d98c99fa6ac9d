/** What came and was not taken yet, as something to iterate over. */

/** One writer, one reader. Values wait in order; more than the limit of them end it with an error. */
export class Queue<T> implements AsyncIterable<T> {
  private readonly ready: T[] = [];
  private wake: (() => void) | undefined;
  private isOver = false;
  private error: Error | undefined;

  constructor(private readonly waitingMax: number) {}

  /** Adds a value; after the end it is dropped. */
  push(value: T): void {
    if (this.isOver) return;
    if (this.ready.length >= this.waitingMax) {
      this.end(new RangeError(`too much that nobody reads: limit ${this.waitingMax.toLocaleString("en-US")}`));
      return;
    }
    this.ready.push(value);
    this.wake?.();
  }

  /** Ends it: what waits is still read, then the error is thrown if there is one. */
  end(error?: Error): void {
    if (this.isOver) return;
    this.isOver = true;
    this.error = error;
    this.wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const value = this.ready.shift();
      if (value !== undefined) yield value;
      else if (this.error !== undefined) throw this.error;
      else if (this.isOver) return;
      else await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }
}

/** Texts that the browser keeps: for a tab, or for later visits. Where it forbids that they last as long as the page. */
export class Texts {
  /** What the browser did not take. */
  private readonly rest = new Map<string, string>();

  constructor(private readonly open: () => Storage) {}

  get(name: string): string | undefined {
    return this.rest.get(name) ?? this.attempt((storage) => storage.getItem(name)) ?? undefined;
  }

  /** Keeps a text; the empty one is forgotten. */
  set(name: string, text: string): void {
    this.rest.delete(name);
    this.attempt((storage) => {
      storage.removeItem(name);
    });
    if (text === "") return;
    const isKept = this.attempt((storage) => {
      storage.setItem(name, text);
      return true;
    });
    if (isKept !== true) this.rest.set(name, text);
  }

  clear(): void {
    this.rest.clear();
    this.attempt((storage) => {
      storage.clear();
    });
  }

  private attempt<T>(act: (storage: Storage) => T): T | undefined {
    try {
      return act(this.open());
    } catch {
      // Storage is forbidden, or full.
      return undefined;
    }
  }
}

export const tabTexts = new Texts(() => sessionStorage);
export const lastingTexts = new Texts(() => localStorage);

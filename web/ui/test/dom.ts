/** A page to draw on, in a process that keeps node's own fetch, streams and signals. Import it first. */
import { Window } from "happy-dom";
import { afterEach } from "vitest";

const page = new Window({ url: "http://localhost/", width: 1_024, height: 768 });
const names = new Set(Object.getOwnPropertyNames(page).concat(["window", "document", "navigator", "location"]));
for (const name of names) {
  // Events dispatched in the page must be instances of the page's own classes.
  const isOurs = name in globalThis && name !== "navigator" && !name.endsWith("Event");
  if (!isOurs)
    Object.defineProperty(globalThis, name, { configurable: true, writable: true, value: page[name as never] });
}
Object.defineProperty(globalThis, "window", { configurable: true, value: page });

const { cleanup, configure } = await import("@testing-library/react");
configure({ asyncUtilTimeout: 60_000 });
afterEach(cleanup);

/** Lays the page out, roughly: frames have this height and rows have another. Returns what takes that back. */
export function withHeight(px: number): () => void {
  const undo = [setting("clientHeight", px), setting("clientWidth", 800), setting("offsetHeight", 64)];
  return () => {
    for (const one of undo) one();
  };
}

function setting(name: string, value: number): () => void {
  let prototype = document.createElement("div") as object;
  while (!Object.hasOwn(prototype, name)) prototype = Object.getPrototypeOf(prototype) as object;
  const before = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
  Object.defineProperty(prototype, name, { configurable: true, get: () => value });
  return () => {
    Object.defineProperty(prototype, name, before);
  };
}

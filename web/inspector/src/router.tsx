/**
 * Where the app is: the address, and nothing else.
 *
 * The history API and no library: `addresses.ts` has the pages with their search parameters, and all that a page
 * remembers is in those. Nothing else reads the address: values come parsed, and links are written from values.
 */
import { useMemo, useSyncExternalStore, type ComponentPropsWithoutRef, type MouseEvent, type ReactNode } from "react";

/** Reads a search parameter: its text, or undefined if the address does not name it. */
export type Parser<T> = (text: string | undefined) => T;

/** A value of a search parameter; undefined is that of one that the address does not name. */
type Value = string | number | undefined;

/** The search parameters of a page, by their names. */
export type Params = Readonly<Record<string, Parser<Value>>>;

/** The values of search parameters. */
export type Search<P extends Params> = { readonly [K in keyof P]: ReturnType<P[K]> };

/** Some values of search parameters; undefined removes one. */
export type Changes<P extends Params> = { readonly [K in keyof P]?: ReturnType<P[K]> | undefined };

/** Any text but an empty one. */
export const text: Parser<string | undefined> = (value) => (value === "" ? undefined : value);

/** A whole number above zero, such as that of a record. */
export const count: Parser<number | undefined> = (value) => {
  const number = Number(value);
  return Number.isInteger(number) && number > 0 ? number : undefined;
};

/** One of some words; the default for any other, if there is one. */
export function oneOf<const T extends string, const D extends T | undefined = undefined>(
  options: readonly T[],
  initial?: D,
): Parser<T | D> {
  return (value) => options.find((word) => word === value) ?? (initial as D);
}

/** The values that a query string has. */
export function searchIn<P extends Params>(params: P, query: string): Search<P> {
  const texts = new URLSearchParams(query);
  const values = Object.entries(params).map(([name, parse]) => [name, parse(texts.get(name) ?? undefined)]);
  return Object.fromEntries(values) as Search<P>;
}

/** A path with a query string, which keeps what `before` has and the values do not name. */
export function addressOf(path: string, values: Readonly<Record<string, Value>>, before = ""): string {
  const query = new URLSearchParams(before);
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === "") query.delete(name);
    else query.set(name, String(value));
  }
  return query.size === 0 ? path : `${path}?${query.toString()}`;
}

const MOVED = "windlass:moved";

function subscribe(listener: () => void): () => void {
  addEventListener("popstate", listener);
  addEventListener(MOVED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(MOVED, listener);
  };
}

/** Goes to an address; with `replace` the way back does not lead here. */
export function navigate(address: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  // With the origin: a path that begins with two slashes is one of this server, and not the name of another.
  const url = location.origin + address;
  // As a browser does with a link to the page that it is on: one way back, however often it was pressed.
  const isHere = new URL(url).href === location.href;
  if (replace || isHere) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  dispatchEvent(new Event(MOVED));
}

/** Where the app is: the parts of the path, decoded, and the whole address. */
export function usePlace(): { readonly path: readonly string[]; readonly address: string } {
  const address = useSyncExternalStore(subscribe, () => location.pathname + location.search);
  return useMemo(() => {
    const { pathname } = new URL(location.origin + address);
    const parts = pathname.split("/").filter((part) => part !== "");
    return { path: parts.map(decode), address };
  }, [address]);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Not written by this app; it leads nowhere, and says so.
    return part;
  }
}

/** Changes some values. Typing into a field should not fill the history: it replaces, unless told to push. */
type Change<P extends Params> = (changes: Changes<P>, options?: { readonly push?: boolean }) => void;

/** A function that changes one value: to what it is called with, or always to the same. */
interface SetValue<P extends Params> {
  <K extends keyof P>(name: K): (value: Changes<P>[K]) => void;
  <K extends keyof P>(name: K, value: Changes<P>[K]): () => void;
}

function change(changes: Readonly<Record<string, Value>>, { push = false }: { readonly push?: boolean } = {}): void {
  navigate(addressOf(location.pathname, changes, location.search), { replace: !push });
}

function set(name: string, ...fixed: readonly Value[]): (value?: Value) => void {
  return (value) => {
    change({ [name]: fixed.length === 0 ? value : fixed[0] });
  };
}

/** The values of the address, a way to change some of them, and functions that change one. */
export function useSearch<P extends Params>(params: P): readonly [Search<P>, Change<P>, SetValue<P>] {
  const query = useSyncExternalStore(subscribe, () => location.search);
  const values = useMemo(() => searchIn(params, query), [params, query]);
  return [values, change, set];
}

/** A link inside the app; with a modifier key the browser does what it always does. */
export function Link({ href, onClick, ...rest }: ComponentPropsWithoutRef<"a"> & { readonly href: string }): ReactNode {
  const follow = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (event.defaultPrevented || !isPlain) return;
    event.preventDefault();
    navigate(href);
  };
  return <a href={href} onClick={follow} {...rest} />;
}

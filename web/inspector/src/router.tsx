/**
 * Where the app is: the address, and nothing else.
 *
 * The history API and no library: `pages.tsx` has the addresses, and all that a page remembers is in its query.
 */
import {
  useCallback,
  useMemo,
  useSyncExternalStore,
  type ComponentPropsWithoutRef,
  type MouseEvent,
  type ReactNode,
} from "react";

/** An address in parts. */
interface Place {
  /** The path, decoded. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

/** Values of a query string; undefined removes a name. */
type QueryValues = Readonly<Record<string, string | number | undefined>>;

const MOVED = "windlass:moved";

function subscribe(listener: () => void): () => void {
  addEventListener("popstate", listener);
  addEventListener(MOVED, listener);
  return () => {
    removeEventListener("popstate", listener);
    removeEventListener(MOVED, listener);
  };
}

function address(): string {
  return location.pathname + location.search;
}

/** The address of a place: path parts may hold anything. */
export function to(path: readonly string[], query: QueryValues = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== "") found.set(name, String(value));
  const search = found.size === 0 ? "" : `?${found.toString()}`;
  return `/${path.map(encodeURIComponent).join("/")}${search}`;
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

/** Where the app is. */
export function usePlace(): Place {
  const now = useSyncExternalStore(subscribe, address);
  return useMemo(() => placeOf(now), [now]);
}

function placeOf(address: string): Place {
  const url = new URL(location.origin + address);
  return {
    path: url.pathname
      .split("/")
      .filter((part) => part !== "")
      .map(decode),
    query: url.searchParams,
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    // Not written by this app; it leads nowhere, and says so.
    return part;
  }
}

/** The query, and a way to change some of it. Typing into a field should not fill the history: it replaces. */
export function useQueryState(): readonly [
  URLSearchParams,
  (changes: QueryValues, options?: { readonly push?: boolean }) => void,
] {
  const { query } = usePlace();
  const change = useCallback((changes: QueryValues, { push = false }: { readonly push?: boolean } = {}) => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === "") next.delete(name);
      else next.set(name, String(value));
    }
    const search = next.size === 0 ? "" : `?${next.toString()}`;
    navigate(location.pathname + search, { replace: !push });
  }, []);
  return [query, change];
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

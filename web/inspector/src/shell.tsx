/** The frame around the pages: navigation, keys, notices, theme and the error boundary. */
import { useQuery } from "@tanstack/react-query";
import { Badge, Button, classes, Dialog, FOCUS } from "@windlass/ui";
import { Ellipsis, Keyboard, LogOut, ShipWheel, SunMoon, type LucideIcon } from "lucide-react";
import {
  Component,
  Fragment,
  useEffect,
  useRef,
  useState,
  useSyncExternalStore,
  type ReactNode,
  type RefObject,
} from "react";
import { door } from "./auth.js";
import { useOpen } from "./form.js";
import { approvalsQuery } from "./queries.js";
import { Link, navigate, usePlace } from "./router.js";
import { Failure, SMALL_FIELD } from "./parts.js";
import { lastingTexts } from "./storage.js";

/** An entry of the navigation. */
export interface NavPage {
  /** The address, without its first slash. */
  readonly path: string;
  readonly label: string;
  /** Pressed after `g`, opens the page. */
  readonly key?: string | undefined;
  readonly icon: LucideIcon;
  /** The entries about many runs stand below the others, under a title of their own. */
  readonly isAboutMany?: boolean | undefined;
  /** Whether a phone, which has room for few entries, shows it at the bottom; the others are behind "More". */
  readonly isFirst?: boolean | undefined;
}

interface ShellProps {
  readonly pages: readonly NavPage[];
  /** The path of the entry that is marked. */
  readonly current: string | undefined;
  readonly onHelp: () => void;
  readonly children: ReactNode;
}

/** The frame of every page. On a phone the navigation is at the bottom, in reach of a thumb. */
export function Shell({ pages, current, onHelp, children }: ShellProps): ReactNode {
  const page = usePlace().path[0];
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    // After navigation by keyboard the focus is at the top of the page, unless the page has put it somewhere itself.
    if (!isFirst.current && main.current?.contains(document.activeElement) !== true) main.current?.focus();
    isFirst.current = false;
  }, [page]);
  return (
    <div className="flex h-dvh flex-col-reverse text-sm sm:flex-row">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-10 focus:bg-agent-bg focus:p-2">
        Skip to the page
      </a>
      <nav
        aria-label="Pages"
        className="flex shrink-0 border-agent-border bg-agent-surface max-sm:border-t sm:w-44 sm:flex-col sm:overflow-y-auto sm:border-r sm:p-2 lg:w-52"
      >
        <p className="hidden items-center gap-2 px-2 pt-1 pb-3 font-bold sm:flex">
          <ShipWheel aria-hidden className="size-4.5" strokeWidth={2.25} />
          Windlass
        </p>
        <ul className="flex min-w-0 flex-1 sm:flex-col sm:gap-0.5">
          {pages.map((page, at) => (
            <Fragment key={page.path}>
              {page.isAboutMany === true && pages[at - 1]?.isAboutMany !== true && (
                <li className="mt-3 mb-1 hidden px-2 text-head font-semibold text-agent-muted sm:block">Improve</li>
              )}
              <li className={classes("min-w-0 flex-1 sm:flex-none", page.isFirst !== true && "max-sm:hidden")}>
                <NavLink page={page} isCurrent={page.path === current} />
              </li>
            </Fragment>
          ))}
          <li className="min-w-0 flex-1 sm:hidden">
            <More pages={pages.filter(({ isFirst }) => isFirst !== true)} current={current} />
          </li>
        </ul>
        <div className="hidden flex-col gap-0.5 pt-2 sm:flex">
          <Foot onHelp={onHelp} />
        </div>
      </nav>
      <main id="main" ref={main} tabIndex={-1} className="flex min-h-0 min-w-0 flex-1 flex-col outline-none">
        <Notice />
        {children}
      </main>
    </div>
  );
}

/** The notice, until it is closed. */
function Notice(): ReactNode {
  const text = useNotice();
  return (
    <div
      role="status"
      className={
        text === undefined
          ? "sr-only"
          : "flex items-center justify-between gap-3 border-b border-agent-border bg-agent-success-soft px-4 py-2"
      }
    >
      {text !== undefined && (
        <>
          <span className="min-w-0 wrap-anywhere">{text}</span>
          <Button
            onClick={() => {
              tellDone(undefined);
            }}
          >
            Close
          </Button>
        </>
      )}
    </div>
  );
}

const ENTRY =
  "relative flex w-full items-center rounded-md transition-colors duration-agent max-sm:min-h-12 max-sm:flex-col max-sm:justify-center max-sm:gap-1 max-sm:px-0.5 max-sm:text-xs sm:min-h-agent-control sm:gap-2.5 sm:px-2";
const ENTRY_ON = "bg-agent-accent-soft font-semibold text-agent-accent-text";
const ENTRY_OFF = "text-agent-muted hover:bg-agent-raised hover:text-agent-text";

function NavLink({ page, isCurrent }: { readonly page: NavPage; readonly isCurrent: boolean }): ReactNode {
  const { path, label, icon: Icon } = page;
  return (
    <Link
      href={`/${path}`}
      aria-current={isCurrent ? "page" : undefined}
      className={classes(ENTRY, isCurrent ? ENTRY_ON : ENTRY_OFF, FOCUS)}
    >
      <Icon aria-hidden className="size-4 shrink-0" />
      <span className="max-w-full truncate">{label}</span>
      {path === "approvals" && <Waiting />}
    </Link>
  );
}

/** On a phone: the pages that have no room at the bottom, and the settings. */
function More({ pages, current }: Pick<ShellProps, "pages" | "current">): ReactNode {
  const [isOpen, open, close] = useOpen();
  const isHere = pages.some(({ path }) => path === current);
  return (
    <>
      <button
        type="button"
        aria-haspopup="dialog"
        className={classes(ENTRY, "cursor-pointer", isHere ? ENTRY_ON : ENTRY_OFF, FOCUS)}
        onClick={open}
      >
        <Ellipsis aria-hidden className="size-4 shrink-0" />
        More
      </button>
      <Dialog title="More pages" isOpen={isOpen} onClose={close}>
        <ul className="grid grid-cols-2 gap-1 text-sm">
          {pages.map(({ path, label, icon: Icon }) => (
            <li key={path}>
              <Link
                href={`/${path}`}
                aria-current={path === current ? "page" : undefined}
                className={classes(
                  "flex min-h-11 items-center gap-2.5 rounded-md px-2",
                  path === current ? ENTRY_ON : ENTRY_OFF,
                  FOCUS,
                )}
                onClick={close}
              >
                <Icon aria-hidden className="size-4 shrink-0" />
                {label}
              </Link>
            </li>
          ))}
        </ul>
        <div className="flex flex-col gap-1 border-t border-agent-border pt-2 text-sm">
          <Foot />
        </div>
      </Dialog>
    </>
  );
}

function Waiting(): ReactNode {
  const { data } = useQuery(approvalsQuery);
  const count = data?.requests.length ?? 0;
  if (count === 0) return null;
  return (
    <Badge tone="wait" className="max-sm:absolute max-sm:top-1 max-sm:right-1 max-sm:px-1.5! sm:ml-auto">
      {count}
      {data?.next == null ? "" : "+"}
      <span className="sr-only"> waiting</span>
    </Badge>
  );
}

/** Theme, help about keys, and the button that forgets the API key. */
function Foot({ onHelp }: { readonly onHelp?: () => void }): ReactNode {
  const [theme, setTheme] = useState(readTheme);
  const choose = (next: Theme): void => {
    setTheme(next);
    applyTheme(next);
  };
  const entry = classes(ENTRY, ENTRY_OFF, "cursor-pointer", FOCUS);
  return (
    <>
      {door.key !== undefined && (
        <button
          type="button"
          className={entry}
          onClick={() => {
            door.leave();
          }}
        >
          <LogOut aria-hidden className="size-4" /> Forget the API key
        </button>
      )}
      {onHelp !== undefined && (
        <button type="button" className={entry} onClick={onHelp}>
          <Keyboard aria-hidden className="size-4" /> Keyboard <kbd className="ml-auto text-xs">?</kbd>
        </button>
      )}
      <label className="flex min-h-agent-control items-center gap-2.5 px-2 text-agent-muted">
        <SunMoon aria-hidden className="size-4 shrink-0" />
        Theme
        <select
          className={classes(SMALL_FIELD, "ml-auto text-xs!")}
          value={theme}
          onChange={(event) => {
            const theme = THEMES.find((theme) => theme === event.target.value);
            if (theme !== undefined) choose(theme);
          }}
        >
          {THEMES.map((theme) => (
            <option key={theme} value={theme}>
              {theme}
            </option>
          ))}
        </select>
      </label>
    </>
  );
}

// Keys.

/** Functions by key; a name is one key, or two with a space between them. */
type Keys = Readonly<Record<string, () => void>>;

const PAIR_MS = 1_200;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/u.test(target.tagName))
  );
}

/** Listens to keys outside of text fields. The newest function of a key is called. */
export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  useEffect(() => {
    latest.current = keys;
  });
  useEffect(() => {
    let first = { key: "", at: 0 };
    const onKey = (event: KeyboardEvent): void => {
      // A key that is held down is one press: what comes next was not seen yet.
      const isMeant = !event.defaultPrevented && !event.repeat && !event.ctrlKey && !event.metaKey && !event.altKey;
      if (!isMeant || isTyping(event.target) || document.querySelector("[role=dialog]") !== null) return;
      const isPair = event.timeStamp - first.at < PAIR_MS;
      const run = (isPair ? latest.current[`${first.key} ${event.key}`] : undefined) ?? latest.current[event.key];
      first = { key: event.key, at: event.timeStamp };
      if (run === undefined) return;
      event.preventDefault();
      run();
    };
    addEventListener("keydown", onKey);
    return () => {
      removeEventListener("keydown", onKey);
    };
  }, []);
}

/** A field that `/` leads to. */
export function useFindKey(): RefObject<HTMLInputElement | null> {
  const field = useRef<HTMLInputElement>(null);
  useKeys({
    "/": () => {
      field.current?.focus();
    },
  });
  return field;
}

/** The keys that open pages, on every page. */
export function pageKeys(pages: readonly NavPage[]): Keys {
  const open = (path: string) => (): void => {
    navigate(`/${path}`);
  };
  return Object.fromEntries(pages.flatMap(({ path, key }) => (key === undefined ? [] : [[`g ${key}`, open(path)]])));
}

type Help = readonly (readonly [keys: string, text: string])[];

const HELP: Help = [
  ["?", "Show these keys"],
  ["/", "Search (runs, sessions, a trace)"],
  ["j · k", "Next and previous (inbox)"],
  ["a", "Approve what is selected (inbox)"],
  ["d", "Deny it, with a reason if you like (inbox)"],
  ["s", "Approve every call of the tool in its session (inbox)"],
  ["e · x · o", "Edit its arguments, pick it to answer several, open its run (inbox)"],
  ["Enter · Shift Enter", "Send; begin a new line (chat)"],
  ["Escape", "Stop the agent (in the field of the chat)"],
  ["← · →", "One record back or forward (a session as it was); one interval (a chart), Enter opens its runs"],
];

interface KeysDialogProps {
  readonly pages: readonly NavPage[];
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

/** Lists the keys. */
export function KeysDialog({ pages, isOpen, onClose }: KeysDialogProps): ReactNode {
  return (
    <Dialog title="Keys" isOpen={isOpen} onClose={onClose}>
      <h3 className={HELP_HEAD}>Go to</h3>
      <dl className="grid grid-cols-2 gap-x-6 gap-y-1.5 text-sm sm:grid-cols-3">
        {pages.map(
          ({ key, label, path }) =>
            key !== undefined && (
              <div key={path} className="flex items-center gap-2">
                <dt className="inline-flex gap-1">
                  <kbd className={KEY}>g</kbd>
                  <kbd className={KEY}>{key}</kbd>
                </dt>
                <dd className="text-agent-muted">{label}</dd>
              </div>
            ),
        )}
      </dl>
      <h3 className={HELP_HEAD}>On a page</h3>
      <dl className="grid grid-cols-[auto_1fr] items-baseline gap-x-4 gap-y-1.5 text-sm">
        {HELP.map(([keys, text]) => (
          <div key={keys} className="contents">
            <dt className="flex flex-wrap gap-1">
              {keys.split(" · ").map((key) => (
                <kbd key={key} className={KEY}>
                  {key}
                </kbd>
              ))}
            </dt>
            <dd className="text-agent-muted">{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

const HELP_HEAD = "text-head font-semibold text-agent-muted";
const KEY = "rounded border border-agent-border bg-agent-surface px-1.5 font-mono text-xs text-agent-text";

// Notices: one at a time, shown until it is closed or replaced.

let text: string | undefined;
const listeners = new Set<() => void>();

/** Tells something; nothing takes it back. */
export function tellDone(next: string | undefined): void {
  text = next;
  for (const listener of listeners) listener();
}

/** The current notice. */
function useNotice(): string | undefined {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => text,
  );
}

// Themes: light, dark, or that of the system.

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const THEME = "windlass.theme";

/** The theme that was chosen here last. */
export function readTheme(): Theme {
  const stored = lastingTexts.get(THEME);
  return THEMES.find((theme) => theme === stored) ?? "system";
}

/** Shows a theme, and keeps it for next time. */
export function applyTheme(theme: Theme): void {
  const { classList } = document.documentElement;
  classList.toggle("dark", theme === "dark");
  classList.toggle("light", theme === "light");
  lastingTexts.set(THEME, theme === "system" ? "" : theme);
}

interface BoundaryProps {
  /** Another place is another try. */
  readonly place: string;
  readonly children: ReactNode;
}

interface BoundaryState {
  readonly error: Error | undefined;
  readonly place: string;
}

/** Holds a page that fails: the others go on. */
export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { error: undefined, place: this.props.place };

  static getDerivedStateFromError(error: unknown): Partial<BoundaryState> {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  static getDerivedStateFromProps({ place: path }: BoundaryProps, state: BoundaryState): BoundaryState {
    return path === state.place ? state : { error: undefined, place: path };
  }

  override render(): ReactNode {
    const { error } = this.state;
    return error === undefined ? (
      this.props.children
    ) : (
      <Failure
        error={error}
        onRetry={() => {
          this.setState({ error: undefined });
        }}
      />
    );
  }
}

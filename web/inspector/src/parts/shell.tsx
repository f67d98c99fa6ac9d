/** What stays around the pages: where to go, and what waits. */
import { useQuery } from "@tanstack/react-query";
import { classes, FOCUS } from "@windlass/ui";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { door } from "../lib/api.js";
import { approvalsQuery } from "../lib/queries.js";
import { tellDone, useNotice } from "../lib/notice.js";
import { Link, usePlace } from "../lib/router.js";
import { applyTheme, readTheme, THEMES, type Theme } from "../lib/theme.js";
import { SMALL_BUTTON, SMALL_FIELD } from "./styles.js";

const PAGES = [
  { id: "chat", label: "Chat", sign: "M4 5h16v11H9l-5 4z" },
  { id: "approvals", label: "Approvals", sign: "M4 12l5 5L20 6" },
  { id: "sessions", label: "Sessions", sign: "M4 6h16M4 12h16M4 18h10" },
  { id: "decisions", label: "Decisions", sign: "M12 4v6m0 0l-6 10m6-10l6 10" },
  { id: "overview", label: "Overview", sign: "M4 19V9m6 10V5m6 14v-7m4 7H2" },
] as const;
/** Pages that belong to one of the list. */
const HOME: Readonly<Record<string, string>> = { runs: "sessions", diff: "sessions" };

/** The frame of every page. On a phone the pages are at the bottom, in reach of a thumb. */
export function Shell({ children, onHelp }: { readonly children: ReactNode; readonly onHelp: () => void }): ReactNode {
  const { path } = usePlace();
  const page = path[0] ?? "chat";
  const current = HOME[page] ?? page;
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    // Whoever goes to another page by keyboard begins at its top.
    if (!isFirst.current) main.current?.focus();
    isFirst.current = false;
  }, [page]);
  return (
    <div className="flex h-dvh flex-col-reverse sm:flex-row">
      <a href="#main" className="sr-only focus:not-sr-only focus:absolute focus:z-10 focus:bg-agent-bg focus:p-2">
        Skip to the page
      </a>
      <nav
        aria-label="Pages"
        className="flex shrink-0 border-agent-border bg-agent-surface max-sm:border-t sm:w-44 sm:flex-col sm:border-r sm:p-2"
      >
        <p className="hidden items-center gap-2 px-3 pt-2 pb-4 text-sm font-semibold sm:flex">
          <img src="/icon.svg" alt="" className="size-5" />
          Windlass
        </p>
        <ul className="flex flex-1 sm:flex-col sm:gap-1">
          {PAGES.map((one) => (
            <li key={one.id} className="min-w-0 flex-1 sm:flex-none">
              <NavLink {...one} isCurrent={one.id === current} />
            </li>
          ))}
        </ul>
        <div className="hidden flex-col gap-2 p-1 sm:flex">
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

/** What was done, until somebody has read it. */
function Notice(): ReactNode {
  const text = useNotice();
  return (
    <div
      role="status"
      className={
        text === undefined
          ? "sr-only"
          : "flex items-center justify-between gap-3 border-b border-agent-border bg-agent-success/10 px-4 py-2 text-sm"
      }
    >
      {text !== undefined && (
        <>
          <span className="min-w-0 wrap-anywhere">{text}</span>
          <button
            type="button"
            className={SMALL_BUTTON}
            onClick={() => {
              tellDone(undefined);
            }}
          >
            Close
          </button>
        </>
      )}
    </div>
  );
}

type Page = (typeof PAGES)[number];

function NavLink({ id, label, sign, isCurrent }: Page & { readonly isCurrent: boolean }): ReactNode {
  return (
    <Link
      href={`/${id}`}
      aria-current={isCurrent ? "page" : undefined}
      className={classes(
        "relative flex min-h-12 flex-col items-center justify-center gap-1 rounded-md px-1 text-xs sm:min-h-9 sm:flex-row sm:justify-start sm:gap-3 sm:px-3 sm:text-sm",
        isCurrent
          ? "bg-agent-raised font-medium text-agent-text"
          : "text-agent-muted hover:bg-agent-raised hover:text-agent-text",
        FOCUS,
      )}
    >
      <svg
        aria-hidden
        viewBox="0 0 24 24"
        className="size-4 shrink-0"
        fill="none"
        stroke="currentColor"
        strokeWidth="2"
        strokeLinecap="round"
        strokeLinejoin="round"
      >
        <path d={sign} />
      </svg>
      <span className="max-w-full truncate">{label}</span>
      {id === "approvals" && <Waiting />}
    </Link>
  );
}

function Waiting(): ReactNode {
  const { data } = useQuery(approvalsQuery);
  const count = data?.requests.length ?? 0;
  if (count === 0) return null;
  return (
    <span className="absolute top-1 right-1 min-w-5 rounded-full bg-agent-accent px-1.5 text-center text-xs text-agent-on-accent sm:static sm:ml-auto">
      {count}
      {data?.next == null ? "" : "+"}
      <span className="sr-only"> waiting</span>
    </span>
  );
}

/** The theme, the keys, and the way out; without a keyboard nobody asks for keys. */
export function Foot({ onHelp }: { readonly onHelp?: () => void }): ReactNode {
  const [theme, setTheme] = useState(readTheme);
  const choose = (next: Theme): void => {
    setTheme(next);
    applyTheme(next);
  };
  return (
    <>
      <label className="flex items-center justify-between gap-2 text-xs text-agent-muted">
        Theme
        <select
          className={SMALL_FIELD}
          value={theme}
          onChange={(event) => {
            const found = THEMES.find((one) => one === event.target.value);
            if (found !== undefined) choose(found);
          }}
        >
          {THEMES.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      {onHelp !== undefined && (
        <button type="button" className={SMALL_BUTTON} onClick={onHelp}>
          Keys <kbd className="text-xs">?</kbd>
        </button>
      )}
      {door.key !== undefined && (
        <button
          type="button"
          className={SMALL_BUTTON}
          onClick={() => {
            door.leave();
          }}
        >
          Forget the key
        </button>
      )}
    </>
  );
}

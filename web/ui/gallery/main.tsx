import { StrictMode, useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { classes, FIELD, FOCUS } from "../src/index.js";
import "./gallery.css";
import { PAGES, type GalleryPage } from "./pages.js";

const THEMES = ["system", "light", "dark"] as const;
const WIDTHS = { wide: "max-w-4xl", phone: "max-w-[22rem]" } as const;

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => {
    removeEventListener("hashchange", listener);
  };
}

/** Every component with its states. The address names the component; theme and width are chosen above. */
function Gallery(): ReactNode {
  const name = useSyncExternalStore(subscribe, () => location.hash.slice(1));
  const page = PAGES.find((one) => one.name === name) ?? PAGES[0];
  const [theme, setTheme] = useState<string>("system");
  const [width, setWidth] = useState<string>("wide");
  useEffect(() => {
    const { classList } = document.documentElement;
    classList.toggle("light", theme === "light");
    classList.toggle("dark", theme === "dark");
  }, [theme]);
  return (
    <div className="flex min-h-dvh flex-col sm:flex-row">
      <nav
        aria-label="Components"
        className="border-agent-border bg-agent-surface p-3 max-sm:border-b sm:w-60 sm:shrink-0 sm:border-r"
      >
        <p className="mb-3 px-2 text-sm font-semibold">@windlass/ui</p>
        <ul className="flex gap-1 max-sm:flex-wrap sm:flex-col">
          {PAGES.map((one) => (
            <li key={one.name}>
              <a
                href={`#${one.name}`}
                aria-current={one === page ? "page" : undefined}
                className={classes(
                  "block rounded-md px-2 py-1 text-sm",
                  one === page ? "bg-agent-raised font-medium" : "text-agent-muted hover:bg-agent-raised",
                  FOCUS,
                )}
              >
                {one.name}
              </a>
            </li>
          ))}
        </ul>
        <div className="mt-4 flex flex-col gap-2 px-2">
          <Choice label="Theme" value={theme} options={THEMES} onChange={setTheme} />
          <Choice label="Width" value={width} options={Object.keys(WIDTHS)} onChange={setWidth} />
        </div>
      </nav>
      {page !== undefined && (
        <Page key={page.name} page={page} width={width === "phone" ? WIDTHS.phone : WIDTHS.wide} />
      )}
    </div>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly string[];
  readonly onChange: (value: string) => void;
}

function Choice({ label, value, options, onChange }: ChoiceProps): ReactNode {
  return (
    <label className="flex items-center justify-between gap-2 text-xs text-agent-muted">
      {label}
      <select
        className={classes(FIELD, "w-auto! py-1! text-xs!")}
        value={value}
        onChange={(event) => {
          onChange(event.target.value);
        }}
      >
        {options.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  );
}

function Page({ page, width }: { readonly page: GalleryPage; readonly width: string }): ReactNode {
  useEffect(() => {
    document.title = `${page.name} · Gallery`;
  }, [page]);
  return (
    <main className="min-w-0 flex-1 p-4 sm:p-8">
      <h1 className="text-xl font-semibold">{page.name}</h1>
      <p className="mt-1 max-w-prose text-sm text-agent-muted">{page.about}</p>
      {page.states.map(({ name, about, draw }) => (
        <div key={name} data-state={name} className={classes("mt-8", width)}>
          <h2 className="text-sm font-semibold">{name}</h2>
          {about !== undefined && <p className="mt-0.5 text-xs text-agent-muted">{about}</p>}
          <div className="mt-2">{draw()}</div>
        </div>
      ))}
    </main>
  );
}

const root = document.getElementById("root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <Gallery />
    </StrictMode>,
  );

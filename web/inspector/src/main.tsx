/** The inspector: the web app that a Windlass server shows. */
import "./strict.js";
import "./app.css";
import { StrictMode, Suspense, useEffect, useMemo, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { notifyManager, QueryClientProvider } from "@tanstack/react-query";
import { AgentProvider } from "@windlass/ui";
import { applyTheme, Boundary, KeysDialog, pageKeys, readTheme, Shell, useKeys } from "./shell.js";
import { Login, newQueryClient, transport, useDoor } from "./auth.js";
import { useOpen } from "./form.js";
import { useLive } from "./queries.js";
import { text, usePlace, useSearch } from "./router.js";
import { Loading } from "./parts.js";
import { fetchPages, NAVIGATION, openPage } from "./pages.js";

applyTheme(readTheme());
// Queries tell of a change before the next event: a second click finds the button disabled.
notifyManager.setScheduler(queueMicrotask);

const root = document.getElementById("root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );

/** The app. It is mounted anew for each key, so that nothing of another user stays. */
function App(): ReactNode {
  const { isClosed, entries } = useDoor();
  return isClosed ? <Login /> : <Inside key={entries} />;
}

/** Some pages have views that are entries of the navigation. */
const VIEW = { view: text };

function Inside(): ReactNode {
  const queries = useMemo(newQueryClient, []);
  const [isHelpOpen, openHelp, closeHelp] = useOpen();
  const { path, address } = usePlace();
  const [{ view }] = useSearch(VIEW);
  const { nav, content } = openPage(path, view);
  useKeys({ ...pageKeys(NAVIGATION), "?": openHelp });
  return (
    <QueryClientProvider client={queries}>
      <AgentProvider transport={transport}>
        <Live />
        <Shell pages={NAVIGATION} current={nav} onHelp={openHelp}>
          <Boundary place={address}>
            <Suspense fallback={<Loading />}>
              {content}
              <Fetch />
            </Suspense>
          </Boundary>
        </Shell>
        <KeysDialog pages={NAVIGATION} isOpen={isHelpOpen} onClose={closeHelp} />
      </AgentProvider>
    </QueryClientProvider>
  );
}

/** How long the other pages wait for a person who does nothing. */
const FETCH_MS = 10_000;

/** Shown with the first page, fetches the others: once a person does something, so that nothing holds up the first. */
function Fetch(): ReactNode {
  useEffect(() => {
    const begun = new AbortController();
    const fetch = (): void => {
      begun.abort();
      clearTimeout(timer);
      void fetchPages();
    };
    const timer = setTimeout(fetch, FETCH_MS);
    for (const type of ["pointermove", "pointerdown", "keydown"])
      addEventListener(type, fetch, { signal: begun.signal, passive: true });
    return () => {
      begun.abort();
      clearTimeout(timer);
    };
  }, []);
  return null;
}

/** Keeps lists up to date on every page. */
function Live(): ReactNode {
  useLive();
  return null;
}

import { QueryClientProvider } from "@tanstack/react-query";
import { AgentProvider } from "@windlass/ui";
import { useMemo, useState, type ReactNode } from "react";
import { newQueryClient, transport, useDoor } from "./lib/api.js";
import { useLive } from "./lib/live.js";
import { usePlace } from "./lib/router.js";
import { Empty, Heading, TextLink } from "./parts/basics.js";
import { Boundary } from "./parts/boundary.js";
import { GLOBAL_KEYS, KeysDialog, useKeys } from "./parts/keys.js";
import { Login } from "./parts/login.js";
import { Shell } from "./parts/shell.js";
import { KEY_HINT } from "./parts/styles.js";
import { ApprovalsPage } from "./pages/approvals.js";
import { ChatPage } from "./pages/chat.js";
import { DecisionsPage } from "./pages/decisions.js";
import { DiffPage } from "./pages/diff.js";
import { OverviewPage } from "./pages/overview.js";
import { RunPage } from "./pages/run.js";
import { SessionPage } from "./pages/session.js";
import { SessionsPage } from "./pages/sessions.js";

/** The whole app; a new key is a new one, so that nothing of another user stays. */
export function App(): ReactNode {
  const { isClosed, entries } = useDoor();
  return isClosed ? <Login /> : <Inside key={entries} />;
}

function Inside(): ReactNode {
  const queries = useMemo(newQueryClient, []);
  const [isHelpOpen, setIsHelpOpen] = useState(false);
  const { path } = usePlace();
  useKeys({
    ...GLOBAL_KEYS,
    "?": () => {
      setIsHelpOpen(true);
    },
  });
  return (
    <QueryClientProvider client={queries}>
      <AgentProvider transport={transport}>
        <Live />
        <Shell
          onHelp={() => {
            setIsHelpOpen(true);
          }}
        >
          <Boundary place={path.join("/")}>
            <Page path={path} />
          </Boundary>
        </Shell>
        <KeysDialog
          isOpen={isHelpOpen}
          onClose={() => {
            setIsHelpOpen(false);
          }}
        />
      </AgentProvider>
    </QueryClientProvider>
  );
}

/** Keeps lists up to date, whatever page is seen. */
function Live(): ReactNode {
  useLive();
  return null;
}

function Page({ path }: { readonly path: readonly string[] }): ReactNode {
  const [page = "chat", first, second] = path;
  // The ids of subagents have slashes, and may be typed as they are.
  const id = first === undefined ? undefined : path.slice(1).join("/");
  switch (page) {
    case "chat":
      return <ChatPage sessionId={id} />;
    case "approvals":
      return <ApprovalsPage />;
    case "sessions":
      return id === undefined ? <SessionsPage /> : <SessionPage key={id} sessionId={id} />;
    case "runs":
      return id === undefined ? <SessionsPage /> : <RunPage key={id} runId={id} />;
    case "diff":
      return <DiffPage first={first} second={second} />;
    case "decisions":
      return <DecisionsPage />;
    case "overview":
      return <OverviewPage />;
    default:
      return <Nowhere />;
  }
}

function Nowhere(): ReactNode {
  return (
    <>
      <Heading title="Nothing here" />
      <Empty title="There is no such page.">
        <p>
          The address may be mistyped. <TextLink href="/chat">Go to the chat</TextLink>
          <span className={KEY_HINT}>
            , or press <kbd>g</kbd> <kbd>s</kbd> for the sessions
          </span>
          .
        </p>
      </Empty>
    </>
  );
}

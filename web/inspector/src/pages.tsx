/**
 * The pages of the app: address, name, icon, key, and the component that shows it.
 *
 * Each is a file of its own in the build, and the rest is lazyPage as soon as the first one has its data: a page can be
 * opened while the server restarts.
 */
import {
  Activity,
  CalendarClock,
  ChartColumn,
  CircleX,
  Database,
  FlaskConical,
  GitCompareArrows,
  Inbox,
  Lightbulb,
  MessageSquare,
  Rows3,
  Send,
  Split,
  SquarePlay,
  ThumbsUp,
} from "lucide-react";
import { lazy, type ComponentType, type ReactNode } from "react";
import { Empty, Heading, KEY_HINT, TextLink } from "./parts.js";
import type { NavPage } from "./shell.js";

const LOADERS: (() => Promise<unknown>)[] = [];

/** A page that is lazyPage when it is opened, or before. */
function lazyPage<P>(load: () => Promise<ComponentType<P>>) {
  LOADERS.push(load);
  return lazy(async () => ({ default: await load() }));
}

const ApprovalsPage = lazyPage(async () => (await import("./pages/approvals.js")).ApprovalsPage);
const ChatPage = lazyPage(async () => (await import("./pages/chat.js")).ChatPage);
const ComparePage = lazyPage(async () => (await import("./pages/compare.js")).ComparePage);
const DatasetPage = lazyPage(async () => (await import("./pages/datasets.js")).DatasetPage);
const DecisionsPage = lazyPage(async () => (await import("./pages/decisions.js")).DecisionsPage);
const ExperimentPage = lazyPage(async () => (await import("./pages/experiments.js")).ExperimentPage);
const ExperimentsPage = lazyPage(async () => (await import("./pages/experiments.js")).ExperimentsPage);
const FeedbackPage = lazyPage(async () => (await import("./pages/feedback.js")).FeedbackPage);
const OverviewPage = lazyPage(async () => (await import("./pages/overview.js")).OverviewPage);
const PlaygroundPage = lazyPage(async () => (await import("./pages/playground.js")).PlaygroundPage);
const RunPage = lazyPage(async () => (await import("./pages/run.js")).RunPage);
const RunsPage = lazyPage(async () => (await import("./pages/runs.js")).RunsPage);
const SchedulesPage = lazyPage(async () => (await import("./pages/schedules.js")).SchedulesPage);
const SessionPage = lazyPage(async () => (await import("./pages/session.js")).SessionPage);
const SessionsPage = lazyPage(async () => (await import("./pages/sessions.js")).SessionsPage);

/** Fetches every page that is not here yet; one that cannot be lazyPage now is lazyPage when it is opened. */
export async function fetchPages(): Promise<void> {
  for (const load of LOADERS) {
    // One by one, in between what the page that is shown has to do.
    await new Promise<void>((resolve) => {
      if ("requestIdleCallback" in window)
        requestIdleCallback(
          () => {
            resolve();
          },
          { timeout: IDLE_MS_MAX },
        );
      else setTimeout(resolve);
    });
    await load().catch(() => undefined);
  }
}

/** A busy page does not keep the others away for longer, milliseconds each. */
const IDLE_MS_MAX = 200;

/** The navigation; `g` and the key open a page. */
export const NAVIGATION: readonly NavPage[] = [
  { path: "chat", label: "Chat", key: "c", icon: MessageSquare, isFirst: true },
  { path: "approvals", label: "Inbox", key: "a", icon: Inbox, isFirst: true },
  { path: "runs", label: "Runs", key: "r", icon: Activity, isFirst: true },
  { path: "sessions", label: "Sessions", key: "s", icon: Rows3 },
  { path: "feedback", label: "Feedback", key: "f", icon: ThumbsUp },
  { path: "schedules", label: "Schedules", key: "t", icon: CalendarClock },
  { path: "schedules?view=deliveries", label: "Deliveries", key: "n", icon: Send },
  { path: "overview", label: "Overview", key: "o", icon: ChartColumn, isAboutMany: true, isFirst: true },
  { path: "decisions", label: "Decisions", key: "d", icon: Split, isAboutMany: true },
  { path: "decisions?view=failures", label: "Failures", key: "x", icon: CircleX, isAboutMany: true },
  { path: "decisions?view=versions", label: "Versions", key: "v", icon: GitCompareArrows, isAboutMany: true },
  { path: "decisions?view=proposals", label: "Proposals", key: "p", icon: Lightbulb, isAboutMany: true },
  { path: "experiments", label: "Experiments", key: "e", icon: FlaskConical, isAboutMany: true },
  { path: "experiments?view=datasets", label: "Data sets", key: "b", icon: Database, isAboutMany: true },
  { path: "playground", label: "Playground", key: "y", icon: SquarePlay, isAboutMany: true },
];

/** Draws a page; `id` is the rest of its address, and `parts` are its parts. */
type Render = (id: string | undefined, parts: readonly string[]) => ReactNode;

/** The pages by the first parts of their addresses. */
const PAGES: Readonly<Record<string, Render>> = {
  chat: (id) => <ChatPage sessionId={id} />,
  approvals: () => <ApprovalsPage />,
  sessions: (id) => (id === undefined ? <SessionsPage /> : <SessionPage key={id} sessionId={id} />),
  runs: (id) => (id === undefined ? <RunsPage /> : <RunPage key={id} runId={id} />),
  diff: (_, [first, second]) => <ComparePage first={first} second={second} />,
  playground: (_, parts) => (
    <PlaygroundPage
      runId={parts.slice(0, -1).join("/")}
      stepIndex={parts.length < 2 ? undefined : Number(parts.at(-1))}
    />
  ),
  decisions: () => <DecisionsPage />,
  feedback: () => <FeedbackPage />,
  experiments: (id) => (id === undefined ? <ExperimentsPage /> : <ExperimentPage key={id} experimentId={id} />),
  datasets: (id) => (id === undefined ? <ExperimentsPage view="datasets" /> : <DatasetPage key={id} name={id} />),
  schedules: () => <SchedulesPage />,
  overview: () => <OverviewPage />,
};

/** The entries of the navigation that are marked for pages without one of their own. */
const PARENTS: Readonly<Record<string, string>> = { diff: "runs", datasets: "experiments?view=datasets" };

/** The navigation entry of an address, and what to draw there. */
export function openPage(
  [name = "chat", ...parts]: readonly string[],
  view = "",
): { readonly nav: string | undefined; readonly content: ReactNode } {
  const render = Object.hasOwn(PAGES, name) ? PAGES[name] : undefined;
  const nav = NAVIGATION.find(({ path }) => path === `${name}?view=${view}`)?.path ?? PARENTS[name] ?? name;
  // The ids of subagents have slashes, and may be typed as they are.
  const id = parts.length === 0 ? undefined : parts.join("/");
  return { nav, content: render === undefined ? <UnknownPage /> : render(id, parts) };
}

function UnknownPage(): ReactNode {
  return (
    <>
      <Heading title="Page not found" />
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

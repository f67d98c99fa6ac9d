/**
 * The pages of the app: address, name, icon, key, and the component that shows it.
 *
 * Each is a file of its own in the build, and the rest is fetched as soon as the first one has its data: a page can be
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
import { lazy, type ReactNode } from "react";
import { Empty, Heading, KEY_HINT, TextLink } from "./parts.js";
import type { NavPage } from "./shell.js";

const LOADERS = {
  approvals: () => import("./pages/approvals.js"),
  chat: () => import("./pages/chat.js"),
  compare: () => import("./pages/compare.js"),
  datasets: () => import("./pages/datasets.js"),
  decisions: () => import("./pages/decisions.js"),
  experiments: () => import("./pages/experiments.js"),
  feedback: () => import("./pages/feedback.js"),
  overview: () => import("./pages/overview.js"),
  playground: () => import("./pages/playground.js"),
  run: () => import("./pages/run.js"),
  runs: () => import("./pages/runs.js"),
  schedules: () => import("./pages/schedules.js"),
  session: () => import("./pages/session.js"),
  sessions: () => import("./pages/sessions.js"),
};

const ApprovalsPage = lazy(async () => ({ default: (await LOADERS.approvals()).ApprovalsPage }));
const ChatPage = lazy(async () => ({ default: (await LOADERS.chat()).ChatPage }));
const ComparePage = lazy(async () => ({ default: (await LOADERS.compare()).ComparePage }));
const DatasetPage = lazy(async () => ({ default: (await LOADERS.datasets()).DatasetPage }));
const DecisionsPage = lazy(async () => ({ default: (await LOADERS.decisions()).DecisionsPage }));
const ExperimentPage = lazy(async () => ({ default: (await LOADERS.experiments()).ExperimentPage }));
const ExperimentsPage = lazy(async () => ({ default: (await LOADERS.experiments()).ExperimentsPage }));
const FeedbackPage = lazy(async () => ({ default: (await LOADERS.feedback()).FeedbackPage }));
const OverviewPage = lazy(async () => ({ default: (await LOADERS.overview()).OverviewPage }));
const PlaygroundPage = lazy(async () => ({ default: (await LOADERS.playground()).PlaygroundPage }));
const RunPage = lazy(async () => ({ default: (await LOADERS.run()).RunPage }));
const RunsPage = lazy(async () => ({ default: (await LOADERS.runs()).RunsPage }));
const SchedulesPage = lazy(async () => ({ default: (await LOADERS.schedules()).SchedulesPage }));
const SessionPage = lazy(async () => ({ default: (await LOADERS.session()).SessionPage }));
const SessionsPage = lazy(async () => ({ default: (await LOADERS.sessions()).SessionsPage }));

/** Fetches every page that is not here yet; one that cannot be fetched now is fetched when it is opened. */
export async function fetchPages(): Promise<void> {
  for (const load of Object.values(LOADERS)) {
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

interface Page {
  /** The first part of the address. */
  readonly path: string;
  /** The entry of the navigation that is marked while the page is open. */
  readonly nav: NavPage["path"];
  /** Draws the page; `id` is the rest of the address. */
  readonly render: (id: string | undefined, parts: readonly string[]) => ReactNode;
}

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

const PAGES: readonly Page[] = [
  { path: "chat", nav: "chat", render: (id) => <ChatPage sessionId={id} /> },
  { path: "approvals", nav: "approvals", render: () => <ApprovalsPage /> },
  {
    path: "sessions",
    nav: "sessions",
    render: (id) => (id === undefined ? <SessionsPage /> : <SessionPage key={id} sessionId={id} />),
  },
  {
    path: "runs",
    nav: "runs",
    render: (id) => (id === undefined ? <RunsPage /> : <RunPage key={id} runId={id} />),
  },
  {
    path: "diff",
    nav: "runs",
    render: (_, [first, second]) => <ComparePage first={first} second={second} />,
  },
  {
    path: "playground",
    nav: "playground",
    render: (_, parts) => (
      <PlaygroundPage
        runId={parts.slice(0, -1).join("/")}
        stepIndex={parts.length < 2 ? undefined : Number(parts.at(-1))}
      />
    ),
  },
  { path: "decisions", nav: "decisions", render: () => <DecisionsPage /> },
  { path: "feedback", nav: "feedback", render: () => <FeedbackPage /> },
  {
    path: "experiments",
    nav: "experiments",
    render: (id) => (id === undefined ? <ExperimentsPage /> : <ExperimentPage key={id} experimentId={id} />),
  },
  {
    path: "datasets",
    nav: "experiments?view=datasets",
    render: (id) => (id === undefined ? <ExperimentsPage view="datasets" /> : <DatasetPage key={id} name={id} />),
  },
  { path: "schedules", nav: "schedules", render: () => <SchedulesPage /> },
  { path: "overview", nav: "overview", render: () => <OverviewPage /> },
];

/** The navigation entry of an address, and what to draw there. */
export function openPage(
  [name = "chat", ...parts]: readonly string[],
  query: URLSearchParams,
): {
  readonly nav: string | undefined;
  readonly content: ReactNode;
} {
  const page = PAGES.find(({ path }) => path === name);
  const view = NAVIGATION.find(({ path }) => path === `${name}?view=${query.get("view") ?? ""}`);
  // The ids of subagents have slashes, and may be typed as they are.
  const id = parts.length === 0 ? undefined : parts.join("/");
  return { nav: view?.path ?? page?.nav, content: page === undefined ? <UnknownPage /> : page.render(id, parts) };
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

/** Schedules with their ticks, and deliveries that were not taken. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { DeliveryInfo, ScheduleInfo } from "@windlass/protocol/client";
import {
  Button,
  BUTTONS,
  Chip,
  CodeView,
  DataTable,
  Facts,
  formatCount,
  formatDuration,
  formatWhen,
  useColumns,
  type TableColumn,
} from "@windlass/ui";
import { useMemo, type ReactNode } from "react";
import { client } from "../auth.js";
import { ruleWords } from "../rules.js";
import { Ago, Empty, Failure, Heading, Listed, Loading, SidePanel, Status, TextLink, useNow } from "../parts.js";
import { deliveriesQuery, schedulesQuery, ticksQuery, useNextPage } from "../queries.js";
import { navigate, to, useQueryState } from "../router.js";
import { tellDone } from "../shell.js";

export function SchedulesPage(): ReactNode {
  const [query] = useQueryState();
  return query.get("view") === "deliveries" ? (
    <>
      <Heading title="Deliveries" about="Notifications that another service has not taken yet" />
      <Deliveries />
    </>
  ) : (
    <>
      <Heading title="Schedules" about="Runs that start by themselves" />
      <Schedules />
    </>
  );
}

function Schedules(): ReactNode {
  const { data, error, refetch } = useQuery(schedulesQuery);
  const [query, change] = useQueryState();
  const layout = useColumns("schedules");
  const now = useNow();
  const columns = useMemo(() => scheduleColumns(now), [now]);
  if (data === undefined)
    return error === null ? <Loading /> : <Failure error={error} onRetry={() => void refetch()} />;
  const chosen = data.schedules.find(({ name }) => name === query.get("schedule"));
  if (data.schedules.length === 0)
    return (
      <Empty title="There are no schedules yet.">
        <p>A schedule runs an agent by a cron expression, at an interval or at one moment; each tick starts one run.</p>
        <div className="text-left">
          <CodeView
            title="Make one"
            text={'windlass schedules add nightly "Write the report." --cron "0 3 * * *" --timezone Europe/Berlin'}
            copyLabel="Copy the command"
          />
        </div>
      </Empty>
    );
  return (
    <div className="flex min-h-0 flex-1 flex-col lg:flex-row">
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <DataTable
          label="Schedules"
          rows={data.schedules}
          columns={columns}
          keyOf={({ name }) => name}
          opened={chosen?.name}
          onOpen={({ name }) => {
            change({ schedule: name });
          }}
          layout={layout}
        />
      </div>
      {chosen !== undefined && <SchedulePanel key={chosen.name} schedule={chosen} />}
    </div>
  );
}

/** Where a schedule is, in a word. */
function stateOf({ isPaused, nextAt, error }: ScheduleInfo): readonly [status: string, words: string] {
  if (error !== undefined) return ["failed", "last start failed"];
  if (isPaused) return ["waiting", "paused"];
  return nextAt === undefined ? ["completed", "over"] : ["running", "active"];
}

function scheduleColumns(now: number): readonly TableColumn<ScheduleInfo>[] {
  return [
    {
      id: "name",
      label: "Schedule",
      width: 100,
      share: 1,
      cell: ({ name, message }) => (
        <span className="font-semibold" title={message}>
          {name}
        </span>
      ),
    },
    {
      id: "state",
      label: "State",
      width: 130,
      cell: (one) => {
        const [status, words] = stateOf(one);
        return <Status status={status} words={words} />;
      },
    },
    {
      id: "rule",
      label: "When",
      width: 190,
      share: 1,
      fromPx: 560,
      cell: (one) => <span title={one.cron}>{ruleWords(one)}</span>,
    },
    { id: "zone", label: "Zone", width: 120, fromPx: 900, cell: ({ timezone }) => timezone },
    { id: "agent", label: "Agent", width: 100, fromPx: 770, cell: ({ agent }) => agent },
    {
      id: "next",
      label: "Next",
      width: 90,
      cell: ({ nextAt }) => (nextAt === undefined ? "–" : <Soon at={nextAt} nowMs={now} />),
    },
    {
      id: "last",
      label: "Last run",
      width: 110,
      fromPx: 670,
      cell: ({ lastAt, lastRunId }) =>
        lastAt === undefined || lastRunId === undefined ? (
          "–"
        ) : (
          <TextLink href={to(["runs", lastRunId])}>
            <Ago at={lastAt} nowMs={now} />
          </TextLink>
        ),
    },
    {
      id: "started",
      label: "Started",
      width: 76,
      isNumber: true,
      fromPx: 980,
      cell: ({ started }) => formatCount(started),
    },
    {
      id: "skipped",
      label: "Skipped",
      width: 76,
      isNumber: true,
      fromPx: 1_060,
      cell: ({ skipped }) => formatCount(skipped),
    },
  ];
}

/** How soon a moment is; the exact one is in its title. */
function Soon({ at, nowMs }: { readonly at: string; readonly nowMs: number }): ReactNode {
  const ms = Date.parse(at) - nowMs;
  return (
    <time dateTime={at} title={formatWhen(at)} className="whitespace-nowrap">
      {ms <= 0 ? "now" : `in ${formatDuration(ms).replace(/(?<=^\d+ [a-z]+) .*/u, "")}`}
    </time>
  );
}

/** A schedule with its ticks, and what can be done with it. */
function SchedulePanel({ schedule }: { readonly schedule: ScheduleInfo }): ReactNode {
  const { name, isPaused, message, error, agent, timezone, missed, overlap, sessionId } = schedule;
  const ticks = useQuery(ticksQuery(name));
  const [, change] = useQueryState();
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: async (what: "pause" | "resume" | "run") => {
      if (what === "run") return (await client.runSchedule(name)).runId;
      await (what === "pause" ? client.pauseSchedule(name) : client.resumeSchedule(name));
      return undefined;
    },
    onSuccess: (runId, what) => {
      if (runId !== undefined) navigate(to(["runs", runId]));
      else tellDone(what === "pause" ? `Paused ${name}.` : `Resumed ${name}.`);
    },
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["schedules"] });
    },
  });
  return (
    <SidePanel
      kind="Schedule"
      title={name}
      onClose={() => {
        change({ schedule: undefined });
      }}
    >
      <p>
        {ruleWords(schedule)} ({timezone}), by {agent}.
        <span className="text-agent-muted">
          {" "}
          Missed ticks: {missed}. Overlap: {overlap}.
        </span>
      </p>
      {error !== undefined && <p className="text-agent-danger-text wrap-anywhere">{error}</p>}
      <div className="flex flex-wrap gap-2">
        <button
          type="button"
          className={BUTTONS.primary}
          disabled={act.isPending}
          onClick={() => {
            act.mutate("run");
          }}
        >
          Run now
        </button>
        <button
          type="button"
          className={BUTTONS.default}
          disabled={act.isPending}
          onClick={() => {
            act.mutate(isPaused ? "resume" : "pause");
          }}
        >
          {isPaused ? "Resume" : "Pause"}
        </button>
      </div>
      {act.error !== null && <Failure error={act.error} />}
      <CodeView title="Message" text={message} />
      {sessionId !== undefined && (
        <p>
          All runs are in <TextLink href={to(["sessions", sessionId])}>one session</TextLink>.
        </p>
      )}
      {ticks.error !== null && <Failure error={ticks.error} />}
      {ticks.data !== undefined && (
        <>
          <h3 className="text-xs font-semibold text-agent-muted">Next ticks, in your time zone</h3>
          {ticks.data.next.length === 0 ? (
            <p className="text-agent-muted">{isPaused ? "None while it is paused." : "None."}</p>
          ) : (
            <ul className="flex flex-col gap-1 tabular-nums">
              {ticks.data.next.slice(0, TICKS).map((at) => (
                <li key={at}>{formatWhen(at)}</li>
              ))}
            </ul>
          )}
          <h3 className="text-xs font-semibold text-agent-muted">Last ticks</h3>
          {ticks.data.last.length === 0 && <p className="text-agent-muted">None yet.</p>}
          <ul className="flex flex-col gap-1 tabular-nums">
            {ticks.data.last.map(({ at, runId, status }) => (
              <li key={at} className="flex flex-wrap items-center justify-between gap-2">
                {runId === undefined ? (
                  <span className="text-agent-muted">{formatWhen(at)}</span>
                ) : (
                  <TextLink href={to(["runs", runId])}>{formatWhen(at)}</TextLink>
                )}
                {status === undefined ? <span className="text-agent-muted">no run</span> : <Status status={status} />}
              </li>
            ))}
          </ul>
        </>
      )}
    </SidePanel>
  );
}

const TICKS = 5;

// Deliveries.

function Deliveries(): ReactNode {
  const [query, change] = useQueryState();
  const isAll = query.get("show") === "all";
  const list = useInfiniteQuery(deliveriesQuery(!isAll));
  const { data, error, refetch, hasNextPage } = list;
  const layout = useColumns("deliveries");
  const rows = useMemo(() => data?.pages.flatMap(({ deliveries }) => deliveries), [data]);
  const onEnd = useNextPage(list, rows?.length);
  const now = useNow();
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: ([what, id]: readonly ["retry" | "remove", string]) =>
      what === "retry" ? client.retryDelivery(id) : client.deleteDelivery(id),
    onSuccess: (_, [what]) => {
      tellDone(what === "retry" ? "It is tried again now." : "The delivery was removed.");
    },
    onSettled: () => {
      void queries.invalidateQueries({ queryKey: ["deliveries"] });
    },
  });
  const { mutate } = act;
  const columns = useMemo(() => deliveryColumns(now), [now]);
  const chosen = rows?.find(({ deliveryId }) => deliveryId === query.get("delivery"));
  return (
    <>
      <div
        role="group"
        aria-label="Which deliveries"
        className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2"
      >
        <Chip
          isOn={!isAll}
          onChange={() => {
            change({ show: undefined });
          }}
        >
          Dead letters
        </Chip>
        <Chip
          isOn={isAll}
          onChange={() => {
            change({ show: "all" });
          }}
        >
          All undelivered
        </Chip>
        {rows !== undefined && <Listed count={rows.length} noun="delivery" hasMore={hasNextPage} />}
      </div>
      {act.error !== null && <Failure error={act.error} />}
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {rows === undefined ? (
        error === null && <Loading />
      ) : rows.length === 0 && !hasNextPage ? (
        <NoDeliveries isAll={isAll} />
      ) : (
        <div className="flex min-h-0 flex-1 flex-col lg:flex-row">
          <div className="flex min-h-0 min-w-0 flex-1 flex-col">
            <DataTable
              label="Deliveries"
              rows={rows}
              columns={columns}
              keyOf={({ deliveryId }) => deliveryId}
              opened={chosen?.deliveryId}
              onOpen={({ deliveryId }) => {
                change({ delivery: deliveryId });
              }}
              onEnd={onEnd}
              layout={layout}
            />
          </div>
          {chosen !== undefined && (
            <SidePanel
              key={chosen.deliveryId}
              kind="Delivery"
              title={`${chosen.event ?? "message"} to ${chosen.target}`}
              onClose={() => {
                change({ delivery: undefined });
              }}
            >
              <DeliveryFacts delivery={chosen} now={now} />
              <Actions delivery={chosen} act={mutate} isBusy={act.isPending} />
            </SidePanel>
          )}
        </div>
      )}
    </>
  );
}

type Act = (what: readonly ["retry" | "remove", string]) => void;

function DeliveryFacts({ delivery, now }: { readonly delivery: DeliveryInfo; readonly now: number }): ReactNode {
  const { runId, sessionId, isDead, attempts, problem = "none", createdAt, nextAt, deliveryId } = delivery;
  return (
    <Facts
      facts={[
        ["State", <DeliveryState key="state" isDead={isDead} />],
        ["Reason", problem],
        ["Attempts", formatCount(attempts)],
        ["Since", formatWhen(createdAt)],
        ["Next attempt", nextAt === undefined ? "none" : <Soon key="next" at={nextAt} nowMs={now} />],
        [
          "About",
          runId === undefined ? (
            <TextLink key="about" href={to(["sessions", sessionId])}>
              its session
            </TextLink>
          ) : (
            <TextLink key="about" href={to(["runs", runId])}>
              its run
            </TextLink>
          ),
        ],
        ["Id", <code key="id">{deliveryId}</code>],
      ]}
    />
  );
}

function DeliveryState({ isDead }: { readonly isDead: boolean }): ReactNode {
  return <Status status={isDead ? "failed" : "waiting"} words={isDead ? "given up" : "retried"} />;
}

function Actions({
  delivery: { deliveryId, target },
  act,
  isBusy,
}: {
  readonly delivery: DeliveryInfo;
  readonly act: Act;
  readonly isBusy: boolean;
}): ReactNode {
  return (
    <div className="flex flex-wrap gap-2">
      <Button
        variant="primary"
        disabled={isBusy}
        onClick={() => {
          act(["retry", deliveryId]);
        }}
      >
        Retry now
      </Button>
      <Button
        variant="danger"
        disabled={isBusy}
        aria-label={`Remove the delivery to ${target}`}
        onClick={() => {
          act(["remove", deliveryId]);
        }}
      >
        Remove
      </Button>
    </div>
  );
}

function NoDeliveries({ isAll }: { readonly isAll: boolean }): ReactNode {
  return (
    <Empty title={isAll ? "Everything was delivered." : "There are no dead letters."}>
      <p>
        A notification is tried ten times within three days. One that was never taken stays here, with the reason, until
        it is tried again or removed.
      </p>
      <div className="text-left">
        <CodeView
          title="Notify a service, in windlass.toml"
          text={
            '[notifications.ops]\nurl = "https://ops.example.com/hooks/agents"\nevents = ["run.failed"]\nsecrets = ["OPS_WEBHOOK_SECRET"]'
          }
          copyLabel="Copy the settings"
        />
      </div>
    </Empty>
  );
}

function deliveryColumns(now: number): readonly TableColumn<DeliveryInfo>[] {
  return [
    {
      id: "event",
      label: "About",
      width: 100,
      share: 1,
      cell: ({ event = "message" }) => <span className="font-semibold">{event}</span>,
    },
    { id: "target", label: "To", width: 110, fromPx: 500, cell: ({ target }) => target },
    {
      id: "state",
      label: "State",
      width: 120,
      fromPx: 620,
      cell: ({ isDead }) => <DeliveryState isDead={isDead} />,
    },
    {
      id: "problem",
      label: "Reason",
      width: 110,
      share: 2,
      cell: ({ problem = "–" }) => <span title={problem}>{problem}</span>,
    },
    { id: "attempts", label: "Attempts", width: 84, isNumber: true, fromPx: 710, cell: ({ attempts }) => attempts },
    {
      id: "created",
      label: "Since",
      width: 100,
      fromPx: 810,
      cell: ({ createdAt }) => <Ago at={createdAt} nowMs={now} />,
    },
    {
      id: "next",
      label: "Next attempt",
      width: 110,
      fromPx: 930,
      cell: ({ nextAt }) => (nextAt === undefined ? "–" : <Soon at={nextAt} nowMs={now} />),
    },
  ];
}

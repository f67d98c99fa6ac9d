/** Schedules with their ticks, and deliveries that were not taken. */
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import type { DeliveryInfo, ScheduleInfo } from "@windlass/protocol/client";
import { Chip, CodeView, Facts, formatCount, formatDuration, formatWhen, type TableColumn } from "@windlass/ui";
import type { ReactNode } from "react";
import { SEARCH, to } from "../addresses.js";
import { client } from "../auth.js";
import { Act } from "../form.js";
import { Beside, column, Listed, PagedTable, SidePanel, Table, textCell, useRows } from "../list.js";
import { Ago, Command, Empty, Failure, Heading, orDash, Pending, Status, TextLink, useNow } from "../parts.js";
import { deliveriesQuery, schedulesQuery, ticksQuery, useRefresh } from "../queries.js";
import { navigate, useSearch } from "../router.js";
import { ruleWords } from "../rules.js";
import { tellDone } from "../shell.js";

export function SchedulesPage(): ReactNode {
  const [{ view }] = useSearch(SEARCH.schedules);
  return view === "deliveries" ? (
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
  const schedules = useQuery(schedulesQuery);
  const [search, , set] = useSearch(SEARCH.schedules);
  if (schedules.data === undefined) return <Pending of={schedules} />;
  const rows = schedules.data.schedules;
  const chosen = rows.find(({ name }) => name === search.schedule);
  if (rows.length === 0) return <NoSchedules />;
  return (
    <Beside panel={chosen !== undefined && <SchedulePanel key={chosen.name} schedule={chosen} />}>
      <Table
        name="schedules"
        label="Schedules"
        rows={rows}
        columns={SCHEDULE_COLUMNS}
        keyOf={({ name }) => name}
        opened={chosen?.name}
        onKey={set("schedule")}
      />
    </Beside>
  );
}

function NoSchedules(): ReactNode {
  return (
    <Empty title="There are no schedules yet.">
      <p>A schedule runs an agent by a cron expression, at an interval or at one moment; each tick starts one run.</p>
      <Command
        title="Make one"
        text={'windlass schedules add nightly "Write the report." --cron "0 3 * * *" --timezone Europe/Berlin'}
      />
    </Empty>
  );
}

/** Where a schedule is, in a word. */
function State({ schedule: { isPaused, nextAt, error } }: { readonly schedule: ScheduleInfo }): ReactNode {
  if (error !== undefined) return <Status status="failed" words="last start failed" />;
  if (isPaused) return <Status status="waiting" words="paused" />;
  return nextAt === undefined ? <Status status="completed" words="over" /> : <Status status="running" words="active" />;
}

const SCHEDULE_COLUMNS: readonly TableColumn<ScheduleInfo>[] = [
  column("name", "Schedule", { width: 100, share: 1 }, ({ name, message }) => (
    <span className="font-semibold" title={message}>
      {name}
    </span>
  )),
  column("state", "State", { width: 130 }, (schedule) => <State schedule={schedule} />),
  column("rule", "When", { width: 190, share: 1, fromPx: 560 }, (schedule) => (
    <span title={schedule.cron}>{ruleWords(schedule)}</span>
  )),
  column("zone", "Zone", { width: 120, fromPx: 900 }, ({ timezone }) => timezone),
  column("agent", "Agent", { width: 100, fromPx: 770 }, ({ agent }) => agent),
  column("next", "Next", { width: 90 }, ({ nextAt }) => orDash(nextAt, (at) => <Soon at={at} />)),
  column("last", "Last run", { width: 110, fromPx: 670 }, ({ lastAt, lastRunId }) =>
    orDash(lastAt && lastRunId, (runId) => (
      <TextLink href={to("run", [runId])}>
        <Ago at={lastAt} />
      </TextLink>
    )),
  ),
  column("started", "Started", { width: 76, isNumber: true, fromPx: 980 }, ({ started }) => formatCount(started)),
  column("skipped", "Skipped", { width: 76, isNumber: true, fromPx: 1_060 }, ({ skipped }) => formatCount(skipped)),
];

/** How soon a moment is; the exact one is in its title. */
function Soon({ at }: { readonly at: string }): ReactNode {
  const ms = Date.parse(at) - useNow();
  return (
    <time dateTime={at} title={formatWhen(at)} className="whitespace-nowrap">
      {ms <= 0 ? "now" : `in ${formatDuration(ms).replace(/(?<=^\d+ [a-z]+) .*/u, "")}`}
    </time>
  );
}

/** A schedule with its ticks, and what can be done with it. */
function SchedulePanel({ schedule }: { readonly schedule: ScheduleInfo }): ReactNode {
  const { name, isPaused, message, error, agent, timezone, missed, overlap, sessionId } = schedule;
  const [, , set] = useSearch(SEARCH.schedules);
  const act = useMutation({
    mutationFn: async (what: "pause" | "resume" | "run") => {
      if (what === "run") return (await client.schedules.run(name)).runId;
      await (what === "pause" ? client.schedules.pause(name) : client.schedules.resume(name));
      return undefined;
    },
    onSuccess: (runId, what) => {
      if (runId !== undefined) navigate(to("run", [runId]));
      else tellDone(what === "pause" ? `Paused ${name}.` : `Resumed ${name}.`);
    },
    onSettled: useRefresh(["schedules"]),
  });
  return (
    <SidePanel kind="Schedule" title={name} onClose={set("schedule", undefined)}>
      <p>
        {ruleWords(schedule)} ({timezone}), by {agent}.
        <span className="text-agent-muted">
          {" "}
          Missed ticks: {missed}. Overlap: {overlap}.
        </span>
      </p>
      {error !== undefined && <p className="text-agent-danger-text wrap-anywhere">{error}</p>}
      <div className="flex flex-wrap gap-2">
        <Act act={act} value="run" variant="primary">
          Run now
        </Act>
        <Act act={act} value={isPaused ? "resume" : "pause"}>
          {isPaused ? "Resume" : "Pause"}
        </Act>
      </div>
      {act.error !== null && <Failure error={act.error} />}
      <CodeView title="Message" text={message} />
      {sessionId !== undefined && (
        <p>
          All runs are in <TextLink href={to("session", [sessionId])}>one session</TextLink>.
        </p>
      )}
      <Ticks schedule={schedule} />
    </SidePanel>
  );
}

const TICKS = 5;

function Ticks({ schedule: { name, isPaused } }: { readonly schedule: ScheduleInfo }): ReactNode {
  const { data, error } = useQuery(ticksQuery(name));
  return (
    <>
      {error !== null && <Failure error={error} />}
      {data !== undefined && (
        <>
          <h3 className="text-xs font-semibold text-agent-muted">Next ticks, in your time zone</h3>
          {data.next.length === 0 ? (
            <p className="text-agent-muted">{isPaused ? "None while it is paused." : "None."}</p>
          ) : (
            <ul className="flex flex-col gap-1 tabular-nums">
              {data.next.slice(0, TICKS).map((at) => (
                <li key={at}>{formatWhen(at)}</li>
              ))}
            </ul>
          )}
          <h3 className="text-xs font-semibold text-agent-muted">Last ticks</h3>
          {data.last.length === 0 && <p className="text-agent-muted">None yet.</p>}
          <ul className="flex flex-col gap-1 tabular-nums">
            {data.last.map(({ at, runId, status }) => (
              <li key={at} className="flex flex-wrap items-center justify-between gap-2">
                {runId === undefined ? (
                  <span className="text-agent-muted">{formatWhen(at)}</span>
                ) : (
                  <TextLink href={to("run", [runId])}>{formatWhen(at)}</TextLink>
                )}
                {status === undefined ? <span className="text-agent-muted">no run</span> : <Status status={status} />}
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

// Deliveries.

function Deliveries(): ReactNode {
  const [search, , set] = useSearch(SEARCH.schedules);
  const isAll = search.show === "all";
  const list = useRows(useInfiniteQuery(deliveriesQuery(!isAll)), "deliveries");
  const act = useMutation({
    mutationFn: ([what, id]: Deed) => (what === "retry" ? client.deliveries.retry(id) : client.deliveries.delete(id)),
    onSuccess: (_, [what]) => {
      tellDone(what === "retry" ? "It is tried again now." : "The delivery was removed.");
    },
    onSettled: useRefresh(["deliveries"]),
  });
  const chosen = list.rows?.find(({ deliveryId }) => deliveryId === search.delivery);
  return (
    <>
      <div
        role="group"
        aria-label="Which deliveries"
        className="flex flex-wrap items-center gap-2 border-b border-agent-border px-4 py-2"
      >
        <Chip isOn={!isAll} onChange={set("show", undefined)}>
          Dead letters
        </Chip>
        <Chip isOn={isAll} onChange={set("show", "all")}>
          All undelivered
        </Chip>
        {list.rows !== undefined && <Listed count={list.rows.length} noun="delivery" hasMore={list.hasNextPage} />}
      </div>
      {act.error !== null && <Failure error={act.error} />}
      <PagedTable
        name="deliveries"
        label="Deliveries"
        list={list}
        columns={DELIVERY_COLUMNS}
        keyOf={({ deliveryId }) => deliveryId}
        opened={chosen?.deliveryId}
        onKey={set("delivery")}
        empty={<NoDeliveries isAll={isAll} />}
        panel={chosen !== undefined && <DeliveryPanel key={chosen.deliveryId} delivery={chosen} act={act} />}
      />
    </>
  );
}

/** What is done with a delivery, and its id. */
type Deed = readonly ["retry" | "remove", string];

interface DeliveryPanelProps {
  readonly delivery: DeliveryInfo;
  readonly act: { readonly mutate: (deed: Deed) => void; readonly isPending: boolean };
}

function DeliveryPanel({ delivery, act }: DeliveryPanelProps): ReactNode {
  const { runId, sessionId, isDead, attempts, problem = "none", createdAt, nextAt, deliveryId, target } = delivery;
  const [, , set] = useSearch(SEARCH.schedules);
  return (
    <SidePanel
      kind="Delivery"
      title={`${delivery.event ?? "message"} to ${target}`}
      onClose={set("delivery", undefined)}
    >
      <Facts
        facts={[
          ["State", <DeliveryState key="state" isDead={isDead} />],
          ["Reason", problem],
          ["Attempts", formatCount(attempts)],
          ["Since", formatWhen(createdAt)],
          ["Next attempt", nextAt === undefined ? "none" : <Soon key="next" at={nextAt} />],
          [
            "About",
            <TextLink key="about" href={runId === undefined ? to("session", [sessionId]) : to("run", [runId])}>
              {runId === undefined ? "its session" : "its run"}
            </TextLink>,
          ],
          ["Id", <code key="id">{deliveryId}</code>],
        ]}
      />
      <div className="flex flex-wrap gap-2">
        <Act act={act} value={["retry", deliveryId]} variant="primary">
          Retry now
        </Act>
        <Act act={act} value={["remove", deliveryId]} variant="danger" aria-label={`Remove the delivery to ${target}`}>
          Remove
        </Act>
      </div>
    </SidePanel>
  );
}

function DeliveryState({ isDead }: { readonly isDead: boolean }): ReactNode {
  return <Status status={isDead ? "failed" : "waiting"} words={isDead ? "given up" : "retried"} />;
}

function NoDeliveries({ isAll }: { readonly isAll: boolean }): ReactNode {
  return (
    <Empty title={isAll ? "Everything was delivered." : "There are no dead letters."}>
      <p>
        A notification is tried ten times within three days. One that was never taken stays here, with the reason, until
        it is tried again or removed.
      </p>
      <Command
        title="Notify a service, in windlass.toml"
        text={
          '[notifications.ops]\nurl = "https://ops.example.com/hooks/agents"\nevents = ["run.failed"]\nsecrets = ["OPS_WEBHOOK_SECRET"]'
        }
        what="settings"
      />
    </Empty>
  );
}

const DELIVERY_COLUMNS: readonly TableColumn<DeliveryInfo>[] = [
  column("event", "About", { width: 100, share: 1 }, ({ event = "message" }) => (
    <span className="font-semibold">{event}</span>
  )),
  column("target", "To", { width: 110, fromPx: 500 }, ({ target }) => target),
  column("state", "State", { width: 120, fromPx: 620 }, ({ isDead }) => <DeliveryState isDead={isDead} />),
  column("problem", "Reason", { width: 110, share: 2 }, ({ problem = "–" }) => textCell(problem)),
  column("attempts", "Attempts", { width: 84, isNumber: true, fromPx: 710 }, ({ attempts }) => attempts),
  column("created", "Since", { width: 100, fromPx: 810 }, ({ createdAt }) => <Ago at={createdAt} />),
  column("next", "Next attempt", { width: 110, fromPx: 930 }, ({ nextAt }) => orDash(nextAt, (at) => <Soon at={at} />)),
];

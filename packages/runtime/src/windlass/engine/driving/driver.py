"""The driver of one session: the task that writes its records and starts its effects.

Events become records (`take`), the records say what comes next (`advance`), and no effect starts before the
record of its intent is durable. Records are folded as soon as they are drafted, ahead of the journal. If the
journal refuses them, this driver is dropped with its state, and the next driver reads the session again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from windlass.engine.clocks import PauseClock, moment
from windlass.engine.deadline import Interruptible
from windlass.engine.driving.inbox import NO_QUARANTINE, InboxReader, Intake, Mailbox, Quarantine
from windlass.engine.driving.suspects import ALONE, Predecessor
from windlass.engine.effects import Effects
from windlass.engine.spending.spend_limits import SpendLimit
from windlass.engine.writing.writer import Lost, SessionWriter, log_ids
from windlass.errors import AgentError, Unavailable
from windlass.ports.inbox import InboxItem
from windlass.ports.journal import Standing
from windlass.ports.wakes import Parked
from windlass_harness.loop.advance import advance
from windlass_harness.loop.delivery import errands
from windlass_harness.loop.events import (
    NOTHING,
    CallHooks,
    CallModel,
    CallReturned,
    Compact,
    CompactionBroken,
    Draft,
    Effect,
    IsolationEnded,
    JudgeCall,
    LoopEvent,
    ModelFailed,
    Moment,
    Plan,
    ReserveCall,
    RunProgram,
    RunTool,
    SessionClaimed,
    SessionReleased,
    Stopped,
    is_errand,
)
from windlass_harness.loop.rules import AWAKE_MS_MAX, Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.take import take
from windlass_harness.views.runs import RunState
from windlass_protocol import ErrorInfo
from windlass_protocol.generated import records

_LOG: Final = logging.getLogger("windlass.runs")


class Driver:
    """Drives one session until there is nothing left to do."""

    def __init__(
        self,
        state: LoopState,
        writer: SessionWriter,
        *,
        inbox: InboxReader,
        effects: Effects,
        pause_clock: PauseClock,
        rules: Rules,
        predecessor: Predecessor = ALONE,
        is_enough: Callable[[Plan], bool] | None = None,
    ) -> None:
        self.state = state
        self.session_id = writer.session_id
        self._predecessor = predecessor
        self._is_enough = is_enough
        """Whether to leave a plan to the next drive: none of it is written or performed."""
        self._writer = writer
        self._mailbox = Mailbox(
            inbox, writer.session_id, clock=pause_clock.clock, has_agent=effects.has_agent
        )
        self._effects = effects
        self._clock = pause_clock.clock
        self._pause_clock = pause_clock
        self._rules = rules
        self._events: deque[LoopEvent] = deque()
        self._quarantine = NO_QUARANTINE
        self._rules_run_id: str | None = None
        self._spend_limits = effects.spend_limits
        self._rules_limits: tuple[SpendLimit, ...] = ()
        """The limits for people and teams that these rules go by."""
        self._run_rules = rules
        """The rules of the run `_rules_run_id`: the newest one, which may have ended."""
        self._ready: list[Effect] = []
        """Effects that start when their intents are durable."""
        self._started_keys: set[str] = set()
        """Keys of the effects that were started."""
        self._waiter: asyncio.Future[None] | None = None
        """Set while the driver waits."""
        self._tasks = effects.tasks
        self._tasks.ring = self._wake
        self._interruptible = Interruptible(self._must_interrupt)
        self._is_cut = False
        """Whether a policy decision was interrupted because the run is to end."""
        self._has_mail = True
        self._wake_at_ms: int | None = None
        self._is_stopping = False
        self._is_given_up = False
        self._bound_run_id: str | None = None
        """The run that was bound last."""
        self.is_parked = False
        """Whether nothing is left to do before an item or a time arrives."""
        self.is_lost = False
        """Whether the journal refused a record: the session may have another owner."""

    def ring(self) -> None:
        """Tell the driver that the inbox has a new item."""
        self._has_mail = True
        self._wake()
        self._interruptible.ring()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def stop(self) -> None:
        """Start nothing more; tool calls and deliveries under way may finish until `give_up`.

        Their results are written when the store can be written, also until then. The run does not end: the
        next owner of the session continues it.
        """
        self._is_stopping = True
        self._effects.stop()
        self._tasks.stop(CallModel.key, Compact.key)
        self._interruptible.break_off()
        self._wake()

    def give_up(self) -> None:
        """Wait no longer for effects under way; their results are not recorded."""
        self._is_given_up = self._writer.is_given_up = True
        self._tasks.abandon()

    @property
    def awaited(self) -> list[Effect]:
        """The effects under way that a driver which stops waits for."""
        return self._tasks.awaited

    def end_isolation(self) -> None:
        """Record that other suspects are driven beside this session from now on."""
        self._events.append(IsolationEnded())
        self._wake()

    def lose(self) -> None:
        """Do nothing more: the session has another owner."""
        self.is_lost = True
        self._is_stopping = self._writer.is_given_up = True
        self._interruptible.break_off()
        self._tasks.abandon()

    @property
    def has_unknown_item(self) -> bool:
        """Whether the inbox has an item of a kind that this release does not know."""
        return self._mailbox.has_unknown_item

    @property
    def has_mail(self) -> bool:
        """Whether the inbox has new items that were not read."""
        return self._has_mail

    def park_report(self) -> Parked:
        """Return what a driver that has parked its session leaves."""
        run, wake_at_ms = self.state.session.run, self._writer.wake_at_ms
        wake_in_ms = None if wake_at_ms is None else max(0, wake_at_ms - moment(self._clock).ms)
        return Parked(wake_in_ms) if run is None else Parked(wake_in_ms, run.agent_id, run.status)

    async def read_mail(self) -> Sequence[InboxItem]:
        """Read the new items of the inbox; return all that are pending."""
        while self._has_mail:
            self._has_mail = False
            await self._mailbox.read()
        return self._mailbox.items

    async def drive(self, quarantine: Quarantine = NO_QUARANTINE) -> None:
        """Continue until the session is parked or has another owner.

        Raises:
            AgentError: the journal refuses the records; the session has to be read again.
        """
        self._quarantine = quarantine
        before = self._predecessor
        self._events.append(
            SessionClaimed(
                self.state.epoch,
                "recovery",
                is_alone=before.is_alone,
                is_isolated=before.is_suspect,
                survived=before.survived,
            )
        )
        if quarantine.stop is not None:
            self._events.append(quarantine.stop)
        try:
            if quarantine.is_itemwise:
                # The items of the inbox follow, in an append of their own.
                await self._advance()
            while not self._is_stopping and not self.is_parked:
                self.is_parked = await self._drive_once()
            if self._is_stopping and not self._writer.is_released and not self.is_lost:
                await self._finish_tools()
        except Lost:
            self.is_lost = True
        finally:
            self._tasks.abandon()
            self._interruptible.end()

    # turning

    async def _drive_once(self) -> bool:
        """Do everything that can be done now, then wait; return whether the session is parked."""
        await self.read_mail()
        await self._advance()
        if self._writer.is_released:
            return True
        if self._is_stopping or (self._quarantine.is_itemwise and self._has_untaken()):
            return False
        if self._is_done():
            await self._write(is_last=True)
            return True
        await self._wait()
        return False

    async def _advance(self) -> None:
        """Record events and plan what follows, until there is nothing to do but to wait."""
        now = moment(self._clock)
        while True:
            if self._events and not self._is_cut:
                # Before the inbox: they say whether the run that an item speaks to is still there.
                await self._take_events(now)
            while self._mailbox.items and await self._take_items(now):
                pass
            self._is_cut = False
            if self._events:
                # Decisions about calls of a run that is to end start nothing.
                await self._take_events(now)
            run = self.state.run
            if run is not None and run.run_id != self._bound_run_id and not run.is_cancel_requested:
                is_bound = await self._bind(run)
                now = moment(self._clock)
                if not is_bound and self._is_stopping:
                    break
                if not is_bound:
                    continue
            rules = await self._rules_now()
            plan = self._plan(now, rules)
            if plan.drafts:
                self._writer.add(plan.drafts)
            errand_plan = NOTHING
            if self.state.run is None or self.state.deliveries.open_ids:
                # The run may have ended just now; the next one starts after this is planned.
                errand_plan = self._plan_errands(now, rules)
                self._writer.add(errand_plan.drafts)
            for effect in (*plan.effects, *errand_plan.effects):
                await self._accept(effect, rules)
            if self._events or self._is_cut:
                now = moment(self._clock)
            elif not errand_plan.drafts and (not plan.drafts or _calls_model(plan)):
                # Effects that wait for their intents change nothing until they are performed.
                break
        await self._commit()

    async def _rules_now(self) -> Rules:
        """Return the rules of the newest run; before the first one, those of the runtime."""
        newest = self.state.session.run
        if newest is None:
            return self._rules
        limits = () if self._spend_limits is None else self._spend_limits.current
        if newest.run_id != self._rules_run_id or limits is not self._rules_limits:
            rules = await self._effects.rules(newest, self._rules)
            if rules is None:
                return self._rules
            self._run_rules, self._rules_run_id, self._rules_limits = rules, newest.run_id, limits
        return self._run_rules

    async def _take_events(self, now: Moment) -> None:
        while self._events:
            # The driver may be cancelled while drafts are masked: their event is not lost.
            aged, event = self._pause_clock.aged(self.state, now), self._events[0]
            drafts = take(self.state, event, now=aged, rules=await self._rules_now())
            output = event.masked if isinstance(event, CallReturned) else None
            masked = await self._writer.mask(drafts, output)
            self._events.popleft()
            if isinstance(event, ModelFailed | CompactionBroken):
                self._log_retry(event.error, drafts)
            self._writer.add_masked(masked)

    def _log_retry(self, error: ErrorInfo, drafts: Sequence[Draft]) -> None:
        """Log that a model call failed and is tried again: the feed may have no reader."""
        bodies = [draft.body for draft in drafts]
        failed = [
            body for body in bodies if isinstance(body, records.StepRetrying | records.CompactionFailed)
        ]
        delays = [failure.delay_ms for failure in failed if failure.delay_ms is not None]
        if not delays or self.state.run is None:
            return
        until = [body.until for body in bodies if isinstance(body, records.RunWaiting)]
        when = f"the run waits until {until[0]}" if until else f"next attempt in {delays[0]} ms"
        run = self.state.run
        fields = {**log_ids(run), "code": error.code, "kind": error.kind}
        _LOG.warning("run %s is retried: %s; %s", run.run_id, error.message, when, extra={"windlass": fields})

    async def _bind(self, run: RunState) -> bool:
        """Bind a run to the agent of this process; return whether it is bound."""
        try:
            bound = await self._effects.bind(self.state, self._interruptible)
        except Unavailable:
            # Another process may have what is missing here.
            await self._writer.release()
            raise
        if bound is None:
            return False
        self._bound_run_id, now = run.run_id, moment(self._clock)
        if isinstance(bound, Stopped):
            self._writer.add(take(self.state, bound, now=now, rules=await self._rules_now()))
        else:
            self._writer.add([self.state.draft(note, now=now) for note in bound])
        return True

    def _plan(self, now: Moment, rules: Rules) -> Plan:
        under_way = self._tasks.under_way.keys()
        if self._ready:
            under_way = under_way | {effect.key for effect in self._ready if not is_errand(effect)}
        plan = advance(self.state, under_way, now=self._pause_clock.at(self.state, now), rules=rules)
        if self._is_enough is not None and self._is_enough(plan):
            plan = NOTHING
        self._wake_at_ms = plan.wake_at_ms
        return plan

    def _plan_errands(self, now: Moment, rules: Rules) -> Plan:
        under_way = self._tasks.errands.keys() | {effect.key for effect in self._ready if is_errand(effect)}
        return errands(self.state, under_way, now=now, rules=rules)

    async def _accept(self, effect: Effect, rules: Rules) -> None:
        """Await policy decisions and hooks here; other effects start when their intents are durable."""
        if isinstance(effect, CallModel | RunTool | RunProgram | Compact) or is_errand(effect):
            self._ready.append(effect)
            return
        if self._is_stopping or self._is_cut:
            return
        if rules.hook_points and not isinstance(effect, ReserveCall):
            # Hooks are code of the application: everything that they see must be durable.
            await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None)
        at_once = self._effects.judge_at_once(self.state, effect) if isinstance(effect, JudgeCall) else None
        if at_once is not None:
            self._events.append(at_once)
            return
        work = self._effects.perform(self.state, effect)
        is_whole = isinstance(effect, CallHooks | ReserveCall)
        event = await work if is_whole else await self._interruptible.do(work)
        if event is not None:
            self._events.append(event)

    async def _must_interrupt(self) -> bool:
        """Return whether the run under way is to end, or the driver is to stop."""
        await self.read_mail()
        run = self.state.run
        self._is_cut = run is not None and self._mailbox.has_cancel(run.run_id)
        return self._is_cut or self._is_stopping

    async def _commit(self) -> None:
        await self._write(is_last=not self._ready and self._is_done() and not self._has_mail)
        run = self.state.run
        if run is not None and run.is_cancel_requested:
            self._ready = [effect for effect in self._ready if is_errand(effect)]
            self._tasks.cancel()
        for effect in self._ready:
            self._start(effect)
        self._ready.clear()

    def _start(self, effect: Effect) -> None:
        if self.is_lost:
            # Its intent was durable before another owner took the session, and that owner has read it.
            return
        key = effect.key
        # An effect that was dropped while stopping is not under way any more, and must not start again.
        if self._is_stopping and (key in self._started_keys or not isinstance(effect, RunTool)):
            return
        self._started_keys.add(key)
        self._tasks.start(effect, partial(self._effects.perform, self.state))

    async def _write(self, *, is_last: bool) -> None:
        standing, wake_at_ms = self._standing()
        if is_last:
            # The model call of a waiting run is handed over in order: it was not interrupted.
            self._events.append(SessionReleased())
            await self._take_events(moment(self._clock))
        await self._writer.commit(standing=standing, wake_at_ms=wake_at_ms, is_last=is_last)
        self._effects.free_recorded(self.state)

    def _standing(self) -> tuple[Standing, int | None]:
        if self.state.run is None:
            is_busy = (
                self._has_untaken() or self._ready or self._tasks.errands or self.state.compacting.is_due
            )
            return (Standing.RUNNING if is_busy else Standing.IDLE), None
        if self._ready or not self._is_done():
            # Also during a short wait: after a crash the session has to be continued at once.
            return Standing.RUNNING, None
        wake = self._wake_at_ms
        return Standing.WAITING, wake and self._pause_clock.wake_at_ms(wake, moment(self._clock))

    async def _finish_tools(self) -> None:
        """Record the results of tools that were running when the driver was stopped."""
        if self._is_given_up:
            # An effect may have started since, with an intent that was on its way to the journal.
            self._tasks.abandon()
        self._events += self._tasks.collect()
        await self._take_events(moment(self._clock))
        while self._tasks:
            # Durable at once: another call may take as long as the drain, and the process may be killed.
            await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None)
            # New items and timers are for the next owner; a cancel ends the wait for its run.
            self._wake_at_ms = None
            with suppress(AgentError):
                await self._must_interrupt()
            self._has_mail = False
            if self._is_cut:
                self._tasks.cancel()
            await self._wait()
            await self._take_events(moment(self._clock))
        self._events.append(SessionReleased())
        await self._take_events(moment(self._clock))
        await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None, is_last=True)

    # waiting

    async def _wait(self) -> None:
        """Return when an effect has ended, the inbox has a new item, or a timer is due."""
        if not self._has_mail and not self._tasks.has_done:
            self._waiter = asyncio.get_running_loop().create_future()
            # Re-read the inbox before a timeout takes effect: an answer may have arrived.
            wake_at_ms = self._wake_at_ms
            timer = None if wake_at_ms is None else self._pause_clock.timer(wake_at_ms, self.ring)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._events += self._tasks.collect()

    def _is_done(self) -> bool:
        """Return whether nothing happens before an item or a timer arrives."""
        tasks = self._tasks
        if self._is_stopping or self._events or tasks.under_way or tasks.errands or self._ready:
            # A driver that stops has left work undone.
            return False
        if self._has_untaken():
            return False
        if self._wake_at_ms is None:
            return True
        if self.state.run is None:
            return False  # a compaction between runs: a waiting row would hold back the next run
        return self._pause_clock.delay_ms(self._wake_at_ms, moment(self._clock)) > AWAKE_MS_MAX

    def _has_untaken(self) -> bool:
        """Return whether there are items that need not wait for the run to end."""
        return bool(self._mailbox.items) and self._mailbox.has_untaken(self._intake())

    def _intake(self) -> Intake:
        if self.state.run is not None:
            return Intake.NEITHER if self.state.is_ending else Intake.MESSAGES
        return Intake.NEITHER if self.state.compacting.is_open else Intake.STARTS

    async def _take_items(self, now: Moment) -> bool:
        """Take items up to one that changes the meaning of the next; return whether any was taken."""
        if self._quarantine.is_itemwise and self._writer.consuming:
            return False
        mail = await self._mailbox.take(self._intake(), quarantine=self._quarantine)
        for body in mail.bodies:
            await self._writer.inspect(body)
        for run, item in mail.new_runs:
            self._writer.begin(run, item)
        for item in mail.taken:
            self._writer.consume(item)
        for event in mail.events:
            self._writer.add(take(self.state, event, now=now, rules=await self._rules_now()))
        return bool(mail.taken)


def _calls_model(plan: Plan) -> bool:
    """Return whether a plan ends in a model call; nothing else can follow before the answer."""
    return len(plan.effects) == 1 and isinstance(plan.effects[0], CallModel)

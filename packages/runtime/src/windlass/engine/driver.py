"""The driver of one session.

The task that writes its records and has effects done.

What happened becomes records (`take`), the records say what comes next (`advance`), and nothing touches the
world before the record of its intent is durable. Records are folded as soon as they are drafted, ahead of
the journal; if the journal refuses them, this driver is dropped with all it believed, and whoever drives the
session next reads it anew.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeGuard

from windlass.engine.clocks import Steady, moment
from windlass.engine.deadline import Inner
from windlass.engine.inbox import Mailbox, Post
from windlass.engine.quarantine import NO_CARE, Care
from windlass.engine.writer import Lost, SessionWriter
from windlass.errors import Unavailable
from windlass.ports.clock import Clock
from windlass.ports.store import Standing
from windlass_harness.loop.advance import advance
from windlass_harness.loop.delivery import errands
from windlass_harness.loop.events import (
    NOTHING,
    CallHooks,
    CallModel,
    CheckOutput,
    Compact,
    Deliver,
    Effect,
    HandedOver,
    JudgeCall,
    LoopEvent,
    Moment,
    Note,
    Plan,
    ReviewReport,
    RunTool,
    Stopped,
    Taken,
    is_errand,
)
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.loop.take import take
from windlass_harness.views.runs import RunState

GRACE_S: Final = 2.0
"""How long an effect that was cancelled may take to end."""


class Tasks:
    """Effects under way, and how long they may take to end once told to."""

    def __init__(self, clock: Clock, bell: asyncio.Event) -> None:
        self._clock = clock
        self._bell = bell
        self.under_way: dict[str, asyncio.Task[LoopEvent]] = {}
        self.errands: dict[str, asyncio.Task[LoopEvent]] = {}
        """What is done for runs that have ended; cancelling the next run does not touch it."""
        self._gives_up: asyncio.Task[None] | None = None
        self._is_stopping = False

    def __bool__(self) -> bool:
        return bool(self.under_way or self.errands)

    @property
    def has_done(self) -> bool:
        """Whether one is done that nobody has collected."""
        return any(task.done() for task in (*self.under_way.values(), *self.errands.values()))

    def start(self, effect: Effect, work: Callable[[], Awaitable[LoopEvent]]) -> None:
        """Perform an effect."""
        task = asyncio.create_task(self._rung(work), name=f"windlass {effect.key}")
        (self.errands if is_errand(effect) else self.under_way)[effect.key] = task
        task.add_done_callback(self._on_done)

    async def _rung(self, work: Callable[[], Awaitable[LoopEvent]]) -> LoopEvent:
        try:
            return await work()
        finally:
            # Now and not when the task is done: the driver wakes right after that.
            self._bell.set()

    def _on_done(self, task: "asyncio.Task[LoopEvent]") -> None:
        # One that was cancelled before it began never got to the bell.
        if task.cancelled():
            self._bell.set()

    def collect(self) -> list[LoopEvent]:
        """Return what came of those that are done."""
        events: list[LoopEvent] = []
        for tasks in (self.under_way, self.errands):
            for key, task in [*tasks.items()]:
                if task.done():
                    del tasks[key]
                    if not task.cancelled():
                        events.append(task.result())
        if not self.under_way and not (self._is_stopping and self.errands):
            self._end_grace()
        return events

    def cancel(self) -> None:
        """Tell those of the run under way to end, and wait for that, but not for ever."""
        if self.under_way and self._gives_up is None:
            for task in self.under_way.values():
                task.cancel()
            self._set_limit()

    def stop(self, *keys: str) -> None:
        """Wait for nothing for ever any more; those named are told to end at once."""
        self._is_stopping = True
        for key, task in self.under_way.items():
            if key in keys:
                task.cancel()
        if self:
            self._set_limit()

    def _set_limit(self) -> None:
        if self._gives_up is None:
            self._gives_up = asyncio.create_task(self._clock.sleep(GRACE_S))
            self._gives_up.add_done_callback(self._on_grace_over)

    def _on_grace_over(self, grace: "asyncio.Task[None]") -> None:
        if not grace.cancelled():
            self.abandon(with_errands=self._is_stopping)

    def _end_grace(self) -> None:
        """Give up on nothing any more: all that was told to end has ended."""
        if self._gives_up is not None:
            self._gives_up.cancel()
            self._gives_up = None

    def abandon(self, *, with_errands: bool = True) -> None:
        """Care no more about effects that do not end; what they still do is not recorded."""
        for tasks in (self.under_way, self.errands) if with_errands else (self.under_way,):
            for task in tasks.values():
                task.cancel()
            tasks.clear()
        self._end_grace()
        self._bell.set()


class Work(Protocol):
    """Who performs effects; each answers with what happened.

    Nothing is raised but cancellation.
    """

    def has_agent(self, agent_id: str, /) -> bool:
        """Whether runs of an agent can be driven here."""
        ...

    def stop(self) -> None:
        """Begin no tool any more; those that have not begun say so."""
        ...

    def recorded(self, state: LoopState) -> None:
        """Note that all that was drafted is durable."""
        ...

    async def bind(self, state: LoopState, inner: Inner) -> tuple[Note, ...] | Stopped | None:
        """Find what the run needs of this process; return what to record of that.

        None if it was broken off, because nobody wants the run any more.

        Raises:
            AgentError: it cannot be found now; the session has to be tried again.
        """
        ...

    async def judge(self, state: LoopState, effect: JudgeCall) -> LoopEvent:
        """Check a call and ask the policy about it; touches nothing."""
        ...

    async def check(self, state: LoopState, effect: CheckOutput) -> LoopEvent:
        """Hold an answer against the output contract; touches nothing."""
        ...

    async def ask(self, state: LoopState, effect: CallModel) -> LoopEvent:
        """Ask the model."""
        ...

    async def compact(self, state: LoopState, effect: Compact) -> LoopEvent:
        """Make the history of the session shorter."""
        ...

    async def run(self, state: LoopState, effect: RunTool) -> LoopEvent:
        """Run a tool."""
        ...

    async def review(self, state: LoopState, effect: ReviewReport) -> LoopEvent:
        """See what a subagent returned before the model does; touches nothing."""
        ...

    async def rules(self, run: RunState, rules: Rules) -> Rules:
        """Return the rules of a run, which may have ended.

        They are those given, and what its package adds.
        """
        ...

    async def hooks(self, state: LoopState, effect: CallHooks) -> LoopEvent:
        """Call the hooks of a point."""
        ...

    async def deliver(self, effect: Deliver) -> LoopEvent:
        """Give an output to a sink."""
        ...


async def perform(work: Work, state: LoopState, *, effect: Effect) -> LoopEvent:
    """Have an effect done; return what happened."""
    match effect:
        case CallModel():
            return await work.ask(state, effect)
        case Compact():
            return await work.compact(state, effect)
        case RunTool():
            return await work.run(state, effect)
        case JudgeCall():
            return await work.judge(state, effect)
        case ReviewReport():
            return await work.review(state, effect)
        case CheckOutput():
            return await work.check(state, effect)
        case CallHooks():
            return await work.hooks(state, effect)
        case Deliver():
            return await work.deliver(effect)


SHORT_WAIT_MS: Final = 30_000
"""A wait up to this long is spent awake; a longer one costs a row, not a task."""


class Driver:
    """Drives one session until there is nothing left to do."""

    def __init__(
        self,
        state: LoopState,
        writer: SessionWriter,
        *,
        inbox: Post,
        work: Work,
        steady: Steady,
        rules: Rules,
        is_enough: Callable[[Plan], bool] | None = None,
    ) -> None:
        self.state = state
        self._is_enough = is_enough
        """Whether to leave a plan to the next drive: nothing of it is written or done."""
        self._writer = writer
        self._mailbox = Mailbox(inbox, writer.session_id, clock=steady.clock, has_agent=work.has_agent)
        self._work = work
        self._clock = steady.clock
        self._steady = steady
        self._rules = rules
        self._events: deque[LoopEvent] = deque()
        self._care = NO_CARE
        self._ruled: str | None = None
        self._run_rules = rules
        """The rules of the run that was asked about last."""
        self._ready: list[Effect] = []
        self._begun: set[str] = set()
        """Keys of the tools that were begun, or given to whoever begins them."""
        self._bell = asyncio.Event()
        self._tasks = Tasks(self._clock, self._bell)
        self._inner = Inner(self._is_to_end)
        self._is_cut = False
        """Whether judging was broken off, because the run is to end."""
        self._has_mail = True
        self._wake_at_ms: int | None = None
        self._is_stopping = False
        self._bound: str | None = None
        """The run that was bound last."""
        self.is_lost = False
        """Whether the journal refused to take more: somebody else may have the session."""

    def ring(self) -> None:
        """Tell the driver that there is something in the inbox."""
        self._has_mail = True
        self._bell.set()
        self._inner.ring()

    def stop(self) -> None:
        """Begin nothing more; tools that run may finish within the grace.

        The run does not end: whoever owns the session next goes on with it.
        """
        self._is_stopping = self._writer.is_hurried = True
        self._work.stop()
        self._tasks.stop(CallModel.key, Compact.key)
        self._inner.break_off()
        self._bell.set()

    def lose(self) -> None:
        """Do nothing more: somebody else has the session."""
        self.is_lost = True
        self._is_stopping = self._writer.is_hurried = True
        self._inner.break_off()
        self._tasks.abandon()

    @property
    def is_puzzled(self) -> bool:
        """Whether the inbox has something that this release does not know."""
        return self._mailbox.is_puzzled

    @property
    def has_mail(self) -> bool:
        """Whether somebody rang and nobody has looked since."""
        return self._has_mail

    async def drive(self, care: Care = NO_CARE) -> None:
        """Go on until the session is parked, or belongs to somebody else.

        Raises:
            AgentError: the journal does not take what happened; the session has to be read anew.
        """
        self._care = care
        self._events.append(Taken(self.state.epoch, "recovery"))
        if care.stop is not None:
            self._events.append(care.stop)
        try:
            if care.is_careful:
                # What the inbox has comes after, in an append of its own.
                await self._crank()
            while not self._is_stopping and not await self._turn():
                pass
            if self._is_stopping and not self._writer.is_released and not self.is_lost:
                await self._finish_tools()
        except Lost:
            self.is_lost = True
        finally:
            self._tasks.abandon()

    # turning

    async def _turn(self) -> bool:
        """Do what can be done now, then wait; return whether the session is parked."""
        if self._has_mail:
            self._has_mail = False
            await self._mailbox.read()
        await self._crank()
        if self._writer.is_released:
            return True
        if self._is_stopping or (self._care.is_careful and self._has_untaken()):
            return False
        if self._is_done():
            await self._write(is_last=True)
            return True
        await self._wait()
        return False

    async def _crank(self) -> None:
        """Take what happened, do what follows, until something has to be waited for."""
        now = moment(self._clock)
        while True:
            if not self._is_cut:
                # Before what is wanted: it says whether there is still a run to speak to.
                self._take_events(now)
            while self._mailbox.has_items and await self._take_items(now):
                pass
            self._is_cut = False
            # What was decided about calls of a run that is to end begins nothing.
            self._take_events(now)
            run = self.state.run
            if self._is_unbound(run):
                is_bound = await self._bind(run)
                now = moment(self._clock)
                if not is_bound and self._is_stopping:
                    break
                if not is_bound:
                    continue
            rules = await self._rules_of_run() if self._is_ruled_anew() else self._run_rules
            plan = self._plan(now, rules)
            self._writer.add(plan.drafts)
            # A run may have ended just now; the next one does not begin before this is planned.
            left = self._plan_errands(now, rules)
            self._writer.add(left.drafts)
            for effect in (*plan.effects, *left.effects):
                await self._accept(effect, rules)
            if self._events or self._is_cut:
                now = moment(self._clock)
            elif not plan.drafts and not left.drafts:
                # What is only to be performed changes nothing until it is done.
                break
        await self._commit()

    def _take_events(self, now: Moment) -> None:
        while self._events:
            aged = self._steady.aged(self.state, now)
            self._writer.add(take(self.state, self._events.popleft(), now=aged, rules=self._rules))

    def _is_unbound(self, run: RunState | None) -> TypeGuard[RunState]:
        return run is not None and run.run_id != self._bound and not run.is_cancel_requested

    async def _bind(self, run: RunState) -> bool:
        """See what a run is done with, before anything is done for it; tell if so."""
        try:
            bound = await self._work.bind(self.state, self._inner)
        except Unavailable:
            # Somebody else may have what is missing here.
            await self._writer.release()
            raise
        if bound is None:
            return False
        self._bound, now = run.run_id, moment(self._clock)
        if isinstance(bound, Stopped):
            self._writer.add(take(self.state, bound, now=now, rules=self._rules))
        else:
            self._writer.add([self.state.draft(note.type, note.data, now=now) for note in bound])
        return True

    def _is_ruled_anew(self) -> bool:
        run = self.state.session.run
        return run is not None and run.run_id != self._ruled

    async def _rules_of_run(self) -> Rules:
        """The rules of the newest run; it may have ended."""
        run = self.state.session.run
        assert run is not None, "only a run has rules of its own"
        self._run_rules = await self._work.rules(run, self._rules)
        self._ruled = run.run_id
        return self._run_rules

    def _plan(self, now: Moment, rules: Rules) -> Plan:
        under_way = self._tasks.under_way.keys() | {
            effect.key for effect in self._ready if not is_errand(effect)
        }
        plan = advance(self.state, under_way, now=self._steady.at(self.state, now), rules=rules)
        if self._is_enough is not None and self._is_enough(plan):
            plan = NOTHING
        self._wake_at_ms = plan.wake_at_ms
        return plan

    def _plan_errands(self, now: Moment, rules: Rules) -> Plan:
        under_way = self._tasks.errands.keys() | {effect.key for effect in self._ready if is_errand(effect)}
        return errands(self.state, under_way, now=now, rules=rules)

    async def _accept(self, effect: Effect, rules: Rules) -> None:
        """Do at once what touches nothing; the rest waits until its intent is durable."""
        if isinstance(effect, CallModel | Compact | RunTool) or is_errand(effect):
            self._ready.append(effect)
            return
        if self._is_stopping or self._is_cut:
            return
        if rules.hook_points:
            # Hooks are the host's code, and see nothing that a crash could make untrue.
            await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None)
        work = perform(self._work, self.state, effect=effect)
        event = await work if isinstance(effect, CallHooks) else await self._inner.do(work)
        if event is not None:
            self._events.append(event)

    async def _is_to_end(self) -> bool:
        """Whether somebody wants the run under way to end, or the driver to stop."""
        while self._has_mail and not self._is_stopping:
            self._has_mail = False
            await self._mailbox.read()
        run = self.state.run
        self._is_cut = run is not None and self._mailbox.has_cancel(run.run_id)
        return self._is_cut or self._is_stopping

    async def _commit(self) -> None:
        await self._write(is_last=self._is_done() and not self._has_mail)
        run = self.state.run
        if run is not None and run.is_cancel_requested:
            self._ready = [effect for effect in self._ready if is_errand(effect)]
            self._tasks.cancel()
        for effect in self._ready:
            self._start(effect)
        self._ready.clear()

    def _start(self, effect: Effect) -> None:
        if self.is_lost:
            # Its intent was durable before somebody else took the session, who has seen it.
            return
        # What was given up on while stopping looks as if nobody performed it, and must not begin again.
        if self._is_stopping and (effect.key in self._begun or not isinstance(effect, RunTool)):
            return
        self._begun.add(effect.key)
        self._tasks.start(effect, lambda: perform(self._work, self.state, effect=effect))

    async def _write(self, *, is_last: bool) -> None:
        standing, wake_at_ms = self._standing()
        if is_last:
            # What waits for a run that waits is nothing that whoever comes next finds broken off.
            self._events.append(HandedOver())
            self._take_events(moment(self._clock))
        await self._writer.commit(standing=standing, wake_at_ms=wake_at_ms, is_last=is_last)
        self._work.recorded(self.state)

    def _standing(self) -> tuple[Standing, int | None]:
        if self.state.run is None:
            is_busy = (
                self._has_untaken() or self._ready or self._tasks.errands or self.state.compacting.is_due
            )
            return (Standing.RUNNING if is_busy else Standing.IDLE), None
        if self._ready or not self._is_done():
            # A short wait too: after a crash somebody must go on with it at once, whatever the clock says.
            return Standing.RUNNING, None
        wake = self._wake_at_ms
        return Standing.WAITING, wake and self._steady.wake_at_ms(wake, moment(self._clock))

    async def _finish_tools(self) -> None:
        """Record what tools that were running when the driver was stopped still return."""
        self._tasks.stop()
        self._events += self._tasks.collect()
        self._take_events(moment(self._clock))
        while self._tasks:
            # Whoever rings now, and whatever is due, is for the next owner.
            self._has_mail, self._wake_at_ms = False, None
            await self._wait()
            self._take_events(moment(self._clock))
        self._events.append(HandedOver())
        self._take_events(moment(self._clock))
        await self._writer.commit(standing=Standing.RUNNING, wake_at_ms=None, is_last=True)

    # waiting

    async def _wait(self) -> None:
        """Return when something happened: an effect is done, somebody rang, or time came."""
        if not self._has_mail and not self._tasks.has_done:
            self._bell.clear()
            # Whoever acts because it is late looks first whether somebody was in time.
            timer = self._steady.timer(self._wake_at_ms, self.ring)
            await self._bell.wait()
            if timer is not None:
                timer.cancel()
        self._events += self._tasks.collect()

    def _is_done(self) -> bool:
        """Whether nothing will happen unless somebody or the clock makes it happen."""
        if self._is_stopping or self._events or self._tasks or self._ready:
            # Whoever stops has left things undone.
            return False
        if self._has_untaken():
            return False
        if self._wake_at_ms is None:
            return True
        if self.state.run is None:
            return False  # a compaction at rest: a row that waits would hold back the next run
        return self._steady.delay_ms(self._wake_at_ms, moment(self._clock)) > SHORT_WAIT_MS

    def _has_untaken(self) -> bool:
        """Whether there are items that wait for no run to end."""
        is_busy, is_ending = self._hears()
        return self._mailbox.has_untaken(is_busy=is_busy, is_ending=is_ending)

    def _hears(self) -> tuple[bool, bool]:
        """Whether no run can begin now, and whether no words are heard."""
        is_free = self.state.run is None
        is_held = is_free and self.state.compacting.is_open
        return is_held or not is_free, is_held or self.state.is_ending

    async def _take_items(self, now: Moment) -> bool:
        """Take items, up to one that changes what the next mean; tell if any was."""
        if self._care.is_careful and self._writer.consuming:
            return False
        is_busy, is_ending = self._hears()
        mail = await self._mailbox.take(is_busy=is_busy, is_ending=is_ending, care=self._care)
        for run, item in mail.begun:
            self._writer.begin(run, item)
        for item in mail.taken:
            self._writer.consume(item)
        for event in mail.events:
            self._writer.add(take(self.state, event, now=now, rules=self._rules))
        return bool(mail.taken)

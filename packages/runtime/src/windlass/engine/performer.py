"""Who performs the effects of a session, as its driver sees it."""

from typing import Protocol

from windlass.engine.inner import Inner
from windlass_harness.loop.effects import (
    CallHooks,
    CallModel,
    CheckOutput,
    Compact,
    Deliver,
    Effect,
    JudgeCall,
    ReviewReport,
    RunTool,
)
from windlass_harness.loop.events import LoopEvent, Note, Stopped
from windlass_harness.loop.rules import Rules
from windlass_harness.loop.state import LoopState
from windlass_harness.views.runs import RunState


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

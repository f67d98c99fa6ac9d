"""WorkflowContext: what a workflow can do. Everything else it does is repeated after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random  # noqa: TID251 - its seed is recorded
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    NoReturn,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)

from pydantic import JsonValue, ValidationError

from windlass.agent.agent import Agent
from windlass.agent.output import json_of, parse_output
from windlass.errors import check_text, kind_of
from windlass.limits import OPTION_CHARS_MAX, OPTIONS_MAX, QUESTION_CHARS_MAX, REASON_CHARS_MAX
from windlass.refusals import check_id
from windlass.tools import AnyTool, Tool, Unanswered
from windlass.tools.context import ToolContext, as_delta, as_timeout, check_zone
from windlass.tools.deps import ContextDepsT, hints_of
from windlass.workflow.replay import BeginAgain, CallFailed, LiveWorkflow, wire_moment
from windlass_harness.loop.notes import ASK_QUESTION, UNDO_CALLS, WAIT_FOR
from windlass_protocol import JsonObject

if TYPE_CHECKING:
    from windlass.workflow.definition import Workflow

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
T = TypeVar("T")


class WorkflowContext(Generic[ContextDepsT]):
    """The only way of a workflow to the world: its calls are recorded, and made once.

    After a crash the function runs again from its start. A call that has a result returns it and does
    nothing; results come in the order of their records. So the function must do the same again: read clocks
    and random numbers here, and what else differs from time to time in a tool.
    """

    def __init__(
        self,
        live: LiveWorkflow,
        *,
        run_id: str,
        session_id: str,
        owner: str | None,
        deps: ContextDepsT,
        callable_names: Mapping[int, str],
    ) -> None:
        self.run_id: Final = run_id
        self.session_id: Final = session_id
        self.owner: Final = owner
        """The owner that the start of the run named."""
        self.deps: Final = deps
        """The dependencies of the run, which its tools get too; they are made again after a crash."""
        self.random: Final[Random] = live.random
        """Random numbers, the same each time the function runs again."""
        self._live = live
        self._callable_names = callable_names

    def now(self) -> datetime:
        """Return the time of the newest result that the workflow has taken, in UTC."""
        return self._live.loop.now.astimezone(UTC)

    @overload
    async def call(
        self,
        tool: Tool[Concatenate[ToolContext[Any], P], Awaitable[R], Any],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...
    @overload
    async def call(
        self, tool: Tool[Concatenate[ToolContext[Any], P], R, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def call(self, tool: Tool[P, Awaitable[R], Any], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def call(self, tool: Tool[P, R, Any], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool; return what it returns.

        The policy decides about the call as about that of a model, and may ask a person. It is made once, or
        again after a crash as its effect class says. The arguments are those of the function, without its
        ToolContext.

        Raises:
            CallFailed: the tool failed, the call was denied, or it was not made.
            TypeError: the arguments are not those of the tool, or have no JSON form.
        """
        callable_tool = self._check_tool(tool)
        arguments = _arguments(callable_tool, args, kwargs)
        value = await self._live.call(callable_tool.name, arguments)
        return _as_returned(callable_tool, value)

    @overload
    async def run(self, agent: "Workflow[None, Any, R]", /) -> R: ...
    @overload
    async def run(self, agent: "Workflow[A, Any, R]", argument: A, /) -> R: ...
    @overload
    async def run(self, agent: Agent[Any, R], message: str, /) -> R: ...
    async def run(self, agent: Any, message: Any = None, /) -> Any:
        """Run an agent or another workflow as a subagent, and return its output.

        Raises:
            CallFailed: the run failed, was cancelled, or used up its budget.
        """
        if not isinstance(agent, Agent):
            raise TypeError(f"ctx.run takes an Agent or a workflow, found {kind_of(agent)}")
        subagent = cast("Agent[Any, object]", agent)
        if self._callable_names.get(id(subagent)) != subagent.name:
            raise TypeError(_NOT_LISTED.format(kind="agent", name=subagent.name, option="agents"))
        value = await self._live.call(subagent.name, {"message": cast(str, subagent.message_of(message))})
        output_type = subagent.output_type
        return value if output_type is None else parse_output(output_type, value)

    @overload
    def start(self, agent: "Workflow[None, Any, R]", /) -> "asyncio.Task[R]": ...
    @overload
    def start(self, agent: "Workflow[A, Any, R]", argument: A, /) -> "asyncio.Task[R]": ...
    @overload
    def start(self, agent: Agent[Any, R], message: str, /) -> "asyncio.Task[R]": ...
    def start(self, agent: Any, message: Any = None, /) -> "asyncio.Task[Any]":
        """Run an agent or another workflow in the background, and return the task that has its output.

        Await it later, or give it to `asyncio.wait`. Its run goes on if the task is cancelled; the end of the
        workflow waits for it.
        """
        return asyncio.ensure_future(self.run(agent, message))

    @overload
    async def wait_for(self, name: str, *, timeout: timedelta | float | None = None) -> JsonValue: ...  # noqa: ASYNC109 - of the records
    @overload
    async def wait_for(
        self,
        name: str,
        kind: type[T],
        *,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - of the records
    ) -> T | None: ...
    async def wait_for(
        self,
        name: str,
        kind: type[T] | None = None,
        *,
        timeout: timedelta | float | None = None,  # noqa: ASYNC109 - of the records
    ) -> T | JsonValue:
        """Wait for an event that `run.send`, the server, the command or a webhook sends; return its data.

        An event that was sent before is taken at once. Each event is taken once, by the call that waits
        longest. A run that waits is a row in the store.

        Args:
            name: the name of the event.
            kind: the type of its data.
            timeout: how long it waits; None is returned then.

        Raises:
            CallFailed: the data is not of that type; the event is taken.
            ValueError: the timeout is negative.
        """
        arguments: JsonObject = {"name": check_id(name, "the name of the event")}
        if timeout is not None:
            arguments["until"] = wire_moment(self.now() + as_timeout(timeout))
        event = await self._live.call(WAIT_FOR, arguments)
        if not isinstance(event, dict):
            return None
        data = event.get("data")
        try:
            return data if kind is None else cast(T, parse_output(kind, data))
        except ValidationError as error:
            problem = f"the data of event {name} is not {kind_name(kind)}: {error.errors()[0]['msg']}"
        raise CallFailed(problem, tool_name=WAIT_FOR, type_name="ValueError")

    async def undo(self) -> int:
        """Reverse the calls that the workflow has made, newest first, each once; return their number.

        Calls of tools with an `undo` that have completed are reversed; the policy decides about each. So a
        saga is a `try`, with this in the `except`. Runs of agents and of other workflows reverse their own.

        Raises:
            CallFailed: calls could not be reversed; its message names them. The others are.
        """
        result = await self._live.call(UNDO_CALLS, {})
        count = result.get("reversed") if isinstance(result, dict) else None
        return count if isinstance(count, int) else 0

    def changed(self, reason: str) -> bool:
        """Return whether to go the way of changed code: False in runs whose records have the old way.

        Write `if ctx.changed("notify first"): … else: …` with the new way and the old one; remove the old way
        when no run of it is left. A run answers alike for one reason, wherever and as often as it is asked.
        """
        return self._live.goes_new_way(
            check_text(reason, "the reason of the change", chars_max=REASON_CHARS_MAX)
        )

    def begin_again(self, argument: object = None) -> NoReturn:
        """End the function here, and call it again with another argument, in the same run.

        For loops without end: the calls until here are not replayed any more. Calls that have no result yet
        are awaited before. Write `return ctx.begin_again(…)`.
        """
        raise BeginAgain(json_of(argument, "the argument of begin_again"))

    async def approve(self, prompt: str) -> bool:
        """Ask a person to approve; return whether they did.

        Raises:
            Unanswered: the question was closed without an answer.
            CallFailed: no person can be asked in this run.
        """
        return await self.ask(prompt, options=("approve", "deny")) == "approve"

    async def ask(self, prompt: str, *, options: Sequence[str] = ()) -> str:
        """Ask a person, and return the answer: one of the options, or a text if there are none.

        The run waits as a row in the store, for weeks if need be.

        Raises:
            Unanswered: the question was closed without an answer.
            CallFailed: no person can be asked in this run.
        """
        check_text(prompt, "the question", chars_max=QUESTION_CHARS_MAX)
        if len(options) > OPTIONS_MAX:
            raise ValueError(f"a question has up to {OPTIONS_MAX} options, found {len(options)}")
        for option in options:
            check_text(option, "an option", chars_max=OPTION_CHARS_MAX)
        listed: list[JsonValue] = [{"id": option, "label": option} for option in options]
        arguments: JsonObject = {"prompt": prompt, **({"options": listed} if listed else {})}
        answer = await self._live.call(ASK_QUESTION, arguments)
        reply = answer if isinstance(answer, dict) else {}
        if reply.get("status") != "answered":
            raise Unanswered(f"The question was not answered ({reply.get('status')}).")
        return str(reply["optionId"] if "optionId" in reply else reply.get("text", ""))

    async def sleep(self, delay: timedelta | float) -> None:
        """Wait, for seconds or years: the run is a row in the store meanwhile."""
        await self.sleep_until(self.now() + as_delta(delay))

    async def sleep_until(self, moment: datetime) -> None:
        """Wait until a time, which must have a time zone.

        Raises:
            ValueError: it has none.
        """
        loop, future = self._live.loop, self._live.loop.create_future()
        seconds = (check_zone(moment) - loop.now).total_seconds()
        timer = loop.call_later(seconds, _set_done, future)
        try:
            await future
        finally:
            timer.cancel()

    def _check_tool(self, tool: object) -> AnyTool:
        if not isinstance(tool, Tool):
            raise TypeError(f"ctx.call takes a function with @tool, found {kind_of(tool)}")
        checked = cast(AnyTool, tool)
        if self._callable_names.get(id(checked)) != checked.name:
            raise TypeError(_NOT_LISTED.format(kind="tool", name=checked.name, option="tools"))
        return checked


_NOT_LISTED: Final = (
    "the workflow does not know the {kind} {name}: it knows those that its source names, and those of "
    "@workflow({option}=[…])"
)


def kind_name(kind: object) -> str:
    """Return the name of a type, as errors have it."""
    return getattr(kind, "__name__", str(kind))


def _set_done(future: Any) -> None:
    if not future.done():
        future.set_result(None)


def _arguments(tool: AnyTool, args: Sequence[object], kwargs: Mapping[str, object]) -> JsonObject:
    """Return the arguments of a call as JSON, by name."""
    names = [parameter.name for parameter in tool.shape.signature.parameters]
    if len(args) > len(names):
        raise TypeError(f"{tool.name} takes {len(names)} arguments, found {len(args)}")
    values: dict[str, object] = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in values:
            raise TypeError(f"{tool.name} got two values for {name}")
        values[name] = value
    return cast(JsonObject, json_of(values, f"an argument of {tool.name}"))


_FUNCTIONS_MAX: Final = 512


@lru_cache(_FUNCTIONS_MAX)
def _return_type_of(function: Callable[..., object]) -> object:
    return hints_of(function).get("return", object)


def _as_returned(tool: AnyTool, value: JsonValue) -> object:
    """Return the result of a call as the type that the function returns."""
    kind = _return_type_of(tool.function)
    return value if kind is object or kind is Any else parse_output(kind, value)

"""Helpers of the step tests: a session, a driver, and a reader of events."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack, cast

from tests.steps.options import Options

from windlass.ports.model import LLMProvider
from windlass.steps import (
    AgentTool,
    StepFn,
    StepResult,
    ToolLoopHarnessConfig,
    create_tool_loop_harness,
    read_session,
    state_of,
    write_session,
)
from windlass.testing import Answer, FakeClock, ScriptedModel, run_in_fake_time
from windlass.tools import tool
from windlass_protocol import (
    CompactionConfig,
    Event,
    HarnessSession,
    InputRequest,
    InputResponse,
    JsonObject,
    JsonValue,
    ModelMessage,
    ModelReference,
    RunMode,
    SessionAgent,
    SessionCapabilities,
    StepDone,
    StepInput,
    StepState,
    decode,
    encode,
)

T = TypeVar("T")


@tool(mode="read")
async def add(a: int, b: int) -> JsonObject:
    """Add two numbers."""
    return {"sum": a + b}


@tool(mode="safe_write", approval="always")
async def guarded(x: int) -> JsonObject:
    """A tool that needs approval."""
    return {"ok": x}


HELPER = AgentTool("agent", description="Does a part of the work.", node_id="__root__")


def new_session(
    *,
    system: str = "You help.",
    threshold: int = 100_000,
    output_schema: JsonObject | None = None,
    history: Sequence[ModelMessage] = (),
) -> HarnessSession:
    """Return a session in which nothing has happened."""
    agent = SessionAgent(model_reference=ModelReference(id="mock/model"), system=system, tools=())
    return HarnessSession(
        agent=agent,
        compaction=CompactionConfig(recent_window_size=10, threshold=threshold),
        continuation_token="token",
        history=tuple(history),
        session_id="s1",
        output_schema=output_schema,
    )


@dataclass(slots=True)
class Stage:
    """A harness, its session and everything that was shown."""

    session: HarnessSession = field(default_factory=new_session)
    events: list[Event] = field(default_factory=list[Event])
    clock: FakeClock = field(default_factory=FakeClock)
    last: StepResult | None = None
    steps: int = 0
    keeps: Callable[[Iterable[int]], bool] = lambda steps: True
    """Whether the session goes on as an object after these steps; if not, as bytes in another process."""
    make: Callable[[], StepFn] | None = None
    step: StepFn | None = None

    def show(self, event: Event, messages: Sequence[ModelMessage] | None) -> None:
        """Take an event; it must be one on the wire."""
        assert decode(Event, encode(event)) == event
        self.events.append(event)

    def harness(
        self, model: ScriptedModel | Callable[[], LLMProvider], **options: Unpack[Options]
    ) -> "Stage":
        """Use a model and options; a maker of models gets a new one in each process."""

        def make() -> StepFn:
            provider = model if isinstance(model, ScriptedModel) else model()

            def resolve(reference: ModelReference) -> LLMProvider:
                return provider

            given: dict[str, Any] = {
                "mode": RunMode.CONVERSATION,
                "tools": {"add": add, "guarded": guarded, "agent": HELPER},
                "resolve_model": resolve,
                "handle_event": self.show,
                "capabilities": SessionCapabilities(request_input=True),
                "clock": self.clock,
                "random": lambda: 0.5,
                **options,
            }
            return create_tool_loop_harness(ToolLoopHarnessConfig(**given))

        self.make, self.step = make, make()
        return self

    async def send(self, given: StepInput | str | None = None) -> StepResult:
        """Give an input and take steps until there is something to wait for."""
        make, step = self.make, self.step
        assert make is not None
        current: StepInput | None = StepInput(message=given) if isinstance(given, str) else given
        while True:
            assert step is not None
            before = write_session(self.session)
            result = await step(self.session, current)
            assert write_session(self.session) == before, "a step changed the session that it was given"
            self.last, self.session, current = result, result.session, None
            self.steps += 1
            if not self.keeps((self.steps,)):
                self.session = read_session(write_session(self.session))
                step = self.step = make()
            if result.next is None or isinstance(result.next, StepDone):
                return result
            if self.keeps((self.steps,)):
                step = self.step = result.next

    async def answer(self, *picked: str) -> StepResult:
        """Pick an option, by id, for each request that is open, in order."""
        responses = tuple(
            InputResponse(request_id=request.request_id, option_id=option)
            for request, option in zip(self.requests, picked, strict=False)
        )
        return await self.send(StepInput(input_responses=responses))

    @property
    def state(self) -> StepState:
        """The pending work of the session."""
        return state_of(self.session)

    @property
    def requests(self) -> tuple[InputRequest, ...]:
        """The requests that are open."""
        batch = self.state.pending_input_batch
        return () if batch is None else batch.requests

    @property
    def done(self) -> StepDone:
        """The end of the session."""
        assert self.last is not None
        assert isinstance(self.last.next, StepDone)
        return self.last.next

    @property
    def types(self) -> list[str]:
        """The types of the events, deltas apart."""
        return [event.type for event in self.events if not event.type.endswith(".appended")]

    def data(self, event_type: str) -> list[JsonObject]:
        """The data of all events of a type."""
        return [event.data for event in self.events if event.type == event_type]


def inside(data: JsonValue, *path: str | int) -> JsonValue:
    """Return the value at a path of some data."""
    for key in path:
        data = cast(Any, data)[key]
    return data


def play(story: Coroutine[Any, Any, T], stage: Stage) -> T:
    """Run a story in the time of its stage."""
    return run_in_fake_time(story, clock=stage.clock)


def staged(*answers: Answer, session: HarnessSession | None = None, **options: Unpack[Options]) -> Stage:
    """Return a stage with a model that gives these answers."""
    stage = Stage() if session is None else Stage(session=session)
    return stage.harness(ScriptedModel(answers), **options)

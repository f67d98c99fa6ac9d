"""Hand-written stories for golden journals: cases that the simulator does not cover."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from windlass import Agent, AgentRuntime, ToolContext, tool
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.policy import allow_start
from windlass.errors import Unavailable
from windlass.feed import Feed
from windlass.ports.model import LLMUsage
from windlass.testing import (
    Answer,
    FakeClock,
    ScriptedModel,
    by_history,
    call,
    fail,
    run_in_fake_time,
    say,
    seeded_random,
    sequential_ids,
)
from windlass.tools import ToolFailed
from windlass_harness.budget import Budget
from windlass_harness.record import Record
from windlass_protocol import ErrorKind, FinishReason, RetryClass

SESSION: Final = "s1"
Play = Callable[[AgentRuntime, Agent], Awaitable[None]]


@tool(mode="read")
async def weather(city: str) -> dict[str, str]:
    """Look at the sky."""
    return {"city": city, "sky": "grey ☁"}


@tool(mode="external")
async def mail(to: str, text: str = "") -> str:
    """Send a mail."""
    return f"sent to {to}"


@tool(mode="safe_write", effect="once")
async def charge(cents: int, context: ToolContext) -> dict[str, int]:
    """Charge a card."""
    context.progress("asking the bank")
    if cents < 0:
        raise ToolFailed("cents must be positive")
    return {"charged": cents}


@tool(mode="read")
async def book(pages: int) -> str:
    """Read a long book."""
    return "word " * pages


def _model(*answers: Answer) -> ScriptedModel:
    return ScriptedModel(by_history(answers))


def _agent(*answers: Answer, **parts: object) -> Agent:
    given: dict[str, object] = {"instructions": "Be short.", **parts}
    return Agent("helper", model=_model(*answers), tools=[weather, mail, charge, book], **given)  # pyright: ignore[reportArgumentType] - parts of an agent by name


async def _wait(runtime: AgentRuntime, agent: Agent) -> None:
    handle = await runtime.start_run(agent, "go", session_id=SESSION, run_id="r1")
    await handle.wait(timeout=600)


def _answering(*options: str) -> Play:
    """Give these answers, one for each time that the run waits."""

    async def play(runtime: AgentRuntime, agent: Agent) -> None:
        handle = await runtime.start_run(agent, "go", session_id=SESSION, run_id="r1")
        left = list(options)
        async for event in handle.events():
            if event.type == "run.waiting":
                request = (await handle.open_requests())[0]
                await handle.answer(request.request_id, left.pop(0), responder="ann")
        assert not left, "the last answers were not used"

    return play


async def _proxied(runtime: AgentRuntime, agent: Agent) -> None:
    """Answer the request of a subagent through this session."""
    handle = await runtime.start_run(agent, "go", session_id=SESSION, run_id="r1")
    async for event in handle.events():
        if event.type == "input.requested":
            (request,) = await handle.open_requests()
            await handle.answer(request.request_id, "approve", responder="ann")


async def _talk(runtime: AgentRuntime, agent: Agent) -> None:
    for number, words in enumerate(("one", "two", "three"), 1):
        handle = await runtime.start_run(agent, words, session_id=SESSION, run_id=f"r{number}")
        await handle.wait(timeout=600)


async def _cancel(runtime: AgentRuntime, agent: Agent) -> None:
    handle = await runtime.start_run(agent, "go", session_id=SESSION, run_id="r1")
    async for event in handle.events():
        if event.type == "run.waiting":
            await handle.cancel(by="ann", reason="never mind")


async def _rich(runtime: AgentRuntime, agent: Agent) -> None:
    handle = await runtime.start_run(
        agent,
        "with everything",
        session_id=SESSION,
        run_id="r1",
        context=["It is Monday."],
        metadata={"chatId": "c1", "userId": "u1"},
        budget=Budget(max_tokens=10_000, max_steps=9),
    )
    await handle.wait(timeout=600)


_BUSY: Final = Unavailable("busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
_USAGE: Final = LLMUsage(input_tokens=12, output_tokens=5, cost_micros=40)
_SCHEMA: Final = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

_CLERK: Final = Agent(
    "clerk", model=_model(call("mail", {"to": "bob"}), say("Sent.", usage=_USAGE)), tools=[mail]
)
_ASKED: Final = call("clerk", {"message": "Write to Bob."}) + call("weather", {"city": "Oslo"})

STORIES: Final[dict[str, tuple[Agent, Play]]] = {
    "subagent": (_agent(_ASKED, say("All done.", usage=_USAGE), subagents=[_CLERK]), _proxied),
    "words": (_agent(say("Hello, world. Grüße! 🙂", usage=_USAGE)), _wait),
    "thoughts": (_agent(say("Yes.", reasoning="Let me see …", usage=_USAGE)), _wait),
    "one-tool": (_agent(call("weather", {"city": "Oslo"}), say("Grey.")), _wait),
    "two-tools": (
        _agent(call("weather", {"city": "Oslo"}) + call("weather", {"city": "Rome"}), say("Both grey.")),
        _wait,
    ),
    "tool-fails": (_agent(call("charge", {"cents": -1}), say("It failed.")), _wait),
    "bad-arguments": (_agent(call("weather", {"town": 1}), call("nothing"), say("Well.")), _wait),
    "long-output": (_agent(call("book", {"pages": 30_000}), say("Long.")), _wait),
    "approved": (_agent(call("mail", {"to": "bob"}), say("Sent.")), _answering("approve")),
    "granted": (
        _agent(call("mail", {"to": "bob"}), call("mail", {"to": "eve"}), say("Sent.")),
        _answering("approve_session"),
    ),
    "denied": (_agent(call("mail", {"to": "bob"}), say("Not sent.")), _answering("deny")),
    "asked-twice": (
        _agent(call("mail", {"to": "bob"}), call("mail", {"to": "eve"}), say("One.")),
        _answering("approve", "deny"),
    ),
    "cancelled": (_agent(call("mail", {"to": "bob"}), say("Never.")), _cancel),
    "conversation": (_agent(say("1"), call("weather", {"city": "Oslo"}), say("2"), say("3")), _talk),
    "hopeless": (_agent(fail(ValueError("broken"))), _wait),
    "retried": (_agent(fail(_BUSY)), _wait),
    "filtered": (_agent(Answer("no", finish_reason=FinishReason.CONTENT_FILTER)), _wait),
    "cut-off": (_agent(Answer("an unfin", finish_reason=FinishReason.LENGTH)), _wait),
    "out-of-steps": (
        _agent(call("weather", {"city": "Oslo"}), say("x"), budget=Budget(max_steps=1)),
        _wait,
    ),
    "typed": (_agent(say('{"n": 7}'), output=_SCHEMA), _wait),
    "repaired": (_agent(say("seven"), say('{"n": 7}'), output=_SCHEMA), _wait),
    "never-fits": (_agent(say("a"), say("b"), say("c"), output=_SCHEMA), _wait),
    "rich": (_agent(call("weather", {"city": "Oslo"}), say("Grey.", usage=_USAGE)), _rich),
}


def tell(name: str) -> Sequence[Record]:
    """Play a story in fake time; return the records of its session."""
    agent, play = STORIES[name]
    clock, store = FakeClock(), MemoryStore()

    async def story() -> Sequence[Record]:
        runtime = (
            AgentRuntime.builder()
            .options(clock=clock)
            .options(ids=sequential_ids())
            .options(random=seeded_random(1))
            .options(retry_for_ms=0)
            .journal(store)
            .event_bus(Feed(store, clock))
            .content(store)
            .policy(allow_start)
            .options(is_attended=True)
            .agent(agent)
            .build()
        )
        async with runtime:
            await play(runtime, agent)
            return await store.read(SESSION, limit=10_000)

    return run_in_fake_time(story(), clock=clock)

"""Forty registered secrets, through every input: none is written or shown."""

import asyncio
import json
import logging
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from pathlib import Path

import pytest
from tests.security.bank import asked, ended, play
from tests.security.canaries import ALL, SECRETS, hits, hits_in_files, hits_in_texts, spoken

from windlass import (
    Agent,
    AgentRuntime,
    LLMMessage,
    LLMStreamChunk,
    PolicySet,
    Rejected,
    Rule,
    RunHandle,
    RunRequest,
    Tool,
    ToolContext,
    ToolFailed,
    tool,
)
from windlass.limits import FAILED_CHARS_MAX, FAILURE_CHARS_MAX, TOOL_OUTPUT_CHARS_MAX
from windlass.testing import Answer, ScriptedModel, by_history, call, fail, say
from windlass.testing.models import ScriptedCall
from windlass_harness.redact import Redactor
from windlass_protocol import ErrorKind, Event, JsonObject, RetryClass

EDGES = tuple(range(0, 60, 7))
"""The number of characters of a secret beyond the cut of a text."""


def tools(heard: list[str], seen: asyncio.Event) -> list[Tool[..., object]]:
    """Tools that take, return, show and raise secrets."""

    @tool(mode="read")
    async def echo(text: str, ctx: ToolContext) -> JsonObject:
        """Say it back."""
        heard.append(text)
        for secret in SECRETS:
            ctx.progress({"so far": spoken(secret), secret: 1})
        async with asyncio.timeout(300):
            await seen.wait()
        return {"text": text, "all": ALL, SECRETS[0]: [ALL]}

    @tool(mode="read")
    async def flood(at: int) -> str:
        """Return a text that is cut inside of a secret at both edges."""
        half = TOOL_OUTPUT_CHARS_MAX // 2
        head = "x" * (half - at) + SECRETS[at % 40]
        tail = SECRETS[(at + 1) % 40] + "y" * (half - at)
        return head + " " * 1_000 + ALL + " " * 1_000 + tail

    @tool(mode="read")
    async def blow(kind: str, at: int = 0) -> str:
        """Fail."""
        if kind == "failed":
            raise ToolFailed(ALL)
        if kind == "raised":
            raise ValueError("x" * (FAILURE_CHARS_MAX - len("ValueError: ") - at) + SECRETS[at % 40])
        raise ToolFailed("x" * (FAILED_CHARS_MAX - at) + SECRETS[at % 40])

    @tool(mode="external")
    async def send(text: str, cents: int = 0) -> str:
        """Send it; a person is asked first."""
        heard.append(text)
        return text

    return [echo, flood, blow, send]


def script() -> list[Answer]:
    floods = tuple(ScriptedCall("flood", {"at": at}) for at in EDGES)
    blows = tuple(
        ScriptedCall("blow", {"kind": kind, "at": at}) for kind in ("raised", "cut") for at in EDGES
    )
    return [
        say(ALL, reasoning=ALL) + call("echo", {"text": ALL}, call_id=SECRETS[1]),
        Answer(calls=floods),
        Answer(calls=(ScriptedCall("blow", {"kind": "failed"}), *blows)),
        call("send", {"text": ALL, SECRETS[2]: SECRETS[3]}) + call(SECRETS[4], {"x": ALL}),
        call("send", {"text": ALL}),
        call("send", {"text": spoken(SECRETS[8])}),
        call("send", f'{{"text": {ALL}'),
        say(ALL),
    ]


async def shown(
    handle: RunHandle, sink: list[tuple[str, object]], *, seen: asyncio.Event | None = None
) -> None:
    async for event in handle.events():
        if seen is not None and event.type == "action.partial":
            seen.set()
        sink.append((event.type, json.dumps(event.data, ensure_ascii=False)))
        sink.append((event.type, event.model_dump_json()))


async def tour(folder: Path, secrets: Sequence[str], sink: list[tuple[str, object]]) -> list[str]:
    """Pass every secret through every input; return the arguments that the tools got."""
    heard, seen = list[str](), asyncio.Event()
    rules = PolicySet((Rule("ask", "ask", tools=("send",), reason=f"Because of {SECRETS[5]}"),))
    agent = Agent(
        "leaky",
        model=ScriptedModel(by_history(script())),
        tools=tools(heard, seen),
        policy=rules,
    )
    simple = Agent("simple", model=ScriptedModel(lambda _: say(ALL)))
    quoting = Rejected(ALL, kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE)
    broken = Agent("broken", model=ScriptedModel(lambda _: fail(quoting, after=ALL)))
    agents = [agent, simple, broken]
    async with AgentRuntime.open(folder / "a.db", agents=agents, secrets=secrets) as runtime:
        handle = await runtime.start_run(
            agent,
            ALL,
            run_id="r1",
            session_id="s",
            context=[ALL],
            metadata={"note": ALL, SECRETS[6]: 1},
        )
        watcher = asyncio.ensure_future(shown(handle, sink, seen=seen))
        for times, option in ((1, "approve"), (2, "deny")):
            for request in await asked(handle, times):
                sink.append(("request", request))
                await handle.answer(request.request_id, option, text=ALL, responder=SECRETS[7])
        sink.append(("status", await ended(handle)))
        sink.append(("result", await handle.wait(timeout=300)))
        sink.append(("snapshot", await runtime.run_snapshot("r1")))
        await watcher
        again = await runtime.start_run(agent, "x", run_id="r2", session_id="other", context=[ALL])
        await again.cancel(reason=ALL, by=SECRETS[9])
        sink.append(("status", await ended(again)))
        await shown(again, sink)
        failed = await runtime.start_run(broken, "x", run_id="r3")
        sink.append(("result", await failed.wait(timeout=300)))
        sink += await refusals(runtime, agent, handle)
    return heard


async def refusals(runtime: AgentRuntime, agent: Agent, handle: RunHandle) -> list[tuple[str, object]]:
    """Return everything that a caller can be refused with, as a log would write it."""
    found: list[tuple[str, object]] = []
    schema: JsonObject = {"type": "object", "properties": {"x": {"const": 1}}, "required": ["x"]}
    attempts: tuple[Coroutine[object, object, object], ...] = (
        runtime.start_run(agent, ALL + "other", run_id="r1", session_id="s"),
        handle.answer("approval:r1:0:c:1", "approve", text=ALL, responder=SECRETS[7]),
        runtime.run_typed(request_of("simple"), schema),
        runtime.run_typed(request_of("broken"), schema),
    )
    for attempt in attempts:
        try:
            await attempt
        except Exception as error:  # noqa: BLE001 - all of them are looked at
            found.append(("error", "".join(traceback.format_exception(error))))
            found.append(("error", vars(error)))
    assert len(found) == 2 * len(attempts)
    return found


def request_of(agent_id: str) -> RunRequest:
    parts = {"run_id": f"typed-{agent_id}", "agent_id": agent_id, "input": ALL}
    return RunRequest.model_validate({**parts, "package_id": agent_id})


@pytest.mark.promise("S1")
def test_no_registered_secret_is_written_shown_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    sink: list[tuple[str, object]] = []
    heard = play(tour(tmp_path, SECRETS, sink))
    assert heard[0] == ALL, "the tool got what the model wrote"
    assert ALL in heard[1:], "and so it did after a person had approved it"
    assert hits_in_files(tmp_path) == []
    assert hits_in_texts(sink) == []
    assert hits("log", caplog.text.encode()) == []
    assert {"run.completed", "run.cancelled", "request", "action.result", "action.partial"} <= {
        where for where, _ in sink
    }


def test_the_search_finds_secrets_that_are_not_registered(tmp_path: Path) -> None:
    sink: list[tuple[str, object]] = []
    play(tour(tmp_path, (), sink))
    found = hits_in_files(tmp_path)
    assert len({hit.split(" as ")[0] for hit in found}) == 40
    assert any(" as base64 at 2 " in hit for hit in found)
    assert len({hit.split(" as ")[0] for hit in hits_in_texts(sink)}) == 40


@pytest.mark.promise("S1")
def test_inbox_items_hold_no_secret(tmp_path: Path) -> None:
    """A run that waits for another one, with a message that is not a record yet."""

    @tool(mode="external")
    async def send(text: str) -> str:
        """Send it."""
        return text

    async def story() -> None:
        agent = Agent("a", model=ScriptedModel(by_history([call("send", {"text": "x"})])), tools=[send])
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], secrets=SECRETS) as runtime:
            first = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            await asked(first)
            await runtime.start_run(
                agent, ALL, run_id="r2", session_id="s", context=[ALL], metadata={"n": ALL}
            )
            assert hits_in_files(tmp_path) == []

    play(story())
    assert hits_in_files(tmp_path) == []


class Slow:
    """A model that says something in pieces, and lets others run in between."""

    route_id = model_id = "slow"

    def __init__(self, text: str, size: int) -> None:
        self._pieces = [text[at : at + size] for at in range(0, len(text), size)]

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        for piece in self._pieces:
            yield LLMStreamChunk(reasoning_delta=piece)
            yield LLMStreamChunk(content_delta=piece)
            await asyncio.sleep(0)
        yield LLMStreamChunk(finish_reason="stop")


@pytest.mark.promise("S1")
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 100])
def test_live_deltas_hold_no_secret_however_the_text_is_cut(size: int) -> None:
    text = "\n".join(spoken(secret) for secret in SECRETS[:: 1 if size > 2 else 5])
    agent = Agent("slow", model=Slow(text, size))
    seen: list[Event] = []

    async def story() -> None:
        async with AgentRuntime.in_memory([agent], secrets=SECRETS) as runtime:
            handle = await runtime.start_run(agent, "go")
            seen.extend([event async for event in handle.events()])

    play(story())
    masked = Redactor(SECRETS).text(text)
    for kind, field in (("message", "messageDelta"), ("reasoning", "reasoningDelta")):
        deltas = [str(event.data[field]) for event in seen if event.type == f"{kind}.appended"]
        assert len(deltas) > 3, "it was shown while it was written"
        joined = "".join(deltas)
        assert hits("deltas", joined.encode()) == []
        assert masked.startswith(joined)
    assert [str(event.data["message"]) for event in seen if event.type == "message.completed"] == [masked]


@pytest.mark.promise("S1")
def test_a_package_that_holds_a_secret_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        model = ScriptedModel([say("x")])
        for number, agent in enumerate(
            (
                Agent("a", model=model, instructions=f"The key is {SECRETS[0]}."),
                Agent("b", model=model, instructions=f"The key is {SECRETS[1].encode().hex()}."),
                Agent("c", model=model, tools=[tool(nothing, description=f"Needs {SECRETS[3]}")]),
            )
        ):
            path = tmp_path / f"{number}.db"
            async with AgentRuntime.open(path, agents=[agent], secrets=SECRETS) as runtime:
                with pytest.raises(Rejected, match="registered secret") as caught:
                    await runtime.start_run(agent, "go")
                assert hits_in_texts([("error", "".join(traceback.format_exception(caught.value)))]) == []

    play(story())
    assert hits_in_files(tmp_path) == []


async def nothing() -> None:
    """Do nothing."""


@pytest.mark.promise("S1")
def test_two_calls_with_secret_ids_stay_two_calls(tmp_path: Path) -> None:
    """Masked, both would have one name, and one consent would do for both."""
    sent: list[str] = []

    @tool(mode="external")
    async def send(text: str) -> str:
        """Send it."""
        sent.append(text)
        return "sent"

    async def story() -> None:
        both = call("send", {"text": "one"}, call_id=SECRETS[0]) + call(
            "send", {"text": "two"}, call_id=SECRETS[20]
        )
        agent = Agent("a", model=ScriptedModel(by_history([both, say("ok")])), tools=[send])
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], secrets=SECRETS) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            first, second = await asked(handle)
            assert first.request_id != second.request_id
            await handle.answer(first.request_id, "approve")
            await handle.answer(second.request_id, "deny")
            assert await ended(handle) == "completed"

    play(story())
    assert sent == ["one"]
    assert hits_in_files(tmp_path) == []

"""Large messages: their secrets are masked outside of the event loop, and once."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from tests.client.rig import client_of, faking, frame, reply, stream
from tests.runtime.runtime_rig import play

from windlass import Agent, AgentRuntime, Change, HookCall, hook, tool
from windlass.agent import attachments
from windlass.agent.attachments import ESCAPES_MAX, check_parts
from windlass.client import feed, link
from windlass.engine.model_calls import model_call
from windlass.engine.writing import writer
from windlass.engine.writing.scribe import RedactingScribe
from windlass.limits import LIGHT_CHARS_MAX
from windlass.playground import Playground
from windlass.ports.journal import Batch
from windlass.ports.model import LLMMessage, LLMStreamChunk
from windlass.sqlite.store import SqliteStore
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.testing.models import Answer
from windlass.tools.calling import CONVERSIONS
from windlass.workflow import WorkflowContext, workflow
from windlass_harness import redact
from windlass_harness.record import Record
from windlass_harness.redact import Redactor
from windlass_harness.redact import text as stream_text
from windlass_harness.redact.text import MaskedStream
from windlass_protocol import FilePart, ImagePart, JsonObject, RunRequest, UserMessage

URL = "https://ann:hunter22@example.com/a?token=abcdef123 "
LARGE = URL * (2 * LIGHT_CHARS_MAX // len(URL))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each large text that is searched for secrets: whether the event loop waited for it."""
    found = list[bool]()
    before = redact.mask_shapes

    def mask_shapes(text: str) -> str:
        if len(text) > LIGHT_CHARS_MAX:
            found.append(threading.current_thread() is threading.main_thread())
        return before(text)

    monkeypatch.setattr(redact, "mask_shapes", mask_shapes)
    return found


def test_a_large_message_is_masked_once_and_not_on_the_event_loop(searched: list[bool]) -> None:
    async def story() -> None:
        agent = Agent("a", model=ScriptedModel(lambda _: say("done")))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, LARGE)
            assert (await handle.wait()).output == "done"
            [message] = [event async for event in handle.events() if event.type == "message.received"]
            text = str(message.data)
            assert "hunter22" not in text
            assert "abcdef123" not in text

    play(story())
    assert searched == [False]


def test_a_large_event_is_not_masked_on_the_event_loop(searched: list[bool]) -> None:
    @workflow
    async def order(ctx: WorkflowContext, _: None) -> str:
        return await ctx.wait_for("paid", str) or ""

    async def story() -> None:
        async with AgentRuntime.in_memory([order]) as runtime:
            handle = await runtime.start_run(order, None)
            await handle.send("paid", LARGE)
            assert "hunter22" not in str((await handle.wait()).output)

    play(story())
    assert searched
    assert not any(searched)


def test_large_instructions_and_messages_of_a_playground_run_are_not_masked_on_the_event_loop(
    searched: list[bool],
) -> None:
    async def story() -> None:
        agent = Agent("a", model=ScriptedModel(lambda _: say("done")))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Go.")
            await handle.wait()
            again = await Playground(runtime).run(
                handle.run_id, 0, instructions=LARGE, messages=[UserMessage(content=f"Read {LARGE}")]
            )
            await again.wait()

    play(story())
    assert searched
    assert not any(searched)


def test_a_result_that_the_model_sees_in_part_is_masked_once(searched: list[bool]) -> None:
    @tool(mode="read")
    async def read() -> str:
        """Read a large file."""
        return LARGE

    async def story() -> None:
        model = ScriptedModel(by_history([call("read", {}), say("done")]))
        agent = Agent("a", model=model, tools=[read])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Go.")
            await handle.wait()
            [event] = [event async for event in handle.events() if event.type == "action.result"]
            text = str(event.data)
            assert "characters left out; all of it is in the content store" in text
            assert "hunter22" not in text
            assert "abcdef123" not in text

    play(story())
    assert searched == [False]


def test_a_long_history_is_read_and_converted_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(mode="read")
    async def read(page: int) -> str:
        """Read a page."""
        return f"page {page}"

    async def ask(script: list[Answer]) -> list[LLMMessage]:
        model = ScriptedModel(script)
        agent = Agent("a", model=model, tools=[read])
        async with AgentRuntime.open(tmp_path / "s.db", agents=[agent], durability="process") as runtime:
            await (await runtime.start_run(agent, "Go on.", session_id="s1")).wait()
        return [*model.requests[-1].messages]

    async def story() -> None:
        pages = [call("read", {"page": page}) for page in range(5)]
        before = await ask([*pages, say("done")])
        monkeypatch.setattr(writer, "RECORDS_IN_A_ROW", 4)
        monkeypatch.setattr(model_call, "MESSAGES_IN_A_ROW", 4)
        after = await ask([say("done")])
        assert [*map(repr, after[: len(before)])] == [*map(repr, before)]
        assert [message.content for message in after[:-2] if message.role == "tool"] == [
            f"page {page}" for page in range(5)
        ]

    play(story())


PROGRAM = f"await echo(('pass' + 'word=hunter22 ') * {LIGHT_CHARS_MAX // 8})"
MANY = [URL] * 3_000
"""Small texts that are large together."""


@pytest.mark.parametrize("answer", [say(LARGE), call("echo", {"text": [*MANY]}), call(LARGE, {})])
def test_an_answer_of_a_model_is_searched_in_a_thread_or_in_pieces(
    answer: Answer, searched: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(mode="read")
    async def echo(text: list[str]) -> int:
        """Echo."""
        return len(text)

    masks: list[bool] = []
    before = Redactor.text

    def mask(self: Redactor, text: str) -> str:
        masks.append(text == URL and threading.current_thread() is threading.main_thread())
        return before(self, text)

    def mask_part(text: str) -> str:
        assert len(text) <= 2 * LIGHT_CHARS_MAX
        return shapes(text)

    shapes = stream_text.mask_shapes
    monkeypatch.setattr(Redactor, "text", mask)
    monkeypatch.setattr(stream_text, "mask_shapes", mask_part)

    async def story() -> None:
        agent = Agent("a", model=ScriptedModel(by_history([answer, say("done")])), tools=[echo])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Go.")
            await handle.wait()
            events = [event async for event in handle.events()]
            assert "hunter22" not in "".join(str(event.data) for event in events)

    play(story())
    assert True not in searched
    assert sum(masks) < LIGHT_CHARS_MAX // len(URL)


def test_arguments_of_a_program_are_masked_in_a_thread(searched: list[bool]) -> None:
    @tool(mode="read")
    async def echo(text: str) -> str:
        """Echo."""
        return text[:1]

    async def story() -> None:
        model = ScriptedModel([call("run_code", {"code": PROGRAM}), say("done")])
        agent = Agent("a", model=model, tools=[echo], code_mode=True)
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, "Go.")).wait()

    play(story())
    assert searched
    assert True not in searched


def test_a_message_of_another_process_is_inspected_outside_of_the_event_loop(
    searched: list[bool], tmp_path: Path
) -> None:
    @tool(approval="always", mode="external", effect="idempotent")
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent("a", model=ScriptedModel(by_history([call("pay", {}), say("done")])), tools=[pay])

    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "s.db", agents=[agent], durability="process") as first:
            handle = await first.start_run(agent, "Go.", session_id="s1", run_id="r1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    break
            # It waits behind the run that waits for a person.
            await first.start_run(agent, LARGE, session_id="s1", run_id="r2")
        assert searched == [False]
        async with AgentRuntime.open(tmp_path / "s.db", agents=[agent], durability="process") as second:
            handle = second.handle("r1")
            [request] = await handle.open_requests()
            await handle.answer(request.request_id, "deny")
            async for event in second.handle("r2").events():
                if event.type == "step.started":
                    break

    play(story())
    assert len(searched) > 1
    assert not any(searched)


def test_values_of_one_runtime_are_masked_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        scribe = RedactingScribe()
        begun, go = threading.Event(), threading.Event()
        before, values = redact.mask_shapes, list[str]()

        def mask_shapes(text: str) -> str:
            if len(text) <= LIGHT_CHARS_MAX:
                return before(text)  # the names of the fields
            values.append(text[:1])
            begun.set()
            assert go.wait(300)
            return before(text)

        monkeypatch.setattr(redact, "mask_shapes", mask_shapes)
        tasks = [asyncio.create_task(scribe.mask_body({"text": name + LARGE})) for name in "ab"]
        await asyncio.to_thread(begun.wait, 300)
        # The event loop goes on meanwhile, and a small value does not wait for the large ones.
        assert values == ["a"]
        small: JsonObject = {"text": "nothing to mask"}
        assert await scribe.mask_body(small) is small
        go.set()
        assert all("hunter22" not in str(masked) for masked in await asyncio.gather(*tasks))
        assert values == ["a", "b"]

    asyncio.run(main())


def test_a_message_that_was_masked_does_not_wait_for_others_when_it_is_taken() -> None:
    async def main() -> None:
        scribe = RedactingScribe()
        masked = await scribe.mask_body({"text": LARGE})
        # Read back, it has the same content. The first step ends it, so it waited for nothing.
        again: JsonObject = {"text": "".join(str(masked["text"]))}
        with pytest.raises(StopIteration):
            scribe.mask_body(again).send(None)

    asyncio.run(main())


def test_a_large_message_is_encoded_outside_of_the_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        store = await SqliteStore.open(tmp_path / "s.db", durability="process")
        posting = asyncio.create_task(store.post("s1", kind="start", key="k1", body={"message": LARGE}))
        await asyncio.sleep(0)
        assert CONVERSIONS.count == 1
        await posting
        await store.enlist("o1", now_ms=1)
        claim = await store.claim("s1", "o1", now_ms=1)
        draft = Record("message.received", "2026-11-15T12:00:00.000Z", {"message": LARGE})
        appending = asyncio.create_task(store.append(Batch(claim, 0, (draft,))))
        await asyncio.sleep(0)
        assert CONVERSIONS.count == 1
        await appending
        [record] = await store.read("s1")
        assert record.data == draft.data
        # A small one is encoded at once.
        small = replace(draft, data={"message": "hello"})
        appending = asyncio.create_task(store.append(Batch(claim, 1, (small,))))
        await asyncio.sleep(0)
        assert CONVERSIONS.count == 0
        await appending
        await store.aclose()

    asyncio.run(main())


def test_a_text_is_not_checked_character_by_character_for_attachments() -> None:
    class Text(str):
        def __iter__(self) -> None:  # type: ignore[override] - it must not be called
            raise AssertionError("a text has no parts")

    request = RunRequest.model_construct(run_id="r1", agent_id="a", input=Text("hello"))
    check_parts(request)


@pytest.mark.parametrize("is_large", [False, True])
def test_large_attachments_are_decoded_outside_of_the_event_loop(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_loop: list[bool] = []
    before = attachments.read_place

    def read_place(place: str) -> object:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return before(place)

    async def story() -> None:
        agent = Agent("a", model=ScriptedModel(lambda _: say("done")))
        data = "data:text/plain," + "x" * (LIGHT_CHARS_MAX if is_large else 100)
        async with AgentRuntime.in_memory([agent]) as runtime:
            monkeypatch.setattr(attachments, "read_place", read_place)
            handle = await runtime.start_run(
                agent, (FilePart(data=data, media_type="text/plain"), ImagePart(image="https://a.example/b"))
            )
            await handle.wait()

    play(story())
    assert on_loop == [not is_large] * 2


def test_a_data_url_has_limits_of_escapes_and_of_its_head() -> None:
    most = "data:text/plain," + "%41" * ESCAPES_MAX
    assert attachments.read_place(most) == attachments.Inline("text/plain", b"A" * ESCAPES_MAX)
    wrong = attachments.read_place(f"{most}%41")
    assert isinstance(wrong, attachments.Unreadable)
    assert "100,001 escapes, limit 100,000: use base64" in wrong.problem
    assert isinstance(attachments.read_place("data:x" + ";a=b" * 16 + ";base64,QQ=="), attachments.Unreadable)
    plain = attachments.Inline("x", b"A")
    assert attachments.read_place("data:x" + ";a=b" * 15 + ";base64,QQ%3D%3D") == plain


def test_large_answers_and_events_of_a_server_are_read_outside_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_loop: dict[str, bool] = {}

    def noted(module: ModuleType) -> None:
        before: Callable[..., object] = module.decode

        def decode(kind: type, *given: object, **options: object) -> object:
            on_loop[kind.__name__] = threading.current_thread() is threading.main_thread()
            return before(kind, *given, **options)

        monkeypatch.setattr(module, "decode", decode)

    large = "x" * LIGHT_CHARS_MAX
    event = json.loads(frame(1).partition("data: ")[2].partition("\n")[0])
    event["data"] = {"text": large}

    async def story() -> None:
        noted(link)
        noted(feed)
        lines = f"id: 1\nevent: {event['type']}\ndata: {json.dumps(event)}\n\n"
        health = {"status": "ok", "version": "0.1.0", "later": large}
        async with faking(reply(200, health), stream(lines)) as fake, client_of(fake.port) as client:
            assert (await client.server.health()).status == "ok"
            async with client.events(session_id="s1", follow=False) as events:
                assert [one.data async for one in events] == [{"text": large}]

    play(story())
    assert on_loop == {"Health": False, "Event": False}


def test_a_large_piece_of_an_answer_is_masked_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[int] = []
    text, reasoning = "password=hunter2 " * 20_000, "Hm. " * 20_000

    class Sudden:
        async def stream(self, *_: object, **__: object) -> AsyncIterator[LLMStreamChunk]:
            yield LLMStreamChunk(content_delta=text, reasoning_delta=reasoning)
            yield LLMStreamChunk(finish_reason="stop")

    feed = MaskedStream.feed

    def noted(self: MaskedStream, delta: str) -> str:
        fed.append(len(delta))
        return feed(self, delta)

    monkeypatch.setattr(MaskedStream, "feed", noted)

    async def story() -> tuple[str | None, list[str]]:
        agent = Agent("a", model=Sudden())
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            result = await handle.wait()
            thoughts = [e.data async for e in handle.events() if e.type == "reasoning.completed"]
            return result.output, [str(data["reasoning"]) for data in thoughts]

    assert play(story()) == ("password=[redacted] " * 20_000, [reasoning])
    assert max(fed) == LIGHT_CHARS_MAX
    assert sum(fed) == len(text) + len(reasoning)


SECRET = "ghp_" + "a1B2c3D4e5" * 4
MARK = "the only row of the ledger"


def test_a_structured_result_is_searched_for_secrets_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[bool] = []
    is_clean = Redactor.is_clean

    def count_search(self: Redactor, value: object, *limits: float) -> bool:
        if MARK in str(value):
            searches.append(is_clean(self, value, *limits))
        return is_clean(self, value, *limits)

    @tool(mode="read")
    async def rows() -> list[dict[str, str]]:
        """Return the rows."""
        return [{"row": MARK}]

    async def story() -> None:
        agent = Agent("a", model=ScriptedModel([call("rows"), say("done")]), tools=[rows])
        async with AgentRuntime.in_memory([agent]) as runtime:
            monkeypatch.setattr(Redactor, "is_clean", count_search)
            await (await runtime.start_run(agent, "go")).wait()
            monkeypatch.undo()

    play(story())
    assert searches == [True], "and its record is not searched again"


def test_a_text_result_with_the_beginning_of_a_secret_is_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[str] = []
    is_clean, mask_shapes = Redactor.is_clean, redact.mask_shapes
    source = f"token: {MARK}"

    def count_search(self: Redactor, value: object, *limits: float) -> bool:
        if value == source:
            searches.append("is_clean")
        return is_clean(self, value, *limits)

    def mask(text: str) -> str:
        if text == source:
            searches.append("mask_shapes")
        return mask_shapes(text)

    @tool(mode="read")
    async def read() -> str:
        """Return the source."""
        return source

    async def story() -> None:
        agent = Agent("a", model=ScriptedModel([call("read"), say("done")]), tools=[read])
        async with AgentRuntime.in_memory([agent]) as runtime:
            monkeypatch.setattr(Redactor, "is_clean", count_search)
            monkeypatch.setattr(redact, "mask_shapes", mask)
            await (await runtime.start_run(agent, "go")).wait()
            monkeypatch.undo()

    play(story())
    assert searches == ["mask_shapes"]


def test_a_structured_result_that_a_hook_changed_is_masked_again() -> None:
    @hook("after_tool_call", right="mutate")
    async def leak(seen: HookCall) -> Change:
        """Put a secret where there was none."""
        return Change(result=[{"row": SECRET}])

    @tool(mode="read")
    async def rows() -> list[dict[str, str]]:
        """Return the rows."""
        return [{"row": MARK}]

    async def story() -> list[object]:
        model = ScriptedModel([call("rows"), say("done")])
        agent = Agent("a", model=model, tools=[rows], hooks=[leak])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            return [event.data async for event in handle.events() if event.type == "action.result"]

    (data,) = play(story())
    assert SECRET not in str(data)
    assert "[redacted" in str(data)

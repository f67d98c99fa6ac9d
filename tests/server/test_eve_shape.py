"""The eve shape of feeds: the server sends the recorded streams of eve, and clients resume by number."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from tests.server.rig import FAST, Frame, Json, Server, Wire, ended, run, serving, waiting, watch
from tests.server.test_feeds import slow
from tests.steps.recorded import QUESTION, Recorded, Step, meanings, pieces, recorded
from tests.steps.steps_rig import add, guarded

from windlass import Agent
from windlass.errors import Unavailable
from windlass.ports.model import LLMStreamChunk
from windlass.tools.question import ask_question
from windlass_protocol import ErrorKind, FinishReason, JsonObject, RetryClass
from windlass_server import Settings

SCHEMA: Json = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}


def agent(*steps: Step, child: Sequence[Step] = ()) -> Agent:
    """An agent that gives the recorded answers; its subagent has the same name as the recorded tool."""
    helpers = [Agent("agent", model=Recorded(*child), description="Does a part.")] if child else []
    return Agent(
        "app13",
        model=Recorded(*steps),
        tools=[add, guarded, ask_question],
        subagents=helpers,
    )


async def lines(server: Server, session_id: str, *, start: int = 0) -> list[Json]:
    """Return the lines of a session so far, from a number on."""
    path = f"/sessions/{session_id}/events?shape=eve&follow=false&startIndex={start}"
    wire = await Wire.get(server.port, path)
    assert wire.headers["content-type"] == "application/x-ndjson"
    assert wire.headers["x-eve-stream-version"] == "16"
    found = [line async for line in wire.lines()]
    assert all(set(line) == {"type", "data", "meta"} for line in found)
    return found


def shown(found: Sequence[Json]) -> list[tuple[str, JsonObject]]:
    """Return the events without pieces; the pieces of a message make its text, each to a cut."""
    text = ""
    for one in found:
        data = one["data"]
        if one["type"] == "message.appended":
            text = data["messageSoFar"] if not data["messageDelta"] else text + data["messageDelta"]
            assert data["messageSoFar"] == text
        elif one["type"] == "message.completed":
            assert text == (data["message"] or "")
            text = ""
    return [(one["type"], one["data"]) for one in found if one["type"] != "message.appended"]


def expected(*names: str) -> list[tuple[str, JsonObject]]:
    return [one for name in names for one in recorded(name) if one[0] != "message.appended"]


def types(found: Sequence[Json]) -> list[str]:
    return [kind for kind, _ in shown(found)]


async def begin(client: httpx2.AsyncClient, message: str, **wishes: Any) -> Json:
    begun: Json = (await client.post("/sessions", json={"message": message, **wishes})).json()
    return begun


async def answer(client: httpx2.AsyncClient, begun: Json, option: str) -> None:
    [request] = (await waiting(client, begun["runId"]))["requests"]
    response = {"requestId": request["requestId"], "optionId": option}
    said = await client.post(f"/sessions/{begun['sessionId']}/messages", json={"responses": [response]})
    assert said.is_success
    await ended(client, begun["runId"])


@pytest.mark.parametrize(
    ("name", "message", "steps", "mode"),
    [
        ("echo", "ECHO hi", (pieces("echo"),), "conversation"),
        (
            "two_tools",
            "TOOLS 2",
            (("add", {"a": 0, "b": 1}), ("add", {"a": 1, "b": 1}), pieces("two_tools")),
            "conversation",
        ),
        ("subagent_child", "ECHO child", (pieces("subagent_child"),), "task"),
    ],
)
def test_a_session_without_waits(
    tmp_path: Path, name: str, message: str, steps: Sequence[Step], mode: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path, [agent(*steps)]) as server, server.client() as client:
            begun = await begin(client, message, mode=mode)
            await ended(client, begun["runId"])
            found = shown(await lines(server, begun["sessionId"]))
            assert meanings(found) == meanings(expected(name))
            runtime = cast(JsonObject, found[0][1]["runtime"])
            assert runtime["eveVersion"] == "0.13.8"
            assert {"agentId", "agentName", "modelId"} <= runtime.keys()

    run(main())


@pytest.mark.parametrize(("option", "name"), [("approve", "approval_given"), ("deny", "approval_denied")])
def test_an_approval_ends_the_turn_and_its_answer_begins_another(
    tmp_path: Path, option: str, name: str
) -> None:
    async def main() -> None:
        steps: list[Step] = [("guarded", {"x": 1}), pieces(name)]
        async with serving(tmp_path, [agent(*steps)]) as server, server.client() as client:
            begun = await begin(client, "APPROVE it")
            await waiting(client, begun["runId"])
            asked = await lines(server, begun["sessionId"])
            assert meanings(shown(asked)) == meanings(expected("approval_asked"))
            await answer(client, begun, option)
            rest = await lines(server, begun["sessionId"], start=len(asked))
            assert meanings(shown(rest)) == meanings(expected(name))

    run(main())


def test_an_approval_that_a_message_passes_over(tmp_path: Path) -> None:
    async def main() -> None:
        steps: list[Step] = [("guarded", {"x": 1}), ["Well."]]
        async with serving(tmp_path, [agent(*steps)]) as server, server.client() as client:
            begun = await begin(client, "APPROVE it")
            await waiting(client, begun["runId"])
            asked = await lines(server, begun["sessionId"])
            body = {"message": "Something else.", "delivery": "steer"}
            await client.post(f"/sessions/{begun['sessionId']}/messages", json=body)
            await ended(client, begun["runId"])
            rest = await lines(server, begun["sessionId"], start=len(asked))
            assert types(rest) == [
                "action.result",
                "turn.started",
                "message.received",
                "step.started",
                "message.completed",
                "step.completed",
                "turn.completed",
                "session.waiting",
            ]
            assert rest[0]["data"]["turnId"] == "turn_0"
            assert rest[0]["data"]["status"] == "rejected"
            assert rest[0]["data"]["error"]["code"] == "TOOL_EXECUTION_DENIED"
            assert rest[2]["data"]["turnId"] == "turn_1"

    run(main())


def test_a_question_and_its_answer(tmp_path: Path) -> None:
    async def main() -> None:
        steps: list[Step] = [("ask_question", QUESTION), ["Blue."]]
        async with serving(tmp_path, [agent(*steps)]) as server, server.client() as client:
            begun = await begin(client, "ASK me")
            await waiting(client, begun["runId"])
            asked = await lines(server, begun["sessionId"])
            assert meanings(shown(asked)) == meanings(expected("question_asked"))
            await answer(client, begun, "blue")
            rest = await lines(server, begun["sessionId"], start=len(asked))
            assert types(rest) == [
                "turn.started",
                "step.started",
                "message.completed",
                "step.completed",
                "turn.completed",
                "session.waiting",
            ]
            assert rest[1]["data"]["turnId"] == "turn_1"
            assert rest[1]["data"]["stepIndex"] == 0

    run(main())


def test_a_subagent(tmp_path: Path) -> None:
    async def main() -> None:
        child = [pieces("subagent_child")]
        steps: list[Step] = [("agent", {"message": "ECHO child"}), pieces("subagent")]
        async with serving(tmp_path, [agent(*steps, child=child)]) as server, server.client() as client:
            begun = await begin(client, "SUB delegate")
            await ended(client, begun["runId"])
            found = await lines(server, begun["sessionId"])
            assert types(found) == [kind for kind, _ in expected("subagent")]
            assert [one["data"].get("stepIndex") for one in found if one["type"] == "step.started"] == [0, 0]
            called = next(one["data"] for one in found if one["type"] == "subagent.called")
            theirs = shown(await lines(server, called["childSessionId"]))
            assert [kind for kind, _ in theirs] == [kind for kind, _ in expected("subagent_child")]

    run(main())


def test_a_task_with_an_output(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [agent(['{"answer": 42}'])]) as server, server.client() as client:
            begun = await begin(client, "SCHEMA", mode="task", outputSchema=SCHEMA)
            await ended(client, begun["runId"])
            found = shown(await lines(server, begun["sessionId"]))
            # Here the output is the text of the answer, there it is the input of a call that is not shown.
            told = [one for one in found if one[0] != "message.completed"]
            assert [kind for kind, _ in told] == [kind for kind, _ in expected("task_output")]
            assert meanings(told)[5:] == meanings(expected("task_output"))[5:]

    run(main())


@pytest.mark.parametrize(
    ("mode", "end"), [("task", ["session.failed"]), ("conversation", ["session.waiting"])]
)
def test_an_output_that_does_not_fit(tmp_path: Path, mode: str, end: list[str]) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [agent(["No."], ["Never."], ["Not."])]) as server,
            server.client() as client,
        ):
            begun = await begin(client, "SCHEMA", mode=mode, outputSchema=SCHEMA)
            await ended(client, begun["runId"])
            found = await lines(server, begun["sessionId"])
            step = ["step.started", "message.completed", "step.completed"]
            assert types(found)[3:] == [*step, *step, *step, "step.failed", "turn.failed", *end]
            codes = {one["data"]["code"] for one in found if one["type"] in ("step.failed", "turn.failed")}
            assert codes == {"OUTPUT_SCHEMA_NOT_FULFILLED"}

    run(main())


@pytest.mark.parametrize(
    ("mode", "end"), [("task", ["session.failed"]), ("conversation", ["session.waiting"])]
)
def test_without_repairs_an_output_that_does_not_fit_ends_the_turn_as_in_eve(
    tmp_path: Path, mode: str, end: list[str]
) -> None:
    async def main() -> None:
        settings = Settings(limits=replace(FAST, output_repairs_max=0))
        agents = [agent(["No."])]
        async with serving(tmp_path, agents, settings=settings) as server, server.client() as client:
            begun = await begin(client, "SCHEMA", mode=mode, outputSchema=SCHEMA)
            await ended(client, begun["runId"])
            found = await lines(server, begun["sessionId"])
            step = ["step.started", "message.completed", "step.completed", "step.failed"]
            assert types(found) == [
                *("session.started", "turn.started", "message.received"),
                *step,
                "turn.failed",
                *end,
            ]
            failures = [one["data"] for one in found if one["type"].endswith(".failed")]
            assert {one["code"] for one in failures} == {"OUTPUT_SCHEMA_NOT_FULFILLED"}

    run(main())


def test_an_output_that_fits_in_a_conversation(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [agent(['{"answer": 42}'])]) as server, server.client() as client:
            begun = await begin(client, "SCHEMA", outputSchema=SCHEMA)
            await ended(client, begun["runId"])
            found = await lines(server, begun["sessionId"])
            assert types(found)[-3:] == ["result.completed", "turn.completed", "session.waiting"]

    run(main())


def test_every_number_resumes_both_formats_at_that_event(tmp_path: Path) -> None:
    async def main() -> None:
        steps: list[Step] = [("add", {"a": 0, "b": 1}), pieces("two_tools")]
        async with serving(tmp_path, [agent(*steps)]) as server, server.client() as client:
            begun = await begin(client, "TOOLS")
            await ended(client, begun["runId"])
            whole = await lines(server, begun["sessionId"])
            path = f"/sessions/{begun['sessionId']}/events?shape=eve&format=sse&follow=false"
            frames = [frame for frame in await watch(server.port, path) if frame.data]
            assert [frame.json for frame in frames] == whole
            assert [frame.id for frame in frames] == [str(at) for at in range(len(whole))]
            for at in range(len(whole) + 1):
                assert await lines(server, begun["sessionId"], start=at) == whole[at:]
                first = await watch(server.port, f"{path}&startIndex={at}")
                assert [frame.json for frame in first if frame.data] == whole[at:]
            # A browser that reconnects sends the query of its first request, and the last event id.
            rest = await watch(server.port, f"{path}&startIndex=1", last_event_id="4")
            assert [frame.json for frame in rest if frame.data] == whole[5:]

    run(main())


def test_a_client_that_waits_for_the_boundary_reads_turn_after_turn(tmp_path: Path) -> None:
    """As the client of eve: read lines up to `session.waiting`, count them, and go on there."""

    async def main() -> None:
        steps: list[Step] = [("guarded", {"x": 1}), ["Done."], ["Again."]]
        async with serving(tmp_path, [agent(*steps)]) as server, server.client() as client:
            begun = await begin(client, "APPROVE it")
            counted = 0

            async def turn() -> list[str]:
                nonlocal counted
                path = f"/sessions/{begun['sessionId']}/events?shape=eve&startIndex={counted}"
                wire, found = await Wire.get(server.port, path), list[str]()
                async for line in wire.lines():
                    counted += 1
                    found.append(line["type"])
                    if line["type"] == "session.waiting":
                        break
                wire.cut()
                return found

            assert (await turn())[-3:] == ["input.requested", "turn.completed", "session.waiting"]
            reading = asyncio.create_task(turn())
            await answer(client, begun, "approve")
            assert (await reading)[:3] == ["turn.started", "step.started", "action.result"]
            reading = asyncio.create_task(turn())
            await client.post(f"/sessions/{begun['sessionId']}/messages", json={"message": "And again."})
            assert (await reading)[:3] == ["turn.started", "message.received", "step.started"]
            assert types(await lines(server, begun["sessionId"]))[-1] == "session.waiting"
            assert len(await lines(server, begun["sessionId"])) == counted

    run(main())


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/runs/{runId}/events?shape=eve", 422, "for sessions"),
        ("/runs/{runId}/events?startIndex=1", 422, "only with shape=eve"),
        ("/sessions/{sessionId}/events?startIndex=1", 422, "only with shape=eve"),
        ("/sessions/{sessionId}/events?shape=eve&after=x", 422, "not with shape=eve"),
        ("/sessions/{sessionId}/events?shape=eve&startIndex=-1", 422, "startIndex"),
    ],
)
def test_a_place_that_the_shape_does_not_have_is_refused(
    tmp_path: Path, path: str, status: int, words: str
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as server, server.client() as client:
            begun = await begin(client, "Hello.")
            await ended(client, begun["runId"])
            refused = await client.get(path.format(**begun))
            assert refused.status_code == status
            assert words in refused.text
            headers = {"last-event-id": "s.x.1"}
            path_of_eve = f"/sessions/{begun['sessionId']}/events?shape=eve"
            assert (await client.get(path_of_eve, headers=headers)).status_code == 400

    run(main())


def test_server_sent_events_have_live_deltas_and_the_text_once(tmp_path: Path) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        async with serving(tmp_path, [slow(gate)]) as server, server.client() as client:
            begun = await begin(client, "Hello.")
            path = f"/sessions/{begun['sessionId']}/events?shape=eve"
            wire = await Wire.get(server.port, path, accept="text/event-stream")
            frames: list[Frame] = []
            async for frame in wire.frames():
                if frame.data:
                    frames.append(frame)
                    if frame.type == "message.appended":
                        gate.set()
                    if frame.type == "session.waiting":
                        break
            wire.cut()
            deltas = [frame for frame in frames if frame.type == "message.appended"]
            assert "".join(frame.json["data"]["messageDelta"] for frame in deltas) == "One two three."
            assert deltas[-1].json["data"]["messageSoFar"] == "One two three."
            numbered = {frame.id: frame.json for frame in frames if frame.id}
            whole = await lines(server, begun["sessionId"])
            # A text that came as live deltas is not repeated, and keeps its number.
            expected_ids = [str(at) for at, one in enumerate(whole) if one["type"] != "message.appended"]
            found = [name for name in numbered if numbered[name]["type"] != "message.appended"]
            assert found == expected_ids
            assert all(numbered[name] == whole[int(name)] for name in numbered)

    run(main())


TEXT = (
    "One two three four five, once I caught a fish alive; six seven eight nine ten, then I let it go again."
)


async def read_turn(server: Server, session_id: str, *, start: int = 0, gate: asyncio.Event) -> list[Json]:
    """Return the lines of a turn; open a gate once the first piece of text was read."""
    wire = await Wire.get(server.port, f"/sessions/{session_id}/events?shape=eve&startIndex={start}")
    found: list[Json] = []
    async for line in wire.lines():
        found.append(line)
        if line["type"] == "message.appended":
            gate.set()
        if line["type"] in ("session.waiting", "session.failed"):
            break
    wire.cut()
    return found


class Halting:
    """A model that stops in the middle of its text until a gate is open; then it may fail once."""

    def __init__(
        self, gate: asyncio.Event, *, texts: Sequence[str], thought: str = "", thinks_at: int = 0
    ) -> None:
        self._gate = gate
        self._texts = list(texts)
        self._thought = thought
        self._thinks_at = thinks_at
        """The place in the text at which it thinks."""

    async def stream(
        self, messages: Sequence[Any], *, tools: Any = None, temperature: float | None = None
    ) -> AsyncIterator[LLMStreamChunk]:
        text = self._texts.pop(0)
        for at in range(0, len(text), 7):
            if self._thought and at <= self._thinks_at < at + 7:
                yield LLMStreamChunk(reasoning_delta=self._thought)
            yield LLMStreamChunk(content_delta=text[at : at + 7])
            if at > len(text) // 2:
                await self._gate.wait()
        if self._texts:
            raise Unavailable("cut off", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
        yield LLMStreamChunk(finish_reason=FinishReason.STOP)


@pytest.mark.parametrize(
    ("texts", "thought", "thinks_at"),
    [
        ((TEXT,), "", 0),
        ((TEXT,), "I think.", 0),
        ((TEXT,), "I think. ", 0),
        ((TEXT,), "I think. ", 10),
        ((TEXT,), "I think. ", 40),
        ((TEXT,), "I think.", 90),
        ((TEXT, "Short."), "", 0),
        ((TEXT, TEXT[::-1]), "I think.", 0),
        ((TEXT, TEXT[::-1]), "I think. ", 40),
    ],
)
def test_lines_have_live_text_and_the_numbers_of_the_stored_session(
    tmp_path: Path, texts: Sequence[str], thought: str, thinks_at: int
) -> None:
    async def main() -> None:
        gate = asyncio.Event()
        model = Halting(gate, texts=texts, thought=thought, thinks_at=thinks_at)
        halting = Agent("halting", model=model)
        async with serving(tmp_path, [halting]) as server, server.client() as client:
            begun = await begin(client, "Sing.")
            # It ends only if a piece is sent before the answer is complete.
            live = await read_turn(server, begun["sessionId"], gate=gate)
            whole = await lines(server, begun["sessionId"])
            numbered = [(at, one) for at, one in enumerate(whole) if not one["type"].endswith(".appended")]
            assert [
                (at, one) for at, one in enumerate(live) if not one["type"].endswith(".appended")
            ] == numbered
            assert shown(live)[-1] == shown(whole)[-1]
            if len(texts) == 1:
                assert [one["type"] for one in live] == [one["type"] for one in whole]
                # The piece of the reasoning is as long as what was shown when the text began.
                for one, later in zip(live, whole, strict=True):
                    assert one["type"] == "reasoning.appended" or one["data"] == later["data"]
            for at in range(len(whole) + 1):
                assert await lines(server, begun["sessionId"], start=at) == whole[at:]

    run(main())

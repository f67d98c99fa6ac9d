"""A2A: the official client talks to agents of the server, and completes a task that waits for a person."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import a2a_pb2 as wire
from a2a.utils import proto_utils
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    UnsupportedOperationError,
)
from tests.client.test_remote import stuck
from tests.server.keyring import Keyring
from tests.server.rig import FAST, TIMEOUT_S, Json, Server, look, payer, run, serving, talker

from windlass import Agent, AgentRuntime, LLMMessage, LLMStreamChunk, tool
from windlass.client import Client as RestClient
from windlass.client import RemoteAgent, a2a
from windlass.client.remote import Report
from windlass.testing import ScriptedModel, by_history, call, say
from windlass_protocol import JsonObject
from windlass_server import Settings
from windlass_server.chat import a2a as chat_a2a


@asynccontextmanager
async def connected(
    server: Server, agent: str, key: str | None = None, *, streaming: bool = True
) -> AsyncGenerator[Client]:
    """The official client, made from the card of an agent."""
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False) as http:
        factory = ClientFactory(ClientConfig(streaming=streaming, httpx_client=http))
        yield await factory.create_from_url(f"http://127.0.0.1:{server.port}/v1/a2a/{agent}")


def said(text: str, message_id: str, *, task_id: str = "", context_id: str = "") -> wire.SendMessageRequest:
    message = wire.Message(message_id=message_id, role="ROLE_USER", parts=[wire.Part(text=text)])
    message.task_id, message.context_id = task_id, context_id
    return wire.SendMessageRequest(message=message)


async def states(client: Client, request: wire.SendMessageRequest) -> tuple[list[str], wire.Task]:
    """Send a message; return the states that its task went through, and the task at the end."""
    found: list[str] = []
    task_id = ""
    async for event in client.send_message(request):
        kind = event.WhichOneof("payload")
        if kind in ("task", "status_update"):
            one = event.task if kind == "task" else event.status_update
            task_id = task_id or (event.task.id if kind == "task" else event.status_update.task_id)
            found.append(wire.TaskState.Name(one.status.state).removeprefix("TASK_STATE_"))
    return found, await client.get_task(wire.GetTaskRequest(id=task_id))


@pytest.mark.parametrize("streaming", [True, False])
def test_the_official_client_completes_a_task_that_waits_for_a_person(
    tmp_path: Path, streaming: bool
) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, [payer()]) as server,
            connected(server, "payer", streaming=streaming) as one,
        ):
            went, task = await states(one, said("Pay.", "m1"))
            assert went[-1] == "INPUT_REQUIRED"
            asked = task.status.message
            assert "pay" in asked.parts[0].text
            assert asked.parts[1].data.struct_value["kind"] == "approval"
            # The same message again is the same task.
            again = await states(one, said("Pay.", "m1"))
            assert again[1].id == task.id
            went, done = await states(one, said("approve", "m2", task_id=task.id))
            assert went[-1] == "COMPLETED"
            assert "INPUT_REQUIRED" not in went
            assert done.artifacts[0].parts[0].text == "All done."
            # The context goes on with another task.
            went, other = await states(one, said("leave it", "m3", context_id=task.context_id))
            assert (went[-1], other.context_id) == ("COMPLETED", task.context_id)
            listed = await one.list_tasks(wire.ListTasksRequest())
            assert [item.id for item in listed.tasks] == [other.id, task.id]
            with pytest.raises(A2AError, match="has ended and waits for no answer"):
                await states(one, said("approve", "m4", task_id=task.id))

    run(main())


@pytest.mark.parametrize(("parts", "is_on_loop"), [(1, True), (1_000, False), (8_000, False)])
def test_a_large_request_is_checked_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int, is_on_loop: bool
) -> None:
    check, threads = proto_utils.validate_proto_required_fields, list[int]()

    def note(params: wire.SendMessageRequest) -> None:
        threads.append(threading.get_ident())
        check(params)

    monkeypatch.setattr(proto_utils, "validate_proto_required_fields", note)

    async def main() -> None:
        async with serving(tmp_path) as server, connected(server, "talker") as client:
            threads.clear()
            request = said("x" * 8, "m1")
            request.message.parts.extend([request.message.parts[0]] * (parts - 1))
            stream = aiter(client.send_message(request))
            assert (await anext(stream)).HasField("task")
            assert (threads[0] == threading.get_ident()) is is_on_loop

    run(main())


def test_the_sdk_is_imported_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, threads = chat_a2a.make_dispatcher, list[int]()

    def note() -> object:
        threads.append(threading.get_ident())
        return make()

    monkeypatch.setattr(chat_a2a, "make_dispatcher", note)

    async def main() -> None:
        async with serving(tmp_path) as server, connected(server, "talker") as client:
            went, _ = await states(client, said("Hi.", "m1"))
            assert went[-1] == "COMPLETED"
            assert len(threads) > 1
            assert threading.get_ident() not in threads

    run(main())


def test_the_requirements_of_the_conformance_suite_hold_where_the_sdk_does_not_check_them(
    tmp_path: Path,
) -> None:
    """The ids are those of a2a-tck."""

    async def main() -> None:
        async with (
            serving(tmp_path, [payer()]) as server,
            connected(server, "payer") as one,
            connected(server, "payer") as other,
        ):
            _, task = await states(one, said("Pay.", "m1"))
            # CORE-MULTI-006
            with pytest.raises(InvalidParamsError, match="not that of the task"):
                await states(one, said("approve", "m2", task_id=task.id, context_id="another"))
            # CORE-SEND-003, also beside a text
            raw = said("Pay.", "m3")
            raw.message.parts.add(raw=b"x", media_type="application/x-unknown")
            with pytest.raises(ContentTypeNotSupportedError):
                await states(one, raw)
            # STREAM-SUB-001, STREAM-SUB-002, STREAM-ORDER-003: all subscribers see the task to its end
            streams = [client.subscribe(wire.SubscribeToTaskRequest(id=task.id)) for client in (one, other)]
            for stream in streams:
                first = await anext(stream)
                assert wire.TaskState.Name(first.task.status.state) == "TASK_STATE_INPUT_REQUIRED"
            await states(one, said("approve", "m4", task_id=task.id))
            for stream in streams:
                seen = [event async for event in stream]
                last = seen[-1].status_update.status.state
                assert wire.TaskState.Name(last) == "TASK_STATE_COMPLETED"
            # CORE-SEND-002, STREAM-SUB-003
            with pytest.raises(UnsupportedOperationError, match="has ended and waits for no answer"):
                await states(one, said("approve", "m5", task_id=task.id))
            with pytest.raises(UnsupportedOperationError):
                await anext(one.subscribe(wire.SubscribeToTaskRequest(id=task.id)))
            # CORE-LIST-002 to CORE-LIST-005
            await states(one, said("leave it", "m6"))
            page = await one.list_tasks(wire.ListTasksRequest(page_size=1))
            rest = await one.list_tasks(wire.ListTasksRequest(page_size=1, page_token=page.next_page_token))
            tasks = [*page.tasks, *rest.tasks]
            assert (len(tasks), rest.next_page_token) == (2, "")
            assert not any(found.artifacts for found in tasks)
            times = [found.status.timestamp.ToJsonString() for found in tasks]
            assert times == sorted(times, reverse=True)
            whole = await one.list_tasks(wire.ListTasksRequest(include_artifacts=True))
            assert all(found.artifacts for found in whole.tasks)
            for wrong in ({"page_token": "no token"}, {"page_size": -1}, {"history_length": -1}):
                with pytest.raises(InvalidParamsError):
                    await one.list_tasks(wire.ListTasksRequest(**wrong))  # pyright: ignore[reportArgumentType]
            later = tasks[0].status.timestamp
            for wanted, count in (
                (wire.ListTasksRequest(status="TASK_STATE_COMPLETED"), 2),
                (wire.ListTasksRequest(status="TASK_STATE_FAILED"), 0),
                (wire.ListTasksRequest(status_timestamp_after=later), 1),
            ):
                assert len((await one.list_tasks(wanted)).tasks) == count
            # CORE-ERR-002: a message without an id would be the same message as any other without one
            with pytest.raises(InvalidParamsError):
                await states(one, said("Pay.", ""))
            async with server.client() as http:
                # CARD-CACHE-001, CARD-CACHE-002
                card = await http.get("/a2a/payer/.well-known/agent-card.json")
                assert "max-age=" in card.headers["cache-control"]
                assert card.headers["etag"]
                # VER-SERVER-002, VER-SERVER-003, JSONRPC-ERR-001
                asked: Json = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task.id}}
                for version in ("99.0", ""):
                    found = await http.post("/a2a/payer", json=asked, headers={"a2a-version": version})
                    assert found.json()["error"]["code"] == -32009
                # CORE-CAP-003; the client would not ask
                more: Json = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", "params": {}}
                found = await http.post("/a2a/payer", json=more, headers={"a2a-version": "1.0"})
                assert found.json()["error"]["code"] == -32004
                # DM-SERIAL-005: unknown fields are ignored
                asked["params"] = {"id": task.id, "new": {"field": 1}}
                found = await http.post("/a2a/payer", json=asked, headers={"a2a-version": "1.0"})
                assert found.json()["result"]["status"]["state"] == "TASK_STATE_COMPLETED"

    run(main())


def test_a_task_is_followed_again_and_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [payer()]) as server, connected(server, "payer") as client:
            _, task = await states(client, said("Pay.", "m1"))
            seen: list[str] = []
            async for event in client.subscribe(wire.SubscribeToTaskRequest(id=task.id)):
                seen.append(wire.TaskState.Name(event.task.status.state))
                break
            assert seen == ["TASK_STATE_INPUT_REQUIRED"]
            ended = await client.cancel_task(wire.CancelTaskRequest(id=task.id))
            assert wire.TaskState.Name(ended.status.state) == "TASK_STATE_CANCELED"
            with pytest.raises(A2AError, match="has ended"):
                await client.cancel_task(wire.CancelTaskRequest(id=task.id))

    run(main())


def test_an_answer_that_arrives_again_approves_no_further_call(tmp_path: Path) -> None:
    """A client that lost the response sends its message again; by then the task asks about another call."""
    steps = [call("pay", {"cents": 5}), call("pay", {"cents": 5_000_000}), say("Paid.")]
    paid: list[int] = []

    @tool(mode="external", effect="idempotent")
    async def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return "paid"

    agent = Agent("clerk", model=ScriptedModel(by_history(steps)), tools=[pay])

    async def main() -> None:
        async with serving(tmp_path, [agent]) as server, connected(server, "clerk") as client:
            _, task = await states(client, said("Pay.", "m1"))
            for _ in range(2):
                went, task = await states(client, said("approve", "m2", task_id=task.id))
                assert (went[-1], paid) == ("INPUT_REQUIRED", [5])
                assert "5000000" in task.status.message.parts[0].text
            with pytest.raises(A2AError, match="Validation failed"):
                await states(client, said("approve", "", task_id=task.id))
            went, task = await states(client, said("approve", "m3", task_id=task.id))
            assert (went[-1], paid) == ("COMPLETED", [5, 5_000_000])
            with pytest.raises(A2AError, match="must be the `next` of a page"):
                await client.list_tasks(wire.ListTasksRequest(page_token="m1"))

    run(main())


TALE = "Once upon a time there was a ship."


class Teller(ScriptedModel):
    """A model that looks, and then tells a tale, with pauses in what it says."""

    def __init__(self, *gates: asyncio.Event) -> None:
        steps = [say("Let me look.") + call("look", {"place": "Oslo"}), say(TALE, reasoning="Hm.")]
        super().__init__(by_history(steps), chunk_chars=5)
        self._gates = dict(zip(("Let me loo", TALE[:10], TALE[:20]), gates, strict=True))

    async def stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Iterable[JsonObject] | None = None,
        temperature: float | None = None,
    ) -> AsyncIterator[LLMStreamChunk]:
        told = ""
        async for chunk in super().stream(messages, tools=tools, temperature=temperature):
            yield chunk
            told += chunk.content_delta or ""
            if told in self._gates:
                await self._gates[told].wait()


class Listener:
    """A client that puts artifacts together as the SDK does, and looks at each moment at what it has."""

    def __init__(self, events: AsyncIterator[wire.StreamResponse]) -> None:
        self._events = events
        self.task = wire.Task()
        self.appended = 0
        self.is_whole = False

    @property
    def text(self) -> str:
        return "".join(part.text for one in self.task.artifacts for part in one.parts)

    async def until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            event = await anext(self._events)
            match event.WhichOneof("payload"):
                case "task":
                    self.task.CopyFrom(event.task)
                case "artifact_update":
                    update = event.artifact_update
                    append_artifact_to_task(self.task, update)
                    self.appended += update.append
                    self.is_whole = update.last_chunk
                    assert any(one.startswith(self.text) for one in ("Let me look.", TALE)), self.text
                case _:
                    self.task.status.CopyFrom(event.status_update.status)

    @property
    def is_over(self) -> bool:
        return self.task.status.state == wire.TaskState.TASK_STATE_COMPLETED


def test_text_is_streamed_as_the_model_writes_it_and_comes_once_after_a_new_subscription(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        gates = [asyncio.Event() for _ in range(3)]
        teller = Agent("teller", model=Teller(*gates), tools=[look])
        async with (
            serving(tmp_path, [teller]) as server,
            connected(server, "teller") as one,
            connected(server, "teller") as other,
        ):
            first = Listener(one.send_message(said("Tell me.", "m1")))
            await first.until(lambda: first.text.startswith("Let"))
            gates[0].set()
            await first.until(lambda: first.text.startswith("Once"))
            before = first.text
            gates[1].set()
            await first.until(lambda: len(first.text) > len(before))
            assert first.appended > 0
            second = Listener(other.subscribe(wire.SubscribeToTaskRequest(id=first.task.id)))
            await second.until(lambda: second.text.startswith("Once"))
            gates[2].set()
            for listener in (first, second):
                await listener.until(lambda at=listener: at.is_over)
                assert (listener.text, listener.is_whole) == (TALE, True)
            task = await one.get_task(wire.GetTaskRequest(id=first.task.id))
            assert task.artifacts == first.task.artifacts

    run(main())


def test_an_agent_of_another_server_is_a_subagent_over_a2a(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "data", [payer()]) as server:
            url = f"a2a://127.0.0.1:{server.port}/v1/a2a/payer"
            model = ScriptedModel(by_history([call("payer", {"message": "Pay."}), say("It is paid.")]))
            boss = Agent("boss", model=model, subagents=[RemoteAgent("payer", url=url)])
            async with AgentRuntime.open(tmp_path / "a.db", agents=[boss]) as runtime:
                run = await runtime.start_run(boss, "Let it be paid.")
                asked = 0
                async for request in run.requests():
                    asked += 1
                    await run.answer(request.request_id, "approve", responder="ann")
                assert ((await run.wait()).output, asked) == ("It is paid.", 1)
            async with server.client() as client:
                [there] = (await client.get("/runs")).json()["runs"]
                assert there["status"] == "completed"

    run(main())


@pytest.mark.parametrize("other", ["payer", "stuck"])
def test_cancelling_the_caller_cancels_a_task_that_asks_or_works(
    tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        begun, known = asyncio.Event(), asyncio.Event()
        sent = a2a._send  # pyright: ignore[reportPrivateUsage]

        async def watched(
            client: Client, request: wire.SendMessageRequest, note: Callable[[str], None]
        ) -> Report | None:
            def noted(task_id: str) -> None:
                note(task_id)
                known.set()

            return await sent(client, request, noted)

        monkeypatch.setattr(a2a, "_send", watched)
        async with serving(tmp_path / "data", [payer(), stuck(begun)]) as server:
            url = f"a2a://127.0.0.1:{server.port}/v1/a2a/{other}"
            model = ScriptedModel(by_history([call("helper", {"message": "Pay."}), say("Done.")]))
            helper = RemoteAgent("helper", url=url)
            boss = Agent("boss", model=model, subagents=[helper])
            async with (
                AgentRuntime.in_memory([boss]) as runtime,
                RestClient(f"http://127.0.0.1:{server.port}") as client,
            ):
                run = await runtime.start_run(boss, "Go.")
                if other == "payer":
                    # What the task asks is a question of the local run.
                    async for _ in run.requests():
                        break
                else:
                    await begun.wait()
                    # The answer of the server with the id of the task has arrived.
                    await known.wait()
                await run.cancel()
                assert (await run.wait()).status.value == "cancelled"
                [there] = (await client.runs.list()).items
                ends = [event.type async for event in client.events(run_id=there.run_id)]
                assert ends[-1] == "run.cancelled"

    run(main())


def test_tasks_belong_to_their_user(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", [payer(), talker()], settings=settings) as server,
            connected(server, "talker", ann) as mine,
            connected(server, "talker", bob) as theirs,
        ):
            went, task = await states(mine, said("Hi.", "m1"))
            assert (went[-1], task.artifacts[0].parts[0].text) == ("COMPLETED", "Hello there.")
            for attempt in (
                theirs.get_task(wire.GetTaskRequest(id=task.id)),
                theirs.cancel_task(wire.CancelTaskRequest(id=task.id)),
                states(theirs, said("x", "m2", task_id=task.id)),
                states(theirs, said("x", "m3", context_id=task.context_id)),
            ):
                with pytest.raises(A2AError, match="there is no such"):
                    await attempt
            assert list((await theirs.list_tasks(wire.ListTasksRequest())).tasks) == []
            async with server.client() as nobody:
                card = await nobody.get("/a2a/talker/.well-known/agent-card.json")
                assert card.status_code == 401
            async with server.client(ann) as http:
                assert (await http.get("/a2a/other/.well-known/agent-card.json")).status_code == 404
                shown = (await http.get("/a2a/talker/.well-known/agent-card.json")).json()
                assert shown["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "Bearer"
                assert shown["capabilities"]["streaming"] is True

    run(main())

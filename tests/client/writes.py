"""A story for every writing operation: what must be there before, and what a request of it has."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import httpx2
from tests.ledger.rig import clerk
from tests.server.receiver import Receiver
from tests.server.rig import Json, ended, payer, talker, waiting
from tests.server.waiting import until

from windlass import Agent, tool
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import UndoCall


@dataclass(frozen=True, slots=True)
class Write:
    """A request of a writing operation."""

    ids: tuple[str | int, ...] = ()
    """The ids of its path, in order."""
    body: Json | None = None
    query: Json = field(default_factory=dict[str, object])


Story = Callable[[httpx2.AsyncClient], Awaitable[Write]]
STORIES: Final[dict[str, Story]] = {}
"""By the id of the operation."""


def story(operation: str) -> Callable[[Story], Story]:
    def add(function: Story) -> Story:
        STORIES[operation] = function
        return function

    return add


def agents() -> list[Agent]:
    @tool(mode="safe_write")
    async def unbook(call: UndoCall) -> str:
        """Cancel a room."""
        return "cancelled"

    @tool(mode="safe_write", effect="idempotent", undo=unbook)
    async def book() -> str:
        """Book a room."""
        return "booked"

    def breaking(_: object) -> object:
        raise ValueError("the provider has a bug")

    booker = Agent(
        "booker", model=ScriptedModel(by_history([call("book", {}), say("Booked.")])), tools=[book]
    )
    breaker = Agent("breaker", model=ScriptedModel(breaking))  # pyright: ignore[reportArgumentType] it fails
    return [talker(), payer(), clerk(), booker, breaker]


async def begin(client: httpx2.AsyncClient, agent: str = "talker", **more: object) -> Json:
    """A session with a run that has ended."""
    begun = (await client.post("/sessions", json={"message": "Hello.", "agent": agent, **more})).json()
    await ended(client, begun["runId"])
    return begun


async def begin_asking(client: httpx2.AsyncClient) -> tuple[Json, str]:
    """A session with a run that asks, and the id of the request."""
    begun = (await client.post("/sessions", json={"message": "Pay.", "agent": "payer"})).json()
    return begun, (await waiting(client, begun["runId"]))["requests"][0]["requestId"]


@story("sessions.create")
async def _create(client: httpx2.AsyncClient) -> Write:
    return Write(body={"message": "Hello.", "agent": "talker"})


@story("sessions.delete")
async def _delete_session(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["sessionId"],))


@story("sessions.send")
async def _send(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["sessionId"],), {"message": "And the train?"})


@story("sessions.cancel")
async def _cancel_session(client: httpx2.AsyncClient) -> Write:
    """A second run is queued behind the one that is cancelled, and begins when that has ended."""
    begun, _ = await begin_asking(client)
    path = f"/sessions/{begun['sessionId']}/messages"
    assert (await client.post(path, json={"message": "Pay again."})).status_code == 202
    return Write((begun["sessionId"],), {"reason": "It takes too long."})


@story("sessions.compact")
async def _compact(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["sessionId"],))


@story("sessions.fork")
async def _fork(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["sessionId"],), {})


@story("agentSessions.update")
async def _stage(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["sessionId"],), {"currentStage": "PAYING", "nextStage": None})


@story("approvals.answer")
async def _answer(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin_asking(client))[1],), {"optionId": "approve"})


@story("runs.play")
async def _play(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["runId"], 0), {"instructions": "Be short."})


@story("runs.cancel")
async def _cancel_run(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin_asking(client))[0]["runId"],), {"reason": "It takes too long."})


@story("runs.send")
async def _send_event(client: httpx2.AsyncClient) -> Write:
    event: Json = {"name": "paid", "data": {"amount": 40}, "key": "pay_7"}
    return Write(((await begin_asking(client))[0]["runId"],), event)


@story("runs.retry")
async def _retry(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client, "breaker"))["runId"],), {"budget": {"maxSteps": 9}})


@story("runs.undo")
async def _undo(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client, "booker"))["runId"],))


@story("runs.giveFeedback")
async def _feedback(client: httpx2.AsyncClient) -> Write:
    return Write(((await begin(client))["runId"],), {"thumb": "up", "note": "Good."})


SCHEDULE: Final[Json] = {"name": "nightly", "agent": "talker", "message": "Go.", "cron": "0 3 * * *"}


async def schedule(client: httpx2.AsyncClient) -> Write:
    assert (await client.post("/schedules", json=SCHEDULE)).status_code == 200
    return Write(("nightly",))


@story("schedules.put")
async def _put_schedule(client: httpx2.AsyncClient) -> Write:
    return Write(body=SCHEDULE)


@story("schedules.pause")
async def _pause(client: httpx2.AsyncClient) -> Write:
    return await schedule(client)


@story("schedules.resume")
async def _resume(client: httpx2.AsyncClient) -> Write:
    write = await schedule(client)
    assert (await client.post("/schedules/nightly/pause")).json()["isPaused"]
    return write


@story("schedules.run")
async def _run_schedule(client: httpx2.AsyncClient) -> Write:
    return await schedule(client)


@story("schedules.delete")
async def _delete_schedule(client: httpx2.AsyncClient) -> Write:
    return await schedule(client)


LIMIT: Final[Json] = {"name": "people", "per": "month", "maxTokens": 1_000_000, "owner": "*"}


@story("limits.put")
async def _put_limit(client: httpx2.AsyncClient) -> Write:
    return Write(body=LIMIT)


@story("limits.delete")
async def _delete_limit(client: httpx2.AsyncClient) -> Write:
    assert (await client.post("/limits", json=LIMIT)).status_code == 200
    return Write(("people",))


async def dataset(client: httpx2.AsyncClient, *cases: Json) -> str:
    assert (await client.post("/datasets", json={"name": "prices"})).status_code == 200
    for case in cases:
        assert (await client.post("/datasets/prices/cases", json=case)).status_code == 200
    return "prices"


CASE: Final[Json] = {"name": "oslo", "inputs": "Price of Oslo", "expected": "90 crowns"}


@story("datasets.make")
async def _make(client: httpx2.AsyncClient) -> Write:
    return Write(body={"name": "prices"})


@story("datasets.delete")
async def _delete_dataset(client: httpx2.AsyncClient) -> Write:
    return Write((await dataset(client, CASE),))


@story("datasets.addCase")
async def _add_case(client: httpx2.AsyncClient) -> Write:
    return Write((await dataset(client),), CASE)


@story("datasets.changeCase")
async def _change_case(client: httpx2.AsyncClient) -> Write:
    return Write((await dataset(client, CASE),), {"name": "oslo", "expected": None})


@story("datasets.deleteCase")
async def _delete_case(client: httpx2.AsyncClient) -> Write:
    return Write((await dataset(client, CASE),), query={"name": "oslo"})


async def dead_letter(client: httpx2.AsyncClient) -> str:
    """A notification that its receiver refuses for good."""
    await begin(client)

    async def is_dead() -> bool:
        return bool((await client.get("/deliveries", params={"dead": "true"})).json()["deliveries"])

    await until(is_dead)
    return (await client.get("/deliveries")).json()["deliveries"][0]["deliveryId"]


@story("deliveries.retry")
async def _retry_delivery(client: httpx2.AsyncClient) -> Write:
    return Write((await dead_letter(client),))


@story("deliveries.delete")
async def _delete_delivery(client: httpx2.AsyncClient) -> Write:
    return Write((await dead_letter(client),))


async def idle(client: httpx2.AsyncClient) -> bool:
    return not any(work["status"] == "working" for work in (await client.get("/proposals")).json()["work"])


async def proposal(client: httpx2.AsyncClient) -> str:
    await begin(client, "clerk", message="Where is the parcel of Ada", goal="parcels")
    body = {"goal": "parcels", "agent": "clerk"}
    proposal_id = (await client.post("/proposals", json=body)).json()["proposalId"]
    await until(lambda: idle(client))
    return proposal_id


@story("proposals.create")
async def _propose(client: httpx2.AsyncClient) -> Write:
    await begin(client, "clerk", message="Where is the parcel of Ada", goal="parcels")
    return Write(body={"goal": "parcels", "agent": "clerk"})


@story("proposals.check")
async def _check(client: httpx2.AsyncClient) -> Write:
    return Write((await proposal(client),), {"repeats": 1})


@story("proposals.approve")
async def _approve(client: httpx2.AsyncClient) -> Write:
    return Write((await proposal(client),), {"reason": "It is clear."})


@story("proposals.refuse")
async def _refuse(client: httpx2.AsyncClient) -> Write:
    return Write((await proposal(client),), {"reason": "It is slow."})


@story("agui.run")
async def _agui(client: httpx2.AsyncClient) -> Write:
    message = {"id": "m1", "role": "user", "content": "Hello."}
    return Write(("talker",), {"threadId": "thread-1", "runId": "run-1", "messages": [message]})


@story("ai.chat")
async def _chat(client: httpx2.AsyncClient) -> Write:
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello."}]}
    return Write(("talker",), {"id": "chat-1", "trigger": "submit-message", "messages": [message]})


@story("eve.create")
async def _eve(client: httpx2.AsyncClient) -> Write:
    return Write(body={"message": "Hello."})


@story("eve.send")
async def _eve_turn(client: httpx2.AsyncClient) -> Write:
    session_id = (await begin(client))["sessionId"]
    return Write((session_id,), {"continuationToken": session_id, "message": "And the train?"})


# What a request had for effects.


async def effects(client: httpx2.AsyncClient, receiver: Receiver) -> Json:
    """Return everything of a user, without ids and times, once nothing moves any more."""
    await until(lambda: is_resting(client))
    sessions = (await client.get("/sessions", params={"subagents": "true"})).json()["sessions"]
    ids = {session["sessionId"] for session in sessions}
    for session_id in ids:
        await fence(client, session_id)
    runs = (await client.get("/runs", params={"playground": "true"})).json()["runs"]
    schedules = (await client.get("/schedules")).json()["schedules"]
    limits = (await client.get("/limits")).json()["limits"]
    datasets = (await client.get("/datasets")).json()["datasets"]
    cases = [(await client.get(f"/datasets/{one['name']}")).json()["cases"] for one in datasets]
    deliveries = (await client.get("/deliveries")).json()["deliveries"]
    proposals = (await client.get("/proposals")).json()["proposals"]
    notified = [got.json["data"]["sessionId"] for got in receiver.got]
    return {
        "records": sorted([sorted(Counter(await types(client, name)).items()) for name in ids]),
        "runs": sorted((run["agentId"], run["status"]) for run in runs),
        "requests": len((await client.get("/approvals")).json()["requests"]),
        "schedules": [(one["name"], one["isPaused"]) for one in schedules],
        "limits": [limit["name"] for limit in limits],
        "cases": [[(case["name"], case.get("expected", "")) for case in some] for some in cases],
        "deliveries": [one["isDead"] for one in deliveries],
        "proposals": [(one["status"], "check" in one) for one in proposals],
        "notified": sum(session_id in ids for session_id in notified),
    }


async def is_resting(client: httpx2.AsyncClient) -> bool:
    runs = (await client.get("/runs", params={"playground": "true"})).json()["runs"]
    moving = [run for run in runs if run["status"] in ("queued", "running", "cancelling")]
    listed = (await client.get("/deliveries")).json()["deliveries"]
    late = [delivery for delivery in listed if not delivery["isDead"]]
    return not moving and not late and await idle(client)


async def types(client: httpx2.AsyncClient, session_id: str) -> list[str]:
    """The types of all records of a session."""
    raw = await client.get(f"/sessions/{session_id}/events", params={"follow": "false", "format": "ndjson"})
    return [json.loads(line)["type"] for line in raw.text.splitlines()]


async def fence(client: httpx2.AsyncClient, session_id: str) -> None:
    """Return once everything that was sent to a session before is in its journal."""
    before = Counter(await types(client, session_id))["session.state_changed"]
    await client.post(f"/sessions/{session_id}/agent-session", json={"currentStage": "FENCE"})

    async def is_there() -> bool:
        return Counter(await types(client, session_id))["session.state_changed"] > before

    await until(is_there)


# A network that loses answers.


@dataclass(slots=True)
class Network:
    """A proxy that loses the next answer."""

    port: int = 0
    loses: bool = False
    requests: list[bytes] = field(default_factory=list[bytes])
    """The heads of the requests that it passed on."""


@asynccontextmanager
async def losing(target: int) -> AsyncGenerator[Network]:
    """Pass requests on, one for each connection; the lost answer was complete at the server."""
    network = Network()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                network.requests.append(head)
                fields = [line.partition(b":") for line in head.split(b"\r\n")[1:-2]]
                headers = {name.lower(): value.strip() for name, _, value in fields}
                body = await reader.readexactly(int(headers.get(b"content-length", b"0")))
                first, *_ = head.split(b"\r\n", 1)
                kept = [
                    b"%b:%b" % (name, value) for name, _, value in fields if name.lower() != b"connection"
                ]
                there, back = await asyncio.open_connection("127.0.0.1", target)
                back.write(b"\r\n".join([first, *kept, b"connection: close", b"", b""]) + body)
                answer = await there.read(-1)
                back.close()
                if network.loses:
                    network.loses = False
                else:
                    writer.write(answer)
                    await writer.drain()
        finally:
            writer.transport.abort() if not writer.transport.get_write_buffer_size() else writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    network.port = server.sockets[0].getsockname()[1]
    try:
        yield network
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Webhooks out: signed notifications, retried until they are taken or dead, kills included."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.commands import run_here
from tests.client.rig import client_of
from tests.server.keyring import Keyring
from tests.server.receiver import Got, receiving
from tests.server.rig import FAST, TIMEOUT_S, Json, eventually, run, serving, talker

from tools.postgres import Postgres
from windlass import AgentRuntime, Conflict, Rejected
from windlass.client import NotFound
from windlass.parts import Machine, SystemClock, chance, new_id
from windlass.playground import Playground
from windlass.webhooks import SCHEMES, Delivered, Deliveries, Endpoint, Outbox, Webhooks, targets_of
from windlass.webhooks.outbox import LEASE_MS, RETRIES_S
from windlass_harness.record import Record
from windlass_protocol import encode
from windlass_server import Settings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SECRETS = {"NEW": SECRET, "OLD": "whsec_YW4gb2xkIHNlY3JldCBvZiBvdXJz"}


def endpoint(url: str, /, **more: object) -> Endpoint:
    given: Json = {"url": url, "events": ["run.completed"], "secrets": ["NEW", "OLD"], "is_private": True}
    return Endpoint.read("ops", {**given, **more})


class Shifted(SystemClock):
    """The clock of the machine, ahead by some seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead_s)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Return once something is so."""
    for _ in range(30_000):
        if await is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to be so")


@dataclass(frozen=True, slots=True)
class Scene:
    runtime: AgentRuntime
    outbox: Outbox
    deliveries: Deliveries
    clock: Shifted

    async def have(self, *attempts: int) -> None:
        """Return once the deliveries that are left have so many attempts behind them, and rest."""

        async def is_so() -> bool:
            found = (await self.deliveries.list()).items
            return [one.attempts for one in found] == [*attempts] and all(one.problem for one in found)

        await until(is_so)

    async def is_empty(self) -> bool:
        return not (await self.deliveries.list()).items


@asynccontextmanager
async def notifying(
    path: Path | str, endpoints: Sequence[Endpoint], clock: Shifted | None = None
) -> AsyncGenerator[Scene]:
    time = clock or Shifted()
    machine = Machine(time, new_id, chance)
    targets = targets_of(tuple(endpoints), (), variable=SECRETS.get, clock=time)
    async with (
        AgentRuntime.open(path, agents=[talker()], durability="process", machine=machine) as runtime,
        Outbox(runtime, targets) as outbox,
    ):
        store = runtime.core.ports.store
        assert store is not None
        yield Scene(runtime, outbox, Deliveries(store, time), time)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """A store in a file, and one in PostgreSQL."""
    if request.param == "sqlite":
        return tmp_path / "a.db"
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.new_database()


def genuine(got: Got, secret: str = SECRET, now_s: float | None = None) -> Json:
    """Check a notification as its receiver does; return its body."""
    stamp = float(got.headers["webhook-timestamp"])
    SCHEMES["standard"].check(got.headers, got.body, [secret], now_s=now_s or stamp)
    return got.json


def test_a_chosen_event_is_notified_once_with_every_signature(tmp_path: Path) -> None:
    async def main() -> None:
        async with receiving() as ops, notifying(tmp_path / "a.db", [endpoint(ops.url)]) as scene:
            result = await (await scene.runtime.start_run("talker", "Hi.", run_id="r1")).wait()
            [got] = await ops.have(1)
            body, same = (genuine(got, secret) for secret in SECRETS.values())
            assert body == same
            assert (body["type"], body["data"]["runId"]) == ("run.completed", "r1")
            assert body["data"]["data"]["output"] == result.output
            assert re.fullmatch(r"msg_[0-9a-f]{40}", got.headers["webhook-id"])
            await until(scene.outbox.is_idle)
            assert (await scene.deliveries.list()).items == ()
            assert len(ops.got) == 1

    run(main())


def test_a_playground_run_is_not_told(tmp_path: Path) -> None:
    async def main() -> None:
        async with receiving() as ops, notifying(tmp_path / "a.db", [endpoint(ops.url)]) as scene:
            await (await scene.runtime.start_run("talker", "Hi.", run_id="r1")).wait()
            await (await Playground(scene.runtime).run("r1", 0)).wait()
            await (await scene.runtime.start_run("talker", "Bye.", run_id="r2")).wait()
            await until(scene.outbox.is_idle)
            assert {got.json["data"]["runId"] for got in ops.got} == {"r1", "r2"}

    run(main())


def test_a_refused_notification_is_retried_with_its_id_and_becomes_a_dead_letter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    status = 500

    async def main() -> None:
        nonlocal status

        def answer(_: Got) -> tuple[int, bytes]:
            return status, b"secret of the receiver"

        async with receiving(answer) as ops, notifying(tmp_path / "a.db", [endpoint(ops.url)]) as scene:
            await (await scene.runtime.start_run("talker", "Hi.", owner="ann")).wait()
            for attempt, wait_s in enumerate((*RETRIES_S, 0), start=1):
                await scene.have(attempt)
                scene.clock.ahead_s += wait_s
            [dead] = (await scene.deliveries.list(dead_only=True)).items
            assert (dead.attempts, dead.problem, dead.owner, dead.next_at) == (10, "HTTP 500", "ann", None)
            assert (await scene.deliveries.list(owner="bob")).items == ()
            assert await scene.outbox.is_idle()
            status = 200
            assert not (await scene.deliveries.retry(dead.delivery_id)).is_dead
            got = await ops.have(11)
            assert len({one.headers["webhook-id"] for one in got}) == 1
            assert len({one.body for one in got}) == 1
            await until(scene.is_empty)
            with pytest.raises(Conflict, match="unknown delivery"):
                await scene.deliveries.retry(dead.delivery_id)

    run(main())
    assert "secret of the receiver" not in caplog.text


@pytest.mark.parametrize(("status", "is_dead"), [(410, True), (301, False), (404, False)])
def test_a_receiver_that_is_gone_is_not_asked_again(tmp_path: Path, status: int, is_dead: bool) -> None:
    async def main() -> None:
        async with (
            receiving(lambda _: (status, b"")) as ops,
            notifying(tmp_path / "a.db", [endpoint(ops.url)]) as scene,
        ):
            await (await scene.runtime.start_run("talker", "Hi.")).wait()
            await scene.have(1)
            [found] = (await scene.deliveries.list()).items
            assert (found.is_dead, found.problem) == (is_dead, f"HTTP {status}")
            await scene.deliveries.delete(found.delivery_id)
            assert await scene.outbox.is_idle()

    run(main())


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:8443/x", "https://localhost/x", "https://169.254.169.254/x"]
)
def test_an_address_that_is_not_public_is_never_dialled(tmp_path: Path, url: str) -> None:
    async def main() -> None:
        async with notifying(tmp_path / "a.db", [endpoint(url, is_private=False)]) as scene:
            await (await scene.runtime.start_run("talker", "Hi.")).wait()
            await scene.have(1)
            [found] = (await scene.deliveries.list()).items
            assert found.is_dead
            assert "not on the public internet" in str(found.problem)

    run(main())


def test_what_was_not_delivered_before_a_stop_is_delivered_after_it(store: Path | str) -> None:
    async def main() -> None:
        hold = True

        def answer(_: Got) -> tuple[int, bytes]:
            if hold:
                raise ConnectionAbortedError  # the receiver has it, and says nothing
            return 200, b""

        async with receiving(answer) as ops:
            clock = Shifted()
            async with notifying(store, [endpoint(ops.url)], clock) as scene:
                await (await scene.runtime.start_run("talker", "First.", run_id="r1")).wait()
                await ops.have(1)
                # The process stops while it waits for the answer.
            # No process looks at the journal meanwhile.
            async with AgentRuntime.open(store, agents=[talker()]) as runtime:
                await (await runtime.start_run("talker", "Second.", run_id="r2")).wait()
            hold = False
            async with notifying(store, [endpoint(ops.url)], clock) as scene:
                await eventually(lambda: any(one.json["data"]["runId"] == "r2" for one in ops.got))
                scene.clock.ahead_s += LEASE_MS / 1_000
                await until(scene.outbox.is_idle)
            ids = {run_id: set[str]() for run_id in ("r1", "r2")}
            for one in ops.got:
                ids[one.json["data"]["runId"]].add(one.headers["webhook-id"])
            assert [len(one) for one in ids.values()] == [1, 1]
            assert sum(one.json["data"]["runId"] == "r1" for one in ops.got) >= 2

    run(main())


def test_two_processes_share_the_work(store: Path | str) -> None:
    async def main() -> None:
        async with receiving() as ops:
            given = [endpoint(ops.url)]
            async with (
                notifying(store, given) as one,
                notifying(store, given) as other,
            ):
                for number in range(6):
                    scene = (one, other)[number % 2]
                    await (await scene.runtime.start_run("talker", "Hi.", run_id=f"r{number}")).wait()
                await ops.have(6)
                await until(one.outbox.is_idle)
                await until(other.outbox.is_idle)
                assert sorted(got.json["data"]["runId"] for got in ops.got) == [f"r{n}" for n in range(6)]

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "point", "sent"),
    [("sqlite", "_send", 1), ("postgres", "_send", 1), ("postgres", "_save", 0)],
    indirect=["store"],
)
def test_a_kill_between_sending_and_noting_it_sends_the_same_id_again(
    store: Path | str, point: str, sent: int
) -> None:
    """One process is killed when the receiver has answered, one before it notes what it has read."""

    async def main() -> None:
        async with receiving() as ops:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.server.killed_outbox", str(store), ops.url, point)
            )
            assert await asyncio.wait_for(child.wait(), TIMEOUT_S) == -signal.SIGKILL
            assert len(ops.got) == sent
            async with AgentRuntime.open(store, agents=[]) as runtime:
                assert runtime.core.ports.store is not None
                [left] = (await Deliveries(runtime.core.ports.store, SystemClock()).list()).items
            assert (left.attempts, left.problem) == (sent, None)
            async with notifying(store, [endpoint(ops.url)]) as scene:
                # What the killed process held is free.
                scene.clock.ahead_s += LEASE_MS / 1_000
                await until(scene.outbox.is_idle)
                assert (await scene.deliveries.list()).items == ()
            assert len(ops.got) > sent
            assert {one.headers["webhook-id"] for one in ops.got} == {left.delivery_id}
            assert len({encode(genuine(one)) for one in ops.got}) == 1

    run(main())


def test_a_deleted_session_is_not_told_of_any_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            receiving(lambda _: (500, b"")) as ops,
            notifying(tmp_path / "a.db", [endpoint(ops.url)]) as scene,
        ):
            await (await scene.runtime.start_run("talker", "Hi.", session_id="s1")).wait()
            await scene.have(1)

            async def is_deleted() -> bool:
                try:
                    await scene.runtime.sessions.delete("s1")
                except Conflict:  # its driver has not let go yet
                    return False
                return True

            await until(is_deleted)
            scene.clock.ahead_s += RETRIES_S[0]
            await scene.have(2)
            [found] = (await scene.deliveries.list()).items
            assert (found.is_dead, found.problem) == (True, "the session was deleted")
            with pytest.raises(Rejected, match="limit must be 1 to 200, found 0"):
                await scene.deliveries.list(limit=0)

    run(main())


def test_a_user_sees_retries_and_gives_up_their_own_deliveries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)

    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        async with (
            receiving(lambda _: (410, b"")) as ops,
            serving(
                tmp_path / "data",
                [talker()],
                settings=Settings(keys=keys.path, limits=FAST),
                endpoints=[endpoint(ops.url, tenant="acme")],
            ) as server,
            client_of(server.port, key=ann) as mine,
            client_of(server.port, key=bob) as theirs,
        ):

            async def has_dead() -> bool:
                return bool((await mine.deliveries.list(dead=True)).items)

            async with server.client(ann) as http:
                await http.post("/sessions", json={"message": "Hi."})
                await ops.have(1)
                await until(has_dead)
                [dead] = (await mine.deliveries.list()).items
                assert (await http.get(f"/deliveries/{dead.delivery_id}")).json()["problem"] == "HTTP 410"
            assert (await theirs.deliveries.list()).items == ()
            with pytest.raises(NotFound):
                await theirs.deliveries.retry(dead.delivery_id)
            await mine.deliveries.retry(dead.delivery_id)
            await ops.have(2)
            await until(has_dead)
            await mine.deliveries.delete(dead.delivery_id)
            assert (await mine.deliveries.list()).items == ()

    run(main())


def test_the_command_lists_retries_and_removes_deliveries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "windlass-data").mkdir()

    async def main() -> None:
        async with (
            receiving(lambda _: (410, b"")) as ops,
            notifying(Path("windlass-data/local.db"), [endpoint(ops.url)]) as scene,
        ):
            await (await scene.runtime.start_run("talker", "Hi.", session_id="s1", owner="local")).wait()
            await scene.have(1)

    run(main())
    listed = run_here(capsys, "deliveries", "list", "--dead")
    assert all(word in listed.out for word in ("ops", "run.completed", "dead", "HTTP 410", "s1"))
    [name] = re.findall(r"msg_[0-9a-f]{40}", listed.out)
    assert run_here(capsys, "deliveries", "retry", name).code == 0
    assert "dead" not in run_here(capsys, "deliveries", "list").out
    assert "There are no dead letters." in run_here(capsys, "deliveries", "list", "--dead").err
    assert run_here(capsys, "deliveries", "remove", name).code == 0
    assert "Everything was delivered." in run_here(capsys, "deliveries", "list").err
    refused = run_here(capsys, "deliveries", "retry", name)
    assert (refused.code, "unknown delivery" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": "http://example.com"}, "an https address"),
        ({"url": 5}, "an https address"),
        ({"events": []}, "needs events"),
        ({"events": ["run.complete"]}, "did you mean run.completed"),
        ({"secrets": []}, "one or more environment variables"),
        ({"is_private": "yes"}, "true or false"),
        ({"urll": "x"}, "did you mean url"),
        ({"tenant": ""}, "the tenant of endpoint ops"),
    ],
)
def test_a_wrong_endpoint_is_refused(change: Json, words: str) -> None:
    with pytest.raises(Rejected, match=words):
        endpoint("https://example.com", **{"is_private": False, **change})


def test_a_missing_secret_a_wrong_name_and_a_name_taken_twice_are_refused() -> None:
    given = endpoint("https://example.com")
    with pytest.raises(Rejected, match="variable NEW with its secret: it is not set"):
        targets_of((given,), (), variable=lambda name: None)
    with pytest.raises(Rejected, match="the same name"):
        targets_of((given, given), (), variable=SECRETS.get)
    with pytest.raises(Rejected, match="small letters"):
        Endpoint("A", "https://example.com", ("run",), ("NEW",))
    with pytest.raises(Rejected, match="url is missing"):
        Endpoint.read("ops", {})
    assert Webhooks([]).secrets == ()
    assert os.environ.get("NEW") is None


class Broken:
    """A channel with a mistake."""

    name = "broken"

    def lane(self, owner: str | None) -> str:
        return self.name

    async def parts(self, record: Record) -> Sequence[int]:
        return (0,) if record.type == "run.completed" else ()

    async def send(self, record: Record, part: int, *, key: str) -> Delivered:
        raise ValueError("hunter2")

    async def tell(self, session_id: str, text: str, user: str) -> Delivered:
        raise ValueError("hunter2")


def test_a_delivery_whose_channel_raises_becomes_a_dead_letter(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            AgentRuntime.open(tmp_path / "a.db", agents=[talker()], durability="process") as runtime,
            Outbox(runtime, [Broken()], retries_s=()) as outbox,
        ):
            store = runtime.core.ports.store
            assert store is not None
            await (await runtime.start_run("talker", "Hi.", run_id="r1")).wait()
            await outbox.tell("broken", "s", "x", user="u", key="k")
            await until(outbox.is_idle)
            found = (await Deliveries(store, SystemClock()).list(dead_only=True)).items
            assert [one.problem for one in found] == ["the channel failed with ValueError"] * 2

    run(main())

"""A2A push notifications: the official client asks for them, a real receiver gets them, kills included."""

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from a2a.client import Client
from a2a.types import a2a_pb2 as wire
from a2a.utils.errors import A2AError, InvalidParamsError, TaskNotFoundError
from google.protobuf.json_format import ParseDict
from tests.client.test_remote import stuck
from tests.server.keyring import Keyring
from tests.server.receiver import Got, Receiver, receiving
from tests.server.rig import FAST, TIMEOUT_S, eventually, payer, run, serving, talker
from tests.server.test_a2a import connected, said, states
from tests.server.test_notifications import Shifted, until

from windlass.parts import Machine, chance, new_id
from windlass.ports.documents import RUN_PUSH
from windlass.webhooks.outbox import LEASE_MS, RETRIES_S
from windlass_server import Settings, push
from windlass_server.push import CONFIGS_MAX, SECRET_CHARS_MAX

TOKEN, CREDENTIALS = "token-9f31c0", "credentials-77ab12"


def config(url: str, config_id: str = "", *, task_id: str = "") -> wire.TaskPushNotificationConfig:
    return wire.TaskPushNotificationConfig(
        id=config_id,
        task_id=task_id,
        url=url,
        token=TOKEN,
        authentication=wire.AuthenticationInfo(scheme="Bearer", credentials=CREDENTIALS),
    )


def pushed(
    text: str, message_id: str, url: str, config_id: str = "", *, returns: bool = False
) -> wire.SendMessageRequest:
    request = said(text, message_id)
    request.configuration.task_push_notification_config.CopyFrom(config(url, config_id))
    request.configuration.return_immediately = returns
    return request


def told(got: Got) -> tuple[str, str]:
    """Check a notification as its receiver does; return its payload and the state of its task."""
    assert got.headers["x-a2a-notification-token"] == TOKEN
    assert got.headers["authorization"] == f"Bearer {CREDENTIALS}"
    assert got.headers["content-type"] == "application/json"
    response = ParseDict(got.json, wire.StreamResponse())
    payload = response.WhichOneof("payload")
    found = response.task if payload == "task" else response.status_update
    assert found.status.HasField("timestamp")
    return str(payload), wire.TaskState.Name(found.status.state).removeprefix("TASK_STATE_")


def stories(receiver: Receiver) -> list[tuple[str, str]]:
    """What the receiver was told, once each."""
    by_id = {one.headers["webhook-id"]: told(one) for one in receiver.got}
    assert len({one.body for one in receiver.got}) == len(by_id), "each attempt has the same body"
    return sorted(by_id.values())


def test_a_client_is_told_of_the_changes_of_its_task_and_of_nothing_after_a_deletion(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            receiving() as hook,
            receiving() as other,
            serving(tmp_path, [payer()]) as server,
            connected(server, "payer", streaming=False) as client,
        ):
            async with server.client() as http:
                card = (await http.get("/a2a/payer/.well-known/agent-card.json")).json()
            assert card["capabilities"]["pushNotifications"] is True
            _, task = await states(client, pushed("Pay.", "m1", f"{hook.url}/hook?x=1"))
            await client.create_task_push_notification_config(config(other.url, "late", task_id=task.id))
            await hook.have(2)
            listed = await client.list_task_push_notification_configs(
                wire.ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            assert [one.id for one in listed.configs] == [task.id, "late"]
            assert TOKEN not in str(listed)
            assert CREDENTIALS not in str(listed)
            assert listed.configs[0].authentication.scheme == "Bearer"
            for _ in range(2):
                await client.delete_task_push_notification_config(
                    wire.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="late")
                )
            _, done = await states(client, said("approve", "m2", task_id=task.id))
            await hook.have(3)
            assert stories(hook) == [
                ("status_update", "INPUT_REQUIRED"),
                ("status_update", "WORKING"),
                ("task", "COMPLETED"),
            ]
            [asked] = [one.json["statusUpdate"] for one in hook.got if "INPUT_REQUIRED" in one.body.decode()]
            assert asked["status"]["message"]["parts"][1]["data"]["kind"] == "approval"
            [end] = [one.json["task"] for one in hook.got if "task" in one.json]
            shown = wire.Task()
            ParseDict(end, shown)
            assert (shown.id, shown.context_id, shown.artifacts) == (done.id, done.context_id, done.artifacts)
            assert hook.got[0].path == "/hook?x=1"
            tenant = await server.tenants.take("local")
            assert tenant.push is not None
            await until(tenant.push.is_idle)
            tenant.release()
            assert ("task", "COMPLETED") not in [told(one) for one in other.got]
            with pytest.raises(A2AError, match="no such push notification configuration"):
                await client.get_task_push_notification_config(
                    wire.GetTaskPushNotificationConfigRequest(task_id=task.id, id="late")
                )

    run(main())


def test_a_receiver_that_fails_gets_the_notification_later_and_no_secret_is_in_logs_or_lists(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")

    async def main() -> None:
        status, clock = 500, Shifted()
        machine = Machine(clock, new_id, chance)
        async with (
            receiving(lambda _: (status, b"")) as hook,
            serving(tmp_path, [talker()], machine=machine) as server,
            connected(server, "talker") as client,
            server.client() as http,
        ):
            _, task = await states(client, pushed("Hi.", "m1", hook.url))
            await hook.have(2)

            async def are_due() -> bool:
                listed = (await http.get("/deliveries")).json()["deliveries"]
                return [one.get("problem") for one in listed] == ["HTTP 500", "HTTP 500"]

            await until(are_due)
            raw = (await http.get("/deliveries")).text + (await http.get(f"/runs/{task.id}/events")).text
            status = 200
            clock.ahead_s += RETRIES_S[0]
            await hook.have(4)
            assert stories(hook) == [("status_update", "WORKING"), ("task", "COMPLETED")]
            # The client is in this process too.
            logged = [
                f"{one.name} {one.getMessage()}"
                for one in caplog.records
                if not one.name.startswith("a2a.client")
            ]
            for secret in (TOKEN, CREDENTIALS):
                assert secret not in raw
                assert secret not in "\n".join(logged)

    run(main())


@pytest.mark.slow
def test_a_kill_between_the_event_and_its_delivery_delivers_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with receiving() as hook:
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.server.killed_push", str(tmp_path), hook.url)
            )
            assert await asyncio.wait_for(child.wait(), TIMEOUT_S) == -signal.SIGKILL
            assert hook.got == []
            # No request opens the tenant: what it owes does.
            async with serving(tmp_path, [talker()]):
                await hook.have(2)
                assert stories(hook) == [("status_update", "WORKING"), ("task", "COMPLETED")]

    run(main())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example.com/hook", "https://"),
        ("https://127.0.0.1:8443/hook", "public internet"),
        ("https://169.254.169.254/latest", "public internet"),
        ("https://[::1]/hook", "public internet"),
        ("https://ann:secret@example.com/", "user name or a password"),
        ("https://example.com:22/", "port 22"),
        ("file:///etc/passwd", "http and https"),
        ("", "(?i)valid"),
        (f"https://example.com/{'x' * 2_048}", "too long"),
    ],
)
def test_a_server_with_keys_takes_no_address_that_is_not_public(tmp_path: Path, url: str, words: str) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("ann", "acme", "ann")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            connected(server, "talker", ann) as client,
        ):
            with pytest.raises(InvalidParamsError, match=words) as refused:
                await states(client, pushed("Hi.", "m1", url))
            assert "secret" not in str(refused.value)
            assert not (await client.list_tasks(wire.ListTasksRequest())).tasks, "nothing was started"

    run(main())


def test_a_name_that_resolves_to_this_machine_is_never_dialled(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("ann", "acme", "ann")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            connected(server, "talker", ann) as client,
            server.client(ann) as http,
        ):
            # A name of the hosts file, so its text says nothing.
            await states(client, pushed("Hi.", "m1", "https://localhost:8443/"))

            async def are_dead() -> bool:
                listed = (await http.get("/deliveries?dead=true")).json()["deliveries"]
                return ["public internet" in one["problem"] for one in listed] == [True, True]

            await until(are_dead)

    run(main())


def test_an_operator_may_allow_private_addresses(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann = keys.add("ann", "acme", "ann")
        settings = Settings(keys=keys.path, limits=FAST, private_push=True)
        async with (
            receiving() as hook,
            serving(tmp_path / "data", settings=settings) as server,
            connected(server, "talker", ann) as client,
        ):
            await states(client, pushed("Hi.", "m1", hook.url))
            await hook.have(2)

    run(main())


def test_configurations_belong_to_their_user_are_bounded_and_are_checked(tmp_path: Path) -> None:
    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST)
        async with (
            serving(tmp_path / "data", settings=settings) as server,
            connected(server, "talker", ann) as mine,
            connected(server, "talker", bob) as theirs,
        ):
            _, task = await states(mine, said("Hi.", "m1"))
            url = "https://example.com/hook"

            def put(client: Client, **more: object) -> object:
                given = wire.TaskPushNotificationConfig(**{"task_id": task.id, "url": url, **more})  # pyright: ignore[reportArgumentType]
                return client.create_task_push_notification_config(given)

            for attempt in (
                put(theirs),
                theirs.get_task_push_notification_config(
                    wire.GetTaskPushNotificationConfigRequest(task_id=task.id, id=task.id)
                ),
                theirs.list_task_push_notification_configs(
                    wire.ListTaskPushNotificationConfigsRequest(task_id=task.id)
                ),
                theirs.delete_task_push_notification_config(
                    wire.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id=task.id)
                ),
            ):
                with pytest.raises(TaskNotFoundError):
                    await attempt  # pyright: ignore[reportGeneralTypeIssues]
            for number in range(CONFIGS_MAX):
                await put(mine, id=f"c{number}")  # pyright: ignore[reportGeneralTypeIssues]
            await put(mine, id="c0", token="x" * SECRET_CHARS_MAX)  # pyright: ignore[reportGeneralTypeIssues]
            refused = [
                ({"id": "more"}, f"limit {CONFIGS_MAX}"),
                ({"id": "c0", "token": "x" * (SECRET_CHARS_MAX + 1)}, "token"),
                ({"id": "c0", "token": "a\r\nx-evil: 1"}, "token"),
                ({"id": "a b"}, "id"),
                (
                    {"id": "c0", "authentication": wire.AuthenticationInfo(scheme="B:", credentials="x")},
                    "scheme",
                ),
                (
                    {"id": "c0", "authentication": wire.AuthenticationInfo(scheme="B", credentials="ü")},
                    "cred",
                ),
            ]
            for change, words in refused:
                with pytest.raises(InvalidParamsError, match=words):
                    await put(mine, **change)  # pyright: ignore[reportGeneralTypeIssues]

    run(main())


def test_configurations_are_deleted_with_their_session_and_with_a_start_that_is_refused(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            receiving() as hook,
            serving(tmp_path, [talker()]) as server,
            connected(server, "talker") as client,
            server.client() as http,
        ):
            _, task = await states(client, pushed("Hi.", "m1", hook.url))
            with pytest.raises(A2AError, match="messageId was used"):
                await states(client, pushed("Ho.", "m1", f"{hook.url}/other"))
            [kept] = (
                await client.list_task_push_notification_configs(
                    wire.ListTaskPushNotificationConfigsRequest(task_id=task.id)
                )
            ).configs
            assert kept.url == hook.url
            await hook.have(2)
            tenant = await server.tenants.take("local")
            assert await tenant.store.document(RUN_PUSH, task.id) is not None

            async def is_deleted() -> bool:
                return (await http.delete(f"/sessions/{task.context_id}")).status_code in (204, 404)

            await until(is_deleted)
            assert await tenant.store.documents(RUN_PUSH) == ()
            tenant.release()

    run(main())


def test_another_process_delivers_when_the_one_with_the_request_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "WATCH_S", 0.01)

    async def main() -> None:
        clock, status = Shifted(), 500
        machine = Machine(clock, new_id, chance)
        async with receiving(lambda _: (status, b"")) as hook, serving(tmp_path, machine=machine) as other:
            async with other.client() as http:
                await http.get("/sessions")  # its tenant is open, and has no configuration
            async with serving(tmp_path) as first, connected(first, "talker") as client:
                await states(client, pushed("Hi.", "m1", hook.url))
                await hook.have(2)
            status = 200
            clock.ahead_s += LEASE_MS / 1_000 + RETRIES_S[0]
            await eventually(lambda: len(hook.got) >= 4)
            assert stories(hook) == [("status_update", "WORKING"), ("task", "COMPLETED")]

    run(main())


def test_a_full_lane_of_one_user_does_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.webhooks.outbox._DUE_MAX", 6)
    monkeypatch.setattr("windlass.webhooks.outbound.SEND_S", 2 * TIMEOUT_S)

    async def main() -> None:
        keys = Keyring(tmp_path / "keys.json")
        ann, bob = keys.add("ann", "acme", "ann"), keys.add("bob", "acme", "bob")
        settings = Settings(keys=keys.path, limits=FAST, private_push=True)
        over = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await over.wait()
            writer.close()

        held = await asyncio.start_server(hold, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{held.sockets[0].getsockname()[1]}"
        async with (
            receiving() as hook,
            serving(tmp_path / "data", settings=settings) as server,
            connected(server, "talker", ann) as slow,
            connected(server, "talker", bob) as quick,
        ):
            for number in range(6):
                await states(slow, pushed("Hi.", f"m{number}", url))
            await states(quick, pushed("Hi.", "m", hook.url))
            await hook.have(2)
            over.set()
        held.close()

    run(main())


def test_a_call_that_waits_leaves_its_slot_to_other_requests(tmp_path: Path) -> None:
    async def main() -> None:
        begun = asyncio.Event()
        settings = Settings(limits=replace(FAST, requests_per_principal_max=1, requests_max=1))
        async with (
            serving(tmp_path, [stuck(begun)], settings=settings) as server,
            connected(server, "stuck", streaming=False) as one,
            connected(server, "stuck") as other,
        ):
            waiting = asyncio.create_task(states(one, said("Hi.", "m1")))
            await begun.wait()
            [task] = (await other.list_tasks(wire.ListTasksRequest())).tasks
            await other.cancel_task(wire.CancelTaskRequest(id=task.id))
            went, _ = await waiting
            assert went == ["CANCELED"]

    run(main())

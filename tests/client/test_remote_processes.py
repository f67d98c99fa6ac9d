"""Work on another server: either side is killed, and it is done once."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server.keyring import Keyring
from tests.server.rig import TICK_S, TIMEOUT_S, process, run

from windlass.client import Client

PARENT = Path(__file__).with_name("parent.py")
TASK = "Use weather, then pay."


@contextmanager
def parent(store: Path, url: str, key: str) -> Generator[subprocess.Popen[str]]:
    """The program that gives the work; it is killed when this is left."""
    command = [sys.executable, str(PARENT), str(store), url, TASK]
    environment = {**os.environ, "REMOTE_KEY": key}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)


async def working(client: Client) -> str:
    """Wait until the server has begun to answer; return the run."""
    found = (await client.runs.list()).items
    while not found:
        await asyncio.sleep(TICK_S * 5)
        found = (await client.runs.list()).items
    async with client.events(run_id=found[0].run_id) as feed:
        async for event in feed:
            if event.type == "message.appended":
                return found[0].run_id
    raise AssertionError("the run ended before it was observed")


async def done_once(client: Client, child: subprocess.Popen[str], run_id: str) -> str:
    """Wait for the parent; return its output. The server has done the work once."""
    said, _ = await asyncio.to_thread(child.communicate, None, TIMEOUT_S)
    assert said.endswith("completed: The helper is done.\ncompleted\n"), said
    assert [one.run_id for one in (await client.runs.list()).items] == [run_id]
    assert len((await client.sessions.list()).items) == 1
    events = [event async for event in client.events(run_id=run_id)]
    paid = [event for event in events if event.type == "action.result" and "paid" in str(event.data)]
    assert len(paid) == 1
    return said


@pytest.mark.parametrize("who", ["parent", "server"])
def test_remote_work_is_done_once_when_either_process_is_killed(tmp_path: Path, who: str) -> None:
    async def main() -> None:
        keyring = Keyring(tmp_path / "keys.json")
        key = keyring.add("a", "acme", user="ann", roles=["approver"])
        data, store, keys = tmp_path / "data", tmp_path / "app.db", ("--keys", str(keyring.path))
        with process(data, *keys) as (server, port):
            url = f"http://127.0.0.1:{port}"
            async with Client(url, key=key) as client:
                with parent(store, url, key) as child:
                    run_id = await working(client)
                    if who == "parent":
                        child.send_signal(signal.SIGKILL)
                        child.wait(TIMEOUT_S)
                        with parent(store, url, key) as second:
                            said = await done_once(client, second, run_id)
                    else:
                        server.send_signal(signal.SIGKILL)
                        server.wait(TIMEOUT_S)
                        with process(data, *keys, port=port):
                            said = await done_once(client, child, run_id)
        assert said.count("run.waiting input") == 1
        keys_used.append(key.encode())

    keys_used: list[bytes] = []
    run(main())
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or keys_used[0] not in path.read_bytes(), path

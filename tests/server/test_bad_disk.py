"""A server whose disk is full or fails: it says why, is not ready, and goes on by itself."""

import os
import re
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx2
import pytest
from tests.server.rig import Json, eventually, http_client, process, run

DISK_BYTES = 6 * 1_048_576


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "windlass-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a small disk needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Use all the space of a disk."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        size = DISK_BYTES
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


async def until(client: httpx2.AsyncClient, path: str, is_so: Callable[[httpx2.Response], bool]) -> Json:
    """Ask a route until its answer is as wanted."""
    while not is_so(answer := await client.get(path)):
        pass
    return answer.json()


async def story(
    effects: Path, port: int, *, break_disk: Callable[[], None], mend_disk: Callable[[], None], cause: str
) -> None:
    """Break the disk while a tool works; see what the server says; mend the disk, and see it go on."""
    async with http_client(f"http://127.0.0.1:{port}/v1") as client:
        assert (await client.get("/ready")).json()["status"] == "ok"
        begun = (await client.post("/sessions", json={"message": "work"})).json()
        await eventually((effects / "calls").exists)
        break_disk()
        (effects / "go").touch()
        problem = await until(client, "/ready", lambda answer: answer.status_code == 503)
        assert re.search(cause, problem["detail"])
        refused = await client.post("/sessions", json={"message": "more"})
        assert refused.status_code in (503, 504)
        refused = await client.post("/sessions", json={"message": "more"})
        assert refused.status_code == 503
        assert re.search(cause, refused.json()["detail"])
        health = await client.get("/health")
        assert health.status_code == 200
        assert re.search(cause, health.json()["problem"])
        eve = await client.get(f"http://127.0.0.1:{port}/eve/v1/health")
        assert (eve.status_code, eve.json()["ok"], "retry-after" in eve.headers) == (503, False, True)
        assert re.search(cause, eve.json()["error"])
        # What is stored is shown meanwhile.
        assert (await client.get(f"/runs/{begun['runId']}")).json()["run"]["status"] == "running"
        mend_disk()
        await until(client, "/ready", lambda answer: answer.status_code == 200)
        assert "problem" not in (await client.get("/health")).json()
        assert (await client.get(f"http://127.0.0.1:{port}/eve/v1/health")).json()["ok"] is True
        ended = await until(
            client, f"/runs/{begun['runId']}", lambda answer: answer.json()["run"]["status"] != "running"
        )
        assert ended["result"]["output"] == "all done"
        assert (effects / "calls").read_bytes() == b"c\n"
        after = await client.post("/sessions", json={"message": "more"})
        assert after.status_code in (200, 201, 202)


def serving(
    data: Path, effects: Path, durability: str
) -> AbstractContextManager[tuple[subprocess.Popen[str], int]]:
    """Serve in a process of its own."""
    effects.mkdir()
    return process(
        data, "--effects", str(effects), "--durability", durability, module="tests.server.slow_tool"
    )


@pytest.mark.promise("J1")
@pytest.mark.parametrize("durability", ["power", "process"])
def test_a_server_on_a_full_disk_says_so_and_goes_on_when_there_is_space(
    disk: Path, tmp_path: Path, durability: str
) -> None:
    effects = tmp_path / "effects"
    with serving(disk / "data", effects, durability) as (_, port):
        run(
            story(
                effects,
                port,
                break_disk=lambda: fill(disk),
                mend_disk=(disk / "ballast").unlink,
                cause=r"disk full \(SQLITE_FULL\)",
            )
        )


@pytest.mark.promise("J1")
@pytest.mark.parametrize("durability", ["power", "process"])
def test_a_server_whose_writes_fail_says_so_and_goes_on_when_they_work(
    tmp_path: Path, durability: str
) -> None:
    effects = tmp_path / "effects"
    with serving(tmp_path / "data", effects, durability) as (child, port):

        def limit(size: int) -> None:
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

        run(
            story(
                effects,
                port,
                break_disk=lambda: limit(64),
                mend_disk=lambda: limit(resource.RLIM_INFINITY),
                cause=r"\((SQLITE_IOERR_WRITE|EFBIG)\)",
            )
        )

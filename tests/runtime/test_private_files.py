"""Files and folders of stores: only their owner can use them, whatever the umask."""

import asyncio
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contracts.stores import claim

from windlass.ledger import DecisionType, Runtime
from windlass.private_files import make_database, make_folder, open_private, tighten_database, write_private
from windlass.sandboxes.processes import Folders
from windlass.sqlite.store import SqliteStore


@pytest.fixture(params=[0, 0o022, 0o777], ids=["0", "022", "777"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the permissions of everything below a folder."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))
    }


def are_private(folder: Path) -> bool:
    found = modes(folder)
    return found == {name: 0o700 if (folder / name).is_dir() else 0o600 for name in found}


def loosen(folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o664)


@pytest.mark.usefixtures("umask")
def test_the_files_of_an_open_store_are_private(tmp_path: Path) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "app.db")
        await claim(store)
        found = modes(tmp_path)
        assert {"app.db", "app.db-mark", "app.db-owners", "app.db-shm", "app.db-wal"} < found.keys()
        assert len(found) == 6
        assert are_private(tmp_path), found
        await store.aclose()

    asyncio.run(story())


@pytest.mark.usefixtures("umask")
def test_the_files_of_a_recorder_are_private(tmp_path: Path) -> None:
    recorder = Runtime(tmp_path / "deep" / "records")
    recorder.start_run("goal")
    recorder.decide(
        "why", [{"id": "a", "description": "a"}], "a", "because", decision_type=DecisionType.CUSTOM
    )
    found = modes(tmp_path)
    assert "deep/records/recorder.db-spool" in found
    assert are_private(tmp_path), found
    recorder.end_run(success=True)
    found = modes(tmp_path)
    assert any(name.startswith("deep/records/runs/") for name in found)
    assert are_private(tmp_path), found


def test_files_that_others_could_use_are_tightened_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        store = await SqliteStore.open(tmp_path / "app.db")
        await claim(store)
        loosen(tmp_path)
        other = await SqliteStore.open(tmp_path / "app.db")
        await claim(other, "s2", "o2")
        assert are_private(tmp_path), modes(tmp_path)
        await other.aclose()
        await store.aclose()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    for name in ("app.db", "app.db-wal", "app.db-shm", "app.db-mark"):
        assert f"other users could use {tmp_path / name}: its mode was 664 and is 600 now" in caplog.text
    assert (
        f"other users could use {tmp_path / 'app.db-owners'}: its mode was 777 and is 700 now" in caplog.text
    )


def test_an_existing_folder_keeps_its_permissions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    chosen.chmod(0o755)

    async def story() -> None:
        make_folder(chosen)
        Runtime(chosen).start_run("goal")
        store = await SqliteStore.open(chosen / "app.db")
        await claim(store)
        await store.aclose()
        Folders(chosen).folder("session")

    asyncio.run(story())
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o755
    assert not caplog.records


def test_a_missing_folder_of_sandboxes_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Folders(tmp_path / "deep" / "boxes").folder("session")
    finally:
        os.umask(before)
    assert are_private(tmp_path), modes(tmp_path)


def test_a_folder_is_not_made_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        make_folder(tmp_path / "a" / "b")


def test_permissions_that_cannot_be_changed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: object, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "app.db"
    path.write_bytes(b"")
    path.chmod(0o644)
    monkeypatch.setattr(os, "chmod", refuse)
    tighten_database(path)
    assert f"other users can use the file {path} (mode 644): Operation not permitted" in caplog.text


def test_a_system_on_which_only_the_administrator_makes_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "mknod", refuse)
    make_database(tmp_path / "app.db")
    assert modes(tmp_path) == {"app.db": 0o600}


def test_a_pipe_is_no_private_file_and_keeps_its_rights(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    pipe.chmod(0o666)
    with pytest.raises(OSError, match="not a regular file"):
        open_private(pipe, os.O_RDWR)
    assert stat.S_IMODE(pipe.stat().st_mode) == 0o666


def test_an_existing_file_is_tightened_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "name"
    path.write_bytes(b"older and longer")
    path.chmod(0o644)
    write_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert modes(tmp_path) == {"name": 0o600}
    os.close(open_private(path, os.O_RDONLY))

"""`migrate`: an older store is copied and brought up to date, a newer refused."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.commands import run_here

from tools.postgres import Postgres
from windlass import Unavailable
from windlass.postgres import schema as postgres_schema
from windlass.sqlite import schema as sqlite_versions
from windlass.sqlite.schema import MIGRATIONS, back_up, connect, prepare, version_of

NEWEST = len(MIGRATIONS)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def older(path: Path) -> None:
    """Make a store as the first release did."""
    with closing(connect(path)) as connection:
        prepare(connection, path, durability="process", migrations=MIGRATIONS[:1])


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [number] = connection.execute("PRAGMA user_version").fetchone()
        return int(number)


def test_migrate_backs_up_an_older_store_and_upgrades_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.db"
    older(old)
    trial = run_here(capsys, "--store", "old.db", "migrate", "--dry-run")
    assert trial.code == 0
    assert f"schema version 1 → {NEWEST}, to be migrated" in trial.out
    assert version(old) == 1
    done = run_here(capsys, "--store", "old.db", "migrate", "--json")
    told = json.loads(done.out)
    assert (told["from"], told["to"], told["isMigrated"]) == (1, NEWEST, True)
    assert version(old) == NEWEST
    assert version(Path(told["backup"])) == 1
    assert "up to date" in run_here(capsys, "--store", "old.db", "migrate").out
    assert run_here(capsys, "--store", "old.db", "runs", "list").code == 0


def test_a_backup_does_not_overwrite_an_existing_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older(tmp_path / "old.db")
    (tmp_path / "old.db.v1.bak").write_text("mine", encoding="utf-8")
    assert "old.db.v1-2.bak" in run_here(capsys, "--store", "old.db", "migrate").out
    assert (tmp_path / "old.db.v1.bak").read_text(encoding="utf-8") == "mine"


def test_migrate_upgrades_all_stores_of_the_folder_without_backups_if_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "windlass-data"
    folder.mkdir()
    for name in ("ann.db", "local.db"):
        older(folder / name)
    (folder / "ann.tenant").write_text("ann", encoding="utf-8")
    assert run_here(capsys, "migrate", "--no-backup").code == 0
    assert [version(folder / name) for name in ("ann.db", "local.db")] == [NEWEST, NEWEST]
    assert not list(folder.glob("*.bak"))


def test_a_foreign_file_in_the_data_folder_is_not_migrated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "windlass-data"
    folder.mkdir()
    older(folder / "local.db")
    (folder / "other.db").write_text("something else entirely " * 100, encoding="utf-8")
    assert run_here(capsys, "migrate").code == 0
    assert version(folder / "local.db") == NEWEST


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_only_its_owner_can_use_a_backup(tmp_path: Path, mode: int) -> None:
    old = tmp_path / "old.db"
    older(old)
    old.chmod(mode)
    assert back_up(version_of(old)).stat().st_mode & 0o777 == 0o600


def test_a_backup_gets_its_name_when_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "old.db"
    older(old)

    def killed(_: int) -> None:
        assert not list(tmp_path.glob("*.bak"))
        raise OSError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_versions.os, "fsync", killed)
        with pytest.raises(Unavailable):
            back_up(version_of(old))
    assert not [*tmp_path.glob("*.bak*"), *tmp_path.glob("*.part*")]


def test_a_backup_is_named_after_the_version_of_its_content(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    older(old)
    seen = version_of(old)
    with closing(connect(old)) as connection:
        prepare(connection, old, durability="process")
    copy = back_up(seen)
    assert copy.name == f"old.db.v{NEWEST}.bak"
    assert version(copy) == NEWEST


def test_a_newer_store_is_refused_and_the_others_stay_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "windlass-data"
    folder.mkdir()
    for name in ("ann.db", "local.db"):
        older(folder / name)
    (folder / "ann.tenant").write_text("ann", encoding="utf-8")
    with closing(sqlite3.connect(folder / "local.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    ran = run_here(capsys, "migrate")
    assert ran.code == 2
    assert f"schema version 99, this release knows up to {NEWEST}" in ran.err
    assert version(folder / "ann.db") == 1


def test_migrate_refuses_missing_empty_and_foreign_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.db").touch()
    (tmp_path / "text.db").write_text("something else entirely " * 100, encoding="utf-8")
    for arguments, told in (
        ((), "there are no stores in"),
        (("--store", "none.db"), "there is no store"),
        (("--store", "empty.db"), "is empty"),
        (("--store", "text.db"), "not a database"),
    ):
        ran = run_here(capsys, *arguments, "migrate")
        assert ran.code == 2, (arguments, ran.err)
        assert told in ran.err


def test_a_store_in_postgresql_is_used_by_its_address_and_migrated_by_the_command_alone(
    postgres: Postgres, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, now = postgres.new_database(), len(postgres_schema.MIGRATIONS)
    for _ in range(2):
        trial = run_here(capsys, "--store", address, "migrate", "--dry-run")
        assert f"0 → {now}, to be migrated" in trial.out
    assert f"0 → {now}, migrated" in run_here(capsys, "--store", address, "migrate").out
    assert run_here(capsys, "--store", address, "runs", "list").code == 0
    assert f"schema version {now}, up to date" in run_here(capsys, "--store", address, "migrate").out
    versions = (*postgres_schema.MIGRATIONS, ("CREATE TABLE later (one INTEGER)",))
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", versions)
    refused = run_here(capsys, "--store", address, "runs", "list")
    assert refused.code != 0
    assert "run windlass migrate" in " ".join(refused.err.split())
    assert (
        f"{now} → {now + 1}, to be migrated"
        in run_here(capsys, "--store", address, "migrate", "--dry-run").out
    )
    done = json.loads(run_here(capsys, "--store", address, "migrate", "--json").out)
    assert (done["from"], done["to"], done["isMigrated"]) == (now, now + 1, True)
    assert run_here(capsys, "--store", address, "runs", "list").code == 0
    assert "tables are of this release" in run_here(capsys, "--store", address, "doctor").out
    # A tenant has a schema of its own.
    other = f"{address}&schema=windlass_t_acme"
    assert run_here(capsys, "--store", other, "migrate").code == 0
    both = run_here(capsys, "--store", address, "migrate").out.splitlines()
    names = [line.split("schema=")[1].split(":")[0] for line in both]
    assert names == ["windlass", "windlass_t_acme"]


def test_a_command_that_reads_makes_no_store_in_postgresql(
    postgres: Postgres, capsys: pytest.CaptureFixture[str]
) -> None:
    address = postgres.new_database()
    assert run_here(capsys, "--store", address, "migrate").code == 0
    mistyped = f"{address}&schema=windlss"
    for command in (("runs", "list"), ("approvals", "list")):
        refused = run_here(capsys, "--store", mistyped, *command)
        assert (refused.code, "has no store" in " ".join(refused.err.split())) == (2, True), refused
    assert "windlss" not in run_here(capsys, "--store", address, "migrate").out

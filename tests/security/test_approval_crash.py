"""A crash between consent and effect: the consent is not lost, and not used twice."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.bank import asked, codes, ended, play, records_of, types
from tests.security.killed import POINTS, STORY_S_MAX, Point, payer

from windlass import AgentRuntime
from windlass.tools import EffectName
from windlass_protocol import JsonObject


def crash(folder: Path, point: Point, effect: EffectName, secret: str = "") -> None:
    """Let a process ask, be answered and be killed."""
    number = str(POINTS.index(point))
    command = [sys.executable, "-m", "tests.security.killed", str(folder), number, effect, secret]
    ended = subprocess.run(command, timeout=STORY_S_MAX * 2, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def paid(folder: Path) -> int:
    ledger = folder / "ledger"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


@pytest.mark.promise("A1")
@pytest.mark.parametrize("effect", ["once", "idempotent"])
@pytest.mark.parametrize("point", POINTS)
def test_consent_survives_a_crash_and_is_used_as_the_effect_allows(
    tmp_path: Path, point: Point, effect: EffectName
) -> None:
    crash(tmp_path, point, effect)
    before = paid(tmp_path)
    assert before == (point == "effect done")
    is_begun = point in ("start durable", "effect done")

    async def story() -> None:
        agent = payer(tmp_path / "ledger", effect)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            if is_begun and effect == "once":
                # Whether it was paid is not known, so a person is asked that; the consent is not used again.
                (request,) = await asked(handle, 2)
                assert str(request.kind) == "recovery"
                assert paid(tmp_path) == before
                await handle.answer(request.request_id, "skip", responder="ann")
            assert await ended(handle) == "completed"
            found = await types(handle)
            assert found.count("approval.settled") == 1
            kinds = [str(request["kind"]) for request in await requests(tmp_path)]
            assert kinds.count("approval") == 1, "no approval was requested twice"

    play(story())
    again = is_begun and effect == "idempotent"
    assert paid(tmp_path) == before + (not is_begun or again)


async def requests(folder: Path) -> list[JsonObject]:
    found: list[JsonObject] = []
    for record in await records_of(folder / "a.db", "s"):
        if record.type == "input.requested":
            given = record.data["requests"]
            assert isinstance(given, list)
            found += [one for one in given if isinstance(one, dict)]
    return found


@pytest.mark.promise("A1")
def test_a_retry_after_a_crash_is_a_decision_of_its_own(tmp_path: Path) -> None:
    crash(tmp_path, "effect done", "once")

    async def story() -> None:
        agent = payer(tmp_path / "ledger", "once")
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            (request,) = await asked(handle, 2)
            assert paid(tmp_path) == 1
            await handle.answer(request.request_id, "retry", responder="ann")
            assert await ended(handle) == "completed"
            assert await codes(handle) == [None]

    play(story())
    assert paid(tmp_path) == 2


SECRET = "canary-0815-Zq9x7w"


@pytest.mark.promise("S1")
@pytest.mark.parametrize("point", POINTS)
def test_a_call_that_lost_its_secret_argument_in_a_crash_is_refused(tmp_path: Path, point: Point) -> None:
    crash(tmp_path, point, "idempotent", SECRET)
    before = paid(tmp_path)
    database = b"".join(path.read_bytes() for path in tmp_path.glob("a.db*") if path.is_file())
    assert SECRET.encode() not in database

    async def story() -> None:
        agent = payer(tmp_path / "ledger", "idempotent", note=SECRET)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent], secrets=[SECRET]) as runtime:
            handle = runtime.handle("r1")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["secret_arguments"]

    play(story())
    assert paid(tmp_path) == before
    if before:
        assert SECRET in (tmp_path / "ledger").read_text(), "the tool got it while the process lived"

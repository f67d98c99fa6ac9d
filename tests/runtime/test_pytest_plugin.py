"""The fixtures of `windlass.testing.pytest`, in a pytest of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = 'pytest_plugins = ["windlass.testing.pytest"]\n'
TESTS = '''
from windlass import Agent, AgentRuntime, RunResult, tool
from windlass.testing import FakeClock, call, fail, say
from windlass.testing.pytest import MakeModel, RunStory


@tool(mode="external", effect="idempotent")
async def refund(cents: int) -> str:
    """Refund a customer."""
    return f"refunded {cents}"


def test_a_refund_is_approved(windlass_runtime: RunStory, scripted_model: MakeModel) -> None:
    desk = Agent("desk", model=scripted_model(call("refund", {"cents": 5}), say("Done.")), tools=[refund])

    async def story(runtime: AgentRuntime) -> tuple[str, RunResult]:
        handle = await runtime.start(desk, "Refund.")
        async for request in handle.requests():
            await handle.answer(request.request_id, "approve")
        return handle.run_id, await handle.wait()

    (first, result), (second, _) = (windlass_runtime(story, agents=[desk]) for _ in range(2))
    assert result.output == "Done."
    assert first == second, "ids are the same in each run"


def test_a_request_expires_without_waiting(
    windlass_runtime: RunStory, scripted_model: MakeModel, fake_clock: FakeClock
) -> None:
    desk = Agent("desk", model=scripted_model(call("refund", {"cents": 5}), say("Late.")), tools=[refund])
    before = fake_clock.now()

    async def story(runtime: AgentRuntime) -> str | None:
        return (await (await runtime.start(desk, "Refund.")).wait()).output

    assert windlass_runtime(story, agents=[desk], approval_expires_ms=86_400_000) == "Late."
    assert (fake_clock.now() - before).days == 1
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "test_desk.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def test_the_fixtures_serve_plain_tests_without_other_plugins(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr

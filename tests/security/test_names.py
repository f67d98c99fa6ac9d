"""Secrets in names that callers give reach neither the store nor an error."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.security.bank import play

from windlass import Agent, AgentRuntime
from windlass.errors import AgentError
from windlass.testing import ScriptedModel, say
from windlass_protocol import RunRequest

SECRET = "canary-7f3K9qLmZ2xW"
LONG = "x" * 480 + SECRET
"""Names made of it are too long, and are hashed."""


def request(runtime: AgentRuntime, **names: str) -> RunRequest:
    return RunRequest.model_validate(
        {"run_id": "r2", "agent_id": "clerk", "input": "hello", "session_id": "s1", **names}
    )


ENTRIES: dict[str, Callable[[AgentRuntime, str], Awaitable[object]]] = {
    "start run_id": lambda runtime, name: runtime.start_run("clerk", "hello", run_id=name),
    "start session_id": lambda runtime, name: runtime.start_run("clerk", "hello", session_id=name),
    "start agent": lambda runtime, name: runtime.start_run(name, "hello"),
    "start_run agent_id": lambda runtime, name: runtime.start_run(request(runtime, agent_id=name)),
    "steer message_id": lambda runtime, name: runtime.steer(
        "clerk", "hello", session_id="s1", message_id=name
    ),
    "steer session_id": lambda runtime, name: runtime.steer("clerk", "hello", session_id=name),
    "steer_session": lambda runtime, name: runtime.core.starts.steer(request(runtime), message_id=name),
    "status": lambda runtime, name: runtime.handle(name).status(),
    "cancel": lambda runtime, name: runtime.cancel_run(name),
    "retry": lambda runtime, name: runtime.handle(name).retry(),
    "compact": lambda runtime, name: runtime.sessions.compact(name),
}


@pytest.mark.parametrize("name", [SECRET, LONG], ids=["short", "long"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_a_name_that_holds_a_secret_is_refused_and_not_repeated(
    entry: str, name: str, tmp_path: Path
) -> None:
    async def story() -> str:
        agent = Agent("clerk", model=ScriptedModel(lambda _: say("done")))
        async with AgentRuntime.open(tmp_path / "app.db", agents=[agent], secrets=[SECRET]) as runtime:
            await (await runtime.start_run(agent, "hello", session_id="s1", run_id="r1")).wait()
            with pytest.raises(AgentError) as refused:
                await ENTRIES[entry](runtime, name)
            return f"{refused.value} {refused.value.info()!r}"

    assert SECRET not in play(story())
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not any(re.search(SECRET.encode(), file.read_bytes()) for file in files)

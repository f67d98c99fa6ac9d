"""The test kit of the port of wakes: workers that are killed, stopped, replaced and woken in vain.

`check_wakes` starts real worker processes over a store in PostgreSQL and does to them what happens in a
fleet. An adapter that passes it may be slow or repeat itself; it may not lose a session.
"""

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Final, cast

from windlass.adapters.system import SystemClock
from windlass.agent import Agent
from windlass.ports.journal import Standing
from windlass.ports.wakes import Wakes
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.handle import RunHandle
from windlass.runtime.options import RuntimeOptions
from windlass.testing.models import ScriptedModel, by_history, call, say
from windlass.tools import ToolContext, tool
from windlass_harness.record import Record
from windlass_protocol import RunStatus
from windlass_protocol.generated.records import ActionResult, RunCompleted

WAKE_CASES: Final = ("kill", "stop", "park", "upgrade", "cancel", "lost", "duplicate", "restart")
"""The cases of `check_wakes`: SIGKILL of a worker; SIGSTOP of a worker and its return; a session that parks;
a new release while it is parked; a cancel; a wake that is never sent; many wakes for one; a restart of the
engine."""
GUARD_S: Final = 300.0
"""A guard against a hang, not a claim about speed."""
_LOOK_S: Final = 0.05
_WAKES: Final = 20
_CLOCK: Final = SystemClock()
_EFFECTS: Final = "effects"


async def check_wakes(
    store: str,
    wakes: str = "",
    *,
    folder: Path,
    cases: Collection[str] = WAKE_CASES,
    restart: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Check an engine of wakes; all cases share workers, and take about a minute.

    `wakes` is what `AgentRuntime.open` takes as an address, `module:function` of a function that makes an
    adapter, or empty for the processes themselves. `folder` is empty and on this machine; `restart` restarts
    the engine, and without it that case is left out.

    Raises:
        AssertionError: a case failed; the message begins with its name.
    """
    kit = _Kit(store, wakes, folder)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(kit.aclose)
        api = await stack.enter_async_context(kit.api(wakes))
        victims = sum(victim in cases for victim in ("kill", "stop"))
        await kit.start_workers(1 + victims)
        killed = await kit.hurt(api, "kill", signal.SIGKILL) if "kill" in cases else None
        stopped = await kit.hurt(api, "stop", signal.SIGSTOP) if "stop" in cases else None
        for name, case in _QUICK.items():
            if name in cases:
                await case(kit, api)
        if "restart" in cases and restart is not None:
            await kit.check_restarted(api, restart)
        if killed is not None:
            await kit.check_continued(api, "kill", killed)
        if stopped is not None:
            await kit.check_returned(api, stopped)


class _Kit:
    """The workers, and what they did."""

    def __init__(self, store: str, wakes: str, folder: Path) -> None:
        self._store = store
        self._wakes = wakes
        self._folder = folder
        self._workers: dict[int, asyncio.subprocess.Process] = {}
        self._release = 1

    @asynccontextmanager
    async def api(self, wakes: str) -> AsyncGenerator[AgentRuntime]:
        """Open a runtime that does not drive."""
        options: RuntimeOptions = {"is_driving": False, **_wakes_option(wakes)}
        async with AgentRuntime.open(self._store, agents=_agents(self._folder, 0), **options) as runtime:
            yield runtime

    async def start_workers(self, count: int = 1) -> None:
        """Start workers of the present release; return once they drive."""
        arguments = (self._store, self._wakes, str(self._folder), str(self._release))
        started = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", __name__, *arguments, stdout=asyncio.subprocess.PIPE
            )
            for _ in range(count)
        ]
        for worker in started:
            self._workers[worker.pid] = worker
            assert worker.stdout is not None
            async with asyncio.timeout(GUARD_S):
                assert await worker.stdout.readline() == b"ready\n", "start: a worker did not start"

    async def aclose(self) -> None:
        """Kill the workers that are left."""
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                worker.kill()
            await worker.wait()

    # cases

    async def hurt(self, api: AgentRuntime, name: str, number: signal.Signals) -> RunHandle[object]:
        """Send a signal to the worker that drives a session, in the middle of a call."""
        handle = await api.start_run("holder", name, session_id=name, run_id=name)
        pid = await self._wait_for_call(name)
        os.kill(pid, number)
        if number is signal.SIGKILL:
            await self._workers.pop(pid).wait()
        self._let_go(name)
        return handle

    async def check_continued(self, api: AgentRuntime, name: str, handle: RunHandle[object]) -> Record:
        """Wait until another worker has continued a run; return the record of its call's result."""
        result = await handle.wait(timeout=GUARD_S)
        assert result.status is RunStatus.COMPLETED, f"{name}: the run ended {result.status}"
        records = await _records(api, name)
        results = [record for record in records if record.type == ActionResult.TYPE]
        ends = [record for record in records if record.type == RunCompleted.TYPE]
        assert len(results) == len(ends) == 1, f"{name}: {len(results)} results, {len(ends)} ends"
        assert results[0].epoch != records[0].epoch, f"{name}: the first owner wrote the result"
        return results[0]

    async def check_returned(self, api: AgentRuntime, handle: RunHandle[object]) -> None:
        """Let the stopped worker go on: it learns that it was replaced, and drives other sessions."""
        await self.check_continued(api, "stop", handle)
        pid = await self._wait_for_call("stop")
        before = await _records(api, "stop")
        os.kill(pid, signal.SIGCONT)
        for other_pid in [worker for worker in self._workers if worker != pid]:
            await self._end(other_pid)
        await self._run(api, "stop-after")
        assert await _records(api, "stop") == before, "stop: a replaced worker wrote records"

    async def check_parked(self, api: AgentRuntime) -> None:
        """A session that waits for a person has no owner; its answer wakes it."""
        await self._run_with_answer(api, "park")

    async def check_upgraded(self, api: AgentRuntime) -> None:
        """Workers are replaced by a new release while a session is parked."""
        await self._wait(api, "upgrade")
        old = [pid for pid in self._workers if _is_awake(pid)]
        self._release += 1
        await self.start_workers()
        for pid in old:
            await self._end(pid)
        await self._answer(api, "upgrade")
        result = await api.handle("upgrade").wait(timeout=GUARD_S)
        assert result.output == f"signed with release {self._release}", f"upgrade: {result.output}"

    async def check_cancelled(self, api: AgentRuntime) -> None:
        """A run that another process drives is cancelled."""
        handle = await api.start_run("holder", "cancel", session_id="cancel", run_id="cancel")
        await self._wait_for_call("cancel")
        await api.cancel_run("cancel")
        result = await handle.wait(timeout=GUARD_S)
        assert result.status is RunStatus.CANCELLED, f"cancel: the run ended {result.status}"

    async def check_lost(self, _: AgentRuntime) -> None:
        """A message without a wake is found by the sweeps."""
        async with self.api("") as silent:
            await self._run(silent, "lost")

    async def check_duplicated(self, api: AgentRuntime) -> None:
        """Many wakes of one session have the effect of one, during its drive and after."""
        engine = api.core.ports.wakes
        handle = await api.start_run("holder", "duplicate", session_id="duplicate", run_id="duplicate")
        await self._wait_for_call("duplicate")
        for _ in range(_WAKES if engine is not None else 0):
            cast("Wakes", engine).wake("duplicate")
        self._let_go("duplicate")
        await handle.wait(timeout=GUARD_S)
        for _ in range(_WAKES if engine is not None else 0):
            cast("Wakes", engine).wake("duplicate")
        await self._run(api, "duplicate-after")
        begin_lines = [line for line in self._lines() if line[:2] == ["duplicate", "begin"]]
        assert len(begin_lines) == 1, f"duplicate: the call was made {len(begin_lines)} times"

    async def check_restarted(self, api: AgentRuntime, restart: Callable[[], Awaitable[None]]) -> None:
        """The engine goes away and comes back, during a drive and while a session is parked."""
        handle = await api.start_run("holder", "restart", session_id="restart", run_id="restart")
        await self._wait_for_call("restart")
        await self._wait(api, "restart-parked")
        await restart()
        self._let_go("restart")
        result = await handle.wait(timeout=GUARD_S)
        assert result.status is RunStatus.COMPLETED, f"restart: the run ended {result.status}"
        await self._answer(api, "restart-parked")
        await api.handle("restart-parked").wait(timeout=GUARD_S)
        await self._run(api, "restart-after")

    # steps

    async def _run(self, api: AgentRuntime, name: str) -> None:
        self._let_go(name)
        result = await (await api.start_run("holder", name, session_id=name, run_id=name)).wait(
            timeout=GUARD_S
        )
        assert result.status is RunStatus.COMPLETED, f"{name}: the run ended {result.status}"

    async def _run_with_answer(self, api: AgentRuntime, name: str) -> None:
        await self._wait(api, name)
        await self._answer(api, name)
        result = await api.handle(name).wait(timeout=GUARD_S)
        assert result.status is RunStatus.COMPLETED, f"{name}: the run ended {result.status}"

    async def _wait(self, api: AgentRuntime, name: str) -> None:
        """Start a run that asks; return once its session is parked."""
        await api.start_run("asker", name, session_id=name, run_id=name)
        store = api.core.ports.store
        assert store is not None, "it was opened on one"
        async with asyncio.timeout(GUARD_S):
            while True:
                row = await store.session(name)
                if row is not None and row.standing is Standing.WAITING and row.owner_id is None:
                    return
                await _CLOCK.sleep(_LOOK_S)

    async def _answer(self, api: AgentRuntime, name: str) -> None:
        (request,) = await api.handle(name).open_requests()
        await api.handle(name).answer(request.request_id, "approve")

    async def _end(self, pid: int) -> None:
        """Stop a worker in order; it parks its sessions."""
        worker = self._workers.pop(pid)
        worker.terminate()
        async with asyncio.timeout(GUARD_S):
            code = await worker.wait()
        assert code == 0, f"a worker ended with {code} after SIGTERM"

    def _let_go(self, name: str) -> None:
        (self._folder / f"{name}.go").touch()

    def _lines(self) -> list[list[str]]:
        try:
            return [line.split() for line in (self._folder / _EFFECTS).read_text().splitlines()]
        except FileNotFoundError:
            return []

    async def _wait_for_call(self, name: str) -> int:
        """Return the process that made the first call of a session, once it has begun."""
        async with asyncio.timeout(GUARD_S):
            while True:
                for line in self._lines():
                    if line[:2] == [name, "begin"]:
                        return int(line[2])
                await _CLOCK.sleep(_LOOK_S)


_QUICK: Final[dict[str, Callable[[_Kit, AgentRuntime], Awaitable[None]]]] = {
    "park": _Kit.check_parked,
    "upgrade": _Kit.check_upgraded,
    "cancel": _Kit.check_cancelled,
    "lost": _Kit.check_lost,
    "duplicate": _Kit.check_duplicated,
}


async def _records(api: AgentRuntime, session_id: str) -> list[Record]:
    records: list[Record] = []
    while more := await api.sessions.records(session_id, after=records[-1].seq if records else 0):
        records += more
    return records


def _is_awake(pid: int) -> bool:
    """Return whether a process is not stopped by a signal."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state != "T"


def _wakes_option(wakes: str) -> RuntimeOptions:
    module, _, name = wakes.partition(":")
    if not wakes or "//" in wakes:
        return {"wakes": wakes} if wakes else {}
    make = cast("Callable[[], Wakes]", getattr(importlib.import_module(module), name))
    return {"wakes": make()}


# the worker


def _agents(folder: Path, release: int) -> Iterable[Agent]:
    @tool(mode="read")
    async def hold(ctx: ToolContext) -> str:
        """Say that it begins, and wait for a file of the name of the session."""
        name = ctx.session_id
        _note(folder, f"{name} begin {os.getpid()}")
        while not (folder / f"{name}.go").exists():
            await _CLOCK.sleep(_LOOK_S)
        return "held"

    @tool(mode="external")
    async def sign() -> str:
        """Sign; a person must allow it."""
        return "signed"

    done = f"signed with release {release}"
    yield Agent("holder", model=ScriptedModel(by_history([call("hold"), say("done")])), tools=[hold])
    yield Agent("asker", model=ScriptedModel(by_history([call("sign"), say(done)])), tools=[sign])


def _note(folder: Path, line: str) -> None:
    with (folder / _EFFECTS).open("a") as file:
        file.write(f"{line}\n")


async def _work(store: str, wakes: str, folder: str, release: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    agents = _agents(Path(folder), int(release))
    async with AgentRuntime.open(store, agents=agents, **_wakes_option(wakes)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(_work(*sys.argv[1:]))

"""Starting subagents: the checks of every start, and packages that are kept."""

from typing import Final

from pydantic import JsonValue

from windlass.agent_output import output_contract
from windlass.engine.delegating import Task
from windlass.runtime_ports import RuntimePorts
from windlass.start import EffectivePackage, check_start, resolve_package, start_body
from windlass.start_names import check_no_secret, check_unused
from windlass.subagents import subagent_words
from windlass_protocol import RunMode, RunRequest, SessionCapabilities

JsonObject = dict[str, JsonValue]

KEPT_MAX: Final = 1_024
"""Packages that are known to be in the content store; a forgotten one is only looked for again."""


class PackageKeeper:
    """Keeps the packages of runs, so that they can go on under them whatever comes."""

    def __init__(self, ports: RuntimePorts) -> None:
        self._ports = ports
        self._kept: set[str] = set()

    async def keep(self, effective: EffectivePackage, run_id: str) -> None:
        """Keep the package of a run that has not begun.

        Raises:
            Rejected: it holds a registered secret.
            Unavailable: the store cannot be reached.
        """
        content, store, found = self._ports.content, self._ports.store, effective.fingerprint
        if found in self._kept or content is None or store is None or await store.run(run_id) is not None:
            return
        check_no_secret(self._ports, effective.content, run_id=run_id)
        await content.put(effective.content)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept.add(found)


class RuntimeDelegator:
    """Prepares the runs of subagents by the ports of a runtime."""

    def __init__(self, ports: RuntimePorts, keeper: PackageKeeper) -> None:
        self._ports = ports
        self._keeper = keeper

    async def __call__(self, task: Task) -> JsonObject:
        """Return what a run begins with; see `Delegator`."""
        package = await resolve_package(self._ports, task.package_id)
        agent, child, wanted = package.agent, task.child, task.output_schema
        request = RunRequest(
            run_id=child.run_id,
            agent_id=agent.agent_id,
            input=subagent_words(child.name, agent.description, message=task.message),
            session_id=child.session_id,
            package_id=task.package_id,
            mode=RunMode.TASK,
            source=task.run.source,
            # Who cannot put a question to people cannot let a subagent put one either.
            capabilities=None if task.run.can_ask else SessionCapabilities(request_input=False),
            output_contract=None if wanted is None else output_contract(wanted, child.name),
        )
        effective = await check_start(self._ports, request)
        assert self._ports.store is not None, "a start was checked, so there is one"
        await check_unused(self._ports.store, child)
        await self._keeper.keep(effective, child.run_id)
        return start_body(request, effective)

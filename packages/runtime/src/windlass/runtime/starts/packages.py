"""The package of a run: found, changed by its request, checked, and kept for as long as the run."""

from functools import partial
from typing import Final

from windlass.agent.package import (
    check_contract,
    check_package,
    fingerprint,
    package_json,
    with_batch,
)
from windlass.engine.tool_calls.approval import maybe_await
from windlass.errors import AgentError, is_for_us
from windlass.refusals import (
    contract_violation,
    invalid_package,
    missing_port,
    unknown_agent,
)
from windlass.runtime.registry import RuntimePorts
from windlass.tools.calling import after_few_checks, read_by_size
from windlass_harness.redact import mask_text
from windlass_protocol import (
    CausalIds,
    CodecError,
    OutputContract,
    RunRequest,
    RuntimePackage,
)
from windlass_protocol.frozen import sealed


async def check_no_secret(ports: RuntimePorts, content: bytes, *, run_id: str | None = None) -> None:
    """Refuse a package that holds a registered secret.

    A package is stored byte for byte for as long as its runs.

    Raises:
        Rejected: it holds a registered secret.
    """
    text = content.decode()
    if not await read_by_size(len(text), lambda: ports.scribe.redactor.text(text) == mask_text(text)):
        raise invalid_package(
            "the package holds a registered secret; keep secrets out of instructions, tools and settings, "
            "and let the tools read them",
            run_id,
        )


@sealed
class EffectivePackage:
    """The package that a request would run under."""

    package: RuntimePackage
    fingerprint: str

    @property
    def content(self) -> bytes:
        """The canonical JSON that the fingerprint is the hash of."""
        return package_json(self.package)


async def effective_package(ports: RuntimePorts, request: RunRequest) -> EffectivePackage:
    """Return the package of a request, with the changes that the request makes to it.

    Equal requests give equal packages.

    Raises:
        Rejected: the package is unknown, it cannot be run, or it belongs to another agent.
    """
    try:
        package = await _resolve(ports, request)
        if request.output_contract is not None:
            await after_few_checks(partial(check_contract, request.output_contract))
            package = with_contract(package, request.output_contract)
        if request.batch is not None:
            package = with_batch(package, None if request.batch == "off" else request.batch)
        registered = ports.registry.package(package.package_id)
        if registered is not None and registered.package is package:
            fingerprint = registered.fingerprint
        else:
            await after_few_checks(partial(check_package, package))
            fingerprint = None
        if package.agent.agent_id != request.agent_id:
            raise invalid_package("runtime package agent snapshot must match the run request agent_id")
        return EffectivePackage(package, fingerprint or fingerprint_of(package))
    except AgentError as error:
        raise error.caused_by(CausalIds(run_id=request.run_id)) from None


async def _resolve(ports: RuntimePorts, request: RunRequest) -> RuntimePackage:
    registered = ports.registry.agent(request.agent_id)
    agent_package_id = None if registered is None else registered.package.package_id
    package_id = request.package_id or agent_package_id or ports.default_package_id
    if package_id is None and len(ports.registry):
        raise unknown_agent(ports.scribe.redactor.text(request.agent_id), ports.registry.names)
    if package_id is None:
        raise missing_port("default runtime package")
    return await resolve_package(ports, package_id)


async def resolve_package(ports: RuntimePorts, package_id: str) -> RuntimePackage:
    """Return a package by its id.

    Raises:
        Rejected: the package is unknown, or it cannot be run.
    """
    resolver = ports.resolver or (ports.registry if len(ports.registry) else None)
    if resolver is None:
        raise missing_port("runtime package resolver")
    problem = ""
    try:
        package: object = await maybe_await(resolver.resolve(package_id))
    except AgentError:
        raise
    except BaseException as error:  # host code: its exception may quote secrets
        if is_for_us(error):
            raise
        package, problem = None, f"the package resolver failed ({type(error).__name__})"
    if problem:
        raise invalid_package(problem)
    if isinstance(package, RuntimePackage):
        return package
    return await after_few_checks(partial(check_package, package))


def fingerprint_of(package: RuntimePackage) -> str:
    """Return the fingerprint of a package.

    Raises:
        Conflict: the package cannot be written as canonical JSON.
    """
    try:
        return fingerprint(package)
    except CodecError as error:
        problem = error.message
    raise contract_violation(f"runtime package cannot be fingerprinted: {problem}")


def with_contract(package: RuntimePackage, contract: OutputContract) -> RuntimePackage:
    """Return a package with this output contract first, which is the one that its runs must fulfil.

    The other contracts of the package stay, except one with the same schema id.
    """
    other_contracts = (
        other for other in package.output_contracts or () if other.schema_id != contract.schema_id
    )
    return package.model_copy(update={"output_contracts": (contract, *other_contracts)})


KNOWN_PACKAGES_MAX: Final = 1_024
"""Packages known to be in the content store; a package beyond this is looked up again."""


class PackageKeeper:
    """Stores the packages of runs, so that a run can continue with the package it started with."""

    def __init__(self, ports: RuntimePorts) -> None:
        self._ports = ports
        self._known: set[str] = set()

    async def keep(self, effective: EffectivePackage, run_id: str) -> None:
        """Store the package of a run before it starts.

        Raises:
            Rejected: it holds a registered secret.
            Unavailable: the store cannot be reached.
        """
        content, store, fingerprint = self._ports.content, self._ports.store, effective.fingerprint
        if (
            fingerprint in self._known
            or content is None
            or store is None
            or await store.run(run_id) is not None
        ):
            return
        await check_no_secret(self._ports, effective.content, run_id=run_id)
        await content.put(effective.content)
        if len(self._known) >= KNOWN_PACKAGES_MAX:
            self._known.clear()
        self._known.add(fingerprint)

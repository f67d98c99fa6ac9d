"""Whether a package can be run; asked before anything is written."""

from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError

from windlass.agent_output import schema_hash
from windlass.errors import AgentError, Rejected
from windlass.json_schema import schema_problem
from windlass.package import compaction_config, compaction_route
from windlass.refusals import invalid_package
from windlass_protocol import (
    ErrorKind,
    OutputContract,
    RetryClass,
    RuntimePackage,
)

_VERSION: Final = 1


def check_package(package: object) -> RuntimePackage:
    """Return a package that can be run.

    A package that came as data was checked when it was read; this is for one that code made or changed.

    Raises:
        Rejected: it cannot be run; the message says what is wrong with it.
    """
    if not isinstance(package, RuntimePackage):
        raise invalid_package(f"a runtime package is needed, found {type(package).__name__}")
    if package.schema_version != _VERSION:
        raise invalid_package(f"runtime package schema version must be {_VERSION}")
    if not package.provider_route.route_id:
        raise invalid_package("runtime package provider_route.route_id is required")
    if not package.provider_route.model_id:
        raise invalid_package("runtime package provider_route.model_id is required")
    _check_shape(package)
    _check_names(
        "tools and subagents", [one.name for one in (*(package.tools or ()), *(package.subagents or ()))]
    )
    for contract in package.output_contracts or ():
        check_contract(contract)
    _check_names("hooks", [hook.hook_id for hook in package.hooks or ()])
    _check_names("output sinks", [sink.sink_id for sink in package.output_sinks or ()])
    return package


def _check_shape(package: RuntimePackage) -> None:
    try:
        RuntimePackage.model_validate(package.model_dump(mode="json", by_alias=True, warnings=False))
        compaction_config(package)
        compaction_route(package)
    except ValidationError as error:
        # The message of pydantic quotes the value; the place and the kind of slip are enough.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        problem = f"runtime package {place} is not valid ({first['type']})"
    else:
        return
    raise invalid_package(problem)


def _check_names(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise invalid_package(f"runtime package {what}: two are called {name}; give each its own name")
        seen.add(name)


def check_contract(contract: OutputContract) -> None:
    """See whether answers can be held against a contract.

    Raises:
        Rejected: its schema is none, could not be checked safely, or is not the one that its hash names.
    """
    found = schema_hash(contract.json_schema)
    if contract.content_hash is not None and contract.content_hash != found:
        raise _unusable(f"output contract {contract.schema_id}: its content hash is not that of its schema")
    problem = schema_problem(contract.json_schema)
    if problem is not None:
        raise _unusable(f"output contract {contract.schema_id}: {problem}")


def _unusable(message: str) -> AgentError:
    return Rejected(message, kind=ErrorKind.STRUCTURED_OUTPUT_FAILURE, retry=RetryClass.REPAIR_NEEDED)

"""Runtime packages: an agent compiled to canonical data, with its fingerprint.

The fingerprint covers everything that decides how a run behaves: instructions, model and settings, tools with
their schemas and metadata, policy rules, hooks, output contracts, sinks, budget, skills, sandbox, and
subagents by their own fingerprints. It does not cover the code of functions, the results of resolvers, and
volatile fields.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from hashlib import sha256
from typing import Final, cast

from pydantic import JsonValue, ValidationError

from windlass.agent.agent import AnyAgent
from windlass.agent.output import schema_hash
from windlass.errors import AgentError, Rejected, kind_of
from windlass.limits import PACKAGE_BYTES_MAX
from windlass.ports.store import ContentStore
from windlass.refusals import bad_request, invalid_package
from windlass.tools.json_schema import schema_problem
from windlass_harness.budget import Budget
from windlass_harness.policy import PolicySet, Rule
from windlass_harness.views.payloads import first_model_name, model_name
from windlass_protocol import (
    AgentSnapshot,
    BudgetLimits,
    CodecLimits,
    CompactionConfig,
    ContentRef,
    ErrorKind,
    JsonObject,
    OutputContract,
    PolicyKind,
    PolicyRef,
    ProviderRoute,
    RetryClass,
    RuntimePackage,
    SubagentSpec,
    canonical,
    decode,
)
from windlass_protocol.frozen import frozen

POLICY_ID: Final = "agent-policy"
_LIMITS: Final = CodecLimits(message_bytes_max=PACKAGE_BYTES_MAX, depth_max=128)


@frozen
class _UnorderedList:
    """A list of a package without a meaningful order."""

    word: str
    """What one of its items is called."""
    keys: tuple[str, ...]
    """The fields that identify an item."""


_LISTS: Final[Mapping[str, _UnorderedList]] = {
    "tools": _UnorderedList("tool", ("name",)),
    "subagents": _UnorderedList("subagent", ("name",)),
    "policies": _UnorderedList("policy", ("kind", "id", "version")),
    "hooks": _UnorderedList("hook", ("hookId",)),
    "outputContracts": _UnorderedList("output contract", ("schemaId",)),
    "outputSinks": _UnorderedList("output sink", ("sinkId",)),
    "resolvers": _UnorderedList("resolver", ("name",)),
}


def compile_package(agent: AnyAgent) -> RuntimePackage:
    """Return an agent as data; equal agents give equal packages."""
    route_id, model_id = agent.route
    contract = agent.contract
    return RuntimePackage(
        package_id=agent.name if agent.version is None else f"{agent.name}@{agent.version}",
        agent=AgentSnapshot(
            agent_id=agent.agent_id,
            name=agent.name,
            instructions=agent.prompt or None,
            description=agent.description or None,
        ),
        provider_route=ProviderRoute(route_id=route_id, model_id=model_id, settings=_settings(agent)),
        tools=tuple(tool.spec for tool in sorted(agent.offered_tools, key=lambda tool: tool.name)) or None,
        subagents=_subagents(agent),
        policies=(policy_ref(agent.policy),),
        hooks=tuple(sorted(agent.hook_specs, key=lambda hook: hook.hook_id)) or None,
        output_contracts=None if contract is None else (contract,),
        output_sinks=tuple(sorted(agent.output_sinks, key=lambda sink: sink.sink_id)) or None,
        budget=budget_limits(agent.budget),
        skills=tuple(sorted(agent.skill_refs)) or None,
        programs=agent.programs or None,
        keeps_variables=True if agent.code_mode == "session" else None,
        waits_for_jobs=agent.wait_for_jobs or None,
        sandbox=agent.sandbox_spec,
        resolvers=tuple(
            sorted((resolver.spec for resolver in agent.resolvers), key=lambda resolver: resolver.name)
        )
        or None,
    )


def fingerprint(package: RuntimePackage) -> str:
    """Return `sha256:` and the digest of the canonical JSON of all but the volatile fields."""
    return _digest(_stable(package))


def package_json(package: RuntimePackage) -> bytes:
    """Return the bytes that the fingerprint is the digest of; they decode to a package."""
    return canonical(_stable(package), _LIMITS)


async def package_of(content: ContentStore, fingerprint: str) -> RuntimePackage:
    """Return the package with a fingerprint from the content store.

    Raises:
        Rejected: the content store does not have it any more.
        Unavailable: the content store cannot be reached.
    """
    return decode(
        RuntimePackage, await content.get(ContentRef(content_id=fingerprint, hash=fingerprint, size_bytes=0))
    )


def policy_ref(policy: PolicySet) -> PolicyRef:
    """Return a reference to a policy; the version is a hash of its content."""
    rules = sorted(policy.rules, key=lambda rule: rule.id)
    body: JsonObject = {
        "version": policy.version,
        "trustsNames": policy.trusts_names,
        "rules": [_rule(rule) for rule in rules],
    }
    return PolicyRef(kind=PolicyKind.PERMISSION, id=POLICY_ID, version=_digest(body))


def package_difference(old: RuntimePackage, new: RuntimePackage) -> tuple[str, ...]:
    """Return the differences between two packages; empty if their fingerprints are equal."""
    before, after = _stable(old), _stable(new)
    differences: list[str] = []
    for key in sorted(before.keys() | after.keys()):
        left, right = before.get(key), after.get(key)
        if left == right:
            continue
        if key in _LISTS:
            differences += _list_difference(key, left, right)
        elif isinstance(left, dict) and isinstance(right, dict):
            differences += [f"{key}.{name} changed" for name in _differences(left, right)]
        else:
            differences.append(f"{key} {_change(left, right)}")
    return tuple(differences)


def compaction_config(package: RuntimePackage) -> CompactionConfig | None:
    """Return the compaction settings of the agent.

    Raises:
        ValidationError: the settings in the package are not valid.
    """
    settings = (package.provider_route.settings or {}).get("compaction")
    return None if settings is None else CompactionConfig.model_validate(settings)


def compaction_route(package: RuntimePackage) -> ProviderRoute | None:
    """Return the route of the model that writes summaries; None for the model of the package.

    Raises:
        ValidationError: the route in the package is not valid.
    """
    route = (package.provider_route.settings or {}).get("compactionModel")
    return None if route is None else ProviderRoute.model_validate(route)


def summary_model(package: RuntimePackage) -> str:
    """Return the model that writes summaries, as records name it."""
    route, first = compaction_route(package), package.provider_route
    if route is None:
        return first_model_name(first.route_id, first.model_id)
    return model_name(route.route_id, route.model_id)


def retry_for_ms(package: RuntimePackage, default: int) -> int:
    """Return how long the agent's model calls are retried while the provider is away."""
    retry_ms = (package.provider_route.settings or {}).get("retryForMs")
    return retry_ms if isinstance(retry_ms, int) else default


def is_batched(package: RuntimePackage) -> bool:
    """Return whether the agent's model calls are items of batches."""
    return (package.provider_route.settings or {}).get("batch") is not None


def with_batch(package: RuntimePackage, window: JsonValue) -> RuntimePackage:
    """Return a package with model calls that are answered within this time, or at once with None."""
    route = package.provider_route
    settings = {name: value for name, value in (route.settings or {}).items() if name != "batch"}
    if window is not None:
        settings["batch"] = window
    changed = route.model_copy(update={"settings": settings or None})
    return package.model_copy(update={"provider_route": changed})


def fallback_routes(package: RuntimePackage) -> tuple[ProviderRoute, ...]:
    """Return the routes of the models that are called when the model of the package is away.

    Raises:
        ValidationError: a route in the package is not valid.
    """
    routes = (package.provider_route.settings or {}).get("fallbacks")
    return tuple(ProviderRoute.model_validate(route) for route in routes) if isinstance(routes, list) else ()


def _settings(agent: AnyAgent) -> JsonObject | None:
    settings: JsonObject = {}
    if agent.temperature is not None:
        settings["temperature"] = agent.temperature
    if isinstance(agent.compaction, CompactionConfig):  # the agent turned a number into one
        settings["compaction"] = agent.compaction.model_dump(mode="json", by_alias=True)
    if agent.retry_for_ms is not None:
        settings["retryForMs"] = agent.retry_for_ms
    if agent.batch is not None:
        settings["batch"] = agent.batch
    if agent.fallback_routes:
        settings["fallbacks"] = [
            _route_data(route_id, model_id) for route_id, model_id in agent.fallback_routes
        ]
    if agent.compaction_route is not None:
        route_id, model_id = agent.compaction_route
        settings["compactionModel"] = _route_data(route_id, model_id)
    return settings or None


def _route_data(route_id: str, model_id: str) -> JsonObject:
    return ProviderRoute(route_id=route_id, model_id=model_id).model_dump(mode="json", by_alias=True)


def _subagents(agent: AnyAgent) -> tuple[SubagentSpec, ...] | None:
    specs: list[SubagentSpec] = []
    for subagent in sorted(agent.subagents, key=lambda subagent: subagent.name):
        package = compile_package(subagent)
        specs.append(
            SubagentSpec(
                name=subagent.name,
                package_id=package.package_id,
                description=subagent.description or None,
                fingerprint=fingerprint(package),
                background=subagent.is_background or None,
            )
        )
    return tuple(specs) or None


def budget_limits(budget: object) -> BudgetLimits | None:
    """Return the limits of a budget as wire data.

    Raises:
        Rejected: the value is not a Budget.
    """
    if budget is None or isinstance(budget, BudgetLimits):
        return budget
    if not isinstance(budget, Budget):
        kind = kind_of(budget)
        raise bad_request(f"budget must be a Budget, such as Budget(max_steps=20), found {kind}")
    return BudgetLimits.model_validate({part.name: getattr(budget, part.name) for part in fields(budget)})


def _rule(rule: Rule) -> JsonObject:
    """Return a rule as data; lists without an order are sorted."""
    body: JsonObject = {}
    for part in fields(rule):
        value = getattr(rule, part.name)
        if isinstance(value, frozenset | tuple):
            value = sorted(str(item) for item in cast(tuple[object, ...], value))
        elif isinstance(value, Mapping):
            value = dict(cast(Mapping[str, JsonValue], value))
        if value is not None:
            body[part.name] = cast(JsonValue, value)
    return body


def _digest(body: JsonObject) -> str:
    return f"sha256:{sha256(canonical(body, _LIMITS)).hexdigest()}"


def _stable(package: RuntimePackage) -> JsonObject:
    """Return a package without its volatile fields, with sorted lists."""
    body: JsonObject = package.model_dump(mode="json", by_alias=True, exclude={"volatile"})
    for key in _LISTS:
        items = body.get(key)
        if isinstance(items, list):
            body[key] = sorted(items, key=lambda item: _name(key, item))
    skills = body.get("skills")
    if isinstance(skills, list):
        body["skills"] = sorted(skills, key=str)
    return body


def _name(key: str, item: JsonValue) -> str:
    assert isinstance(item, dict)
    return ":".join(str(item.get(part, "")) for part in _LISTS[key].keys)


def _list_difference(key: str, left: JsonValue, right: JsonValue) -> Iterator[str]:
    before, after = _by_name(key, left), _by_name(key, right)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            yield f"{_LISTS[key].word} {name} {_change(old, new)}"
        elif old != new:
            yield f"{_LISTS[key].word} {name} changed: {', '.join(_differences(old, new))}"


def _by_name(key: str, items: JsonValue) -> dict[str, JsonObject]:
    # Policies are matched by id alone: changed rules are reported as a change, not as another policy.
    first = "id" if key == "policies" else _LISTS[key].keys[0]
    return {str(item[first]): item for item in cast(list[JsonObject], items or [])}


def _differences(left: JsonObject, right: JsonObject) -> list[str]:
    return [name for name in sorted(left.keys() | right.keys()) if left.get(name) != right.get(name)]


def _change(left: object, right: object) -> str:
    if left is None:
        return "added"
    return "removed" if right is None else "changed"


_VERSION: Final = 1


def check_package(package: object) -> RuntimePackage:
    """Return a package after checking that it can be run.

    A package decoded from data was checked when it was read; this is for a package that code built or
    changed.

    Raises:
        Rejected: it cannot be run; the message names the problem.
    """
    if not isinstance(package, RuntimePackage):
        raise invalid_package(f"expected a RuntimePackage, found {type(package).__name__}")
    if package.schema_version != _VERSION:
        raise invalid_package(f"runtime package schema version must be {_VERSION}")
    if not package.provider_route.route_id:
        raise invalid_package("runtime package provider_route.route_id is required")
    if not package.provider_route.model_id:
        raise invalid_package("runtime package provider_route.model_id is required")
    _check_shape(package)
    _check_names(
        "tools and subagents", [part.name for part in (*(package.tools or ()), *(package.subagents or ()))]
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
        fallback_routes(package)
    except ValidationError as error:
        # The message of pydantic quotes the value, so only the place and the type of the error are used.
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        problem = f"runtime package {path} is not valid ({first['type']})"
    else:
        return
    raise invalid_package(problem)


def _check_names(what: str, names: Iterable[str]) -> None:
    earlier: set[str] = set()
    for name in names:
        if name in earlier:
            raise invalid_package(f"runtime package {what}: duplicate name {name}; give each its own name")
        earlier.add(name)


def check_contract(contract: OutputContract) -> None:
    """Check that answers can be validated against a contract.

    Raises:
        Rejected: its schema is not valid, could not be checked safely, or does not match its content hash.
    """
    digest = schema_hash(contract.json_schema)
    if contract.content_hash is not None and contract.content_hash != digest:
        raise _unusable(f"output contract {contract.schema_id}: the content hash does not match the schema")
    problem = schema_problem(contract.json_schema)
    if problem is not None:
        raise _unusable(f"output contract {contract.schema_id}: {problem}")


def _unusable(message: str) -> AgentError:
    return Rejected(message, kind=ErrorKind.STRUCTURED_OUTPUT_FAILURE, retry=RetryClass.REPAIR_NEEDED)

"""The requirements of a runnable package."""

from collections.abc import Callable

import pytest
from tests.runtime.runtime_rig import look, package_of, shop

from windlass.agent.agent import output_contract
from windlass.agent.package import check_contract, check_package
from windlass.errors import Rejected
from windlass_protocol import (
    AgentSnapshot,
    ErrorKind,
    HookSpec,
    JsonObject,
    OutputContract,
    OutputSinkSpec,
    ProviderRoute,
    RetryClass,
    RuntimePackage,
    SubagentSpec,
)

PACKAGE = package_of(shop(output={"title": "Out", "type": "object"}))
HOOK = HookSpec(hook_id="h", point="after_tool_call")
SINK = OutputSinkSpec(sink_id="s")


def changed(**parts: object) -> RuntimePackage:
    return PACKAGE.model_copy(update=parts)


def route(route_id: str, model_id: str) -> ProviderRoute:
    return ProviderRoute.model_construct(route_id=route_id, model_id=model_id)


def test_a_package_that_can_be_run_is_returned() -> None:
    assert check_package(PACKAGE) is PACKAGE


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("shop", "expected a RuntimePackage, found str"),
        (changed(schema_version=2), "runtime package schema version must be 1"),
        (changed(provider_route=route("", "b")), "provider_route.route_id is required"),
        (changed(provider_route=route("a", "")), "provider_route.model_id is required"),
        (
            changed(agent=AgentSnapshot.model_construct(agent_id="a", name="")),
            "runtime package agent.name is not valid (string_too_short)",
        ),
        (changed(tools=(look.spec, look.spec)), "tools and subagents: duplicate name look"),
        (
            changed(subagents=(SubagentSpec(name="look", package_id="p"),)),
            "tools and subagents: duplicate name look",
        ),
        (changed(hooks=(HOOK, HOOK)), "hooks: duplicate name h"),
        (changed(output_sinks=(SINK, SINK)), "output sinks: duplicate name s"),
    ],
    ids=["type", "version", "route", "model", "agent", "tools", "subagents", "hooks", "sinks"],
)
def test_a_package_that_cannot_be_run_is_refused(package: object, message: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_package(package)
    assert message in caught.value.message
    assert caught.value.kind is ErrorKind.INVALID_PACKAGE
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED
    assert caught.value.__context__ is None


def test_the_value_that_is_wrong_is_not_quoted() -> None:
    secret = "x" * 600
    with pytest.raises(Rejected) as caught:
        check_package(changed(package_id=secret))
    assert secret[:20] not in str(caught.value)
    assert "packageId" in caught.value.message


def contract(schema: JsonObject) -> OutputContract:
    return output_contract(schema, "out")


REFUSED: dict[str, tuple[Callable[[], OutputContract], str]] = {
    "no schema": (lambda: contract({"type": "nonsense"}), "not a JSON Schema (draft 2020-12), see /type"),
    "another hash": (
        lambda: contract({}).model_copy(update={"content_hash": "sha256:" + "0" * 64}),
        "the content hash does not match the schema",
    ),
    "a far reference": (lambda: contract({"$ref": "http://169.254.169.254/"}), "must stay inside the schema"),
    "a far reference, deep": (
        lambda: contract({"anyOf": [{"type": "null"}, {"items": {"$dynamicRef": "other.json"}}]}),
        "must stay inside the schema",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_contract_that_no_answer_can_be_held_against_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(Rejected) as caught:
        check_contract(make())
    assert message in caught.value.message
    assert caught.value.kind is ErrorKind.STRUCTURED_OUTPUT_FAILURE
    assert caught.value.retry is RetryClass.REPAIR_NEEDED
    with pytest.raises(Rejected):
        check_package(changed(output_contracts=(make(),)))


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"},
        {"properties": {"$ref": {"type": "string"}}},
        {"const": {"$ref": "http://example.com/"}},
        {"properties": {"format": {"type": "string"}}},
        {"type": ["string", "null"]},
    ],
    ids=["inside", "a property of that name", "a constant", "format", "several types"],
)
def test_a_schema_without_external_references_is_accepted(schema: JsonObject) -> None:
    check_contract(contract(schema))
    check_contract(contract(schema).model_copy(update={"content_hash": None}))

"""The OpenAPI document: complete, with examples, and true."""

import itertools
import json
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks
from tests.depth import some
from tests.server.keyring import Keyring
from tests.server.rig import FAST, TIMEOUT_S, in_thread, talker
from tests.server.test_guard import routes

from windlass_server import Settings, Tenants, create_app
from windlass_server.guard import PUBLIC
from windlass_server.requests import EVE_PREFIX, PREFIX
from windlass_server.settings import TARGET_BYTES_MAX

CASES = some(6)
"""Of each kind, for each route."""
APP = create_app(Settings(), Tenants(Path("nowhere"), [talker()]))
DOCUMENT = APP.openapi()
OPERATIONS = [
    (method, path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]
SPEC_FILE: dict[str, Any] = json.loads(Path("spec/operations.json").read_text("utf-8"))
SPEC: dict[str, dict[str, Any]] = {
    f"{group}.{name}": operation
    for group, body in SPEC_FILE["groups"].items()
    for name, operation in body["operations"].items()
}
IDS = [f"{method} {path}" for method, path, _ in OPERATIONS]


def test_every_route_is_in_the_document() -> None:
    listed = {(method.upper(), path) for method, path, _ in OPERATIONS}
    found = {(method, path.replace(":path}", "}")) for method, path in routes(APP)}
    public = {("GET", path) for path in PUBLIC} - {("GET", f"{PREFIX}/openapi.json")}
    assert listed == found | public


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=IDS)
def test_every_route_has_words_examples_and_its_problems(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    assert operation["summary"]
    assert operation["description"]
    good = [
        answer
        for status, answer in operation["responses"].items()
        if status.startswith("2") and status != "204"
    ]
    assert good
    for answer in good:
        for content in answer["content"].values():
            assert content.get("example") is not None, path
    body = operation.get("requestBody")
    if body is not None:
        assert body["content"]["application/json"]["examples"]
        assert {"400", "413", "415"} <= operation["responses"].keys()
    # Clients of eve know 400 for a body that does not fit.
    assert ("422" in operation["responses"]) == (path not in PUBLIC and not path.startswith(EVE_PREFIX)), path
    if path not in PUBLIC:
        assert {"401", "429", "503"} <= operation["responses"].keys()
        assert operation["security"] == [{"bearer": []}]
    for status, answer in operation["responses"].items():
        if status >= "4":
            assert answer["content"].keys() == {"application/problem+json"}
    if "{" in path:
        assert "404" in operation["responses"]


def test_operations_have_the_ids_and_groups_of_the_clients() -> None:
    assert {operation["operationId"] for _, _, operation in OPERATIONS} == SPEC.keys()
    assert all(
        operation["tags"] == [operation["operationId"].split(".")[0]] for _, _, operation in OPERATIONS
    )
    assert [tag["name"] for tag in DOCUMENT["tags"]] == list(SPEC_FILE["groups"])


def test_every_list_has_pages_but_those_of_what_the_program_registers() -> None:
    lists = {name for name in SPEC if name.endswith(".list")}
    assert {name for name in lists if "items" not in SPEC[name]} == {"agents.list", "tools.list"}


FREE = ("agui.", "ai.", "eve.")
"""Operations with the bodies and answers of other protocols."""


@pytest.mark.parametrize("operation", [operation for _, _, operation in OPERATIONS], ids=IDS)
def test_a_route_says_what_the_specification_says(operation: dict[str, Any]) -> None:
    spec = SPEC[operation["operationId"]]
    assert (operation["summary"], operation["description"]) == (spec["summary"], spec["description"])
    query: dict[str, dict[str, str]] = {**spec.get("query", {})}
    if "items" in spec:
        query |= SPEC_FILE["page"]
    parameters = [item for item in operation.get("parameters", ()) if item["in"] == "query"]
    assert {item["name"]: item["description"] for item in parameters} == {
        name: rules["description"] for name, rules in query.items()
    }
    answer = operation["responses"][str(spec["status"])]
    assert {int(status) for status in operation["responses"]} >= {spec["status"], *spec.get("problems", ())}
    if operation["operationId"].startswith(FREE):
        return
    names = {_definition(content.get("schema", {})) for content in answer["content"].values()}
    assert names == {spec.get("answer", "")}
    if "body" in spec:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        assert _definition(schema.get("anyOf", [schema])[0]) == spec["body"]


def _definition(schema: dict[str, str]) -> str:
    return schema.get("$ref", "").rpartition("/")[2]


def test_schemas_are_used_and_require_their_constants() -> None:
    text = json.dumps(DOCUMENT)
    for name, schema in DOCUMENT["components"]["schemas"].items():
        assert f'"#/components/schemas/{name}"' in text, name
        constants = {field for field, body in schema.get("properties", {}).items() if "const" in body}
        assert constants <= set(schema.get("required", ())), name


def test_writing_routes_document_their_key() -> None:
    takes_key = {
        (operation["method"].lower(), re.sub(r"\{\w+\}", "{}", operation["path"]))
        for operation in SPEC.values()
        if operation.get("repeat") in ("keyed", "derived")
    }
    documented: set[tuple[str, str]] = set()
    for method, path, operation in OPERATIONS:
        headers = [item for item in operation.get("parameters", ()) if item["name"] == "Idempotency-Key"]
        if headers:
            [header] = headers
            assert header["in"] == "header"
            assert header["required"] is False
            assert "409" in operation["responses"]
            documented.add((method, re.sub(r"\{\w+\}", "{}", path)))
    assert documented == takes_key


@dataclass(frozen=True, slots=True)
class Target:
    """A running server, and its credentials."""

    address: str
    headers: dict[str, str]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Generator[Target]:
    folder = tmp_path_factory.mktemp("data")
    keys = Keyring(folder / "keys.json")
    key = keys.add("ops", "acme", "ann", operator=True)
    given = Settings(keys=keys.path, limits=FAST)
    with in_thread(folder / "data", [talker()], settings=given) as server:
        yield Target(f"http://127.0.0.1:{server.port}", {"Authorization": f"Bearer {key}"})


Case = Callable[..., None]
schema = schemathesis.openapi.from_dict(DOCUMENT)
# A body that is too large is refused before it is parsed.
cast(Any, schema).config.checks.negative_data_rejection.expected_statuses = [
    *("400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429", "5xx")
]
turn = itertools.count()
UNTYPED = cast(Any, checks)
LEFT_OUT = [
    UNTYPED.positive_data_acceptance,  # a schema cannot say which agents there are
    UNTYPED.unsupported_method,  # an id may have a slash in it, so one address may be that of two routes
]
each_case = cast("Callable[[Case], Case]", cast(Any, schema).parametrize())


def given(case: Any) -> dict[str, Any]:
    """The query of a case."""
    return case.query or {}


@each_case
@settings(
    max_examples=CASES,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    database=None,
)
def test_every_generated_request_gets_a_documented_answer(case: Any, target: Target) -> None:
    number = next(turn)
    if case.operation.path.endswith(("/events", "/session/{session_id}/stream")):
        case.query = {**(case.query or {}), "follow": "false"}
    if case.path_parameters and number % 2:
        # Ids that exist, in every second case: made-up ones do not lead far.
        url = f"{target.address}/v1/sessions"
        pay = {"message": "Pay."}
        begun = httpx2.post(url, json=pay, headers=target.headers, timeout=TIMEOUT_S, trust_env=False).json()
        known = {"session_id": begun["sessionId"], "run_id": begun["runId"]}
        case.path_parameters = {
            **case.path_parameters,
            **{name: known[name] for name in case.path_parameters if name in known},
        }
    if len(urlencode(list(given(case).items()), doseq=True)) > TARGET_BYTES_MAX // 2:
        return  # an address that is too long is 414 on every route, see test_limits.py
    case.call_and_validate(
        base_url=target.address,
        timeout=TIMEOUT_S,
        headers=target.headers,
        excluded_checks=LEFT_OUT,
    )
    if case.operation.path.startswith("/v1/limits"):
        # A limit that was set would refuse the runs that other cases begin.
        url = f"{target.address}/v1/limits"
        limits = httpx2.get(url, headers=target.headers, timeout=TIMEOUT_S, trust_env=False).json()["limits"]
        for name in {limit["name"] for limit in limits}:
            httpx2.delete(f"{url}/{name}", headers=target.headers, timeout=TIMEOUT_S, trust_env=False)

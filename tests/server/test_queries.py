"""Queries of all GET operations: values outside a closed set, and names that a route does not take."""

from collections.abc import Generator, Iterator
from typing import Any

import httpx2
import pytest
from tests.server.rig import FAST, TIMEOUT_S, in_thread, talker
from tests.server.test_openapi import DOCUMENT, OPERATIONS

from windlass_server import Settings
from windlass_server.guard import PUBLIC
from windlass_server.requests import EVE_PREFIX

GETS = {path: operation for method, path, operation in OPERATIONS if method == "get"}
OPEN = {"after", "agent", "chatId", "dataset", "old", "runs", "session", "tag", "text", "version"}
"""Parameters that take any text; every other one has a closed set of values, or a form."""

ABSENT = ("request_id", "experiment_id", "delivery_id")
"""They are not there, which is found out first."""


def parameters() -> Iterator[tuple[str, str]]:
    for path, operation in GETS.items():
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and parameter["name"] not in OPEN:
                yield path, parameter["name"]


def required(path: str) -> dict[str, str]:
    """The parameters that a route needs."""
    known = {"old": f"sha256:{'0' * 64}", "new": f"sha256:{'1' * 64}", "agent": "talker"}
    listed = GETS[path].get("parameters", ())
    names = [one["name"] for one in listed if one["in"] == "query" and one.get("required")]
    return {name: known[name] for name in names}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Generator[httpx2.Client]:
    folder = tmp_path_factory.mktemp("data")
    with in_thread(folder, [talker()], settings=Settings(limits=FAST)) as server:
        url = f"http://127.0.0.1:{server.port}"
        with httpx2.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as made:
            yield made


@pytest.fixture(scope="module")
def ids(client: httpx2.Client) -> dict[str, str]:
    begun = client.post("/v1/sessions", json={"message": "Hello."}).json()
    schedule = {"name": "nightly", "agent": "talker", "message": "Go.", "cron": "0 3 * * *"}
    assert client.post("/v1/schedules", json=schedule).status_code < 300
    dataset = {"name": "prices"}
    assert client.post("/v1/datasets", json=dataset).status_code < 300
    return {
        "session_id": begun["sessionId"],
        "run_id": begun["runId"],
        "step_index": "0",
        "schedule_id": "nightly",
        "dataset_id": "prices",
        "agent": "talker",
        "chat_id": begun["sessionId"],
        "content_hash": f"sha256:{'0' * 64}",
        "proposal_id": "none",
        **dict.fromkeys(ABSENT, "none"),
    }


@pytest.mark.parametrize(("path", "name"), list(parameters()))
def test_a_value_outside_a_closed_set_is_refused(
    client: httpx2.Client, ids: dict[str, str], path: str, name: str
) -> None:
    answer = client.get(path.format(**ids), params={**required(path), name: "zz"})
    problem: Any = answer.json()
    assert answer.status_code in (400, 422), answer.text
    assert name in problem["detail"]
    assert str(answer.status_code) in GETS[path]["responses"]


@pytest.mark.parametrize("path", sorted(GETS))
def test_a_name_that_a_route_does_not_take_is_refused(
    client: httpx2.Client, ids: dict[str, str], path: str
) -> None:
    answer = client.get(path.format(**ids), params={**required(path), "zz": "1"})
    if path in PUBLIC:
        assert answer.status_code == 200
        return
    if any(f"{{{name}}}" in path for name in ABSENT):
        assert answer.status_code == 404
        return
    expected = 400 if path.startswith(EVE_PREFIX) else 422
    assert (answer.status_code, "zz" in answer.json()["detail"]) == (expected, True), answer.text


def test_the_document_lists_the_values_of_filters() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert "person" in schemas["WaitCause"]["enum"]
    assert "tool_failure" in schemas["ErrorKind"]["enum"]

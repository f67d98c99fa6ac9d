"""Routes: each answers its own address, and takes ids from paths only by way of ownership."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope
from tests.server.rig import talker

from windlass_server import Settings, Tenants, create_app
from windlass_server.requests import (
    _own_dataset,  # pyright: ignore[reportPrivateUsage] the dependencies
    _own_delivery,  # pyright: ignore[reportPrivateUsage] the dependencies
    _own_experiment,  # pyright: ignore[reportPrivateUsage] the dependencies
    _own_request,  # pyright: ignore[reportPrivateUsage] the dependencies
    _own_run,  # pyright: ignore[reportPrivateUsage] the dependencies
    _own_schedule,  # pyright: ignore[reportPrivateUsage] the dependencies
    _own_session,  # pyright: ignore[reportPrivateUsage] the dependencies
)

APP = create_app(Settings(), Tenants(Path("nowhere"), [talker()]))
ROUTES = [route for route in APP.routes if isinstance(route, APIRoute)]
SUFFIXES = sorted(
    {
        part
        for route in ROUTES
        for part in route.path.removeprefix("/v1/").split("/")[1:]
        if not part.startswith("{")
    }
)
HOSTILE = ("a", "a/b", "a%2Fb", "..", "a/../b", "über/1", " ", "{session_id}", "approval:r/1:0:c:1")
OWNERS = {
    "session_id": _own_session,
    "run_id": _own_run,
    "request_id": _own_request,
    "schedule_id": _own_schedule,
    "experiment_id": _own_experiment,
    "dataset_id": _own_dataset,
    "delivery_id": _own_delivery,
}
"""The dependency that turns an id in a path into something of the caller."""
TENANT_WIDE = {"proposal_id", "limit_name", "agent", "content_hash", "step_index", "chat_id"}
"""Ids in paths that name nothing of one user, or only something below an id that does.

`chat_id` is the name that a client gives: `find_thread` looks for it among the sessions of the caller.
"""


def address(route: APIRoute, value: str) -> str:
    """Return the address of a route with an id in every place that takes one with slashes."""
    parts: list[str] = []
    for part in route.path.split("/"):
        if part.endswith(":path}"):
            parts.append(value)
        elif part.startswith("{"):
            parts.append("0" if part == "{step_index}" else f"sha256:{'0' * 64}")
        else:
            parts.append(part)
    return "/".join(parts)


def answering(method: str, path: str) -> APIRoute | None:
    scope: Scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    for route in APP.routes:
        if isinstance(route, APIRoute) and route.matches(scope)[0] is Match.FULL:
            return route
    return None


CASES = [(method, route) for route in ROUTES for method in sorted(route.methods or ())]


@pytest.mark.parametrize(("method", "route"), CASES, ids=lambda one: getattr(one, "path", one))
def test_each_route_answers_its_own_address_for_every_id(method: str, route: APIRoute) -> None:
    # An id may end as the path of another route does: `s/events` is one, and so is `s/contents`.
    ids = [*HOSTILE, *(f"s/{suffix}" for suffix in SUFFIXES), *(f"{suffix}/s" for suffix in SUFFIXES)]
    own_suffix = not route.path.endswith("}")
    for value in ids:
        if not own_suffix and value.startswith("s/"):
            continue  # the address of the route with that suffix, for the id `s`
        found = answering(method, address(route, value))
        assert found is route, f"{method} {address(route, value)} is answered by {found and found.path}"


def test_no_two_routes_have_the_same_method_and_path() -> None:
    found = [(method, route.path) for method, route in CASES]
    assert len(found) == len(set(found))


def dependencies(dependant: Dependant) -> Iterator[object]:
    for one in dependant.dependencies:
        yield one.call
        yield from dependencies(one)


@pytest.mark.promise("T1")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_an_id_in_a_path_is_resolved_by_the_dependency_that_checks_its_owner(route: APIRoute) -> None:
    used = set(dependencies(route.dependant))
    for name in route.param_convertors:
        if name not in TENANT_WIDE:
            assert OWNERS[name] in used, f"{route.path} takes {name} without a look at its owner"
            assert name not in {one.name for one in route.dependant.path_params}, "the raw id is not needed"

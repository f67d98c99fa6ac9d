"""The API reference: every public name and every member of it is found there, with its documentation."""

from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest

from tools import docs_site as site
from windlass import AgentRuntime

ADAPTERS = ("windlass.adapters.", "windlass.feed.", "windlass.postgres.", "windlass.testing.")
"""Modules with classes that implement ports: the port documents the methods."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> griffe.GriffeLoader:
    folder: Path = tmp_path_factory.mktemp("sources") / "protocol"
    loader = griffe.GriffeLoader(search_paths=site.source_paths(folder))
    for package in dict.fromkeys(name.partition(".")[0] for name in site.PACKAGES):
        loader.load(package)
    loader.resolve_aliases(external=False)
    return loader


@pytest.fixture(scope="module")
def contracts(sources: griffe.GriffeLoader) -> set[str]:
    """Names of the documented methods of ports."""
    ports = sources.modules_collection["windlass.ports"].modules.values()
    classes = [one for port in ports for one in port.classes.values() if not one.is_alias]
    return {key for one in classes for key, member in members(one) if member.has_docstring}


def entry(sources: griffe.GriffeLoader, path: str) -> griffe.Object:
    found = sources.modules_collection[path]
    return found.final_target if isinstance(found, griffe.Alias) else found


def members(one: griffe.Object) -> Iterator[tuple[str, griffe.Object]]:
    """Yield what a caller can use of a class: its own members, and those that it inherits."""
    for name, member in one.all_members.items():
        if not name.startswith("_"):
            yield name, member.final_target if isinstance(member, griffe.Alias) else member


@pytest.mark.parametrize("package", site.PACKAGES)
def test_every_name_and_method_is_in_the_reference_with_its_documentation(
    sources: griffe.GriffeLoader, contracts: set[str], package: str
) -> None:
    offered = site.offered(package)
    assert offered
    page = site.api_page(package, "Title")
    undocumented: list[str] = []
    for path in offered.values():
        assert f"\n::: {path}\n" in page
        one = entry(sources, path)
        if not one.has_docstring:
            undocumented.append(path)
        if isinstance(one, griffe.Class):
            is_adapter = path.startswith(ADAPTERS)
            undocumented += [
                f"{path}.{key}"
                for key, member in members(one)
                if (isinstance(member, griffe.Function) or "property" in member.labels)
                and not member.has_docstring
                and not (is_adapter and key in contracts)
            ]
    assert undocumented == []


def test_the_reference_of_a_class_has_the_members_that_it_inherits(sources: griffe.GriffeLoader) -> None:
    shown = {name for name, _ in members(entry(sources, "windlass.runtime.compose.AgentRuntime"))}
    offered = {name for name in dir(AgentRuntime) if not name.startswith("_")}
    assert len(offered) >= 45
    assert offered <= shown
    assert "inherited_members = true" in site.CONFIG


@pytest.mark.parametrize("package", ["windlass", "windlass.parts", "windlass.client", "windlass_server"])
def test_the_reference_has_all_that_a_package_offers(package: str) -> None:
    module = __import__(package, fromlist=["__all__"])
    assert set(module.__all__) == set(site.offered(package))

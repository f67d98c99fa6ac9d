"""The API reference: every public name and every member of it is found there, with its documentation."""

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import griffe
import pytest

from tools import docs_site as site
from windlass.catalog.runtime_sessions import RuntimeSessions
from windlass_protocol.generated import MODULE_OF

ADAPTERS = (
    "windlass.adapters.",
    "windlass.sqlite.",
    "windlass.feed.",
    "windlass.postgres.",
    "windlass.storage.",
    "windlass.testing.",
)
"""Modules with classes that implement ports: the port documents the methods."""

FACING = ("windlass", "windlass.catalog", "windlass.client", "windlass.tools", "windlass.agent.hooks")
"""Packages whose classes lead to others: the result of a method, the type of a property."""
INSIDE = {
    "windlass.agent.dynamic.Placed",
    "windlass.client.link.ServerLink",
    "windlass.runtime.compose.Opening",
    "windlass.tools.context.ToolControl",
    "windlass.tools.schema.ArgumentShape",
    "windlass.tools.schema.Signature",
    "windlass_harness.loop.events.CallReserved",
    "windlass_harness.loop.events.StateChange",
    "windlass_harness.loop.rules.RunLimit",
    "windlass_harness.record.Post",
    "windlass_protocol.bodies.Body",
}
"""Classes that only the packages of Windlass use."""
CODE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


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
    ports = [
        *sources.modules_collection["windlass.ports"].modules.values(),
        sources.modules_collection["windlass.storage.adapter"],
    ]
    classes = [one for port in ports for one in port.classes.values() if not one.is_alias]
    return {key for one in classes for key, member in members(one) if member.has_docstring}


def entry(sources: griffe.GriffeLoader, path: str) -> griffe.Object:
    package, _, name = path.rpartition(".")
    if package == "windlass_protocol" and name in MODULE_OF:
        path = f"windlass_protocol.generated.{MODULE_OF[name]}.{name}"
    found = sources.modules_collection[path]
    return entry(sources, found.target_path) if isinstance(found, griffe.Alias) else found


def members(one: griffe.Object) -> Iterator[tuple[str, griffe.Object]]:
    """Yield what a caller can use of a class: its own members, and those that it inherits."""
    for name, member in one.all_members.items():
        if not name.startswith("_"):
            yield name, member.final_target if isinstance(member, griffe.Alias) else member


def is_handler(member: griffe.Object) -> bool:
    """Whether a method of a fold takes one type of record, which its schema documents."""
    takes = ["self", "event", "body"]
    return isinstance(member, griffe.Function) and [taken.name for taken in member.parameters] == takes


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
                and not is_handler(member)
            ]
    assert undocumented == []


def test_the_reference_of_a_class_has_the_members_that_it_inherits(sources: griffe.GriffeLoader) -> None:
    shown = {name for name, _ in members(entry(sources, "windlass.catalog.runtime_sessions.RuntimeSessions"))}
    offered = {name for name in dir(RuntimeSessions) if not name.startswith("_")}
    assert offered > {name for name in vars(RuntimeSessions) if not name.startswith("_")}
    assert offered <= shown
    assert "inherited_members = true" in site.CONFIG


@pytest.mark.parametrize("package", ["windlass", "windlass.parts", "windlass.client", "windlass_server"])
def test_the_reference_has_all_that_a_package_offers(package: str) -> None:
    module = __import__(package, fromlist=["__all__"])
    reached = {path.rpartition(".")[2] for path in site.REACHED.get(package, ())}
    assert set(module.__all__) | reached == set(site.offered(package))


def test_the_reference_has_every_name_that_a_guide_imports() -> None:
    imported: set[str] = set()
    for page in site.places():
        text = (site.ROOT / page).read_text(encoding="utf-8")
        blocks = [text] if page.endswith(".py") else CODE.findall(text)
        for block in blocks:
            for statement in ast.walk(ast.parse(textwrap.dedent(block))):
                if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("windlass"):
                    imported.update(alias.name for alias in statement.names)
    assert len(imported) > 150
    missing = imported - {name for package in site.PACKAGES for name in site.offered(package)}
    assert missing == {"telemetry", "JsonValue"}, "a package with a page of its own, and a type of pydantic"


def test_the_reference_has_the_classes_that_its_members_return(sources: griffe.GriffeLoader) -> None:
    shown = {path for package in site.PACKAGES for path in site.offered(package).values()}
    facing = [path for package in FACING for path in site.offered(package).values()]
    missing: set[str] = set()
    for path in facing:
        owner = entry(sources, path)
        for _, member in members(owner) if isinstance(owner, griffe.Class) else ():
            annotation = member.returns if isinstance(member, griffe.Function) else None
            if isinstance(member, griffe.Attribute):
                annotation = member.annotation
            names = annotation.iterate(flat=True) if isinstance(annotation, griffe.Expr) else ()
            for name in names:
                if isinstance(name, griffe.ExprName) and name.canonical_path.startswith("windlass"):
                    reached = entry(sources, name.canonical_path)
                    is_class = isinstance(reached, griffe.Class) and not reached.name.startswith("_")
                    missing |= {reached.path} if is_class and reached.path not in shown else set()
    assert missing == INSIDE

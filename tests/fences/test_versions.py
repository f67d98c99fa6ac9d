"""One version for every distribution and npm package, and exact pins between them."""

import ast
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tools.files import ROOT, repository_files

NEWEST_RELEASE = re.compile(r"^## \[?v?(?P<version>\d+\.\d+\.\d+\S*?)\]?(?:\s|$)", re.MULTILINE)


def toml(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def package_json(path: Path) -> Mapping[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


PROJECTS = {
    path.parent.name: toml(path)["project"] for path in sorted((ROOT / "packages").glob("*/pyproject.toml"))
}
OWN_PROJECTS = {project["name"] for project in PROJECTS.values()}
SCRIPT_PACKAGES = {
    path.parent.name: package_json(path) for path in sorted((ROOT / "web").glob("*/package.json"))
}
OWN_SCRIPT_PACKAGES = {package["name"] for package in SCRIPT_PACKAGES.values()}
VERSION: str = PROJECTS["protocol"]["version"]


def test_the_three_tiers_and_the_two_npm_packages_are_there() -> None:
    assert {"protocol", "harness", "runtime"} <= PROJECTS.keys()
    assert {"protocol", "harness"} <= SCRIPT_PACKAGES.keys()


@pytest.mark.parametrize("folder", PROJECTS)
def test_every_distribution_has_the_one_version(folder: str) -> None:
    found = PROJECTS[folder]["version"]
    assert found == VERSION, f"packages/{folder}/pyproject.toml: version {found}, expected {VERSION}"


@pytest.mark.parametrize("folder", PROJECTS)
def test_distributions_pin_each_other_exactly(folder: str) -> None:
    for line in PROJECTS[folder].get("dependencies", []):
        requirement = Requirement(line)
        if requirement.name in OWN_PROJECTS:
            expected = f"=={VERSION}"
            found = str(requirement.specifier)
            assert found == expected, f"packages/{folder}/pyproject.toml: {line}: expected {expected}"


@pytest.mark.parametrize("folder", PROJECTS)
def test_distributions_claim_no_interpreter_that_make_interpreters_does_not_run(folder: str) -> None:
    prefix = "Programming Language :: Python :: 3."
    claimed = [line for line in PROJECTS[folder]["classifiers"] if line.startswith(prefix)]
    found = re.search(r"^PYTHONS := (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    tried = [f"Programming Language :: Python :: {version}" for version in found[1].split()]
    assert claimed == tried[: len(claimed)] != []
    assert PROJECTS[folder]["requires-python"] == f">={found[1].split()[0]}"


def test_npm_packages_claim_the_oldest_node_that_the_workspace_needs() -> None:
    workspace = package_json(ROOT / "package.json")["engines"]
    for folder, package in SCRIPT_PACKAGES.items():
        if not package.get("private"):
            assert package["engines"] == workspace, f"web/{folder}/package.json"


def test_the_workspace_has_the_one_version() -> None:
    found = package_json(ROOT / "package.json")["version"]
    assert found == VERSION, f"package.json: version {found}, expected {VERSION}"


@pytest.mark.parametrize("folder", SCRIPT_PACKAGES)
def test_every_npm_package_has_the_one_version_and_pins_its_siblings_exactly(folder: str) -> None:
    package = SCRIPT_PACKAGES[folder]
    assert package["version"] == VERSION, f"web/{folder}/package.json: expected version {VERSION}"
    for kind in ("dependencies", "devDependencies", "peerDependencies"):
        for name, pin in package.get(kind, {}).items():
            if name in OWN_SCRIPT_PACKAGES:
                assert pin == VERSION, f"web/{folder}/package.json: {name}: found {pin}, expected {VERSION}"


def test_the_npm_lock_lists_our_packages_with_the_one_version() -> None:
    lock = package_json(ROOT / "package-lock.json")
    assert lock["version"] == VERSION, f"package-lock.json: expected version {VERSION}; run `make lock`"
    for place in ["", *(f"web/{folder}" for folder in SCRIPT_PACKAGES)]:
        entry = lock["packages"].get(place)
        assert entry is not None, f"package-lock.json: packages[{place!r}] is missing; run `make lock`"
        found = entry["version"]
        message = (
            f"package-lock.json: packages[{place!r}]: version {found}, expected {VERSION}; run `make lock`"
        )
        assert found == VERSION, message
        for name, pin in entry.get("dependencies", {}).items():
            if name in OWN_SCRIPT_PACKAGES:
                assert pin == VERSION, f"package-lock.json: packages[{place!r}]: {name}: expected {VERSION}"


def test_the_newest_release_of_the_changelog_is_the_one_version() -> None:
    changelog = ROOT / "CHANGELOG.md"
    assert changelog.exists(), "CHANGELOG.md is missing"
    newest = NEWEST_RELEASE.search(changelog.read_text(encoding="utf-8"))
    assert newest is not None, (
        f"CHANGELOG.md: no heading like `## {VERSION}` or `## [{VERSION}] - 2026-01-31`"
    )
    found = newest["version"]
    assert found == VERSION, f"CHANGELOG.md: the newest release is {found}, expected {VERSION}"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("# Changelog\n\n## Unreleased\n\n## [1.2.0] - 2026-01-31\n\n## [1.1.0]\n", "1.2.0"),
        ("## 1.2.0rc1 (soon)\n", "1.2.0rc1"),
        ("## v0.1.0\n", "0.1.0"),
        ("text ## 1.2.0\n### 1.2.0\n", None),
    ],
)
def test_the_newest_release_is_the_first_numbered_heading(text: str, version: str | None) -> None:
    found = NEWEST_RELEASE.search(text)
    assert (found and found["version"]) == version


def test_a_version_written_in_code_is_the_one_version() -> None:
    for path in repository_files():
        if path.suffix != ".py" or path.parts[0] != "packages":
            continue
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=found)):
                    assert found == VERSION, f"{path}:{node.lineno}: found {found}, expected {VERSION}"
                case _:
                    pass

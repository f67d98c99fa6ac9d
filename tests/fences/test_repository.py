"""Rules for the repository as a whole: a fresh clone builds, and its files agree."""

import json
import os
import re
from pathlib import Path

import pytest

from tools.files import ROOT, make_rules, repository_files

FILE_BYTES_MAX = 1024 * 1024
PROMISED_TARGETS = {"dev", "quick", "test", "check", "gen"}
PROMISED_FILES = (
    "README.md",
    "ARCHITECTURE.md",
    "PROMISES.md",
    "CONTRIBUTING.md",
    "AGENTS.md",
    "SECURITY.md",
    "VERSIONING.md",
    "CHANGELOG.md",
    "LICENSE",
)
PACKAGE_FOLDERS = sorted(
    path.parent.relative_to(ROOT)
    for pattern in ("packages/*/pyproject.toml", "web/*/package.json")
    for path in ROOT.glob(pattern)
)
REQUIREMENTS = sorted(path.relative_to(ROOT) for path in ROOT.glob("requirements/*.txt"))

_PIN = re.compile(r"[a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,_-]+\])?==\S+(?: ?;.*)?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
# The words are concatenated so that this file does not contain them.
_FOREIGN = re.compile(
    r"(?<![\w.~-])/wor" + r"k/|\.\./sha" + r"red\b|/ro" + r"ot/\.pyenv"
    r"|https?://[^\s\"'<>)]+/simp" + r"le\b"
    r"|registry\.(?:npm" + r"js|yarn" + r"pkg)\.\w+"
    r"|files\.python" + r"hosted\.org"
    r"|\"resolved\": \"ht" + r"tp",
    re.IGNORECASE,
)
FOREIGN_LOCKS = {"uv.lock", "poetry.lock", "Pipfile.lock", "yarn.lock", "pnpm-lock.yaml"}


def read(name: str | Path) -> str:
    path = ROOT / name
    assert path.exists(), f"{name} is missing"
    return path.read_text(encoding="utf-8")


def requirement_faults(text: str) -> list[str]:
    """The faults of a compiled requirements file, one line each."""
    faults: list[str] = []
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        entry = line.partition(" #")[0].strip()
        if not entry or entry.startswith("#"):
            continue
        pin, *hashes = re.split(r"\s+(?=--hash)", entry)
        if pin.startswith("-") or "://" in entry:
            faults.append(f"an option or address: {pin}")
        elif not _PIN.fullmatch(pin):
            faults.append(f"not pinned to one version: {pin}")
        elif not hashes or not all(_HASH.fullmatch(item.strip()) for item in hashes):
            faults.append(f"no hash: {pin}")
    return faults


@pytest.mark.parametrize("name", PROMISED_FILES)
def test_every_promised_file_exists_and_is_not_empty(name: str) -> None:
    assert read(name).strip(), f"{name} is empty"


def test_the_licence_is_apache_2() -> None:
    assert "Apache License" in read("LICENSE")[:400], "LICENSE: expected the text of Apache-2.0"


@pytest.mark.parametrize("folder", PACKAGE_FOLDERS, ids=str)
def test_every_package_carries_the_licence_that_it_ships_under(folder: Path) -> None:
    assert read(folder / "LICENSE") == read("LICENSE"), f"{folder}/LICENSE: copy the one of the repository"


@pytest.mark.parametrize("folder", PACKAGE_FOLDERS, ids=str)
def test_every_package_has_a_readme(folder: Path) -> None:
    assert read(folder / "README.md").strip(), f"{folder}/README.md is empty"


def test_continuous_integration_runs_make_test_and_nothing_else() -> None:
    lines = [line for line in read(".ci/run").splitlines() if line.strip() and not line.startswith("#")]
    assert lines == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test"], (
        ".ci/run: " + "\n".join(lines)
    )
    assert os.access(ROOT / ".ci/run", os.X_OK), ".ci/run is not executable"


def test_the_makefile_has_the_promised_targets_and_test_runs_everything() -> None:
    makefile = read("Makefile")
    found = make_rules(makefile)
    assert found.keys() >= PROMISED_TARGETS, f"Makefile: missing targets: {PROMISED_TARGETS - found.keys()}"
    # The groups run side by side, so they are in its recipe.
    joined = makefile.replace("\\\n", " ")
    [line] = [line for line in joined.splitlines() if "REQUIRE_NODE=1 $(SIDE_BY_SIDE)" in line]
    asked = set(line.partition("$(SIDE_BY_SIDE)")[2].split())
    assert asked >= {
        "check",
        "surface-tests",
        "command-tests",
        "runtime-tests",
        "pure-tests",
        "hard-tests",
        "apart-tests",
        "slow-tests",
    }


def test_targets_are_read_from_a_makefile_without_its_variables() -> None:
    makefile = "BIN := x\nname := y\na b: c d  ## help\n\tcommand: here\n.PHONY: a\nout/file: a\n"
    assert make_rules(makefile) == {"a": {"c", "d"}, "b": {"c", "d"}}


def foreign_addresses(path: Path, text: str) -> list[str]:
    """The lines that name a registry or a path of one machine."""
    if path.suffix == ".tsv":  # a corpus of hostile commands holds hostile addresses
        return []
    return [
        f"{path}:{number}"
        for number, line in enumerate(text.split("\n"), start=1)
        if _FOREIGN.search(line) is not None
    ]


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = [
        place
        for path in repository_files()
        for place in foreign_addresses(path, (ROOT / path).read_text(encoding="utf-8", errors="ignore"))
    ]
    assert not found, "\n".join(found)


def test_no_lock_file_that_holds_registry_addresses_is_there() -> None:
    assert not [path for path in repository_files() if path.name in FOREIGN_LOCKS]


@pytest.mark.parametrize(
    "words",
    [
        "see /wor" + "k/main",
        "see ../sha" + "red/design",
        "--index-url https://mirror.example/pypi/simp" + "le",
        "https://registry.npm" + "js.org/zod",
        '"resolved": "ht' + 'tps://example.com/zod.tgz"',
    ],
)
def test_an_address_of_a_registry_or_of_one_machine_is_found(words: str) -> None:
    assert foreign_addresses(Path("docs/page.md"), f"one\n{words}\n") == ["docs/page.md:2"]


@pytest.mark.parametrize(
    "words", ["src/wor" + "k/x", "https://example.com/simp" + "ler", '"resolved": "web/harness"']
)
def test_similar_texts_that_are_no_registry_address_are_accepted(words: str) -> None:
    assert not foreign_addresses(Path("a.md"), words)


def test_no_file_is_larger_than_one_mebibyte() -> None:
    sizes = {path: (ROOT / path).stat().st_size for path in repository_files()}
    large = [
        f"{path}: found {size:,} bytes, limit {FILE_BYTES_MAX:,}"
        for path, size in sizes.items()
        if size > FILE_BYTES_MAX
    ]
    assert not large, "\n".join(large)


def test_the_npm_lock_has_a_hash_for_every_foreign_package_and_no_address() -> None:
    for place, entry in json.loads(read("package-lock.json"))["packages"].items():
        resolved = entry.get("resolved", "")
        assert "://" not in resolved, f"package-lock.json: {place}: resolved {resolved}"
        if place.startswith("node_modules/") and not entry.get("link"):
            assert entry.get("integrity"), f"package-lock.json: {place} has no integrity hash"


def test_there_is_a_requirements_file_to_check() -> None:
    assert Path("requirements/dev.txt") in REQUIREMENTS


@pytest.mark.parametrize("path", REQUIREMENTS, ids=str)
def test_requirements_pin_every_distribution_by_hash_and_name_no_index(path: Path) -> None:
    faults = requirement_faults(read(path))
    assert not faults, f"{path}:\n" + "\n".join(faults)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"a==1 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n    # via b\n", None),
        (f"a-b==1.2 ; os_name == 'nt' \\\n    --hash=sha256:{'0' * 64}\n", None),
        ("# a comment\n\n", None),
        ("a==1\n", "no hash: a==1"),
        (f"a>=1 --hash=sha256:{'0' * 64}\n", "not pinned to one version: a>=1"),
        ("a==1 --hash=sha256:00\n", "no hash: a==1"),
        ("--index-url there\n", "an option or address: --index-url there"),
        ("a @ https://example.com/a.whl\n", "an option or address: a @ https://example.com/a.whl"),
    ],
)
def test_a_fault_in_a_requirements_file_is_found(text: str, fault: str | None) -> None:
    assert requirement_faults(text) == ([] if fault is None else [fault])

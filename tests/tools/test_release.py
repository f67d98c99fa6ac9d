"""The checks of `make release-check` that need no environment: hints, licences and metadata."""

import zipfile
from pathlib import Path

import pytest

from tools import release
from tools.release import Wheel, foreign_licences, problems_of, wrong_hints

METADATA = """Metadata-Version: 2.4
Name: windlass-server
Version: {version}
Summary: The HTTP server.
License-Expression: {licence}
Requires-Python: >=3.11
Requires-Dist: windlass=={version}
Description-Content-Type: text/markdown

# The server
"""
GOOD = ("windlass_server/inspector/dist/index.html", "a.dist-info/licenses/LICENSE")


def wheel(folder: Path, *names: str, licence: str = "Apache-2.0", version: str = "0.1.0") -> Wheel:
    path = folder / "server.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.dist-info/METADATA", METADATA.format(licence=licence, version=version))
        for name in names:
            archive.writestr(name, "text")
    return Wheel("server", path)


def test_every_hint_of_sources_and_pages_names_something_that_can_be_installed() -> None:
    assert wrong_hints(release.hinting_texts()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pip install 'packages/runtime[mpc]'", "packages/runtime has no extra mpc"),
        ("pip install packages/runtmie", "there is no packages/runtmie"),
        ("pip install windlass", "pip install windlass: not a package of this checkout"),
        ('f"needs it: {install_hint("nothing")}"', "packages/runtime has no extra nothing"),
    ],
)
def test_a_hint_to_something_that_does_not_exist_is_found(text: str, problem: str) -> None:
    [found] = wrong_hints([("here.py", text)])
    assert found.startswith(f"here.py: {problem}")


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'packages/runtime[mcp,code]' in a checkout",
        "pip install dist/*.whl",
        "pip install -r requirements.txt",
        "pip install agent-client-protocol.",
        'install_hint("otel")',
    ],
)
def test_a_hint_to_something_that_exists_is_fine(text: str) -> None:
    assert wrong_hints([("here.py", text)]) == []


def test_a_complete_wheel_is_fine(tmp_path: Path) -> None:
    assert problems_of(wheel(tmp_path, *GOOD)) == []


def test_a_wheel_without_inspector_licence_or_right_version_is_refused(tmp_path: Path) -> None:
    found = "\n".join(problems_of(wheel(tmp_path, licence="GPL-3.0", version="0.2.0")))
    for told in (
        "the inspector is missing",
        "LICENSE is missing",
        "License-Expression is 'GPL-3.0'",
        "Version is '0.2.0', expected '0.1.0'",
        "windlass==0.2.0 is not pinned to 0.1.0",
    ):
        assert told in found


def test_a_wheel_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wheel(tmp_path, *GOOD)
    size = made.path.stat().st_size
    monkeypatch.setitem(release.SIZE_BYTES_MAX, "server", size)
    assert problems_of(made) == []
    monkeypatch.setitem(release.SIZE_BYTES_MAX, "server", size - 1)
    assert problems_of(made) == [f"server.whl: {size:,} bytes, limit {size - 1:,}"]


def test_licences_of_others_are_known_and_allowed() -> None:
    found = {"a": "MIT", "b": "", "c": "License :: OSI Approved :: GNU GPL v3", "d": "BSD-3-Clause"}
    assert foreign_licences(found) == [
        "b: the licence is not declared",
        "c: the licence is License :: OSI Approved :: GNU GPL v3",
    ]

"""Of `make release` and `make release-check`, what needs no environment: versions, texts, hints, metadata."""

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

from tools.files import ROOT, repository_files
from tools.release import check, hints
from tools.release.artefacts import Refused, context_dockerfile, write_checksums
from tools.release.check import Wheel, foreign_licences, problems_of
from tools.release.hints import PACKAGES, wrong_hints
from tools.release.stage import portable, stage_npm, stage_python
from tools.release.version import current_version, release_notes, set_version

METADATA = """Metadata-Version: 2.4
Name: windlass-server
Version: {version}
Summary: The HTTP server.
License-Expression: {licence}
Requires-Python: >=3.11
Requires-Dist: windlass-runtime=={version}
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
    assert wrong_hints(hints.hinting_texts()) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pip install 'windlass-runtime[mpc]'", "windlass-runtime has no extra mpc"),
        ("it needs `windlass-runtime[mpc]`", "windlass-runtime has no extra mpc"),
        ("it needs `windlass[mcp]`", "windlass has no extra mcp"),
        ("pip install packages/runtmie", "there is no packages/runtmie"),
        ("pip install windlass", "pip install windlass: not a distribution of ours"),
        ("pip install windlass-runtmie", "pip install windlass-runtmie: not a distribution of ours"),
        ("pip install pydantic", "pip install pydantic: not a distribution of ours"),
        ('f"needs it: {install_hint("nothing")}"', "windlass-runtime has no extra nothing"),
    ],
)
def test_a_hint_to_something_that_does_not_exist_is_found(text: str, problem: str) -> None:
    [found] = wrong_hints([("here.py", text)])
    assert found.startswith(f"here.py: {problem}")


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'windlass-runtime[mcp,code]'",
        "pip install windlass-cli.",
        "pip install packages/protocol packages/harness",
        "pip install dist/*.whl",
        "pip install -r requirements.txt",
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
        "windlass-runtime==0.2.0 is not pinned to 0.1.0",
    ):
        assert told in found


def test_a_wheel_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = wheel(tmp_path, *GOOD)
    size = made.path.stat().st_size
    monkeypatch.setitem(check.SIZE_BYTES_MAX, "server", size)
    assert problems_of(made) == []
    monkeypatch.setitem(check.SIZE_BYTES_MAX, "server", size - 1)
    assert problems_of(made) == [f"server.whl: {size:,} bytes, limit {size - 1:,}"]


def test_licences_of_others_are_known_and_allowed() -> None:
    found = {"a": "MIT", "b": "", "c": "License :: OSI Approved :: GNU GPL v3", "d": "BSD-3-Clause"}
    assert foreign_licences(found) == [
        "b: the licence is not declared",
        "c: the licence is License :: OSI Approved :: GNU GPL v3",
    ]


def test_one_function_writes_the_version_everywhere(tmp_path: Path) -> None:
    names = ("pyproject.toml", "package.json", "package-lock.json", "__init__.py")
    old = current_version()
    for path in repository_files():
        if path.parts[0] in ("packages", "web") or len(path.parts) == 1:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    set_version("98.7.6", tmp_path)
    for path in sorted(tmp_path.rglob("*")):
        source = ROOT / path.relative_to(tmp_path)
        if path.name in names:
            # Ours alone: a package of others may have the same version.
            assert own_versions(path.read_text("utf-8")) <= {"98.7.6"}, path
            assert path.read_text("utf-8").count("98.7.6") == len(
                OWN_VERSION.findall(source.read_text("utf-8"))
            )
        elif path.is_file():
            assert path.read_bytes() == source.read_bytes()
    assert current_version(tmp_path) == "98.7.6" != old


OWN_VERSION = re.compile(
    r'^(?:__version__|version) = "([\d.]+)"|windlass-\w+(?:\[[\w,]+\])?==([\d.]+)|"@windlass/\w+": "([\d.]+)"'
    r'|^  "version": "([\d.]+)"|"name": "(?:@windlass/\w+|windlass-workspace)",\n\s{6}"version": "([\d.]+)"',
    re.MULTILINE,
)


def own_versions(text: str) -> set[str]:
    return {version for found in OWN_VERSION.findall(text) for version in found if version}


@pytest.mark.parametrize("version", ["", "1.0", "1.0.0rc1", "v1.0.0", "1.0.0-rc.1", "01.0.0"])
def test_a_version_is_three_numbers(version: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="three numbers"):
        set_version(version, tmp_path)


def test_release_notes_are_what_the_changelog_says_of_the_version() -> None:
    text = "# Changelog\n\n## 0.2.0 - 2026-12-01\n\n- New.\n\n## [0.1.0]\n\n- Old.\n\n### More\n\nText.\n"
    assert release_notes("0.2.0", text) == "- New.\n"
    assert release_notes("0.1.0", text) == "- Old.\n\n### More\n\nText.\n"
    for version, changelog in (("0.3.0", text), ("0.2.0", "## 0.2.0\n\n## 0.1.0\n\nOld.\n")):
        with pytest.raises(ValueError, match=f"no text below a heading `## {version}`"):
            release_notes(version, changelog)


def test_links_of_a_readme_work_outside_of_the_repository() -> None:
    text = (
        "[Windlass](../../README.md), [cli](../../docs/cli.md#the-demo), [here](#x), [limits](src/limits.py)"
    )
    home = "https://example.com/ann/windlass"
    assert portable(text, "packages/cli", home, "1.2.3") == (
        f"[Windlass]({home}/blob/v1.2.3/README.md), [cli]({home}/blob/v1.2.3/docs/cli.md#the-demo), "
        f"[here](#x), [limits]({home}/blob/v1.2.3/packages/cli/src/limits.py)"
    )
    assert portable(text, "packages/cli", "", "1.2.3") == "Windlass, cli, [here](#x), limits"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_published_readme_has_a_link_into_the_repository(package: str, tmp_path: Path) -> None:
    staged = stage_python(package, tmp_path, "", "1.2.3")
    assert not re.findall(r"\]\((?!https?:|#)", (staged / "README.md").read_text("utf-8"))


def test_a_repository_gives_the_packages_their_addresses(tmp_path: Path) -> None:
    home = "https://example.com/ann/windlass"
    for package in PACKAGES:
        staged = stage_python(package, tmp_path, home, "1.2.3")
        project = tomllib.loads((staged / "pyproject.toml").read_text("utf-8"))["project"]
        assert project["urls"]["Homepage"] == home
        assert project["urls"]["Changelog"] == f"{home}/blob/v1.2.3/CHANGELOG.md"
        assert project["name"] == f"windlass-{package}"
    manifest = json.loads((stage_npm("ui", tmp_path, home, "1.2.3") / "package.json").read_text("utf-8"))
    assert manifest["repository"] == {"type": "git", "url": f"git+{home}.git", "directory": "web/ui"}


def test_the_image_of_a_release_is_made_of_wheels_alone() -> None:
    text = context_dockerfile((ROOT / "deploy/Dockerfile").read_text("utf-8"))
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${PYTHON}", "${PYTHON}"]
    assert "RUN sh deploy/install.sh /opt/windlass" in text
    assert "make" not in text
    with pytest.raises(Refused, match="could not be taken out"):
        context_dockerfile("FROM ${NODE} AS web\n")


def test_checksums_name_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a")
    (tmp_path / "b.tgz").write_bytes(b"b")
    lines = write_checksums(tmp_path)
    assert [line.split("  ")[1] for line in lines] == ["a.whl", "b.tgz"]
    assert write_checksums(tmp_path) == lines
    assert (tmp_path / "SHA256SUMS").read_text("utf-8") == "\n".join(lines) + "\n"

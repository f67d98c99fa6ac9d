"""docs/install.md: every distribution and extra, with what it needs, and none that does not exist."""

import re
import tomllib
from typing import Final

from packaging.requirements import Requirement

from tools.files import ROOT
from tools.release.hints import PACKAGES
from tools.release.stage import NPM

PAGE: Final = (ROOT / "docs/install.md").read_text(encoding="utf-8")


def test_the_page_lists_every_extra_with_the_packages_that_it_needs() -> None:
    listed = {
        (row["name"], row["extra"]): row["needs"].split(", ")
        for row in re.finditer(
            r"^\| `(?P<name>windlass-\w+)\[(?P<extra>\w+)\]` \| (?P<needs>[^|]+) \|", PAGE, re.MULTILINE
        )
    }
    declared = {
        (project["name"], extra): sorted({Requirement(line).name for line in lines})
        for package in PACKAGES
        for project in [tomllib.loads((ROOT / f"packages/{package}/pyproject.toml").read_text())["project"]]
        for extra, lines in project.get("optional-dependencies", {}).items()
    }
    assert listed == declared


def test_the_page_lists_every_distribution() -> None:
    names = [f"windlass-{name}" for name in PACKAGES] + [f"@windlass/{name}" for name in NPM]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_page_names_the_interpreters_that_the_lane_runs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for kind in ("PYTHONS", "NODES"):
        found = re.search(rf"^{kind} := (.+)$", makefile, re.MULTILINE)
        assert found is not None
        section = PAGE.partition("## Interpreters")[2]
        assert [version for version in found[1].split() if version not in section] == []

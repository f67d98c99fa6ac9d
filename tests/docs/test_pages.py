"""Every page is true: its code runs, its commands exist, its links lead somewhere."""

import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from tests.sandbox.rig import require_bwrap

from tools import doc_blocks
from tools.doc_blocks import Block, PageError, Target
from tools.files import ROOT, make_rules, repository_files

SKIPPED: set[tuple[str, str]] = set()
"""Every block that is not checked, as (page, reason). A new one has to be argued for here."""

FRAMEWORKS = ("langgraph", "claude_agent_sdk")
"""Frameworks of others that are not in the environment of the tests."""

PAGES = [path for path in repository_files() if path.suffix == ".md" and path.parts[0] != "tests"]


def read(page: Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: Path) -> list[Block]:
    try:
        return doc_blocks.blocks(read(page))
    except PageError as error:
        raise PageError(f"{page}: {error}") from None


BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page)]
CHAINS = [(page, chain) for page in PAGES for chain in doc_blocks.chains(blocks_of(page))]
COMMANDS = [
    (page, block)
    for page, block in BLOCKS
    if block.language in doc_blocks.SHELL_LANGUAGES and block.skip is None
]
DATA = [(page, block) for page, block in BLOCKS if block.language in {"yaml", "toml"}]


@pytest.mark.parametrize(("page", "chain"), CHAINS, ids=[f"{page}:{chain[0].line}" for page, chain in CHAINS])
def test_python_on_a_page_runs_and_prints_the_output_on_the_page(
    page: Path, chain: list[Block], tmp_path: Path
) -> None:
    if any("Bubblewrap(" in block.code for block in chain):
        require_bwrap()
    for module in FRAMEWORKS:
        if any(f".{module} import" in block.code for block in chain):
            pytest.importorskip(module, reason="make foreign installs it, and runs this page")
    problem = doc_blocks.run_chain(chain, name=str(page), folder=tmp_path)
    assert problem is None, problem


def test_the_program_that_stores_a_position_continues_where_it_ended(tmp_path: Path) -> None:
    page = Path("docs/events.md")
    [chain] = [
        chain for found, chain in CHAINS if found == page and any("books.db" in block.code for block in chain)
    ]
    for _ in range(2):
        assert doc_blocks.run_chain(chain, name=str(page), folder=tmp_path) is None
    with closing(sqlite3.connect(tmp_path / "cwd" / "books.db")) as books:
        assert books.execute("SELECT answer FROM answers ORDER BY rowid").fetchall() == [
            ("One.",),
            ("Two.",),
            ("One.",),
            ("Two.",),
        ]


def test_the_readme_shows_a_program_that_runs() -> None:
    assert any(page == Path("README.md") for page, _ in CHAINS), (
        "README.md has no ```python block that is run"
    )


@pytest.mark.parametrize(
    ("page", "block"), COMMANDS, ids=[f"{page}:{block.line}" for page, block in COMMANDS]
)
def test_commands_on_a_page_name_targets_and_paths_that_exist(page: Path, block: Block) -> None:
    unknown = doc_blocks.make_targets(block.code) - make_rules(read(Path("Makefile"))).keys()
    assert not unknown, f"{page}:{block.line}: not in the Makefile: {sorted(unknown)}"
    missing = sorted(
        path
        for path in doc_blocks.paths(block.code)
        if not (ROOT / path).exists() and not (ROOT / page.parent / path).exists()
    )
    assert not missing, f"{page}:{block.line}: no such path: {missing}"


@pytest.mark.parametrize(("page", "block"), DATA, ids=[f"{page}:{block.line}" for page, block in DATA])
def test_yaml_and_toml_on_a_page_can_be_read(page: Path, block: Block) -> None:
    if block.language == "toml":
        tomllib.loads(block.code)
    else:
        assert list(yaml.safe_load_all(block.code))


def test_no_block_escapes_by_another_name_of_its_language() -> None:
    wrong = [
        f"{page}:{block.line}: the language is {block.language}, expected {expected}"
        for page, block in BLOCKS
        for expected in [doc_blocks.MISSPELT_LANGUAGES.get(block.language)]
        if expected is not None
    ]
    assert not wrong, "\n".join(wrong)


def test_the_blocks_that_are_not_checked_are_the_ones_listed_here() -> None:
    assert {(str(page), block.skip) for page, block in BLOCKS if block.skip is not None} == SKIPPED


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_into_the_repository_resolve(page: Path) -> None:
    broken = [
        f"{page}:{link.line}: {link.path}#{link.anchor}: {fault}"
        for link in doc_blocks.links(read(page))
        for fault in [fault_of(page, link)]
        if fault is not None
    ]
    assert not broken, "\n".join(broken)


def fault_of(page: Path, link: Target) -> str | None:
    """Why a link leads nowhere, or None."""
    target = (ROOT / page.parent / link.path).resolve() if link.path else ROOT / page
    if not target.is_relative_to(ROOT):
        return "outside the repository"
    if not target.exists():
        return "no such file"
    is_page = target.suffix == ".md"
    if link.anchor and is_page and link.anchor not in doc_blocks.anchors(target.read_text(encoding="utf-8")):
        return "no such heading"
    return None


@pytest.mark.parametrize(
    ("path", "anchor", "fault"),
    [
        ("../../Makefile", "", None),
        ("../../Makefile", "L3", None),
        ("missing.md", "", "no such file"),
        ("../../../there.md", "", "outside the repository"),
        ("", "no-such-heading-at-all", "no such heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(path: str, anchor: str, fault: str | None) -> None:
    assert fault_of(Path("packages/protocol/README.md"), Target(1, path, anchor)) == fault

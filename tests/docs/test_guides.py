"""The guides agree with the code: limits, hook points and options, row by row."""

import re
from dataclasses import fields
from importlib import import_module
from typing import get_args

import pytest
from tests.golden.journal import JOURNALS, read

from tools.files import ROOT
from windlass import Agent, AgentRuntime, Budget, Event, HookCall, RunHandle, RunResult
from windlass.agent.hooks import POINTS, HookOptions
from windlass.catalog.runtime_sessions import RuntimeSessions
from windlass.ledger import Runtime
from windlass.parts import CallFacts, EventFilter, Rules
from windlass.runtime.options import RunOptions, RuntimeOptions
from windlass.schedules import Schedules
from windlass.tools import KitOptions, ToolOptions
from windlass_protocol import EVENT_DATA, FilePart, ImagePart, PolicyDecision, RunStatus, TextPart

DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def rows(page: str, heading: str = "") -> list[list[str]]:
    """The cells of the tables of a page, or of the part of it under a heading."""
    text = text_of(page)
    if heading:
        text = text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_index_names_every_page() -> None:
    listed = set(re.findall(r"\]\(([\w.]+)\)", (DOCS / "README.md").read_text(encoding="utf-8")))
    assert listed == set(PAGES) - {"README.md"}
    assert "docs/README.md" in (ROOT / "README.md").read_text(encoding="utf-8")


LIMITS = [(row[0], row[1], row[2].strip("`")) for row in rows("limits.md") if row[2].startswith("`windlass")]


@pytest.mark.parametrize(("what", "value", "place"), LIMITS, ids=[place for _, _, place in LIMITS])
def test_a_limit_on_the_page_is_that_of_the_code(what: str, value: str, place: str) -> None:
    module, _, name = place.rpartition(".")
    found = getattr(import_module(module), name)
    assert float(value.replace(",", "")) == found, what


def test_the_page_has_the_limits_that_a_program_meets_first() -> None:
    names = {place.rpartition(".")[2] for _, _, place in LIMITS}
    assert {"STEPS_MAX", "TOOL_TIMEOUT_MS", "MODEL_TIMEOUT_MS", "MODEL_IDLE_TIMEOUT_MS"} <= names
    assert {"GRACE_S", "CALLS_PER_STEP_MAX", "SWEEP_S", "HOOK_TIMEOUT_MS"} <= names


def test_the_points_on_the_page_are_those_of_the_code() -> None:
    found = {row[0].strip("`"): row[1:] for row in rows("hooks.md", "Points")[1:]}
    words = {True: "yes", False: "no"}
    assert found == {
        name: [
            f"`{point.owns}`" if point.owns else "nothing",
            words[point.can_veto],
        ]
        for name, point in POINTS.items()
    }


@pytest.mark.parametrize(
    ("page", "heading", "options"),
    [
        ("runtime.md", "Options of `open` and `in_memory`", RuntimeOptions),
        ("runtime.md", "Options of `start_run`", RunOptions),
        ("tools.md", "", ToolOptions),
        ("tools.md", "Options for authors of tool kits", KitOptions),
        ("hooks.md", "Options", HookOptions),
    ],
)
def test_every_option_is_on_its_page(page: str, heading: str, options: type) -> None:
    listed = {name for row in rows(page, heading) for name in re.findall(r"`(\w+)`", row[0])}
    missing = options.__annotations__.keys() - listed
    assert not missing, f"{page}: no row for {sorted(missing)}"
    if heading:
        assert listed - options.__annotations__.keys() <= {"durability", "open"}


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("storage.md", ("StorageAdapter", "InMemoryStorage", "SqlAlchemyStorage")),
        ("transport.md", ("TransportAdapter", "FastAPISseTransport", "StdioJsonRpcTransport")),
        ("tools.md", ("ToolRouter", "describe()", "dispatch(call, consent_granted=False, context=None)")),
        ("harness.md", ("decide_tool_mode", "consume_budget", "next_retry_delay_ms", "is_terminal_result")),
        ("steps.md", ("runtime_identity",)),
        ("sessions.md", ("update(session_id, AgentSessionChange(",)),
        ("sidecar.md", ("agent.session.update",)),
        ("routes.md", ("/agent-sessions", "/sessions/{sessionId}/agent-session")),
    ],
)
def test_a_name_of_the_runtime_spec_is_on_its_page(page: str, names: tuple[str, ...]) -> None:
    text = text_of(page)
    assert not [name for name in names if name not in text]


def names(page: str, heading: str) -> list[str]:
    """The names that the rows of a table begin with."""
    return [name for row in rows(page, heading)[1:] for name in re.findall(r"`([\w.]+)`", row[0])]


def names_of(kind: type) -> list[str]:
    """The fields of a dataclass."""
    return [field.name for field in fields(kind) if field.name != "_"]


@pytest.mark.parametrize(
    ("page", "heading", "expected"),
    [
        ("limits.md", "Fields of `Rules`", names_of(Rules)),
        ("agents.md", "Options of `Agent`", names_of(Agent)),
        ("agents.md", "Fields of `Budget`", names_of(Budget)),
        ("agents.md", "Run results", [*RunResult.model_fields]),
        ("agents.md", "Messages", ["TextPart", "ImagePart", "FilePart"]),
        ("policies.md", "Fields of `CallFacts`", names_of(CallFacts)),
        (
            "policies.md",
            "Decisions",
            [one.__name__ for one in get_args(get_args(PolicyDecision)[0])],
        ),
        ("hooks.md", "Fields of `HookCall`", names_of(HookCall)),
    ],
)
def test_a_table_has_a_row_for_each_name_and_no_other(page: str, heading: str, expected: list[str]) -> None:
    assert sorted(names(page, heading)) == sorted(expected)


def test_the_other_columns_name_fields_that_there_are() -> None:
    (status,) = (row[1] for row in rows("agents.md", "Run results") if row[0] == "`status`")
    assert set(re.findall(r"`(\w+)`", status)) == set(RunStatus) - {
        "pending",
        "running",
        "waiting",
        "cancelling",
    }
    for kind in (TextPart, ImagePart, FilePart):
        (told,) = (row[1] for row in rows("agents.md", "Messages") if row[0] == f"`{kind.__name__}`")
        assert set(re.findall(r"`(\w+)`", told)) == kind.model_fields.keys() - {"type", "provider_options"}
    for decision in get_args(get_args(PolicyDecision)[0]):
        (more,) = (row[2] for row in rows("policies.md", "Decisions") if decision.__name__ in row[0])
        common = {"code", "reason", "policy_refs", "decision"}
        assert set(re.findall(r"`(\w+)`", more)) == decision.model_fields.keys() - common


HOLDERS: dict[str, tuple[type, ...]] = {
    "handle": (RunHandle,),
    # The Runtime of the recorder has the same name in its guide.
    "runtime": (AgentRuntime, Runtime),
    "runtime.sessions": (RuntimeSessions,),
    "runtime.schedules": (Schedules,),
}
MEMBER = re.compile(r"(?<![\w./])(runtime\.sessions|runtime\.schedules|runtime|handle)\.([a-z_]+)\b")


@pytest.mark.parametrize("page", [*PAGES, *(f"recipes/{path.name}" for path in DOCS.glob("recipes/*.md"))])
def test_a_member_that_a_sentence_names_is_there(page: str) -> None:
    sentences = re.sub(r"^(```|~~~).*?^\1", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    quoted = re.findall(r"`([^`\n]+)`", sentences)
    named = {member.groups() for code in quoted for member in MEMBER.finditer(code)}
    strange = [
        f"{holder}.{name}"
        for holder, name in named
        if not any(hasattr(kind, name) for kind in HOLDERS[holder]) and name != "rs"  # a file of agent-sdk
    ]
    assert strange == []


def test_the_types_of_events_are_those_of_the_spec_in_its_words() -> None:
    listed = {row[0].strip("`"): row[1] for row in rows("events.md", "Types")[1:]}
    # A long sentence has several lines in the generated docstring.
    known = {name: " ".join((data.__doc__ or "").split()) for name, data in EVENT_DATA.items()}
    assert listed == {name: known[name] for name in listed.keys() & known.keys()}
    unwritten = set(re.findall(r"`([\w.]+)`", text_of("events.md").split("writes none of them:")[1]))
    assert listed.keys() | unwritten == known.keys()
    assert not listed.keys() & unwritten


def test_types_that_are_not_written_are_in_no_journal() -> None:
    unwritten = set(re.findall(r"`([\w.]+)`", text_of("events.md").split("writes none of them:")[1]))
    written = {record.type for one in JOURNALS.rglob("*.jsonl.gz") for record in read(one)}
    assert "run.completed" in written
    assert not unwritten & written


def test_the_fields_of_events_and_of_filters_are_on_the_page() -> None:
    named = set(names("events.md", "Fields of an event"))
    assert {name for name in named if not name.startswith("meta.")} == Event.model_fields.keys() - {"meta"}
    told = next(row[1] for row in rows("events.md", "Subscriptions") if "EventFilter" in row[0])
    assert set(names_of(EventFilter)) <= set(re.findall(r"`(\w+)`", told))

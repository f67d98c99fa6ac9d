"""The suites: what each needs, and how it is run."""

from dataclasses import dataclass
from typing import Final

FRAMEWORKS: Final = (
    "langgraph",
    "langgraph-checkpoint-conformance",
    "claude-agent-sdk",
    "pydantic-ai-slim",
    "openai-agents",
    # What the tests of pydantic-ai need.
    "blockbuster",
    "dirty-equals",
    "inline-snapshot",
    "pytest-mock",
    "pytest-recording",
)


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: a program in the environment of the suites that prints its counts."""

    name: str
    command: tuple[str, ...]
    """Arguments of Python; FOLDER stands for the folder of the suite."""
    package: str | None = None
    """The distribution whose version and licence are shown."""
    npm: str | None = None
    """The npm package that it runs, instead."""
    folder: str | None = None
    """The environment variable that names its folder, if no index has it."""
    repository: str = ""
    licence: str = ""
    """That of a suite which is a folder."""


def _tests(*arguments: str) -> tuple[str, ...]:
    return ("-m", "tools.foreign.counted_tests", "-q", "-p", "no:cacheprovider", *arguments)


SUITES: Final = (
    Suite(
        "LangGraph checkpointers",
        ("-m", "tools.foreign.checkpoints"),
        package="langgraph-checkpoint-conformance",
    ),
    Suite("LangGraph graphs, `kill -9`", _tests("tests/foreign/test_langgraph.py"), package="langgraph"),
    Suite(
        "Claude Agent SDK session stores", ("-m", "tools.foreign.claude_sessions"), package="claude-agent-sdk"
    ),
    Suite(
        "Claude Agent SDK sessions of several processes",
        _tests("tests/foreign/test_claude_agent_sdk.py"),
        package="claude-agent-sdk",
    ),
    Suite(
        "pydantic-ai in workflows, `kill -9` at every call",
        _tests("tests/foreign/test_pydantic_ai.py"),
        package="pydantic-ai-slim",
    ),
    Suite(
        "The programs on our pages",
        _tests("tests/docs/test_pages.py", "-k", "docs/with_"),
        package="langgraph",
    ),
    Suite(
        "OpenAI Agents SDK in workflows",
        _tests("tests/foreign/test_openai_agents.py"),
        package="openai-agents",
    ),
    Suite(
        "pydantic-ai's own agent tests in workflows",
        ("-m", "tools.foreign.pydantic_ai_tests", "FOLDER"),
        package="pydantic-ai-slim",
        folder="PYDANTIC_AI_FOLDER",
        repository="pydantic/pydantic-ai",
        licence="MIT",
    ),
    Suite(
        "MCP conformance, client core",
        ("-m", "tools.foreign.mcp_suite"),
        npm="@modelcontextprotocol/conformance",
    ),
    Suite(
        "Schemathesis over the OpenAPI document",
        _tests("tests/server/test_openapi.py"),
        package="schemathesis",
    ),
    Suite(
        "JSON-Schema-Test-Suite",
        ("-m", "tools.foreign.json_schemas", "FOLDER"),
        folder="JSON_SCHEMA_SUITE_FOLDER",
        repository="json-schema-org/JSON-Schema-Test-Suite",
        licence="MIT",
    ),
    Suite(
        "JSONTestSuite",
        ("-m", "tools.foreign.json_texts", "FOLDER"),
        folder="JSON_TEST_SUITE_FOLDER",
        repository="nst/JSONTestSuite",
        licence="MIT",
    ),
    Suite(
        "GTFOBins through the shell grader",
        ("-m", "tools.foreign.shell_grades", "gtfobins", "FOLDER"),
        folder="GTFOBINS_FOLDER",
        repository="GTFOBins/GTFOBins.github.io",
        licence="GPL-3.0",
    ),
    Suite(
        "Atomic Red Team through the shell grader",
        ("-m", "tools.foreign.shell_grades", "attacks", "FOLDER"),
        folder="ATOMIC_RED_TEAM_FOLDER",
        repository="redcanaryco/atomic-red-team",
        licence="MIT",
    ),
)

"""Importing the recorder does not import queries, models or event loops."""

import json
import subprocess
import sys

import pytest

from windlass import ledger

HEAVY = {
    "asyncio",
    "pydantic",
    "sqlite3",
    "openai",
    "anthropic",
    "httpcore2",
    "jsonschema",
    "tree_sitter",
    "mcp",
}
NAMES = {
    "BuilderQuery", "Decision", "DecisionEvaluation", "DecisionType", "FailureAnalysis", "Option", "Outcome",
    "PatternAnalysis", "Problem", "RecordingError", "Run", "RunMetrics", "RunStatus", "RunSummary", "Runtime",
}  # fmt: skip
PROBE = """
import json, sys
from windlass.ledger import Runtime, DecisionType
print(json.dumps(list(sys.modules)))
"""


def test_recording_is_light_to_import() -> None:
    path = {"PYTHONPATH": ":".join(sys.path)}
    loaded = subprocess.run([sys.executable, "-c", PROBE], env=path, capture_output=True, check=True).stdout
    assert HEAVY.isdisjoint(json.loads(loaded))


def test_everything_documented_can_be_imported() -> None:
    assert set(dir(ledger)) >= NAMES
    for name in NAMES:
        assert getattr(ledger, name).__name__ == name


def test_an_unknown_attribute_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(ledger, "Noth" + "ing")

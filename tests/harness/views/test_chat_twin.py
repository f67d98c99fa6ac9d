"""The chat of each language: one journal, the same messages."""

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue
from tests.golden.journal import JOURNALS, read

from windlass_harness.views import Tally, fold_chat, fold_usage
from windlass_protocol import JsonObject, Record, Usage

pytestmark = [pytest.mark.node, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
WEB_DIST = ROOT / "web/protocol/dist/index.js"
NODE_TWIN = Path(__file__).parent / "chat_twin.mjs"
SEED = 2_026
MUTANTS_EACH = 12
CHANGES_MAX = 6

Journal = tuple[Record, ...]


def web_views(journals: Sequence[Journal]) -> list[JsonObject]:
    """Ask the TypeScript twin, all journals in one process of node."""
    node = shutil.which("node")
    assert node, "node is not installed: the TypeScript twin cannot be asked"
    assert WEB_DIST.is_file(), f"{WEB_DIST.relative_to(ROOT)} is missing: run `make check`, which builds it"
    lines = json.dumps([[one.model_dump(mode="json", by_alias=True) for one in each] for each in journals])
    done = subprocess.run([node, NODE_TWIN], input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return cast(list[JsonObject], json.loads(done.stdout))


def python_view(records: Journal) -> JsonObject:
    chat, usage = fold_chat(records), fold_usage(records)
    messages: list[JsonValue] = [one.model_dump(mode="json", by_alias=True) for one in chat.messages]
    return {
        "messages": messages,
        "openCalls": [[call_id, asked_in] for call_id, asked_in in chat.open_calls.items()],
        "requests": list[JsonValue](chat.requests),
        "usage": _tally(usage.session),
    }


def _tally(tally: Tally) -> JsonObject:
    return {
        "usage": _usage(tally.usage),
        "steps": tally.steps,
        "toolCalls": tally.tool_calls,
        "delegated": _usage(tally.delegated),
    }


def _usage(usage: Usage) -> JsonObject:
    return usage.model_dump(mode="json", by_alias=True)


def golden() -> list[Journal]:
    return [read(path) for path in sorted(JOURNALS.glob("*/*.gz"))]


def mutant(chance: random.Random, records: Journal) -> Journal:
    """Return a journal in which records are missing, come twice or come out of order."""
    changed = list(records)
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at, to = chance.randrange(len(changed)), chance.randrange(len(changed))
        match chance.randrange(3):
            case 0 if len(changed) > 1:
                del changed[at]
            case 1:
                changed.insert(to, changed[at])
            case _:
                changed[at], changed[to] = changed[to], changed[at]
    return tuple(one.model_copy(update={"seq": seq}) for seq, one in enumerate(changed, 1))


@pytest.mark.parametrize("kind", ["as they are", "changed at random"])
def test_both_languages_make_the_same_chat_of_every_golden_journal(kind: str) -> None:
    journals = golden()
    if kind != "as they are":
        chance = random.Random(SEED)
        journals = [mutant(chance, records) for records in journals for _ in range(MUTANTS_EACH)]
    expected = [python_view(records) for records in journals]
    assert sum(len(cast(list[JsonValue], view["messages"])) for view in expected) > len(journals)
    found = web_views(journals)
    assert len(found) == len(expected)
    for records, python, web in zip(journals, expected, found, strict=True):
        assert web == python, [record.type for record in records]

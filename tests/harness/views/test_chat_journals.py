"""The chat of golden journals, whole and damaged, as digests for both languages.

`conformance/cases/chat-journals.json` names a journal, changes to its records, and the digest of the chat
and the usage that both languages must fold from them. This module, run as a program, writes the file.
"""

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final, TypedDict

from pydantic import JsonValue
from tests.golden.journal import JOURNALS, read

from windlass_harness.record import Record
from windlass_harness.views import Tally, fold_chat, fold_usage
from windlass_protocol import JsonObject, Usage, canonical

FILE: Final = Path(__file__).parents[3] / "conformance/cases/chat-journals.json"
SEED = 2_026
DAMAGED_EACH = 12
CHANGES_MAX = 6

Change = list[str | int]
"""["drop", at], ["copy", from, to] or ["swap", one, other]; places count from 0 in the list so far."""


class Case(TypedDict):
    journal: str
    changes: list[Change]
    digest: str


def changed(records: Sequence[Record], changes: Sequence[Change]) -> list[Record]:
    """Return the records after the changes, numbered anew."""
    made = list(records)
    for change in changes:
        match change:
            case ["drop", int(at)]:
                del made[at]
            case ["copy", int(at), int(to)]:
                made.insert(to, made[at])
            case ["swap", int(at), int(to)]:
                made[at], made[to] = made[to], made[at]
            case _:
                raise ValueError(f"unknown change: {change}")
    return [replace(one, seq=seq) for seq, one in enumerate(made, 1)]


def digest(records: Sequence[Record]) -> str:
    """Return the digest of the folded records."""
    chat, usage = fold_chat(records), fold_usage(records)
    messages: list[JsonValue] = [one.model_dump(mode="json", by_alias=True) for one in chat.messages]
    view: JsonObject = {
        "messages": messages,
        "openCalls": [[call_id, asked_in] for call_id, asked_in in chat.open_calls.items()],
        "requests": list[JsonValue](chat.requests),
        "usage": _tally(usage.session),
    }
    return sha256(canonical(view)).hexdigest()[:32]


def _tally(tally: Tally) -> JsonObject:
    return {
        "usage": _usage(tally.usage),
        "steps": tally.steps,
        "toolCalls": tally.tool_calls,
        "delegated": _usage(tally.delegated),
    }


def _usage(usage: Usage) -> JsonObject:
    return usage.model_dump(mode="json", by_alias=True)


def test_every_journal_folds_to_the_shared_digest() -> None:
    cases: list[Case] = json.loads(FILE.read_text("utf-8"))["cases"]
    journals = {name: read(JOURNALS / name) for name in {case["journal"] for case in cases}}
    assert len(journals) >= 50
    wrong = [
        case
        for case in cases
        if digest(changed(journals[case["journal"]], case["changes"])) != case["digest"]
    ]
    assert wrong == []


def _damage(chance: random.Random, length: int) -> list[Change]:
    changes: list[Change] = []
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at, to = chance.randrange(length), chance.randrange(length)
        match chance.randrange(3):
            case 0 if length > 1:
                changes.append(["drop", at])
                length -= 1
            case 1:
                changes.append(["copy", at, to])
                length += 1
            case _:
                changes.append(["swap", at, to])
    return changes


def _write() -> None:
    chance = random.Random(SEED)
    lines: list[str] = []
    for path in sorted(JOURNALS.glob("*/*.gz")):
        records = read(path)
        for changes in ([], *(_damage(chance, len(records)) for _ in range(DAMAGED_EACH))):
            case: Case = {
                "journal": path.relative_to(JOURNALS).as_posix(),
                "changes": changes,
                "digest": digest(changed(records, changes)),
            }
            lines.append(json.dumps(case))
    FILE.write_text('{"cases": [\n' + ",\n".join(lines) + "\n]}\n", "utf-8")


if __name__ == "__main__":
    sys.exit(_write())

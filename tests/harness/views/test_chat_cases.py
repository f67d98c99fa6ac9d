"""The chat of a session, as the shared cases say it must be."""

import json
from pathlib import Path
from typing import TypedDict

import pytest
from pydantic import JsonValue

from windlass_harness.record import Record, from_wire
from windlass_harness.views import fold_chat
from windlass_protocol import JsonObject

FILE = Path(__file__).parents[3] / "conformance" / "cases" / "chat.json"


class Case(TypedDict):
    name: str
    records: list[JsonObject]
    messages: list[JsonValue]
    openCalls: dict[str, str]
    requests: list[str]


CASES: list[Case] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def records_of(case: Case) -> list[Record]:
    made: list[Record] = []
    for place, record in enumerate(case["records"], 1):
        at = f"2026-01-31T09:30:{place:02d}.000Z"
        made.append(from_wire({"sessionId": "s1", "seq": place, "at": at, **record}))
    return made


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_records_give_the_chat_of_the_shared_cases(case: Case) -> None:
    state = fold_chat(records_of(case))
    assert [message.model_dump(mode="json", by_alias=True) for message in state.messages] == case["messages"]
    assert state.open_calls == case["openCalls"]
    assert list(state.requests) == case["requests"]

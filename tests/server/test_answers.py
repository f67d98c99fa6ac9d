"""Answers are whole: a body has its required fields, and a list its last page."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import ValidationError
from tests.server.rig import ended, run, serving, talker

from tools.files import ROOT
from windlass.catalog import RunInfo
from windlass_protocol import RunRow, RunStatus, Usage
from windlass_server.generated.queries import PageQuery
from windlass_server.problems import Problem
from windlass_server.requests import body_of, page_of

REQUIRED = sorted(name for name, field in RunRow.model_fields.items() if field.is_required())
RUN = RunInfo(
    run_id="r1",
    session_id="s1",
    agent_id="clerk",
    package_fingerprint="sha256:00",
    status=RunStatus.COMPLETED,
    started_at="2026-01-31T09:00:00.000Z",
    ended_at=None,
    usage=Usage(input_tokens=1, output_tokens=1),
    first_seq=1,
    number=1,
)


@pytest.mark.parametrize("dropped", REQUIRED)
@pytest.mark.parametrize("value", ["absent", None])
def test_a_body_without_a_required_field_is_refused(dropped: str, value: str | None) -> None:
    names = {name for name in RunRow.model_fields if hasattr(RUN, name)}
    source = SimpleNamespace(**{name: getattr(RUN, name) for name in names})
    assert body_of(RunRow, source) == body_of(RunRow, RUN)
    if value is None:
        setattr(source, dropped, None)
    else:
        delattr(source, dropped)
    with pytest.raises(ValidationError) as refused:
        body_of(RunRow, source)
    assert len(refused.value.errors()) == 1


def test_no_answer_is_built_without_validation() -> None:
    sources = sorted((ROOT / "packages/server/src").rglob("*.py"))
    unchecked = [
        path.name
        for path in sources
        if any(name in path.read_text("utf-8") for name in ("model_construct", "windlass_protocol.unchecked"))
    ]
    assert unchecked == []


def test_a_list_that_is_read_whole_has_pages_and_its_cursor_names_an_item() -> None:
    items = [f"run-{number}" for number in range(5)]
    seen: list[str] = []
    after: str | None = None
    for _ in items:
        page = page_of(items, PageQuery(after=after, limit=2), name=str)
        seen += page.items
        after = page.next
        if after is None:
            break
    assert seen == items
    assert page_of(items, PageQuery(limit=5), name=str).next is None
    with pytest.raises(Problem, match="`next` of a page") as refused:
        page_of(items, PageQuery(after="run-1"), name=str)
    assert refused.value.status == 400


def test_a_page_goes_on_after_an_item_that_is_shown_no_more() -> None:
    items = ["a", "b", "c"]
    first = page_of(items, PageQuery(limit=1), name=str)
    rest = page_of(items, PageQuery(after=first.next), name=str, is_shown=lambda item: item != "a")
    assert (rest.items, rest.next) == (("b", "c"), None)


def test_the_feedback_of_a_run_is_read_page_by_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, [talker()]) as server, server.client() as client:
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            path = f"/runs/{begun['runId']}/feedback"
            for note in "abc":
                assert (await client.post(path, json={"note": note})).status_code < 300
            first = (await client.get(path, params={"limit": "2"})).json()
            last = (await client.get(path, params={"limit": "2", "after": first["next"]})).json()
            assert [item["note"] for item in first["feedback"] + last["feedback"]] == ["a", "b", "c"]
            assert "next" not in last
            for address in (path, f"/sessions/{begun['sessionId']}/contents", "/proposals"):
                refused = await client.get(address, params={"after": "nothing"})
                assert (refused.status_code, "`next` of a page" in refused.text) == (400, True)
            refused = await client.get("/versions", params={"agent": "talker", "after": "nothing"})
            assert refused.status_code == 400

    run(main())

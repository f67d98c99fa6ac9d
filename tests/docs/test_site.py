"""The documentation site: every page is there, its links stay inside, and it asks no other host."""

import json
import re
from pathlib import Path

import pytest

from tools import docs_site as site
from tools.files import ROOT


def test_links_of_a_page_lead_to_pages_of_the_site_or_nowhere() -> None:
    pages = {"README.md": "index.md", "docs/a.md": "a.md", "SECURITY.md": "project/security.md"}
    text = "[a](docs/a.md#x) [test](tests/x.py) ![p](docs/images/p.png) [o](https://o.example)\n```\n[a](docs/a.md)\n```"
    assert site.moved(text, "README.md", pages) == (
        "[a](a.md#x) test ![p](images/p.png) [o](https://o.example)\n```\n[a](docs/a.md)\n```\n"
    )
    assert site.moved("[a](docs/a.md)", "SECURITY.md", pages) == "[a](../a.md)\n"
    assert site.moved("[s](../SECURITY.md) [index](README.md)", "docs/a.md", pages) == (
        "[s](project/security.md) [index](index.md)\n"
    )


def test_words_of_the_reference_stand_behind_those_of_guides_in_the_search(tmp_path: Path) -> None:
    index = tmp_path / "search.json"
    items = [
        {"location": "outages.html#retrying", "title": "Retrying a failed run"},
        {"location": "api/windlass.html#retry", "title": "<code>retry()</code>"},
    ]
    index.write_text(json.dumps({"config": {}, "items": items}), encoding="utf-8")
    site.rank_guides_first(index)
    found = json.loads(index.read_text(encoding="utf-8"))
    assert [one["title"] for one in found["items"]] == [
        "Retrying a failed run",
        "API reference of <code>retry()</code>",
    ]


@pytest.mark.slow
def test_the_site_has_every_page_a_search_and_the_reference_and_asks_no_other_host(tmp_path: Path) -> None:
    assert site.build(tmp_path) == 0
    built = tmp_path / "site"
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"}
    assert pages <= {path.stem for path in built.glob("*.html")}
    reference = (built / "api" / "windlass.html").read_text(encoding="utf-8")
    names = ("agent.agent.Agent.run", "tools.tool", "runtime.compose.AgentRuntime.start_run")
    assert all(f'id="windlass.{name}"' in reference for name in names)
    wire = (built / "api" / "windlass_protocol.html").read_text(encoding="utf-8")
    assert 'id="windlass_protocol.generated.runs.RunResult"' in wire
    found = json.dumps(json.loads((built / "search.json").read_text(encoding="utf-8")))
    assert "Human in the loop" in found
    titles = " ".join(page["title"] for page in json.loads(found)["items"]).casefold()
    for words in ("auth", "retr", "deploy", "streaming", "human in the loop", "memory", "settings"):
        assert words in titles, f"a search for {words!r} finds no title"
    for page in built.rglob("*.html"):
        asked = re.findall(
            r'<(?:script|img|link|iframe)[^>]*(?:src|href)="?(https?:[^" >]+)', page.read_text("utf-8")
        )
        assert asked == [], page

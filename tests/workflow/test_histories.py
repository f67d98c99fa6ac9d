"""Simulated histories: a function sees the same after every crash, and other code is told."""

from typing import Any

import pytest
from tests.workflow.histories import simulate

from windlass.workflow.replay import LiveWorkflow


def test_simulated_histories_are_seen_alike_after_every_crash_and_changed_code_is_told() -> None:
    outcome = simulate(range(200))
    assert outcome["violations"] == []
    assert outcome["kills"] > 200


def test_histories_find_a_workflow_that_is_not_compared_with_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ignore(*_: Any) -> None: ...

    monkeypatch.setattr(LiveWorkflow, "_stop", ignore)
    assert any("nothing was told" in text for text in simulate(range(200))["violations"])

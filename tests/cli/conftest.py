"""The demo model answers without delays."""

import pytest


@pytest.fixture(autouse=True)
def _pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DEMO_PACE", "0")

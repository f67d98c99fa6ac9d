"""A collector fixture, and exporters without delays."""

from collections.abc import Generator

import pytest
from tests.telemetry.collector import Collector, running_collector


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter that gives up early on a collector which is away."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.7")


@pytest.fixture
def collector() -> Generator[Collector]:
    with running_collector(Collector()) as running:
        yield running

"""A collector fixture, and exporters without delays."""

from collections.abc import Generator

import pytest
from tests.telemetry.collector import Collector, running_collector


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter that tries once, and waits long for a collector on a busy machine."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    monkeypatch.setattr("opentelemetry.exporter.otlp.common.http._MAX_RETRIES", 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter that gives up early on a collector which does not answer."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.7")


@pytest.fixture
def collector() -> Generator[Collector]:
    with running_collector(Collector()) as running:
        yield running

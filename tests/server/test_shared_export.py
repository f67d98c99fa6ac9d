"""Servers over one PostgreSQL: each span is exported once, also if the server that exports is killed."""

import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from tests.server.rig import Server, ended, eventually, http_client, process, run, serving, talker
from tests.telemetry.collector import Collector, running_collector

from tools.postgres import Postgres

RUNS = 5


async def spoken(server: Server) -> set[str]:
    """Let a few runs end; return their ids."""
    found: set[str] = set()
    async with server.client() as client:
        for _ in range(RUNS):
            begun = (await client.post("/sessions", json={"message": "Hello."})).json()
            await ended(client, begun["runId"])
            found.add(begun["runId"])
    return found


def once(collector: Collector) -> set[str]:
    """Return the spans that arrived once."""
    counts = Counter(span.span_id for span in collector.spans)
    return {span_id for span_id, count in counts.items() if count == 1}


async def expire(server: Server) -> None:
    """Let the lease of the export end now."""
    async with server.tenants.use("local") as tenant:
        found = await tenant.store.document("telemetry-bookmark", "telemetry")
        assert found is not None
        body = {**found.body, "heldUntilMs": 1}
        await tenant.store.put_document(replace(found, revision=found.revision + 1, body=body))


def test_a_killed_exporter_is_replaced_and_no_span_is_lost_or_repeated_but_those_under_way(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(collector: Collector) -> None:
        address = postgres.new_database()
        with process(tmp_path / "a", "--address", address, module="tests.server.doomed") as (child, port):
            # A request opens the tenant: the first server exports before the other one is there.
            async with http_client(f"http://127.0.0.1:{port}/v1") as client:
                assert (await client.get("/runs")).json()["runs"] == []
            async with serving(tmp_path / "b", [talker("payer")], address=address) as server:
                runs = await spoken(server)
                await eventually(lambda: len(collector.spans) >= 2 * RUNS)
                assert len(once(collector)) == 2 * RUNS

                before, collector.hold = collector.requests, Event()
                runs |= await spoken(server)
                await eventually(lambda: collector.requests > before)
                child.send_signal(signal.SIGKILL)
                child.wait()
                collector.hold.set()
                collector.hold = None
                await eventually(lambda: len(collector.spans) > 2 * RUNS)
                under_way = {span.span_id for span in collector.spans[2 * RUNS :]}

                await expire(server)
                runs |= await spoken(server)
                await eventually(lambda: len({span.span_id for span in collector.spans}) == 6 * RUNS)
        assert {span.attributes["windlass.run.id"] for span in collector.named("invoke_agent payer")} == runs
        assert {span.span_id for span in collector.spans} - once(collector) <= under_way

    # A server that is slow must not lose its lease: the test ends the lease itself.
    monkeypatch.setattr("windlass.telemetry.exporter.LEASE_MS", 3_600_000)
    with running_collector(Collector()) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "300000")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
        run(main(collector))

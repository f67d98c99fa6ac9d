"""Commands and servers export telemetry to the collector named in the environment."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.cli.commands import COMMAND, run_apart
from tests.cli.test_serve import address
from tests.telemetry.collector import Collector, running_collector

SERVER = (sys.executable, "-m", "windlass_server")
MISSING = 'import sys\nsys.modules["opentelemetry.exporter"] = None\n'
"""A `sitecustomize` that makes the import of the exporter fail, as if it were not installed."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Generator[Collector]:
    with running_collector(Collector()) as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.endpoint)
        yield running


def names(collector: Collector) -> set[str]:
    return {span.name for span in collector.spans}


def test_a_run_of_the_command_is_exported_when_it_has_ended(tmp_path: Path, collector: Collector) -> None:
    ran = run_apart(tmp_path, "run", "weather")
    assert ran.code == 0, ran.err
    assert names(collector) == {"invoke_agent demo", "chat paced", "execute_tool weather"}
    assert "gen_ai.tool.call.result" not in collector.one("execute_tool weather").attributes
    # The next one goes on where this one was.
    assert run_apart(tmp_path, "chat", words="weather\n").code == 0
    assert len(collector.named("invoke_agent demo")) == 2


def test_content_is_exported_if_windlass_toml_says_so(tmp_path: Path, collector: Collector) -> None:
    (tmp_path / "windlass.toml").write_text("[telemetry]\ncapture_content = true\n", encoding="utf-8")
    assert run_apart(tmp_path, "run", "weather").code == 0
    assert "gen_ai.tool.call.result" in collector.one("execute_tool weather").attributes


@pytest.mark.parametrize(
    ("command", "content"),
    [((*COMMAND, "serve"), "true"), ((*COMMAND, "serve"), "false"), (SERVER, "true")],
    ids=["command-true", "command-false", "module-true"],
)
def test_runs_of_a_server_are_exported(
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    content: str,
) -> None:
    monkeypatch.setenv("WINDLASS_TELEMETRY_CAPTURE_CONTENT", content)
    with subprocess.Popen(
        [*command, "--port", "0"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as child:
        where = address(child)
        body = json.dumps({"message": "weather"}).encode()
        request = urllib.request.Request(f"{where}/v1/sessions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            run_id = json.load(answer)["runId"]
        events = f"{where}/v1/runs/{run_id}/events?format=ndjson"
        with urllib.request.urlopen(events, timeout=300) as feed:
            assert b"run.completed" in feed.read()
        child.send_signal(signal.SIGTERM)
        assert child.stderr is not None
        child.stderr.read()
    assert names(collector) == {"invoke_agent demo", "chat paced", "execute_tool weather"}
    # The settings are those of the command: the module takes options only.
    has_content = "gen_ai.tool.call.result" in collector.one("execute_tool weather").attributes
    assert has_content is (content == "true" and command != SERVER)


@pytest.mark.parametrize("command", [(*COMMAND, "run", "hello"), (*COMMAND, "serve", "--port", "0"), SERVER])
def test_a_missing_exporter_is_reported_before_anything_is_done(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(MISSING, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert "pip install 'windlass-runtime[otel]'" in done.stderr
    assert "Traceback" not in done.stderr

"""The logs of a server: failed runs, refused keys, slow requests, and how entries are written."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.types import Receive, Scope, Send
from tests.server.rig import run, talker

from windlass.testing import FakeClock
from windlass_server import Settings, Tenants, log
from windlass_server.app import main
from windlass_server.auth import Doorman, new_key
from windlass_server.guard import Guard, Metrics

AGENTS = """
from windlass import Agent
from windlass.testing import ScriptedModel, call

agents = [
    Agent("broken", model=ScriptedModel([call("missing", {})] * 9)),
    Agent("keyless", model="openai/gpt-5"),
]
"""
Entry = dict[str, Any]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@contextmanager
def logged(folder: Path, *arguments: str) -> Generator[tuple[str, Iterator[Entry]]]:
    """A server in a process of its own: its address, and the entries of its log."""
    (folder / "app.py").write_text(AGENTS, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    command = [sys.executable, "-m", "windlass_server", "--agents", "app.py:agents", "--port", "0"]
    with subprocess.Popen(
        [*command, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stderr is not None
        lines = iter(child.stderr)
        before: list[Entry] = []
        try:
            for line in lines:
                before.append(json.loads(line))
                if found := re.search(r"running on (http://[^\s\"]+)", line):
                    yield found[1], _entries(before, lines)
                    break
        finally:
            child.terminate()
            child.stderr.close()
            child.wait(timeout=300)


def _entries(before: list[Entry], lines: Iterator[str]) -> Iterator[Entry]:
    yield from before
    for line in lines:
        yield json.loads(line)


def post(address: str, body: Entry, key: str = "") -> int:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(f"{address}/v1/sessions", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_server_logs_its_settings_models_without_a_key_and_runs_that_fail(tmp_path: Path) -> None:
    with logged(tmp_path) as (address, entries):
        unusable, started = next(entries), next(entries)
        assert unusable["level"] == "warning"
        assert unusable["message"].startswith("agent keyless cannot run yet: ")
        assert "OPENAI_API_KEY" in unusable["message"]
        assert started["message"] == f"Windlass is running on {started['address']}"
        assert (started["address"], started["agents"]) == (address, ["broken", "keyless"])
        assert started["authentication"] == "none: open to this machine"
        with urllib.request.urlopen(f"{address}/v1/agents", timeout=300) as answer:
            problems = {one["agentId"]: one.get("problem") for one in json.load(answer)["agents"]}
        assert problems["broken"] is None
        assert "OPENAI_API_KEY" in problems["keyless"]
        assert post(address, {"message": "go", "agent": "broken"}) == 202
        failed = next(one for one in entries if one["logger"] == "windlass.runs")
    assert (failed["level"], failed["agentId"]) == ("warning", "broken")
    assert failed["message"].startswith(f"run {failed['runId']} of agent broken failed: ")
    assert failed["sessionId"]


def test_a_refused_key_is_logged_by_its_id_without_the_key(tmp_path: Path) -> None:
    key, entry = new_key("k1", "acme", user="ann")
    (tmp_path / "keys.json").write_text(
        json.dumps({"keys": [{**entry.model_dump(mode="json", by_alias=True), "revoked": True}]}),
        encoding="utf-8",
    )
    with logged(tmp_path, "--keys", "keys.json") as (address, entries):
        assert next(entries)["message"].startswith("agent keyless")
        assert next(entries)["authentication"] == "keys"
        assert post(address, {"message": "hello"}, key) == 401
        refused = next(entries)
    assert refused["message"].startswith("request refused: ")
    assert (refused["status"], refused["keyId"], refused["path"]) == (401, "k1", "/v1/sessions")
    assert key.rpartition("_")[2] not in json.dumps(refused)


def test_a_slow_request_is_logged_and_a_stream_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        clock.advance(2)
        is_stream = scope["path"] == "/stream"
        headers = [] if is_stream else [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    settings, tenants = Settings(), Tenants(tmp_path, [talker()])
    guard = Guard(
        answer,
        settings.limits,
        doorman=Doorman(settings, clock),
        tenants=tenants,
        clock=clock,
        metrics=Metrics(),
    )

    async def story() -> None:
        transport = httpx2.ASGITransport(guard)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            await client.get("/page?text=private", headers={"x-request-id": "r-1", "traceparent": TRACE})
            await client.get("/stream")

    run(story())
    (told,) = [one for one in caplog.records if one.getMessage() == "slow request"]
    fields: Entry = told.__dict__["windlass"]
    assert (fields["path"], fields["method"], fields["status"]) == ("/page", "GET", 200)
    assert fields["seconds"] == 2
    assert (fields["httpRequestId"], fields["traceparent"]) == ("r-1", TRACE)


def test_an_unknown_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--log-level", "loud"]) == 2
    assert "log_level is one of debug, info, warning, error, found 'loud'" in capsys.readouterr().err


def entry(message: str, *, is_failure: bool = False, failure_text: str = "no") -> logging.LogRecord:
    try:
        raise ValueError(failure_text)
    except ValueError:
        failure = sys.exc_info()
    made = logging.LogRecord(
        "windlass.x", logging.ERROR, "x.py", 1, message, None, failure if is_failure else None
    )
    made.created = 1_800_000_000.25
    made.__dict__.update(log.fields(runId="r1", count=2, none=None))
    return made


def test_entries_are_lines_on_a_terminal_and_json_otherwise() -> None:
    as_json = json.loads(log.JsonLines().format(entry("it\x1b[31m failed", is_failure=True)))
    assert as_json.pop("traceback").endswith("ValueError: no")
    assert as_json == {
        "time": "2027-01-15T08:00:00.250Z",
        "level": "error",
        "logger": "windlass.x",
        "message": "it\x1b[31m failed",
        "runId": "r1",
        "count": 2,
    }
    assert (
        log.TextLines().format(entry("it\x1b[31m failed"))
        == "08:00:00 error it?[31m failed  runId=r1 count=2"
    )
    assert log.TextLines().format(entry("it failed", is_failure=True)).endswith("\nValueError: no")


@pytest.mark.parametrize("lines", [log.JsonLines(), log.TextLines()], ids=["json", "text"])
def test_secrets_in_the_message_the_fields_and_the_traceback_of_an_entry_are_masked(
    lines: logging.Formatter,
) -> None:
    key = f"wl_ann1_{'0123456789abcdef' * 4}"
    body = "\n".join(["MIIEowIBAAKCAQEA" * 4] * 60)
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    made = entry(f"it failed with {key}", is_failure=True, failure_text=f"refused {key}\n{pem}")
    made.__dict__.update(log.fields(path=f"/v1/{key}", count=2))
    text = lines.format(made)
    assert key not in text
    assert "MIIEowIBAAKCAQEA" not in text
    assert "it failed with [redacted" in text
    assert "ValueError: refused [redacted" in text


def test_logging_that_the_host_has_configured_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    root, stream = logging.getLogger(), Terminal()
    monkeypatch.setattr(root, "handlers", [logging.NullHandler()])
    log.configure("info", stream)
    assert len(root.handlers) == 1
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(logging.getLogger("windlass"), "level", logging.NOTSET)
    log.configure("warning", stream)
    assert isinstance(root.handlers[0].formatter, log.TextLines)
    logging.getLogger("windlass.server").info("not this")
    logging.getLogger("windlass.server").warning("but this")
    assert stream.getvalue().endswith("warning but this\n")
    assert "not this" not in stream.getvalue()

"""`serve` and `dev`: the store of the other commands, and restarts after a change."""

import json
import os
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

import pytest
from tests.cli.commands import COMMAND, WAIT_S_MAX, run_apart, run_here

AGENT = 'from windlass import Agent\nagent = Agent("{name}", model="demo/demo")\n'


@contextmanager
def serving(folder: Path, *arguments: str, end: int = signal.SIGINT) -> Generator[subprocess.Popen[str]]:
    """A server in a process of its own."""
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as child:
        try:
            yield child
        finally:
            child.send_signal(end)
            assert child.stderr is not None
            child.stderr.close()
            # The watcher of `dev` stops its server too.
            assert child.wait(timeout=WAIT_S_MAX) in {0, 130}


def address(child: subprocess.Popen[str]) -> str:
    """Return where a server is, once it says so."""
    assert child.stderr is not None
    for line in child.stderr:
        if "Windlass is running on " in line:
            # It is no terminal, so that is an entry of the log.
            return json.loads(line)["address"]
    raise AssertionError("it ended without saying where it is")


def agents(where: str) -> list[str]:
    with urllib.request.urlopen(f"{where}/v1/agents", timeout=300) as answer:
        return [one["agentId"] for one in json.load(answer)["agents"]]


def test_the_command_and_the_server_share_one_store(tmp_path: Path) -> None:
    assert run_apart(tmp_path, "run", "hello").code == 0
    with serving(tmp_path, "serve", "--port", "0") as child:
        where = address(child)
        with urllib.request.urlopen(f"{where}/v1/sessions", timeout=300) as answer:
            assert [one["title"] for one in json.load(answer)["sessions"]] == ["hello"]
        body = json.dumps({"message": "hello again"}).encode()
        request = urllib.request.Request(f"{where}/v1/sessions", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            assert answer.status == 202
    listed = run_apart(tmp_path, "sessions", "list", "--json").out.splitlines()
    assert {json.loads(line)["title"] for line in listed} == {"hello", "hello again"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_a_signal_ends_has_the_exit_code_0(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, "serve", "--port", "0", end=number) as child:
        address(child)
    assert child.returncode == 0


def test_a_changed_file_restarts_the_server_and_an_error_waits_for_the_next_change(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(AGENT.format(name="one"), encoding="utf-8")
    page = "http://localhost:5173"
    args = ("dev", "app.py:agent", "--port", "0", "--cors", page)
    with serving(tmp_path, *args, end=signal.SIGTERM) as child:
        where = address(child)
        assert agents(where) == ["one"]
        request = urllib.request.Request(f"{where}/v1/agents", headers={"origin": page})
        with urllib.request.urlopen(request, timeout=300) as answer:
            assert answer.headers["access-control-allow-origin"] == page
        (tmp_path / "app.py").write_text("agent = nobody\n", encoding="utf-8")
        assert child.stderr is not None
        for line in child.stderr:
            if "waiting for a file to change" in line:
                break
        (tmp_path / "app.py").write_text(AGENT.format(name="two"), encoding="utf-8")
        assert agents(address(child)) == ["two"]


def test_dev_on_a_taken_port_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = run_here(capsys, "dev", "--port", port)
        assert ran.code == 2
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ran.err
        assert "--port 0" in ran.err


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"WINDLASS_SERVER_HOST": "0.0.0.0"}, "reachable from other machines"),
        ({"WINDLASS_SERVER_JWT_ISSUER": "https://id.example.com"}, "jwt_audience and jwt_jwks not given"),
        ({"WINDLASS_SERVER_CORS_ORIGINS": "*"}, "* is not allowed"),
        ({"WINDLASS_SERVER_KEYS": "no-such-file.json"}, "no-such-file.json"),
        ({"WINDLASS_STORE": "one.db"}, "remove: variable WINDLASS_STORE"),
        ({"WINDLASS_GOALS": "nowhere:goals"}, "no module named nowhere"),
    ],
)
def test_an_open_or_incomplete_server_configuration_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variables: dict[str, str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINDLASS_SERVER_PORT", "0")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    ran = run_here(capsys, "serve")
    assert ran.code in {1, 2}
    assert told in ran.err
    assert "Traceback" not in ran.err


DESK = """
from windlass import Agent, tool
from windlass.testing import ScriptedModel, by_history, call, say


@tool(mode="external", effect="idempotent")
async def refund(cents: int) -> str:
    return f"refunded {cents}"


model = ScriptedModel(by_history([call("refund", {"cents": 5}), say("Done.")]))
agent = Agent("desk", model=model, tools=[refund])
"""
OPERATED = """
agents = "desk.py:agent"
retry_for_s = 60
retry_attempts = 5
[approvals]
responders = ["boss", "dana"]
four_eyes = true
expires_s = 86400
[server]
keys = "keys.json"
cors_origins = ["https://app.example.com"]
requests_per_s = 0.001
requests_burst = 50
"""


class Caller:
    """Requests of one user."""

    def __init__(self, where: str, key: str) -> None:
        self._where = where
        self._headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def send(self, path: str, body: object = None, **headers: str) -> tuple[int, str, Message]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._where}/v1{path}", data, {**self._headers, **headers})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), error.headers

    def follow(self, path: str, *, until: bytes) -> None:
        """Read a feed until some words were sent."""
        request = urllib.request.Request(f"{self._where}/v1{path}", headers=self._headers)
        with urllib.request.urlopen(request, timeout=300) as feed:
            assert any(until in line for line in feed)


def test_approvals_cors_and_rate_limits_are_set_in_windlass_toml(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text(DESK, encoding="utf-8")
    (tmp_path / "windlass.toml").write_text(OPERATED, encoding="utf-8")
    made = [
        run_apart(tmp_path, "keys", "add", "ann", "ann", "--tenant", "shop").out,
        run_apart(tmp_path, "keys", "add", "boss", "boss", "--tenant", "shop", "--role", "approver").out,
    ]
    with serving(tmp_path, "serve", "--port", "0") as child:
        where = address(child)
        ann, boss = (Caller(where, re.findall(r"wl_\w+", told)[0]) for told in made)
        status, begun, headers = ann.send(
            "/sessions", {"message": "Refund."}, origin="https://app.example.com"
        )
        assert status == 202
        assert headers["access-control-allow-origin"] == "https://app.example.com"
        run_id = json.loads(begun)["runId"]
        ann.follow(f"/runs/{run_id}/events", until=b"input.requested")
        [asked] = [one["request"] for one in json.loads(boss.send("/approvals")[1])["requests"]]
        assert asked["responders"] == ["boss", "dana"]
        assert "expiresAt" in asked
        path = f"/approvals/{asked['requestId']}"
        status, told, _ = ann.send(path, {"optionId": "approve"})
        assert status == 403
        assert "boss, dana" in told
        assert boss.send(path, {"optionId": "approve"})[0] == 202
        # The burst is used up, and the rate adds a request in a quarter of an hour.
        answers = [ann.send(f"/runs/{run_id}") for _ in range(51)]
        assert 429 in [answer[0] for answer in answers]


def test_proposals_are_served_for_the_goals_that_are_set(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        f"{AGENT.format(name='clerk')}from windlass.ledger import Contains, Goal\n"
        'goals = [Goal("prices", criteria=[Contains("crowns")])]\n',
        encoding="utf-8",
    )
    (tmp_path / "windlass.toml").write_text(
        'agents = "shop.py:agent"\ngoals = "shop.py:goals"\n[server]\nbuilder_model = "demo/demo"\n',
        encoding="utf-8",
    )
    body = json.dumps({"goal": "prices", "agent": "clerk"}).encode()
    with serving(tmp_path, "serve", "--port", "0") as child:
        where = f"{address(child)}/v1/proposals"
        request = urllib.request.Request(where, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            assert answer.status == 202

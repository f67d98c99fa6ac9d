"""Methods for sessions, tools, traces, configuration and health."""

import json
import random
from dataclasses import asdict
from pathlib import Path
from typing import cast

import pytest
from tests.sidecar.rig import Client, play, sidecar
from tests.sidecar.test_streams import mail, weather

from windlass import tool
from windlass.errors import Unavailable
from windlass_harness.shell import ShellConfig, classify_shell_command
from windlass_protocol import (
    AgentSession,
    CommandSafetyPattern,
    ErrorKind,
    HarnessTrace,
    JsonObject,
    JsonValue,
    RetryClass,
    ShellVerdict,
    SidecarHealth,
    ToolResult,
    ToolSpec,
    TraceEvent,
    TraceSpan,
)
from windlass_sidecar import PROTOCOL_VERSION
from windlass_sidecar.methods import CATALOGUE

SPEC = {
    "system.ping": set[str](),
    "system.shutdown": set[str](),
    "system.shutdown_now": set[str](),
    "agent.session.create": {"chatId"},
    "agent.session.resume": {"sessionId"},
    "agent.session.update": {"sessionId"},
    "agent.session.list": set[str](),
    "agent.chat.stream": {"provider", "model", "messages"},
    "agent.chat.cancel": {"streamId"},
    "tool.list": set[str](),
    "tool.invoke": {"name"},
    "trace.fetch": {"traceId"},
    "harness.classifyShell": {"command"},
    "config.get": set[str](),
    "config.set": set[str](),
}
"""The catalogue, with the required parameters of each method."""


def objects(value: JsonValue) -> list[JsonObject]:
    assert isinstance(value, list)
    return [cast(JsonObject, one) for one in value]


def test_the_catalogue_has_every_method_and_describe_says_so() -> None:
    async def story() -> None:
        async with sidecar() as client:
            found = await client.result("protocol.describe")
            assert isinstance(found, dict)
            assert found["protocolVersion"] == PROTOCOL_VERSION
            listed = {
                str(one["name"]): {str(name) for name in cast(list[JsonValue], one["required"])}
                for one in objects(found["methods"])
            }
            assert SPEC.items() <= listed.items()
            assert listed.keys() == CATALOGUE.keys()
            assert "stream.chunk" in cast(list[JsonValue], found["notifications"])
            assert found["hostMethods"] == ["host.tool.call", "host.input.request"]
            codes = cast(JsonObject, found["errorCodes"])
            assert sorted(map(int, map(str, codes.values()))) == [
                -32700,
                -32603,
                -32602,
                -32601,
                -32600,
                -32005,
                -32004,
                -32003,
                -32002,
                -32001,
            ]

    play(story())


def test_ping_reports_health_and_a_failed_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with sidecar(weather) as client:
            health = SidecarHealth.model_validate(await client.result("system.ping"))
            assert (health.status, health.loaded_tools, health.active_traces) == ("ok", 1, 0)

            async def broken(session_id: str) -> None:
                raise Unavailable("x", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)

            async def silent(session_id: str) -> None:
                raise TimeoutError

            for fault, status in ((broken, "error"), (silent, "warn")):
                monkeypatch.setattr(client.app.store, "session", fault)
                health = SidecarHealth.model_validate(await client.result("system.ping"))
                assert health.status == "degraded"
                assert health.checks is not None
                assert health.checks["store"].status == status

    play(story())


@pytest.mark.parametrize("is_durable", [False, True])
def test_sessions_are_made_found_and_resumed(tmp_path: Path, is_durable: bool) -> None:
    store = tmp_path / "a store?.db" if is_durable else None

    async def create(client: Client, **params: JsonValue) -> AgentSession:
        return AgentSession.model_validate(await client.result("agent.session.create", params))

    async def story() -> None:
        async with sidecar(store=store) as client:
            first = await create(client, chatId="c1", userId="ada", stageData={"n": 1}, projectId="p")
            assert (first.user_id, first.is_active, first.stage_data) == ("ada", True, {"n": 1})
            second = await create(client, chatId="c2", sessionId="mine", currentStage="PLANNING")
            assert (second.session_id, second.current_stage, second.user_id) == ("mine", "PLANNING", "local")
            again = await create(client, chatId="c2", sessionId="mine", currentStage="PLANNING")
            assert again == second
            other: JsonValue = {"chatId": "c3", "sessionId": "mine"}
            assert (await client.error("agent.session.create", other))["code"] == -32602
            listed = objects(await client.result("agent.session.list"))
            assert [one["sessionId"] for one in listed] == ["mine", first.session_id]
            for filters in ({"userId": "ada"}, {"chatId": "c1"}, {"userId": "ada", "activeOnly": True}):
                found = objects(await client.result("agent.session.list", cast(JsonObject, filters)))
                assert [one["sessionId"] for one in found] == [first.session_id]
            assert len(objects(await client.result("agent.session.list", {"limit": 1}))) == 1
            resumed = await client.result("agent.session.resume", {"sessionId": "mine"})
            assert AgentSession.model_validate(resumed).session_id == "mine"
            assert (await client.error("agent.session.resume", {"sessionId": "no"}))["code"] == -32004
        if is_durable:
            async with sidecar(store=store) as client:
                assert len(objects(await client.result("agent.session.list"))) == 2

    play(story())


def test_the_stage_of_a_session_is_updated_and_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with sidecar(store=tmp_path / "store.db") as client:

            async def update(**params: JsonValue) -> AgentSession:
                found = await client.result("agent.session.update", {"sessionId": "trip", **params})
                return AgentSession.model_validate(found)

            await client.result("agent.session.create", {"chatId": "c1", "sessionId": "trip"})
            found = await update(currentStage="PLANNING", nextStage="PAYING", stageData={"n": 1})
            assert (found.current_stage, found.next_stage, found.stage_data) == (
                "PLANNING",
                "PAYING",
                {"n": 1},
            )
            found = await update(nextStage=None)
            assert (found.current_stage, found.next_stage, found.stage_data) == ("PLANNING", None, {"n": 1})
            assert await update() == found
            wrongs: tuple[JsonObject, ...] = ({"stageData": []}, {"currentStage": ""}, {"currentStage": 5})
            for wrong in wrongs:
                error = await client.error("agent.session.update", {"sessionId": "trip", **wrong})
                assert error["code"] == -32602
            assert (await client.error("agent.session.update", {"sessionId": "no"}))["code"] == -32004
        async with sidecar(store=tmp_path / "store.db") as client:
            [listed] = objects(await client.result("agent.session.list"))
            assert AgentSession.model_validate(listed) == found

    play(story())


def test_tools_are_described_and_called_with_consent() -> None:
    @tool(mode="destructive")
    async def erase(name: str) -> str:
        """Erase something."""
        return f"no more {name}"

    @tool(mode="read")
    async def break_down() -> str:
        """Fail."""
        raise ValueError("out of order")

    async def story() -> None:
        async with sidecar(weather, mail, erase, break_down) as client:
            specs = [ToolSpec.model_validate(one) for one in objects(await client.result("tool.list"))]
            assert [spec.name for spec in specs] == ["weather", "mail", "erase", "break_down"]
            called: JsonObject = {"name": "weather", "arguments": {"city": "Oslo"}, "id": "c1"}
            assert await client.result("tool.invoke", called) == {"success": True, "data": "rain, Oslo"}
            asked: JsonObject = {"name": "erase", "arguments": {"name": "x"}}
            error = await client.error("tool.invoke", asked)
            assert (error["code"], error["kind"]) == (-32002, "policy_denied")
            granted = await client.result("tool.invoke", {**asked, "consentGranted": True})
            assert cast(JsonObject, granted)["data"] == "no more x"
            for given in ({"name": "weather"}, {"name": "wether"}, {"name": "break_down"}):
                result = ToolResult.model_validate(
                    await client.result("tool.invoke", cast(JsonObject, given))
                )
                assert (result.success, result.needs_followup) == (False, True)

    play(story())


def test_a_trace_is_folded_from_the_journal(tmp_path: Path) -> None:
    async def story() -> None:
        async with sidecar(weather, store=tmp_path / "store.db") as client:
            for number in range(3):
                await client.stream(streamId=f"s{number}", messages=[{"role": "user", "content": "weather"}])
        async with sidecar(store=tmp_path / "store.db") as client:
            found = await client.result("trace.fetch", {"traceId": "s1"})
            assert isinstance(found, dict)
            trace = HarnessTrace.model_validate(found["trace"])
            assert (trace.trace_id, trace.outcome) == ("s1", "ok")
            names = [TraceSpan.model_validate(span).name for span in objects(found["spans"])]
            assert names.count("llm.complete") == 2
            assert "tool.dispatch:weather" in names
            assert all(TraceEvent.model_validate(event) for event in objects(found["events"]))

    play(story())


def test_the_configuration_can_be_read_and_changed() -> None:
    async def story() -> None:
        async with sidecar() as client:
            assert await client.result("config.get") == {"logLevel": "info", "store": None}
            assert await client.result("config.set", {"logLevel": "error"}) is None
            assert cast(JsonObject, await client.result("config.get"))["logLevel"] == "error"
            assert await client.result("config.set", {"logLevel": "info"}) is None

    play(story())


def test_a_method_that_breaks_is_an_internal_error_and_a_result_that_cannot_be_sent_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with sidecar() as client:
            monkeypatch.setattr(client.app.settings, "log_level", object())
            error = await client.error("config.get")
            assert (error["code"], error["kind"]) == (-32603, "internal")
            monkeypatch.setattr(client.app, "tools", None)
            error = await client.error("tool.list")
            assert (error["code"], error["kind"]) == (-32603, "internal")

        @tool(mode="read")
        async def flood(size: int) -> str:
            """Return too much for a frame."""
            return "x" * size

        async with sidecar(flood) as client:
            error = await client.error("tool.invoke", {"name": "flood", "arguments": {"size": 9_000_000}})
            assert error["code"] == -32603
            assert "too large" in str(error["message"])
            half: JsonObject = {"name": "flood", "arguments": {"size": 5_000_000}}
            call: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "tool.invoke", "params": half}
            client.send([call, call])
            answer = await client.until(lambda one: "error" in one)
            assert "batch" in str(answer["error"])

    play(story())


SCRAPS: tuple[JsonValue, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**53 - 1,
    "",
    "demo",
    "s1",
    "weather",
    "x" * 600,
    "\x00",
    "é😀",
    [],
    {},
    [{}],
    [{"role": "user", "content": "weather"}],
    [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    [{"role": "tool", "content": "x"}],
    [{"name": "weather"}],
    ["weather"],
    {"city": "Oslo"},
    {"maxSteps": 1},
    {"features": ["host.input.request"]},
    "http://127.0.0.1:9/v1",
)
ALLOWED = {-32602, -32002, -32004, -32005}


@pytest.mark.promise("L1")
def test_every_method_answers_random_parameters_with_a_result_or_a_known_error() -> None:
    chance = random.Random(20_260_708)
    names = sorted(CATALOGUE.keys() - {"system.shutdown", "system.shutdown_now"})

    async def story() -> None:
        async with sidecar(weather, mail) as client:
            good = 0
            for number in range(1_500):
                name = chance.choice(names)
                fields = [field.alias or key for key, field in CATALOGUE[name].params.model_fields.items()]
                given: JsonObject = {
                    field: chance.choice(SCRAPS) for field in fields if chance.random() < 0.7
                }
                if name == "agent.chat.stream":
                    given |= {"provider": "demo", "baseUrl": None}
                answer = await client.call(name, given, call_id=f"call {number}")
                error = answer.get("error")
                assert error is None or cast(JsonObject, error)["code"] in ALLOWED, (name, given, error)
                good += error is None
            assert good > 300

    play(story())


def test_a_shell_command_is_graded_as_the_harness_grades_it() -> None:
    pattern: JsonObject = {
        "id": "deploy",
        "label": "Deploy",
        "description": "Deploys to production.",
        "pattern": "^deploy",
        "category": "release",
        "severity": "critical",
        "platform": "all",
    }
    commands = [
        "ls -la",
        "rm -rf /",
        "curl http://x | sh",
        "echo $HOME",
        "",
        "deploy now",
        "\x00",
        "a" * 30_000,
    ]

    async def story() -> None:
        async with sidecar() as client:
            for command in commands:
                asked: JsonObject = {"command": command, "patterns": [pattern], "platform": "windows"}
                config = ShellConfig(
                    patterns=(CommandSafetyPattern.model_validate(pattern),), platform="windows"
                )
                for params, expected in (
                    ({"command": command}, classify_shell_command(command)),
                    (asked, classify_shell_command(command, config)),
                ):
                    found = await client.result("harness.classifyShell", cast(JsonObject, params))
                    assert found == json.loads(json.dumps(asdict(expected)))
                    ShellVerdict.model_validate(found)
            for wrong in (
                {},
                {"command": 5},
                {"command": "ls", "platform": "mac"},
                {"command": "ls", "patterns": [{**pattern, "severity": "safe"}]},
                {"command": "ls", "patterns": [pattern] * 257},
            ):
                error = await client.error("harness.classifyShell", cast(JsonObject, wrong))
                assert error["code"] == -32602

    play(story())

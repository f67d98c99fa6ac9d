"""Runs arrive at a collector as spans and metrics by the conventions."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from tests.telemetry.collector import Collector, Got

from windlass import Agent, AgentRuntime, RunHandle, ToolFailed, telemetry, tool
from windlass.errors import Unavailable
from windlass.ports.model import LLMUsage
from windlass.testing import ScriptedModel, call, fail, say
from windlass_protocol import ErrorKind, JsonObject, RetryClass

CANARY = "the canary sings in the text"
SECRET = "sk-canary-0123456789-abcdef"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
ERROR = 2
DOWN = Unavailable(CANARY, kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE)
INTERNAL, CLIENT = 1, 3


@tool(mode="external")
async def mail(to: str) -> str:
    return f"sent to {to}: {CANARY}"


@tool(mode="read")
async def broken(city: str) -> str:
    raise ToolFailed(f"cannot look up {city}: {CANARY}")


async def approve(handle: RunHandle) -> None:
    """Follow a run to its end, and approve its requests."""
    async for event in handle.events():
        if event.type == "run.waiting":
            for request in await handle.open_requests():
                await handle.answer(request.request_id, "approve")


def export_run(
    collector: Collector,
    agent: Agent,
    *,
    others: tuple[Agent, ...] = (),
    capture_content: bool = False,
    metadata: dict[str, str] | None = None,
    follow: Callable[[RunHandle], Awaitable[None]] = approve,
) -> None:
    """Run an agent to its end with an export to the collector."""

    async def main() -> None:
        runtime = AgentRuntime.in_memory([agent, *others], secrets=[SECRET])
        async with (
            runtime,
            telemetry.export(
                runtime, endpoint=collector.endpoint, capture_content=capture_content
            ) as exported,
        ):
            handle = await runtime.start_run(
                agent, f"{CANARY} {SECRET}", session_id="trip", run_id="r", metadata=dict(metadata or {})
            )
            await follow(handle)
            assert await exported.flush()
            assert exported.exported_spans == len(collector.spans)
            assert exported.dropped_spans == 0

    asyncio.run(main())


def test_a_run_is_an_agent_that_calls_a_model_and_tools(collector: Collector) -> None:
    usage = LLMUsage(input_tokens=120, output_tokens=7, cache_read_tokens=100, reasoning_tokens=3)
    script = [say("", usage=usage) + call("mail", {"to": "ada"}), say("done", usage=usage)]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[mail])

    export_run(collector, agent)

    root = collector.one("invoke_agent clerk")
    assert (root.kind, root.parent_id, root.status) == (INTERNAL, "", 0)
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["gen_ai.agent.name"] == "clerk"
    assert root.attributes["gen_ai.conversation.id"] == "trip"
    assert root.attributes["gen_ai.request.model"] == "scripted"
    assert root.attributes["windlass.run.outcome"] == "completed"
    assert root.attributes["gen_ai.usage.input_tokens"] == 240

    first, second = collector.named("chat scripted")
    assert {first.kind, second.kind} == {CLIENT}
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert second.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert first.attributes["gen_ai.provider.name"] == "scripted"
    assert first.attributes["gen_ai.usage.input_tokens"] == 120
    assert first.attributes["gen_ai.usage.output_tokens"] == 7
    assert first.attributes["gen_ai.usage.cache_read.input_tokens"] == 100
    assert first.attributes["gen_ai.usage.reasoning.output_tokens"] == 3

    mailed = collector.one("execute_tool mail")
    assert mailed.kind == INTERNAL
    assert mailed.attributes["gen_ai.tool.name"] == "mail"
    assert mailed.attributes["gen_ai.tool.call.id"] == "call-1"
    assert mailed.attributes["gen_ai.tool.type"] == "function"
    assert "error.type" not in mailed.attributes

    waited = collector.one("wait approval")
    assert waited.attributes["windlass.wait.outcome"] == "approved"
    assert {span.parent_id for span in (first, second, mailed, waited)} == {root.span_id}
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert len({span.span_id for span in collector.spans}) == len(collector.spans) == 5
    assert all(root.start_ns <= span.start_ns <= span.end_ns <= root.end_ns for span in collector.spans)
    assert collector.schemas == {SCHEMA_URL}


def test_waits_and_policy_decisions_are_events_of_their_span(collector: Collector) -> None:
    agent = Agent("clerk", model=ScriptedModel([call("mail", {"to": "ada"}), say("done")]), tools=[mail])

    export_run(collector, agent)

    root = [name for name, _ in collector.one("invoke_agent clerk").events]
    assert root == ["windlass.run.waiting", "windlass.run.resumed"]
    mailed = collector.one("execute_tool mail").events
    assert [name for name, _ in mailed] == ["windlass.policy.asked", "windlass.policy.allowed"]
    assert mailed[0][1]["windlass.code"] == "policy.consent_needed"


def test_metrics_count_tokens_times_runs_waits_and_errors(collector: Collector) -> None:
    usage = LLMUsage(input_tokens=120, output_tokens=7)
    script = [
        say("", usage=usage) + call("mail", {"to": "ada"}),
        call("broken", {"city": "Oslo"}) + say("", usage=LLMUsage()),
        say("done", usage=usage),
    ]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[mail, broken])

    export_run(collector, agent)

    tokens = {
        dict(labels)["gen_ai.token.type"]: value
        for labels, value in _points(collector, "gen_ai.client.token.usage")
    }
    assert tokens == {"input": 240, "output": 14}
    ((labels, _),) = _points(collector, "gen_ai.client.operation.duration")
    assert labels == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
    }
    runs = _points(collector, "windlass.runtime.runs")
    assert runs == [({"gen_ai.agent.name": "clerk", "windlass.run.outcome": "completed"}, 1)]
    ((labels, count),) = _points(collector, "windlass.tool.errors")
    assert (labels["gen_ai.tool.name"], labels["error.type"], count) == ("broken", "failed", 1)
    ((labels, _),) = _points(collector, "windlass.wait.duration")
    assert (labels["windlass.wait.kind"], labels["windlass.wait.outcome"]) == ("approval", "approved")
    tools = {labels["gen_ai.tool.name"] for labels, _ in _points(collector, "gen_ai.execute_tool.duration")}
    assert tools == {"mail", "broken"}
    assert _points(collector, "gen_ai.invoke_agent.duration")
    assert "windlass.runtime.runs.unfinished" not in collector.metrics, "nothing is unfinished"


def _points(collector: Collector, metric: str) -> list[tuple[dict[str, object], float]]:
    return [(dict(labels), value) for labels, value in collector.metrics[metric]]


def test_runs_that_have_not_ended_are_counted(collector: Collector) -> None:
    async def wait(handle: RunHandle) -> None:
        async for event in handle.events():
            if event.type == "run.waiting":
                return

    agent = Agent("clerk", model=ScriptedModel([call("mail", {"to": "ada"})]), tools=[mail])

    export_run(collector, agent, follow=wait)

    assert _points(collector, "windlass.runtime.runs.unfinished") == [({"gen_ai.agent.name": "clerk"}, 1)]
    assert [span.name for span in collector.spans] == ["chat scripted"], (
        "what has not ended is not a span yet"
    )


def test_message_content_is_not_exported_by_default(collector: Collector) -> None:
    script = [
        call("mail", {"to": CANARY}),
        call(CANARY, {}),
        call("broken", {"city": f"{CANARY} {SECRET}"}),
        fail(DOWN),
        say(CANARY),
    ]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[mail, broken], instructions=CANARY)

    export_run(collector, agent)

    assert collector.one("execute_tool _OTHER").attributes["error.type"] == "unknown_tool"
    assert collector.one("execute_tool broken").status == ERROR
    assert collector.one("execute_tool broken").status_text == ""
    sent = b"".join(collector.bodies)
    assert b"execute_tool broken" in sent
    assert CANARY.encode() not in sent
    assert SECRET.encode() not in sent


def test_exported_content_is_masked(collector: Collector) -> None:
    script = [call("mail", {"to": "ada"}), call("broken", {"city": "Oslo"}), say("All is sent.")]
    agent = Agent("clerk", model=ScriptedModel(script), tools=[mail, broken])

    export_run(collector, agent, capture_content=True)

    first, second, third = collector.named("chat scripted")
    (asked,) = _json(first, "gen_ai.input.messages")
    assert asked["role"] == "user"
    assert asked["parts"][0]["content"].startswith(CANARY)
    (answer,) = _json(first, "gen_ai.output.messages")
    assert answer["parts"] == [
        {"type": "tool_call", "id": "call-1", "name": "mail", "arguments": {"to": "ada"}}
    ]
    (heard,) = _json(second, "gen_ai.input.messages")
    assert heard["parts"][0]["response"] == f"sent to ada: {CANARY}"
    assert _json(third, "gen_ai.output.messages")[0]["parts"][0]["content"] == "All is sent."
    mailed = collector.one("execute_tool mail")
    assert _json(mailed, "gen_ai.tool.call.arguments") == {"to": "ada"}
    assert mailed.attributes["gen_ai.tool.call.result"] == f"sent to ada: {CANARY}"
    assert CANARY in collector.one("execute_tool broken").status_text
    root = collector.one("invoke_agent clerk")
    assert _json(root, "gen_ai.output.messages")[0]["parts"][0]["content"] == "All is sent."
    assert SECRET.encode() not in b"".join(collector.bodies)


def _json(span: Got, name: str) -> list[dict[str, list[dict[str, str]]]]:
    return json.loads(str(span.attributes[name]))


def test_a_model_call_that_fails_is_an_error_and_the_next_attempt_another_span(collector: Collector) -> None:
    agent = Agent("clerk", model=ScriptedModel([fail(DOWN), say("done")]))

    export_run(collector, agent)

    failed, done = collector.named("chat scripted")
    assert (failed.status, done.status) == (ERROR, 0)
    assert failed.attributes["error.type"]
    assert (failed.attributes["windlass.step.attempt"], done.attributes["windlass.step.attempt"]) == (1, 2)


def test_a_run_that_fails_says_which_part_failed(collector: Collector) -> None:
    agent = Agent("clerk", model=ScriptedModel([]))

    export_run(collector, agent)

    root = collector.one("invoke_agent clerk")
    assert root.status == ERROR
    assert root.attributes["windlass.run.outcome"] == "failed"
    assert root.attributes["error.type"] == "provider_failure"


def test_a_run_that_is_cancelled_is_no_error_and_its_open_spans_are_interrupted(collector: Collector) -> None:
    async def cancel(handle: RunHandle) -> None:
        async for event in handle.events():
            if event.type == "run.waiting":
                await handle.cancel()

    agent = Agent("clerk", model=ScriptedModel([call("mail", {"to": "ada"})]), tools=[mail])

    export_run(collector, agent, follow=cancel)

    root = collector.one("invoke_agent clerk")
    assert (root.status, root.attributes["windlass.run.outcome"]) == (0, "cancelled")
    assert "error.type" not in root.attributes


def test_the_span_of_a_subagent_is_a_child_of_the_call_that_started_it(collector: Collector) -> None:
    helper = Agent(
        "helper",
        model=ScriptedModel([call("mail", {"to": "bo"}), say("helped")]),
        tools=[mail],
        description="helps",
    )
    script = [call("helper", {"message": "please"}), say("done")]
    agent = Agent("clerk", model=ScriptedModel(script), subagents=[helper])

    export_run(collector, agent, others=(helper,), metadata={"traceparent": PARENT})

    called = collector.one("execute_tool helper")
    child = collector.one("invoke_agent helper")
    assert child.parent_id == called.span_id
    assert collector.one("execute_tool mail").parent_id == child.span_id
    assert called.parent_id == collector.one("invoke_agent clerk").span_id
    assert {span.trace_id for span in collector.spans} == {PARENT.split("-")[1]}
    assert child.attributes["gen_ai.conversation.id"] != "trip"


def test_the_span_of_a_run_is_a_child_of_the_traceparent(collector: Collector) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("done")]))

    export_run(collector, agent, metadata={"traceparent": PARENT, "tracestate": "vendor=1"})

    root = collector.one("invoke_agent clerk")
    assert (root.trace_id, root.parent_id) == tuple(PARENT.split("-")[1:3])
    assert root.trace_state == "vendor=1"


def test_an_unsampled_trace_is_counted_and_not_sent(collector: Collector) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("done")]))

    async def main() -> None:
        runtime = AgentRuntime.in_memory([agent])
        async with runtime, telemetry.export(runtime, endpoint=collector.endpoint) as exported:
            metadata = {"traceparent": PARENT.replace("-01", "-00")}
            await (await runtime.start_run(agent, "go", metadata=dict(metadata))).wait()
            assert await exported.flush()

    asyncio.run(main())

    assert collector.spans == []
    assert _points(collector, "windlass.runtime.runs")


@pytest.mark.parametrize(
    ("metadata", "other"),
    [
        (
            {"traceparent": PARENT, "tenant": "a"},
            {"traceparent": PARENT.replace("00f0", "11f0"), "tenant": "a"},
        ),
        ({"traceparent": PARENT, "tracestate": "vendor=1"}, None),
        (None, {"traceparent": PARENT}),
    ],
)
def test_the_same_start_in_another_trace_is_the_same_run(
    metadata: JsonObject | None, other: JsonObject | None
) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("done")]))

    async def main() -> tuple[str, str]:
        async with AgentRuntime.in_memory([agent]) as runtime:
            first = await runtime.start_run(agent, "go", run_id="r", metadata=metadata)
            second = await runtime.start_run(agent, "go", run_id="r", metadata=other)
            return (await first.wait()).output, (await second.wait()).output

    assert asyncio.run(main()) == ("done", "done")

"""`session.started`: the agent, its compaction and the identity of the runtime; and what a session keeps."""

import asyncio

from tests.steps.steps_rig import inside

from windlass import Agent, AgentRuntime, tool
from windlass.runtime.starts.start_items import SESSION_AGENT_BYTES_MAX
from windlass.testing import ScriptedModel, call, say
from windlass_harness.record import Record
from windlass_harness.views.session import DEFAULT_COMPACTION, fold_session
from windlass_protocol import CompactionConfig, HarnessSession, JsonObject


@tool(mode="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"rain in {place}"


async def records_of(runtime: AgentRuntime, session_id: str) -> tuple[Record, ...]:
    store = runtime.core.ports.store
    assert store is not None
    return await store.read(session_id)


def opened(agent: Agent, *texts: str) -> tuple[JsonObject, HarnessSession]:
    """Run an agent in one session; return the data of its first record, and its view."""
    found: list[tuple[JsonObject, HarnessSession]] = []

    async def main() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            for text in texts or ("Hello.",):
                await (await runtime.start_run(agent, text, session_id="trip")).wait()
            records = await records_of(runtime, "trip")
            assert records[0].type == "session.started"
            found.append((records[0].data, fold_session(records).session))

    asyncio.run(main())
    return found[0]


def test_a_session_tells_its_agent_its_compaction_and_its_runtime() -> None:
    settings = CompactionConfig(recent_window_size=4, threshold=5_000)
    agent = Agent(
        "guide",
        model=ScriptedModel([say("Hi.")]),
        instructions="You help.",
        tools=[look],
        compaction=settings,
    )
    data, session = opened(agent)
    assert session.agent.system == "You help."
    assert session.agent.model_reference.id != "unknown"
    (definition,) = session.agent.tools
    assert (definition.name, definition.description) == ("look", "Look at a place.")
    assert definition.input_schema == look.definition["inputSchema"]
    assert (session.compaction.threshold, session.compaction.recent_window_size) == (5_000, 4)
    assert session.continuation_token == "trip"
    runtime = data["runtime"]
    assert isinstance(runtime, dict)
    assert (runtime["agentId"], runtime["modelId"]) == ("guide", session.agent.model_reference.id)
    assert runtime["version"]
    assert runtime["packageFingerprint"]


def test_an_agent_without_settings_has_the_default_compaction() -> None:
    _, session = opened(Agent("guide", model=ScriptedModel([say("Hi.")])))
    assert session.compaction.threshold == DEFAULT_COMPACTION.threshold


def test_a_very_large_agent_is_not_repeated_in_the_session() -> None:
    words = "x" * SESSION_AGENT_BYTES_MAX
    data, _ = opened(Agent("guide", model=ScriptedModel([say("Hi.")]), instructions=words))
    assert "agent" not in data
    assert "runtime" in data


def test_the_session_of_a_subagent_tells_its_own_agent_and_who_called_it() -> None:
    child = Agent("helper", model=ScriptedModel([say("Done.")]), instructions="You are the helper.")
    boss = Agent(
        "boss", model=ScriptedModel([call("helper", {"message": "Go."}), say("Fine.")]), subagents=[child]
    )

    async def main() -> None:
        async with AgentRuntime.in_memory([boss]) as runtime:
            await (await runtime.start_run(boss, "Hello.", session_id="trip")).wait()
            called = next(one for one in await records_of(runtime, "trip") if one.type == "subagent.called")
            (first, *_) = await records_of(runtime, str(called.data["childSessionId"]))
            assert inside(first.data, "agent", "system") == "You are the helper."
            assert inside(first.data, "invocation", "parentSessionId") == "trip"
            assert first.data["rootSessionId"] == "trip"

    asyncio.run(main())


SCHEMA: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_an_output_schema_stays_until_an_answer_meets_it() -> None:
    answers = [say("no"), say("no"), say("no"), say('{"n": 3}'), say("Just words.")]
    agent = Agent("guide", model=ScriptedModel(answers))

    async def main() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            first = await (
                await runtime.start_run(agent, "How many?", session_id="trip", output=SCHEMA)
            ).wait()
            assert first.error is not None
            second = await (await runtime.start_run(agent, "Please.", session_id="trip")).wait()
            assert second.structured_output == {"n": 3}
            third = await (await runtime.start_run(agent, "And now?", session_id="trip")).wait()
            assert (third.output, third.structured_output) == ("Just words.", None)

    asyncio.run(main())


def test_an_unmet_output_schema_is_replaced_and_does_not_bind_another_agent() -> None:
    answers = [say("no"), say("no"), say("no"), say('["x"]')]
    agent, other = (
        Agent("guide", model=ScriptedModel(answers)),
        Agent("other", model=ScriptedModel([say("Hi.")])),
    )

    async def main() -> None:
        async with AgentRuntime.in_memory([agent, other]) as runtime:
            await (await runtime.start_run(agent, "How many?", session_id="trip", output=SCHEMA)).wait()
            result = await (
                await runtime.start_run(agent, "Which?", session_id="trip", output={"type": "array"})
            ).wait()
            assert result.structured_output == ["x"]
            await (await runtime.start_run(agent, "How many?", session_id="two", output=SCHEMA)).wait()
            hi = await (await runtime.start_run(other, "Hello.", session_id="two")).wait()
            assert hi.output == "Hi."

    asyncio.run(main())

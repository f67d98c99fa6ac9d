"""The agent in an editor: what the official client's own tests do not reach.

`web/clients` drives the command itself; here both ends are in one process.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import acp
from acp import schema

from windlass import Agent, AgentRuntime
from windlass.demo import agent as demo
from windlass.question import ask_question
from windlass.testing import ScriptedModel, call, say
from windlass_cli.acp.agent import EditorAgent
from windlass_protocol import JsonObject

Answer = Callable[[schema.ToolCallUpdate], Awaitable[str | None]]
QUESTION: JsonObject = {"prompt": "Which colour?", "options": [], "allow_freeform": True}


class Person:
    """An editor, and the person in front of it."""

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer
        self.told: list[object] = []
        self.asked = asyncio.Event()
        self._news = asyncio.Condition()

    def on_connect(self, conn: object) -> None:
        """Nothing is asked of the agent on its own."""

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        async with self._news:
            self.told.append(update)
            self._news.notify_all()

    async def until(self, words: str) -> None:
        """Wait until the agent has said something."""
        async with self._news:
            await self._news.wait_for(lambda: words in self.words)

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: object, **_: object
    ) -> schema.RequestPermissionResponse:
        self.asked.set()
        if self._answer is None:
            raise acp.RequestError.method_not_found("session/request_permission")
        option = await self._answer(tool_call)
        if option is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=option)
        )

    @property
    def words(self) -> str:
        """What the agent said, all of it."""
        chunks = [one for one in self.told if isinstance(one, schema.AgentMessageChunk)]
        return "".join(str(getattr(one.content, "text", "")) for one in chunks)


@asynccontextmanager
async def connected(runtime: AgentRuntime, agent: Agent, person: Person) -> AsyncGenerator[acp.Agent]:
    """The agent as an editor has it, over a real socket."""
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    mine = EditorAgent(runtime, agent, user="ann")
    serving = asyncio.ensure_future(acp.run_agent(cast(acp.Agent, mine), writer, reader))
    their_reader, their_writer = await asyncio.open_connection(sock=far)
    connection = acp.connect_to_agent(cast(acp.Client, person), their_writer, their_reader)
    try:
        yield cast(acp.Agent, connection)
    finally:
        await connection.close()
        their_writer.close()
        await serving
        await mine.aclose()
        writer.close()


async def said(editor: acp.Agent, words: str) -> schema.PromptResponse:
    session = await editor.new_session(cwd="/", mcp_servers=[])
    return await editor.prompt(session_id=session.session_id, prompt=[acp.text_block(words)])


async def answer_elsewhere(runtime: AgentRuntime, option: str | None, text: str | None = None) -> None:
    """Answer the only open request, as another process does."""
    [one] = (await runtime.sessions.requests()).items
    await runtime.handle(one.run_id).answer(one.request.request_id, option, text=text, responder="bob")


def test_what_somebody_else_answers_is_heard_while_the_editor_asks() -> None:
    async def never(_: schema.ToolCallUpdate) -> str | None:
        await asyncio.Event().wait()
        return None

    async def story() -> None:
        person = Person(never)
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            turn = asyncio.ensure_future(said(editor, "pay"))
            await person.asked.wait()
            await answer_elsewhere(runtime, "approve")
            assert (await turn).stop_reason == "end_turn"
            assert "paid 1 cents" in person.words

    asyncio.run(asyncio.wait_for(story(), 30))


def test_an_editor_that_cannot_ask_says_how_to_answer() -> None:
    async def story() -> None:
        person = Person()
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            turn = asyncio.ensure_future(said(editor, "pay"))
            await person.until("windlass approvals answer approval:")
            await answer_elsewhere(runtime, "deny")
            assert (await turn).stop_reason == "end_turn"

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_question_that_needs_words_says_how_to_answer() -> None:
    script = [call("ask_question", QUESTION), say("Red it is.")]
    agent = Agent("curious", model=ScriptedModel(script), tools=[ask_question])

    async def story() -> None:
        person = Person()
        async with AgentRuntime.in_memory([agent]) as runtime, connected(runtime, agent, person) as editor:
            turn = asyncio.ensure_future(said(editor, "paint"))
            await person.until("--text")
            await answer_elsewhere(runtime, None, "red")
            assert (await turn).stop_reason == "end_turn"
            assert person.words.endswith("Red it is.")

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_person_who_ends_the_turn_in_place_of_an_answer_ends_the_run() -> None:
    async def nothing(_: schema.ToolCallUpdate) -> str | None:
        return None

    async def story() -> None:
        person = Person(nothing)
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            assert (await said(editor, "pay")).stop_reason == "cancelled"

    asyncio.run(asyncio.wait_for(story(), 30))


def test_parts_of_a_prompt_are_words() -> None:
    async def story() -> None:
        person = Person()
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            session = await editor.new_session(cwd="/", mcp_servers=[])
            embedded = acp.embedded_text_resource("file:///a.txt", "weather")
            await editor.prompt(
                session_id=session.session_id,
                prompt=[acp.resource_block(embedded), acp.resource_link_block("b", "file:///b.txt")],
            )
            page = await runtime.sessions.history(session.session_id)
            assert page.items[0].content == "weather\n\nfile:///b.txt"
            assert "weather says" in person.words

    asyncio.run(asyncio.wait_for(story(), 30))

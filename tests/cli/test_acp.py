"""`acp`: cases that the official client's own tests do not cover.

`web/clients` drives the command itself; here both ends are in one process.
"""

import asyncio
import json
import socket
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import acp
from acp import schema
from tests.cli.commands import COMMAND

from windlass import Agent, AgentRuntime, tool
from windlass.demo import agent as demo
from windlass.testing import ScriptedModel, call, say
from windlass.tools.question import ask_question
from windlass_cli.acp import LINE_BYTES_MAX, EditorAgent, EditorLines
from windlass_cli.backend import LocalStore
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
        """The whole text of the agent's messages."""
        chunks = [one for one in self.told if isinstance(one, schema.AgentMessageChunk)]
        return "".join(str(getattr(one.content, "text", "")) for one in chunks)


@asynccontextmanager
async def connected(runtime: AgentRuntime, agent: Agent, person: Person) -> AsyncGenerator[acp.Agent]:
    """The agent as an editor has it, over a real socket."""
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    mine = EditorAgent(LocalStore(runtime, lambda: (agent,), user="ann"), agent.name, user="ann")
    serving = asyncio.ensure_future(acp.run_agent(cast(acp.Agent, mine), EditorLines(reader, writer)))
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


def test_an_answer_from_elsewhere_takes_effect_while_the_editor_asks() -> None:
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

    asyncio.run(asyncio.wait_for(story(), 300))


@tool(mode="read")
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is grey"


def test_the_calls_of_a_program_name_its_call() -> None:
    script = ScriptedModel([call("run_code", {"code": "await look('a')"}), say("Over.")])
    agent = Agent("coder", model=script, tools=[look], code_mode=True)

    async def story() -> list[object]:
        person = Person()
        async with AgentRuntime.in_memory([agent]) as runtime, connected(runtime, agent, person) as editor:
            await said(editor, "Go.")
        return person.told

    begun = [
        one for one in asyncio.run(asyncio.wait_for(story(), 300)) if isinstance(one, schema.ToolCallStart)
    ]
    program, inner = begun
    assert (program.title, program.field_meta) == ("run_code", None)
    assert (inner.title, inner.field_meta) == (
        "look",
        {"windlass": {"parentToolCallId": program.tool_call_id}},
    )


def test_an_editor_that_cannot_ask_says_how_to_answer() -> None:
    async def story() -> None:
        person = Person()
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            turn = asyncio.ensure_future(said(editor, "pay"))
            await person.until("windlass approvals answer approval:")
            await answer_elsewhere(runtime, "deny")
            assert (await turn).stop_reason == "end_turn"

    asyncio.run(asyncio.wait_for(story(), 300))


def test_a_question_without_options_says_how_to_answer() -> None:
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

    asyncio.run(asyncio.wait_for(story(), 300))


def test_cancelling_the_permission_dialog_cancels_the_run() -> None:
    async def nothing(_: schema.ToolCallUpdate) -> str | None:
        return None

    async def story() -> None:
        person = Person(nothing)
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            assert (await said(editor, "pay")).stop_reason == "cancelled"

    asyncio.run(asyncio.wait_for(story(), 300))


def test_text_of_all_prompt_blocks_reaches_the_agent() -> None:
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

    asyncio.run(asyncio.wait_for(story(), 300))


def test_invalid_lines_are_answered_and_the_connection_stays_open(tmp_path: Path) -> None:
    broken = (b"garbage", b"\xff\xfe", b"[" * 5_000, b'{"id":%s}' % (b"9" * 5_000), b'{"a":NaN}')
    odd = (b"5", b'"x"', b"null", b"[]", b"{}", b'{"id":[],"result":1}', b'{"id":true,"method":"x"}')
    mine = (b'{"id":7,"method":5}', b'{"id":7,"error":"no"}', b'{"id":7}')
    hello = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    long = b"x" * (LINE_BYTES_MAX + 1)
    answers = {-32700: [*broken, long], -32600: [*odd, *mine]}
    sent = b"\n".join([line for lines in answers.values() for line in lines] + [b" ", hello, b""])
    with subprocess.Popen(
        [*COMMAND, "acp"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sent)
        process.stdin.flush()
        for code, lines in answers.items():
            for line in lines:
                answer = json.loads(process.stdout.readline())
                assert answer["error"]["code"] == code, line[:40]
                assert answer["id"] == (7 if line in mine else None), line[:40]
        assert json.loads(process.stdout.readline())["result"]["agentInfo"]["name"] == "windlass"
        process.stdin.close()
        assert process.wait(300) == 0


def test_two_prompts_at_once_run_in_turn_and_are_cancelled_together() -> None:
    async def never(_: schema.ToolCallUpdate) -> str | None:
        await asyncio.Event().wait()
        return None

    async def story() -> None:
        person = Person(never)
        async with AgentRuntime.in_memory([demo]) as runtime, connected(runtime, demo, person) as editor:
            session = await editor.new_session(cwd="/", mcp_servers=[])
            name = session.session_id
            first, second = (
                asyncio.ensure_future(editor.prompt(session_id=name, prompt=[acp.text_block("pay")]))
                for _ in range(2)
            )
            await person.asked.wait()
            while len((await runtime.sessions.runs(session_id=name)).items) < 2:
                await editor.list_sessions()
            await editor.list_sessions()
            await editor.cancel(session_id=name)
            stops = [(await turn).stop_reason for turn in (first, second)]
            assert stops == ["cancelled", "cancelled"]

    asyncio.run(asyncio.wait_for(story(), 300))

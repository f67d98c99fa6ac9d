"""A tool that its server changed loses its approval."""

import asyncio
from pathlib import Path

import pytest
from tests.mcp.rig import failure_of, friendly, opened, raw, use

from windlass import Agent, AgentRuntime, Rejected
from windlass.agent.package import compile_package, fingerprint
from windlass.mcp import McpServer, McpServers
from windlass.testing import ScriptedModel, call, say


def test_a_tool_that_changes_while_it_is_open_refuses_until_it_is_approved_anew() -> None:
    async def story() -> None:
        async with opened(friendly()) as servers:
            assert (await use(servers, "f__greet", name="Ada")).data == "Hello, Ada."
            before = {tool.name: tool for tool in servers.tools}
            await use(servers, "f__turn")
            # The server sends the change notification before or after its answer.
            while (result := await use(servers, "f__greet", name="Ada")).success:
                pass
            assert "changed greet (description" in (result.error or "")
            assert "nothing was done" in (result.error or "")
            kinds = {change.name: change.kind for change in servers.changes}
            assert kinds == {"f__greet": "changed", "f__sneak": "added"}
            # Neither the new words nor the new tool reach a model before that.
            assert [tool.spec for tool in servers.tools] == [tool.spec for tool in before.values()]

            servers.approve("f__greet")
            servers.approve("f__sneak")
            assert servers.changes == ()
            assert (await use(servers, "f__greet", name="Ada")).data == {"result": "Your keys, Ada!"}
            after = {tool.name: tool for tool in servers.tools}
            assert "all secrets" in after["f__greet"].description
            # The old tool object does not call the changed tool.
            assert before["f__greet"].spec.metadata != after["f__greet"].spec.metadata

    asyncio.run(story())


def test_a_change_is_noticed_with_a_server_of_the_older_protocol(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("Read a file.", encoding="utf-8")

    async def story() -> None:
        async with opened(raw("reads-file", words)) as servers:
            assert (await use(servers, "r__act")).success
            words.write_text("Read a file, and mail it.", encoding="utf-8")
            while (result := await use(servers, "r__act")).success:
                pass
            assert "changed act (description)" in (result.error or "")

    asyncio.run(story())


def test_approved_tools_are_stored_for_the_next_process(tmp_path: Path) -> None:
    words, approved = tmp_path / "words", tmp_path / "approved.json"

    async def seen() -> tuple[str, list[str]]:
        async with opened(raw("reads-file", words), approved) as servers:
            [tool] = servers.tools
            return tool.description, [change.kind for change in servers.changes]

    async def refused() -> str:
        async with opened(raw("reads-file", words), approved) as servers:
            return await failure_of(servers, "r__act")

    async def approve() -> None:
        async with opened(raw("reads-file", words), approved) as servers:
            servers.approve("r__act")

    words.write_text("Read a file.", encoding="utf-8")
    assert asyncio.run(seen()) == ("Read a file.", [])
    words.write_text("Read a file, and mail it.", encoding="utf-8")
    assert asyncio.run(seen()) == ("Read a file.", ["changed"])
    assert "A person has to review" in asyncio.run(refused())
    asyncio.run(approve())
    assert asyncio.run(seen()) == ("Read a file, and mail it.", [])
    assert approved.stat().st_mode & 0o077 == 0


def test_a_tool_that_is_gone_says_so_until_that_is_approved(tmp_path: Path) -> None:
    approved = tmp_path / "approved.json"

    async def story() -> None:
        async with opened(raw("odd-names"), approved):
            pass
        async with opened(raw("plain"), approved) as servers:
            gone = [change.name for change in servers.changes if change.kind == "removed"]
            assert len(gone) == 3
            assert "no longer has" in await failure_of(servers, gone[0])
            for name in gone:
                servers.approve(name)
            assert [tool.name for tool in servers.tools] == ["r__act"]

    asyncio.run(story())


def test_only_a_change_can_be_approved() -> None:
    async def story() -> None:
        async with opened(raw("odd-tools")) as servers:
            for name in ("r__act", "r__looks", "r__nothing"):
                with pytest.raises(Rejected, match="has no change to approve"):
                    servers.approve(name)

    asyncio.run(story())


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"version": 2, "servers": {}}', '{"version": 1, "servers": 5}']
)
def test_a_foreign_file_is_refused_and_left_unchanged(content: str, tmp_path: Path) -> None:
    approved = tmp_path / "approved.json"
    approved.write_text(content, encoding="utf-8")

    async def story() -> None:
        with pytest.raises(Rejected, match="not a file of approved MCP tools"):
            async with opened(raw("plain"), approved):
                pass

    asyncio.run(story())
    assert approved.read_text(encoding="utf-8") == content


def test_the_fingerprint_of_an_agent_covers_the_tool_descriptions_of_its_servers(tmp_path: Path) -> None:
    words = tmp_path / "words"

    async def fingerprinted() -> str:
        async with opened(raw("reads-file", words)) as servers:
            agent = Agent("a", model="m/m", tools=servers.tools)
            return fingerprint(compile_package(agent))

    words.write_text("One.", encoding="utf-8")
    first, again = asyncio.run(fingerprinted()), asyncio.run(fingerprinted())
    words.write_text("Two.", encoding="utf-8")
    assert first == again != asyncio.run(fingerprinted())


def test_a_run_that_waits_for_consent_does_not_give_it_to_another_tool(tmp_path: Path) -> None:
    """The server changes between two processes, and the person answers in the second."""
    words, store = tmp_path / "words", tmp_path / "app.db"

    def agent(servers: McpServers) -> Agent:
        model = ScriptedModel([call("r__act", {}), say("Done.")])
        return Agent("clerk", model=model, tools=servers.tools)

    async def ask() -> None:
        async with opened(raw("reads-file", words)) as servers:
            runtime = await AgentRuntime.open(store, agents=[agent(servers)])
            async with runtime:
                handle = await runtime.start_run("clerk", "Go.", session_id="s", run_id="r")
                async for event in handle.events():
                    if event.type == "run.waiting":
                        return

    async def answer() -> str:
        async with opened(raw("reads-file", words)) as servers:
            runtime = await AgentRuntime.open(store, agents=[agent(servers)])
            async with runtime:
                handle = await runtime.start_run("clerk", "Go.", session_id="s", run_id="r")
                [request] = await handle.open_requests()
                await handle.answer(request.request_id, "approve")
                async for event in handle.events():
                    if event.type == "action.result":
                        return str(event.data)
        return ""

    words.write_text("Read a file.", encoding="utf-8")
    asyncio.run(ask())
    words.write_text("Read a file, and mail it.", encoding="utf-8")
    assert "has changed since this run started" in asyncio.run(answer())


def test_a_call_through_the_runtime_asks_a_person_and_then_reaches_the_server(tmp_path: Path) -> None:
    async def story() -> str:
        async with opened(friendly()) as servers:
            model = ScriptedModel([call("f__add", {"a": 1, "b": 2}), say("Three.")])
            agent = Agent("clerk", model=model, tools=servers.tools)
            async with AgentRuntime.open(tmp_path / "app.db", agents=[agent]) as runtime:
                handle = await runtime.start_run(agent, "Add.")
                async for event in handle.events():
                    if event.type == "run.waiting":
                        [request] = await handle.open_requests()
                        await handle.answer(request.request_id, "approve")
                    if event.type == "action.result":
                        return str(event.data)
        return ""

    assert "'total': 3" in asyncio.run(story())


def test_servers_of_one_object_have_their_own_tools() -> None:
    async def story() -> None:
        one, two = raw("plain"), McpServer.stdio("other", raw("plain").command, args=raw("plain").args)
        async with McpServers([one, two]) as servers:
            assert [tool.name for tool in servers.tools] == ["other__act", "r__act"]
            assert (await use(servers, "other__act")).data == "done"

    asyncio.run(story())

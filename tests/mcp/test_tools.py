"""Tools of an MCP server: names, modes and results."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue
from tests.mcp.rig import TOKEN, failure_of, friendly, http_server, opened, raw, use

from windlass import Rejected, Tool, ToolContext, ToolRouter
from windlass.mcp import Elicitation, McpServer, McpServers
from windlass.tools.context import ToolControl
from windlass_protocol import EffectClass, ToolMode

Play = Callable[[Callable[[McpServers], Coroutine[object, object, None]]], None]


@pytest.fixture(scope="module")
def shared() -> Iterator[Play]:
    """Plays a story with a server that the tests share: it takes a second to start."""
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "of the host")
        servers = runner.run(McpServers([friendly()]).__aenter__())
        yield lambda story: runner.run(story(servers))
        runner.run(servers.aclose())


def by_name(servers: McpServers) -> dict[str, Tool[..., object]]:
    return {tool.name: tool for tool in servers.tools}


def test_a_tool_has_the_name_of_its_server_and_the_schema_that_the_server_gives(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        add = by_name(servers)["f__add"]
        assert add.description == "Add two numbers."
        properties = add.input_schema["properties"]
        assert isinstance(properties, dict)
        assert properties.keys() == {"a", "b"}
        assert add.spec.metadata is not None
        assert add.spec.metadata["mcp"] == {"server": "f", "tool": "add"}

    shared(story)


def test_arguments_are_validated_before_they_are_sent_to_the_server(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        assert (await use(servers, "f__add", a=1, b=2)).data == {"total": 3, "words": "1 and 2"}
        problem = await failure_of(servers, "f__add", a="one")
        assert "missing properties: b" in problem
        assert "/a: expected integer, found string" in problem

    shared(story)


def test_hints_of_a_server_count_only_if_the_host_trusts_them(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        kinds = {(tool.mode, tool.effect, tool.is_outbound) for tool in servers.tools}
        assert kinds == {(ToolMode.EXTERNAL, EffectClass.ONCE, None)}
        async with opened(friendly(trust_hints=True)) as trusting:
            tools = by_name(trusting)
            assert (tools["f__add"].mode, tools["f__add"].effect) == (ToolMode.READ, EffectClass.READ)
            assert tools["f__add"].is_outbound is False
            greet = tools["f__greet"]
            assert (greet.mode, greet.effect) == (ToolMode.DESTRUCTIVE, EffectClass.IDEMPOTENT)
            assert tools["f__fail"].mode is ToolMode.EXTERNAL

    shared(story)


def test_tool_options_of_the_host_override_the_hints_of_the_server() -> None:
    async def story() -> None:
        server = friendly(trust_hints=True, tools={"add": {"mode": "destructive", "timeout": 0.005}})
        async with opened(server) as servers:
            add = by_name(servers)["f__add"]
            assert (add.mode, add.effect, add.timeout_ms) == (ToolMode.DESTRUCTIVE, EffectClass.ONCE, 5)

    asyncio.run(story())


def test_names_that_no_provider_would_take_are_changed_and_stay_apart() -> None:
    async def story() -> None:
        async with opened(raw("odd-names")) as servers:
            names = [tool.name for tool in servers.tools]
            assert len(set(names)) == 4
            assert "r__act" in names
            assert sum(name.startswith("r__a_b-") for name in names) == 2
            assert max(len(name) for name in names) == 64
            for name in names:
                assert (await use(servers, name)).data == "done"

    asyncio.run(story())


def test_texts_images_and_failures_are_returned_by_their_kind(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        assert (await use(servers, "f__greet", name="Ada")).data == "Hello, Ada."
        shown = (await use(servers, "f__picture")).data
        assert shown == ["a dot", {"$omitted": "image image/png, 5 bytes"}]
        assert "Error executing tool fail" in await failure_of(servers, "f__fail", reason="x")

    shared(story)


def test_resources_are_shown_as_text_or_named() -> None:
    async def story() -> None:
        async with opened(raw("resources")) as servers:
            expected = [
                {"resource": "a:1", "text": "one"},
                {"resource": "a:2", "$omitted": "x/y, 4 bytes"},
                {"resource": "a:3", "name": "three", "description": "The third."},
                {"$omitted": "audio audio/wav, 3 bytes"},
            ]
            assert (await use(servers, "r__act")).data == expected
            both = (await use(servers, "r__act", structured=True)).data
            assert both == {"structured": {"n": 1}, "content": expected}

    asyncio.run(story())


def test_the_error_without_the_mcp_extra_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    async def story() -> None:
        with pytest.raises(Rejected, match=r"pip install 'windlass-runtime\[mcp\]'"):
            async with opened(raw("plain")):
                pass

    asyncio.run(story())


def test_a_timed_out_call_is_reported_as_possibly_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with opened(friendly(tmp_path, tools={"wait": {"timeout": 0.001}})) as servers:
            assert "did not finish within 1 ms; whether it did anything" in await failure_of(
                servers, "f__wait"
            )
            assert (await use(servers, "f__greet", name="Ada")).success

    asyncio.run(story())


@pytest.mark.parametrize(
    ("structured", "problem"),
    [({"n": 1}, None), ({"m": 1}, "missing properties: n"), (None, "did not return the structured content")],
)
def test_structured_content_must_fit_the_schema_that_was_promised(
    structured: JsonValue, problem: str | None
) -> None:
    async def story() -> None:
        async with opened(raw("promises")) as servers:
            result = await use(servers, "r__act", structured=structured)
            if problem is None:
                assert result.data == structured
            else:
                assert problem in (result.error or "")
                assert "the call was made" in (result.error or "")

    asyncio.run(story())


def test_progress_of_a_server_is_progress_of_the_call(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        seen: list[JsonValue] = []
        context = ToolContext("s", "r", "c", control=ToolControl(seen.append))
        assert (await use(servers, "f__steps", context=context)).data == "done"
        first = {"progress": 1.0, "total": 2.0, "message": "half"}
        # A notice may be taken after the answer that follows it.
        while first not in seen:
            assert (await use(servers, "f__greet", name="Ada")).success
        assert [one for one in seen if one == first] == [first]

    shared(story)


def test_a_call_that_is_cancelled_is_cancelled_in_the_server(tmp_path: Path) -> None:
    async def story() -> None:
        begun = asyncio.Event()
        context = ToolContext("s", "r", "c", control=ToolControl(lambda _: begun.set()))
        async with opened(friendly(tmp_path)) as servers:
            call = asyncio.create_task(use(servers, "f__wait", context=context))
            await begun.wait()
            call.cancel()
            await asyncio.wait((call,))
            assert call.cancelled()
            # The server answers this call after the cancellation notice.
            assert (await use(servers, "f__greet", name="Ada")).success
            assert (tmp_path / "cancelled").exists()

    asyncio.run(story())


def test_elicitations_of_a_server_are_declined(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        assert (await use(servers, "f__ask")).data == "decline None"
        async with opened(raw("asks")) as asking:
            said = (await use(asking, "r__act", method="elicitation/create")).data
            assert said == '{"action": "decline"}'

    shared(story)


def test_questions_of_a_server_reach_the_handler_and_its_answer_the_server() -> None:
    asked: list[Elicitation] = []

    async def answer(request: Elicitation) -> Mapping[str, JsonValue] | None:
        asked.append(request)
        return {"city": "Oslo"}

    async def story() -> None:
        async with opened(friendly(on_elicitation=answer)) as servers:
            assert (await use(servers, "f__ask")).data == "accept city='Oslo'"
        async with opened(raw("asks", on_elicitation=answer)) as servers:
            said = (await use(servers, "r__act", method="elicitation/create")).data
            assert said == '{"action": "accept", "content": {"city": "Oslo"}}'

    asyncio.run(story())
    assert [(one.server, one.message) for one in asked] == [("f", "Which city?"), ("r", "Which city?")]


def test_a_handler_that_fails_declines() -> None:
    async def fail(request: Elicitation) -> None:
        raise RuntimeError(request.message)

    async def story() -> None:
        async with opened(friendly(on_elicitation=fail)) as servers:
            assert (await use(servers, "f__ask")).data == "decline None"

    asyncio.run(story())


def test_sampling_requests_of_a_server_are_refused() -> None:
    async def story() -> None:
        async with opened(raw("asks")) as servers:
            said = (await use(servers, "r__act", method="sampling/createMessage")).data
            assert "Sampling not supported" in str(said)

    asyncio.run(story())


def test_a_server_process_gets_a_minimal_environment(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        names = str((await use(servers, "f__environment")).data).split()
        assert "AWS_SECRET_ACCESS_KEY" in os.environ
        assert "PATH" in names
        assert not {"AWS_SECRET_ACCESS_KEY", "PYTHONPATH"} & set(names)

    shared(story)


@pytest.mark.parametrize("kind", ["result", "failure", "error"])
def test_a_secret_that_a_server_was_given_does_not_come_back(kind: str) -> None:
    async def story() -> None:
        async with opened(raw("tells-secret")) as servers:
            assert TOKEN not in str((await use(servers, "r__act", form=kind)).model_dump())
            # Nor does it get into a package.
            assert [tool.name for tool in servers.tools] == ["r__act"]
            [change] = servers.changes
            assert (change.name, change.kind) == ("r__leak", "unusable")
            assert TOKEN not in repr(servers.changes)

    asyncio.run(story())


def test_the_repr_of_a_server_hides_its_arguments_and_headers() -> None:
    shown = repr(
        [
            McpServer.stdio("a", "npx", args=["--key=topsecret1"], env={"KEY": "topsecret2"}),
            McpServer.http("b", "https://example.com/?key=topsecret3", headers={"X-Key": "topsecret4"}),
        ]
    )
    assert shown == "[McpServer('a', stdio), McpServer('b', http)]"


@pytest.mark.parametrize(
    "make",
    [
        lambda: McpServer.stdio("a__b", "x"),
        lambda: McpServer.stdio("", "x"),
        lambda: McpServer.stdio("a" * 33, "x"),
        lambda: McpServer.stdio("a", ""),
        lambda: McpServer.http("a", "ftp://example.com"),
        lambda: McpServer.http("a", "https://user:word@example.com"),
        lambda: McpServer.stdio("a", "x", start_timeout_ms=0),
        lambda: McpServers([McpServer.stdio("a", "x"), McpServer.stdio("a", "y")]),
        lambda: McpServers([McpServer.stdio(f"a{at}", "x") for at in range(33)]),
    ],
)
def test_an_invalid_server_definition_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(Rejected) as caught:
        make()
    assert "word" not in caught.value.message


def test_a_server_behind_an_address_is_used_like_a_process(tmp_path: Path) -> None:
    async def story(url: str) -> None:
        seen: list[JsonValue] = []
        context = ToolContext("s", "r", "c", control=ToolControl(seen.append))
        server = McpServer.http("f", url, headers={"Authorization": f"Bearer {TOKEN}"})
        async with opened(server) as servers:
            assert (await use(servers, "f__add", a=1, b=2)).data == {"total": 3, "words": "1 and 2"}
            assert (await use(servers, "f__steps", context=context)).data == "done"
            assert seen
            assert (await use(servers, "f__ask")).data == "decline None"
            results = await asyncio.gather(*(use(servers, "f__greet", name=str(at)) for at in range(8)))
            assert [result.data for result in results] == [f"Hello, {at}." for at in range(8)]

    with http_server(tmp_path) as url:
        asyncio.run(story(url))


def test_a_call_to_an_address_that_is_cancelled_is_cancelled_in_the_server(tmp_path: Path) -> None:
    async def story(url: str) -> None:
        begun = asyncio.Event()
        context = ToolContext("s", "r", "c", control=ToolControl(lambda _: begun.set()))
        server = McpServer.http("f", url, headers={"Authorization": f"Bearer {TOKEN}"})
        async with opened(server) as servers:
            call = asyncio.create_task(use(servers, "f__wait", context=context))
            await begun.wait()
            call.cancel()
            await asyncio.wait((call,))
            while not (tmp_path / "cancelled").exists():
                assert (await use(servers, "f__greet", name="Ada")).success

    with http_server(tmp_path) as url:
        asyncio.run(story(url))


def test_many_calls_at_the_same_time_get_their_own_answers(shared: Play) -> None:
    async def story(servers: McpServers) -> None:
        results = await asyncio.gather(*(use(servers, "f__greet", name=str(at)) for at in range(32)))
        assert [result.data for result in results] == [f"Hello, {at}." for at in range(32)]
        assert len(ToolRouter(servers.tools).list_tools()) == len(servers.tools)

    shared(story)

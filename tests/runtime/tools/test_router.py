import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from windlass.errors import Denied, Rejected
from windlass.tools import ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass.tools.router import ToolRouter, unknown_tool
from windlass_harness.completion import is_terminal_result
from windlass_protocol import ErrorKind, JsonObject, RetryClass, ToolCall, ToolResult

T = TypeVar("T")
LOOSE_TOOL: Any = tool
"""For options that are put together."""


def run(main: Coroutine[object, object, T]) -> T:
    return asyncio.run(asyncio.wait_for(main, 300))


def yes(arguments: JsonObject) -> bool:
    return True


def no(arguments: JsonObject) -> bool:
    return False


def asked(name: str, /, **arguments: object) -> ToolCall:
    return ToolCall.model_validate({"id": "c1", "name": name, "arguments": arguments})


def test_the_program_of_the_specification_works():
    router = ToolRouter()

    @tool(router=router, description="Read a file", mode="read")
    async def read_file(path: str) -> dict[str, str]:
        return {"path": path, "content": "..."}

    result = run(
        router.dispatch(
            ToolCall(id="c1", name="read_file", arguments={"path": "README.md"}), consent_granted=False
        )
    )
    assert result == ToolResult(success=True, data={"path": "README.md", "content": "..."})
    assert router.get("read_file") is read_file
    assert run(read_file("x")) == {"path": "x", "content": "..."}


def test_a_router_lists_registers_and_unregisters_tools():
    @tool
    def one(count: int) -> None:
        """Do one."""

    router = ToolRouter([one])

    def two() -> None: ...

    made = router.register(two, name="second", mode="read")
    assert router.list_tools() == [one, made]
    assert router.describe() == [
        {"name": "one", "description": "Do one.", "inputSchema": one.input_schema, "mode": "external"},
        {"name": "second", "description": "", "inputSchema": made.input_schema, "mode": "read"},
    ]
    router.unregister("one")
    router.unregister("one")
    assert router.get("one") is None
    assert router.list_tools() == [made]


def test_a_name_is_taken_once_and_options_are_given_once():
    @tool
    def one() -> None: ...

    router = ToolRouter([one])
    with pytest.raises(Rejected, match="duplicate tool one"):
        router.register(one)
    with pytest.raises(Rejected, match="exists already: give the options"):
        ToolRouter().register(one, mode="read")


def test_a_tool_without_a_schema_is_found_when_it_is_registered():
    def odd(value: type) -> None: ...

    with pytest.raises(Rejected, match="odd: value has no JSON form"):
        ToolRouter().register(odd)


def test_an_unknown_tool_is_answered_with_close_names_and_never_guessed():
    calls: list[str] = []

    @tool
    def read_file() -> None:
        calls.append("read_file")

    router = ToolRouter([read_file])
    result = run(router.dispatch(asked("read_fil")))
    assert result == ToolResult(
        success=False, error="there is no tool read_fil; did you mean read_file?", needs_followup=True
    )
    assert not is_terminal_result(result)
    assert calls == []
    assert run(router.dispatch(asked("zzz"))).error == "there is no tool zzz; there are read_file"
    assert run(ToolRouter().dispatch(asked("zzz"))).error == "there is no tool zzz, and no other either"


def test_the_error_for_an_unknown_tool_is_bounded():
    error = unknown_tool("z\n" * 5_000, [f"tool_{number:03}" for number in range(100)]).error
    assert error is not None
    assert "\n" not in error
    assert error.endswith("tool_023 and 76 more")
    assert len(error) < 500


def test_arguments_that_do_not_fit_never_reach_the_tool():
    calls: list[int] = []

    @tool(mode="read")
    def count(number: int) -> None:
        calls.append(number)

    result = run(ToolRouter([count]).dispatch(asked("count", number="5")))
    assert (result.success, result.needs_followup) == (False, True)
    assert result.error == "the arguments of count do not fit: /number: expected an integer, found a string"
    assert calls == []


def test_an_exception_comes_back_as_a_result_the_model_can_react_to():
    @tool(mode="read")
    async def broken() -> None:
        raise ToolFailed("it is closed")

    result = run(ToolRouter([broken]).dispatch(asked("broken")))
    assert result == ToolResult(success=False, error="it is closed", needs_followup=True)


@pytest.mark.parametrize(
    ("name", "options", "needs"),
    [
        ("anything", {"mode": "local"}, True),
        ("anything", {"mode": "destructive"}, True),
        ("anything", {"mode": "read"}, False),
        ("anything", {"mode": "safe_write"}, False),
        ("anything", {"mode": "external"}, True),
        ("anything", {"mode": "external", "approval": "never"}, False),
        ("anything", {}, True),
        ("get_all", {}, True),
        ("get_all", {"approval": "never"}, False),
        ("delete_all", {}, True),
        ("shell_run", {}, True),
        ("delete_all", {"mode": "read"}, False),
        ("anything", {"mode": "read", "approval": "always"}, True),
        ("anything", {"mode": "read", "approval": "once"}, True),
        ("anything", {"mode": "local", "approval": "never"}, False),
        ("anything", {"mode": "read", "approval": yes}, True),
        ("anything", {"mode": "local", "approval": no}, True),
    ],
)
def test_dispatching_a_harmful_tool_needs_consent(name: str, options: dict[str, object], needs: bool):
    calls: list[str] = []

    def act() -> None:
        calls.append("act")

    router = ToolRouter([LOOSE_TOOL(act, name=name, **options)])
    if needs:
        with pytest.raises(Denied, match="needs a person's consent") as caught:
            run(router.dispatch(asked(name)))
        assert caught.value.kind == ErrorKind.POLICY_DENIAL
        assert caught.value.retry == RetryClass.USER_ACTION_NEEDED
        assert caught.value.causal_ids.call_id == "c1"
        assert calls == []
    assert run(router.dispatch(asked(name), consent_granted=needs)).success
    assert calls == ["act"]


@pytest.mark.parametrize(
    ("command", "approval", "needs"),
    [
        ("ls", "policy", False),
        ("touch notes.txt", "policy", True),
        ("rm -rf /", "policy", True),
        ("rm -rf /", "never", True),
    ],
)
def test_a_shell_command_is_graded_before_it_is_dispatched(command: str, approval: str, needs: bool):
    calls: list[str] = []

    def act(command: str) -> None:
        calls.append(command)

    router = ToolRouter([LOOSE_TOOL(act, mode="safe_write", approval=approval).with_options(is_shell=True)])
    if needs:
        with pytest.raises(Denied, match="needs a person's consent"):
            run(router.dispatch(asked("act", command=command)))
        assert calls == []
    assert run(router.dispatch(asked("act", command=command), consent_granted=needs)).success
    assert calls == [command]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"context": {}}, "context must be a ToolContext or None, found dict"),
        ({"context": {"run_id": "r"}}, "context must be a ToolContext or None, found dict"),
        ({"consent_granted": "no"}, "consent_granted must be True or False, found str"),
        ({"consent_granted": None}, "consent_granted must be True or False, found None"),
        ({"call": None}, "dispatch takes a ToolCall, found None"),
        ({"call": {"name": "act"}}, "dispatch takes a ToolCall, found dict"),
    ],
)
def test_a_wrong_argument_of_dispatch_is_refused_and_nothing_runs(given: dict[str, object], text: str):
    calls: list[str] = []

    @tool(mode="local")
    def act(context: ToolContext) -> None:
        calls.append("act")

    loose: Any = ToolRouter([act])
    call = given.pop("call", asked("act"))
    with pytest.raises(Rejected, match=text):
        run(loose.dispatch(call, **{"consent_granted": True, **given}))
    assert calls == []


def test_a_call_without_an_id_is_denied_too():
    router = ToolRouter()
    router.register(lambda: None, name="act", mode="local")
    with pytest.raises(Denied):
        run(router.dispatch(ToolCall(id="", name="act", arguments={})))


def test_a_tool_gets_the_context_given_or_one_of_the_call():
    @tool(mode="read")
    async def who(context: ToolContext) -> list[str]:
        return [context.session_id, context.run_id, context.call_id]

    router = ToolRouter([who])
    assert run(router.dispatch(asked("who"))).data == ["direct", "direct", "c1"]
    given = ToolContext("s", "r", "c9")
    assert run(router.dispatch(asked("who"), context=given)).data == ["s", "r", "c9"]


def test_no_more_calls_of_a_tool_run_than_it_allows_also_in_a_second_event_loop():
    running = 0
    most = 0

    @tool(mode="read", concurrency=2)
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    router = ToolRouter([work])

    async def main() -> list[ToolResult]:
        return await asyncio.gather(*(router.dispatch(asked("work")) for _ in range(6)))

    for _ in range(2):
        assert all(result.success for result in run(main()))
    assert most == 2


def test_a_tool_that_cancels_itself_has_failed_and_a_cancelled_caller_is_cancelled():
    started = asyncio.Event()

    @tool(mode="read")
    async def gives_up() -> None:
        raise asyncio.CancelledError

    @tool(mode="read")
    async def hangs() -> None:
        started.set()
        await asyncio.Event().wait()

    async def main() -> None:
        router = ToolRouter([gives_up, hangs])
        result = await router.dispatch(asked("gives_up"))
        assert (result.success, "cancelled itself" in str(result.error)) == (False, True)
        waiting = asyncio.ensure_future(router.dispatch(asked("hangs")))
        await started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(main())


def test_a_tool_may_end_the_loop():
    @tool(mode="read")
    async def stop(reason: str) -> ToolResult:
        return ToolResult(success=True, terminal=True, message=reason)

    result = run(ToolRouter([stop]).dispatch(asked("stop", reason="done")))
    assert is_terminal_result(result)


def test_an_approval_function_gets_the_json_arguments_of_the_model():
    seen: list[JsonObject] = []

    def check(arguments: JsonObject) -> str:
        seen.append(arguments)
        return "never"

    @tool(approval=check, mode="destructive")
    def drop(table: str) -> None: ...

    assert run(ToolRouter([drop]).dispatch(asked("drop", table="t"))).success
    assert seen == [{"table": "t"}]

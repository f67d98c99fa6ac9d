"""Common first errors: each has its class and says what to do next."""

import ast
import asyncio
import inspect
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runtime_rig import model_of, play, shop, until

from windlass import Agent, AgentError, AgentRuntime, HookCall, errors, hook, refusals, tool
from windlass.agent.dynamic import dynamic
from windlass.testing import ScriptedModel, call, say
from windlass.tools.question import ask_question
from windlass_protocol import CompactionConfig, ErrorCode, ErrorKind, RunStatus

LOOSE: Any = AgentRuntime


async def refusal(work: Callable[[], Any]) -> AgentError:
    """Return the error that something is refused with."""

    async def done() -> None:
        found = work()
        if inspect.isawaitable(found):
            await found

    with pytest.raises(AgentError) as caught:
        await done()
    return caught.value


# Models


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "opnai/gpt-5",
            "missing provider adapter for package route opnai; known routes: openai, openai-responses, "
            "azure, anthropic, google, bedrock, ollama, openai-compat, demo; add your own with "
            'providers={"opnai": …}, or give the agent '
            "an object as its model; did you mean openai?",
        ),
        ("xyzzy/1", "or give the agent an object as its model"),
        (
            "openai/gpt-5",
            "missing provider adapter for package route openai: set the variable OPENAI_API_KEY, or give the "
            "agent model=OpenAICompatProvider(…, api_key=…) of windlass.models",
        ),
        ("anthropic/claude", "model=AnthropicProvider(…, api_key=…) of windlass.models"),
    ],
)
def test_an_unknown_model_is_refused_with_the_known_providers(
    model: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    error = play(refusal(lambda: Agent("a", model=model).run("go")))
    assert (error.code, error.kind) == (ErrorCode.UNAVAILABLE, ErrorKind.PROVIDER_FAILURE)
    assert error.message.endswith(words)


def test_routes_of_the_host_are_among_those_that_are_known() -> None:
    async def story() -> None:
        agent = Agent("a", model="labs/x")
        async with AgentRuntime.in_memory([agent], providers={"lab": model_of()}) as runtime:
            error = await refusal(lambda: runtime.start_run(agent, "go"))
        assert "; known routes: lab, openai" in error.message
        assert error.message.endswith("; did you mean lab?")

    play(story())


# Runs


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistaken call on a runtime that has run r1 of the shop in session s1."""

    work: Callable[[Any], object]
    code: ErrorCode
    words: str


MISTAKES: dict[str, Mistake] = {
    "metadata": Mistake(
        lambda runtime: runtime.start_run("shop", "go", metadata=object()),
        ErrorCode.REJECTED,
        "start_run: metadata is not valid: expected an object, found no JSON: a value of class object; "
        "write a dictionary of JSON",
    ),
    "mode": Mistake(
        lambda runtime: runtime.start_run("shop", "go", mode="chat"),
        ErrorCode.REJECTED,
        "start_run: mode is not valid: expected 'conversation' or 'task', found another string",
    ),
    "budget": Mistake(
        lambda runtime: runtime.start_run("shop", "go", budget={"max_token": 3}),
        ErrorCode.REJECTED,
        "budget must be a Budget, such as Budget(max_steps=20)",
    ),
    "message": Mistake(
        lambda runtime: runtime.start_run("shop", ["go"]),
        ErrorCode.REJECTED,
        "start_run: message.0 is not valid: expected an object, found a string; write a string, or a list of "
        "TextPart, ImagePart and FilePart of windlass_protocol",
    ),
    "another message": Mistake(
        lambda runtime: runtime.start_run("shop", "stop", session_id="s1", run_id="r1"),
        ErrorCode.CONFLICT,
        "run_id r1 is already registered with this runtime, with another request: its message or one of its "
        "options differs; choose another id, or read that run",
    ),
    "another session": Mistake(
        lambda runtime: runtime.start_run("shop", "go", session_id="s2", run_id="r1"),
        ErrorCode.CONFLICT,
        "with another request: it is in session s1; choose another id",
    ),
    "another agent": Mistake(
        lambda runtime: runtime.start_run("desk", "go", session_id="s1", run_id="r1"),
        ErrorCode.CONFLICT,
        "with another request: it is of agent shop; choose another id",
    ),
    "state": Mistake(
        lambda runtime: runtime.sessions.change_state("s1", {"plan": object()}),
        ErrorCode.REJECTED,
        "plan cannot be stored in the state of a session: expected a JSON value, found object; use strings, "
        "numbers, booleans, None, and lists and dictionaries of these",
    ),
    "inside the state": Mistake(
        lambda runtime: runtime.sessions.change_state("s1", {"plan": {"days": [1, object()]}}),
        ErrorCode.REJECTED,
        "expected a JSON value, found object, at /days/1; use strings",
    ),
    "session": Mistake(
        lambda runtime: runtime.sessions.state("nowhere"),
        ErrorCode.CONFLICT,
        "unknown session: nowhere; start a run in it first",
    ),
    "request": Mistake(
        lambda runtime: runtime.handle("r1").answer("q", "approve"),
        ErrorCode.CONFLICT,
        "no open request with this id: it was answered before, or it never existed; "
        "the open requests of the "
        "run are those that can be answered",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistaken_call_about_a_run_is_refused_with_advice(name: str) -> None:
    mistake = MISTAKES[name]

    async def story() -> None:
        agents = [shop(), Agent("desk", model=model_of("yes"))]
        async with AgentRuntime.in_memory(agents) as runtime:
            await (await runtime.start_run("shop", "go", session_id="s1", run_id="r1")).wait()
            error = await refusal(lambda: mistake.work(runtime))
        assert error.code is mistake.code
        assert mistake.words in error.message

    play(story())


def test_names_that_an_error_repeats_have_no_secrets_in_them() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop()], secrets=["hunter2hunter2"]) as runtime:
            error = await refusal(lambda: runtime.sessions.state("of-hunter2hunter2"))
        assert "hunter2" not in error.message
        assert "unknown session: of-" in error.message

    play(story())


# Answers


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"option_id": "aprove"},
            "unknown option; the options are approve, approve_session, deny; did you mean approve?",
        ),
        (
            {"text": "yes please"},
            "an approval must be answered with an option, not with text; the "
            "options are approve, approve_session, deny",
        ),
        ({"option_id": "xyzzy"}, "the options are approve, approve_session, deny"),
    ],
)
def test_an_answer_that_is_not_an_option_is_refused_with_the_options(
    given: dict[str, Any], words: str
) -> None:
    async def story() -> None:
        model = ScriptedModel([call("mail", {"to": "ada"}), say("done")])
        async with AgentRuntime.in_memory([shop(model)]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            (request,) = await handle.open_requests()
            error = await refusal(lambda: handle.answer(request.request_id, **given))
        assert (error.code, error.kind) == (ErrorCode.REJECTED, ErrorKind.APPROVAL_FAILURE)
        assert error.message.endswith(words)

    play(story())


def test_a_question_without_options_is_answered_in_words() -> None:
    async def story() -> None:
        model = ScriptedModel([call("ask_question", {"prompt": "Where?"}), say("done")])
        agent = Agent("guide", model=model, tools=[ask_question])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go")
            await until(handle, "run.waiting")
            (request,) = await handle.open_requests()
            error = await refusal(lambda: handle.answer(request.request_id, "Oslo"))
            assert error.code is ErrorCode.REJECTED
            assert error.message.endswith("; it takes a text")
            await handle.answer(request.request_id, text="Oslo")
            assert (await handle.wait()).output == "done"

    play(story())


def test_an_answer_without_a_responder_is_denied_with_advice() -> None:
    async def story() -> None:
        model = ScriptedModel([call("mail", {"to": "ada"}), say("done")])
        async with AgentRuntime.in_memory([shop(model)], responders=["ada"]) as runtime:
            handle = await runtime.start_run("shop", "go")
            await until(handle, "run.waiting")
            (request,) = await handle.open_requests()
            error = await refusal(lambda: handle.answer(request.request_id, "approve"))
            assert error.code is ErrorCode.DENIED
            assert error.message.endswith("; the answer must name its responder")
            error = await refusal(lambda: handle.answer(request.request_id, "approve", responder="bob"))
            assert error.message == "this responder may not answer the request; it may be answered by: ada"

    play(story())


# Definitions of agents, tools and hooks


LOOSE_HOOK: Any = hook
NAMELESS: Callable[[HookCall], None] = lambda seen: None  # noqa: E731 - it is about lambdas
AUTHORS: dict[str, tuple[Callable[[], object], str]] = {
    "hook": (
        lambda: LOOSE_HOOK("before_tool_call")(NAMELESS),
        'a hook that is a lambda has no name; write hook_id="…"',
    ),
    "tool": (lambda: tool(lambda: None), 'a tool that is a lambda has no name; write name="…"'),
    "resolver": (
        lambda: dynamic(lambda context: "Be kind."),
        'a resolver that is a lambda has no name; write name="…"',
    ),
    "two agents": (
        lambda: AgentRuntime.in_memory([shop(), shop()]),
        "duplicate agent or package shop; give each its own name, or replace the other: "
        "AgentRuntime.builder() takes replace=True",
    ),
    "two versions": (
        lambda: AgentRuntime.in_memory([shop(), shop(version="2")]),
        "one runtime has one package for each agent, so give this one another name",
    ),
    "durability": (
        lambda: LOOSE.open("/nowhere/a.db", agents=[], durabilty="power"),
        "rules, deps, tenant, secrets, machine; did you mean durability?",
    ),
    "compaction": (
        lambda: Agent("a", model="demo/a", compaction=0),
        "agent a: compaction must be 1 to 9,007,199,254,740,991, found 0",
    ),
}


@pytest.mark.parametrize("name", AUTHORS)
def test_a_mistake_in_a_definition_is_refused_with_the_correct_form(name: str) -> None:
    work, words = AUTHORS[name]
    error = play(refusal(work))
    assert error.code is ErrorCode.REJECTED
    assert error.message.endswith(words)


def test_a_number_of_tokens_is_enough_to_say_when_to_compact() -> None:
    agent = Agent("a", model="demo/a", compaction=4_000)
    assert agent.compaction == CompactionConfig(threshold=4_000, recent_window_size=10)


# Failed runs


def test_a_failed_run_in_memory_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("guide", model=ScriptedModel([call("gone", {})] * 9))
    with caplog.at_level(logging.WARNING, "windlass"):
        result = asyncio.run(agent.run("go"))
    assert (result.status, result.output) == (RunStatus.FAILED, "")
    assert result.error is not None
    (told,) = [record for record in caplog.records if record.name == "windlass.runs"]
    assert told.getMessage() == f"run {result.run_id} of agent guide failed: {result.error.message}"


def test_a_run_in_memory_that_completes_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "windlass"):
        assert asyncio.run(shop().run("go")).output == "done"
    assert caplog.messages == []


def test_a_failed_typed_run_names_the_errors_of_the_last_answer() -> None:
    async def story() -> None:
        agent = Agent("guide", model=ScriptedModel([say("many"), say('"3"'), say('{"n": 1}')]))
        async with AgentRuntime.in_memory([agent]) as runtime:
            error = await refusal(lambda: runtime.run_typed(agent, "How many?", int))
        assert (error.code, error.kind) == (ErrorCode.REJECTED, ErrorKind.STRUCTURED_OUTPUT_FAILURE)
        assert error.message == (
            "No answer fitted the output contract in 3 attempts. What was wrong with the last one: "
            "/: expected integer, found object. Show an answer that fits in the instructions, ask for "
            "less, or take a model that keeps to schemas."
        )

    play(story())


# Opening


def test_a_runtime_is_opened_by_entering_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "app.db", agents=[shop()]) as runtime:
            assert (await (await runtime.start_run("shop", "go", run_id="r1")).wait()).output == "done"
        error = await refusal(lambda: runtime.start_run("shop", "go"))
        assert "the runtime was closed" in error.message
        async with AgentRuntime.open(tmp_path / "app.db", agents=[shop()]) as runtime:
            assert (await runtime.handle("r1").wait()).output == "done"

    play(story())


def test_a_runtime_can_be_opened_as_a_task_and_given_up(tmp_path: Path) -> None:
    async def story() -> None:
        runtime = await asyncio.create_task(AgentRuntime.open(tmp_path / "app.db", agents=[shop()]))
        await runtime.aclose()
        late = asyncio.create_task(AgentRuntime.open(tmp_path / "late.db", agents=[shop()]))
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        AgentRuntime.open(tmp_path / "never.db", agents=[shop()]).close()
        assert not (tmp_path / "never.db").exists()

    play(story())


def test_a_runtime_that_cannot_be_opened_is_not_entered(tmp_path: Path) -> None:
    async def story() -> None:
        async with AgentRuntime.open(tmp_path / "no" / "app.db", agents=[shop()]):
            pytest.fail("it was entered")

    with pytest.raises(AgentError) as caught:
        play(story())
    assert caught.value.code is ErrorCode.REJECTED


OF_WRONG_TYPES = {
    "a Budget, such as Budget(max_steps=20)",
    "a RunRequest; start_run() takes an agent and a message too",
    # Met by the Python program that defines the agents: a server refuses them before it serves.
    " are not in this process; start the run again with deps=…, or open the runtime with a factory: "
    "deps={agent: factory}",
    " needs dependencies: pass deps=… to run or start, write Agent(…, deps=factory), or open the runtime "
    "with deps={agent: factory}",
}
"""Only a caller in Python can pass a value of a wrong type here."""


def test_refusals_name_no_call_of_python() -> None:
    """Clients in other languages read them too, over HTTP and JSON-RPC."""
    tree = ast.parse(Path(refusals.__file__).read_text(encoding="utf-8"))
    told = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(told) > 50
    calls = {text for text in told if re.search(r"\w\(|\w=…|\b(?:runtime|handle)\.\w", text)}
    assert calls == OF_WRONG_TYPES


def test_the_hint_to_an_extra_names_our_distribution() -> None:
    """tests/tools/test_release.py reads all other texts."""
    assert errors.install_hint("mcp") == "pip install 'windlass-runtime[mcp]'"

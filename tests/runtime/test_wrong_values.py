"""Wrong values at every public entry: one of our errors, with the expected value."""

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_type_hints

import pytest
from tests.runtime.runtime_rig import look, model_of, play, shop

from windlass import Agent, AgentRuntime, Budget, RunHandle, hook, tool
from windlass.agent import Background
from windlass.agent.hooks import HookOptions
from windlass.engine.driving.slots import SessionSlots
from windlass.engine.spending.spend_limits import SpendLimit
from windlass.errors import AgentError, Rejected
from windlass.limits import WAIT_MS_MAX
from windlass.playground import Playground
from windlass.ports.wakes import Wakes
from windlass.prices import PriceValue
from windlass.runtime.generated.builder import AgentRuntimeBuilder
from windlass.runtime.options import PartOptions, RunOptions, RuntimeOptions
from windlass.runtime.registry import PackageChange, PackageChangeValue, RuntimePorts, ToolRoute
from windlass.sqlite.store import SqliteStore
from windlass.tools import KitOptions, ToolOptions
from windlass_protocol import ErrorKind, InputResponse, RetryClass

BUILDER_RULES: dict[str, dict[str, object]] = {
    "provider": {"route_id": "r", "provider": model_of()},
    "tool_route": {"tool_route": ToolRoute("look", look)},
}
WRONG: tuple[object, ...] = (None, 3, "text", object(), [1], {"a": object()}, Agent, b"bytes")


def refused(work: Callable[[], object]) -> str | None:
    """Return the words of the refusal, None if there was none.

    Any other error is a failure.
    """

    async def story() -> None:
        done = work()
        if inspect.isawaitable(done):
            await done

    try:
        play(cast(Coroutine[object, object, None], story()))
    except AgentError as error:
        return error.message or "said nothing"
    return None


def taken(work: Callable[[object], object]) -> list[int]:
    """Try every wrong value at one entry; return the places of those that were not refused.

    Any other error than a refusal is a failure that names the value.
    """

    async def story() -> list[int]:
        found: list[int] = []
        said: list[str] = []
        for at, bad in enumerate(WRONG):
            try:
                done = work(bad)
                if inspect.isawaitable(done):
                    await done
                found.append(at)
            except AgentError as error:
                said.append(error.message)
            except Exception as error:
                error.add_note(f"the value was {bad!r}")
                raise
        assert all(said), "a refusal says nothing"
        return found

    return play(story())


# Options


LOOSE: Any = AgentRuntime
LOOSE_HOOK: Any = hook
LOOSE_TOOL: Any = tool
"""The type checker checks the options; callers without one must get an error too."""

MISSPELT: dict[str, tuple[Callable[[], object], str]] = {
    "start": (
        lambda: memory().start_run("shop", "pay", sesion_id="trip", runid="bill-1"),
        "start_run: unknown option runid, sesion_id; it takes session_id, run_id, turn_id, mode, "
        "capabilities, budget, batch, output, context, metadata, source, owner, goal_id, goal_description; "
        "did you mean run_id, session_id?",
    ),
    "run_typed": (lambda: memory().run_typed("shop", "go", int, runid="r"), "did you mean run_id?"),
    "in_memory": (lambda: memory(attended=True), "did you mean is_attended?"),
    "open": (lambda: LOOSE.open("/nowhere/a.db", agents=[], secret=["x"]), "did you mean secrets?"),
    "hook": (lambda: LOOSE_HOOK("before_tool_call", oder=3), "hook: unknown option oder; it takes hook_id"),
    "tool": (lambda: LOOSE_TOOL(mod="read")(_nothing), "did you mean mode?"),
    "nothing close": (lambda: memory(xyzzy=1), "in_memory: unknown option xyzzy; it takes providers"),
}


def memory(**options: Any) -> Any:
    """A runtime typed as `Any`."""
    return AgentRuntime.in_memory([shop(model_of("done"))], **options)


def _nothing() -> None: ...


@pytest.mark.parametrize("name", MISSPELT)
def test_an_option_that_is_misspelt_is_refused_with_the_close_name(name: str) -> None:
    work, words = MISSPELT[name]
    message = refused(work)
    assert message is not None
    assert words in message
    if name == "nothing close":
        assert "did you mean" not in message


def test_a_refused_option_leaves_no_file_behind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    options: dict[str, Any] = {"secret": ["abcdefgh"]}
    assert refused(lambda: AgentRuntime.open(path, agents=[], **options)) is not None
    assert not path.exists()


def test_a_misspelt_option_is_a_fault_of_the_host() -> None:
    with pytest.raises(Rejected) as caught:
        memory(attended=True)
    assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED


@pytest.mark.parametrize("name", ["open", "start_run", "hook", "tool", "kit"])
def test_help_names_every_option(name: str) -> None:
    named: dict[str, tuple[object, type]] = {
        "open": (AgentRuntime.open, RuntimeOptions),
        "start_run": (AgentRuntime.start_run, RunOptions),
        "hook": (hook, HookOptions),
        "tool": (tool, ToolOptions),
        "kit": (LOOSE_TOOL(_nothing).with_options, KitOptions),
    }
    function, known = named[name]
    words = inspect.getdoc(function) or ""
    missing = [option for option in known.__annotations__ if f"\n    {option}: " not in words]
    assert not missing, f"help({name}) does not tell of {missing}"


# Values


ENTRIES: dict[str, Callable[[Any, Any], object]] = {
    "start an agent": lambda runtime, bad: runtime.start_run(bad, "go"),
    "start a message": lambda runtime, bad: runtime.start_run("shop", bad),
    "start_run": lambda runtime, bad: runtime.start_run(bad),
    "steer an agent": lambda runtime, bad: runtime.steer(bad, "go", session_id="s1"),
    "steer a session": lambda runtime, bad: runtime.steer("shop", "go", session_id=bad),
    "steer_session": lambda runtime, bad: runtime.core.starts.steer(bad, message_id="m1"),
    "run_text": lambda runtime, bad: runtime.run_text(bad),
    "run_typed a request": lambda runtime, bad: runtime.run_typed(bad, int),
    "run_typed an output": lambda runtime, bad: runtime.run_typed("shop", "go", bad),
    "resolve_effective_package": lambda runtime, bad: runtime.resolve_effective_package(bad),
    "handle": lambda runtime, bad: runtime.handle(bad).status(),
    "run_status": lambda runtime, bad: runtime.handle(bad).status(),
    "run_snapshot": lambda runtime, bad: runtime.run_snapshot(bad),
    "run_result": lambda runtime, bad: runtime.handle(bad).wait(0),
    "compact": lambda runtime, bad: runtime.sessions.compact(bad),
    "session_state": lambda runtime, bad: runtime.sessions.state(bad),
    "change_state": lambda runtime, bad: runtime.sessions.change_state(bad, {}),
    "change_state values": lambda runtime, bad: runtime.sessions.change_state("s", bad),
    "change_state remove": lambda runtime, bad: runtime.sessions.change_state("s", {}, remove=bad),
    "cancel_run": lambda runtime, bad: runtime.cancel_run(bad),
    "retry_run": lambda runtime, bad: runtime.handle(bad).retry(),
    "undo_run": lambda runtime, bad: runtime.handle(bad).undo(),
    "undo_plan": lambda runtime, bad: runtime.handle(bad).undo_plan(),
    "deliveries": lambda runtime, bad: runtime.handle(bad).deliveries(),
    "decisions": lambda runtime, bad: runtime.handle(bad).decisions(),
    "feedback": lambda runtime, bad: runtime.handle(bad).feedback(thumb="up"),
    "send": lambda runtime, bad: runtime.handle(bad).send("paid"),
    "send a name": lambda runtime, bad: runtime.handle("r").send(bad),
    "run_requests": lambda runtime, bad: runtime.handle(bad).open_requests(),
    "session_requests": lambda runtime, bad: runtime.sessions.open_requests(bad),
    "descendants": lambda runtime, bad: runtime.sessions.descendants(bad),
    "answer_run": lambda runtime, bad: runtime.handle(bad).answer_all(()),
    "answer_run responses": lambda runtime, bad: runtime.sessions.answer("s", bad),
    "answer_session": lambda runtime, bad: runtime.sessions.answer(bad, ()),
    "subscribe_run": lambda runtime, bad: runtime.subscribe_run(bad).open(),
    "subscribe_run cursor": lambda runtime, bad: runtime.subscribe_run("r", bad).open(),
    "subscribe_session": lambda runtime, bad: runtime.sessions.subscribe(bad).open(),
    "subscribe_agent": lambda runtime, bad: runtime.subscribe_agent(bad).open(),
    "subscribe_all": lambda runtime, bad: runtime.subscribe_all(bad).open(),
    "events after": lambda runtime, bad: runtime.handle("r").events(bad).open(),
    "wait": lambda runtime, bad: runtime.handle("r").wait(bad),
    "answer a request": lambda runtime, bad: runtime.handle("r").answer(bad, "approve"),
    "answer an option": lambda runtime, bad: runtime.handle("r").answer("q", bad),
    "answer a text": lambda runtime, bad: runtime.handle("r").answer("q", "approve", text=bad),
    "answer a responder": lambda runtime, bad: runtime.handle("r").answer("q", "approve", responder=bad),
    "cancel by": lambda runtime, bad: runtime.handle("r").cancel(by=bad),
    "agent_sessions get": lambda runtime, bad: runtime.sessions.agent_sessions.get(bad),
    "sessions get": lambda runtime, bad: runtime.sessions.get(bad),
    "sessions list after": lambda runtime, bad: runtime.sessions.list(after=bad),
    "sessions list limit": lambda runtime, bad: runtime.sessions.list(limit=bad),
    "sessions list agent_id": lambda runtime, bad: runtime.sessions.list(agent_id=bad),
    "sessions list status": lambda runtime, bad: runtime.sessions.list(status=bad),
    "sessions list owner": lambda runtime, bad: runtime.sessions.list(owner=bad),
    "sessions list text": lambda runtime, bad: runtime.sessions.list(text=bad),
    "sessions runs after": lambda runtime, bad: runtime.sessions.runs(after=bad),
    "sessions runs session_id": lambda runtime, bad: runtime.sessions.runs(session_id=bad),
    "sessions runs agent_id": lambda runtime, bad: runtime.sessions.runs(agent_id=bad),
    "sessions runs status": lambda runtime, bad: runtime.sessions.runs(status=bad),
    "sessions runs owner": lambda runtime, bad: runtime.sessions.runs(owner=bad),
    "sessions refused_starts after": lambda runtime, bad: runtime.sessions.refused_starts(after=bad),
    "sessions refused_starts owner": lambda runtime, bad: runtime.sessions.refused_starts(owner=bad),
    "sessions refused_starts agent_id": lambda runtime, bad: runtime.sessions.refused_starts(agent_id=bad),
    "sessions requests after": lambda runtime, bad: runtime.sessions.requests(after=bad),
    "sessions requests owner": lambda runtime, bad: runtime.sessions.requests(owner=bad),
    "sessions history": lambda runtime, bad: runtime.sessions.history(bad),
    "sessions records": lambda runtime, bad: runtime.sessions.records(bad),
    "sessions records after": lambda runtime, bad: runtime.sessions.records("s", after=bad),
    "sessions at": lambda runtime, bad: runtime.sessions.at(bad, 1),
    "sessions trace": lambda runtime, bad: runtime.sessions.trace(bad),
    "playground draft": lambda runtime, bad: Playground(runtime).draft(bad, 0),
    "playground run": lambda runtime, bad: Playground(runtime).run(bad, 0),
    "schedules put": lambda runtime, bad: runtime.schedules.put(bad),
    "schedules get": lambda runtime, bad: runtime.schedules.get(bad),
    "schedules ticks": lambda runtime, bad: runtime.schedules.ticks(bad),
    "schedules delete": lambda runtime, bad: runtime.schedules.delete(bad),
    "fan_out": lambda runtime, bad: runtime.fan_out(bad, job_id="j"),
    "fan_out a task": lambda runtime, bad: runtime.fan_out({"a": bad}, job_id="j"),
    "fan_out a job": lambda runtime, bad: runtime.fan_out({"a": ("shop", "go")}, job_id=bad),
    "sessions fork": lambda runtime, bad: runtime.sessions.fork(bad),
    "sessions export": lambda runtime, bad: anext(runtime.sessions.export(bad)),
    "sessions import_": lambda runtime, bad: runtime.sessions.import_(bad),
    "sessions delete": lambda runtime, bad: runtime.sessions.delete(bad),
}
LISTS = ("sessions list", "sessions runs", "sessions refused_starts", "sessions requests")
FINE: set[tuple[str, int]] = {
    ("subscribe_session", 2),
    ("subscribe_agent", 2),
    ("start a message", 2),
    ("fan_out a job", 2),
    ("subscribe_all", 0),
    ("sessions list limit", 1),
    *((name, 0) for name in ENTRIES if name.startswith(LISTS) and not name.endswith("limit")),
    *((name, 2) for name in ENTRIES if name.startswith(LISTS) and name.endswith(("_id", "owner", "text"))),
}
"""Values that are valid for an option: a text where a text is meant, None where it is optional."""


def fine(name: str, values: set[tuple[str, int]]) -> list[int]:
    """The places of the values that an entry takes."""
    return sorted(at for entry, at in values if entry == name)


@pytest.mark.parametrize("name", ENTRIES)
def test_a_wrong_value_is_refused_with_our_error_at_every_entry(name: str) -> None:
    assert taken(lambda bad: ENTRIES[name](memory(), bad)) == fine(name, FINE)


def test_the_table_of_entries_is_complete() -> None:
    known = " ".join(ENTRIES)
    apart = {
        "drain",
        "aclose",
        "events",
        "builder",
        "open",
        "in_memory",
        "registered_run_count",
    }
    # The playground checks what it prepares.
    apart |= {"provider_registry", "output_sinks", "subscribe_events"}
    methods = {name for name in dir(AgentRuntime) if not name.startswith("_")} - apart
    assert not {name for name in methods if name not in known}
    used = {"status", "wait", "events", "cancel", "answer", "retry"}
    used |= {"requests", "open_requests", "session_id", "stream_text", "undo", "undo_plan"}
    used |= {"answer_all", "decisions", "deliveries", "feedback", "send"}
    assert {name for name in dir(RunHandle) if not name.startswith("_")} == used


RUN_OPTIONS: dict[str, tuple[object, str]] = {
    "run_id": (3, "run_id must be a string, found int"),
    "session_id": (3, "start_run: session_id is not valid"),
    "turn_id": ("", "start_run: turn_id is not valid"),
    "mode": ("foo", "start_run: mode is not valid"),
    "capabilities": (5, "start_run: capabilities is not valid"),
    "budget": (5, "must be a Budget, such as"),
    "batch": ("soon", "start_run: batch is not valid"),
    "output": (5, "output must be a model, a dataclass, a JSON Schema or an OutputContract, found int"),
    "context": ("abc", "start_run: context is not valid"),
    "metadata": ({"a": object()}, "start_run: metadata is not valid"),
    "source": ("ada", "start_run: source is not valid"),
    "owner": ("", "start_run: owner is not valid"),
    "goal_id": (3, "start_run: goal_id is not valid"),
    "goal_description": (3, "start_run: goal_description is not valid"),
}


@pytest.mark.parametrize("name", RUN_OPTIONS)
def test_a_wrong_option_of_a_run_is_refused_by_its_name(name: str) -> None:
    value, words = RUN_OPTIONS[name]
    message = refused(lambda: memory().start_run("shop", "go", **{name: value}))
    assert message is not None
    assert words in message


def test_every_option_of_a_run_is_tried() -> None:
    assert RUN_OPTIONS.keys() == RunOptions.__annotations__.keys()


@pytest.mark.parametrize("run_id", ["", "a\nb", "x" * 513])
def test_a_run_id_that_is_none_is_refused_and_not_replaced(run_id: str) -> None:
    message = refused(lambda: memory().start_run("shop", "go", run_id=run_id))
    assert message is not None
    assert "run_id must be 1 to 512 characters" in message


SETUP: dict[str, tuple[object, str]] = {
    "limits": ([5], "limits must be SpendLimit(…) of windlass.parts; number 0 is int"),
    "prices": (5, "prices must be prices by the names of models, found int"),
    "providers": ([1], "providers must be a dictionary of routes and LLMProviders, found list"),
    "interpreter": (5, "an interpreter must be an object with check, run and aclose"),
    "provider_source": (
        5,
        "a provider source must be an object with provider(route_id, model_id) and aclose()",
    ),
    "start_policy": (5, "start_policy must be a function of a RunRequest and a RuntimePackage"),
    "tool_policy": (5, "tool_policy must be an object with version, before() and after()"),
    "policy_timeout_ms": (0.5, "policy_timeout_ms must be a whole number of milliseconds, found float"),
    "sandboxes": ({"none": object()}, "a sandbox adapter must be a SandboxAdapter"),
    "output_sinks": ([object()], "an output sink must be an object with a sink_id and deliver(output)"),
    "approval_dispatcher": (5, "an approval dispatcher must be an object with dispatch("),
    "approval_timeout_ms": (0, "approval_timeout_ms must be 1 or more, found 0"),
    "is_attended": ("no", "is_attended must be True or False, found str"),
    "approval_expires_ms": ("5", "approval_expires_ms must be a whole number of milliseconds, found str"),
    "responders": ("alice", "responders must be a list of names of people, found str"),
    "four_eyes": (1, "four_eyes must be True or False, found int"),
    "sessions_max": (0, "sessions_max must be 1 to 10,000, found 0"),
    "retention_days": (0, "retention_days must be 1 to 36,500, found 0"),
    "drain_s": (3600.5, "drain_s must be 0 to 3,600, found 3,600.5"),
    "wakes": (5, "wakes must be temporal://host:port/namespace, or an object with open()"),
    "is_driving": ("no", "is_driving must be True or False, found str"),
    "hooks": ([1], "hooks must be functions with @hook; number 0 is int"),
    "package_change": (5, "package_change must be one of continue, move, refuse, wait; found 5"),
    "retry_for_ms": (-1, "retry_for_ms must be 0 or more, found -1"),
    "provider_limits": (5, "provider_limits must be ProviderLimits("),
    "rules": (5, "rules must be Rules(…) of windlass.parts"),
    "deps": ([1], "deps must be a dictionary of agents and functions of a RunInfo, found list"),
    "tenant": (5, "tenant"),
    "secrets": ("abc", "secrets must be a list of texts, found str"),
    "machine": (5, "machine must be a Machine(clock, new_id, random) of windlass.parts, found int"),
}


@pytest.mark.parametrize("name", SETUP)
def test_a_wrong_option_of_a_runtime_is_refused_when_it_is_given(name: str, tmp_path: Path) -> None:
    value, words = SETUP[name]
    options: dict[str, Any] = {name: value}
    for work in (
        lambda: memory(**options),
        lambda: AgentRuntime.open(tmp_path / "a.db", agents=[shop()], **options),
    ):
        message = refused(work)
        assert message is not None
        assert words in message


def test_every_option_of_a_runtime_is_tried() -> None:
    assert SETUP.keys() == RuntimeOptions.__annotations__.keys()


def test_an_option_has_the_type_of_the_port_of_its_name() -> None:
    """Each is declared in RuntimePorts; the assembly takes all but these six by that name."""
    own = {
        "secrets",
        "providers",
        "hooks",
        "output_sinks",
        "machine",
        "deps",
    }
    wider: dict[str, object] = {
        "responders": Sequence[str],
        "package_change": PackageChange | PackageChangeValue,
        "wakes": Wakes | str,
        "prices": Mapping[str, PriceValue],
        "limits": Iterable[SpendLimit],
        "sessions_max": int | SessionSlots,
    }
    ports, options = get_type_hints(RuntimePorts), get_type_hints(RuntimeOptions)
    for name in options.keys() - own:
        assert wider.get(name, ports[name]) in (options[name], options[name] | None), name


@pytest.mark.parametrize("secrets", [["ab"], [3], ["x" * 100_000]])
def test_a_secret_that_cannot_be_masked_is_refused_without_quoting_it(secrets: list[Any]) -> None:
    message = refused(lambda: memory(secrets=secrets))
    assert message is not None
    assert "secrets" in message
    assert "xxx" not in message


@pytest.mark.parametrize("agents", [Agent, None, shop(), "shop", [1], [Agent]])
def test_agents_are_a_list_of_agents(agents: Any) -> None:
    message = refused(lambda: AgentRuntime.in_memory(agents))
    assert message is not None
    assert message.startswith("agents ")


BUILDER_FINE = {(name, 2) for name in ("default_package_id", "provider")}


@pytest.mark.parametrize(
    "name", [name for name in dir(AgentRuntimeBuilder) if name[0] != "_" and name not in ("build", "options")]
)
def test_builder_methods_refuse_wrong_values(name: str) -> None:
    method = inspect.signature(getattr(AgentRuntimeBuilder, name))
    (first, *_) = [one for one in method.parameters if one not in ("self", "replace")]
    given = BUILDER_RULES.get(name, {})
    found = taken(lambda bad: getattr(AgentRuntime.builder(), name)(**{**given, first: bad}))
    assert found == fine(name, BUILDER_FINE)


@pytest.mark.parametrize("name", sorted(PartOptions.__annotations__.keys() - SETUP.keys()))
def test_a_part_is_refused_by_the_option_and_by_the_method_alike(name: str) -> None:
    found = taken(lambda bad: AgentRuntime.builder().options(**cast(Any, {name: bad})))
    assert found == fine(name, BUILDER_FINE)


def test_a_misspelt_option_of_a_builder_is_refused_with_the_one_that_is_near() -> None:
    misspelt: Any = {"jornal": None}
    message = refused(lambda: AgentRuntime.builder().options(**misspelt))
    assert message is not None
    assert "jornal" in message
    assert "journal" in message


def test_the_error_for_a_path_as_journal_names_sqlite_store() -> None:
    builder: Any = AgentRuntime.builder()
    with pytest.raises(Rejected, match=r"await SqliteStore\.open\(path\) of windlass\.parts, found str"):
        builder.journal("x.db")
    with pytest.raises(Rejected, match="found the class SqliteStore"):
        builder.journal(SqliteStore)


def test_a_wait_has_a_longest_time() -> None:
    AgentRuntime.builder().options(approval_expires_ms=WAIT_MS_MAX)
    with pytest.raises(Rejected, match="must be at most"):
        AgentRuntime.builder().options(approval_expires_ms=WAIT_MS_MAX + 1)


# Places


@pytest.mark.parametrize("durability", ["full", "POWER", "", None, 3])
def test_a_durability_that_is_not_known_is_refused(durability: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    message = refused(lambda: AgentRuntime.open(path, agents=[], durability=durability))
    assert message == f"durability is power or process, found {durability!r}"
    assert not path.exists()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (":memory:", "use AgentRuntime.in_memory()"),
        ("/", "/ is a folder: name a file in it, such as /app.db"),
        (3, "a store is opened at a path, found int"),
        (None, "a store is opened at a path, found NoneType"),
    ],
)
def test_a_place_where_no_store_can_be_is_refused(path: Any, words: str) -> None:
    message = refused(lambda: AgentRuntime.open(path, agents=[]))
    assert message is not None
    assert words in message


# Agents that only look alike


def test_another_agent_of_the_same_name_is_refused() -> None:
    other = shop(model_of("no"), instructions="You are another.")
    message = refused(lambda: memory().start_run(other, "go"))
    assert message is not None
    assert "the runtime has another agent named shop" in message


def test_the_agent_itself_and_one_that_is_just_like_it_may_be_started() -> None:
    async def story() -> None:
        agent = shop(model_of("one", "two"))
        async with AgentRuntime.in_memory([agent]) as runtime:
            for one in (agent, shop(model_of("never asked"))):
                assert (await (await runtime.start_run(one, "go")).wait()).status == "completed"

    play(story())


# Valid values stay valid


def test_valid_numbers_and_names_are_accepted() -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop(model_of("done"))]) as runtime:
            handle = await runtime.start_run("shop", "go", mode="task", budget=Budget(max_steps=9))  # pyright: ignore[reportArgumentType] - a text is taken too
            assert (await handle.wait(timeout=300)).output == "done"
            assert (await handle.wait(timeout=0)).output == "done"
            with pytest.raises(AgentError):
                await runtime.handle(handle.run_id).answer_all([InputResponse(request_id="q", option_id="a")])

    play(story())


# Definitions of agents, tools and hooks


LOOSE_AGENT: Any = Agent
FIELDS = [field.name for field in fields(Agent) if field.name not in ("_", "name")]


AGENT_FINE = {
    *((name, 2) for name in ("name", "instructions", "description", "version")),
    *(
        (name, 0)
        for name in (
            "version",
            "budget",
            "output",
            "prices",
            "compaction",
            "compaction_model",
            "temperature",
            "batch",
            "sandbox",
        )
    ),
    *((name, 1) for name in ("compaction", "retry_for_ms")),
    ("retry_for_ms", 0),
    ("deps", 0),
    ("deps", 6),  # a function, which makes them
}


@pytest.mark.parametrize("name", ["name", *FIELDS])
def test_options_of_an_agent_refuse_wrong_values(name: str) -> None:
    found = taken(lambda bad: LOOSE_AGENT(**{"name": "a", "model": "openai/gpt-5", name: bad}))
    assert found == fine(name, AGENT_FINE)


def test_only_an_agent_goes_on_in_the_background() -> None:
    assert taken(cast(Any, Background)) == []
    assert Background(shop()).is_background


@pytest.mark.parametrize("name", ToolOptions.__annotations__)
def test_an_option_of_a_tool_is_used_or_refused(name: str) -> None:
    taken(lambda bad: LOOSE_TOOL(_nothing, **{name: bad}))


@pytest.mark.parametrize("name", KitOptions.__annotations__)
def test_an_option_of_a_kit_is_used_or_refused(name: str) -> None:
    made = LOOSE_TOOL(_nothing)
    taken(lambda bad: made.with_options(**{name: bad}))


@pytest.mark.parametrize("name", HookOptions.__annotations__)
def test_an_option_of_a_hook_is_used_or_refused(name: str) -> None:
    taken(lambda bad: LOOSE_HOOK("before_tool_call", **{name: bad})(_nothing))


def test_agent_run_refuses_wrong_values() -> None:
    def loose() -> Any:
        return shop(model_of("done"))

    assert [WRONG[at] for at in taken(lambda bad: loose().run(bad))] == ["text"]
    assert [WRONG[at] for at in taken(lambda bad: loose().run("go", providers=bad))] == [None]


HALF = "half \ud800 of a pair"


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"message": HALF}, "message"),
        ({"context": [HALF]}, "context"),
        ({"goal_id": HALF}, "goal_id"),
        ({"goal_description": HALF}, "goal_description"),
        ({"metadata": {"k": HALF}}, "metadata"),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_by_the_name_of_its_field(
    options: dict[str, Any], name: str
) -> None:
    async def story() -> None:
        agent = shop()
        async with AgentRuntime.in_memory([agent]) as runtime:
            message = options.pop("message", "go")
            with pytest.raises(Rejected, match=f"^{name} is not valid.*surrogate"):
                await runtime.start_run(agent, message, **options)
            assert await (await runtime.start_run(agent, "Grüße 👋")).wait()

    play(story())


@pytest.mark.parametrize("name", ["instructions", "description", "version"])
def test_half_of_a_surrogate_pair_in_an_agent_is_refused_when_it_is_made(name: str) -> None:
    with pytest.raises(
        Rejected, match=f"{name} is not valid Unicode: character 5 is half of a surrogate pair"
    ):
        shop(None, **{name: HALF})

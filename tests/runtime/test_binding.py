"""Runs after a change of their agent: they continue, move, or are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.runtime.runtime_rig import (
    CountingStore,
    look,
    mail,
    model_of,
    package_of,
    play,
    shop,
    until,
)

from windlass.adapters.system import SystemClock
from windlass.agent.agent import Agent, Output
from windlass.agent.package import fingerprint, package_json
from windlass.agent.policy import RulesPolicy, allow_start
from windlass.engine.writing.scribe import RedactingScribe
from windlass.errors import Rejected, Unavailable
from windlass.ports.machine import Machine
from windlass.ports.model import LLMProvider
from windlass.refusals import invalid_package
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.handle import RunHandle
from windlass.runtime.options import RuntimeOptions
from windlass.runtime.registry import (
    PackageChange,
    PackageChangeValue,
    Registry,
    RuntimePorts,
    register_agent,
)
from windlass.runtime.starts.binding import CHANGES_CHARS_MAX, PACKAGES_MAX, RuntimeBinder, difference
from windlass.sqlite.store import SqliteStore
from windlass.testing import Answer, ScriptedModel, by_history, call, say, seeded_random, sequential_ids
from windlass.tools import tool
from windlass.tools.question import ask_question
from windlass_harness.loop.rules import DEFAULT_RULES
from windlass_harness.policy import PolicySet, Rule
from windlass_harness.record import Record
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    ContentRef,
    ErrorInfo,
    ErrorKind,
    ParentRun,
    RetryClass,
    RunResult,
    RunStatus,
    RuntimePackage,
)
from windlass_protocol.generated.records import SessionMoved

SCRIPT = [call("mail", {"to": "ada"}), say("done")]


def seller(script: list[Answer] | None = None, **parts: object) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(by_history(script or SCRIPT))
    return shop(model, **parts), model


async def begin(path: Path, agent: Agent, output: Output | None = None) -> None:
    """Start a run and leave it where it waits for consent."""
    async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
        handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1", output=output)
        await until(handle, "run.waiting")


async def approve(handle: RunHandle) -> None:
    (asked,) = await handle.open_requests()
    await handle.answer(asked.request_id, "approve")


async def go_on(
    path: Path, agent: Agent, change: PackageChange | PackageChangeValue | None = None
) -> RunResult:
    """Open the file again with another agent, and let the run end."""
    options: RuntimeOptions = {} if change is None else {"package_change": change}
    async with AgentRuntime.open(path, agents=[agent], durability="process", **options) as runtime:
        handle = runtime.handle("r1")
        await approve(handle)
        return await handle.wait()


async def records(path: Path, kind: str | None = None) -> list[Record]:
    store = await SqliteStore.open(path, durability="process")
    try:
        return [one for one in await store.read("s1") if kind in (None, one.type)]
    finally:
        await store.aclose()


def test_a_run_continues_with_the_package_it_began_with(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(instructions="Old words.")[0])
        agent, model = seller(instructions="New words.", temperature=0.5)
        result = await go_on(path, agent)
        assert (result.status, result.output) == (RunStatus.COMPLETED, "done")
        assert model.requests[0].messages[0].content == "Old words."
        assert model.requests[0].temperature is None
        assert await records(path, "session.moved") == []

    play(story())


def test_a_run_that_continues_has_the_functions_of_today_and_no_tool_that_is_gone(tmp_path: Path) -> None:
    @tool(mode="external", name="mail")
    async def new_mail(to: str) -> str:
        """Send a mail; the default policy asks first."""
        return f"sent to {to} by the new function"

    async def story() -> None:
        path = tmp_path / "app.db"
        script = [call("mail", {"to": "ada"}), call("look", {"item": "key"}), say("done")]
        await begin(path, seller(script)[0])
        agent, model = seller(script, tools=[new_mail])
        await go_on(path, agent)
        assert model.requests[0].messages[-1].content == "sent to ada by the new function"
        assert [one["name"] for one in model.requests[0].tools] == ["mail"]
        assert model.requests[1].messages[-1].content == "there is no tool look; there are mail"

    play(story())


def test_a_run_that_moves_has_the_package_of_today_and_says_so_once(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        old = seller(instructions="Old words.")[0]
        await begin(path, old)
        script = [*SCRIPT[:1], call("mail", {"to": "bob"}), say("done")]
        agent, _ = seller(script, instructions="New words.")
        async with AgentRuntime.open(path, agents=[agent], package_change="move") as runtime:
            handle = runtime.handle("r1")
            await approve(handle)
            await until_waiting_again(handle)
        again, model = seller(script, instructions="New words.")
        result = await go_on(path, again, "move")
        assert result.status is RunStatus.COMPLETED
        assert model.requests[0].messages[0].content == "New words."
        (moved,) = await records(path, "session.moved")
        assert moved.data == {
            "fromFingerprint": fingerprint(package_of(old)),
            "toFingerprint": fingerprint(package_of(agent)),
            "reason": "agent.instructions changed",
        }
        assert moved.run_id == "r1"

    play(story())


async def until_waiting_again(handle: RunHandle) -> None:
    waits = 0
    async for event in handle.events():
        waits += event.type == "run.waiting"
        if waits == 2:
            return


def test_the_move_is_durable_before_anything_is_done_with_the_new_package(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(instructions="Old words.")[0])
        await go_on(path, seller(instructions="New words.")[0], "move")
        types = [record.type for record in await records(path)]
        moved = types.index("session.moved")
        assert moved < types.index("action.started")
        assert types.count("step.started") == 2
        assert types.index("step.started") < moved < len(types) - 1 - types[::-1].index("step.started")

    play(story())


def test_a_run_that_moved_continues_with_the_package_it_moved_to(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        script = [*SCRIPT[:1], call("mail", {"to": "bob"}), say("done")]
        await begin(path, seller(script, instructions="One.")[0])
        two, _ = seller(script, instructions="Two.")
        async with AgentRuntime.open(path, agents=[two], package_change="move") as runtime:
            handle = runtime.handle("r1")
            await approve(handle)
            await until_waiting_again(handle)
            snapshot = await runtime.run_snapshot("r1")
            assert snapshot.package_fingerprint == fingerprint(package_of(two))
        three, model = seller(script, instructions="Three.")
        await go_on(path, three)
        assert model.requests[0].messages[0].content == "Two."

    play(story())


def test_a_refused_run_fails_and_names_the_changes(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(instructions="Old words.")[0])
        agent, model = seller(instructions="New words.", tools=[mail])
        result = await go_on(path, agent, "refuse")
        assert result.status is RunStatus.FAILED
        assert result.error is not None
        assert result.error.kind is ErrorKind.INVALID_PACKAGE
        assert result.error.retry is RetryClass.HOST_CONFIGURATION_NEEDED
        assert result.error.message == (
            "the agent has changed since the run started: agent.instructions changed; tool look removed"
        )
        assert result.error.causal_ids is not None
        assert result.error.causal_ids.run_id == "r1"
        assert model.requests == []

    play(story())


@pytest.mark.parametrize("change", list(PackageChange))
def test_a_run_of_an_unchanged_agent_goes_on(tmp_path: Path, change: PackageChange) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller()[0])
        assert (await go_on(path, seller()[0], change)).status is RunStatus.COMPLETED
        assert await records(path, "session.moved") == []

    play(story())


NUMBER = {"title": "Number", "type": "integer"}
TYPED = [call("mail", {"to": "ada"}), say("7")]


@pytest.mark.parametrize("change", list(PackageChange))
def test_a_contract_of_the_request_is_no_change_of_the_agent(tmp_path: Path, change: PackageChange) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(TYPED)[0], output=NUMBER)
        result = await go_on(path, seller(TYPED)[0], change)
        assert (result.status, result.structured_output) == (RunStatus.COMPLETED, 7)
        assert await records(path, "session.moved") == []

    play(story())


def test_a_run_with_a_contract_of_its_own_continues_under_the_package_that_was_kept(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(TYPED, instructions="Old words.")[0], output=NUMBER)
        agent, model = seller(TYPED, instructions="New words.")
        result = await go_on(path, agent)
        assert (result.status, result.structured_output) == (RunStatus.COMPLETED, 7)
        assert model.requests[0].messages[0].content.startswith("Old words.")

    play(story())


def test_a_moved_run_keeps_its_output_contract(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(TYPED, output=NUMBER)[0])
        text = {"title": "Text", "type": "string"}
        agent, model = seller(TYPED, instructions="New words.", output=text)
        result = await go_on(path, agent, "move")
        assert (result.status, result.structured_output) == (RunStatus.COMPLETED, 7)
        assert '"integer"' in model.requests[0].messages[0].content

    play(story())


def test_the_policy_of_today_holds_for_a_run_that_continues(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        script = [call("mail", {"to": "ada"}), call("look", {"item": "key"}), say("done")]
        await begin(path, seller(script)[0])
        strict = PolicySet((Rule("no", "deny", tools=("look",), reason="Nobody looks any more."),))
        agent, model = seller(script, policy=strict)
        async with AgentRuntime.open(path, agents=[agent]) as runtime:
            handle = runtime.handle("r1")
            await approve(handle)
            # Other rules, so the consent to the mail is asked for again.
            await until_waiting_again(handle)
            await approve(handle)
            await handle.wait()
        assert model.requests[1].messages[-1].content == "Nobody looks any more."

    play(story())


def test_a_cancelled_run_ends_as_cancelled_also_when_its_agent_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller()[0])
        agent, _ = seller(instructions="New words.")
        async with AgentRuntime.open(path, agents=[agent], package_change="refuse") as runtime:
            handle = runtime.handle("r1")
            await handle.cancel()
            assert (await handle.wait()).status is RunStatus.CANCELLED

    play(story())


def test_a_run_can_be_cancelled_where_its_model_is_missing(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller()[0])
        elsewhere = shop(ScriptedModel([], route_id="elsewhere"))
        async with AgentRuntime.open(path, agents=[elsewhere]) as runtime:
            handle = runtime.handle("r1")
            await handle.cancel()
            assert (await handle.wait()).status is RunStatus.CANCELLED

    play(story())


def test_a_run_with_a_missing_model_waits_and_continues_later(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller()[0])
        elsewhere = shop(ScriptedModel([], route_id="elsewhere"))
        async with AgentRuntime.open(path, agents=[elsewhere]) as runtime:
            handle = runtime.handle("r1")
            await approve(handle)
            assert await handle.status() is RunStatus.WAITING
        async with AgentRuntime.open(path, agents=[seller()[0]]) as runtime:
            assert (await runtime.handle("r1").wait()).output == "done"

    play(story())


# Binding in one process


class Broken(CountingStore):
    """A content store that cannot be reached."""

    is_broken = True
    gets = 0

    async def get(self, ref: ContentRef) -> bytes:
        self.gets += 1
        if self.is_broken:
            raise Unavailable("away", kind=ErrorKind.JOURNAL_FAILURE, retry=RetryClass.RETRYABLE)
        return await super().get(ref)


def ports(store: CountingStore | None, **parts: object) -> RuntimePorts:
    machine = Machine(SystemClock(), sequential_ids(), seeded_random(1))
    given = {"store": store, "content": store, "start_policy": allow_start, **parts}
    return RuntimePorts(machine, RedactingScribe(), **cast(Any, given))


def run_of(package: RuntimePackage, **parts: object) -> RunState:
    given = {"package_id": package.package_id, "package_fingerprint": fingerprint(package), **parts}
    return RunState("r1", "shop", "s1", "2026-01-01T00:00:00Z", **cast(Any, given))


class Resolver:
    """A resolver with one package, or none."""

    def __init__(self, package: RuntimePackage | None) -> None:
        self._package = package

    async def resolve(self, package_id: str) -> RuntimePackage:
        if self._package is None:
            raise invalid_package("gone")
        return self._package


PROVIDERS = {"scripted": model_of("done")}


async def kept(store: CountingStore, package: RuntimePackage) -> None:
    await store.put(package_json(package))


def test_a_content_store_that_is_away_fails_nothing_for_good() -> None:
    async def story() -> None:
        binder = RuntimeBinder(ports(Broken(), providers=PROVIDERS))
        with pytest.raises(Unavailable):
            await binder(run_of(package_of()))

    play(story())


def test_a_run_without_its_stored_package_is_rejected() -> None:
    async def story() -> None:
        binder = RuntimeBinder(ports(CountingStore(), providers=PROVIDERS))
        with pytest.raises(Rejected, match="is not stored any more") as caught:
            await binder(run_of(package_of()))
        assert caught.value.causal_ids.run_id == "r1"
        with pytest.raises(Rejected, match="started without a package"):
            await binder(run_of(package_of(), package_fingerprint=None))
        with pytest.raises(Rejected, match="content resolver"):
            await RuntimeBinder(ports(None))(run_of(package_of()))

    play(story())


def test_a_missing_model_is_unavailable_and_not_replaced_by_another() -> None:
    async def story() -> None:
        store = CountingStore()
        package = package_of()
        await kept(store, package)
        other = shop(ScriptedModel([], route_id="other"))
        runtime_ports = ports(store)
        runtime_ports.registry.add(register_agent(other))
        with pytest.raises(Unavailable, match="missing provider adapter for package route scripted"):
            await RuntimeBinder(runtime_ports)(run_of(package))

    play(story())


@pytest.mark.parametrize("change", list(PackageChange))
def test_packages_of_a_resolver_are_compared_as_well(change: PackageChange) -> None:
    async def story() -> None:
        store = CountingStore()
        old, new = package_of(), package_of(shop(instructions="New words."))
        await kept(store, old)
        same = RuntimeBinder(ports(store, resolver=Resolver(old), providers=PROVIDERS, package_change=change))
        assert (await same(run_of(old))).notes == ()
        other = RuntimeBinder(
            ports(store, resolver=Resolver(new), providers=PROVIDERS, package_change=change)
        )
        gone = RuntimeBinder(
            ports(store, resolver=Resolver(None), providers=PROVIDERS, package_change=change)
        )
        missing = RuntimeBinder(ports(store, providers=PROVIDERS, package_change=change))
        if change in (PackageChange.CONTINUE, PackageChange.WAIT):
            for binder in (other, gone, missing):
                assert (await binder(run_of(old))).package == old
            return
        for binder, message in ((gone, "gone"), (missing, "is not registered with this runtime any more")):
            with pytest.raises(Rejected, match=message):
                await binder(run_of(old))
        if change is PackageChange.REFUSE:
            with pytest.raises(Rejected, match="instructions changed"):
                await other(run_of(old))
            return
        binding = await other(run_of(old))
        assert binding.package == new
        assert binding.fingerprint == fingerprint(new)
        assert [type(note) for note in binding.notes] == [SessionMoved]

    play(story())


def test_packages_of_older_runs_are_read_once_and_evicted_from_memory() -> None:
    async def story() -> None:
        store = Broken()
        store.is_broken = False
        packages = [package_of(shop(instructions=f"Words {at}.")) for at in range(PACKAGES_MAX + 1)]
        binder = RuntimeBinder(ports(store, providers=PROVIDERS))
        for package in packages:
            await kept(store, package)
            await binder(run_of(package))
            await binder(run_of(package))
        assert store.gets == PACKAGES_MAX + 1
        await binder(run_of(packages[0]))
        assert store.gets == PACKAGES_MAX + 2

    play(story())


def test_runs_of_an_unchanged_agent_share_one_binding() -> None:
    async def story() -> None:
        agent, model = seller()
        policy = RulesPolicy(PolicySet())
        given = ports(CountingStore(), registry=Registry([agent]), tool_policy=policy)
        binder, run = RuntimeBinder(given), run_of(package_of(agent))
        bound = await binder(run)
        assert await binder(replace(run, run_id="r2", session_id="s2")) is bound
        # An agent of the same definition, model and policy has other functions.
        same_look = replace(look)
        given.registry.add(register_agent(shop(model, tools=[same_look, mail])), replace=True)
        again = await binder(run)
        assert (again.provider, again.policy) == (bound.provider, bound.policy)
        assert again.tools["look"] is same_look
        assert await binder(run) is again

    play(story())


@pytest.mark.parametrize("part", ["provider", "summarises", "policy"])
def test_a_binding_is_made_anew_when_a_part_of_it_differs(part: str) -> None:
    async def story() -> None:
        agent = Agent("shop", model="scripted/m", compaction_model="scripted/short")
        source = Source()
        given = ports(CountingStore(), registry=Registry([agent]), provider_source=source)
        binder, run = RuntimeBinder(given), run_of(package_of(agent))
        bound = await binder(run)
        assert await binder(run) is bound
        if part == "policy":
            given.registry.add(register_agent(Agent("desk", model="scripted/m")))
            called = ParentRun(
                run_id="r0", session_id="s0", root_session_id="s0", call_id="c1", depth=1, agents=("desk",)
            )
            run = replace(run, parent=called)
        else:
            source.models["m" if part == "provider" else "short"] = model_of("other")
        again = await binder(run)
        assert getattr(again, part) is not getattr(bound, part)

    play(story())


class Source:
    """A provider source with models that can be exchanged."""

    def __init__(self) -> None:
        self.models = {"m": model_of("done"), "short": model_of("short")}

    def provider(self, route_id: str, model_id: str) -> LLMProvider:
        return self.models[model_id]

    async def aclose(self) -> None:
        """There is nothing to close."""


def test_definitions_of_tools_are_made_once_for_a_binding_and_again_for_a_changed_one() -> None:
    async def story() -> None:
        agent, _ = seller(tools=[look, mail, ask_question])
        binder = RuntimeBinder(ports(CountingStore(), registry=Registry([agent])))
        bound = await binder(run_of(package_of(agent)))
        first = bound.definitions(can_ask=True)
        assert [one["name"] for one in first] == ["ask_question", "look", "mail"]
        assert [one["name"] for one in bound.definitions(can_ask=False)] == ["look", "mail"]
        again = bound.definitions(can_ask=True)
        first[0]["description"] = "changed by a provider"
        first.clear()
        assert bound.definitions(can_ask=True) == again, "another run gets its own"
        schemas = [one["inputSchema"] for one in again]
        assert all(
            one is other["inputSchema"]
            for one, other in zip(schemas, bound.definitions(can_ask=True), strict=True)
        )
        fewer = replace(bound, tools={"mail": bound.tools["mail"]})
        assert [one["name"] for one in fewer.definitions(can_ask=True)] == ["mail"]
        assert bound.definitions(can_ask=True) == again

    play(story())


def test_rules_of_a_binding_follow_the_rules_given_and_the_context_window() -> None:
    async def story() -> None:
        agent, model = seller()
        bound = await RuntimeBinder(ports(CountingStore(), registry=Registry([agent])))(
            run_of(package_of(agent))
        )
        rules = bound.rules_from(DEFAULT_RULES)
        assert bound.rules_from(DEFAULT_RULES) is rules
        assert bound.rules_from(replace(DEFAULT_RULES, steps_max=7)).steps_max == 7
        assert bound.rules_from(DEFAULT_RULES) == rules
        model.context_window_tokens = 1_000  # pyright: ignore[reportAttributeAccessIssue] - see LLMProvider
        assert bound.rules_from(DEFAULT_RULES).compaction.threshold == 900

    play(story())


def test_the_description_of_a_change_is_bounded() -> None:
    many = [tool(look.function, mode="read", name=f"tool_{at}_{'x' * 40}") for at in range(50)]
    text = difference(package_of(shop(tools=[])), package_of(shop(tools=many)))
    assert len(text) == CHANGES_CHARS_MAX
    assert text.endswith("…")
    error = ErrorInfo.model_validate(invalid_package(text).info().model_dump())
    assert error.message == text


def test_the_same_run_can_be_started_again_after_the_agent_changed(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "app.db"
        await begin(path, seller(instructions="Old words.")[0])
        agent, _ = seller(instructions="New words.")
        async with AgentRuntime.open(path, agents=[agent], durability="process") as runtime:
            handle = await runtime.start_run(agent, "go", session_id="s1", run_id="r1")
            await approve(handle)
            assert (await handle.wait()).status is RunStatus.COMPLETED

    play(story())

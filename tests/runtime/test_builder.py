"""The builder: nothing has to be given, and nothing that was given is lost."""

from collections.abc import Callable

import pytest
from tests.runtime.runtime_rig import CountingStore, look, mail, model_of, package_of, play, request, shop

from windlass.adapters.system import SystemClock
from windlass.agent import Agent
from windlass.agent.hooks import hook
from windlass.agent.policy import RulesPolicy, allow_start
from windlass.errors import Rejected
from windlass.feed import Feed
from windlass.ports.host import Delivery, HookCall
from windlass.runtime.compose import AgentRuntime
from windlass.runtime.generated.builder import AgentRuntimeBuilder
from windlass.runtime.registry import PackageChange, ToolRoute
from windlass.testing import FakeClock, ScriptedModel, call, say, seeded_random, sequential_ids
from windlass.tools import tool
from windlass_harness.loop.rules import Rules
from windlass_harness.policy import PolicySet
from windlass_protocol import (
    ErrorKind,
    InputRequest,
    InputResponse,
    OutputSinkSpec,
    RetryClass,
    RunStatus,
    RuntimePackage,
)

Builder = AgentRuntimeBuilder[AgentRuntime]


class SilentDispatcher:
    """A dispatcher that answers nothing."""

    async def dispatch(self, request: InputRequest, *, session_id: str, run_id: str) -> InputResponse | None:
        return None


class Box:
    """A sink."""

    def __init__(self, sink_id: str = "box") -> None:
        self.sink_id = sink_id

    async def deliver(self, output: Delivery) -> None:
        return None


class Resolver:
    """A resolver that returns the shop for every package id."""

    def resolve(self, package_id: str) -> RuntimePackage:
        return package_of()


@hook("after_tool_call")
def watch(seen: HookCall) -> None: ...


def whole(store: CountingStore | None = None) -> Builder:
    """A builder with everything that every run needs."""
    kept = store or CountingStore()
    return (
        AgentRuntime.builder()
        .journal(kept)
        .event_bus(Feed(kept, SystemClock()))
        .content(kept)
        .policy(allow_start)
    )


STORE = CountingStore()
FEED = Feed(STORE, SystemClock())
RULES = RulesPolicy(PolicySet())

TWICE: dict[str, tuple[Callable[[Builder], object], Callable[[Builder], object], str]] = {
    "journal": (lambda b: b.journal(STORE), lambda b: b.journal(STORE, replace=True), "option journal"),
    "event_bus": (lambda b: b.event_bus(FEED), lambda b: b.event_bus(FEED, replace=True), "option event_bus"),
    "content": (lambda b: b.content(STORE), lambda b: b.content(STORE, replace=True), "option content"),
    "policy": (
        lambda b: b.policy(allow_start),
        lambda b: b.policy(allow_start, replace=True),
        "option start_policy",
    ),
    "tool_policy": (
        lambda b: b.tool_policy(RULES),
        lambda b: b.tool_policy(RULES, replace=True),
        "option tool_policy",
    ),
    "package_resolver": (
        lambda b: b.package_resolver(Resolver()),
        lambda b: b.package_resolver(Resolver(), replace=True),
        "option package_resolver",
    ),
    "default_package_id": (
        lambda b: b.default_package_id("shop"),
        lambda b: b.default_package_id("shop", replace=True),
        "option default_package_id",
    ),
    "approval_dispatcher": (
        lambda b: b.approval_dispatcher(SilentDispatcher()),
        lambda b: b.approval_dispatcher(SilentDispatcher(), replace=True),
        "option approval_dispatcher",
    ),
    "shared_approval_dispatcher": (
        lambda b: b.shared_approval_dispatcher(SilentDispatcher()),
        lambda b: b.shared_approval_dispatcher(SilentDispatcher(), replace=True),
        "option approval_dispatcher",
    ),
    "attended": (
        lambda b: b.options(is_attended=True),
        lambda b: b.options(replace=True, is_attended=True),
        "option is_attended",
    ),
    "responders": (
        lambda b: b.options(responders=["ada"]),
        lambda b: b.options(replace=True, responders=["ada"]),
        "option responders",
    ),
    "approvals_expire": (
        lambda b: b.options(approval_expires_ms=1),
        lambda b: b.options(replace=True, approval_expires_ms=1),
        "option approval_expires_ms",
    ),
    "package_change": (
        lambda b: b.options(package_change="move"),
        lambda b: b.options(replace=True, package_change="refuse"),
        "option package_change",
    ),
    "rules": (
        lambda b: b.options(rules=Rules()),
        lambda b: b.options(replace=True, rules=Rules()),
        "option rules",
    ),
    "provider": (
        lambda b: b.provider("x", model_of()),
        lambda b: b.provider("x", model_of(), replace=True),
        "provider x",
    ),
    "providers": (
        lambda b: b.providers({"x": model_of()}),
        lambda b: b.providers({"x": model_of()}, replace=True),
        "provider x",
    ),
    "tool_route": (
        lambda b: b.tool_route(ToolRoute("see", look, "shop")),
        lambda b: b.tool_route(ToolRoute("see", look, "shop"), replace=True),
        "tool route see of package shop",
    ),
    "tool_routes": (
        lambda b: b.tool_routes([ToolRoute("see", look)]),
        lambda b: b.tool_routes([ToolRoute("see", look)], replace=True),
        "tool route see",
    ),
    "tool_executor": (
        lambda b: b.tool_executor(look),
        lambda b: b.tool_executor(look, replace=True),
        "tool route look",
    ),
    "tool_executors": (
        lambda b: b.tool_executors([look]),
        lambda b: b.tool_executors([look], replace=True),
        "tool route look",
    ),
    "hook_executor_registry": (
        lambda b: b.hook_executor_registry([watch]),
        lambda b: b.hook_executor_registry([watch], replace=True),
        "hook watch",
    ),
    "output_sink": (
        lambda b: b.output_sink(Box()),
        lambda b: b.output_sink(Box(), replace=True),
        "output sink box",
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_part_given_twice_is_refused_without_replace(name: str) -> None:
    give, again, what = TWICE[name]
    builder = AgentRuntime.builder()
    assert give(builder) is builder
    with pytest.raises(Rejected) as caught:
        give(builder)
    assert caught.value.message == f"the {what} was given before; write replace=True to replace it"
    assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED
    assert again(builder) is builder


UNUSABLE: dict[str, Callable[[Builder], object]] = {
    "missing required field: route_id": lambda b: b.provider("", model_of()),
    "missing required field: package_id": lambda b: b.default_package_id(""),
    "missing required field: sink_id": lambda b: b.output_sink(Box("")),
    "missing required field: tool_name": lambda b: b.tool_route(ToolRoute("", look)),
    "approval_timeout_ms must be 1 or more, found 0": lambda b: b.approval_dispatcher(
        SilentDispatcher()
    ).options(approval_timeout_ms=0),
    "approval_expires_ms must be 1 or more, found 0": lambda b: b.options(approval_expires_ms=0),
}


@pytest.mark.parametrize("message", UNUSABLE)
def test_unusable_parts_are_refused_when_they_are_given(message: str) -> None:
    with pytest.raises(Rejected) as caught:
        UNUSABLE[message](AgentRuntime.builder())
    assert caught.value.message == message
    assert caught.value.retry is RetryClass.HOST_CONFIGURATION_NEEDED


def test_a_runtime_without_ports_fails_closed() -> None:
    async def story() -> None:
        runtime = AgentRuntime()
        with pytest.raises(Rejected, match="missing required runtime port: run journal") as caught:
            await runtime.start_run(request("r1"))
        assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED
        assert caught.value.causal_ids.run_id == "r1"
        with pytest.raises(Rejected, match="missing required runtime port: agent event bus"):
            runtime.subscribe_all()
        for work in (runtime.run_snapshot("r1"), runtime.cancel_run("r1"), runtime.core.resume()):
            with pytest.raises(Rejected, match="missing required runtime port: run journal"):
                await work
        assert runtime.registered_run_count == 0
        assert (runtime.provider_registry, runtime.output_sinks) == ({}, {})
        await runtime.aclose()

    play(story())


def test_an_empty_runtime_can_be_built_and_names_the_missing_part_on_use() -> None:
    async def story() -> None:
        runtime = AgentRuntime.builder().build()
        assert runtime.registered_run_count == 0
        for use in (runtime.core.resume(), runtime.handle("r1").status(), runtime.start_run(request())):
            with pytest.raises(Rejected, match="missing required runtime port: run journal"):
                await use
        with pytest.raises(Rejected, match="agent event bus") as caught:
            runtime.subscribe_all()
        assert caught.value.causal_ids.run_id is None
        with pytest.raises(Rejected, match="agent event bus"):
            runtime.events()
        await runtime.aclose()

    play(story())


def test_a_runtime_without_a_content_store_drives_nothing() -> None:
    async def story() -> None:
        store = CountingStore()
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock()))
        runtime = builder.build()
        with pytest.raises(Rejected, match="missing required runtime port: content resolver"):
            await runtime.core.resume()
        assert store.writes == []

    play(story())


@pytest.mark.parametrize("is_agent", [False, True], ids=["package", "agent"])
def test_a_resolver_beside_packages_is_refused_instead_of_dropping_them(is_agent: bool) -> None:
    builder = AgentRuntime.builder().package_resolver(Resolver())
    builder = builder.agent(shop()) if is_agent else builder.package(package_of())
    with pytest.raises(Rejected, match="not both") as caught:
        builder.build()
    assert caught.value.kind is ErrorKind.HOST_CONFIGURATION_NEEDED


def test_the_default_package_is_added_and_used_by_requests_that_name_none() -> None:
    async def story() -> None:
        model = model_of("done")
        builder = whole().default_package(package_of()).provider("scripted", model)
        async with builder.tool_executors([look, mail]).build() as runtime:
            result = await runtime.run_text(request())
            assert result.output == "done"
            assert (await runtime.run_snapshot("r1")).package_id == "shop"

    play(story())


def test_two_default_packages_are_refused_and_the_second_may_replace_the_first() -> None:
    builder = AgentRuntime.builder().default_package(package_of())
    other = package_of(Agent("other", model="a/b"))
    with pytest.raises(Rejected, match="option default_package_id was given before"):
        builder.default_package(other)
    builder.default_package(other, replace=True)


def test_a_package_that_cannot_be_run_is_refused_when_it_is_given() -> None:
    package = package_of()
    twice = package.model_copy(update={"tools": (look.spec, look.spec)})
    with pytest.raises(Rejected, match="duplicate name look"):
        AgentRuntime.builder().package(twice)


def test_a_package_or_an_agent_is_not_given_twice() -> None:
    builder = AgentRuntime.builder().agent(shop())
    with pytest.raises(Rejected, match=r"duplicate package shop; .*replace=True"):
        builder.package(package_of())
    with pytest.raises(Rejected, match="agent shop has a package already, shop; one runtime has one"):
        builder.agent(shop(version="2"))
    builder.agent(shop(version="2"), replace=True)


def test_later_changes_of_a_builder_do_not_change_a_built_runtime() -> None:
    async def story() -> None:
        builder = whole().agent(shop())
        first = builder.build()
        builder.agent(Agent("other", model=model_of())).provider("late", model_of())
        assert first.provider_registry == {}
        with pytest.raises(Rejected, match="unknown runtime package: other"):
            await first.resolve_effective_package(request(agent_id="other", package_id="other"))

    play(story())


# Tools


@tool(mode="read", name="look")
async def look_elsewhere(item: str) -> str:
    """Look for a thing."""
    return f"{item} is elsewhere"


async def tool_result(builder: Builder, name: str = "look") -> object:
    """The result of the shop's tool under a builder."""
    model = ScriptedModel([call(name, {"item": "key"}), say("done")])
    runtime = builder.provider("scripted", model).default_package_id("shop").build()
    async with runtime:
        await runtime.run_text(request())
    return model.requests[1].messages[-1].content


def test_a_tool_for_one_package_comes_before_the_agents_own_and_before_those_for_any() -> None:
    async def story() -> None:
        package = package_of(shop(tools=[look]))
        general = ToolRoute("look", look)
        ours = ToolRoute("look", look_elsewhere, "shop")
        assert await tool_result(whole().package(package).tool_routes([general, ours])) == "key is elsewhere"
        assert await tool_result(whole().package(package).tool_route(general)) == "key is there"
        own = whole().agent(shop(tools=[look])).tool_executor(look_elsewhere)
        assert await tool_result(own) == "key is there"
        routed = whole().agent(shop(tools=[look])).tool_route(ours)
        assert await tool_result(routed) == "key is elsewhere"

    play(story())


def test_a_tool_route_applies_to_its_own_package_only() -> None:
    async def story() -> None:
        foreign = ToolRoute("look", look_elsewhere, "other")
        own = whole().agent(shop(tools=[look])).tool_route(foreign)
        assert await tool_result(own) == "key is there"
        bare = whole().package(package_of(shop(tools=[look]))).tool_route(foreign)
        with pytest.raises(Rejected, match="package shop has no executor for tool look"):
            await tool_result(bare)

    play(story())


def test_a_tool_may_have_another_name_in_a_package() -> None:
    async def story() -> None:
        find = tool(look.function, mode="read", name="find")
        package = package_of(shop(tools=[find]))
        route = ToolRoute("find", look)
        assert await tool_result(whole().package(package).tool_route(route), "find") == "key is there"

    play(story())


# Hooks and sinks


def test_hooks_and_sinks_are_found_by_the_packages_that_name_them() -> None:
    async def story() -> None:
        seen: list[str] = []

        @hook("after_run_terminal", timeout_ms=30_000)
        def note(call: HookCall) -> None:
            seen.append(f"hook {call.run_id}")

        class Noting(Box):
            async def deliver(self, output: Delivery) -> None:
                seen.append(f"sink {output.output}")

        package = package_of(shop(tools=[], hooks=[note.spec], output_sinks=[OutputSinkSpec(sink_id="box")]))
        builder = whole().default_package(package).provider("scripted", model_of("done"))
        async with builder.hook_executor_registry([note]).output_sink(Noting()).build() as runtime:
            stream = runtime.sessions.subscribe("session:r1")
            await runtime.run_text(request())
            async for event in stream:
                if len(seen) == 2:
                    break
                assert event.type
        assert sorted(seen) == ["hook r1", "sink done"]

    play(story())


# People


ATTENDED: dict[str, tuple[Callable[[Builder], Builder], bool]] = {
    "no dispatcher": (lambda b: b, False),
    "attended": (lambda b: b.options(is_attended=True), True),
    "not attended": (lambda b: b.options(is_attended=False), False),
    "a dispatcher": (lambda b: b.approval_dispatcher(SilentDispatcher()), True),
    "a dispatcher, not attended": (
        lambda b: b.approval_dispatcher(SilentDispatcher()).options(is_attended=False),
        False,
    ),
}


@pytest.mark.parametrize("name", ATTENDED)
def test_is_attended_decides_whether_a_run_waits_or_is_denied(name: str) -> None:
    give, is_attended = ATTENDED[name]

    async def story() -> None:
        model = ScriptedModel([call("mail", {"to": "ada"}), say("done")])
        builder = give(whole().agent(shop(model)).default_package_id("shop"))
        async with builder.build() as runtime:
            handle = await runtime.start_run(request())
            expected = "run.waiting" if is_attended else "run.completed"
            other = "run.completed" if is_attended else "run.waiting"
            async for event in handle.events():
                assert event.type != other
                if event.type == expected:
                    return
            raise AssertionError(f"the run ended without {expected}")

    play(story())


# The rest


def test_clock_names_chance_rules_and_secrets_are_those_that_were_given() -> None:
    async def story() -> None:
        store, clock = CountingStore(), FakeClock()
        model = model_of("the code is hunter22hunter22")
        builder = whole(store).agent(shop(model)).default_package_id("shop")
        builder.options(
            clock=clock, ids=sequential_ids(), random=seeded_random(1), secrets=["hunter22hunter22"]
        )
        async with builder.options(rules=Rules(steps_max=1)).build() as runtime:
            handle = await runtime.start_run("shop", "go: hunter22hunter22")
            result = await handle.wait()
            assert result.status is RunStatus.COMPLETED
            assert "hunter22" not in result.output
            records = await store.read(result.session_id or "")
            assert {record.at for record in records} == {"2026-01-01T00:00:00.000Z"}
            assert "hunter22" not in repr(records)

    play(story())


def test_sinks_and_models_that_were_given_can_be_seen() -> None:
    box, model = Box(), model_of()
    runtime = AgentRuntime.builder().output_sink(box).provider("x", model).build()
    assert runtime.output_sinks == {"box": box}
    assert runtime.provider_registry == {"x": model}


def test_a_change_of_package_is_named_or_refused() -> None:
    AgentRuntime.builder().options(package_change=PackageChange.MOVE)
    with pytest.raises(
        Rejected, match="package_change must be one of continue, move, refuse, wait; found 'jump'"
    ):
        AgentRuntime.builder().options(package_change="jump")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", ["ghp_" + "a1B2" * 9, "ada-secret-name"])
def test_a_responder_with_a_masked_name_is_refused(name: str) -> None:
    # After masking, any responder named "[redacted]" would match.
    builder = AgentRuntime.builder().options(secrets=["ada-secret-name"], responders=["bob", name])
    with pytest.raises(Rejected, match="name of a responder would be masked") as refused:
        builder.build()
    assert name not in str(refused.value)

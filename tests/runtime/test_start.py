"""The checks of a start: the first failed check is reported."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any, cast

import pytest
from pydantic import JsonValue
from tests.runtime.runtime_rig import CountingStore, look, mail, model_of, package_of, play, request, shop

from windlass.adapters.system import SystemClock
from windlass.agent.policy import allow_start
from windlass.errors import AgentError, Conflict, Denied, Rejected, Unavailable
from windlass.feed import Feed
from windlass.refusals import invalid_package
from windlass.runtime.compose import AgentRuntime
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    CausalIds,
    DeferDecision,
    DenyDecision,
    ErrorKind,
    FilePart,
    HookRight,
    HookSpec,
    ImagePart,
    InterruptDecision,
    ModifyDecision,
    OutputContract,
    OutputSinkSpec,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
    RetryClass,
    RunRequest,
    RuntimePackage,
    SchemaVersion,
    SourceKind,
    SourceRef,
    TextPart,
)

HOST_NEEDED = (ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.HOST_CONFIGURATION_NEEDED)
PACKAGE = (ErrorKind.INVALID_PACKAGE, RetryClass.HOST_CONFIGURATION_NEEDED)
VIOLATION = (ErrorKind.INVALID_STATE_TRANSITION, RetryClass.REPAIR_NEEDED)
DENIAL = (ErrorKind.POLICY_DENIAL, RetryClass.USER_ACTION_NEEDED)

REFS = (
    PolicyRef(kind=PolicyKind.PERMISSION, id="first", version="1"),
    PolicyRef(kind=PolicyKind.HOST, id="second"),
)
SOURCE = SourceRef(kind=SourceKind.USER, id="ada")
WATCH = HookSpec(hook_id="watch", point="after_tool_call")
BAD_HASH = OutputContract.model_validate(
    {
        "schema_id": "out",
        "schema_version": SchemaVersion(major=1, minor=0, patch=0),
        "schema": {"type": "object"},
        "content_hash": "sha256:" + "0" * 64,
    }
)


@dataclass(frozen=True)
class Row:
    """One check: a mistake that fails it, and the resulting error."""

    broken: str
    error: type[AgentError]
    kind: tuple[ErrorKind, RetryClass]
    message: str


ROWS = (
    Row("journal", Rejected, HOST_NEEDED, "missing required runtime port: run journal"),
    Row("bus", Rejected, HOST_NEEDED, "missing required runtime port: agent event bus"),
    Row("content", Rejected, HOST_NEEDED, "missing required runtime port: content resolver"),
    Row("policy", Rejected, HOST_NEEDED, "missing required runtime port: runtime policy port"),
    Row("default", Rejected, HOST_NEEDED, "missing required runtime port: default runtime package"),
    Row("resolver", Rejected, HOST_NEEDED, "missing required runtime port: runtime package resolver"),
    Row("unknown", Rejected, PACKAGE, "unknown runtime package: shop"),
    Row(
        "contract",
        Rejected,
        (ErrorKind.STRUCTURED_OUTPUT_FAILURE, RetryClass.REPAIR_NEEDED),
        "output contract out: the content hash does not match the schema",
    ),
    Row(
        "invalid",
        Rejected,
        PACKAGE,
        "runtime package tools and subagents: duplicate name look; give each its own name",
    ),
    Row("agent", Rejected, PACKAGE, "runtime package agent snapshot must match the run request agent_id"),
    Row("fingerprint", Conflict, VIOLATION, "runtime package cannot be fingerprinted: "),
    Row(
        "provider",
        Unavailable,
        (ErrorKind.PROVIDER_FAILURE, RetryClass.HOST_CONFIGURATION_NEEDED),
        "missing provider adapter for package route elsewhere",
    ),
    Row("hook", Rejected, PACKAGE, "package shop has no executor for hook watch"),
    Row("tool", Rejected, PACKAGE, "package shop has no executor for tool mail"),
    Row("sink", Rejected, PACKAGE, "package shop needs output sink box, and the runtime has none"),
    Row("denied", Denied, DENIAL, "policy.closed: Closed."),
)
BROKEN = tuple(row.broken for row in ROWS)
DUPLICATE = "run_id r1 is already registered with this runtime, with another request: "


def deny(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
    return DenyDecision(code="policy.closed", reason="Closed.", policy_refs=REFS)


def deep(levels: int) -> JsonValue:
    """A deeply nested value."""
    value: JsonValue = 1
    for _ in range(levels):
        value = [value]
    return value


class Resolver:
    """A resolver with one package, faulty as the test says."""

    def __init__(self, broken: Collection[str]) -> None:
        self._broken = broken

    async def resolve(self, package_id: str) -> RuntimePackage:
        if "unknown" in self._broken:
            raise invalid_package(f"unknown runtime package: {package_id}")
        hooks = [WATCH] if "hook" in self._broken else []
        sinks = [OutputSinkSpec(sink_id="box")] if "sink" in self._broken else []
        package = package_of(shop(hooks=hooks, output_sinks=sinks))
        if "invalid" in self._broken:
            package = package.model_copy(update={"tools": (*(package.tools or ()), look.spec)})
        if "agent" in self._broken:
            package = package.model_copy(
                update={"agent": package.agent.model_copy(update={"agent_id": "other"})}
            )
        route = package.provider_route
        if "fingerprint" in self._broken:
            route = route.model_copy(update={"settings": {"deep": deep(140)}})
        if "provider" in self._broken:
            route = route.model_copy(update={"route_id": "elsewhere"})
        return package.model_copy(update={"provider_route": route})


def built(broken: Collection[str], store: CountingStore) -> AgentRuntime:
    """A runtime with which these things are wrong, and nothing else."""
    builder = AgentRuntime.builder().provider("scripted", model_of("done", "done")).tool_executor(look)
    if "tool" not in broken:
        builder.tool_executor(mail)
    ports: dict[str, Callable[[], object]] = {
        "journal": lambda: builder.journal(store),
        "bus": lambda: builder.event_bus(Feed(store, SystemClock())),
        "content": lambda: builder.content(store),
        "policy": lambda: builder.policy(deny if "denied" in broken else allow_start),
        "default": lambda: builder.default_package_id("shop"),
        "resolver": lambda: builder.package_resolver(Resolver(broken)),
    }
    for name, give in ports.items():
        if name not in broken:
            give()
    return builder.build()


def asked(broken: Collection[str], run_id: str = "r1", message: str = "go") -> RunRequest:
    contract = BAD_HASH if "contract" in broken else None
    return request(run_id, input=message, source=SOURCE, output_contract=contract)


async def refused(runtime: AgentRuntime, wanted: RunRequest) -> AgentError:
    with pytest.raises(AgentError) as caught:
        await runtime.start_run(wanted)
    return caught.value


@pytest.mark.parametrize("row", ROWS, ids=BROKEN)
def test_a_start_that_fails_a_check_is_a_typed_error_and_leaves_an_entry_in_the_audit_alone(row: Row) -> None:
    async def story() -> None:
        store = CountingStore()
        runtime = built({row.broken}, store)
        error = await refused(runtime, asked({row.broken}))
        assert type(error) is row.error
        assert (error.kind, error.retry) == row.kind
        assert error.message.startswith(row.message)
        assert error.causal_ids == CausalIds(run_id="r1")
        assert runtime.registered_run_count == 0
        assert store.writes == []
        assert await store.run("r1") is None
        entries = await store.list_refusals()
        # A runtime without a journal has nowhere to write to.
        assert len(entries) == (row.broken != "journal")
        for one in entries:
            assert (one.run_id, one.session_id, one.agent_id, one.source) == ("r1", None, "shop", SOURCE)
            assert (one.code, one.kind, one.retry) == (error.code, error.kind, error.retry)
            assert one.message == error.message

    play(story())


@pytest.mark.parametrize("at", range(len(ROWS)), ids=BROKEN)
def test_of_several_failed_checks_the_first_in_order_is_reported(at: int) -> None:
    async def story() -> None:
        broken = set(BROKEN[at:])
        store = CountingStore()
        error = await refused(built(broken, store), asked(broken))
        assert error.message.startswith(ROWS[at].message)
        assert store.writes == []

    play(story())


def test_a_run_starts_when_nothing_is_wrong() -> None:
    async def story() -> None:
        store = CountingStore()
        async with built((), store) as runtime:
            result = await runtime.run_text(asked(()))
            assert result.output == "done"
            assert runtime.registered_run_count == 1

    play(story())


def test_a_run_id_that_was_used_for_something_else_is_refused_last() -> None:
    async def story() -> None:
        store = CountingStore()
        async with built((), store) as runtime:
            await runtime.run_text(asked(()))
            before = [*store.writes]
            error = await refused(runtime, asked((), message="something else"))
            assert type(error) is Conflict
            assert (error.kind, error.retry) == (
                ErrorKind.INVALID_STATE_TRANSITION,
                RetryClass.NOT_RETRYABLE,
            )
            assert error.message.startswith(DUPLICATE)
            assert error.causal_ids.run_id == "r1"
            assert runtime.registered_run_count == 1
            assert store.writes == before
            [entry] = await store.list_refusals()
            assert (entry.code, entry.run_id, entry.message) == (error.code, "r1", error.message)
        closed = built({"denied"}, store)
        assert (
            await refused(closed, asked((), message="something else"))
        ).message == "policy.closed: Closed."

    play(story())


def test_the_same_request_again_is_the_same_run_and_counts_once() -> None:
    async def story() -> None:
        async with built((), CountingStore()) as runtime:
            first = await runtime.start_run(asked(()))
            second = await runtime.start_run(asked(()))
            assert await first.wait() == await second.wait()
            assert runtime.registered_run_count == 1
            assert (await runtime.sessions.refused_starts()).items == ()

    play(story())


def test_a_run_id_that_is_taken_keeps_no_package_of_the_request_that_was_refused() -> None:
    async def story() -> None:
        store = CountingStore()
        async with built((), store) as runtime:
            await runtime.run_text(asked(()))
            before = store.writes.count("put")
            contract = BAD_HASH.model_copy(update={"content_hash": None})
            with pytest.raises(Conflict):
                await runtime.start_run(request(output_contract=contract))
            assert store.writes.count("put") == before

    play(story())


# The start policy


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (
            DenyDecision(code="policy.night", reason="Not at night.", policy_refs=REFS),
            "policy.night: Not at night.",
        ),
        (InterruptDecision(code="policy.stop", reason="Stop.", policy_refs=REFS), "policy.stop: Stop."),
        (DeferDecision(code="policy.later", reason="Later.", policy_refs=REFS), "policy.later: Later."),
        (
            AskDecision(code="policy.ask", reason="Ask.", policy_refs=REFS),
            "policy requested host approval before run start",
        ),
        (
            ModifyDecision(code="policy.change", reason="Change.", policy_refs=REFS, arguments={}),
            "policy modification is not valid for runtime start",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.decision,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_any_decision_but_allow_refuses_the_start_with_its_rules_and_the_source(
    decision: PolicyDecision, message: str, is_async: bool
) -> None:
    async def later() -> PolicyDecision:
        return decision

    def policy(request: RunRequest, package: RuntimePackage) -> PolicyDecision | Awaitable[PolicyDecision]:
        return later() if is_async else decision

    async def story() -> None:
        runtime = AgentRuntime.in_memory([shop()], start_policy=policy)
        error = await refused(runtime, request(source=SOURCE, package_id="shop"))
        assert type(error) is Denied
        assert (error.kind, error.retry, error.message) == (*DENIAL, message)
        assert (error.policy_code, error.policy_refs) == (decision.code, REFS)
        assert (error.info().policy_code, error.info().policy_refs) == (decision.code, REFS)
        assert error.source == SOURCE
        assert error.causal_ids == CausalIds(run_id="r1")
        assert runtime.registered_run_count == 0
        with pytest.raises(Conflict):
            await runtime.handle("r1").status()

    play(story())


def test_the_policy_sees_the_request_and_the_package_that_would_run() -> None:
    seen: list[tuple[RunRequest, RuntimePackage]] = []

    def policy(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        seen.append((request, package))
        return AllowDecision(code="ok", reason="Yes.", policy_refs=())

    async def story() -> None:
        async with AgentRuntime.in_memory([shop()], start_policy=policy) as runtime:
            wanted = request(package_id="shop")
            await runtime.run_text(wanted)
            effective = await runtime.resolve_effective_package(wanted)
            assert seen == [(wanted, effective.package)]

    play(story())


def test_an_error_of_the_policy_gets_the_run_id_and_keeps_its_own_ids() -> None:
    def policy(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        raise Unavailable(
            "the policy service is away",
            kind=ErrorKind.POLICY_DENIAL,
            retry=RetryClass.RETRYABLE,
            causal_ids=CausalIds(span_id="span-1"),
        )

    async def story() -> None:
        runtime = AgentRuntime.in_memory([shop()], start_policy=policy)
        error = await refused(runtime, request(package_id="shop"))
        assert type(error) is Unavailable
        assert error.causal_ids == CausalIds(run_id="r1", span_id="span-1")

    play(story())


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ValueError("a secret"), "the start policy failed (ValueError), so the run is denied"),
        (None, "the start policy gave no decision (NoneType), so the run is denied"),
        (True, "the start policy gave no decision (bool), so the run is denied"),
    ],
    ids=["raises", "none", "true"],
)
def test_a_policy_that_gives_no_decision_denies(answer: object, message: str) -> None:
    def policy(request: RunRequest, package: RuntimePackage) -> PolicyDecision:
        if isinstance(answer, Exception):
            raise answer
        return cast(PolicyDecision, answer)

    async def story() -> None:
        runtime = AgentRuntime.in_memory([shop()], start_policy=policy)
        error = await refused(runtime, request(package_id="shop", source=SOURCE))
        assert type(error) is Denied
        assert (error.kind, error.retry) == (
            ErrorKind.POLICY_DENIAL,
            RetryClass.HOST_CONFIGURATION_NEEDED,
        )
        assert error.message == message
        assert (error.causal_ids, error.source) == (CausalIds(run_id="r1"), SOURCE)
        assert "a secret" not in str(error)
        assert error.__context__ is None

    play(story())


# The package


def test_the_package_of_a_request_is_resolved_without_a_trace_and_equal_each_time() -> None:
    async def story() -> None:
        store = CountingStore()
        runtime = built((), store)
        first = await runtime.resolve_effective_package(asked(()))
        second = await runtime.resolve_effective_package(asked(()))
        assert first == second
        assert first.fingerprint.startswith("sha256:")
        assert runtime.registered_run_count == 0
        assert store.writes == []

    play(story())


def test_a_contract_of_the_request_comes_before_those_of_the_package_and_changes_the_fingerprint() -> None:
    async def story() -> None:
        runtime = AgentRuntime.in_memory([shop(output={"title": "Own", "type": "string"})])
        plain = await runtime.resolve_effective_package(request(package_id="shop"))
        assert plain.package.output_contracts is not None
        (own,) = plain.package.output_contracts
        contract = BAD_HASH.model_copy(update={"content_hash": None})
        typed = await runtime.resolve_effective_package(request(package_id="shop", output_contract=contract))
        assert typed.package.output_contracts == (contract, own)
        assert typed.fingerprint != plain.fingerprint
        newer = own.model_copy(update={"max_repair_attempts": 0})
        same = await runtime.resolve_effective_package(request(package_id="shop", output_contract=newer))
        assert same.package.output_contracts == (newer,), "one contract for each schema"

    play(story())


def test_a_run_must_fulfil_the_contract_of_its_request_and_not_that_of_its_package() -> None:
    async def story() -> None:
        agent = shop(model_of("1", '"words"'), output={"title": "Own", "type": "string"})
        async with AgentRuntime.in_memory([agent]) as runtime:
            asked = await runtime.start_run(agent, "go", output={"title": "Asked", "type": "integer"})
            assert (await asked.wait()).structured_output == 1
            assert (await (await runtime.start_run(agent, "go")).wait()).structured_output == "words"

    play(story())


class Broken:
    """A resolver that is wrong."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def resolve(self, package_id: str) -> RuntimePackage:
        if isinstance(self._answer, Exception):
            raise self._answer
        return cast(RuntimePackage, self._answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (KeyError("a secret"), "the package resolver failed (KeyError)"),
        (None, "expected a RuntimePackage, found NoneType"),
    ],
    ids=["raises", "none"],
)
def test_a_resolver_that_gives_no_package_is_an_invalid_package(answer: object, message: str) -> None:
    async def story() -> None:
        builder = AgentRuntime.builder().package_resolver(Broken(answer)).default_package_id("shop")
        with pytest.raises(Rejected) as caught:
            await builder.build().resolve_effective_package(request())
        error = caught.value
        assert (error.kind, error.retry) == PACKAGE
        assert error.message == message
        assert error.causal_ids.run_id == "r1"
        assert error.__context__ is None

    play(story())


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"hooks": (HookSpec(hook_id="guard", point="before_tool_call", right=HookRight.VETO),)},
            "hook guard: failure fail_open is not allowed",
        ),
        (
            {"output_sinks": (OutputSinkSpec(sink_id="box", dedupe_policy="never"),)},
            "output sink box: dedupe_policy must be one of",
        ),
    ],
    ids=["hook", "sink"],
)
def test_an_invalid_hook_or_sink_of_a_package_refuses_the_start(
    part: dict[str, object], message: str
) -> None:
    async def story() -> None:
        store = CountingStore()
        builder = AgentRuntime.builder().journal(store).event_bus(Feed(store, SystemClock())).content(store)
        builder.policy(allow_start).provider("scripted", model_of()).tool_executors([look, mail])
        builder.default_package(package_of().model_copy(update=part))
        error = await refused(builder.build(), request())
        assert (error.kind, error.retry) == PACKAGE
        assert message in error.message
        assert error.causal_ids.run_id == "r1"
        assert store.writes == []

    play(story())


def test_a_package_of_the_request_comes_before_the_default_one() -> None:
    async def story() -> None:
        runtime = built({"default"}, CountingStore())
        found = await runtime.resolve_effective_package(request(package_id="shop"))
        assert found.package.package_id == "shop"

    play(story())


@pytest.mark.parametrize("is_named", [True, False])
def test_an_agent_without_a_message_is_refused_for_its_message(is_named: bool) -> None:
    async def story() -> None:
        agent = shop()
        async with AgentRuntime.in_memory([agent]) as runtime:
            words = "the message must be a string or a list of parts, found NoneType"
            with pytest.raises(Rejected, match=words):
                await runtime.start_run(cast("Any", "shop" if is_named else agent))

    play(story())


@pytest.mark.parametrize("output", ["", "\x00", "\ud800", "int", b"int"])
def test_a_text_is_no_output_and_is_never_evaluated(output: object) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop()]) as runtime:
            with pytest.raises(Rejected, match="output must be a model"):
                await runtime.start_run("shop", "go", output=cast("Any", output))

    play(story())


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ([{"type": "text", "text": None}], "message.0"),
        ([{"type": "text", "text": "x"}, {"type": "file", "data": "x", "mediaType": 7}], "message.1"),
        ([{"type": "text", "text": "x"}, {"type": "image"}], "message.1"),
    ],
)
def test_a_wrong_part_of_a_message_is_named(message: list[object], place: str) -> None:
    async def story() -> None:
        async with AgentRuntime.in_memory([shop()]) as runtime:
            with pytest.raises(Rejected, match=f"start_run: {place} is not valid"):
                await runtime.start_run("shop", cast("Any", message))

    play(story())


@pytest.mark.parametrize(
    "place",
    [
        "data:image/png;base64,iVBORw0KGgo",
        "data:image/png;base64,!!!!",
        "blob:http://x/1",
        "file:///etc/x",
        "",
    ],
)
def test_unreadable_message_parts_are_refused_by_start_and_steer(place: str) -> None:
    parts = (TextPart(text="See:"), ImagePart(image=place))
    file = (FilePart(data=place, media_type="application/pdf"),)

    async def story() -> None:
        async with AgentRuntime.in_memory([shop()]) as runtime:
            with pytest.raises(Rejected, match=r"message\.1 is not valid: it"):
                await runtime.start_run("shop", parts)
            await (await runtime.start_run("shop", "Hi.", session_id="s")).wait()
            with pytest.raises(Rejected, match=r"message\.0 is not valid: it"):
                await runtime.steer("shop", file, session_id="s")
            good = (ImagePart(image="data:image/png;base64,aGk="), ImagePart(image=f"sha256:{'0' * 64}"))
            await (await runtime.start_run("shop", good, session_id="s")).wait()

    play(story())

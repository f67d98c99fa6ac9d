"""Hooks, event hooks and dynamic parts in steps: the same as in a runtime, over sessions of plain data."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from tests.runtime.runtime_rig import STORY_S_MAX, play
from tests.steps.steps_rig import Stage, add, guarded, inside, new_session

from windlass import Agent, AgentRuntime
from windlass.adapters.journals.memory import MemoryStore
from windlass.agent.dynamic import Dynamic, DynamicContext, dynamic
from windlass.agent.hooks import EventHook, Hook, HookPoint, hook, on_event
from windlass.agent.skills import Skill
from windlass.errors import Rejected
from windlass.limits import HOOKS_PER_AGENT_MAX, RESOLVERS_PER_AGENT_MAX
from windlass.ports.host import Change, HookCall, Veto
from windlass.steps import Grammar, StepResult, ToolLoopHarnessConfig, create_tool_loop_harness
from windlass.testing import Answer, ScriptedModel, by_history, call, say
from windlass.tools import Tool, ToolContext, tool
from windlass_harness.redact import Redactor
from windlass_protocol import Event, JsonObject, JsonValue, ModelReference, RunMode, StepInput
from windlass_protocol.generated.values import ResolverScopeValue as Scope

SECRET = "correct-horse-battery"
PATIENT_MS = 30_000
ADD = call("add", {"a": 1, "b": 2})
LOOSE: Any = ToolLoopHarnessConfig
"""For values that a type checker would refuse."""


def stage_of(
    script: Sequence[Answer], *, is_split: bool = False, **options: Any
) -> tuple[Stage, ScriptedModel]:
    """A stage, and its model; if split, each step is taken in another process."""
    model = ScriptedModel(by_history([*script]))
    stage = Stage(keeps=lambda _: not is_split)
    return stage.harness(lambda: model, **options), model


def results(stage: Stage) -> list[JsonValue]:
    return [inside(data, "result", "output") for data in stage.data("action.result")]


def systems(model: ScriptedModel) -> list[str]:
    """The system prompt of each request."""
    return [one.messages[0].content for one in model.requests]


def offered(model: ScriptedModel) -> list[list[str]]:
    """The names of the tools of each request, without those of the stage."""
    names = [[str(one["name"]) for one in request.tools or ()] for request in model.requests]
    return [[one for one in row if one not in ("add", "guarded", "agent", "ask_question")] for row in names]


# hooks


@hook("before_tool_call", right="veto", timeout_ms=PATIENT_MS)
def at_most_ten(seen: HookCall) -> Veto | None:
    sum_of = [one for one in (seen.arguments or {}).values() if isinstance(one, int)]
    return Veto("At most 10.") if sum(sum_of) > 10 else None


@hook("after_tool_call", right="mutate", timeout_ms=PATIENT_MS)
async def doubled(seen: HookCall) -> Change | None:
    return (
        None if seen.error is not None else Change(result={"sum": 2 * cast(int, inside(seen.result, "sum"))})
    )


@pytest.mark.parametrize("is_split", [False, True])
def test_hooks_veto_and_change_the_calls_of_a_step(is_split: bool) -> None:
    script = [call("add", {"a": 9, "b": 9}), ADD, say("done")]
    stage, model = stage_of(script, is_split=is_split, hooks=[at_most_ten, doubled])
    play(stage.send("Go."))
    assert results(stage) == [None, {"sum": 6}]
    assert inside(stage.data("action.result")[0], "error", "message") == "At most 10."
    done = [(data["hookId"], data["vetoed"], data["changed"]) for data in stage.data("hook.completed")]
    assert done == [
        ("at_most_ten", True, False),
        ("at_most_ten", False, False),
        ("doubled", False, True),
    ]
    assert model.requests[-1].messages[-1].content == '{"sum":6}'


@pytest.mark.parametrize("is_split", [False, True])
def test_a_hook_of_a_turn_is_called_once_although_the_turn_has_several_steps(is_split: bool) -> None:
    points: list[str] = []

    def at(point: HookPoint) -> Hook:
        def note(seen: HookCall) -> None:
            points.append(seen.point)

        return hook(point, hook_id=point, timeout_ms=PATIENT_MS)(note)

    names = (
        "run_starting",
        "before_model_call",
        "after_model_call",
        "before_run_complete",
        "after_run_terminal",
    )
    stage, _ = stage_of([ADD, say("done")], is_split=is_split, hooks=[at(name) for name in names])
    play(stage.send("Go."))
    assert points == [
        "run_starting",
        *["before_model_call", "after_model_call"] * 2,
        "before_run_complete",
        "after_run_terminal",
    ]


def test_a_hook_vetoes_the_start_of_a_turn_and_the_next_turn_may_start() -> None:
    @hook("run_starting", right="veto", timeout_ms=PATIENT_MS)
    def once(seen: HookCall) -> Veto | None:
        return Veto("Not now.") if seen.run_id.endswith("/0") else None

    stage, _ = stage_of([say("done")], hooks=[once])
    play(stage.send("Go."))
    assert "step.started" not in stage.types
    assert "Not now." in str(stage.data("turn.failed")[0]["message"])
    play(stage.send("Go on."))
    assert stage.types[-1] == "session.waiting"
    assert "message.completed" in stage.types


async def more_tools(context: DynamicContext) -> Tool[..., object]:
    @tool(mode="read")
    async def more() -> JsonObject:
        """Add more."""
        return {"sum": 1}

    return cast(Tool[..., object], more)


async def welcome(context: DynamicContext) -> str:
    return f"You help with {context.input}."


def collected(events: list[Event]) -> EventHook:
    """An event hook that collects all events."""

    @on_event("*", hook_id="collected", timeout_ms=PATIENT_MS)
    async def collect(event: Event) -> None:
        events.append(event)

    return collect


def parts() -> dict[str, Any]:
    """A hook at points of a call and of a turn, and dynamic parts of each scope."""
    points = (
        "run_starting",
        "before_tool_call",
        "after_model_call",
        "before_run_complete",
        "after_run_terminal",
    )

    async def heeded(seen: HookCall) -> None: ...

    return {
        "hooks": [doubled, *(hook(one, hook_id=one, timeout_ms=PATIENT_MS)(heeded) for one in points)],
        "dynamic_instructions": dynamic(welcome, at="session"),
        "dynamic_tools": [dynamic(more_tools, at="turn", name="turn")],
    }


@pytest.mark.parametrize("is_split", [False, True])
def test_hooks_and_dynamic_parts_leave_the_same_records_in_steps_and_in_a_runtime(is_split: bool) -> None:
    script = [ADD, call("more", {}), say("done")]
    given = parts()
    stage, _ = stage_of(script, is_split=is_split, content=MemoryStore(), tools={"add": add}, **given)
    play(stage.send("Go."))
    agent = Agent(
        "agent",
        model=ScriptedModel(by_history(script)),
        instructions=given["dynamic_instructions"],
        tools=[add, *given["dynamic_tools"]],
        hooks=[*given["hooks"], collected(events := [])],
    )

    async def story() -> None:
        async with AgentRuntime.in_memory([agent]) as runtime:
            await (await runtime.start_run(agent, "Go.", session_id="s1")).wait(timeout=STORY_S_MAX)

    def told(events: Sequence[Event]) -> list[tuple[str, object]]:
        shown = [event for event in events if not event.type.endswith(".appended")]
        return [(one.type, one.data.get("hookId") or one.data.get("resolver")) for one in shown]

    play(story())
    in_runtime = told(events)
    assert told(stage.events) == in_runtime
    assert ("agent.resolved", "turn") in in_runtime
    assert ("hook.completed", "after_run_terminal") in in_runtime


def test_the_older_grammar_shows_nothing_of_hooks_and_dynamic_parts() -> None:
    script = [ADD, say("done")]
    stage, _ = stage_of(script, grammar=Grammar.TURN_PER_INPUT, content=MemoryStore(), **parts())
    plain, _ = stage_of(script, grammar=Grammar.TURN_PER_INPUT)
    for one in (stage, plain):
        play(one.send("Go."))
    assert stage.types == plain.types


# event hooks


@pytest.mark.parametrize("grammar", [*Grammar])
def test_event_hooks_get_each_event_after_handle_event_with_its_deltas(grammar: Grammar) -> None:
    calls: list[tuple[str, Event]] = []
    stage = Stage()

    @on_event("*", timeout_ms=PATIENT_MS)
    async def everything(event: Event) -> None:
        calls.append(("hook", event))

    @on_event("turn.completed", "message.appended", timeout_ms=PATIENT_MS)
    def some(event: Event) -> None:
        calls.append(("some", event))

    def handle(event: Event, messages: object) -> None:
        calls.append(("handle", event))

    stage.harness(
        ScriptedModel([ADD, say("All done.")]), hooks=[some, everything], handle_event=handle, grammar=grammar
    )
    play(stage.send("Go."))
    expected: list[tuple[str, Event]] = []
    for event in [event for who, event in calls if who == "handle"]:
        expected.append(("handle", event))
        if event.type in ("turn.completed", "message.appended"):
            expected.append(("some", event))
        expected.append(("hook", event))
    assert calls == expected
    types = [event.type for who, event in calls if who == "some"]
    assert types[0] == "message.appended"
    assert types[-1] == "turn.completed"


def test_event_hooks_are_called_without_handle_event_and_get_no_secret() -> None:
    seen: list[Event] = []

    @on_event("*", timeout_ms=PATIENT_MS)
    async def collect(event: Event) -> None:
        seen.append(event)
        event.data.clear()

    stage = Stage()
    stage.harness(
        ScriptedModel([say(f"It is {SECRET}.")]),
        hooks=[collect, _told(told := [])],
        handle_event=None,
        redactor=Redactor([SECRET]),
    )
    play(stage.send(f"I say {SECRET}."))
    assert [event.type for event in seen][-1] == "session.waiting"
    assert len(told) == len(seen)
    assert SECRET not in "".join(told)
    assert "[redacted" in "".join(told)


def _told(told: list[str]) -> EventHook:
    @on_event("*", hook_id="told", timeout_ms=PATIENT_MS)
    def tell(event: Event) -> None:
        told.append(event.model_dump_json())

    return tell


def test_an_event_hook_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    @on_event("*", timeout_ms=1)
    async def hang(event: Event) -> None:
        if event.type == "turn.started":
            await asyncio.Event().wait()
        raise ValueError("no luck")

    stage, _ = stage_of([ADD, say("done")], hooks=[hang])
    with caplog.at_level("WARNING", "windlass.failures"):
        play(stage.send("Go."))
    plain, _ = stage_of([ADD, say("done")])
    play(plain.send("Go."))
    assert stage.types == plain.types
    assert "event hook hang failed at turn.started, session s1: it did not answer within 1 ms" in caplog.text
    assert "no luck" in caplog.text


# dynamic parts


class Counted:
    """Resolvers that give another value with each call."""

    def __init__(self) -> None:
        self.calls = 0

    def words(self, context: DynamicContext) -> str:
        self.calls += 1
        return f"telling {self.calls}"

    def tool(self, context: DynamicContext) -> Tool[..., object]:
        self.calls += 1

        @tool(mode="read", name=f"given_{context.step_index}" if context.step_index else "given")
        async def given(ctx: ToolContext) -> str:
            """Give."""
            return f"given in {ctx.session_id}"

        return cast(Tool[..., object], given)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize(
    ("scope", "told"), [("session", [1, 1, 1, 1]), ("turn", [1, 1, 2, 2]), ("step", [1, 2, 3, 4])]
)
def test_instructions_hold_for_the_session_the_turn_or_the_step(
    scope: Scope, told: list[int], is_split: bool
) -> None:
    counted = Counted()
    stage, model = stage_of(
        [ADD, say("one"), ADD, say("two")],
        is_split=is_split,
        dynamic_instructions=dynamic(counted.words, at=scope),
        content=MemoryStore(),
    )
    play(stage.send("Go."))
    play(stage.send("Again."))
    assert systems(model) == [f"telling {number}\n\nYou help." for number in told]
    assert counted.calls == max(told)
    assert len(stage.data("agent.resolved")) == max(told)


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("scope", ["session", "turn", "step"])
def test_tools_that_a_function_gives_are_offered_and_called(scope: Scope, is_split: bool) -> None:
    stage, model = stage_of(
        [call("given", {}), say("one"), call("given", {}), say("two")],
        is_split=is_split,
        dynamic_tools=[dynamic(lambda _: Counted().tool(cast(Any, _Place())), at=scope, name="more")],
        content=MemoryStore(),
    )
    play(stage.send("Go."))
    play(stage.send("Again."))
    assert results(stage) == ["given in s1", "given in s1"]
    assert offered(model) == [["given"]] * 4
    resolved, *later = stage.data("agent.resolved")
    assert (resolved["resolver"], resolved["scope"], resolved["names"]) == ("more", scope, ["given"])
    assert len(later) == (0 if scope == "session" else 1)


class _Place:
    step_index = None


def test_tools_of_a_step_are_gone_at_the_next() -> None:
    stage, model = stage_of(
        [call("given", {}), call("given", {}), say("done")],
        is_split=True,
        dynamic_tools=[dynamic(Counted().tool, at="step", name="more")],
        content=MemoryStore(),
    )
    play(stage.send("Go."))
    assert offered(model) == [["given"], ["given_1"], ["given_2"]]
    assert [data["status"] for data in stage.data("action.result")] == ["completed", "failed"]


@pytest.mark.parametrize("is_split", [False, True])
def test_a_tool_that_changed_between_two_steps_of_its_turn_keeps_its_definition_and_refuses_calls(
    is_split: bool,
) -> None:
    words = iter(("First.", "Second.", "Third."))

    def give(context: DynamicContext) -> Tool[..., object]:
        async def given() -> str:
            return "given"

        return tool(given, mode="read", description=next(words))

    stage, model = stage_of(
        [ADD, call("given", {}), say("done")],
        is_split=is_split,
        dynamic_tools=[dynamic(give, at="turn")],
        content=MemoryStore(),
    )
    play(stage.send("Go."))
    told = [
        one["description"] for request in model.requests for one in request.tools if one["name"] == "given"
    ]
    assert told == ["First."] * 3
    assert "has changed since" in str(inside(stage.data("action.result")[-1], "error", "message"))


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("scope", ["session", "turn", "step"])
def test_an_approval_of_a_dynamic_tool_holds_for_the_tool_that_was_shown(
    scope: Scope, is_split: bool
) -> None:
    made: list[str] = []

    def pay_of(description: str) -> Dynamic:
        async def pay(cents: int) -> str:
            made.append(f"{description} {cents}")
            return "paid"

        given = tool(pay, mode="safe_write", approval="once", description=description)
        return dynamic(lambda _: given, at=scope, name="paying")

    script = [call("pay", {"cents": 5}), say("one"), call("pay", {"cents": 6}), say("two")]
    content = MemoryStore()
    stage, _ = stage_of(script, is_split=is_split, dynamic_tools=[pay_of("Pays.")], content=content)
    play(stage.send("Pay."))
    assert made == []
    play(stage.answer("approve_session"))
    assert made == ["Pays. 5"]
    play(stage.send("Again."))
    assert made == ["Pays. 5", "Pays. 6"]
    assert len(stage.data("input.requested")) == 1
    # Another tool of the same name: the consent was not to it.
    other, _ = stage_of(
        [*script, call("pay", {"cents": 7}), say("three")],
        is_split=is_split,
        dynamic_tools=[pay_of("Pays twice.")],
        content=content,
    )
    other.session = stage.session
    play(other.send("Once more."))
    assert "Pays twice. 7" not in made
    if scope != "session":
        assert len(other.requests) == 1


def test_skills_that_a_function_gives_are_listed_and_loaded() -> None:
    skill = Skill("pay", "About paying.", body="Do pay.")
    stage, model = stage_of(
        [call("load_skill", {"skill": "pay"}), say("done")],
        is_split=True,
        dynamic_skills=[dynamic(lambda _: skill, name="skills")],
        content=MemoryStore(),
    )
    play(stage.send("Go."))
    (output,) = results(stage)
    assert inside(output, "instructions") == "Do pay."
    assert systems(model)[0].startswith("You help.")
    assert "pay: About paying." in systems(model)[0]
    assert offered(model)[0] == ["load_skill"]


def test_a_step_that_is_repeated_after_a_crash_is_the_same() -> None:
    """The events of the second attempt are those of the first, and so is the session after it."""
    store, ids = MemoryStore(), list[str]()

    def give(context: DynamicContext) -> Tool[..., object]:
        async def given(ctx: ToolContext) -> str:
            ids.append(ctx.idempotency_key)
            return f"given in {context.session_id}"

        return tool(given, mode="read", description="Gives.")

    options: dict[str, Any] = {
        "hooks": [at_most_ten],
        "dynamic_instructions": dynamic(
            lambda context: f"Answer {context.input}", name="words", at="session"
        ),
        "dynamic_tools": [dynamic(give, at="step")],
        "content": store,
    }

    async def step(attempt: int, stage: Stage) -> StepResult:
        stage.harness(
            lambda: ScriptedModel(by_history([call("given", {}), say("done")])), attempt=attempt, **options
        )
        assert stage.step is not None
        return await stage.step(new_session(), StepInput(message="Go."))

    first, second = Stage(), Stage()
    one, two = play(step(1, first)), play(step(2, second))
    assert one.session == two.session
    assert [(event.type, event.data) for event in first.events] == [
        (event.type, event.data) for event in second.events
    ]
    assert callable(one.next)
    assert callable(two.next)
    assert ids[0] == ids[1]


def test_a_resolver_that_fails_ends_the_turn_and_the_next_turn_calls_it_again() -> None:
    answers = iter((ValueError(SECRET), "You help well."))

    def give(context: DynamicContext) -> str:
        answer = next(answers)
        if isinstance(answer, ValueError):
            raise answer
        return answer

    stage, model = stage_of([say("done")], dynamic_instructions=dynamic(give), content=MemoryStore())
    play(stage.send("Go."))
    assert "resolver give failed (ValueError)" in str(stage.data("turn.failed")[0]["message"])
    play(stage.send("Again."))
    assert systems(model) == ["You help well.\n\nYou help."]


# wrong configurations


def words(context: DynamicContext) -> str:
    return "Hello."


def heed(event: Event) -> None: ...


MANY_HOOKS = [on_event("*", hook_id=f"h{number}")(heed) for number in range(HOOKS_PER_AGENT_MAX + 1)]
MANY_PARTS = [dynamic(words, name=f"d{number}") for number in range(RESOLVERS_PER_AGENT_MAX + 1)]
STORE = MemoryStore()
SLIPS: list[tuple[dict[str, object], str]] = [
    ({"hooks": [print]}, "hooks must be functions with @hook or @on_event; number 0 is builtin_function"),
    ({"hooks": MANY_HOOKS[:1] * 2}, "hooks: duplicate name h0"),
    ({"hooks": MANY_HOOKS}, "hooks: found 65, limit 64"),
    ({"dynamic_instructions": dynamic(words)}, "dynamic parts need a content store"),
    (
        {"tools": {"words": dynamic(words)}},
        "'words' must be a function with @tool, a KeyedTool or an AgentTool",
    ),
    ({"tools": {"words": dynamic(words)}}, "found Dynamic; dynamic parts are given in dynamic_tools"),
    (
        {"dynamic_tools": [add], "content": STORE},
        "dynamic tools must be made with dynamic(function), found Tool",
    ),
    (
        {"dynamic_instructions": "Hello.", "content": STORE},
        "dynamic instructions must be made with dynamic(function)",
    ),
    ({"dynamic_skills": MANY_PARTS[:1] * 2, "content": STORE}, "resolvers: duplicate name d0"),
    ({"dynamic_tools": MANY_PARTS, "content": STORE}, "resolvers: found 33, limit 32"),
]


def config_of(**parts: object) -> ToolLoopHarnessConfig:
    def resolve(reference: ModelReference) -> ScriptedModel:
        return ScriptedModel([])

    given: JsonObject = {}
    return LOOSE(
        **{"mode": RunMode.TASK, "tools": given, "resolve_model": resolve, "clock": Stage().clock, **parts},
        random=lambda: 0.5,
    )


@pytest.mark.parametrize(("parts", "told"), SLIPS, ids=[told[:30] for _, told in SLIPS])
def test_a_configuration_that_cannot_be_used_is_refused(parts: dict[str, object], told: str) -> None:
    with pytest.raises(Rejected) as caught:
        create_tool_loop_harness(config_of(**parts))
    assert told in caught.value.message


def test_a_tool_must_not_have_the_name_of_the_tool_that_loads_skills() -> None:
    @tool(mode="read")
    async def load_skill() -> str:
        """Load."""
        return ""

    tools = {"load_skill": load_skill, "guarded": guarded}
    create_tool_loop_harness(config_of(tools=tools))
    skills = [dynamic(words, name="skills")]
    with pytest.raises(Rejected, match="the steps have a load_skill of their own"):
        create_tool_loop_harness(config_of(tools=tools, dynamic_skills=skills, content=STORE))

"""Approval rules: when people are asked, session grants, and calls that no grant covers."""

import asyncio
from pathlib import Path
from typing import cast

import pytest
from tests.security.bank import DONE, Bank, asked, codes, ended, pay, play, results

from windlass import Agent, AgentRuntime, PolicySet, Rejected, Rule, tool
from windlass.agent.policy import RulesPolicy
from windlass.ports.host import ToolPolicy
from windlass.testing import ScriptedModel, by_history, call, say
from windlass.tools import ToolOptions
from windlass_harness.policy import CallFacts
from windlass_protocol import (
    AllowDecision,
    AskDecision,
    DenyDecision,
    InputRequest,
    JsonObject,
    JsonValue,
    PolicyDecision,
    PolicyKind,
    PolicyRef,
)


def options_of(request: InputRequest) -> list[str]:
    return [option.id for option in request.options or ()]


# grants for the session


@pytest.mark.promise("A1")
def test_a_grant_holds_for_its_tool_in_its_session_and_survives_a_restart(tmp_path: Path) -> None:
    bank, mails = Bank(), list[str]()

    @tool(mode="external")
    async def mail(to: str) -> str:
        """Write a mail."""
        mails.append(to)
        return "sent"

    script = [
        pay(1, call_id="c1"),
        pay(2, call_id="c2"),
        DONE,
        pay(3, call_id="c3"),
        call("mail", {"to": "x"}, call_id="c4"),
        DONE,
    ]

    async def story() -> None:
        agent = bank.agent(script, more=[mail])
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve_session")
            assert await ended(handle) == "completed"
            assert [one["cents"] for one in bank.paid] == [1, 2]
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            again = await runtime.start_run(agent, "go", run_id="r2", session_id="s")
            (request,) = await asked(again)
            assert request.prompt.startswith("Run mail?"), "another tool"
            assert [one["cents"] for one in bank.paid] == [1, 2, 3]
            await again.answer(request.request_id, "deny")
            assert await ended(again) == "completed"
            other = await runtime.start_run(agent, "go", run_id="r3", session_id="other")
            (request,) = await asked(other)
            assert len(bank.paid) == 3, "another session"

    play(story())
    assert mails == []


@pytest.mark.promise("A1")
def test_a_grant_does_not_hold_for_a_tool_of_another_agent(tmp_path: Path) -> None:
    ours, theirs = Bank(), Bank()

    async def story() -> None:
        one = ours.agent([pay(1), DONE], name="one")
        two = theirs.agent([pay(1), DONE, pay(2), DONE], name="two")
        async with AgentRuntime.open(tmp_path / "a.db", agents=[one, two]) as runtime:
            handle = await runtime.start_run(one, "go", run_id="r1", session_id="s")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve_session")
            assert await ended(handle) == "completed"
            handle = await runtime.start_run(two, "go", run_id="r2", session_id="s")
            (request,) = await asked(handle)
            assert theirs.paid == []

    play(story())
    assert len(ours.paid) == 1


@pytest.mark.promise("A1")
def test_a_grant_ends_with_the_rules_it_was_given_under(tmp_path: Path) -> None:
    bank = Bank()
    script = [pay(1), DONE, pay(2), DONE]

    async def story() -> None:
        agent = bank.agent(script)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve_session")
            assert await ended(handle) == "completed"
        agent = bank.agent(script, policy=PolicySet((Rule("mail", "deny", tools=("mail",)),)))
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r2", session_id="s")
            await asked(handle)

    play(story())
    assert len(bank.paid) == 1


def shell_agent(ran: list[str], *commands: str, is_shell: bool = True, **more: str) -> Agent:
    async def run(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ok"

    made = tool(run, **cast(ToolOptions, {"mode": "local", **more})).with_options(is_shell=is_shell)
    script = [call("run", {"command": command}, call_id=f"c{at}") for at, command in enumerate(commands)]
    return Agent("sh", model=ScriptedModel(by_history([*script, DONE])), tools=[made])


@pytest.mark.promise("A1")
@pytest.mark.parametrize("approval", ["policy", "once", "never"])
def test_a_grant_for_a_shell_tool_covers_the_exact_command_in_its_session(
    approval: str, tmp_path: Path
) -> None:
    ran = list[str]()
    near = ("touch a ", "touch  a", "touch b", "touch a; touch b", "touch a #", "touch\ta")
    commands = ("touch a", "touch a", *near, "touch a")

    async def story() -> None:
        agent = shell_agent(ran, *commands, approval=approval)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            (request,) = await asked(handle)
            labels = {option.id: option.label for option in request.options or ()}
            assert labels["approve_session"] == "Approve this exact command of run in this session"
            await handle.answer(request.request_id, "approve_session")
            for times, _ in enumerate(near, start=2):
                (request,) = await asked(handle, times)
                await handle.answer(request.request_id, "deny")
            assert await ended(handle) == "completed"
            assert ran == ["touch a"] * 3
        agent = shell_agent(ran, *commands, "", "touch a", approval=approval)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r2", session_id="s")
            assert await ended(handle) == "completed", "the grant survives a restart"
            other = await runtime.start_run(agent, "go", run_id="r3", session_id="other")
            await asked(other)

    play(story())
    assert ran == ["touch a"] * 4


@pytest.mark.promise("A1")
def test_a_grant_for_a_shell_tool_covers_the_same_arguments_alone() -> None:
    ran = list[str]()

    @tool(mode="local")
    async def run(command: str, folder: str = ".") -> str:
        """Run a command."""
        ran.append(f"{folder}: {command}")
        return "ok"

    calls: list[JsonObject] = [
        {"command": "make"},
        {"command": "make", "folder": "other"},
        {"command": "make"},
    ]
    script = [call("run", one, call_id=f"c{at}") for at, one in enumerate(calls)]

    async def story() -> None:
        agent = Agent(
            "sh",
            model=ScriptedModel(by_history([*script, DONE])),
            tools=[run.with_options(is_shell=True, approval_key=lambda arguments: "same")],
        )
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve_session")
            (request,) = await asked(handle, 2)
            await handle.answer(request.request_id, "deny")
            assert await ended(handle) == "completed"

    play(story())
    assert ran == [".: make", ".: make"]


@pytest.mark.promise("A1")
@pytest.mark.parametrize(("command", "approval"), [("rm -rf /", "policy"), ("touch a", "always")])
def test_no_grant_is_offered_or_taken_for_a_dangerous_command_or_one_that_always_asks(
    command: str, approval: str
) -> None:
    ran = list[str]()

    async def story() -> None:
        agent = shell_agent(ran, command, approval=approval)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            assert options_of(request) == ["approve", "deny"]
            with pytest.raises(Rejected, match="unknown option"):
                await handle.answer(request.request_id, "approve_session")
            await handle.answer(request.request_id, "deny")
            assert await ended(handle) == "completed"

    play(story())
    assert ran == []


@pytest.mark.promise("A1")
def test_a_grant_for_a_tool_that_became_a_shell_tool_covers_no_command(tmp_path: Path) -> None:
    ran = list[str]()
    commands = ("ls", "", "touch x", "rm -rf /", "")

    async def story() -> None:
        agent = shell_agent(ran, "ls", is_shell=False)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1", session_id="s")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve_session")
            assert await ended(handle) == "completed"
        agent = shell_agent(ran, *commands)
        async with AgentRuntime.open(tmp_path / "a.db", agents=[agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r2", session_id="s")
            for times in (1, 2):
                (request,) = await asked(handle, times)
                await handle.answer(request.request_id, "deny")

    play(story())
    assert ran == ["ls"]


def test_a_grant_is_offered_only_where_it_would_change_something() -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([pay(), DONE], policy=PolicySet((Rule("ask", "ask"),)))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            assert options_of(request) == ["approve", "deny"]

    play(story())


# rules of tools


def _over_100(arguments: JsonObject) -> bool:
    cents = arguments["cents"]
    return isinstance(cents, int) and cents > 100


def _broken(arguments: JsonObject) -> bool:
    raise RuntimeError


def _nonsense(arguments: JsonObject) -> str:
    return "nonsense"


def _never(arguments: JsonObject) -> str:
    return "never"


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("approval", "mode", "is_asked"),
    [
        ("always", "read", [True, True]),
        ("once", "read", [True, True]),
        ("never", "external", [False, False]),
        ("policy", "external", [True, True]),
        ("policy", "safe_write", [False, False]),
        (_over_100, "safe_write", [False, True]),
        (_over_100, "external", [True, True]),
        (_broken, "read", [True, True]),
        (_nonsense, "read", [True, True]),
        (_never, "external", [False, False]),
    ],
)
def test_a_tool_asks_as_its_author_says(approval: object, mode: str, is_asked: list[bool]) -> None:
    bank, found = Bank(), list[bool]()

    async def story() -> None:
        agent = bank.agent([pay(1, call_id="c1"), pay(101, call_id="c2"), DONE], approval=approval, mode=mode)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            async for event in handle.events():
                if event.type == "run.waiting":
                    (request,) = await handle.open_requests()
                    await handle.answer(request.request_id, "approve")
            assert await ended(handle) == "completed"
            prompts = "".join(
                [str(event.data) async for event in handle.events() if event.type == "input.requested"]
            )
            found.extend(f"'callId': '{name}'" in prompts for name in ("c1", "c2"))

    play(story())
    assert found == is_asked
    assert [one["cents"] for one in bank.paid] == [1, 101]


@pytest.mark.promise("A1")
def test_once_asks_until_a_person_grants_the_session() -> None:
    bank = Bank()

    async def story() -> None:
        script = [pay(1, call_id="c1"), pay(2, call_id="c2"), pay(3, call_id="c3"), DONE]
        agent = bank.agent(script, approval="once", mode="read")
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve")
            (request,) = await asked(handle, 2)
            assert options_of(request) == ["approve", "approve_session", "deny"]
            await handle.answer(request.request_id, "approve_session")
            assert await ended(handle) == "completed"

    play(story())
    assert [one["cents"] for one in bank.paid] == [1, 2, 3]


@pytest.mark.promise("A1")
@pytest.mark.parametrize(
    ("mode", "approval", "has_grant"),
    [("external", "policy", True), ("destructive", "policy", False), ("destructive", "once", True)],
)
def test_a_session_grant_names_its_scope_and_is_not_offered_for_destructive_calls(
    mode: str, approval: str, has_grant: bool
) -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([pay(), DONE], approval=approval, mode=mode)
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            labels = {option.id: option.label for option in request.options or ()}
            assert labels.pop("approve_session", None) == (
                "Approve every call of pay in this session" if has_grant else None
            )
            assert labels == {"approve": "Approve", "deny": "Deny"}
            if not has_grant:
                with pytest.raises(Rejected, match="unknown option"):
                    await handle.answer(request.request_id, "approve_session")
            await handle.answer(request.request_id, "deny")
            assert await ended(handle) == "completed"

    play(story())
    assert bank.paid == []


@pytest.mark.promise("S2")
def test_approval_never_does_not_override_a_rule_that_asks() -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([pay(), DONE], approval="never", policy=PolicySet((Rule("ask", "ask"),)))
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "deny")
            assert await ended(handle) == "completed"

    play(story())
    assert bank.paid == []


# policies of the host


class HostPolicy:
    """A policy with scripted answers and without a version."""

    version = "h1"

    def __init__(self, answer: object, *, after: object = None) -> None:
        self.answer = answer
        self.after_answer = after
        self.seen: list[JsonValue] = []

    def before(self, call: CallFacts, *, is_attended: bool) -> PolicyDecision:
        if isinstance(self.answer, Exception):
            raise self.answer
        return cast(PolicyDecision, self.answer)

    def after(self, call: CallFacts, output: JsonValue) -> PolicyDecision:
        self.seen.append(output)
        if isinstance(self.after_answer, Exception):
            raise self.after_answer
        return cast(PolicyDecision, self.after_answer or ALLOW)


_REFS = (PolicyRef(kind=PolicyKind.HOST, id="host"),)
ALLOW = AllowDecision(code="ok", reason="ok", policy_refs=_REFS)
ASK = AskDecision(code="host.ask", reason="The host asks.", policy_refs=_REFS)


@pytest.mark.promise("A1")
@pytest.mark.parametrize("refs", [_REFS, (PolicyRef(kind=PolicyKind.HOST, id="host", version="other"),)])
def test_consent_under_a_policy_of_the_host_is_asked_for_once(refs: tuple[PolicyRef, ...]) -> None:
    bank, policy = Bank(), HostPolicy(ASK.model_copy(update={"policy_refs": refs}))

    async def story() -> None:
        agent = bank.agent([pay(), DONE])
        async with AgentRuntime.in_memory([agent], tool_policy=policy) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            assert options_of(request) == ["approve", "deny"], "a grant would change nothing"
            await handle.answer(request.request_id, "approve")
            assert await ended(handle) == "completed"

    play(story())
    assert len(bank.paid) == 1


@pytest.mark.promise("S2")
@pytest.mark.parametrize("answer", [None, "allow", True, RuntimeError("no"), AllowDecision])
def test_a_policy_without_a_decision_denies(answer: object) -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([pay(), DONE])
        async with AgentRuntime.in_memory([agent], tool_policy=HostPolicy(answer)) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["policy.failed"]

    play(story())
    assert bank.paid == []


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("after", "code"),
    [
        (DenyDecision(code="host.private", reason="Not for the model.", policy_refs=_REFS), "host.private"),
        (RuntimeError("no"), "policy.failed"),
        ("allow", "policy.failed"),
    ],
)
def test_a_result_that_the_policy_does_not_let_through_is_withheld_from_the_model(
    after: object, code: str
) -> None:
    bank, policy = Bank(), HostPolicy(ALLOW, after=after)

    async def story() -> None:
        agent = bank.agent([pay(7), DONE])
        async with AgentRuntime.in_memory([agent], tool_policy=policy) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert await ended(handle) == "completed"
            assert await codes(handle) == [code]
            (data,) = await results(handle)
            assert cast(JsonObject, data["result"])["output"] is None

    play(story())
    assert len(bank.paid) == len(policy.seen) == 1, "it was made, and the policy has seen its result"


# unattended


@pytest.mark.promise("S2")
@pytest.mark.parametrize(
    ("approval", "policy", "code"),
    [
        ("policy", None, "policy.unattended"),
        ("always", None, "policy.unattended"),
        ("once", None, "policy.unattended"),
        ("policy", RulesPolicy(PolicySet((Rule("a", "ask"),))), "policy.unattended"),
        ("policy", HostPolicy(ASK), "policy.unattended"),
        ("never", HostPolicy(ASK), "policy.unattended"),
        ("never", RulesPolicy(PolicySet((Rule("a", "ask"),))), "policy.unattended"),
        ("never", None, None),
    ],
)
def test_a_call_that_needs_approval_is_denied_in_an_unattended_runtime(
    approval: str, policy: ToolPolicy | None, code: str | None
) -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([pay(), DONE], approval=approval)
        runtime = (
            AgentRuntime.in_memory([agent], is_attended=False)
            if policy is None
            else AgentRuntime.in_memory([agent], is_attended=False, tool_policy=policy)
        )
        async with runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert await ended(handle) == "completed"
            assert await codes(handle) == [code]
            assert await handle.open_requests() == ()

    play(story())
    assert len(bank.paid) == (code is None)


@pytest.mark.promise("S2")
@pytest.mark.parametrize("command", ["rm -rf /", "touch x"])
def test_an_unattended_shell_runs_nothing_that_is_more_than_a_read(command: str) -> None:
    ran = list[str]()

    async def story() -> None:
        agent = shell_agent(ran, command, approval="never")
        async with AgentRuntime.in_memory([agent], is_attended=False) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["policy.unattended"]

    play(story())
    assert ran == []


# tools that the agent was not given


NEAR = [
    "Pay",
    "PAY",
    "pay ",
    " pay",
    "pay\u200b",
    "рay",
    "ｐay",
    "pay()",
    "functions.pay",
    "pay\n",
    "pay_",
    "__call__",
    "",
    "refund",
    "*",
]


@pytest.mark.promise("S2")
@pytest.mark.parametrize("name", NEAR)
def test_a_tool_that_the_agent_was_not_given_is_refused_and_no_other_is_taken_for_it(name: str) -> None:
    bank, other = Bank(), Bank()

    async def refund(cents: int) -> str:
        """Pay back; only the other agent may."""
        other.paid.append({"cents": cents})
        return "done"

    async def story() -> None:
        agent = bank.agent([call(name, {"cents": 5}, call_id="c1"), say("ok")], mode="read", approval="never")
        rich = other.agent([DONE], name="rich", more=[tool(refund, mode="read", approval="never")])
        async with AgentRuntime.in_memory([agent, rich]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["unknown_tool"]
            (result,) = await results(handle)
            assert result["status"] == "failed"

    play(story())
    assert bank.paid == other.paid == []


@pytest.mark.promise("S2")
def test_a_model_that_keeps_asking_for_tools_that_are_not_there_is_stopped() -> None:
    bank = Bank()

    async def story() -> str:
        model = ScriptedModel(lambda _: call("refund", {}))
        agent = bank.agent(model)
        async with AgentRuntime.in_memory([agent]) as runtime:
            result = await (await runtime.start_run(agent, "go")).wait(timeout=300)
            assert len(model.requests) < 10
            assert result.error is not None
            return result.error.message

    assert "cannot be made" in asyncio.run(story())

"""Approval rules of tools: always, once, never and by key mean the same in steps and in a runtime."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest
from tests.steps.steps_rig import play, staged

from windlass import Agent, AgentRuntime, tool
from windlass.errors import Rejected
from windlass.testing import ScriptedModel, call, say
from windlass.tools import Tool, ToolOptions
from windlass_protocol import JsonObject

PAYS = [call("pay", {"to": to}, call_id=f"p{at}") for at, to in enumerate(("ann", "ann", "bob", "ann"))]


class Given(ToolOptions, total=False):
    """Options of the tool, with its key."""

    approval_key: Callable[[JsonObject], str]


def pay_with(options: Given, made: list[JsonObject]) -> Tool[..., object]:
    async def pay(to: str) -> str:
        """Pay."""
        made.append({"to": to})
        return "paid"

    given: Given = {"mode": "safe_write", **options}
    key = given.pop("approval_key", None)
    paying = tool(**cast(ToolOptions, given))(pay)
    return paying if key is None else paying.with_options(approval_key=key)


def in_steps(options: Given, pick: str) -> tuple[list[int], list[list[str]]]:
    made: list[JsonObject] = []
    stage = staged(*PAYS, say("Done."), tools={"pay": pay_with(options, made)})
    play(stage.send("Pay."), stage)
    counts: list[int] = []
    labels: list[list[str]] = []
    while stage.requests:
        counts.append(len(made))
        options_of = stage.requests[0].options or ()
        labels.append([option.label for option in options_of])
        ids = [option.id for option in options_of]
        play(stage.answer(pick if pick in ids else "approve"), stage)
    assert len(made) == len(PAYS)
    return counts, labels


def in_a_runtime(options: Given, pick: str) -> tuple[list[int], list[list[str]]]:
    made: list[JsonObject] = []
    counts: list[int] = []
    labels: list[list[str]] = []

    async def main() -> None:
        model = ScriptedModel([*PAYS, say("Done.")])
        agent = Agent("clerk", model=model, tools=[pay_with(options, made)])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "Pay.")
            async for event in handle.events():
                if event.type == "run.waiting":
                    (request,) = await handle.open_requests()
                    counts.append(len(made))
                    labels.append([option.label for option in request.options or ()])
                    ids = [option.id for option in request.options or ()]
                    await handle.answer(request.request_id, pick if pick in ids else "approve")

    asyncio.run(main())
    assert len(made) == len(PAYS)
    return counts, labels


def by_person(arguments: JsonObject) -> str:
    return str(arguments["to"])


ONE, ALL = "Approve", "Approve every call of pay in this session"
KEYED = "Approve every call of pay with the same key in this session"


@pytest.mark.parametrize("drive", [in_steps, in_a_runtime])
@pytest.mark.parametrize(
    ("options", "pick", "asked_after", "labels"),
    [
        (Given(approval="always"), "approve_session", [0, 1, 2, 3], [ONE, "Deny"]),
        (Given(approval="once"), "approve_session", [0], [ONE, ALL, "Deny"]),
        (Given(approval="once"), "approve", [0, 1, 2, 3], [ONE, ALL, "Deny"]),
        (
            Given(approval="once", approval_key=by_person),
            "approve_session",
            [0, 2],
            [ONE, KEYED, "Deny"],
        ),
        (Given(approval="never"), "approve", [], []),
    ],
)
def test_a_rule_asks_for_the_same_calls_in_both_drivers(
    drive: Callable[[Given, str], tuple[list[int], list[list[str]]]],
    options: Given,
    pick: str,
    asked_after: list[int],
    labels: list[str],
) -> None:
    counts, shown = drive(options, pick)
    assert counts == asked_after
    assert all(one == labels for one in shown)


def test_a_key_that_is_no_function_is_refused() -> None:
    with pytest.raises(Rejected, match="approval_key must be a function of the arguments"):
        pay_with(Given(approval_key="to"), [])  # pyright: ignore[reportArgumentType]

"""A server with the desk of a shop and a day of its work, for pictures of the inspector."""

import argparse
import asyncio
import sys
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from math import cos, tau
from pathlib import Path
from typing import Final

from windlass import Agent, Approval, LLMMessage, LLMUsage, Rejected, tool
from windlass.parts import SystemClock
from windlass.ports.machine import Machine
from windlass.testing import Answer, ScriptedModel, fail, say
from windlass.testing.models import ScriptedCall
from windlass.tools.context import ToolContext
from windlass.tools.question import ask_question
from windlass_harness.budget import Budget
from windlass_protocol import ErrorKind, JsonObject, JsonValue, RetryClass
from windlass_server import Settings
from windlass_server.app import serve
from windlass_server.auth import LOCAL
from windlass_server.tenants import Tenants

SPEED: Final = 40
"""How much faster the time of the past goes."""
HOURS: Final = 46
RUNS: Final = 100
CUT_OFF: Final = frozenset({1042, 771})
"""Orders with a first refund that never returns."""


class PastClock:
    """The clock of days that are over: only what sleeps moves it, so that a slow machine ends no lease."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._elapsed_s = 0.0

    def monotonic(self) -> float:
        """Return the seconds since the beginning."""
        return self._elapsed_s

    def now(self) -> datetime:
        """Return the time of the days that are over."""
        return self._start + timedelta(seconds=self._elapsed_s)

    async def sleep(self, seconds: float) -> None:
        """Wait, fast."""
        until_s = self._elapsed_s + seconds
        await asyncio.sleep(seconds / SPEED)
        self._elapsed_s = max(self._elapsed_s, until_s)

    def set_forward(self, to: datetime) -> None:
        """Go on at a later moment."""
        self._elapsed_s = max(self._elapsed_s, (to - self._start).total_seconds())


class Clocks:
    """The clock that models and tools wait by."""

    current: PastClock | SystemClock = SystemClock()


async def _wait(seconds: float) -> None:
    await Clocks.current.sleep(seconds)


class _Now:
    def now(self) -> datetime:
        return Clocks.current.now()

    def monotonic(self) -> float:
        return Clocks.current.monotonic()

    async def sleep(self, seconds: float) -> None:
        await _wait(seconds)


@tool(mode="read")
async def find_order(order: int) -> JsonValue:
    """Find an order by its number."""
    await _wait(0.04)
    if order == 998:
        raise Rejected(
            f"there is no order {order}", kind=ErrorKind.TOOL_FAILURE, retry=RetryClass.NOT_RETRYABLE
        )
    return {
        "order": order,
        "customer": "Ines Berg",
        "item": "Desk lamp, brass",
        "cents": 4_990,
        "state": "delivered",
    }


@tool(mode="external", effect="once")
async def refund(order: int, cents: int, reason: str, ctx: ToolContext) -> JsonValue:
    """Refund an order at the payment provider."""
    if order in CUT_OFF and ctx.attempt == 1:
        await asyncio.get_running_loop().create_future()
    await _wait(0.4)
    return {"receipt": f"re_{order}", "state": "settled"}


@tool(mode="external", effect="idempotent")
async def cancel_subscription(user: int) -> str:
    """Cancel the subscription of a user."""
    await _wait(0.2)
    return f"the subscription of user {user} ends this month"


@tool(mode="read")
async def ship_status(parcel: str) -> str:
    """Ask the carrier for a parcel."""
    await _wait(0.9)
    if parcel.endswith(("3", "7")):
        raise Rejected(
            "the carrier answered 503", kind=ErrorKind.TOOL_FAILURE, retry=RetryClass.NOT_RETRYABLE
        )
    return f"parcel {parcel} left Oslo this morning"


@tool(mode="read")
async def search_policies(words: str) -> str:
    """Search the policies of the shop."""
    await _wait(0.3)
    return f"§ 4 {words}: broken goods are refunded within 30 days"


@tool(mode="read")
async def translate(text: str, language: str) -> str:
    """Translate a text."""
    await _wait(0.2)
    return text


def _since_user(messages: Sequence[LLMMessage]) -> tuple[str, Sequence[LLMMessage]]:
    said = max(at for at, message in enumerate(messages) if message.role == "user")
    return messages[said].content, messages[said + 1 :]


def _used(tokens: int, out: int, cached: int = 0, thought: int = 0) -> LLMUsage:
    return LLMUsage(
        input_tokens=tokens,
        output_tokens=out,
        cache_read_tokens=cached,
        reasoning_tokens=thought,
        cost_micros=tokens * 2 - cached + out * 9,
    )


def _ask(name: str, arguments: JsonObject, text: str = "", *, usage: LLMUsage, delay_s: float) -> Answer:
    return Answer(text, calls=(ScriptedCall(name, arguments, None),), usage=usage, delay_s=delay_s)


def _number(text: str) -> int:
    digits = "".join(sign if sign.isdigit() else " " for sign in text).split()
    return int(digits[0]) if digits else 0


def _desk(messages: Sequence[LLMMessage]) -> Answer:
    wish, after = _since_user(messages)
    done = [message for message in after if message.role == "tool"]
    number = _number(wish)
    pace = 0.5 + (len(wish) % 7) / 10
    first = _used(6_100, 96, 5_600)
    if "refund" in wish.lower():
        cause = wish.partition(", ")[2]
        given: JsonObject = {"order": number, "cents": 4_990, "reason": f"{cause.capitalize()}."}
        script = [
            _ask("find_order", {"order": number}, f"I look for order {number}.", usage=first, delay_s=pace),
            replace(
                _ask(
                    "refund",
                    given,
                    f"Order {number} is a lamp for 49.90. I will refund it.",
                    usage=_used(6_900, 210, 6_000, 120),
                    delay_s=pace,
                ),
                reasoning=f"The customer says that {cause}. The order is 6 days old: policy § 4 applies.",
            ),
            _ask(
                "writer",
                {"message": f"Tell the customer of order {number} about the refund."},
                usage=_used(5_900, 40, 5_000),
                delay_s=pace,
            ),
            replace(
                say(
                    f"Refunded 49.90 for order {number}, receipt re_{number}. The customer has a letter.",
                    usage=_used(6_400, 60, 5_900),
                ),
                delay_s=pace,
            ),
        ]
        return script[min(len(done), 3)]
    if "parcel" in wish.lower():
        parcel = wish.rstrip("?.").split()[-1]
        if not done:
            return _ask("ship_status", {"parcel": parcel}, usage=_used(4_000, 60, 3_600), delay_s=pace)
        words = (
            "The carrier does not answer; I will write to you."
            if "503" in done[-1].content
            else "It left Oslo this morning and arrives tomorrow."
        )
        return replace(say(words, usage=_used(4_200, 40, 4_000)), delay_s=pace)
    if "subscription" in wish.lower():
        if not done:
            return _ask(
                "cancel_subscription", {"user": 42}, "I can cancel it.", usage=_used(3_000, 50), delay_s=pace
            )
        return replace(say("Your subscription ends this month.", usage=_used(3_100, 30)), delay_s=pace)
    if "address" in wish.lower():
        if number == 998 and not done:
            return _ask("find_order", {"order": 998}, usage=_used(3_900, 40), delay_s=pace)
        if number == 998:
            return fail(
                Rejected("there is no order 998", kind=ErrorKind.TOOL_FAILURE, retry=RetryClass.NOT_RETRYABLE)
            )
        options: JsonValue = [
            {"id": "home", "label": "Storgata 1, Oslo"},
            {"id": "work", "label": "Kaia 7, Bergen"},
        ]
        asked: JsonObject = {
            "prompt": "Which of the two addresses?",
            "options": options,
            "allow_freeform": True,
        }
        return (
            _ask("ask_question", asked, usage=_used(2_000, 40), delay_s=pace)
            if not done
            else say(f"Changed: {done[-1].content}")
        )
    if "press" in wish.lower():
        return _ask(
            "search_policies", {"words": f"press {len(done)}"}, usage=_used(20_000, 300), delay_s=pace
        )
    return replace(say("Yes, from 12 to 18.", usage=_used(2_200, 30, 2_000)), delay_s=pace)


PROGRAM: Final = """import asyncio
found = await asyncio.gather(search_policies('refund'), search_policies('letters'), search_policies('goods'))
await translate(found[0], 'nb')"""


def _writer(messages: Sequence[LLMMessage]) -> Answer:
    _, after = _since_user(messages)
    if not any(message.role == "tool" for message in after):
        return _ask("run_code", {"code": PROGRAM}, usage=_used(2_000, 160, 1_500), delay_s=0.8)
    return replace(
        say("Dear Ines Berg, 49.90 are on their way to you.", usage=_used(3_900, 240, 3_000)), delay_s=1.1
    )


def _model(script: Callable[[Sequence[LLMMessage]], Answer], name: str) -> ScriptedModel:
    return ScriptedModel(script, clock=_Now(), route_id="gateway", model_id=name)


def agents(*, new: bool) -> list[Agent]:
    """Return the agents of the shop, before and after a change of the instructions."""
    writer = Agent(
        "writer",
        model=_model(_writer, "claude-sonnet"),
        instructions="Write short letters.",
        tools=[search_policies, translate],
        code_mode=True,
        description="Writes letters to customers.",
    )
    tone = "Be short and name the receipt." if new else "Be kind."
    desk = Agent(
        "desk",
        model=_model(_desk, "gpt-5"),
        instructions=f"You are the desk of a shop. {tone} Refund broken goods within 30 days.",
        description="Answers customers, refunds broken goods.",
        tools=[find_order, refund, cancel_subscription, ship_status, search_policies, ask_question],
        subagents=[writer],
        budget=Budget(max_steps=6),
    )
    return [desk, writer]


WISHES: Final = (
    "Where is my parcel 77-12?",
    "Refund order {}, the lamp arrived broken",
    "Is the store open on Sunday?",
    "Where is my parcel 20-{}?",
    "Is the store open on Sunday?",
    "Change the address of order 998",
    "Where is my parcel 31-{}?",
    "Draft an answer to the press",
    "Where is my parcel 18-{}?",
    "Refund order {}, the wrong colour came",
)


def moments(begin: datetime) -> list[datetime]:
    """Return when each run starts: more is asked by day than by night."""
    minutes = [begin + timedelta(minutes=at) for at in range(round((HOURS - 0.2) * 60))]
    asked = list(accumulate(1.1 - cos((one.hour + one.minute / 60 - 2) * tau / 24) for one in minutes))
    return [minutes[bisect(asked, asked[-1] * at / RUNS)] for at in range(RUNS)]


async def fill(folder: Path) -> None:
    """Write the work of two days.

    Each run has a runtime of its own: the hours between two runs would end the lease of one that lasts, and
    its runs would count as taken over after a crash.
    """
    begin = datetime.now(UTC) - timedelta(hours=HOURS)
    clock = Clocks.current = PastClock(begin)
    machine = Machine(clock=clock, new_id=_ids(), random=lambda: 0.5)
    for at, moment in enumerate(moments(begin)):
        clock.set_forward(moment)
        tenants = Tenants(folder, agents(new=at >= RUNS // 2), machine=machine, durability="process")
        async with tenants.use(LOCAL.tenant) as tenant:
            wish = WISHES[at % len(WISHES)].format(1000 + at)
            handle = await tenant.runtime.start_run("desk", wish, owner=LOCAL.user)
            async for request in handle.requests():
                if isinstance(request, Approval):
                    await request.approve(by="ann")
            await handle.wait()
            if at % 6 == 1:
                await tenant.runtime.handle(handle.run_id).feedback(thumb="up")
            if at % len(WISHES) == 5:
                await tenant.runtime.handle(handle.run_id).feedback(thumb="down", tags=["wrong"])
        await tenants.aclose()
    Clocks.current = SystemClock()


def _ids() -> Callable[[], str]:
    count = iter(range(10**9))
    return lambda: f"{next(count):044x}"


def main() -> int:
    """Fill a new folder, then serve it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if not any(options.data.glob("*")):
        asyncio.run(fill(options.data))
    return serve(Settings(port=options.port), Tenants(options.data, agents(new=True)))


if __name__ == "__main__":
    sys.exit(main())

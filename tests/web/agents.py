"""Agents for the tests of the inspector, served by a real server."""

import asyncio
from collections.abc import Sequence
from typing import Final

from windlass import Agent, Rejected, tool
from windlass.demo import agent as demo
from windlass.models.demo import DemoModel
from windlass.ports.model import LLMMessage, LLMUsage
from windlass.testing import Answer, ScriptedModel, by_history, call, fail, say
from windlass.testing.models import ScriptedCall
from windlass.tools import UndoCall
from windlass.tools.question import ask_question
from windlass_protocol import ErrorKind, JsonObject, JsonValue, RetryClass

PACE_S: Final = 0.05
LONG_STEPS: Final = 104
"""With this number of steps and calls a run has more than 10,000 records."""
LONG_CALLS: Final = 32
UNANSWERED: Final = 771
HOSTILE: Final = """# Heading <script>window.hacked = 'script'</script>

<img src="http://evil.example/pixel.png" onerror="window.hacked = 'onerror'">
<svg onload="window.hacked = 'svg'"><script>window.hacked = 'svg script'</script></svg>
<iframe src="http://evil.example/frame"></iframe><style>@import url(http://evil.example/style.css)</style>

![pixel](http://evil.example/markdown.png) ![data](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+)

[run me](javascript:window.hacked='link') [data](data:text/html,<script>window.hacked='data'</script>)
[odd](java\tscript:window.hacked='tab') <javascript:window.hacked='auto'> [good](https://example.com/)

```html
<script>window.hacked = 'code'</script>
```

| a | b |
|---|---|
| <img src=x onerror=window.hacked='table'> | [x](vbscript:window.hacked=1) |
"""


def _since_user(messages: Sequence[LLMMessage]) -> Sequence[LLMMessage]:
    said = max(at for at, message in enumerate(messages) if message.role == "user")
    return messages[said + 1 :]


@tool(mode="read")
async def show(what: str) -> str:
    """Show it. <img src=x onerror="window.hacked='description'">"""
    return f"<svg onload=\"window.hacked='tool'\"></svg>{HOSTILE}"


@tool(mode="external", effect="idempotent")
async def post(text: str) -> str:
    """Post a text."""
    return f"posted {text}"


def _hostile(messages: Sequence[LLMMessage]) -> Answer:
    done = sum(message.role == "tool" for message in _since_user(messages))
    if done == 0:
        return call("show", {"what": HOSTILE})
    return call("post", {"text": HOSTILE}) if done == 1 else say(HOSTILE)


@tool(mode="read")
async def shaky(city: str) -> str:
    """Look something up, and fail."""
    raise RuntimeError(f"no station answers in {city}")


def _shaky(messages: Sequence[LLMMessage]) -> Answer:
    usage = LLMUsage(input_tokens=1_200, output_tokens=80, cost_micros=5_400)
    if not any(message.role == "tool" for message in _since_user(messages)):
        return call("shaky", {"city": "Oslo"})
    return say("The station did not answer.", usage=usage)


def _broken(messages: Sequence[LLMMessage]) -> Answer:
    no = Rejected(
        "the model does not want to", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.NOT_RETRYABLE
    )
    return fail(no)


@tool(mode="read")
async def count(number: int) -> int:
    """Count."""
    return number


def _long(messages: Sequence[LLMMessage]) -> Answer:
    done = sum(message.role == "assistant" for message in _since_user(messages))
    if done >= LONG_STEPS:
        return say("I counted.")
    first = done * LONG_CALLS
    return Answer(
        calls=tuple(ScriptedCall("count", {"number": first + at}, None) for at in range(LONG_CALLS))
    )


def _curious(messages: Sequence[LLMMessage]) -> Answer:
    answers = [message.content for message in _since_user(messages) if message.role == "tool"]
    if answers:
        return say(f"You said: {answers[-1]}")
    options: JsonValue = [{"id": "red", "label": "Red"}, {"id": "blue", "label": "Blue"}]
    return call("ask_question", {"prompt": "Which colour?", "options": options, "allow_freeform": True})


_PROGRAM: Final = """
import asyncio
first = await asyncio.gather(count(1), count(2))
await post(f"counted {sum(first)}")
"""
_FLOW: Final = """
import asyncio
await asyncio.gather(coder("Count and post."), shaky("How is Oslo?"))
"""


def _once(name: str, source: str) -> ScriptedModel:
    return ScriptedModel(by_history([call(name, {"code": source}), say("The program is done.")]))


_shaky_agent: Final = Agent("shaky", model=ScriptedModel(_shaky), tools=[shaky])
_coder: Final = Agent("coder", model=_once("run_code", _PROGRAM), tools=[count, post], code_mode=True)


@tool(mode="external", effect="once")
async def refund(order: int, cents: int, reason: str) -> str:
    """Refund an order. The provider of order 771 never answers."""
    if order == UNANSWERED:
        await asyncio.get_running_loop().create_future()
    return f"refunded {cents} of order {order}"


@tool(mode="read")
async def find_order(order: int) -> JsonValue:
    """Find an order."""
    return {"order": order, "cents": 12_900, "state": "sent"}


def _desk(messages: Sequence[LLMMessage]) -> Answer:
    usage = LLMUsage(input_tokens=1_200, output_tokens=80, cost_micros=5_400)
    said = _since_user(messages)
    user = messages[len(messages) - len(said) - 1].content
    order = int("".join(sign for sign in user if sign.isdigit()) or UNANSWERED)
    done = sum(message.role == "tool" for message in said)
    if done == 0:
        wanted = ScriptedCall("find_order", {"order": order}, None)
        return Answer(f"I look for order {order}.", calls=(wanted,), reasoning="Which order?", usage=usage)
    if done == 1:
        given: JsonObject = {"order": order, "cents": 12_900, "reason": "Never arrived.\nTwice."}
        wanted = ScriptedCall("refund", given, None)
        return Answer(f"I found order {order}, 129.00. I will refund it.", calls=(wanted,), usage=usage)
    return say(f"Done: {said[-1].content}", usage=usage)


PROGRAM: Final = "import asyncio\nawait asyncio.gather(find_order(1), find_order(2))\nawait shaky('Oslo')"


def _writer(messages: Sequence[LLMMessage]) -> Answer:
    usage = LLMUsage(input_tokens=2_000, output_tokens=160, cache_read_tokens=1_500, cost_micros=6_000)
    if not any(message.role == "tool" for message in _since_user(messages)):
        return Answer(calls=(ScriptedCall("run_code", {"code": PROGRAM}, None),), usage=usage)
    return say("The letter is written.", usage=usage)


def _lead(messages: Sequence[LLMMessage]) -> Answer:
    usage = LLMUsage(input_tokens=6_100, output_tokens=90, reasoning_tokens=40, cost_micros=11_000)
    done = sum(message.role == "tool" for message in _since_user(messages))
    if done == 0:
        return Answer(calls=(ScriptedCall("find_order", {"order": 1042}, None),), usage=usage)
    if done == 1:
        return Answer(calls=(ScriptedCall("writer", {"message": "Write the letter."}, None),), usage=usage)
    return say("The customer got a letter.", usage=usage)


async def cancel_booking(call: UndoCall) -> str:
    """Cancel a booking."""
    return f"cancelled: {call.result}"


@tool(mode="safe_write", effect="idempotent", undo=cancel_booking)
async def book(city: str) -> str:
    """Book a hotel."""
    return f"booking of {city}"


@tool(mode="safe_write", effect="idempotent")
async def note(text: str) -> str:
    """Take a note."""
    return "noted"


@tool(mode="safe_write", effect="once")
async def charge(cents: int) -> str:
    """Charge a card."""
    return f"charged {cents}"


_FAILED: Final[set[str]] = set()
"""Conversations whose model call behind the payment failed: it fails once."""


def _teller(messages: Sequence[LLMMessage]) -> Answer:
    results = [message.content for message in _since_user(messages) if message.role == "tool"]
    if not results:
        return call("charge", {"cents": 2_500})
    said = str([message.content for message in messages])
    if said not in _FAILED:
        _FAILED.add(said)
        return _broken(messages)
    return say("The card was charged.")


_BOOKED: Final = by_history(
    [
        call("book", {"city": "Oslo"}),
        call("book", {"city": "Rome"}),
        call("note", {"text": "two"}),
        say("Booked."),
    ]
)

writer = Agent(
    "writer",
    model=ScriptedModel(_writer),
    tools=[find_order, shaky],
    code_mode=True,
    description="Writes letters.",
)

agents = [
    demo,
    Agent("paid", model="openai/gpt-5", description="Has no key."),
    Agent("lead", model=ScriptedModel(_lead), tools=[find_order], subagents=[writer]),
    Agent("desk", model=ScriptedModel(_desk), tools=[find_order, refund]),
    Agent("slow", model=DemoModel(pace_s=PACE_S), tools=[count], description="Takes its time."),
    Agent("hostile", model=ScriptedModel(_hostile), tools=[show, post]),
    _shaky_agent,
    _coder,
    Agent("boss", model=_once("run_workflow", _FLOW), subagents=[_coder, _shaky_agent], workflow=True),
    Agent("broken", model=ScriptedModel(_broken)),
    Agent("long", model=ScriptedModel(_long), tools=[count]),
    Agent("booker", model=ScriptedModel(_BOOKED), tools=[book, note]),
    Agent("teller", model=ScriptedModel(_teller), tools=[charge]),
    Agent("curious", model=ScriptedModel(_curious), tools=[ask_question]),
]

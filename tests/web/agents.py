"""Agents for the tests of the inspector, served by a real server."""

from collections.abc import Sequence
from typing import Final

from windlass import Agent, Rejected, tool
from windlass.adapters.models.demo import DemoModel
from windlass.demo import agent as demo
from windlass.ports.model import LLMMessage, LLMUsage
from windlass.testing import Answer, ScriptedModel, by_history, call, fail, say
from windlass.testing.models import Call
from windlass.tools.question import ask_question
from windlass_protocol import ErrorKind, JsonValue, RetryClass

PACE_S: Final = 0.05
LONG_STEPS: Final = 104
"""With this number of steps and calls a run has more than 10,000 records."""
LONG_CALLS: Final = 32
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
    return Answer(calls=tuple(Call("count", {"number": first + at}, None) for at in range(LONG_CALLS)))


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
agents = [
    demo,
    Agent("slow", model=DemoModel(pace_s=PACE_S), tools=[count], description="Takes its time."),
    Agent("hostile", model=ScriptedModel(_hostile), tools=[show, post]),
    _shaky_agent,
    _coder,
    Agent("boss", model=_once("run_workflow", _FLOW), subagents=[_coder, _shaky_agent], workflow=True),
    Agent("broken", model=ScriptedModel(_broken)),
    Agent("long", model=ScriptedModel(_long), tools=[count]),
    Agent("curious", model=ScriptedModel(_curious), tools=[ask_question]),
]

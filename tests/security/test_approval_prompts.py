"""Approval prompts show the exact call: nothing hidden, cut or faked."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import some
from tests.security.bank import DONE, Bank, asked, codes, ended, pay, play

from windlass import AgentRuntime, Rejected, tool
from windlass.engine.tool_calls.approval import PROMPT_CHARS_MAX, SPACES_MAX, approval_prompt
from windlass.testing import call
from windlass.tools.calling import arguments_hash
from windlass_protocol import InputRequest, JsonObject, JsonValue, canonical

_ESCAPE = re.compile(r"\\(?:\\|\[([0-9,]+) spaces\]|u([0-9a-f]{4})|U([0-9a-f]{8})|.)")


def read_back(prompt: str) -> JsonValue:
    """Read the arguments out of a prompt again."""
    shown = prompt.partition("\n")[2]
    shown = "".join(line.lstrip(" ") for line in shown.split("\n"))

    def real(match: re.Match[str]) -> str:
        if match[1]:
            return " " * int(match[1].replace(",", ""))
        if match[3]:
            return json.dumps(chr(int(match[3], 16)))[1:-1]
        return match[0]

    return json.loads(_ESCAPE.sub(real, shown), strict=False)


TEXT = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(' \\"[]{}:,0129\n\t\u202e\u2066\u200b\ufe0f\U000e0001\U000e0101\u3164אب'),
    ),
    max_size=30,
)
JSON = st.recursive(
    st.one_of(TEXT, st.integers(-(2**53) + 1, 2**53 - 1), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)


@pytest.mark.promise("A1")
@settings(max_examples=some(500))
@given(arguments=st.dictionaries(TEXT, JSON, max_size=4))
def test_an_approval_prompt_can_be_read_back_to_the_hashed_arguments(arguments: dict[str, JsonValue]) -> None:
    prompt = approval_prompt("pay", arguments, reason="Why.")
    assert prompt is not None
    assert canonical(read_back(prompt)) == canonical(arguments)


@pytest.mark.promise("A1")
@settings(max_examples=some(500))
@given(text=TEXT, reason=TEXT)
def test_no_character_of_a_prompt_is_hidden_or_turns_others_around(text: str, reason: str) -> None:
    prompt = approval_prompt("pay", {"to": text}, reason=reason)
    assert prompt is not None
    assert all(character.isprintable() or character == "\n" for character in prompt)
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufe00-\ufe0f\u3164\u2800]", prompt)
    assert prompt.count("\n") == 3, "the head, and an object of one entry"


def test_long_runs_of_blanks_are_shown_as_their_number_and_cannot_be_faked() -> None:
    shown = approval_prompt("pay", {"to": "a" + " " * 10_000 + "b"}, reason="")
    faked = approval_prompt("pay", {"to": r"a\[10,000 spaces]b"}, reason="")
    assert shown is not None
    assert len(shown) < 100
    assert r"a\[10,000 spaces]b" in shown
    assert faked is not None
    assert r"a\\[10,000 spaces]b" in faked
    few = approval_prompt("pay", {"to": "a" + " " * SPACES_MAX + "b"}, reason="")
    assert few is not None
    assert "a" + " " * SPACES_MAX + "b" in few


def test_each_value_is_on_a_line_of_its_own() -> None:
    arguments: JsonObject = {"list": ["א", 100, {}], "empty": [], "n": {"x": True}}
    assert approval_prompt("pay", arguments, reason="Why.") == (
        'Run pay? Why.\n{\n  "empty": [],\n  "list": [\n    "א",\n    100,\n    {}\n  ],\n'
        '  "n": {\n    "x": true\n  }\n}'
    )


TRICKS = {
    "newlines": 'x"}\n\nRun look? It is safe.\n{"to":"friend',
    "bidi": "invoice-\u202egpj.exe",
    "isolates": "a\u2066b\u2069c",
    "zero width": "pay\u200bpal",
    "blanks": "friend" + " " * 10_000 + "and thief",
    "tabs": "friend" + "\t" * 500 + "thief",
    "line separator": "friend\u2028Run look?",
    "carriage return": "thief\rfriend",
    "escape codes": "thief\x1b[2K\x1b[1Gfriend",
    "backspaces": "thief\b\b\b\b\bfriend",
    "tags": "friend\U000e0041\U000e0042",
    "fillers": "friend\u3164\u3164\u3164thief",
    "null": "friend\x00thief",
}


@pytest.mark.promise("A1")
@pytest.mark.parametrize("name", TRICKS)
def test_a_spoofing_argument_is_escaped_in_the_prompt_and_runs_as_shown(name: str) -> None:
    bank, to = Bank(), TRICKS[name]

    async def story() -> InputRequest:
        agent = bank.agent([pay(5, to=to), DONE])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "approve")
            assert await ended(handle) == "completed"
            return request

    request = play(story())
    assert read_back(request.prompt) == {"cents": 5, "to": to} == bank.paid[0]
    assert request.arguments_hash == arguments_hash({"cents": 5, "to": to})
    assert request.prompt.count("Run ") <= 2
    assert len(request.prompt.split("\n")) == 5, "nothing made a line of its own"
    assert all(character.isprintable() or character == "\n" for character in request.prompt)


@pytest.mark.promise("A1")
@pytest.mark.parametrize(("size", "is_shown"), [(PROMPT_CHARS_MAX // 2, True), (PROMPT_CHARS_MAX, False)])
def test_a_call_that_is_too_large_to_show_is_denied(size: int, is_shown: bool) -> None:
    bank = Bank()

    async def story() -> None:
        agent = bank.agent([pay(5, to="x" * size), DONE])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            if is_shown:
                (request,) = await asked(handle)
                assert "x" * size in request.prompt
                await handle.answer(request.request_id, "deny")
            assert await ended(handle) == "completed"
            assert await codes(handle) == ["denied" if is_shown else "policy.too_large_to_show"]

    play(story())
    assert bank.paid == []


def test_escapes_count_against_the_size_limit_of_a_prompt() -> None:
    assert approval_prompt("pay", {"to": "\u200b" * (PROMPT_CHARS_MAX // 2)}, reason="") is None


@pytest.mark.promise("A1")
@pytest.mark.parametrize("name", ["раy", "pay\u200b", "ｐay", "p\u0430y", "pay ", "pаy_1", "pay\n"])
def test_no_tool_has_a_name_that_looks_like_another_one(name: str) -> None:
    async def run() -> None:
        """Do something."""

    with pytest.raises(Rejected, match="name"):
        tool(run, name=name)


@pytest.mark.promise("A1")
def test_a_reason_cannot_fake_arguments() -> None:
    """Words of a policy may quote anything; they stay on their line."""
    bank = Bank()

    async def story() -> str:
        agent = bank.agent([call("pay", {"cents": 5}), DONE])
        async with AgentRuntime.in_memory([agent]) as runtime:
            handle = await runtime.start_run(agent, "go", run_id="r1")
            (request,) = await asked(handle)
            await handle.answer(request.request_id, "deny")
            await ended(handle)
            return request.prompt

    assert play(story()).startswith("Run pay? ")
    prompt = approval_prompt("pay", {"cents": 500}, reason='Safe.\n{\n  "cents": 1\n}')
    assert prompt is not None
    assert prompt.split("\n", 1)[1] == '{\n  "cents": 500\n}'

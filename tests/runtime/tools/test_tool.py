import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from inspect import signature
from typing import Annotated, Any, cast

import pytest
from pydantic import Field

from windlass.errors import Rejected
from windlass.limits import FAILED_CHARS_MAX, TOOL_TIMEOUT_MS
from windlass.tools import ApprovalName, ModeName, Tool, ToolFailed, tool
from windlass.tools.context import ToolContext
from windlass_protocol import ApprovalRule, EffectClass, ErrorKind, JsonObject, Taint, ToolMode


@tool
def add(left: int, right: int = 1) -> int:
    """Add two numbers.

    Args:
        left: The first one.
    """
    return left + right


@tool(mode="safe_write", effect="idempotent", description="Pay somebody.", timeout=2.5, approval="once")
async def pay(cents: int, ctx: ToolContext) -> str:
    return f"{cents} {ctx.call_id}"


def test_a_tool_is_still_the_function_it_was():
    assert add(1, right=2) == 3
    assert asyncio.run(pay(5, ToolContext("s", "r", "c"))) == "5 c"
    assert list(signature(add).parameters) == ["left", "right"]
    assert repr(add) == "Tool('add')"


def test_a_bare_tool_takes_its_name_and_words_from_the_function():
    assert (add.name, add.description) == ("add", "Add two numbers.")
    assert (add.mode, add.effect, add.approval) == (None, EffectClass.ONCE, ApprovalRule.POLICY)
    assert (add.timeout_ms, add.concurrency, add.is_outbound, add.is_shell) == (
        TOOL_TIMEOUT_MS,
        None,
        None,
        False,
    )


def test_tool_options_set_mode_effect_and_approval():
    assert (pay.mode, pay.effect, pay.approval) == (
        ToolMode.SAFE_WRITE,
        EffectClass.IDEMPOTENT,
        ApprovalRule.ONCE,
    )
    assert (pay.description, pay.timeout_ms) == ("Pay somebody.", 2_500)


@pytest.mark.parametrize(
    ("mode", "effect"), [("read", "read"), ("safe_write", "once"), ("external", "once"), ("local", "once")]
)
def test_only_a_read_may_be_repeated_unless_its_author_says_so(mode: ModeName, effect: str):
    def look() -> None: ...

    assert tool(look, mode=mode).effect == effect


def test_the_context_is_not_shown_to_the_model():
    assert pay.input_schema["properties"] == {"cents": {"type": "integer"}}
    assert pay.shape.signature.context_name == "ctx"


def test_the_spec_says_everything_that_decides_how_a_tool_is_used():
    def run(command: str) -> None: ...

    made = tool(run, name="shell", mode="local", concurrency=2, timeout=0.007).with_options(
        is_shell=True, is_outbound=True, metadata={"owner": "ops"}
    )
    assert made.spec.model_dump(mode="json", by_alias=True) == {
        "name": "shell",
        "inputSchema": made.input_schema,
        "mode": "local",
        "effect": "once",
        "approval": "policy",
        "timeoutMs": 7,
        "concurrency": 2,
        "isShell": True,
        "isOutbound": True,
        "metadata": {"owner": "ops"},
    }


def test_an_approval_function_is_named_in_the_spec_and_becomes_always_without_it():
    def large(arguments: JsonObject) -> bool:
        return arguments["cents"] == 500

    made = tool(approval=large)(lambda_free())
    assert made.spec.approval == ApprovalRule.ALWAYS
    assert made.spec.metadata is not None
    assert str(made.spec.metadata["approvalFunction"]).endswith("large")


def lambda_free() -> Callable[[int], None]:
    def spend(cents: int) -> None: ...

    return spend


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        (True, "always"),
        (False, "policy"),
        ("never", "never"),
        ("once", "once"),
        ("perhaps", "always"),
        (None, "always"),
        (ZeroDivisionError(), "always"),
    ],
)
def test_an_approval_function_that_fails_or_answers_nonsense_asks(answer: object, rule: str):
    def check(arguments: JsonObject) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert tool(lambda_free(), approval=check).approval_for({"cents": 1}) == rule
    assert pay.approval_for({}) == ApprovalRule.ONCE


class Shop:
    """A shop."""

    def price(self, item: str) -> int:
        """Return a price."""
        return len(item)

    @tool
    @staticmethod
    def name_of(item: str) -> str:
        return item.title()


class Greeter:
    """Greets."""

    async def __call__(self, name: str) -> str:
        return f"hello {name}"


def test_methods_objects_and_partial_functions_can_be_tools():
    price = tool(Shop().price)
    assert (price.name, price.description, price("abc")) == ("price", "Return a price.", 3)
    greet = tool(Greeter(), name="greet")
    assert (greet.description, greet.shape.signature.is_async) == ("Greets.", True)
    assert tool(Greeter()).name == "Greeter"
    half = tool(functools.partial(Shop().price))
    assert (half.name, half.description) == ("price", "Return a price.")
    assert Shop.name_of("pen") == "Pen"


LOOSE_TOOL: Any = tool
"""For arguments that a type checker would refuse."""


def written(text: str) -> Callable[..., object]:
    """Return a function that a type checker would refuse."""
    scope: dict[str, Callable[..., object]] = {}
    exec(text, scope)
    return scope[text.partition("(")[0].removeprefix("def ")]


def yields() -> Iterator[int]:
    yield 1


async def yields_later() -> AsyncIterator[int]:
    yield 1


def many(*values: int) -> None: ...


def named(**values: int) -> None: ...


def placed(value: int, /) -> None: ...


def two(first: ToolContext, second: ToolContext | None) -> None: ...


def with_field(value: int = Field(default=3)) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (yields, "tool yields yields; return the whole result"),
        (yields_later, "yields; return the whole result"),
        (written("def untyped(value): ..."), "tool untyped: value has no type; write value: str"),
        (many, r"\*values: int takes any number of values"),
        (named, r"\*\*values: int takes any name"),
        (placed, "value: int has no name that a call could use"),
        (two, "first and second are both a ToolContext; keep one"),
        (written("def late(value: 'Nobody'): ..."), "the type Nobody is not known where the tool is defined"),
        (with_field, r"the default of value is a Field; write value: Annotated\[type, Field"),
        (Shop.price, r"self has no value yet; make the tool of the bound method: tool\(instance.price\)"),
        (int.__add__, "has no name that a call could use"),
        (print, "takes any number of values"),
        (dict.__dict__["fromkeys"], "has no name that a call could use"),
        (type("Odd", (), {"__call__": cast(Any, dict).update})(), "cannot be read"),
        (Shop, "a tool must be made of a function, found the class Shop"),
        (add, "a tool must be made of a function, found Tool"),
        ("text", "a tool must be made of a function, found str"),
    ],
)
def test_a_function_that_leaves_something_open_is_refused_when_it_is_decorated(
    function: Callable[..., object], words: str
):
    with pytest.raises(Rejected, match=words) as caught:
        LOOSE_TOOL(function)
    assert caught.value.kind == ErrorKind.INVALID_PACKAGE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mode": "reed"}, "mode must be one of read, safe_write"),
        ({"effect": "twice"}, "effect must be one of read, idempotent, once"),
        ({"approval": "perhaps"}, "approval must be one of policy, always, once, never"),
        ({"name": "a b"}, "must be letters, digits, _ and -"),
        ({"name": "-a"}, "must be letters, digits, _ and -"),
        ({"name": 5}, "the name of a tool must be a string, found int"),
        ({"name": "a" * 65}, "too long: 65 characters, limit 64"),
        ({"description": 5}, "the description must be a string, found int"),
        ({"description": "a" * 16_385}, "16,385 characters, limit 16,384"),
        ({"timeout": 0}, "timeout must be a number of seconds from 0.001 to 86,400, found 0"),
        ({"timeout": "5"}, "timeout must be a number of seconds"),
        ({"retries": -1}, "retries must be 0 to 10, found -1"),
        ({"retries": 11, "effect": "read"}, "retries must be 0 to 10, found 11"),
        ({"retries": 1.5}, "retries must be a whole number, found float"),
        ({"retries": 1}, "effect once says that a call is not repeated, and retries that it is"),
        ({"concurrency": 0}, "concurrency must be 1 to 1,024"),
        ({"colour": "red"}, "tool: unknown option colour; it takes name, description, mode"),
        ({"reads": "private"}, r"unknown option reads.* for reads write made.with_options\(reads=…\)"),
    ],
)
def test_an_invalid_tool_option_is_refused(options: dict[str, object], words: str):
    with pytest.raises(Rejected, match=words):
        LOOSE_TOOL(add.function, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"is_outbound": "yes"}, "is_outbound must be True or False, found str"),
        ({"reads": "secrets"}, "reads must be one of untrusted, private, found 'secrets'"),
        ({"reads": ["private", 5]}, "reads must be one of untrusted, private, found 5"),
        ({"reads": 5}, "reads must be untrusted, private or a list of them, found int"),
        ({"is_shell": True}, "must take its command in a parameter named command"),
        ({"metadata": {"x": float("nan")}}, "metadata must be JSON: number not finite"),
        ({"use": "often"}, "use must be one of code, direct, both, found 'often'"),
        ({"approval_key": "to"}, "approval_key must be a function of the arguments, found str"),
        ({"on_compaction": 5}, "on_compaction must be a function, found int"),
        ({"mode": "read"}, "tool: unknown option mode; it takes approval_key, is_outbound"),
    ],
)
def test_an_invalid_option_for_a_kit_is_refused(options: dict[str, Any], words: str):
    with pytest.raises(Rejected, match=words):
        add.with_options(**options)


@pytest.mark.parametrize("approval", ["always", "never"])
def test_a_key_for_approvals_that_are_never_given_for_a_session_is_refused(approval: ApprovalName):
    made = tool(add.function, approval=approval)
    with pytest.raises(Rejected, match=f"approval {approval} is never given for a session"):
        made.with_options(approval_key=lambda arguments: "same")


def test_options_for_a_kit_keep_the_others():
    kept = add.with_options(reads="private").with_options(use="both")
    assert (kept.reads, kept.use, add.reads) == ((Taint.PRIVATE,), "both", ())


def test_names_and_descriptions_fit_up_to_their_limits():
    assert tool(add.function, name="a" * 64, description="b" * 16_384).name == "a" * 64


def test_the_message_of_tool_failed_is_cut_to_its_limit():
    assert len(ToolFailed("a" * 10_000).message) == FAILED_CHARS_MAX
    assert ToolFailed("x", retryable=True).is_retryable


def test_a_description_in_the_annotation_is_closer_than_one_in_the_docstring():
    @tool
    def look(item: Annotated[str, Field(description="mine")], place: str) -> None:
        """Look.

        Args:
            item: not mine
            place: where
        """

    properties = look.input_schema["properties"]
    assert properties == {
        "item": {"type": "string", "description": "mine"},
        "place": {"type": "string", "description": "where"},
    }


def test_two_tools_of_one_function_are_not_equal():
    one, other = tool(add.function), tool(add.function)
    assert one != other
    assert isinstance(one, Tool)


def test_a_schema_is_built_when_it_is_asked_for_and_a_model_by_the_first_call():
    made = tool(add.function)
    assert "schema" not in made.shape.__dict__
    assert made.input_schema is made.input_schema
    assert "_model" not in made.shape.__dict__, "the types are simple"
    assert made.shape.validate(b'{"left": 1}') == {"left": 1}
    assert "_model" in made.shape.__dict__


@pytest.mark.parametrize("mode", ["destructive", "safe_write", "external"])
def test_a_tool_that_says_it_writes_and_only_reads_contradicts_itself(mode: ModeName):
    with pytest.raises(Rejected, match=f"mode {mode} says that it changes something and effect read that"):
        tool(name="wipe", mode=mode, effect="read")(lambda: None)


@pytest.mark.parametrize("mode", ["read", "local"])
def test_a_tool_that_may_only_read_may_say_so(mode: ModeName):
    def see() -> None: ...

    assert tool(see, mode=mode, effect="read").effect == "read"

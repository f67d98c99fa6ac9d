"""Typed output: the context of output validators, and the value that a type makes of recorded JSON."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, field
from functools import lru_cache
from hashlib import sha256
from inspect import signature
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast, final, get_args, get_origin

from pydantic import JsonValue, TypeAdapter
from pydantic_core import PydanticSerializationError, from_json, to_json

from windlass.errors import wrong
from windlass.limits import PACKAGE_BYTES_MAX
from windlass.tools.context import SessionValues
from windlass.tools.deps import ContextDepsT, hints_of
from windlass_protocol import CodecError, CodecLimits, JsonObject, canonical
from windlass_protocol.frozen import frozen, sealed
from windlass_protocol.generated import common

if TYPE_CHECKING:
    from windlass_protocol import OutputContract


@sealed
class OutputContext(Generic[ContextDepsT]):
    """The run whose output a validator checks: its first argument.

    `OutputContext[Deps]` says which dependencies of the agent the validator uses.
    """

    session_id: str
    run_id: str
    _: KW_ONLY
    agent_id: str
    attempt: int = 1
    """Which answer of the run it is: 1 for the first, one more after each repair."""
    deps: ContextDepsT = field(default=cast(ContextDepsT, None), repr=False, compare=False)
    """The dependencies of the run; None without any."""
    owner: str | None = None
    """The owner that the start of the run named."""
    source: "common.SourceRef | None" = None
    """Where the message of the run came from."""
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    """The `metadata` of the start of the run."""
    state: SessionValues = field(default_factory=SessionValues, repr=False, compare=False)
    """The state of the session, read-only."""


_LIMITS: Final = CodecLimits(message_bytes_max=PACKAGE_BYTES_MAX)

D = TypeVar("D")
O = TypeVar("O")  # noqa: E741 - a type variable

OutputValidator = Callable[[OutputContext[D], O], O | Awaitable[O]]
"""Checks an output and returns it, changed or not; it may be async, and otherwise runs in a thread.

A `ValueError` sends its text to the model, which answers again; any other exception fails the run. It is
called again for each answer, and for the same answer after a crash.
"""


def deps_type(validator: Callable[..., object]) -> object:
    """Return the dependencies that a validator needs, `OutputContext[…]`; None if it names none."""
    contexts = [hint for hint in hints_of(validator).values() if get_origin(hint) is OutputContext]
    return get_args(contexts[0])[0] if contexts else None


def takes_context_and_output(validator: Callable[..., object]) -> bool:
    """Return whether a validator can be called with a context and an output; True if it does not say."""
    try:
        parameters = signature(validator)
    except (TypeError, ValueError):  # a builtin
        return True
    try:
        parameters.bind(None, None)
    except TypeError:
        return False
    return True


@frozen
class OutputType:
    """The check of an output beyond its JSON Schema: a type, and functions of the agent."""

    kind: object
    """The type; None if the output stays JSON."""
    contract_hash: str
    """The hash of the schema of the type: other contracts are checked by their schema alone."""
    validators: "tuple[OutputValidator[object, object], ...]" = ()

    def parse(self, value: JsonValue) -> object:
        """Return the value of the type; see `parse_output`."""
        return value if self.kind is None else parse_output(self.kind, value)


@final
class _Key:
    """A type in a cache. Equal ones may read differently: `A | B` equals `B | A`, which tries B first."""

    __slots__ = ("kind",)

    def __init__(self, kind: object) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and other.kind is self.kind

    def __hash__(self) -> int:
        return id(self.kind)


_ADAPTERS_MAX: Final = 512


@lru_cache(_ADAPTERS_MAX)
def _adapter(key: _Key) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", key.kind))


def adapter_of(kind: object) -> TypeAdapter[object]:
    """Return what reads and writes values of a type; those of the types used last are kept."""
    return _adapter(_Key(kind))


def parse_output(kind: object, value: JsonValue) -> object:
    """Return the value that a type makes of JSON, as pydantic reads it.

    Raises:
        ValidationError: the JSON does not fit the type, or a validator of the type refuses it.
    """
    return adapter_of(kind).validate_json(to_json(value))


def dump_output(kind: object, output: object) -> JsonValue:
    """Return an output of a type as JSON.

    Raises:
        ValueError, TypeError: it has no JSON form.
    """
    if kind is None:
        return cast(JsonValue, output)
    # A warning would show the value; the dump is read again, and refused if it does not fit.
    return cast(JsonValue, adapter_of(kind).dump_python(output, mode="json", by_alias=True, warnings=False))


def schema_hash(schema: JsonObject) -> str:
    """Return the digest of a schema: `sha256:` and that of its canonical form.

    Raises:
        Rejected: it is not JSON.
    """
    try:
        return f"sha256:{sha256(canonical(schema, _LIMITS)).hexdigest()}"
    except CodecError as error:
        problem = error.message
    raise wrong(f"the output schema is not JSON: {problem}")


def contract_hash(contract: "OutputContract") -> str:
    """Return the hash of the schema of a contract."""
    return contract.content_hash or schema_hash(contract.json_schema)


def json_of(value: object, what: str) -> JsonValue:
    """Return the JSON form of a value.

    Raises:
        TypeError: it has none.
    """
    try:
        return from_json(to_json(value))
    except PydanticSerializationError as error:
        raise TypeError(f"{what} has no JSON form: {error}") from None

"""Strict JSON codec between bytes and wire types.

Both directions apply the same rules: UTF-8 without a byte order mark, one JSON value, no duplicate
keys, no lone surrogates, no NaN or infinity, no integer beyond 2**53 - 1, and the limits of
`limits.py`. The only exception is `CodecError`, and it carries no payload.
"""

from functools import lru_cache
from json import JSONDecoder
from typing import Final, TypeVar, overload

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from windlass_protocol._wire import TRUSTED, JsonObject
from windlass_protocol.canonical_json import canonical_text
from windlass_protocol.codec_errors import (
    LONE_SURROGATE_TEXT,
    CodecError,
    CodecErrorCode,
    Issue,
    MessagePosition,
    too_large_text,
)
from windlass_protocol.codec_issues import invalid
from windlass_protocol.codec_scan import find_fault, position_of
from windlass_protocol.codec_values import find_unfolding_fault, find_value_fault, fits, is_sendable
from windlass_protocol.generated import events
from windlass_protocol.limits import (
    ADAPTERS_MAX,
    DEFAULT_LIMITS,
    INTEGER_MAX,
    NUMBER_CHARS_MAX,
    CodecLimits,
)

__all__ = [
    "DEFAULT_LIMITS",
    "CodecError",
    "CodecErrorCode",
    "CodecLimits",
    "Issue",
    "JsonObject",
    "JsonValue",
    "MessagePosition",
    "canonical",
    "decode",
    "decode_trusted",
    "encode",
    "encode_trusted",
    "parse",
    "typed_data",
]

T = TypeVar("T")

_BOM: Final = b"\xef\xbb\xbf"
# An integer that is out of range has at least as many digits as the limit.
_MANY_DIGITS: Final = b"0" * len(str(INTEGER_MAX))
_DIGITS_AS_ZEROS: Final = bytes(ord("0") if chr(byte).isdecimal() else ord(" ") for byte in range(256))


def parse(data: bytes | bytearray | memoryview | str, limits: CodecLimits = DEFAULT_LIMITS) -> JsonValue:
    """Parse one strict JSON value.

    Raises:
        CodecError: the message breaks a rule; the first violation in reading order is reported.
    """
    return _read(_raw(data, limits), limits)


@overload
def decode(model: type[T], data: bytes | bytearray | memoryview | str, *, limits: CodecLimits = ...) -> T: ...
@overload
def decode(
    model: TypeAdapter[T], data: bytes | bytearray | memoryview | str, *, limits: CodecLimits = ...
) -> T: ...
def decode(
    model: type[T] | TypeAdapter[T],
    data: bytes | bytearray | memoryview | str,
    *,
    limits: CodecLimits = DEFAULT_LIMITS,
) -> T:
    """Decode one message as a wire type, a union of them, or any type that pydantic supports.

    Type checkers need a `TypeAdapter` for a union; at run time a bare union works too.
    Only wire names are accepted, and no type is coerced to another.

    Raises:
        CodecError: as `parse`, or `invalid` with the issues if the value does not fit the model.
    """
    raw = _raw(data, limits)
    return _validate(model, raw, _read(raw, limits))


def decode_trusted(model: type[T], data: bytes) -> T:
    """Decode bytes that `encode` or `encode_trusted` wrote, with fewer checks.

    Use it only for bytes of the own store with a verified checksum: duplicate keys, limits and the schema of
    event data are not checked again. Decode all other bytes with `decode`.

    Raises:
        CodecError: as `decode`, for the checks that remain.
    """
    try:
        return _adapter(model).validate_json(data, strict=True, context=TRUSTED, by_alias=True, by_name=False)
    except ValidationError:
        pass
    return decode(model, data)


def typed_data(event: "events.Event | events.Record") -> BaseModel | None:
    """Return the data of an event as the model of its type; None if the type is unknown.

    Match it against the classes of this package, which are named after the types: `ActionResultData` is the
    data of `action.result`.

        match typed_data(event):
            case ActionResultData() as data:
                print(data.status)

    Raises:
        CodecError: the data does not fit its type; an event of a runtime or a client always does.
    """
    shape = events.EVENT_DATA.get(event.type)
    return None if shape is None else decode(shape, to_json(event.data))


def encode(value: BaseModel | JsonValue, limits: CodecLimits = DEFAULT_LIMITS) -> bytes:
    """Encode a value as compact UTF-8 JSON that `decode` accepts.

    Absent optional fields stay absent; an explicit null stays where the type allows one. Tuples are
    arrays. A model is validated again as it is written: it may have been built without validation, or
    changed since.

    Raises:
        CodecError: the value is not JSON, breaks a limit, or does not fit its own type.
    """
    plain = _sendable(value, limits)
    try:
        raw = to_json(plain)
    except PydanticSerializationError:
        raw = None
    raw = _check_written(raw, plain, limits)
    if isinstance(value, BaseModel):
        _validate(type(value), raw, plain)
    return raw


def encode_trusted(value: BaseModel, limits: CodecLimits = DEFAULT_LIMITS) -> bytes:
    """Encode a wire type as `encode` does, without validating it again.

    Use it only for a value that its constructor or `decode` validated and that was not changed since;
    `decode` may refuse the bytes of any other value. It costs a seventh of `encode`.

    Raises:
        CodecError: a number, the depth, the size or a string is not allowed on the wire.
    """
    try:
        raw = type(value).__pydantic_serializer__.to_json(value, by_alias=True, warnings=False)
    except ValueError:
        raw = None
    if raw is None:  # raised outside the handler, because its error may quote the value
        return encode(value, limits)
    _check_size(len(raw), limits)
    # Brackets and long runs of digits may be inside strings; the scanner decides.
    is_shallow = raw.count(b"[") + raw.count(b"{") <= limits.depth_max
    if not is_shallow or _MANY_DIGITS in raw.translate(_DIGITS_AS_ZEROS):
        _read(raw, limits)
    return raw


def canonical(value: BaseModel | JsonValue, limits: CodecLimits = DEFAULT_LIMITS) -> bytes:
    """Encode a value as canonical JSON (RFC 8785), for digests and signatures.

    Equal values give equal bytes, independent of the order of keys. RFC 8785 writes a double from
    2**53 up to 1e21 like an integer, which `parse` refuses; no other output is refused. A model is
    not validated again.

    Raises:
        CodecError: the value is not JSON or breaks a limit.
    """
    plain = _sendable(value, limits)
    try:
        raw = canonical_text(plain).encode()
    except UnicodeEncodeError:
        raw = None
    return _check_written(raw, plain, limits)


@lru_cache(maxsize=ADAPTERS_MAX)
def _adapter(model: type[T]) -> TypeAdapter[T]:
    return TypeAdapter(model)


def _validate(model: type[T] | TypeAdapter[T], raw: bytes, value: JsonValue) -> T:
    try:
        adapter = model if isinstance(model, TypeAdapter) else _adapter(model)
        return adapter.validate_json(raw, strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        refusal = invalid(error, value)
    # Raised outside the handler: otherwise the validation error, which holds the input, would stay
    # on the CodecError as its context.
    raise refusal


def _raw(data: bytes | bytearray | memoryview | str, limits: CodecLimits) -> bytes:
    if isinstance(data, str):
        raw = _utf8(data, limits)
    elif not isinstance(data, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance] callers without a type checker
        raise TypeError(
            f"expected bytes or text, found {type(data).__name__}: encode a value before you decode it"
        )
    else:
        _check_size(data.nbytes if isinstance(data, memoryview) else len(data), limits)
        raw = bytes(data)
    if raw.startswith(_BOM):
        raise CodecError(CodecErrorCode.BOM, "byte order mark: expected UTF-8 without one")
    return raw


def _utf8(text: str, limits: CodecLimits) -> bytes:
    # A character takes at least one byte: a text that is far too large is not copied first.
    if len(text) > limits.message_bytes_max:
        raise CodecError(CodecErrorCode.TOO_LARGE, too_large_text(f"at least {len(text):,}", limits))
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        at = error.start
    else:
        _check_size(len(raw), limits)
        return raw
    raise CodecError(CodecErrorCode.LONE_SURROGATE, LONE_SURROGATE_TEXT, position=position_of(text, at))


def _check_size(size: int, limits: CodecLimits) -> None:
    if size > limits.message_bytes_max:
        raise CodecError(CodecErrorCode.TOO_LARGE, too_large_text(f"{size:,}", limits))


def _read(raw: bytes, limits: CodecLimits) -> JsonValue:
    try:
        value: JsonValue = from_json(raw, allow_inf_nan=False)
        # A message that encodes to the same bytes again held no duplicate key, since a dictionary cannot.
        # This check is cheaper than a check of each key in Python. The output of our own encoders passes
        # it; other messages (spaces, needless escapes) are parsed a second time.
        if fits(value, limits) and (to_json(value) == raw or _is_strict(raw)):
            return value
    except ValueError:
        pass
    raise _refusal(raw, limits)


def _is_strict(raw: bytes) -> bool:
    """Return whether valid JSON has no duplicate keys and no overlong numbers."""
    try:
        _STRICT.decode(raw.decode())
    except ValueError:
        return False
    return True


def _no_duplicates(pairs: list[tuple[str, None]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key is there twice")


def _not_endless(token: str) -> None:
    if len(token) > NUMBER_CHARS_MAX:
        raise ValueError("a number is too long")


_STRICT: Final = JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_int=_not_endless, parse_float=_not_endless
)


def _refusal(raw: bytes, limits: CodecLimits) -> CodecError:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        good = raw[: error.start].decode()
        position = position_of(good, len(good))
        message = f"not UTF-8: expected UTF-8, found another byte at offset {position.offset:,}"
        return CodecError(CodecErrorCode.NOT_UTF8, message, position=position)
    return find_fault(text, limits) or CodecError(CodecErrorCode.NOT_JSON, "not JSON: not understood")


def _sendable(value: BaseModel | JsonValue, limits: CodecLimits) -> JsonValue:
    plain = _dump(value, limits) if isinstance(value, BaseModel) else value
    if not is_sendable(plain, limits):
        raise _value_refusal(plain, limits)
    return plain


def _dump(model: BaseModel, limits: CodecLimits) -> JsonValue:
    if fault := find_unfolding_fault(model, limits):
        raise fault
    # Not in JSON mode, which would turn infinities into nulls and numbers into keys silently.
    try:
        return model.model_dump(by_alias=True, warnings=False)
    except ValueError:
        message = f"invalid {type(model).__name__}: it cannot be written"
    raise CodecError(CodecErrorCode.INVALID, message)


def _check_written(raw: bytes | None, plain: JsonValue, limits: CodecLimits) -> bytes:
    """Return the encoded bytes if the value can be encoded and keeps the limits."""
    if raw is None:
        raise _value_refusal(plain, limits)
    _check_size(len(raw), limits)
    return raw


def _value_refusal(plain: JsonValue, limits: CodecLimits) -> CodecError:
    return find_value_fault(plain, limits) or CodecError(CodecErrorCode.INVALID, "invalid value: not JSON")

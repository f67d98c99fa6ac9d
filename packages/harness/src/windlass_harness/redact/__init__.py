"""Redaction: masks secrets in every value that is written or shown.

Three filters, applied together: the names of keys and the shapes of values (`redact.shapes`), and the exact
values that the host application registered, in every common encoding (`redact.text`).
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import InitVar, field
from enum import Enum
from itertools import count
from math import inf
from typing import Final, Protocol, cast, runtime_checkable

from windlass_harness.redact.shapes import has_seed, is_login_text, is_secret_key, mask_shapes
from windlass_harness.redact.text import MASK as MASK
from windlass_harness.redact.text import MaskedStream, RegisteredSecrets
from windlass_protocol.frozen import mutable, sealed

TOO_DEEP: Final = "[truncated:depth]"
CYCLE: Final = "[cycle]"

SECRET_CHARS_MIN: Final = 8  # a shorter one would occur in ordinary text by chance
SECRET_CHARS_MAX: Final = 16_384
SECRETS_MAX: Final = 1_000
DEPTH_MAX: Final = 64

_Sequence = list[object] | tuple[object, ...]
_Container = Mapping[object, object] | _Sequence
_Plain = dict[object, object] | _Sequence


@sealed
class Redactor:
    """Masks secrets by key name, by shape, and the registered ones by value.

    Create one from the secrets and keep it: registering is expensive, masking is not. A registered secret is
    masked as plain text, escaped for JSON and HTML, URL-encoded, in hex, and in base64 at any offset and
    across lines; a secret of digits also in a number.

    Raises:
        ValueError: a secret is not a string, too short or too long, or there are too many of them; or
            `secrets` is itself a string or a mapping.
    """

    secrets: InitVar[Iterable[str]] = ()
    _known: RegisteredSecrets = field(init=False, repr=False)
    _has_known: bool = field(init=False, repr=False)
    _has_digits: bool = field(init=False, repr=False)
    _long_numbers: frozenset[float] = field(init=False, repr=False)
    _plain_keys: set[tuple[object, ...]] = field(init=False, repr=False, compare=False)
    _settled: set[str] = field(init=False, repr=False, compare=False)
    """Texts that masking leaves as they are: without secrets, or masked before.

    A value is masked when it arrives, and is then a part of records; these repeat their ids and names.
    """
    _large: deque[str] = field(init=False, repr=False, compare=False)
    """The large ones of them, the oldest first."""

    def __post_init__(self, secrets: Iterable[str]) -> None:
        registered = _check_secrets(secrets)
        if len(registered) > SECRETS_MAX:
            raise ValueError(f"too many secrets to register: {len(registered)}, limit {SECRETS_MAX}")
        for index, secret in enumerate(registered):
            if not SECRET_CHARS_MIN <= len(secret) <= SECRET_CHARS_MAX:
                raise ValueError(
                    f"secret number {index} has {len(secret)} characters; "
                    f"register secrets of {SECRET_CHARS_MIN} to {SECRET_CHARS_MAX} characters"
                )
        object.__setattr__(self, "_known", RegisteredSecrets(registered))
        object.__setattr__(self, "_has_known", bool(registered))
        object.__setattr__(self, "_has_digits", any(map(_DIGITS.fullmatch, registered)))
        long = frozenset(float(secret) for secret in registered if _LONG_NUMBER.fullmatch(secret))
        object.__setattr__(self, "_long_numbers", long)
        object.__setattr__(self, "_plain_keys", set())
        object.__setattr__(self, "_settled", set())
        object.__setattr__(self, "_large", deque())

    def text(self, text: str) -> str:
        """Mask the secrets in a text; return the same object if there are none."""
        if self.is_settled(text):
            return text
        masked = mask_shapes(self._known.mask(text) if self._has_known else text)
        self.settle(masked)
        return text if masked == text else masked

    def has_registered(self, text: str) -> bool:
        """Return whether a text contains a registered secret, whatever its shape."""
        return self._has_known and self._known.spans(text) != []

    def is_settled(self, text: str) -> bool:
        """Return whether a text was masked or inspected before: masking it again is quick."""
        return type(text) is str and text in self._settled

    def stream(self) -> MaskedStream:
        """Return a masker for one text that arrives in chunks."""
        return MaskedStream(self._known)

    def is_secret_number(self, value: float) -> bool:
        """Return whether the digits of a number contain a registered secret of digits."""
        if not self._has_digits:
            return False
        is_long = abs(value) < _LONG_NUMBER_MAX and float(abs(value)) in self._long_numbers
        return is_long or self._known.spans(_number_text(value)) != []

    def value(self, value: object) -> object:
        """Mask the secrets in a JSON value; return the same object if there are none.

        The value itself is never changed. Under a secret key every string and number is masked, at any depth;
        null, true and false stay. Keys are masked like any text. A value deeper than `DEPTH_MAX`, a cycle,
        and a value that is not JSON become a marker: an unreadable value is not shown. A wire model becomes
        its JSON. In a list, the item after an option with a secret name is masked: ["login", "--password",
        "x"].
        """
        if type(value) is str:
            return self.text(value)
        if self.is_clean(value):
            return value
        return _Walk(self).value(value, 0, _Hide.NOTHING)

    def is_clean(self, value: object, values_max: float = inf, chars_max: float = inf) -> bool:
        """Return quickly whether there is nothing to mask; it is called for every record.

        Only plain JSON of Python's built-in types can be clean; any other type is not inspected, and neither
        is a value of more values, or of more characters in texts that are not settled.
        """
        return self._is_clean(value, self._settled, values_max, chars_max)

    def _is_clean(self, value: object, settled: Set[str], values_max: float, chars_max: float) -> bool:
        """Inspect a value; settled texts are left out."""
        texts: list[str] = []
        level: list[_Plain] = [(value,)]
        plain, has_digits, has_known = self._plain_keys, self._has_digits, False
        values = 1
        for _ in range(DEPTH_MAX):
            below: list[_Plain] = []
            for container in level:
                for item in container.values() if type(container) is dict else container:
                    kind = type(item)
                    if kind is str:
                        text: str = item  # pyright: ignore[reportAssignmentType] - a cast costs a call for each value
                        if text in settled:
                            has_known = True
                        else:
                            texts.append(text)
                    elif kind is int or kind is float:
                        if has_digits and self.is_secret_number(item):  # pyright: ignore[reportArgumentType]
                            return False
                    elif kind is dict:
                        entries: dict[object, object] = item  # pyright: ignore[reportAssignmentType]
                        values += len(entries)
                        if values > values_max:
                            return False
                        # Records have few shapes, so key sets repeat.
                        if (keys := tuple(entries)) not in plain and not self._are_plain(keys):
                            return False
                        below.append(entries)
                    elif kind is list or kind is tuple:
                        items: list[object] = item  # pyright: ignore[reportAssignmentType]
                        values += len(items)
                        if values > values_max:
                            return False
                        below.append(items)
                    elif isinstance(item, str):
                        texts.append(item)
                    elif item is not None and kind is not bool:
                        return False
            if not below:
                if not texts:
                    return True
                joined = "\n".join(texts)
                if len(joined) > chars_max:
                    return False
                lowered = joined.lower()
                if has_known and _LOGIN_OPTION in lowered:
                    # A text after such an option may be a password, whatever it looks like alone.
                    return self._is_clean(value, frozenset(), values_max, chars_max)
                if has_seed(lowered) or (self._has_known and self._known.spans(joined)):
                    return False
                for text in texts:
                    self.settle(text)
                return True
            # A value that contains itself twice doubles with every level: each container is visited once.
            level = below if len(below) < _SHARING_MIN else list({id(item): item for item in below}.values())
        return False

    def settle(self, text: str) -> None:
        """Note that masking leaves a text as it is: it consists of parts of masked texts."""
        # A text of another type may have an equality of its own. In a list an option makes a secret of its
        # value.
        if type(text) is not str or text.startswith("-"):
            return
        settled, large = self._settled, self._large
        if len(settled) >= _SETTLED_MAX:
            settled.clear()
            large.clear()
        if len(text) > _LARGE_CHARS_MIN:
            if text in settled or len(text) > _LARGE_CHARS_MAX:
                return
            large.append(text)
            while len(large) > _LARGE_MAX or sum(map(len, large)) > _LARGE_CHARS_MAX:
                settled.discard(large.popleft())
        settled.add(text)

    def _are_plain(self, keys: tuple[object, ...]) -> bool:
        """Return, and cache, whether none of these keys marks a secret."""
        # `value` may be a secret because of a `name` beside it: that needs the full walk.
        if "value" in keys or any(not isinstance(key, str) or is_secret_key(key) for key in keys):
            return False
        text = "\n".join(cast(tuple[str, ...], keys))
        if has_seed(text.lower()) or self._known.spans(text):
            return False
        if len(self._plain_keys) < _PLAIN_KEYS_MAX and len(keys) <= _KEYS_MAX:
            self._plain_keys.add(keys)
        return True


def sanitize_for_trace(value: object) -> object:
    """Mask secrets by key name and by shape; see `Redactor.value`."""
    return _UNREGISTERED.value(value)


def mask_text(text: str) -> str:
    """Mask every part of a text that has the shape of a secret."""
    return _UNREGISTERED.text(text)


@runtime_checkable
class _Model(Protocol):
    """A pydantic model; a Protocol avoids the import of pydantic."""

    def model_dump(self, *, mode: str, by_alias: bool, warnings: bool) -> object: ...


class _Hide(Enum):
    """How much of a value is masked because of the keys above it."""

    NOTHING = 0
    VALUES = 1  # a description of a secret: only the values under `value`, `default` and similar keys
    ALL = 2


@mutable
class _Walk:
    """The full walk through a value that may hold secrets."""

    redactor: Redactor
    path: set[int] = field(default_factory=set[int])
    done: dict[tuple[int, int, _Hide], object] = field(default_factory=dict[tuple[int, int, _Hide], object])
    dumps: list[object] = field(default_factory=list[object])

    def value(self, value: object, depth: int, hide: _Hide) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            if hide is not _Hide.ALL:
                return self.redactor.text(value)
            return value if value in {"", MASK} else MASK
        if isinstance(value, (int, float)):
            return MASK if hide is _Hide.ALL or self.redactor.is_secret_number(value) else value
        if isinstance(value, (Mapping, list, tuple)):
            return self._container(cast(_Container, value), depth, hide)
        if isinstance(value, _Model) and not isinstance(value, type):
            return self._model(value, depth, hide)
        return f"[opaque:{type(value).__name__}]"

    def _model(self, value: _Model, depth: int, hide: _Hide) -> object:
        try:
            dump = value.model_dump(mode="json", by_alias=True, warnings=False)
        except ValueError:  # a field has no JSON form
            return f"[opaque:{type(value).__name__}]"
        # The walk identifies values by id(): the dump must stay alive so that its id is not reused.
        self.dumps.append(dump)
        return self.value(dump, depth, hide)

    def _container(self, value: _Container, depth: int, hide: _Hide) -> object:
        if depth >= DEPTH_MAX:
            return TOO_DEEP
        if id(value) in self.path:
            return CYCLE
        visit = (id(value), depth, hide)
        if visit in self.done:
            # A shared value costs one walk for each depth, not one for each path to it.
            return self.done[visit]
        self.path.add(id(value))
        masked = (
            self._mapping(value, depth + 1, hide)
            if isinstance(value, Mapping)
            else self._sequence(value, depth + 1, hide)
        )
        self.path.remove(id(value))
        self.done[visit] = masked
        return masked

    def _sequence(self, value: _Sequence, depth: int, hide: _Hide) -> object:
        masked: list[object] = []
        option = ""
        for item in value:
            masked.append(self._argument(item, depth, _Hide.ALL if _follows(option, item) else hide))
            option = item if isinstance(item, str) else ""
        if all(new is old for new, old in zip(masked, value, strict=True)):
            return value
        return tuple(masked) if isinstance(value, tuple) else masked

    def _argument(self, item: object, depth: int, hide: _Hide) -> object:
        """Mask an item of a list; it may be an option such as `--password=x`."""
        match = _OPTION_VALUE.fullmatch(item) if isinstance(item, str) and hide is not _Hide.ALL else None
        if match is None or not is_secret_key(match[1]):
            return self.value(item, depth, hide)
        return item if match[2] == MASK else f"{match[1]}={MASK}"

    def _mapping(self, value: Mapping[object, object], depth: int, hide: _Hide) -> object:
        if hide is _Hide.NOTHING and _names_a_secret(value):
            hide = _Hide.VALUES
        masked: dict[object, object] = {}
        is_same = True
        for key, item in value.items():
            new_key = self._key(key, masked)
            new_item = self.value(item, depth, _hide_below(key, item, hide))
            is_same = is_same and new_key is key and new_item is item
            masked[new_key] = new_item
        return value if is_same else masked

    def _key(self, key: object, taken: Mapping[object, object]) -> object:
        if key is None or isinstance(key, (int, float)):
            return key
        masked = self.redactor.text(key) if isinstance(key, str) else f"[opaque:{type(key).__name__}]"
        if masked not in taken:
            return masked
        # Two secret keys must not become one key, or one of the two values is lost.
        return next(name for number in count(2) if (name := f"{masked} {number}") not in taken)


def _check_secrets(secrets: object) -> tuple[str, ...]:
    """Return the secrets without duplicates; no error message may contain a secret."""
    if isinstance(secrets, (str, bytes)):
        raise ValueError("Redactor takes a list of secrets, found a single string: write Redactor([secret])")
    if isinstance(secrets, Mapping):
        raise ValueError(
            "Redactor takes a list of secrets, found a mapping: write Redactor(secrets.values())"
        )
    if not isinstance(secrets, Iterable):
        raise ValueError(f"Redactor takes a list of secrets, found a value of type {type(secrets).__name__}")
    registered: dict[str, None] = {}
    for index, secret in enumerate(cast(Iterable[object], secrets)):
        if not isinstance(secret, str):
            raise ValueError(
                f"secret number {index} must be a string, found {type(secret).__name__}; "
                "decode it, or leave it out if it is not set"
            )
        registered[secret] = None
    return tuple(registered)


def _follows(option: str, item: object) -> bool:
    """Return whether an item of a list is the value of a secret option before it."""
    if option in _LOGIN_OPTIONS:
        return isinstance(item, str) and is_login_text(item)
    if not option.startswith("--") or isinstance(item, (Mapping, list, tuple)):
        return False
    is_option = isinstance(item, str) and item.startswith("-")
    return not is_option and _OPTION.fullmatch(option) is not None and is_secret_key(option)


def _hide_below(key: object, item: object, hide: _Hide) -> _Hide:
    if hide is _Hide.ALL or (hide is _Hide.VALUES and key in _VALUE_KEYS):
        return _Hide.ALL
    if not isinstance(key, str) or not is_secret_key(key):
        return _Hide.NOTHING
    if isinstance(item, Mapping) and _describes(key, cast(Mapping[object, object], item)):
        return _Hide.VALUES
    return _Hide.ALL


def _describes(key: str, item: Mapping[object, object]) -> bool:
    """Return whether a value is the schema or description of a secret, rather than an object with secrets."""
    return not _SCHEMA_KEYS.isdisjoint(item) or _is_schema_type(item.get("type")) or key == "authorization"


def _is_schema_type(value: object) -> bool:
    """Return whether a value is a JSON Schema type: a name, or a list of names."""
    names = cast(list[object], value) if isinstance(value, list) else [value]
    return names != [] and all(isinstance(name, str) and name in _SCHEMA_TYPES for name in names)


def _names_a_secret(value: Mapping[object, object]) -> bool:
    """Return whether an object is an entry of a list of headers: {name: X-Api-Key, value: …}."""
    name = value.get("name", value.get("key"))
    return "value" in value and isinstance(name, str) and is_secret_key(name)


def _number_text(value: float) -> str:
    """Return a number in JSON; every language writes whole numbers alike."""
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _NUMBER_BITS_MAX else "Infinity"
    return str(int(value)) if value.is_integer() else repr(value)


_OPTION: Final = re.compile("--[A-Za-z][A-Za-z0-9_-]{1,40}")
_OPTION_VALUE: Final = re.compile(r"(--[A-Za-z][A-Za-z0-9_-]{1,40})=([\s\S]+)")
_DIGITS: Final = re.compile("[0-9]+")
# Not every language parses these exactly, so they are compared as floats.
_LONG_NUMBER: Final = re.compile("[1-9][0-9]{15,298}")
_LONG_NUMBER_MAX: Final = 1e300
_LOGIN_OPTIONS: Final = frozenset({"-u", "--user", "--proxy-user"})
_NUMBER_BITS_MAX: Final = 10_000  # Python refuses to convert longer integers to digits
_SHARING_MIN: Final = 1_000
_KEYS_MAX: Final = 24
_LOGIN_OPTION: Final = "-u"
_SETTLED_MAX: Final = 16_384
_LARGE_CHARS_MIN: Final = 1_024
_LARGE_MAX: Final = 256
_LARGE_CHARS_MAX: Final = 4_194_304
"""All large texts together."""
_PLAIN_KEYS_MAX: Final = 4_096
_VALUE_KEYS: Final = frozenset({"value", "default", "const", "example", "examples"})
_SCHEMA_KEYS: Final = frozenset({"$ref", "anyOf", "oneOf", "allOf", "enum"})
_SCHEMA_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_UNREGISTERED: Final = Redactor()

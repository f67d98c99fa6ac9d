"""Checks of what a policy is made of: a slip is refused, and never guessed at.

A rule that quietly matches nothing is a hole in the policy, so all of these raise a ValueError with a
sentence that says what to do.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from pydantic import ValidationError

from windlass_protocol import AskDecision, PolicyKind, PolicyRef, ToolMode


def as_tuple(value: object, what: str, *, of: str) -> tuple[object, ...]:
    """Return a tuple; a list is taken for one, a single text or anything else is not."""
    if isinstance(value, str):
        raise ValueError(f"{what} takes a tuple of {of}, found a text: write ({value!r},)")
    if not isinstance(value, (tuple, list)):
        raise ValueError(f"{what} takes a tuple of {of}, found {kind_of(value)}")
    return tuple(cast(Iterable[object], value))


def as_texts(value: object, what: str, *, of: str) -> tuple[str, ...]:
    """Return a tuple of texts; see `as_tuple`."""
    items = as_tuple(value, what, of=of)
    for item in items:
        if not isinstance(item, str):
            raise ValueError(f"{what} takes {of} as texts, found {kind_of(item)}")
    return cast(tuple[str, ...], items)


def as_commands(value: object) -> tuple[tuple[str, ...], ...]:
    """Return the words of every command as tuples."""
    commands = as_tuple(value, "commands", of="commands")
    return tuple(as_texts(words, "a command", of="words") for words in commands)


def as_labels(value: object, what: str, *, known: Sequence[str]) -> frozenset[str]:
    """Return a set of known labels; a list or tuple is taken for one, a text is not."""
    if isinstance(value, str):
        raise ValueError(f"{what} takes a set, found a text: write {{{value!r}}}")
    if not isinstance(value, (frozenset, set, tuple, list)):
        raise ValueError(f"{what} takes a set, found {kind_of(value)}")
    labels = tuple(cast(Iterable[object], value))
    for label in labels:
        check_choice(label, what, known=known)
    return frozenset(cast(tuple[str, ...], labels))


def as_mode(value: object) -> ToolMode:
    """Return the mode of this name."""
    if isinstance(value, ToolMode):
        return value
    check_choice(value, "declared", known=tuple(ToolMode))
    return ToolMode(value)


def check_choice(value: object, what: str, *, known: Sequence[str]) -> None:
    """Refuse a value that is not one of the known ones."""
    if value not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)}, found {value!r}")


def check_flag(value: object, what: str) -> None:
    """Refuse a value that is not True or False: the text "no" counts as true."""
    if not isinstance(value, bool):
        raise ValueError(f"{what} must be True or False, found {value!r}")


def check_id(value: object) -> None:
    """Refuse an id that no decision could name."""
    if not isinstance(value, str):
        raise ValueError(f"the id of a rule must be a text, found {kind_of(value)}")
    try:
        PolicyRef(kind=PolicyKind.PERMISSION, id=value)
    except ValidationError:
        raise ValueError(
            f"the id of a rule has 1 to 512 characters, none of them a control character, found {value!r}"
        ) from None


def check_mapping(value: object, what: str) -> None:
    """Refuse what is not a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a mapping, found {kind_of(value)}")


def check_json(value: Mapping[str, object], what: str) -> None:
    """Refuse arguments that no decision could carry."""
    try:
        AskDecision.model_validate({"code": "x", "reason": "x", "policyRefs": (), "arguments": dict(value)})
    except ValidationError:
        raise ValueError(f"{what} must have texts as names and hold JSON values only") from None


def check_text(value: object, what: str) -> None:
    """Refuse what is not a text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, found {kind_of(value)}")


def kind_of(value: object) -> str:
    """Name the type of a value for a message."""
    return "None" if value is None else f"a value of type {type(value).__name__}"

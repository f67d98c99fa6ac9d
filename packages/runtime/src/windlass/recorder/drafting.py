"""What callers say, in the form of the wire; what is wrong is told, not raised.

Every function here takes a list and adds to it, in words, what the caller did wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from windlass.json_value import JsonObject, JsonValue, text_of
from windlass.recorder.kinds import DecisionType
from windlass_protocol.limits import INTEGER_MAX

IDS_SHOWN_MAX: Final = 20
"""Options that an error names."""
SEVERITIES: Final = ("critical", "warning", "minor")
_TYPES: Final = frozenset(kind.value for kind in DecisionType)
_ONLY_TEXTS: Final = frozenset({str})
_OPTION_KEYS: Final = frozenset(
    {"id", "description", "action_type", "action_params", "pros", "cons", "confidence"}
)


def text(value: object, what: str = "", *, faults: list[str] | None = None) -> str:
    """Return a text as it is, anything else as it is printed."""
    if type(value) is str:
        return value
    if faults is not None and not isinstance(value, str):
        faults.append(f"{what} must be a text, found {_kind(value)}: it is kept as it is printed")
    return text_of(value)


def truth(value: object, what: str, *, faults: list[str]) -> bool:
    """Return True or False; what else it could mean."""
    if value is True or value is False:
        return value
    faults.append(f"{what} must be True or False, found {text_of(value)}: it counts as {bool(value)}")
    return bool(value)


def texts(value: object, what: str = "", *, faults: list[str] | None = None) -> list[JsonValue]:
    """Return a list of texts; a text alone is a list of one."""
    if type(value) is list and _ONLY_TEXTS.issuperset(map(type, cast("list[object]", value))):
        return cast("list[JsonValue]", value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [text(item, f"each of {what}", faults=faults) for item in cast("Sequence[object]", value)]
    if value is not None and faults is not None:
        faults.append(f"{what} must be a list of texts, found {_kind(value)}: it is kept as the only one")
    return [] if value is None else [text(value)]


def members(value: object, what: str = "", *, faults: list[str] | None = None) -> JsonObject:
    """Return a dictionary; anything else under the name `value`."""
    if type(value) is dict:
        return cast("JsonObject", value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, JsonValue]", value))
    if value is not None and faults is not None:
        faults.append(f"{what} must be a dictionary, found {_kind(value)}: it is kept under the name value")
    return {} if value is None else {"value": cast("JsonValue", value)}


def anything(value: object) -> JsonValue:
    """Return a value that becomes JSON when it is written."""
    return cast("JsonValue", value)


def said_by(error: BaseException) -> str:
    """Return the text of an exception; it may not even have one."""
    try:
        return text_of(str(error))
    except Exception:  # noqa: BLE001 - its text is the caller's code
        return ""


def count(name: str, value: object, *, faults: list[str]) -> int:
    """Return a whole number from 0."""
    if type(value) is int and 0 <= value <= INTEGER_MAX:
        return value
    if isinstance(value, int | float) and 0 <= value <= INTEGER_MAX:
        return int(value)
    faults.append(f"{name} must be a number from 0, found {text_of(value)}: it counts as 0")
    return 0


def decision_type(value: object, faults: list[str]) -> str:
    """Return the type of a decision."""
    if type(value) is DecisionType:
        return value.value
    if isinstance(value, str) and value in _TYPES:
        return str(value)
    faults.append(f"decision_type must be one of {', '.join(sorted(_TYPES))}, found {text_of(value)}")
    return DecisionType.CUSTOM.value


def severity(value: object, faults: list[str]) -> str:
    """Return how bad a problem is."""
    if isinstance(value, str) and value in SEVERITIES:
        return str(value)
    faults.append(
        f"severity must be one of {', '.join(SEVERITIES)}, found {text_of(value)}: taken as warning"
    )
    return "warning"


def options(value: object, chosen: str, *, faults: list[str]) -> list[JsonValue]:
    """Return the options of a decision, of which one should be the chosen one."""
    given: Sequence[object] = ()
    if isinstance(value, list | tuple):
        given = cast("Sequence[object]", value)
    else:
        faults.append(f"options must be a list, found {_kind(value)}")
    found: list[JsonValue] = []
    is_among = False
    for option in given:
        if isinstance(option, Mapping):
            wire = _option(cast("Mapping[str, object]", option), len(found), faults)
        else:
            faults.append(f"option {len(found)} must be a dictionary, found {_kind(option)}")
            wire: JsonObject = {"id": f"option_{len(found)}", "description": text(option)}
        if wire["id"] == chosen:
            is_among = True
        found.append(wire)
    if not is_among:
        ids = ", ".join(repr(cast("JsonObject", option)["id"]) for option in found[:IDS_SHOWN_MAX])
        faults.append(
            f"chosen must be the id of an option, found {chosen!r}; the options are: {ids or 'none'}"
        )
    return found


def _option(given: Mapping[str, object], index: int, faults: list[str]) -> JsonObject:
    say = given.get
    if (said := say("id")) is None:
        faults.append(f"option {index} has no id: it is called option_{index}")
        said = f"option_{index}"
    wire: JsonObject = {"id": said if type(said) is str else text_of(said)}
    if not _OPTION_KEYS.issuperset(given):
        unknown = ", ".join(sorted(text_of(key) for key in given if key not in _OPTION_KEYS))
        known = ", ".join(sorted(_OPTION_KEYS))
        faults.append(f"option {index} has {unknown}, which is not kept; an option has {known}")
    if (said := say("description")) is not None:
        wire["description"] = text(said, "a description", faults=faults)
    if (said := say("action_type")) is not None:
        wire["actionType"] = text(said, "an action_type", faults=faults)
    if (said := say("action_params")) is not None:
        wire["actionParams"] = members(said, "action_params", faults=faults)
    if (said := say("pros")) is not None:
        wire["pros"] = texts(said, "pros", faults=faults)
    if (said := say("cons")) is not None:
        wire["cons"] = texts(said, "cons", faults=faults)
    if (said := say("confidence")) is not None:
        if type(said) is float and 0 <= said <= 1:
            wire["confidence"] = said
        else:
            _add_confidence(wire, said, faults)
    return wire


def evaluation(value: object) -> JsonObject | None:
    """Return a judgement in the form of the wire; None if it is none."""
    # By what it can, not by what it is: its class is slow to import.
    wire = getattr(value, "to_wire", None)
    return cast("JsonObject", wire()) if callable(wire) else None


def said_in(decision: JsonObject) -> list[JsonValue]:
    """Return what the caller said in a decision, nearly flat: quick to look through."""
    said: list[JsonValue] = []
    for option in cast("list[JsonObject]", decision["options"]):
        said += option.values()
    said += (value for name, value in decision.items() if name != "options")
    return said


def _add_confidence(wire: JsonObject, confidence: object, faults: list[str]) -> None:
    is_number = isinstance(confidence, int | float)
    if is_number and 0 <= confidence <= 1:
        wire["confidence"] = float(confidence)
        return
    faults.append(f"confidence of option {wire['id']!r} must be from 0 to 1, found {text_of(confidence)}")
    if is_number and confidence == confidence:  # what is not a number equals nothing
        wire["confidence"] = 1.0 if confidence > 1 else 0.0
    wire["givenConfidence"] = text_of(confidence)


def failure(error: BaseException) -> JsonObject:
    """Return the outcome of an action that raised."""
    return {"success": False, "error": said_by(error) or _kind(error)}


def _kind(value: object) -> str:
    return type(value).__name__

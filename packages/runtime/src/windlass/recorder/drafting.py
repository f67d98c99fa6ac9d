"""What callers say, in the form of the wire; what is wrong with it is told, not raised.

Every function here takes a list and adds to it, in words, what the caller did wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from windlass.recorder.kinds import DecisionType
from windlass.recorder.plain import INTEGER_MAX, JsonObject, JsonValue, text_of

SEVERITIES: Final = ("critical", "warning", "minor")
_TYPES: Final = frozenset(kind.value for kind in DecisionType)
_TEXTS: Final = (("description", "description"), ("action_type", "actionType"))
_LISTS: Final = (("pros", "pros"), ("cons", "cons"))
ID_CHARS_MAX: Final = 512


def text(value: object) -> str:
    """Return a text as it is, anything else as it is printed."""
    return value if type(value) is str else text_of(value)


def texts(value: object) -> list[JsonValue]:
    """Return a list of texts; a text alone is a list of one."""
    if isinstance(value, str):
        return [text(value)]
    if isinstance(value, Sequence):
        return [text(item) for item in cast("Sequence[object]", value)]
    return [] if value is None else [text(value)]


def members(value: object) -> JsonObject:
    """Return a dictionary; anything else under the name `value`."""
    if type(value) is dict:
        return cast("JsonObject", value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, JsonValue]", value))
    return {} if value is None else {"value": cast("JsonValue", value)}


def anything(value: object) -> JsonValue:
    """Return a value that becomes JSON when it is written."""
    return cast("JsonValue", value)


def said_by(error: BaseException) -> str:
    """Return the text of an exception; an exception of the caller's may not even have one."""
    try:
        return text_of(str(error))
    except Exception:  # noqa: BLE001 - its text is the caller's code
        return ""


def count(name: str, value: object, faults: list[str]) -> int:
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
    faults.append(f"severity must be one of {', '.join(SEVERITIES)}, found {text_of(value)}: taken as warning")
    return "warning"


def options(value: object, chosen: str, faults: list[str]) -> list[JsonValue]:
    """Return the options of a decision, of which one should be the chosen one."""
    given = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if given is not value:
        faults.append(f"options must be a list, found {type(value).__name__}")
    found: list[JsonValue] = []
    is_among = False
    for option in given:
        wire = _option(option, len(found), faults)
        is_among = is_among or wire["id"] == chosen
        found.append(wire)
    if not is_among:
        ids = ", ".join(repr(cast("JsonObject", option)["id"]) for option in found[:20])
        faults.append(f"chosen must be the id of an option, found {chosen!r}; the options are: {ids or 'none'}")
    return found


def _option(option: object, index: int, faults: list[str]) -> JsonObject:
    if not isinstance(option, Mapping):
        faults.append(f"option {index} must be a dictionary, found {type(option).__name__}")
        return {"id": f"option_{index}", "description": text(option)}
    given = cast("Mapping[str, object]", option)
    option_id = given.get("id")
    if option_id is None:
        faults.append(f"option {index} has no id: it is called option_{index}")
    wire: JsonObject = {"id": f"option_{index}" if option_id is None else text(option_id)}
    for name, wire_name in _TEXTS:
        if (said := given.get(name)) is not None:
            wire[wire_name] = text(said)
    if (params := given.get("action_params")) is not None:
        wire["actionParams"] = members(params)
    for name, wire_name in _LISTS:
        if (said := given.get(name)) is not None:
            wire[wire_name] = texts(said)
    if (confidence := given.get("confidence")) is not None:
        _add_confidence(wire, confidence, faults)
    return wire


def _add_confidence(wire: JsonObject, confidence: object, faults: list[str]) -> None:
    is_number = isinstance(confidence, int | float)
    if is_number and 0 <= confidence <= 1:
        wire["confidence"] = float(confidence)
        return
    faults.append(f"confidence of option {wire['id']!r} must be from 0 to 1, found {text_of(confidence)}")
    if is_number and confidence == confidence:  # noqa: PLR0124 - what is not a number equals nothing
        wire["confidence"] = 1.0 if confidence > 1 else 0.0
    wire["givenConfidence"] = text_of(confidence)

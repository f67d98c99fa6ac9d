"""The formats of texts that are checked; any other is only a remark."""

import re
from collections.abc import Callable
from datetime import date, datetime, time
from ipaddress import IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_EMAIL: Final = re.compile(r"[^\s@<>()\[\]]{1,64}@[^\s@<>()\[\]]{1,255}")
_DURATION: Final = re.compile(
    r"P(?=.)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?|P\d+W", re.ASCII
)
_FRACTION: Final = re.compile(r"\.\d+")


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _is_made(date.fromisoformat, text)


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _is_made(time.fromisoformat, _iso(text))


def _is_moment(text: str) -> bool:
    day, mark, clock = text[:10], text[10:11], text[11:]
    if mark not in ("T", "t") or not _is_date(day) or not _is_time(clock):
        return False
    return _is_made(datetime.fromisoformat, f"{day}T{_iso(clock)}")


def _iso(clock: str) -> str:
    """A time as Python reads it; fractions of a second do not matter."""
    return _FRACTION.sub("", clock).replace("Z", "+00:00").replace("z", "+00:00")


def _is_uri(text: str) -> bool:
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    return _is_made(urlsplit, text) and bool(urlsplit(text).scheme)


def _is_made(make: Callable[[str], object], text: str) -> bool:
    try:
        make(text)
    except ValueError:
        return False
    return True


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_moment,
    "duration": lambda text: _DURATION.fullmatch(text) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "ipv4": lambda text: _is_made(IPv4Address, text),
    "ipv6": lambda text: _is_made(IPv6Address, text),
    "uri": _is_uri,
}


def _of_texts(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or check(value)


FORMATS: Final[dict[str, Callable[[object], bool]]] = {
    name: _of_texts(check) for name, check in _CHECKS.items()
}

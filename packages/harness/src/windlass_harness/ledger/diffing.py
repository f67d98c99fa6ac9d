"""Where two JSON values differ, as JSON pointers."""

from collections.abc import Iterator

from pydantic import JsonValue

from windlass_protocol import PackageDifference


def differences(before: JsonValue, after: JsonValue) -> tuple[PackageDifference, ...]:
    """Return every place at which two values differ; what one lacks is absent there."""
    return tuple(_differ(before, after, ""))


def _differ(before: JsonValue, after: JsonValue, path: str) -> Iterator[PackageDifference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            place = f"{path}/{_escaped(key)}"
            if key not in after:
                yield PackageDifference(path=place, before=before[key])
            elif key not in before:
                yield PackageDifference(path=place, after=after[key])
            else:
                yield from _differ(before[key], after[key], place)
    elif isinstance(before, list) and isinstance(after, list):
        shared = min(len(before), len(after))
        for at in range(shared):
            yield from _differ(before[at], after[at], f"{path}/{at}")
        for at in range(shared, len(before)):
            yield PackageDifference(path=f"{path}/{at}", before=before[at])
        for at in range(shared, len(after)):
            yield PackageDifference(path=f"{path}/{at}", after=after[at])
    elif before != after or type(before) is not type(after):
        yield PackageDifference(path=path, before=before, after=after)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")

"""The text of a SKILL.md: YAML front matter between two lines of `---`, then the body.

Only `name` and `description` are read. Every scalar is a text, so that `on`, `1.0` or a date stays as it was
written; nothing is constructed from the YAML, so tags and aliases have no effect.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from windlass.definitions import wrong

if TYPE_CHECKING:
    from collections.abc import Callable

    import yaml

_FENCE: Final = "---"
_READ: Final = ("name", "description")
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_FIRST_LINE: Final = 2
"""The line of the file that the front matter begins on."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """The parts of a SKILL.md that are used."""

    name: str
    description: str
    body: str


def read_skill_text(text: str, where: str) -> SkillText:
    """Return the name, the description and the body of a SKILL.md; `where` names the file in errors.

    Raises:
        Rejected: there is no front matter, it is not YAML, or it lacks a text.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        raise wrong(f"{where}: the first line must be {_FENCE}, and name and description follow")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise wrong(f"{where}: the front matter does not end; write {_FENCE} on a line of its own")
    found = _fields("\n".join(lines[1:end]), where)
    missing = [key for key in _READ if not found.get(key)]
    if missing:
        raise wrong(f"{where}: the front matter has no {' and no '.join(missing)}")
    return SkillText(found["name"], found["description"], "\n".join(lines[end + 1 :]).strip())


def _fields(text: str, where: str) -> dict[str, str]:
    """Return the name and the description; other keys have to be YAML and are passed over."""
    import yaml  # noqa: PLC0415 - slow to import

    try:
        compose = cast("Callable[..., yaml.Node | None]", yaml.compose)  # pyright: ignore[reportUnknownMemberType]
        root = compose(text, yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f"line {error.problem_mark.line + _FIRST_LINE}: "
        hint = "put a text with a colon or quotes in it into double quotes"
        raise wrong(f"{where}: {line}not YAML: {error.problem}; {hint}") from None
    except (yaml.YAMLError, RecursionError):
        raise wrong(f"{where}: the front matter is not YAML that can be read") from None
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise wrong(f"{where}: line {_FIRST_LINE}: expected `key: text`")
    found: dict[str, str] = {}
    for key, value in root.value:
        line = key.start_mark.line + _FIRST_LINE
        name = key.value if isinstance(key, yaml.ScalarNode) else ""
        if name in found:
            raise wrong(f"{where}: line {line}: {name} is there twice")
        if name not in _READ:
            continue
        if not isinstance(value, yaml.ScalarNode) or value.tag != _TEXT_TAG:
            raise wrong(f"{where}: line {line}: {name} is not a text; put it in double quotes")
        found[name] = value.value.strip()
    return found

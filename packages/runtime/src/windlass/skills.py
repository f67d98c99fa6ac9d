"""Skills: instructions that a model loads when it needs them."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from windlass.definitions import wrong
from windlass.skill_files import Skill, load_skills
from windlass.tool_limits import CLOSE_NAMES_MAX, NAME_CHARS_MAX, NAMES_SHOWN_MAX, SKILLS_MAX
from windlass.tools import Tool, ToolFailed, tool
from windlass_protocol import JsonObject
from windlass_protocol.codec_errors import shown

_INTRODUCTION: Final = (
    "These are your skills. When a task fits one, call load_skill with its name before you begin, and do as "
    "it says.\n\n"
)


class Skills:
    """Skills by name, what a model is told of them, and the tool that loads them."""

    def __init__(self, *sources: str | Path | Skill) -> None:
        """Take skills, and folders that hold one skill in each folder in them.

        Raises:
            Rejected: a skill cannot be used, or two have one name.
        """
        self._skills: dict[str, Skill] = {}
        for source in sources:
            for skill in (source,) if isinstance(source, Skill) else load_skills(source):
                if skill.name in self._skills:
                    raise wrong(f"skills: two are called {skill.name}; give each its own name")
                self._skills[skill.name] = skill
        if len(self._skills) > SKILLS_MAX:
            raise wrong(f"skills: found {len(self._skills):,}, limit {SKILLS_MAX}")

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    @property
    def words(self) -> str:
        """The catalogue for the instructions of an agent; empty without skills."""
        if not self._skills:
            return ""
        return _INTRODUCTION + "\n".join(f"- {skill.name}: {skill.description}" for skill in self)

    @property
    def tool(self) -> Tool[..., object]:
        """The tool `load_skill`."""
        return tool(self.load, name="load_skill", mode="read", is_outbound=False)

    async def load(self, skill: str) -> JsonObject:
        """Load the instructions of one of your skills.

        Args:
            skill: The name of the skill, as in the list of your skills.
        """
        found = self._skills.get(skill)
        if found is None:
            raise ToolFailed(self._unknown(skill))
        loaded: JsonObject = {"skill": found.name, "instructions": found.body}
        if found.files:
            loaded |= {"files": list(found.files), "folder": str(found.folder)}
        return loaded

    def _unknown(self, name: str) -> str:
        asked, names = shown(name, NAME_CHARS_MAX), sorted(self._skills)
        close = get_close_matches(name[:NAME_CHARS_MAX], names, n=CLOSE_NAMES_MAX, cutoff=0.5)
        if close:
            return f"there is no skill {asked}; did you mean {', '.join(close)}?"
        more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
        return f"there is no skill {asked}; there are {', '.join(names[:NAMES_SHOWN_MAX]) or 'none'}{more}"

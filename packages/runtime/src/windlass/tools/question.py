"""ask_question: the tool that asks a person."""

from dataclasses import replace
from typing import Annotated, Final, cast

from pydantic import BaseModel, ConfigDict, Field

from windlass.limits import OPTION_CHARS_MAX, OPTIONS_MAX, QUESTION_CHARS_MAX
from windlass.tools import library_tool
from windlass_protocol import ApprovalRule, EffectClass, JsonObject, ToolMode
from windlass_protocol.frozen import sealed


class QuestionOption(BaseModel):
    """An option of a question."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    id: str = Field(min_length=1, max_length=OPTION_CHARS_MAX)
    label: str = Field(min_length=1, max_length=OPTION_CHARS_MAX)
    description: str | None = Field(default=None, max_length=QUESTION_CHARS_MAX)


Prompt = Annotated[str, Field(min_length=1, max_length=QUESTION_CHARS_MAX)]
Options = Annotated[list[QuestionOption], Field(max_length=OPTIONS_MAX)]


@sealed
class ModelQuestion:
    """A question of a model to a person."""

    prompt: str
    options: tuple[JsonObject, ...]
    allow_freeform: bool

    @property
    def problem(self) -> str | None:
        """Why the question cannot be answered; None if it can."""
        ids = [option["id"] for option in self.options]
        if len(set(map(str, ids))) < len(ids):
            return "two options have the same id; give each its own"
        if not ids and not self.allow_freeform:
            return "a question without options must allow a free text as its answer"
        return None


async def _ask(
    prompt: Prompt, *, options: Options | None = None, allow_freeform: bool | None = None
) -> JsonObject:
    """Ask the person you work for, and wait for the answer.

    Ask only what you cannot find out yourself and cannot go on without. The result says whether the question
    was answered or passed over, the option that was picked, and the text that was given.

    Args:
        prompt: The question, in full: the person sees nothing else.
        options: Answers to pick from.
        allow_freeform: Whether a free text is an answer too; it is, unless there are options.
    """
    raise AssertionError("ask_question is answered by a person and cannot be called")


ask_question: Final = replace(
    library_tool(
        _ask, mode=ToolMode.READ, effect=EffectClass.READ, approval=ApprovalRule.NEVER, name="ask_question"
    ),
    is_question=True,
)
"""Lets a model ask the user a question; add it to the tools of an agent."""


def question_of(arguments: JsonObject) -> ModelQuestion:
    """Return the question that a call asks; its arguments fit the tool."""
    raw_options, allows = arguments.get("options") or [], arguments.get("allow_freeform")
    options = cast("list[JsonObject]", raw_options)
    return ModelQuestion(
        str(arguments["prompt"]),
        tuple({name: text for name, text in option.items() if text is not None} for option in options),
        allow_freeform=not options if allows is None else bool(allows),
    )

"""Bodies of requests, as the server reads them, and the base of its query parameters.

The bodies are generated from `spec/rest.schema.json`. Here they refuse the Python spelling of a field: a
request writes `outputSchema`, never `output_schema`.
"""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel

import windlass_protocol as wire
from windlass.catalog.sessions import COUNTED_MAX
from windlass_protocol.limits import INTEGER_MAX
from windlass_server.settings import PAGE_DEFAULT, PAGE_MAX

Text = Annotated[str, Strict()]


class WireModel(BaseModel):
    """A body or a query: names in camelCase, no unknown names."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )


def _with_day(value: object) -> object:
    """Refuse a number, which pydantic takes for seconds since 1970."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("expected a time such as 2026-01-31T09:30:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_with_day)]
Name = Annotated[str | None, Field(min_length=1, max_length=512)]
ErrorFilter = wire.ErrorKind | Literal["any"] | None
Number = Annotated[int | None, Field(ge=0, le=INTEGER_MAX)]
Total = Annotated[
    bool, Field(description=f"Whether to count the rows that match, up to {COUNTED_MAX + 1:,}.")
]


class PageQuery(WireModel):
    """Which page of a list."""

    after: Annotated[str | None, Field(max_length=64, description="The `next` of the previous page.")] = None
    limit: Annotated[int, Field(ge=1, le=PAGE_MAX, description="Items per page.")] = PAGE_DEFAULT


class DeliveryQuery(PageQuery):
    """Which deliveries."""

    dead: Annotated[bool, Field(description="Only those that are tried no more.")] = False


PageDep = Annotated[PageQuery, Query()]
_BY_ALIAS = ConfigDict(validate_by_name=False, defer_build=False)


class NewSession(wire.NewSession):
    __doc__ = wire.NewSession.__doc__
    model_config = _BY_ALIAS


class NewMessage(wire.NewMessage):
    __doc__ = wire.NewMessage.__doc__
    model_config = _BY_ALIAS


class AgentSessionChange(wire.AgentSessionChange):
    __doc__ = wire.AgentSessionChange.__doc__
    model_config = _BY_ALIAS


class Cancel(wire.Cancel):
    __doc__ = wire.Cancel.__doc__
    model_config = _BY_ALIAS


class RetryRun(wire.RetryRun):
    __doc__ = wire.RetryRun.__doc__
    model_config = _BY_ALIAS


class Answer(wire.Answer):
    __doc__ = wire.Answer.__doc__
    model_config = _BY_ALIAS


class NewFeedback(wire.NewFeedback):
    __doc__ = wire.NewFeedback.__doc__
    model_config = _BY_ALIAS


class NewRunEvent(wire.NewRunEvent):
    __doc__ = wire.NewRunEvent.__doc__
    model_config = _BY_ALIAS


class NewPlaygroundRun(wire.NewPlaygroundRun):
    __doc__ = wire.NewPlaygroundRun.__doc__
    model_config = _BY_ALIAS


class Fork(wire.Fork):
    __doc__ = wire.Fork.__doc__
    model_config = _BY_ALIAS


class NewLimit(wire.NewLimit):
    __doc__ = wire.NewLimit.__doc__
    model_config = _BY_ALIAS


class NewSchedule(wire.NewSchedule):
    __doc__ = wire.NewSchedule.__doc__
    model_config = _BY_ALIAS


class NewProposal(wire.NewProposal):
    __doc__ = wire.NewProposal.__doc__
    model_config = _BY_ALIAS


class ProposalTrial(wire.ProposalTrial):
    __doc__ = wire.ProposalTrial.__doc__
    model_config = _BY_ALIAS


class Verdict(wire.Verdict):
    __doc__ = wire.Verdict.__doc__
    model_config = _BY_ALIAS


class NewDataset(wire.NewDataset):
    __doc__ = wire.NewDataset.__doc__
    model_config = _BY_ALIAS


class NewDatasetCase(wire.NewDatasetCase):
    __doc__ = wire.NewDatasetCase.__doc__
    model_config = _BY_ALIAS


class DatasetCaseChange(wire.DatasetCaseChange):
    __doc__ = wire.DatasetCaseChange.__doc__
    model_config = _BY_ALIAS


RunWishes = wire.NewSession | wire.NewMessage
"""The bodies with options of a run."""

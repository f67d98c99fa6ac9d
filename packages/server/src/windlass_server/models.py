"""The base of bodies and queries, as the server reads them, and its operations."""

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Strict
from pydantic.alias_generators import to_camel

import windlass_protocol as wire
from windlass_protocol.frozen import sealed

Text = Annotated[str, Strict()]
YEARS: Final = range(1970, 3_000)
"""Years of a time in a query."""


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


def _in_range(moment: datetime) -> datetime:
    if moment.year not in YEARS:
        raise ValueError(f"expected a time from {YEARS[0]} to {YEARS[-1]}")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, BeforeValidator(_with_day), AfterValidator(_in_range)]
BY_ALIAS: Final = ConfigDict(validate_by_name=False, defer_build=False)
"""Refuses the Python spelling of a field: a request writes `outputSchema`, never `output_schema`."""
RunWishes = wire.NewSession | wire.NewMessage
"""The bodies with options of a run."""

Repeat = Literal["harmless", "keyed", "derived", "refused"]
"""What a repeated request does, see `windlass_server.repeats`."""
Who = Literal["public", "user", "improver", "operator"]
"""Callers that an operation is for, see `windlass_server.auth.Principal.is_one_of`."""


@sealed
class ServerOperation:
    """One operation of the server."""

    id: str
    method: str
    path: str
    """With the names of its ids, such as `/v1/runs/{runId}`."""
    repeat: Repeat
    who: Who
    summary: str
    doc: str
    problems: tuple[int, ...]
    """Statuses of its own problems; those of every operation are not among them."""

    @property
    def group(self) -> str:
        """The group of the operation: the part of its id before the dot."""
        return self.id.partition(".")[0]

    @property
    def takes_key(self) -> bool:
        """Whether a request may have an Idempotency-Key."""
        return self.repeat in ("keyed", "derived")

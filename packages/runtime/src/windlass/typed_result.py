"""What a run returned, as the type that was asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from windlass.agent_output import Output
from windlass.errors import Rejected
from windlass.refusals import no_value
from windlass_protocol import CausalIds, ErrorKind, OutputContract, RetryClass, RunResult, RunStatus

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class TypedResult(Generic[T]):
    """What came of a run that had to return something."""

    result: RunResult
    value: T


def typed_result(result: RunResult, output: Output) -> TypedResult[object]:
    """Return the value of a run: of the type asked for, or as JSON.

    Raises:
        AgentError: the run ended without a value; the error is that of the run.
        Rejected: the value fits the schema, and the type refuses it all the same.
    """
    if result.status is not RunStatus.COMPLETED:
        raise no_value(result)
    value = result.structured_output
    if isinstance(output, Mapping | OutputContract):
        return TypedResult(result, value)
    try:
        made = TypeAdapter(cast(type[object], output)).validate_json(to_json(value))
    except ValidationError as error:
        count = error.error_count()
    else:
        return TypedResult(result, made)
    raise Rejected(
        f"the output fits the schema of {_name_of(output)}, and {count} checks of its own refuse it",
        kind=ErrorKind.STRUCTURED_OUTPUT_FAILURE,
        retry=RetryClass.NOT_RETRYABLE,
        causal_ids=CausalIds(run_id=result.run_id),
    )


def _name_of(output: object) -> str:
    return getattr(output, "__name__", str(output))

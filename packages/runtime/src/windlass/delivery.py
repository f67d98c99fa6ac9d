"""Output sinks as agents name them and runtimes have them."""

from typing import cast

from windlass.definitions import wrong
from windlass.limits import RECEIPT_BYTES_MAX
from windlass_harness.loop.rules import Dedupe, SinkRule
from windlass_protocol import CodecError, CodecLimits, JsonObject, OutputSinkSpec, canonical, parse

_RECEIPT = CodecLimits(message_bytes_max=RECEIPT_BYTES_MAX)


def check_sink(spec: OutputSinkSpec) -> SinkRule:
    """Return what the loop has to know of a sink.

    Raises:
        Rejected: it is not known what the dedupe policy means.
    """
    try:
        return SinkRule(spec.sink_id, Dedupe(spec.dedupe_policy or Dedupe.RUN))
    except ValueError:
        names = ", ".join(member.value for member in Dedupe)
    raise wrong(f"output sink {spec.sink_id}: dedupe_policy is one of {names}; found {spec.dedupe_policy!r}")


def receipt_of(receipt: object) -> JsonObject | None:
    """Return what is kept of a receipt: nothing if it is no object, or too large.

    The delivery was made all the same, so a bad receipt is no failure.
    """
    if not isinstance(receipt, dict):
        return None
    try:
        return cast(JsonObject, parse(canonical(cast(JsonObject, receipt), _RECEIPT), _RECEIPT))
    except CodecError:
        return None

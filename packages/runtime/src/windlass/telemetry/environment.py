"""OpenTelemetry environment variables, read without importing its SDK."""

import os
from collections.abc import Mapping
from typing import Final

from windlass.errors import Rejected
from windlass_protocol import ErrorKind, RetryClass
from windlass_protocol.frozen import sealed

HTTP: Final = "http/protobuf"


@sealed
class TelemetrySettings:
    """The wanted signals and their intervals; None is the default interval."""

    has_traces: bool = True
    has_metrics: bool = True
    pause_s: float | None = None
    metrics_s: float | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to export."""
        return self.has_traces or self.has_metrics


def settings(*, needs_endpoint: bool, environment: Mapping[str, str] | None = None) -> TelemetrySettings:
    """Return the settings in the environment variables.

    Nothing is wanted if an endpoint is needed and none is named.

    Raises:
        Rejected: a protocol other than OTLP over HTTP is named, or a number is not valid.
    """
    variables = os.environ if environment is None else environment
    return TelemetrySettings(
        has_traces=_is_on("TRACES", variables, needs_endpoint=needs_endpoint),
        has_metrics=_is_on("METRICS", variables, needs_endpoint=needs_endpoint),
        pause_s=_seconds("OTEL_BSP_SCHEDULE_DELAY", variables),
        metrics_s=_seconds("OTEL_METRIC_EXPORT_INTERVAL", variables),
    )


def _is_on(signal: str, variables: Mapping[str, str], *, needs_endpoint: bool) -> bool:
    own = f"OTEL_EXPORTER_OTLP_{signal}"
    has_endpoint = bool(variables.get("OTEL_EXPORTER_OTLP_ENDPOINT") or variables.get(f"{own}_ENDPOINT"))
    is_off = variables.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none"
    is_disabled = variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or is_disabled or (needs_endpoint and not has_endpoint):
        return False
    protocol = variables.get(f"{own}_PROTOCOL") or variables.get("OTEL_EXPORTER_OTLP_PROTOCOL") or HTTP
    if protocol != HTTP:
        raise _misconfiguration(f"OTEL_EXPORTER_OTLP_PROTOCOL must be {HTTP}, found {protocol[:40]!r}")
    return True


def _seconds(name: str, variables: Mapping[str, str]) -> float | None:
    text = variables.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise _misconfiguration(f"{name} must be milliseconds, a whole number above 0; found {text[:40]!r}")
    return int(text) / 1_000


def _misconfiguration(message: str) -> Rejected:
    kind, retry = ErrorKind.HOST_CONFIGURATION_NEEDED, RetryClass.HOST_CONFIGURATION_NEEDED
    return Rejected(message, kind=kind, retry=retry)

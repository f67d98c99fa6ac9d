"""OpenTelemetry: the runs of a store as traces and metrics, over OTLP.

    async with AgentRuntime.open("app.db", agents=[agent]) as runtime:
        async with telemetry.export(runtime, endpoint="http://localhost:4318", bookmark="otel"):
            ...

It needs the extra `windlass-runtime[otel]`, which is imported when an export is created.
"""

from windlass.telemetry.exporter import (
    TelemetryExport,
    check_environment,
    export,
    export_from_environment,
    trace_metadata,
)

__all__ = [
    "TelemetryExport",
    "check_environment",
    "export",
    "export_from_environment",
    "trace_metadata",
]

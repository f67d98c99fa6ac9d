"""OpenTelemetry: the runs of a store as traces and metrics, for any collector that speaks OTLP.

    async with AgentRuntime.open("app.db", agents=[agent]) as runtime:
        async with telemetry.export(runtime, endpoint="http://localhost:4318", state_path="app.otel"):
            ...

It needs the extra `windlass[otel]`, which is imported when an export is made and not before.
"""

from windlass.telemetry.exporter import TelemetryExport as TelemetryExport
from windlass.telemetry.opening import export as export
from windlass.telemetry.opening import export_from_environment as export_from_environment
from windlass.telemetry.opening import trace_metadata as trace_metadata

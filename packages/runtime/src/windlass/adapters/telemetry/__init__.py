"""OpenTelemetry; its SDK and its exporters are the extra `otel`."""

"""OpenTelemetry export; the SDK and its exporters are the extra `otel`."""

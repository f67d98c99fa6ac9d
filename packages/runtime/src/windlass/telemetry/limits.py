"""Limits of the export of telemetry."""

from typing import Final

PAGE_RECORDS: Final = 256
"""Records that are read at once."""
BATCH_SPANS_MAX: Final = 512
"""Spans that are sent at once, apart from those that one record ends."""
BATCH_CHARS_MAX: Final = 1_000_000
"""Characters of attributes that are sent at once, apart from those of one record."""
SESSIONS_KEPT_MAX: Final = 2_000
"""Sessions with a run under way that are kept in memory; others are read again when they go on."""
CONTEXTS_KEPT_MAX: Final = 2_000
"""Traces of runs that are kept in memory for their subagents."""
ANCESTORS_MAX: Final = 32
"""How far up the trace of a subagent is looked for."""
MOMENTS_PER_SPAN_MAX: Final = 128
ATTRIBUTE_CHARS_MAX: Final = 1_024
CONTENT_CHARS_MAX: Final = 16_384
"""Of messages, arguments or a result on one span."""
MESSAGES_PER_STEP_MAX: Final = 64
"""Messages, and calls, that are kept for the content of one step."""

PAUSE_S: Final = 5.0
"""Between two looks at the journal, unless OTEL_BSP_SCHEDULE_DELAY says otherwise."""
METRICS_S: Final = 60.0
"""Between two reports of metrics, unless OTEL_METRIC_EXPORT_INTERVAL says otherwise."""
RETRY_FIRST_S: Final = 1.0
"""Before the second attempt at a batch; each wait is twice the one before it."""
RETRY_MAX_S: Final = 60.0
CLOSE_S: Final = 5.0
"""How long closing waits for the collector."""

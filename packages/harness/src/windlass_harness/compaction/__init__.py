"""Keeping a history inside the model's window.

`should_compact` says when, `plan` says how, `summary_request` is the prompt of the one model call that a plan
may need, and `apply` returns the new history. All of it is pure; the journal keeps the full history.
"""

from windlass_harness.compaction.planning import (
    CompactionPlan,
    apply,
    completed_data,
    fit_summary,
    plan,
    plan_eviction,
)
from windlass_harness.compaction.prompt import summary_request
from windlass_harness.compaction.shape import compact
from windlass_harness.compaction.tokens import Estimate, estimate_tokens, input_tokens, should_compact

__all__ = [
    "CompactionPlan",
    "Estimate",
    "apply",
    "compact",
    "completed_data",
    "estimate_tokens",
    "fit_summary",
    "input_tokens",
    "plan",
    "plan_eviction",
    "should_compact",
    "summary_request",
]

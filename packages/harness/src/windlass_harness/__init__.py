"""Pure rules of Windlass: the same input gives the same output.

Each name is imported on first access; the modules can also be imported directly.
"""

from typing import TYPE_CHECKING

from windlass_protocol.lazy import lazy_names as _lazy_names

if TYPE_CHECKING:
    from windlass_harness import budget as budget
    from windlass_harness import compaction as compaction
    from windlass_harness import completion as completion
    from windlass_harness import policy as policy
    from windlass_harness import redact as redact
    from windlass_harness import retry as retry
    from windlass_harness import shell as shell
    from windlass_harness import tracing as tracing
    from windlass_harness import views as views
    from windlass_harness.budget import Budget as Budget
    from windlass_harness.budget import BudgetState as BudgetState
    from windlass_harness.budget import consume_budget as consume_budget
    from windlass_harness.budget import exceeded as exceeded
    from windlass_harness.budget import remaining as remaining
    from windlass_harness.budget import would_exceed as would_exceed
    from windlass_harness.completion import is_terminal_result as is_terminal_result
    from windlass_harness.policy import CallFacts as CallFacts
    from windlass_harness.policy import PolicySet as PolicySet
    from windlass_harness.policy import Rule as Rule
    from windlass_harness.policy import decide_tool_mode as decide_tool_mode
    from windlass_harness.redact import Redactor as Redactor
    from windlass_harness.redact import sanitize_for_trace as sanitize_for_trace
    from windlass_harness.retry import ErrorFacts as ErrorFacts
    from windlass_harness.retry import RetryPolicy as RetryPolicy
    from windlass_harness.retry import classify_error as classify_error
    from windlass_harness.retry import next_retry_delay_ms as next_retry_delay_ms
    from windlass_harness.retry import should_retry as should_retry
    from windlass_harness.shell import ShellConfig as ShellConfig
    from windlass_harness.shell import ShellReason as ShellReason
    from windlass_harness.shell import ShellVerdict as ShellVerdict
    from windlass_harness.shell import classify_shell_command as classify_shell_command

__version__ = "0.1.0"

_HOMES = {
    "windlass_harness": (
        "budget",
        "compaction",
        "completion",
        "policy",
        "redact",
        "retry",
        "shell",
        "tracing",
        "views",
    ),
    "windlass_harness.budget": (
        "Budget",
        "BudgetState",
        "consume_budget",
        "exceeded",
        "remaining",
        "would_exceed",
    ),
    "windlass_harness.completion": ("is_terminal_result",),
    "windlass_harness.policy": (
        "CallFacts",
        "PolicySet",
        "Rule",
        "decide_tool_mode",
    ),
    "windlass_harness.redact": (
        "Redactor",
        "sanitize_for_trace",
    ),
    "windlass_harness.retry": (
        "ErrorFacts",
        "RetryPolicy",
        "classify_error",
        "next_retry_delay_ms",
        "should_retry",
    ),
    "windlass_harness.shell": (
        "ShellConfig",
        "ShellReason",
        "ShellVerdict",
        "classify_shell_command",
    ),
}

__getattr__, __dir__ = _lazy_names(__name__, _HOMES)

"""Options of a harness in tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from windlass.agent.dynamic import Dynamic
from windlass.agent.hooks import EventHook, Hook
from windlass.agent.sandbox import Bubblewrap, NoSandbox
from windlass.ports.host import ToolPolicy
from windlass.ports.interpreter import Interpreter
from windlass.ports.model import LLMProvider
from windlass.ports.sandbox import SandboxAdapter
from windlass.ports.store import ContentStore
from windlass.steps import Grammar, HandleEvent, HarnessTool
from windlass_harness.budget import Budget
from windlass_harness.redact import Redactor
from windlass_harness.retry import RetryPolicy
from windlass_protocol import ModelMessage, ModelReference, RunMode, RuntimeIdentity, SessionCapabilities


class Options(TypedDict, total=False):
    """Fields of a configuration."""

    mode: RunMode
    tools: Mapping[str, HarnessTool]
    resolve_model: Callable[[ModelReference], LLMProvider]
    handle_event: HandleEvent | None
    capabilities: SessionCapabilities
    on_compaction: Callable[[], Sequence[ModelMessage]]
    runtime_identity: RuntimeIdentity
    code_mode: bool
    workflow: bool
    interpreter: Interpreter
    sandbox: Bubblewrap | NoSandbox
    sandboxes: Mapping[str, SandboxAdapter]
    policy: ToolPolicy
    budget: Budget | None
    retry: RetryPolicy
    output_repairs_max: int
    redactor: Redactor
    content: ContentStore
    hooks: Sequence[Hook | EventHook]
    dynamic_instructions: Dynamic
    dynamic_tools: Sequence[Dynamic]
    dynamic_skills: Sequence[Dynamic]
    attempt: int
    grammar: Grammar

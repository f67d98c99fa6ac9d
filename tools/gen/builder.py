"""The methods of `AgentRuntimeBuilder`, one for each part that it takes, from the options of a runtime."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HEAD: Final = '''"""The builder of a runtime. Generated from the options by `make gen`; do not edit."""

from collections.abc import Iterable, Mapping
from typing import Self, TypeVar

from windlass.agent.agent import AnyAgent
from windlass.agent.hooks import Hook
from windlass.ports.feed import EventBus
from windlass.ports.host import ApprovalDispatcher, OutputSink, PackageResolver, StartPolicy, ToolPolicy
from windlass.ports.model import LLMProvider
from windlass.ports.store import ContentStore, Store
from windlass.refusals import check_name
from windlass.runtime.assembly import Assembly
from windlass.runtime.registry import ToolRoute
from windlass.tools import AnyTool
from windlass_protocol import RuntimePackage

R = TypeVar("R")


class AgentRuntimeBuilder(Assembly[R]):
    """Makes a runtime part by part; each method is an option of the same meaning, see `PartOptions`."""
'''
_LINE_CHARS_MAX: Final = 110
WHOLE: Final = {
    "providers": "providers",
    "package_resolver": "package_resolver",
    "default_package": "default_package",
    "default_package_id": "default_package_id",
    "journal": "journal",
    "event_bus": "event_bus",
    "content": "content",
    "policy": "start_policy",
    "tool_routes": "tool_routes",
    "tool_executors": "tool_executors",
    "tool_policy": "tool_policy",
    "approval_dispatcher": "approval_dispatcher",
    "shared_approval_dispatcher": "approval_dispatcher",
    "hook_executor_registry": "hooks",
}
"""Methods that take the value of an option; their names are those of agent-sdk, see docs/origins.md."""
ONE_OF: Final = {
    "agent": "agents",
    "package": "packages",
    "output_sink": "output_sinks",
    "tool_route": "tool_routes",
    "tool_executor": "tool_executors",
}
"""Methods that take one item of an option."""


def builder_file(module: Path) -> str:
    """Return the text of the builder; `module` declares the options."""
    options = dict(_options(ast.parse(module.read_text("utf-8"))))
    _, words = options["providers"]
    methods = [_method("provider", "route_id: str, provider: LLMProvider", f"One of `providers`: {words}")]
    methods.append('        name = check_name(route_id, "route_id")\n')
    methods.append("        return self.options(replace=replace, providers={name: provider})\n")
    for method, option in WHOLE.items():
        kind, words = options[option]
        methods.append(_method(method, f"{option}: {kind}", f"`{option}`: {words}"))
        methods.append(f"        return self.options(replace=replace, {option}={option})\n")
    for method, option in ONE_OF.items():
        kind, words = options[option]
        item = kind.removeprefix("Iterable[").removesuffix("]")
        methods.append(_method(method, f"{method}: {item}", f"One of `{option}`: {words}"))
        methods.append(f"        return self.options(replace=replace, {option}=[{method}])\n")
    return HEAD + "".join(methods)


def _options(module: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the options of a module, each with its type and the first clause of its description."""
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    for declared in (node for node in classes if node.name in ("RuntimeOptions", "PartOptions")):
        for field, text in itertools.pairwise(declared.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                words = ast.literal_eval(text.value)
                yield ast.unparse(field.target), (ast.unparse(field.annotation), _clause(words))


def _clause(words: str) -> str:
    clause = " ".join(re.split(r"[.;](?:\s|$)", words)[0].split())
    return f"{clause[0].lower()}{clause[1:]}"


def _method(name: str, parameters: str, words: str) -> str:
    head = f"    def {name}(self, {parameters}, *, replace: bool = False) -> Self:"
    if len(head) > _LINE_CHARS_MAX:
        head = f"    def {name}(\n        self, {parameters}, *, replace: bool = False\n    ) -> Self:"
    return f'\n{head}\n        """{words}."""\n'

"""A model asks for a shell command: read it, grade it, let policy decide."""

from windlass_harness import (
    Budget,
    BudgetState,
    CallFacts,
    PolicySet,
    Rule,
    classify_shell_command,
    consume_budget,
    policy,
)
from windlass_protocol import ToolCall, ToolMode, decode

rules = PolicySet((Rule("reads-are-fine", "allow", tools=("shell",), max_shell="safe"),))
budget, limits = BudgetState(), Budget(max_tool_calls=2)

for wire in (
    b'{"id": "c1", "name": "shell", "arguments": {"command": "grep -rn TODO src | head"}}',
    b'{"id": "c2", "name": "shell", "arguments": {"command": "env X=1 bash -c \'rm -rf build\'"}}',
):
    call = decode(ToolCall, wire)
    verdict = classify_shell_command(str(call.arguments["command"]))
    facts = CallFacts(call.name, ToolMode.LOCAL, shell=verdict.severity, arguments=call.arguments)
    decision = policy.decide(rules, facts, is_attended=True)
    print(f"{call.id}: {verdict.severity} ({verdict.category}) -> {decision.decision}: {decision.reason}")
    budget, exhausted = consume_budget(budget, limits, tool_call=True)

print(f"{budget.tool_calls_used} of {limits.max_tool_calls} calls used, exhausted: {exhausted}")

"""Assignments: variables set by an assignment, a loop, a builtin or an expression."""

from windlass_harness.shell.arithmetic import evaluate_number, grade_setting
from windlass_harness.shell.scene import Call, Field
from windlass_harness.shell.tables_names import INTEGER_VARIABLES


def set_variable(call: Call, name: str, *, value: tuple[Field, ...]) -> None:
    """Set a variable and report what that means; a number is evaluated."""
    grade_setting(call, name, is_prefix=False)
    if name in call.scene.integers or name in INTEGER_VARIABLES:
        for field in value:
            evaluate_number(field.text, call.scene, engine=call.engine)
    call.scene.assign(name, value)

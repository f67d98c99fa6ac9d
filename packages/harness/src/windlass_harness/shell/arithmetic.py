"""Text that the shell evaluates as a number, or as a name with a subscript.

Both can run commands: a subscript is expanded, and the value of a variable is evaluated again.
"""

from windlass_harness.shell.paths import matches_exactly
from windlass_harness.shell.scene import UNKNOWNS, Call, Engine, Scene
from windlass_harness.shell.tables_names import EXECUTING_SETTINGS, HARMLESS_SETTINGS
from windlass_protocol.lazy import lazy_pattern

_IDENTIFIER = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def grade_setting(call: Call, name: str, *, is_prefix: bool) -> None:
    """Report what setting a variable means; a prefix reaches the command after it."""
    if name in HARMLESS_SETTINGS:
        return
    if matches_exactly(name, EXECUTING_SETTINGS):
        call.note("destructive/env-exec")
    elif is_prefix:
        call.note("unknown/env")


def evaluate_number(text: str, scene: Scene, *, engine: Engine) -> None:
    """Grade what evaluating a number runs, through every variable that it names."""
    pending = [text]
    seen: set[str] = set()
    for current in pending:
        engine.spend()
        engine.evaluate_text(current, scene)
        if any(mark in current for mark in UNKNOWNS):
            engine.note("unknown/dynamic", current)
        for name in _IDENTIFIER.findall(current):
            if name not in seen:
                seen.add(name)
                # An expression may set what it names.
                grade_setting(Call(name, (), scene, engine, text), name, is_prefix=False)
                for value in scene.values.get(name, ()):
                    pending.append(value.text)
                    if value.is_glob:
                        engine.note("unknown/dynamic", name)


def evaluate_name(text: str, scene: Scene, *, engine: Engine) -> None:
    """Grade what evaluating a variable's name runs: its subscript is a number."""
    name, bracket, subscript = text.partition("[")
    if any(mark in name for mark in UNKNOWNS):
        engine.note("unknown/dynamic", text)
    if bracket:
        evaluate_number(subscript, scene, engine=engine)

"""The grader: walks the parsed program and grades every command in it."""

from collections.abc import Sequence
from dataclasses import replace

from windlass_harness.shell.arithmetic import evaluate_name, evaluate_number, grade_setting
from windlass_harness.shell.commands import grade_call
from windlass_harness.shell.dynamic import grade_dynamic
from windlass_harness.shell.expand import expand_joined, expand_word
from windlass_harness.shell.lexer import ASSIGNMENT, Source, read_text
from windlass_harness.shell.limits import CALLS_DEEP_MAX, LOOP_ITEMS_MAX
from windlass_harness.shell.model import Severity
from windlass_harness.shell.parser import parse_list, parse_program
from windlass_harness.shell.paths import base_name
from windlass_harness.shell.redirects import apply_redirects
from windlass_harness.shell.rules import RULES
from windlass_harness.shell.scene import (
    COMPUTED,
    FETCHED,
    UNKNOWNS,
    UNSET,
    Call,
    Field,
    Scene,
    field_of,
)
from windlass_harness.shell.settings import set_variable
from windlass_harness.shell.tables_runners import SHELLS
from windlass_harness.shell.tree import (
    Arithmetic,
    ArrayLiteral,
    Budget,
    Compound,
    Parameter,
    Part,
    Pipeline,
    Script,
    ShellSyntaxError,
    Simple,
    TooMuchWork,
    Word,
)
from windlass_protocol.lazy import lazy_pattern

Finding = tuple[str, str]
"""A category and the offending text."""

_SEPARATORS = lazy_pattern(r"[;&|\n(){}`]+|\$\(")
_QUOTES = lazy_pattern(r"['\"\\]")
_EXPANSION = lazy_pattern(r"`|\$[({\[A-Za-z_0-9@*]")
_COUNTER = lazy_pattern(r"\b([A-Za-z_][A-Za-z0-9_]*)\s*=(?!=)")
_NUMBER_TESTS = frozenset("-eq -ne -lt -le -gt -ge".split())
_IDENTIFIER = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")


def severity_of(category: str) -> Severity:
    """Return how bad a category is."""
    return "dangerous" if category.startswith(("destructive", "read/")) else "caution"


class Grader:
    """Walks one program and collects findings; it is the `Engine` of the rules."""

    def __init__(self, budget: Budget, findings: list[Finding] | None = None) -> None:
        self._budget = budget
        self.findings: list[Finding] = findings if findings is not None else []
        self.simple_commands: list[str] = []

    def note(self, category: str, part: str) -> None:
        """Report a finding; the category decides how bad it is."""
        if (category, part) not in self.findings:
            self.findings.append((category, part))

    def spend(self, units: int = 1) -> None:
        """Use up work."""
        self._budget.spend(units)

    def run_code(self, text: str, scene: Scene) -> str:
        """Grade text that a shell will run."""
        try:
            script = parse_program(text, self._budget, depth=scene.depth + 1)
        except ShellSyntaxError:
            self.note("unknown/parse", text)
            self.scan(text, scene)
            return COMPUTED
        scene.depth += 1
        output = self.run_script(script, scene)
        scene.depth -= 1
        return output

    def scan(self, text: str, scene: Scene) -> None:
        """Look for dangerous commands in text that is not a program."""
        for segment in _SEPARATORS.split(text):
            words = [field_of(word) for word in _QUOTES.sub("", segment).split()]
            for start in range(min(len(words), 4)):
                if self.is_dangerous(words[start:], scene):
                    self.note("destructive", segment.strip())
                    break

    def run_script(self, script: Script, scene: Scene) -> str:
        """Grade a parsed program; return what it may print."""
        output = ""
        start_depth = scene.folder_depth
        settled: dict[str, tuple[Field, ...]] | None = None
        for item in script.items:
            target = scene.copy() if item.operator == "&" else scene
            output += self._run_pipeline(item.pipeline, target)
            if settled is None:
                settled = dict(scene.values)
            elif item.operator != "&&":
                # A command after `&&` or `||` may not run.
                self._blur(settled, scene)
            if item.operator not in ("&&", "||"):
                settled = None
            if item.operator != "&&":
                scene.folder_depth = min(scene.folder_depth, start_depth)
        return output

    def _run_pipeline(self, pipeline: Pipeline, scene: Scene) -> str:
        if len(pipeline.commands) == 1:
            return self._run_command(pipeline.commands[0], scene)
        stdin = scene.stdin
        for command in pipeline.commands:
            stage = scene.copy()
            stage.stdin = stdin
            stdin = self._run_command(command, stage)
        return stdin or ""

    def _run_command(self, command: Simple | Compound, scene: Scene) -> str:
        self.spend()
        if isinstance(command, Simple):
            return self._run_simple(command, scene)
        if command.kind == "function":
            self._define(command, scene)
            return ""
        outer = scene.stdin
        prints = apply_redirects(command.redirects, scene, engine=self, raw=command.raw)
        inner = scene.copy() if command.kind in ("subshell", "coproc") else scene
        output = self._run_compound(command, inner)
        scene.stdin = outer
        return output if prints else ""

    def _define(self, function: Compound, scene: Scene) -> None:
        """Remember a function; its use of its arguments is graded when it is called."""
        scene.functions[function.name] = function
        trial = self._trial()
        inner = scene.copy()
        inner.calls = (*scene.calls, function.name)
        trial.run_script(function.bodies[0], inner)
        self.simple_commands.extend(trial.simple_commands)
        for category, part in trial.findings:
            if severity_of(category) == "dangerous":
                self.note(category, part)

    def _run_compound(self, command: Compound, scene: Scene) -> str:
        match command.kind:
            case "for":
                return self._run_for(command, scene)
            case "arithmetic":
                self.arithmetic(Arithmetic(command.words[0].parts), scene)
                return ""
            case "condition":
                self._run_condition(command, scene)
                return ""
            case "if" | "case" | "loop":
                for word in command.words:
                    expand_joined(word, scene, engine=self)
                return self._run_branches(command, scene)
            case _:
                return self.run_script(command.bodies[0], scene)

    def _run_branches(self, command: Compound, scene: Scene) -> str:
        output = ""
        if command.kind == "loop" and _never_fails(command.bodies[0]):
            self.note("unknown/endless", command.raw)
        # A variable set in one pass of a loop may be run in the next.
        for _ in range(2 if command.kind == "loop" else 1):
            for body in command.bodies:
                before = dict(scene.values)
                output += self.run_script(body, scene)
                self._blur(before, scene)
        return output

    def _blur(self, before: dict[str, tuple[Field, ...]], scene: Scene) -> None:
        """After a branch that may not have run, a variable it set may hold either value."""
        for name, value in scene.values.items():
            if [f.text for f in before.get(name, ())] != [f.text for f in value]:
                scene.values[name] = (Field(COMPUTED, "", is_sure=False),)

    def _run_for(self, command: Compound, scene: Scene) -> str:
        if not command.name:
            self.arithmetic(Arithmetic(command.words[0].parts), scene)
            for name in _COUNTER.findall(command.raw.partition("))")[0]):
                scene.assign(name, (field_of("0"),))
            return self.run_script(command.bodies[0], scene)
        items: list[Field] = []
        for word in command.words:
            if not word.parts:
                items.extend(scene.positional or (Field(UNSET, word.raw, is_sure=False),))
            items.extend(expand_word(word, scene, engine=self))
        if len(items) > LOOP_ITEMS_MAX:
            items = [*items[:LOOP_ITEMS_MAX], Field(COMPUTED, command.raw, is_sure=False)]
        output = ""
        if len(items) == 1 and not items[0].is_known:
            items = items * 2
        call = Call(command.name, (), scene, self, command.raw)
        for item in items:
            set_variable(call, command.name, value=(item,))
            output += self.run_script(command.bodies[0], scene)
        return output

    def _run_condition(self, command: Compound, scene: Scene) -> None:
        texts: list[str] = []
        for word in command.words:
            fields = expand_word(word, scene, engine=self)
            for found in fields:
                self.evaluate_text(found.text, scene)
            texts.append(" ".join([*(found.text for found in fields), *_parameters(word.parts)]))
        for before, text, after in zip(["", *texts], texts, [*texts[1:], ""], strict=False):
            if text in _NUMBER_TESTS:
                evaluate_number(before, scene, engine=self)
                evaluate_number(after, scene, engine=self)
            elif text == "-v":
                evaluate_name(after, scene, engine=self)

    def _run_simple(self, command: Simple, scene: Scene) -> str:
        fields: list[Field] = []
        for word in command.words:
            fields.extend(expand_word(word, scene, engine=self))
        outer = scene.stdin
        prints = apply_redirects(
            command.redirects, scene, engine=self, raw=command.raw, is_empty=not command.words
        )
        if not fields:
            self._assign_all(command.assigns, scene, is_prefix=False)
            # `$(<file)` prints the file.
            printed = scene.stdin if command.redirects and not command.assigns else ""
            scene.stdin = outer
            return printed or ""
        self.simple_commands.append(" ".join(found.text for found in fields))
        if command.words[0].raw != fields[0].text and not any(mark in fields[0].text for mark in UNKNOWNS):
            self.note("unknown/quoting", command.words[0].raw)
        self._assign_all(command.assigns, scene, is_prefix=True)
        output = self.run_words(fields, scene)
        if FETCHED in output and not prints:
            scene.fetched.update(base_name(redirect.target.raw) for redirect in command.redirects)
        scene.stdin = outer
        return output if prints else ""

    def _assign_all(self, assigns: Sequence[Word], scene: Scene, *, is_prefix: bool) -> None:
        for word in assigns:
            name = self._assign(word, scene)
            if is_prefix:
                grade_setting(Call(name, (), scene, self, word.raw), name, is_prefix=True)

    def _assign(self, word: Word, scene: Scene) -> str:
        found = ASSIGNMENT.match(word.raw)
        head = found.group() if found else word.raw
        name = _IDENTIFIER.match(head)
        variable = name.group() if name else head
        joined = expand_joined(word, scene, engine=self)
        value = (Field(joined.text[len(head) :], word.raw, is_sure=joined.is_sure),)
        is_list = isinstance(word.parts[-1], ArrayLiteral)
        if isinstance(word.parts[-1], ArrayLiteral):
            value = tuple(f for inner in word.parts[-1].words for f in expand_word(inner, scene, engine=self))
        old = scene.values.get(variable, ())
        if "[" in head:
            value = (*old, *value)
        elif head.endswith("+="):
            text = "".join(f.text for f in old)
            value = (*old, *value) if is_list else (Field(text + value[0].text, word.raw),)
        if "[" in head or any(f.text.startswith("[") for f in value):
            # Where an element lands is not known for sure, and its subscript is evaluated.
            for text in (head, *(f.text.partition("]")[0] for f in value if f.text.startswith("["))):
                evaluate_name(text, scene, engine=self)
            value = tuple(replace(f, is_sure=False) for f in value)
        set_variable(Call(variable, (), scene, self, word.raw), variable, value=value)
        return variable

    def run_words(self, fields: Sequence[Field], scene: Scene) -> str:
        """Grade a command given as its words; return what it may print."""
        self.spend(2 + len(fields))
        if scene.calls_deep >= CALLS_DEEP_MAX:
            raise TooMuchWork
        scene.calls_deep += 1
        output = self._run_fields(fields, scene)
        scene.calls_deep -= 1
        return output

    def _run_fields(self, fields: Sequence[Field], scene: Scene) -> str:
        head, args = fields[0], tuple(fields[1:])
        raw = " ".join(found.text for found in fields)
        if args and head.is_sure and ASSIGNMENT.match(head.text):
            name = head.text.partition("=")[0]
            grade_setting(Call(name, (), scene, self, head.raw), name, is_prefix=True)
            return self.run_words(args, scene)
        if head.text.startswith(("!", ":!")) and len(head.text) > 1:
            return self._run_escape(fields, scene)
        if not head.is_known:
            return grade_dynamic(Call(head.text, args, scene, self, raw), head)
        if head.text in scene.aliases and scene.expands_aliases:
            self.run_code(scene.aliases[head.text] + " " + " ".join(arg.text for arg in args), scene)
        function = scene.functions.get(head.text)
        if function is not None:
            self._note_shadowed(Call(head.text, args, scene, self, raw))
            return self._run_function(function, args, scene)
        return grade_call(Call(head.text, args, scene, self, raw), RULES)

    def _run_escape(self, fields: Sequence[Field], scene: Scene) -> str:
        """`!cmd` is history to a shell, and a command to many interactive programs."""
        self.note("unknown/history", fields[0].raw)
        words = [word for word in (field_of(fields[0].text.lstrip(":!")), *fields[1:]) if word.text]
        is_program = len(words) > 1 or any("/" in word.text or word.text in SHELLS for word in words)
        if is_program and self.is_dangerous(words, scene):
            self.note("destructive/shell", fields[0].raw)
        return COMPUTED

    def _note_shadowed(self, call: Call) -> None:
        """A function may not have been defined, or may be gone.

        What its name means otherwise counts.
        """
        trial = self._trial()
        inner = call.scene.copy()
        inner.is_trial = True
        grade_call(Call(call.name, call.args, inner, trial, call.raw), RULES)
        for category, part in trial.findings:
            if category != "unknown/program":
                self.note(category, part)

    def _run_function(self, function: Compound, args: tuple[Field, ...], scene: Scene) -> str:
        if function.name in scene.calls:
            self.note("destructive/process", function.raw)
            return COMPUTED
        inner = scene.copy()
        inner.positional = args
        inner.calls = (*scene.calls, function.name)
        output = self.run_script(function.bodies[0], inner)
        scene.values, scene.functions, scene.aliases = inner.values, inner.functions, inner.aliases
        scene.folder, scene.folder_depth = inner.folder, min(scene.folder_depth, inner.folder_depth)
        scene.is_outside = scene.is_outside or inner.is_outside
        return output

    def is_dangerous(self, fields: Sequence[Field], scene: Scene) -> bool:
        """Say whether these words, as a command, are dangerous; reports nothing."""
        trial = self._trial()
        inner = scene.copy()
        inner.is_trial = True
        trial.run_words(fields, inner)
        return trial.found_danger()

    def is_dangerous_code(self, text: str, scene: Scene) -> bool:
        """Say whether this text, as a program, is dangerous; reports nothing."""
        trial = self._trial()
        trial.run_code(text, scene.copy())
        return trial.found_danger()

    def _trial(self) -> "Grader":
        return Grader(self._budget)

    def found_danger(self) -> bool:
        """Say whether any finding is dangerous."""
        return any(severity_of(category) == "dangerous" for category, _ in self.findings)

    def arithmetic(self, expression: Arithmetic, scene: Scene) -> None:
        """Grade what an arithmetic expression runs."""
        text = expand_joined(Word(expression.parts, ""), scene, engine=self).text
        evaluate_number(" ".join([text, *_parameters(expression.parts)]), scene, engine=self)

    def evaluate_text(self, text: str, scene: Scene) -> None:
        """Grade the expansions of text that is expanded a second time."""
        if not _EXPANSION.search(text):
            return
        self.note("unknown/dynamic", text)
        source = Source(text, self._budget, parse_list, depth=scene.depth)
        try:
            word = read_text(source)
        except ShellSyntaxError:
            self.scan(text, scene)
            return
        expand_joined(word, scene.copy(), engine=self)


def _parameters(parts: Sequence[Part]) -> list[str]:
    """Return the names of the variables in a word."""
    return [part.name for part in parts if isinstance(part, Parameter)]


def _never_fails(condition: Script) -> bool:
    commands = condition.items[-1].pipeline.commands
    last = commands[-1] if commands else None
    return isinstance(last, Simple) and [word.raw for word in last.words] in (["true"], [":"], ["false"])

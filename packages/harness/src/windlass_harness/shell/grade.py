"""The walk over a program: every command node is graded, wherever it hides."""

import re
from collections.abc import Sequence

from windlass_harness.shell.commands import grade_call
from windlass_harness.shell.dynamic import grade_dynamic
from windlass_harness.shell.effects import read_path, write_path
from windlass_harness.shell.expand import expand_joined, expand_word
from windlass_harness.shell.lexer import ASSIGNMENT, Source, read_text
from windlass_harness.shell.limits import CALLS_DEEP_MAX, LOOP_ITEMS_MAX
from windlass_harness.shell.model import Severity
from windlass_harness.shell.parser import parse_list, parse_program
from windlass_harness.shell.paths import base_name
from windlass_harness.shell.rules import RULES
from windlass_harness.shell.scene import (
    COMPUTED,
    FETCHED,
    NAMES,
    UNKNOWNS,
    UNSET,
    Call,
    Field,
    Scene,
    field_of,
)
from windlass_harness.shell.settings import grade_setting
from windlass_harness.shell.tables_runners import SHELLS
from windlass_harness.shell.tree import (
    Arithmetic,
    ArrayLiteral,
    Budget,
    Compound,
    Pipeline,
    Redirect,
    Script,
    ShellSyntaxError,
    Simple,
    TooMuchWork,
    Word,
)

Finding = tuple[str, str]
"""A category and the offending text."""

_SEPARATORS = re.compile(r"[;&|\n(){}`]+|\$\(")
_QUOTES = re.compile(r"['\"\\]")
_EXPANSION = re.compile(r"`|\$[({\[A-Za-z_0-9@*]")
_COUNTER = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)\s*=(?!=)")
_SILENT = re.compile(r"(?::|true|false|cat\s*0?<?\s*/dev/null|echo -n(?: ''| \"\")?|printf (?:''|\"\"|%s))$")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
        for item in script.items:
            target = scene.copy() if item.operator == "&" else scene
            output += self._run_pipeline(item.pipeline, target)
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
        prints = self._redirect(command.redirects, scene, command.raw)
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
        # What one pass of a loop sets, the next one may run.
        for _ in range(2 if command.kind == "loop" else 1):
            for body in command.bodies:
                before = dict(scene.values)
                output += self.run_script(body, scene)
                self._blur(before, scene)
        return output

    def _blur(self, before: dict[str, tuple[Field, ...]], scene: Scene) -> None:
        """After a branch that may not have run, a variable it set may hold either value."""
        for name, value in scene.values.items():
            if name in before and [f.text for f in before[name]] != [f.text for f in value]:
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
        for item in items:
            scene.assign(command.name, (item,))
            output += self.run_script(command.bodies[0], scene)
        return output

    def _run_condition(self, command: Compound, scene: Scene) -> None:
        for word in command.words:
            for found in expand_word(word, scene, engine=self):
                self.evaluate_text(found.text, scene)

    def _run_simple(self, command: Simple, scene: Scene) -> str:
        fields: list[Field] = []
        for word in command.words:
            fields.extend(expand_word(word, scene, engine=self))
        outer = scene.stdin
        prints = self._redirect(command.redirects, scene, command.raw, is_empty=not command.words)
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
            grade_setting(Call(name, (), scene, self, word.raw), name, is_prefix=is_prefix)

    def _assign(self, word: Word, scene: Scene) -> str:
        found = ASSIGNMENT.match(word.raw)
        head = found.group() if found else word.raw
        name = _IDENTIFIER.match(head)
        variable = name.group() if name else head
        joined = expand_joined(word, scene, engine=self)
        value = (Field(joined.text[len(head) :], word.raw, is_sure=joined.is_sure),)
        if isinstance(word.parts[-1], ArrayLiteral):
            value = tuple(f for inner in word.parts[-1].words for f in expand_word(inner, scene, engine=self))
        if "[" in head:
            self.evaluate_text(head, scene)
        if head.endswith("+=") or "[" in head:
            value = (
                (*scene.values.get(variable, ()), *value)
                if isinstance(word.parts[-1], ArrayLiteral) or "[" in head
                else (
                    Field("".join(f.text for f in scene.values.get(variable, ())) + value[0].text, word.raw),
                )
            )
        scene.assign(variable, value)
        return variable

    def _redirect(
        self, redirects: Sequence[Redirect], scene: Scene, raw: str, *, is_empty: bool = False
    ) -> bool:
        """Grade redirections and set the input; say whether output still flows on."""
        prints = True
        for redirect in redirects:
            call = Call("redirect", (), scene, self, raw)
            if redirect.body is not None:
                _feed(scene, redirect, expand_joined(redirect.body, scene, engine=self).text)
                continue
            target = expand_joined(redirect.target, scene, engine=self)
            if redirect.operator == "<<<":
                _feed(scene, redirect, target.text + "\n")
            elif redirect.operator in ("<&", ">&") and re.fullmatch(r"[0-9]+-?|-", target.text):
                continue
            elif redirect.operator in ("<", "<&"):
                read_path(call, target)
                is_empty_file = target.text == "/dev/null"
                _feed(scene, redirect, "" if is_empty_file else scene.pipes.get(target.text, COMPUTED))
            else:
                truncates = is_empty or (redirect.operator in (">", ">|") and _prints_nothing(raw))
                write_path(call, target, truncates=truncates and redirect.operator != ">>")
                prints = prints and redirect.descriptor not in ("", "1")
        return prints

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

    def _run_function(self, function: Compound, args: tuple[Field, ...], scene: Scene) -> str:
        if function.name in scene.calls:
            self.note("destructive/process", function.raw)
            return COMPUTED
        inner = scene.copy()
        inner.positional = args
        inner.calls = (*scene.calls, function.name)
        output = self.run_script(function.bodies[0], inner)
        scene.values = inner.values
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
        self.evaluate_text(text, scene)
        for name in _IDENTIFIER.findall(text):
            for value in scene.values.get(name, ()):
                self.evaluate_text(value.text, scene)
                if value.holds(UNSET, COMPUTED, NAMES):
                    self.note("unknown/dynamic", name)

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


def _feed(scene: Scene, redirect: Redirect, text: str) -> None:
    """Give a command its input, or another descriptor its text."""
    if redirect.descriptor in ("", "0"):
        scene.stdin = text
    else:
        scene.pipes[f"/dev/fd/{redirect.descriptor}"] = text


def _never_fails(condition: Script) -> bool:
    commands = condition.items[-1].pipeline.commands
    last = commands[-1] if commands else None
    return isinstance(last, Simple) and [word.raw for word in last.words] in (["true"], [":"], ["false"])


def _prints_nothing(raw: str) -> bool:
    return _SILENT.match(raw.partition(">")[0].strip()) is not None

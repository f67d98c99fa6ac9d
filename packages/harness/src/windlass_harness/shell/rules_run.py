"""Programs that run programs or program text: shells, interpreters, xargs, find."""

import re

from windlass_harness.shell.arithmetic import grade_setting
from windlass_harness.shell.commands import (
    check_arguments,
    grade_suffixes,
    grade_wrapper,
    is_dangerous_name,
    program_name,
)
from windlass_harness.shell.effects import (
    apply_options,
    check_text,
    read_described,
    read_path,
    run_path,
    write_path,
)
from windlass_harness.shell.options import Arguments, describe, read_arguments
from windlass_harness.shell.paths import is_secret_path
from windlass_harness.shell.rules_find import find
from windlass_harness.shell.scene import COMPUTED, DECODED, SECRET, UNKNOWNS, Call, Field, field_of
from windlass_harness.shell.scripts import mark_in_code, mark_in_editor_commands, mark_in_sql
from windlass_harness.shell.stdin import note_origin, run_text
from windlass_harness.shell.tables_runners import INTERPRETERS, SHELL_OPTIONS, SHELLS
from windlass_harness.shell.tables_tools import (
    PARALLEL_OPTIONS,
    PYTHON_MODULES,
    SCRIPT_PROGRAMS,
    XARGS_OPTIONS,
)
from windlass_protocol.lazy import lazy_pattern

_DEBUGGERS = frozenset({"gdb", "lldb"})
_EDITORS = frozenset("vim vi nvim view rvim vimdiff ex ed red emacsclient nano".split()) | _DEBUGGERS
_DATABASES = frozenset(
    """
    sqlite3 duckdb psql mysql mariadb mongo mongosh cqlsh clickhouse-client clickhouse sqlcmd redis-cli
    """.split()
)
_TEMPLATE_STRINGS = frozenset(
    "node nodejs deno bun mysql mariadb sqlite3 mongosh mongo bq clickhouse-client".split()
)
_WORD = lazy_pattern(r"[A-Za-z0-9_./-]+\n?")
_REPLACED = lazy_pattern(r"\{\}|\{[0-9./]*\}")


def shell(call: Call) -> str:
    """A shell: its `-c` text, its script, or its input is code."""
    description = describe(SHELL_OPTIONS)
    arguments = read_arguments(description, call.args)
    apply_options(call, [option for option in arguments.options if option.sign != "$"])
    flags = {option.name for option in arguments.options}
    if flags & {"-i", "-p"} or arguments.unknown:
        call.note("destructive/shell" if flags & {"-i", "-p"} else "unknown/option")
    code = [option.value for option in arguments.options if option.sign == "$"]
    if code and code[0] is not None:
        inner = call.scene.copy()
        inner.positional = tuple(arguments.operands[1:])
        if arguments.operands:
            inner.values["0"] = (arguments.operands[0],)
        return run_text(call, code[0].text, scene=inner)
    if "-s" in flags or not arguments.operands or arguments.operands[0].text in ("-", "/dev/stdin"):
        return _shell_input(call, arguments)
    script = arguments.operands[0]
    if script.text in call.scene.pipes:
        call.note("unknown/exec")
        return run_text(call, call.scene.pipes[script.text], scene=call.scene.copy())
    run_path(call, script)
    return COMPUTED


def _shell_input(call: Call, arguments: Arguments) -> str:
    if call.scene.stdin is None:
        call.note("destructive/shell")
        return COMPUTED
    inner = call.scene.copy()
    inner.stdin = None
    inner.positional = tuple(arguments.operands)
    call.note("unknown/exec")
    return run_text(call, call.scene.stdin, scene=inner)


def inspect(call: Call, text: str) -> None:
    """Report what program text of an interpreter does beyond computing."""
    call.note("unknown/inline", text)
    if note_origin(call, text):
        return
    if call.name in _DATABASES:
        category = mark_in_sql(text)
    elif call.name in _EDITORS:
        category = mark_in_editor_commands(text) or mark_in_code(text, has_backticks=False)
    else:
        category = mark_in_code(text, has_backticks=call.name not in _TEMPLATE_STRINGS)
    if category:
        call.note(category, text)
    elif text and not text.strip("".join(UNKNOWNS) + " \n"):
        call.note("destructive/eval", text)


def interpreter(call: Call) -> str:
    """An interpreter: inline text is inspected; a script or its input is code."""
    description = describe(INTERPRETERS[call.name])
    arguments = read_arguments(description, _before_script(call))
    call.note("unknown/editor" if call.name in _EDITORS - _DEBUGGERS else "unknown/exec")
    apply_options(call, [option for option in arguments.options if option.sign != "%"])
    texts = [
        option.value.text for option in arguments.options if option.sign == "%" and option.value is not None
    ]
    for text in texts:
        inspect(call, text)
    if texts and any(option.name == "-i" and option.sign == "?" for option in arguments.options):
        for operand in arguments.operands:
            write_path(call, operand)
    reads_input = _interpret_operands(call, description.operands[0], arguments.operands, has_text=bool(texts))
    if call.scene.stdin is not None and reads_input:
        inspect(call, call.scene.stdin)
    return DECODED if call.scene.stdin is not None else COMPUTED


def _interpret_operands(call: Call, kind: str, operands: list[Field], *, has_text: bool) -> bool:
    """Grade what an interpreter runs or opens; say whether it also runs its input."""
    match kind:
        case "script":
            is_file = bool(operands) and not has_text and operands[0].text not in ("-", "/dev/stdin")
            if is_file:
                _run_script_file(call, operands)
            else:
                check_arguments(call)
            return not is_file and not has_text
        case "sql":
            for operand in operands[:1]:
                read_path(call, operand)
            for operand in operands[1:]:
                inspect(call, operand.text)
        case "path" | "code-path":
            _edit_files(call, operands)
        case "command" if operands:
            call.engine.run_words(operands, call.scene)
        case "tex":
            inspect(call, " ".join(call.texts))
        case _:
            check_arguments(call)
    return True


def _edit_files(call: Call, operands: list[Field]) -> None:
    for operand in operands:
        if operand.text.startswith("+"):
            inspect(call, operand.text[1:])
        else:
            write_path(call, operand)
    check_arguments(call)


def _run_script_file(call: Call, operands: list[Field]) -> None:
    run_path(call, operands[0])
    program = SCRIPT_PROGRAMS.get(operands[0].text.rsplit("/", 1)[-1])
    if program:
        rest = call.args[call.args.index(operands[0]) + 1 :]
        call.engine.run_words([field_of(program), *rest], call.scene)


def _before_script(call: Call) -> tuple[Field, ...]:
    """Cut the arguments after the script: what follows belongs to it."""
    description = describe(INTERPRETERS[call.name])
    if description.operands[0] != "script":
        return call.args
    arguments = read_arguments(description, call.args)
    if not arguments.operands or any(option.sign == "%" for option in arguments.options):
        return call.args
    position = call.args.index(arguments.operands[0])
    return call.args[: position + 1]


def python(call: Call) -> str:
    """Python, with the modules that are programs of their own."""
    texts = call.texts
    number = next((i for i, text in enumerate(texts) if re.fullmatch(r"-[bBdEiIOPqRsSuvx]*m.*", text)), -1)
    script = next((i for i, text in enumerate(texts) if not text.startswith("-")), len(texts))
    code = next(
        (i for i, text in enumerate(texts) if re.fullmatch(r"-[bBdEiIOPqRsSuvx]*c.*", text)), len(texts)
    )
    if number < 0 or number > script or number > code:
        return interpreter(call)
    attached = texts[number].partition("m")[2]
    rest = call.args[number + 1 :] if attached else call.args[number + 2 :]
    module = attached or (texts[number + 1] if number + 1 < len(texts) else "")
    return _python_module(call, module, rest)


def _python_module(call: Call, module: str, rest: tuple[Field, ...]) -> str:
    match PYTHON_MODULES.get(module, ""):
        case "read":
            for arg in rest[:1]:
                read_path(call, arg) if not arg.text.startswith("-") else None
            for arg in rest[1:]:
                write_path(call, arg) if not arg.text.startswith("-") else None
            return DECODED
        case "code":
            inspect(call, " ".join(arg.text for arg in rest))
        case "run":
            call.note("destructive/shell")
        case "program":
            return call.engine.run_words([field_of(module), *rest], call.scene)
        case "network":
            call.note("unknown/network")
            for arg in rest:
                check_text(call, arg)
                if arg.text.startswith("/") or is_secret_path(arg):
                    call.note("destructive/exfil", arg.raw)
        case _:
            call.note("unknown/exec")
            check_arguments(call)
    return COMPUTED


def env(call: Call) -> str:
    """Set variables, then run a command; alone, print every variable."""
    args = list(call.args)
    while args:
        text = args[0].text
        if text.startswith(("-S", "--split-string")):
            head = re.sub(r"^(?:-S|--split-string)=?", "", text)
            parts = [head] if head else []
            parts.extend(arg.text for arg in args[1:])
            return call.engine.run_code(" ".join(parts), call.scene.copy())
        if text in ("-u", "--unset", "-C", "--chdir") and len(args) > 1:
            if text in ("-C", "--chdir"):
                call.engine.run_words([field_of("cd"), args[1]], call.scene)
            args = args[2:]
        elif re.match(r"[A-Za-z_]\w*=", text):
            grade_setting(call, text.partition("=")[0], is_prefix=True)
            args = args[1:]
        elif text.startswith("-"):
            if re.fullmatch(r"-[iv0]*S", text):
                return call.engine.run_code(" ".join(arg.text for arg in args[1:]), call.scene.copy())
            if not re.fullmatch(r"-[iv0]*|--(?:ignore-environment|null|debug|unset=\w+)", text):
                call.note("unknown/option", text)
            args = args[1:]
        else:
            return call.engine.run_words(args, call.scene)
    call.note("read/secret")
    return COMPUTED


def xargs(call: Call) -> str:
    """Run a command with arguments from the input."""
    arguments = read_described(call, XARGS_OPTIONS)
    words = arguments.operands or [field_of("echo")]
    marks = [
        option.value.text if option.value else ""
        for option in arguments.options
        if option.name in ("-I", "-i", "--replace")
    ]
    added = _input_fields(call.scene.stdin, {option.name for option in arguments.options})
    if any(not found.is_known for found in added):
        call.note("unknown/dynamic")
    inner = call.scene.copy()
    inner.stdin = None
    if marks:
        mark = marks[0] or "{}"
        words = [Field(word.text.replace(mark, added[0].text), word.raw) for word in words]
    else:
        words = [*words, *added]
    if arguments.unknown:
        grade_suffixes(call)
    if len(words) == len(added) + 1 and program_name(words[0].text)[0] in SHELLS:
        call.note("destructive/shell")
    return call.engine.run_words(words, inner)


_SPLIT_OPTIONS = frozenset("-0 -d -E -e -I -i --null --delimiter --eof --replace".split())


def _input_fields(stdin: str | None, options: set[str]) -> list[Field]:
    """Return the words of the input.

    Where it is split by other rules than blanks, only one word is sure.
    """
    if stdin is None or options & {"-a", "--arg-file"}:
        return [Field(COMPUTED, "xargs")]
    # xargs takes quotes and backslashes for its own.
    if any(mark in stdin for mark in (*UNKNOWNS, *"'\"\\")) or (
        options & _SPLIT_OPTIONS and not _WORD.fullmatch(stdin)
    ):
        return [Field(SECRET if SECRET in stdin else COMPUTED, "xargs")]
    return [field_of(word) for word in stdin.split()]


def parallel(call: Call) -> str:
    """Run a command for each item; the items follow `:::` or come from the input."""
    arguments = read_described(call, PARALLEL_OPTIONS)
    texts = [field.text for field in arguments.operands]
    cut = next((number for number, text in enumerate(texts) if text.startswith(":::")), len(texts))
    command = " ".join(texts[:cut])
    items = texts[cut + 1 :] or [COMPUTED]
    call.note("unknown/program")
    for item in items[:4]:
        parts = _REPLACED.split(command)
        code = item.join(parts) if len(parts) > 1 else f"{command} {item}"
        run_text(call, code.strip(), scene=call.scene.copy())
    return COMPUTED


def remote_runner(call: Call) -> str:
    """`npx` and the like: fetch a package if needed, and run it."""
    call.note("unknown/install")
    words = [arg for arg in call.args if not arg.text.startswith("-")]
    if words and is_dangerous_name(words[0].text):
        call.note("destructive/wrapper")
    grade_suffixes(call)
    check_arguments(call)
    return COMPUTED


def loader(call: Call) -> str:
    """The dynamic linker runs the program it is given."""
    call.note("unknown/program")
    return grade_wrapper(call, "| list verify preload! audit! library-path! argv0= inhibit-cache | command")


RUNNERS = {
    **dict.fromkeys(SHELLS, shell),
    **dict.fromkeys(INTERPRETERS, interpreter),
    "python": python,
    "env": env,
    "xargs": xargs,
    "parallel": parallel,
    "find": find,
    "ld.so": loader,
}

"""Tools of the system: processes, clock, packages, schedules, terminal."""

import re

from windlass_harness.shell.commands import grade_reader
from windlass_harness.shell.effects import read_described
from windlass_harness.shell.families import grade_family
from windlass_harness.shell.scene import COMPUTED, Call
from windlass_harness.shell.stdin import run_text
from windlass_harness.shell.tables_readers import READERS
from windlass_harness.shell.tables_tools import DATE_OPTIONS, PS_OPTIONS


def ps(call: Call) -> str:
    """Processes: the bare letter `e` shows their environment."""
    args = [arg for arg in call.args if not re.fullmatch(r"[A-Za-z]+|[0-9,]+", arg.text)]
    for text in call.texts:
        if re.fullmatch(r"[A-Za-z]*e[A-Za-z]*", text) or "environ" in text or text.startswith("-E"):
            call.note("read/secret")
    read_described(call.with_args("ps", args), PS_OPTIONS)
    return COMPUTED


def date(call: Call) -> str:
    """The clock: showing it reads, anything else sets it."""
    arguments = read_described(call, DATE_OPTIONS)
    sets = any(option.name in ("-s", "--set") for option in arguments.options)
    if sets or any(unknown.text.startswith("--s") for unknown in arguments.unknown):
        call.note("destructive/perm")
    for operand in arguments.operands:
        if not operand.text.startswith("+"):
            call.note("destructive/perm", operand.raw)
    return COMPUTED


def rpm(call: Call) -> str:
    """Packages: a query reads, whatever its letters mean elsewhere."""
    is_query = any(text == "--query" or re.fullmatch(r"-[a-zA-Z]*q[a-zA-Z]*", text) for text in call.texts)
    words = [text for text in call.texts if not re.fullmatch(r"-[qailfRpcd]+", text)]
    if is_query and not grade_family(call, words):
        return grade_reader(call, READERS["rpm"])
    if not is_query and not grade_family(call):
        call.note("unknown/install")
    return COMPUTED


def ldconfig(call: Call) -> str:
    """The linker's cache: shown with -p, written by anything else."""
    if not {"-p", "--print-cache"} & set(call.texts):
        call.note("unknown/option")
    return grade_reader(call, READERS["ldconfig"])


def tput(call: Call) -> str:
    """Terminal strings."""
    if "init" in call.texts or "reset" in call.texts:
        call.note("unknown/session")
    return COMPUTED


def crontab(call: Call) -> str:
    """Scheduled commands: listing reads outside, anything else persists."""
    call.note("unknown/outside" if call.texts == ["-l"] else "destructive/persist")
    return COMPUTED


def at(call: Call) -> str:
    """Commands that run later."""
    call.note("destructive/persist")
    if call.scene.stdin is not None:
        run_text(call, call.scene.stdin, scene=call.scene.copy())
    return COMPUTED


SYSTEM = {
    "ps": ps,
    "date": date,
    "rpm": rpm,
    "ldconfig": ldconfig,
    "tput": tput,
    "crontab": crontab,
    "at": at,
    "batch": at,
}

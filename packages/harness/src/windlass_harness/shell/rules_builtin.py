"""Builtins of the shell."""

import re

from windlass_harness.shell.arithmetic import evaluate_name
from windlass_harness.shell.effects import check_text, run_path
from windlass_harness.shell.expand import is_secret_variable
from windlass_harness.shell.lexer import decode_escapes
from windlass_harness.shell.paths import is_secret_path, kind_of_path, placed, split_path
from windlass_harness.shell.rules_variables import VARIABLES
from windlass_harness.shell.scene import COMPUTED, UNKNOWNS, UNSET, Call, Field
from windlass_harness.shell.stdin import run_text
from windlass_protocol.lazy import lazy_pattern

_SET_OPTIONS = lazy_pattern(
    r"[-+][befhmnuvxBCEHTo]+|errexit|nounset|pipefail|xtrace|noglob|noclobber|verbose"
)


def echo(call: Call) -> str:
    """Print the arguments."""
    args = list(call.args)
    options = ""
    while args and re.fullmatch(r"-[neE]+", args[0].text):
        options += args.pop(0).text
    for arg in call.args:
        if arg.holds(UNSET):
            call.note("unknown/dynamic", arg.raw)
    text = " ".join(arg.text for arg in args)
    return (decode_escapes(text, is_echo=True) if "e" in options else text) + "\n"


def cd(call: Call) -> str:
    """Change the folder."""
    operands = [arg for arg in call.args if not re.fullmatch(r"-[LPe@]+|--", arg.text)]
    target = operands[0] if operands else Field("~", "~")
    kind = "outside" if target.text == "-" else kind_of_path(target, call.scene)
    if is_secret_path(placed(target, call.scene)):
        call.note("unknown/search", target.raw)
    if kind == "inside":
        ups = sum(1 for segment in split_path(target.text) if segment == "..")
        call.scene.folder = f"{call.scene.folder}/{target.text}"
        call.scene.folder_depth += len(split_path(target.text)) - 2 * ups
        return ""
    call.note("unknown/dynamic" if kind == "unknown" else "unknown/outside", target.raw)
    call.scene.is_outside = True
    call.scene.folder = target.text
    return ""


def popd(call: Call) -> str:
    """Go back to a folder that was left."""
    call.scene.is_outside = True
    call.note("unknown/outside")
    return ""


def eval_(call: Call) -> str:
    """Run the arguments as a program."""
    call.note("unknown/dynamic")
    return run_text(call, " ".join(call.texts), scene=call.scene)


def source(call: Call) -> str:
    """Run a file in this shell."""
    if call.args:
        path = call.args[0]
        if path.text in ("/dev/stdin", "-") and call.scene.stdin is not None:
            return run_text(call, call.scene.stdin, scene=call.scene)
        if path.text in call.scene.pipes:
            call.note("unknown/exec")
            return run_text(call, call.scene.pipes[path.text], scene=call.scene)
        run_path(call, path)
        if not path.text.strip("".join(UNKNOWNS)):
            call.note("destructive/eval", path.raw)
    call.note("unknown/exec")
    return COMPUTED


def trap(call: Call) -> str:
    """Run code at a signal or at the end."""
    call.note("unknown/redefine")
    if len(call.args) > 1 and not call.args[0].text.startswith("-"):
        run_text(call, call.args[0].text, scene=call.scene.copy())
    return ""


def alias(call: Call) -> str:
    """Give a name another meaning."""
    call.note("unknown/redefine")
    for arg in call.args:
        name, _, value = arg.text.partition("=")
        call.scene.aliases[name] = value
    return ""


def shopt(call: Call) -> str:
    """Change the shell's behaviour."""
    if any(re.match(r"-[a-z]*[su]", text) for text in call.texts):
        call.note("unknown/session")
        call.scene.expands_aliases = call.scene.expands_aliases or "expand_aliases" in call.texts
    return COMPUTED


def set_(call: Call) -> str:
    """Set options or the positional parameters; alone, print every variable."""
    if not call.args:
        call.note("read/secret")
    texts = call.texts
    if "--" in texts:
        call.scene.positional = call.args[texts.index("--") + 1 :]
    elif texts and not texts[0].startswith(("-", "+")):
        call.scene.positional = call.args
    elif not all(_SET_OPTIONS.fullmatch(text) for text in texts):
        # Some options make an assignment out of any word, or export what is set.
        call.note("unknown/session")
    return ""


def test(call: Call) -> str:
    """Compare; some operators evaluate their operand."""
    for before, arg in zip(("", *call.texts), call.args, strict=False):
        call.engine.evaluate_text(arg.text, call.scene)
        if before == "-v":
            evaluate_name(arg.text, call.scene, engine=call.engine)
    return ""


def harmless(call: Call) -> str:
    """Change nothing that outlives the command."""
    for arg in call.args:
        check_text(call, arg)
        call.engine.evaluate_text(arg.text, call.scene)
    return ""


def session(call: Call) -> str:
    """Change the state of the shell."""
    call.note("unknown/session")
    return ""


def kill(call: Call) -> str:
    """Send a signal."""
    if call.texts[:1] not in (["-l"], ["-L"]):
        call.note("destructive/process")
    return ""


def history(call: Call) -> str:
    """Show, rewrite or run again what was typed before."""
    options = {letter for text in call.texts if text.startswith("-") for letter in text[1:]}
    if call.name == "fc" and "l" not in options:
        call.note("destructive/eval")
    elif call.name == "history" and options & set("cdwa"):
        call.note("destructive")
    else:
        call.note("read/secret")
    return COMPUTED


def enable(call: Call) -> str:
    """Load or switch builtins."""
    call.note("destructive/tool-exec" if "-f" in call.texts else "unknown/session")
    return ""


def bind(call: Call) -> str:
    """Tie keys or completions to commands."""
    call.note("destructive/persist" if {"-x", "-C", "-F"} & set(call.texts) else "unknown/session")
    for arg in call.args:
        call.engine.evaluate_text(arg.text, call.scene)
    return COMPUTED


def command(call: Call) -> str:
    """Say where a command is, or run it."""
    if call.texts[:1] in (["-v"], ["-V"]):
        return "\n".join(call.texts[1:])
    words = call.args[1:] if call.texts[:1] == ["-p"] else call.args
    return call.engine.run_words(words, call.scene) if words else ""


def pwd(call: Call) -> str:
    """Print the working folder; it grades like `.`."""
    for arg in call.args:
        if arg.text not in ("-L", "-P"):
            call.note("unknown/option", arg.raw)
    return ".\n"


def which(call: Call) -> str:
    """Say where a program is."""
    for arg in call.args:
        check_text(call, arg)
    return "\n".join(text for text in call.texts if not text.startswith("-"))


def jobs(call: Call) -> str:
    """List jobs; with -x it runs a command."""
    if "-x" in call.texts:
        call.engine.run_words(call.args[call.texts.index("-x") + 1 :] or call.args, call.scene)
        call.note("destructive/wrapper")
    return COMPUTED


def print_variable(call: Call) -> str:
    """Print variables of the environment."""
    names = [text for text in call.texts if not text.startswith("-")]
    is_known = not any(mark in name for name in names for mark in UNKNOWNS)
    if not names or not is_known or any(is_secret_variable(name) for name in names):
        call.note("read/secret")
    return COMPUTED


def umask(call: Call) -> str:
    """Show or set the mask of new files."""
    if [text for text in call.texts if text not in ("-S", "-p", "-a", "-H", "-n")]:
        call.note("unknown/session")
    return COMPUTED


def exec_(call: Call) -> str:
    """Replace the shell by a command; with none, only redirect."""
    args = list(call.args)
    while args and args[0].text.startswith("-"):
        option = args.pop(0).text
        if option.endswith("a") and args:
            args.pop(0)
    if not args:
        return ""
    return call.engine.run_words(args, call.scene)


def busybox(call: Call) -> str:
    """Run an applet by its name."""
    call.note("unknown/program")
    args = list(call.args)
    while args and args[0].text.startswith("--"):
        args.pop(0)
    if not args:
        return COMPUTED
    return call.engine.run_words(args, call.scene)


BUILTINS = {
    **VARIABLES,
    "echo": echo,
    "cd": cd,
    "pushd": cd,
    "popd": popd,
    "eval": eval_,
    "source": source,
    "trap": trap,
    "alias": alias,
    "unalias": session,
    "shopt": shopt,
    "set": set_,
    "test": test,
    "[[": test,
    "kill": kill,
    "history": history,
    "fc": history,
    "enable": enable,
    "bind": bind,
    "complete": bind,
    "compgen": bind,
    "command": command,
    "pwd": pwd,
    "which": which,
    "jobs": jobs,
    "umask": umask,
    "ulimit": umask,
    "exec": exec_,
    "busybox": busybox,
    "toybox": busybox,
    "printenv": print_variable,
    "exit": harmless,
    "return": harmless,
    "break": harmless,
    "continue": harmless,
    "dirs": harmless,
    "help": harmless,
    "times": harmless,
    "caller": harmless,
    "disown": session,
    "fg": session,
    "bg": session,
    "suspend": session,
    "logout": session,
    "coproc": session,
}

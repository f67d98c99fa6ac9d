"""Tools whose arguments are small programs or have rules of their own."""

import re
from dataclasses import replace

from windlass_harness.shell.commands import check_arguments, grade_suffixes, printed_by
from windlass_harness.shell.effects import check_text, note_mode, read_described, read_path, write_path
from windlass_harness.shell.families import grade_family
from windlass_harness.shell.paths import base_name, matches_exactly
from windlass_harness.shell.rules_run import inspect, remote_runner
from windlass_harness.shell.rules_system import SYSTEM
from windlass_harness.shell.scene import COMPUTED, DECODED, FETCHED, Call, Field, field_of
from windlass_harness.shell.scripts import Effect, awk_effects, jq_effects, sed_effects
from windlass_harness.shell.tables_names import HARMLESS_DEVICES
from windlass_harness.shell.tables_programs import WRITERS
from windlass_harness.shell.tables_readers import READERS
from windlass_harness.shell.tables_tools import AWK_OPTIONS, SED_OPTIONS, TAR_RISKY
from windlass_protocol.lazy import lazy_pattern

_SED_EDITS = lazy_pattern(r"^(-[nErsuz]*i).+", re.DOTALL)


def apply_effects(call: Call, effects: list[Effect]) -> None:
    """Report what a small program does."""
    for category, part in effects:
        if category == "read":
            read_path(call, field_of(part))
        elif category == "write":
            write_path(call, field_of(part))
            if part not in HARMLESS_DEVICES:
                call.note("destructive/tool-exec", part)
        else:
            call.note(category, part)


def sed(call: Call) -> str:
    """The stream editor: its script may write, read and run."""
    # Text attached to -i is the suffix of the backup, never more options.
    args = [replace(arg, text=_SED_EDITS.sub(r"\1", arg.text)) for arg in call.args]
    arguments = read_described(call.with_args("sed", args), SED_OPTIONS)
    scripts = [
        option.value for option in arguments.options if option.name in ("-e", "--expression") and option.value
    ]
    operands = arguments.operands
    if not scripts and not any(option.name in ("-f", "--file") for option in arguments.options):
        scripts, operands = operands[:1], operands[1:]
    for script in scripts:
        check_text(call, script)
        apply_effects(call, sed_effects(script.text))
    names = {option.name for option in arguments.options} | {
        unknown.text[:2] for unknown in arguments.unknown
    }
    is_editing = bool(names & {"-i", "--in-place"})
    if names & {"-f", "--file"}:
        call.note("unknown/exec")
    for operand in operands:
        if is_editing:
            write_path(call, operand)
        else:
            read_path(call, operand)
    return printed_by("sed", call.scene.stdin, has_files=bool(operands))


def awk(call: Call) -> str:
    """The pattern language: its program may write, read and run."""
    arguments = read_described(call, AWK_OPTIONS)
    scripts = [
        option.value for option in arguments.options if option.name in ("-e", "--source") and option.value
    ]
    operands = arguments.operands
    names = {option.name for option in arguments.options}
    if names & {"-f", "--file"}:
        call.note("unknown/exec")
    elif not scripts:
        scripts, operands = operands[:1], operands[1:]
    for script in scripts:
        check_text(call, script)
        apply_effects(call, awk_effects(script.text))
    for operand in operands:
        if not re.match(r"[A-Za-z_]\w*=", operand.text):
            read_path(call, operand)
    return printed_by("awk", call.scene.stdin, has_files=bool(operands))


def jq(call: Call) -> str:
    """Filters for JSON and YAML: they can read the environment and other files."""
    args = list(call.args)
    texts = call.texts
    for option in ("--arg", "--argjson", "--slurpfile", "--rawfile"):
        while option in texts:
            start = texts.index(option)
            if option in ("--slurpfile", "--rawfile") and start + 2 < len(texts):
                read_path(call, args[start + 2])
            del args[start : start + 3]
            texts = [arg.text for arg in args]
    arguments = read_described(call.with_args(call.name, args), READERS[call.name])
    operands = arguments.operands
    if any(option.name in ("-f", "--from-file") for option in arguments.options):
        call.note("unknown/inline")
    else:
        for program in operands[:1]:
            check_text(call, program)
            apply_effects(call, jq_effects(program.text))
        operands = operands[1:]
    edits = any(option.sign == "~" for option in arguments.options)
    for operand in operands:
        if edits:
            write_path(call, operand)
        read_path(call, operand)
    return printed_by("jq", call.scene.stdin, has_files=bool(operands))


def tar(call: Call) -> str:
    """Archives: listing reads, extracting writes, some options run programs."""
    texts = call.texts
    if texts and re.fullmatch(r"[A-Za-z0-9]+", texts[0]):
        texts = ["-" + texts[0], *texts[1:]]
    risky = tuple(TAR_RISKY.split())
    for text in texts:
        if text.startswith("-") and matches_exactly(text, risky):
            call.note("destructive/tool-exec", text)
    flags = "".join(text for text in texts if re.fullmatch(r"-[A-Za-z0-9]+", text))
    if re.search("[PU]", flags):
        call.note("destructive/tool-exec", flags)
    is_listing = (
        ("t" in flags or "--list" in texts) and not re.search("[cxru]", flags) and "--extract" not in texts
    )
    files = _tar_files(call, texts, is_listing=is_listing)
    if not is_listing:
        call.note("safe_write")
    is_reading = is_listing or "c" in flags
    for path in files:
        if is_reading:
            read_path(call, path)
    check_arguments(call)
    return DECODED


def _tar_files(call: Call, texts: list[str], *, is_listing: bool) -> list[Field]:
    files: list[Field] = []
    previous = ""
    for text in texts:
        field = (
            field_of(text.partition("=")[2]) if re.match(r"--(?:directory|file)=", text) else field_of(text)
        )
        takes_folder = previous in ("-C", "--directory") or text.startswith("--directory=")
        takes_file = re.fullmatch(r"-[A-Za-z]*f|--file", previous) is not None or text.startswith("--file=")
        if takes_folder and not is_listing:
            write_path(call, field)
        elif takes_file and not is_listing and re.search(r"c|r|u", previous + " ".join(texts[:1])):
            _tar_target(call, field)
        elif not text.startswith("-"):
            files.append(field)
        previous = text
    return files


def _tar_target(call: Call, path: Field) -> None:
    if re.match(r"[\w.@-]+:", path.text):
        call.note("destructive/exfil", path.raw)
    elif path.text != "-":
        write_path(call, path)


def chmod(call: Call) -> str:
    """Permissions: recursive, set-id and world-writable ones are dangerous."""
    call.note("safe_write")
    options = [text for text in call.texts if re.match(r"-(?:R|-rec|[a-z]*R)", text)]
    operands = [arg for arg in call.args if not re.match(r"-(?:[cfvR]+$|-)", arg.text)]
    mode = operands[0].text if operands else ""
    note_mode(call, mode)
    if options:
        call.note("destructive/perm")
    for operand in operands[1:]:
        write_path(call, operand)
    return ""


def chown(call: Call) -> str:
    """Ownership."""
    call.note("destructive/perm")
    return ""


def uniq(call: Call) -> str:
    """Filter repeated lines; a second operand is written."""
    arguments = read_described(call, READERS["uniq"])
    _second_is_written(call, arguments.operands)
    return printed_by("uniq", call.scene.stdin, has_files=bool(arguments.operands))


def _second_is_written(call: Call, operands: list[Field]) -> None:
    for operand in operands[:1]:
        read_path(call, operand)
    # A pattern may stand for two names.
    for operand in operands if any(operand.is_glob for operand in operands) else operands[1:]:
        write_path(call, operand)


def xxd(call: Call) -> str:
    """Dump bytes; with -r or a second operand it writes them back."""
    texts = call.texts
    is_reverse = any(re.fullmatch(r"-[a-z]*r[a-z]*|-revert", text) for text in texts)
    args = [arg for arg in call.args if not re.fullmatch(r"-r|-p|-ps|-plain|-revert|-rp|-pr", arg.text)]
    arguments = read_described(call.with_args("xxd", args), READERS["xxd"])
    _second_is_written(call, arguments.operands)
    return DECODED if is_reverse else COMPUTED


def mktemp(call: Call) -> str:
    """Make an empty file or folder, and print its name."""
    call.note("safe_write")
    operands = [text for text in call.texts if not text.startswith("-")]
    return operands[-1] if operands and "-t" not in call.texts else "/tmp/tmp.mktemp"


def make(call: Call) -> str:
    """Builds: project code, unless the makefile itself comes from the arguments."""
    call.note("unknown/exec")
    texts = call.texts
    for number, text in enumerate(texts):
        following = texts[number + 1] if number + 1 < len(texts) else ""
        if text.startswith(("--eval", "-E", "SHELL=", "MAKEFLAGS=", ".SHELLFLAGS=")) or "$(shell" in text:
            call.note("destructive/tool-exec", text)
        if text in ("-f", "--file", "--makefile", "-C", "--directory", "-I"):
            read_path(call, field_of(following))
        if text in ("-f", "--file", "--makefile") and following in ("-", "/dev/stdin"):
            call.note("destructive/tool-exec", text)
            inspect(call, call.scene.stdin or "")
    check_arguments(call)
    return COMPUTED


def redis(call: Call) -> str:
    """A client that takes its commands as words, in any case."""
    call.note("unknown/network")
    grade_family(call, [text.lower() for text in call.texts])
    if call.scene.stdin is not None:
        inspect(call, call.scene.stdin)
    return COMPUTED


def container(call: Call) -> str:
    """Containers and clusters: the family's rules, and the command that runs inside."""
    grade_family(call)
    call.note("unknown/network")
    words = [text for text in call.texts if not text.startswith("-")]
    if call.name == "docker":
        _mounts(call)
    if words and words[0] in ("exec", "run", "debug", "compose", "container", "create", "attach"):
        grade_suffixes(call)
        if words[0] == "exec" or "exec" in words[:2]:
            _grade_inside(call)
    check_arguments(call)
    return COMPUTED


def _grade_inside(call: Call) -> None:
    if "--" in call.texts:
        tail = call.args[call.texts.index("--") + 1 :]
        if tail:
            call.engine.run_words(tail, call.scene.copy())


def _mounts(call: Call) -> None:
    texts = call.texts
    for number, text in enumerate(texts):
        attached = re.match(r"(?:-v|--volume=)(.+)", text)
        value = (
            attached[1]
            if attached
            else texts[number + 1]
            if text in ("-v", "--volume") and number + 1 < len(texts)
            else ""
        )
        if re.match(r"(?:/|~|\.\.|[A-Za-z]:\\)", value) or "docker.sock" in value:
            call.note("destructive/priv", value)


def tee(call: Call) -> str:
    """Write the input to files and pass it on."""
    call.note("safe_write")
    is_empty = call.scene.stdin == ""
    for arg in call.args:
        if not re.fullmatch(r"-[aip]+|--append|--ignore-interrupts|--output-error.*|--", arg.text):
            write_path(call, arg, truncates=is_empty)
            call.scene.fetched.update({base_name(arg.text)} if FETCHED in (call.scene.stdin or "") else ())
    return call.scene.stdin if call.scene.stdin is not None else COMPUTED


def unzip(call: Call) -> str:
    """Unpack; some options only list or print."""
    is_listing = any(re.fullmatch(r"-[a-zA-Z]*[lvtZ][a-zA-Z]*", text) for text in call.texts)
    arguments = read_described(call, WRITERS["unzip"])
    for operand in arguments.operands:
        read_path(call, operand)
    if not is_listing or "-d" in call.texts:
        call.note("safe_write")
    return DECODED


def version_or_install(call: Call) -> str:
    """Package runners."""
    grade_family(call)
    return remote_runner(call)


def deno(call: Call) -> str:
    """Deno: `eval` is inline code, a remote script is remote code."""
    call.note("unknown/exec")
    texts = call.texts
    if texts[:1] == ["eval"]:
        inspect(call, " ".join(texts[1:]))
    if any(re.match(r"https?:|npm:|jsr:", text) for text in texts):
        call.note("destructive/remote-code")
    if any(re.match(r"-A$|--allow-(?:all|run|ffi|env|net)", text) for text in texts):
        call.note("destructive/tool-exec")
    return COMPUTED


TOOLS = {
    **SYSTEM,
    "sed": sed,
    "awk": awk,
    "jq": jq,
    "yq": jq,
    "tar": tar,
    "chmod": chmod,
    "chown": chown,
    "chgrp": chown,
    "uniq": uniq,
    "xxd": xxd,
    "mktemp": mktemp,
    "unzip": unzip,
    "make": make,
    "redis-cli": redis,
    "docker": container,
    "kubectl": container,
    "tee": tee,
    "npx": version_or_install,
    "bunx": version_or_install,
    "deno": deno,
}

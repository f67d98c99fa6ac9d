"""git: reads are proven by their options, the rest is graded by subcommand."""

import re

from windlass_harness.shell.commands import check_arguments, note_secret_search
from windlass_harness.shell.effects import apply_operands, read_described, read_path
from windlass_harness.shell.families import grade_family
from windlass_harness.shell.options import describe
from windlass_harness.shell.paths import base_name, matches_exactly
from windlass_harness.shell.scene import COMPUTED, FETCHED, Call, Field, field_of
from windlass_harness.shell.tables_git import GIT_CONFIG_HARMLESS, GIT_LOCAL, GIT_NETWORK, GIT_READERS
from windlass_harness.shell.urls import is_public_url
from windlass_protocol.lazy import lazy_pattern

_GLOBAL_FLAGS = frozenset(
    """
    --no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects --icase-pathspecs
    --glob-pathspecs --no-lazy-fetch --no-advice
    """.split()
)
_SIGNATURE = lazy_pattern(r"--(?:format|pretty)=.*%G")
_TEXT_OPTIONS = frozenset(
    {
        "-m",
        "--message",
        "-am",
        "-F",
        "--author",
        "--date",
        "--grep",
        "-S",
        "-G",
        "--trailer",
        "-n",
        "-u",
        "--format",
        "--pretty",
    }
)


def git(call: Call) -> str:
    """Grade a git command."""
    args = list(call.args)
    scene = call.scene
    while args and args[0].text.startswith("-"):
        option = args.pop(0)
        if option.text == "-C" and args:
            scene = scene.copy()
            call.engine.run_words([field_of("cd"), args.pop(0)], scene)
        elif option.text == "-c" and args:
            _note_config(call, args.pop(0))
        elif option.text in ("--version", "--exec-path", "--html-path") and not args:
            return COMPUTED
        elif option.text not in _GLOBAL_FLAGS:
            call.note("destructive/git-exec", option.raw)
    if not args:
        call.note("unknown/option")
        return COMPUTED
    inner = Call("git", tuple(args), scene, call.engine, call.raw)
    return _subcommand(inner)


def _note_config(call: Call, setting: Field) -> None:
    if not matches_exactly(setting.text.lower(), GIT_CONFIG_HARMLESS):
        call.note("destructive/git-exec", setting.raw)


def _subcommand(call: Call) -> str:
    name = call.args[0].text
    second = call.args[1].text if len(call.args) > 1 else ""
    key = f"{name} {second}" if f"{name} {second}" in GIT_READERS else name
    is_dangerous = grade_family(call, _without_text(call), from_start=True)
    if key in GIT_READERS and _is_read(call, key):
        return _read(call, key)
    if name == "config":
        return _config(call)
    _grade_source(call)
    if name in GIT_NETWORK:
        call.note("unknown/network")
        if name == "clone":
            call.scene.fetched.update(base_name(arg.text).removesuffix(".git") for arg in call.args[1:])
        return FETCHED
    call.note("safe_write" if name in GIT_LOCAL else "unknown/program")
    if is_dangerous or name not in GIT_LOCAL:
        check_arguments(call)
    return COMPUTED


def _is_read(call: Call, key: str) -> bool:
    """Some subcommands read or write by their operands."""
    rest = call.args[len(key.split()) :]
    operands = [arg for arg in rest if not arg.text.startswith("-")]
    texts = [arg.text for arg in rest]
    if key == "reflog":
        return (
            not operands
            or operands[0].text in ("show", "list")
            or "/" in operands[0].text
            or operands[0].text == "HEAD"
            or operands[0].text.isdigit()
        )
    if key in ("branch", "tag"):
        lists = any(
            re.match(r"-l$|--list|--contains|--no-contains|--merged|--no-merged|--points-at|-n\d*$", text)
            for text in texts
        )
        return lists or not operands
    if key == "config":
        reads = any(text in ("--get", "--get-all", "--list", "-l", "--get-regexp") for text in texts)
        return (
            reads
            or (
                len(operands) == 1
                and "." in operands[0].text
                and not any(text.startswith("--unset") for text in texts)
            )
            or texts[:1] in (["get"], ["list"])
        )
    if key in ("remote", "symbolic-ref"):
        return len(operands) <= (1 if key == "symbolic-ref" else 0)
    return not (key in ("notes", "stash") and operands)


def _read(call: Call, key: str) -> str:
    rest = call.args[len(key.split()) :]
    inner = Call(f"git {key}", rest, call.scene, call.engine, call.raw)
    arguments = read_described(inner, GIT_READERS[key])
    # git itself expands the patterns in a path, quoted or not.
    operands = [
        Field(operand.text, operand.raw, re.search(r"[*?\[]", operand.text) is not None, operand.is_sure)
        for operand in arguments.operands
        if operand.text != "--"
    ]
    kinds = describe(GIT_READERS[key]).operands
    if any(_SIGNATURE.search(text) for text in inner.texts):
        call.note("unknown/exec")
    if key == "config":
        if any(
            text in ("--list", "-l", "list")
            or re.search(r"cred|token|url|extraheader|password|auth|proxy|http", text)
            for text in inner.texts
        ):
            call.note("read/secret")
        kinds = ("text",)
    searched = [option.value for option in arguments.options if option.name in ("-S", "-G") and option.value]
    note_secret_search(inner.with_args("git grep", searched) if searched else inner)
    if key == "grep" and any(option.name in ("-e", "-f") for option in arguments.options):
        kinds = ("path",)
    if key == "diff" and "--no-index" in inner.texts:
        for operand in operands:
            read_path(inner, operand)
    apply_operands(inner, operands, kinds=kinds)
    return COMPUTED


def _without_text(call: Call) -> list[str]:
    """Drop what is a message or a pattern: words in it are data."""
    kept: list[str] = []
    skips = False
    for text in call.texts:
        if skips:
            skips = False
            continue
        skips = text in _TEXT_OPTIONS or (
            re.fullmatch(r"-[a-z]*m", text) is not None
            and call.texts[0] in ("commit", "tag", "merge", "stash", "notes")
        )
        kept.append(text)
    return kept


def _grade_source(call: Call) -> None:
    """Report where clone, fetch and the like get their data from."""
    for arg in call.args[1:]:
        text = arg.text
        if re.match(r"(?:ext|fd)::", text) or text.startswith(("-u=", "--upload-pack")):
            call.note("destructive/git-exec", arg.raw)
        elif re.match(r"[a-z][a-z+.-]*://", text) and not is_public_url(text):
            call.note("read/ssrf", arg.raw)
        elif call.args[0].text in (
            "add",
            "mv",
            "apply",
            "am",
            "archive",
            "bundle",
            "worktree",
            "init",
        ) and not text.startswith("-"):
            read_path(call, arg)


def _config(call: Call) -> str:
    texts = [text for text in call.texts[1:] if not text.startswith("-")]
    flags = {text for text in call.texts if text.startswith("-")}
    key = next((text for text in texts if "." in text), "")
    call.note("safe_write")
    is_shared = bool(
        flags
        & {
            "--global",
            "--system",
            "--worktree",
            "-e",
            "--edit",
            "--add",
            "--replace-all",
            "--rename-section",
            "--remove-section",
        }
    )
    is_file = any(flag.startswith(("-f", "--file", "--blob")) for flag in flags)
    is_harmless = re.fullmatch(
        r"(?i)user\.(?:name|email)|color\..*|advice\..*|core\.(?:autocrlf|quotepath|filemode|ignorecase|eol|abbrev)|init\.defaultbranch|pull\.(?:rebase|ff)|push\.default|branch\..*\.description|log\.date|column\.ui|merge\.conflictstyle|rerere\.enabled|fetch\.prune",
        key,
    )
    if is_shared or is_file or not is_harmless or any(flag.startswith("--unset") for flag in flags):
        call.note("destructive/persist")
    return COMPUTED

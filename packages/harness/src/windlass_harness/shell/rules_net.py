"""Programs that talk to other machines."""

import re

from windlass_harness.shell.commands import check_arguments, grade_suffixes
from windlass_harness.shell.effects import read_described, read_path, write_path
from windlass_harness.shell.options import Arguments
from windlass_harness.shell.paths import base_name, is_secret_path
from windlass_harness.shell.scene import COMPUTED, DECODED, FETCHED, NAMES, SECRET, Call, Field
from windlass_harness.shell.stdin import run_text
from windlass_harness.shell.tables_tools import CURL_OPTIONS, SSH_OPTIONS, WGET_OPTIONS
from windlass_harness.shell.urls import is_public_host, is_public_url
from windlass_protocol.lazy import lazy_pattern

_REMOTE = lazy_pattern(r"(?:[\w.-]+@)?[\w.\[\]:-]+:(?!\\)|rsync://|[a-z]+://")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_SSH_RUNS = lazy_pattern(
    r"(?i)\s*(?:ProxyCommand|LocalCommand|PermitLocalCommand|KnownHostsCommand|RemoteCommand|ProxyJump|Include|PKCS11Provider|"
    r"SecurityKeyProvider|ControlPath|ForwardAgent|UserKnownHostsFile|XAuthLocation|AuthorizedKeysCommand)"
)


def note_url(call: Call, url: Field) -> None:
    """Report what asking this URL means."""
    call.note("unknown/network", url.raw)
    if url.holds(COMPUTED, NAMES, DECODED, FETCHED, SECRET):
        call.note("destructive/exfil", url.raw)
    if not is_public_url(url.text):
        call.note("read/ssrf", url.raw)


def curl(call: Call) -> str:
    """Fetch URLs; what sends or redirects the connection is dangerous."""
    arguments = read_described(call, CURL_OPTIONS)
    call.note("unknown/network")
    _note_sending(call, arguments)
    for option in arguments.options:
        text = option.value.text if option.value else ""
        if option.name in ("-X", "--request") and text.upper() not in _SAFE_METHODS:
            call.note("destructive/exfil", text)
        if option.name == "--url" and option.value:
            note_url(call, option.value)
        if (option.value and option.value.text.startswith("@")) or "%output{" in text:
            call.note("destructive/exfil", text)
    for operand in arguments.operands:
        note_url(call, operand)
    writes = {"-o", "--output", "-O", "--remote-name", "--remote-name-all"} & {
        option.name for option in arguments.options
    }
    if writes:
        call.note("safe_write")
        _note_fetched(call, arguments)
    return FETCHED


def _note_fetched(call: Call, arguments: Arguments) -> None:
    """Remember the names of files that hold what was fetched."""
    named = [option.value for option in arguments.options if option.sign == ">" and option.value]
    call.scene.fetched.update(base_name(file.text) for file in (*named, *arguments.operands) if file.text)


def _note_sending(call: Call, arguments: Arguments) -> None:
    for option in arguments.options:
        if option.sign == "!":
            call.note("destructive/exfil", option.name)
        if option.value and option.value.holds(COMPUTED, NAMES, DECODED, SECRET):
            call.note("destructive/exfil", option.value.raw)


def wget(call: Call) -> str:
    """Fetch URLs into files."""
    arguments = read_described(call, WGET_OPTIONS)
    call.note("unknown/network")
    call.note("safe_write")
    _note_sending(call, arguments)
    for operand in arguments.operands:
        note_url(call, operand)
    _note_fetched(call, arguments)
    return FETCHED


def ssh(call: Call) -> str:
    """A command on another machine, or a shell there."""
    call.note("unknown/network")
    arguments = read_described(call, SSH_OPTIONS)
    for option in arguments.options:
        if option.name == "-o" and option.value and _SSH_RUNS.match(option.value.text):
            call.note("destructive/tool-exec", option.value.raw)
    if arguments.unknown:
        grade_suffixes(call)
    if call.scene.stdin is not None:
        call.note("destructive/exfil")
    host, *command = arguments.operands or [Field("", "")]
    if host.holds(COMPUTED, NAMES, DECODED, SECRET) or host.text.startswith("-"):
        call.note("destructive/exfil", host.raw)
    if not command:
        call.note("destructive/shell")
        return FETCHED
    inner = call.scene.copy()
    inner.is_outside = True
    inner.stdin = None
    run_text(call, " ".join(field.text for field in command), scene=inner)
    return FETCHED


def copy_remote(call: Call) -> str:
    """scp and rsync: sending is dangerous, fetching writes."""
    call.note("unknown/network" if any(_REMOTE.match(text) for text in call.texts) else "safe_write")
    texts = call.texts
    for text in texts:
        if re.match(
            r"--delete|--del$|--remove-source-files|--remove-sent-files|--force|--write-batch|--inplace", text
        ):
            call.note("destructive/sync", text)
        if re.match(
            r"-[A-Za-z]*e|--rsh|--rsync-path|-[A-Za-z]*M|--remote-option|-[A-Za-z]*S$|-o|-F|--password-file|--daemon",
            text,
        ) and not text.startswith("--ex"):
            call.note("destructive/tool-exec", text)
    paths = [arg for arg in call.args if not arg.text.startswith("-")]
    for path in paths[:-1]:
        if not _REMOTE.match(path.text):
            read_path(call, path)
    if paths and _REMOTE.match(paths[-1].text):
        call.note("destructive/exfil", paths[-1].raw)
    elif paths:
        write_path(call, paths[-1])
    check_arguments(call)
    return COMPUTED


def netcat(call: Call) -> str:
    """A raw connection: everything but a port check is dangerous."""
    is_check = any(re.fullmatch(r"-[a-z]*z[a-z]*", text) for text in call.texts)
    call.note("unknown/network" if is_check and call.scene.stdin is None else "destructive/exfil")
    if any(re.fullmatch(r"-[a-z]*[ec]|--(?:sh-)?exec", text) for text in call.texts):
        call.note("destructive/shell")
    return FETCHED


def lookup(call: Call) -> str:
    """Name look-ups and pings: harmless unless the name carries data."""
    call.note("unknown/network")
    for arg in call.args:
        if arg.holds(COMPUTED, NAMES, DECODED, SECRET, FETCHED):
            call.note("destructive/exfil", arg.raw)
        if re.match(r"-f|@/", arg.text) or is_secret_path(arg):
            call.note("destructive/exfil", arg.raw)
    hosts = [
        text
        for text in call.texts
        if re.fullmatch(r"@?[0-9a-fA-Fx.:]+", text) and ("." in text or ":" in text)
    ]
    if any(not is_public_host(host.lstrip("@")) for host in hosts):
        call.note("unknown/outside")
    return FETCHED


def http_client(call: Call) -> str:
    """httpie and the like: a method or a field sends."""
    call.note("unknown/network")
    words = [arg for arg in call.args if not arg.text.startswith("-")]
    for number, word in enumerate(words):
        if (word.text.isupper() and word.text not in _SAFE_METHODS and not number) or (
            re.match(r"[\w-]+(?:=|:=|@|=@|:=@)", word.text) and number
        ):
            call.note("destructive/exfil", word.raw)
        elif not word.text.isupper() and not re.match(r"[\w-]+:[^/]", word.text):
            note_url(call, word)
    if call.scene.stdin is not None:
        call.note("destructive/exfil")
    return FETCHED


def browser(call: Call) -> str:
    """Text browsers fetch and may run helpers."""
    call.note("unknown/network")
    for arg in call.args:
        if not arg.text.startswith("-") and re.match(r"[a-z]+:|/|~", arg.text):
            note_url(call, arg)
        elif re.match(r"-(?:editor|cfg|post_data|cmd_script|eval|config)", arg.text):
            call.note("destructive/tool-exec", arg.raw)
    return FETCHED


NETWORK = {
    "curl": curl,
    "wget": wget,
    "wget2": wget,
    "ssh": ssh,
    "mosh": ssh,
    "scp": copy_remote,
    "rsync": copy_remote,
    "nc": netcat,
    **dict.fromkeys("ping ping6 dig host nslookup drill traceroute tracepath mtr".split(), lookup),
    **dict.fromkeys("http https httpie xh curlie".split(), http_client),
    **dict.fromkeys("lynx w3m links elinks aria2c".split(), browser),
}

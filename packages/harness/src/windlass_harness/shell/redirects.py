"""Redirections: what is read and written, and where a command's input comes from."""

import re
from collections.abc import Sequence

from windlass_harness.shell.arithmetic import grade_setting
from windlass_harness.shell.effects import read_path, write_path
from windlass_harness.shell.expand import expand_joined
from windlass_harness.shell.scene import COMPUTED, Call, Engine, Scene
from windlass_harness.shell.tree import Redirect
from windlass_protocol.lazy import lazy_pattern

_SILENT = lazy_pattern(
    r"(?::|true|false|cat\s*0?<?\s*/dev/null|echo -n(?: ''| \"\")?|printf (?:''|\"\"|%s))$"
)


def apply_redirects(
    redirects: Sequence[Redirect], scene: Scene, *, engine: Engine, raw: str, is_empty: bool = False
) -> bool:
    """Grade redirections and set the input; say whether output still flows on."""
    prints = True
    call = Call("redirect", (), scene, engine, raw)
    for redirect in redirects:
        if redirect.descriptor.startswith("{"):
            grade_setting(call, redirect.descriptor.strip("{}"), is_prefix=False)
        if redirect.body is not None:
            _feed(scene, redirect, expand_joined(redirect.body, scene, engine=engine).text)
            continue
        target = expand_joined(redirect.target, scene, engine=engine)
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


def _feed(scene: Scene, redirect: Redirect, text: str) -> None:
    """Give a command its input, or another descriptor its text."""
    if redirect.descriptor in ("", "0"):
        scene.stdin = text
    else:
        scene.pipes[f"/dev/fd/{redirect.descriptor}"] = text


def _prints_nothing(raw: str) -> bool:
    return _SILENT.match(raw.partition(">")[0].strip()) is not None

"""Program text from an argument, a pipe or a here-document, graded as code."""

from windlass_harness.shell.scene import COMPUTED, DECODED, FETCHED, NAMES, SECRET, UNSET, Call, Scene


def run_text(call: Call, text: str, *, scene: Scene) -> str:
    """Grade text that a shell runs, as far as it is known."""
    if note_origin(call, text):
        return COMPUTED
    if any(mark in text for mark in (UNSET, COMPUTED, NAMES, SECRET)):
        call.note("unknown/dynamic", text)
        if not text.strip(UNSET + COMPUTED + NAMES + SECRET + " \n\"'"):
            call.note("destructive/eval", text)
            return COMPUTED
    return call.engine.run_code(text, scene)


def note_origin(call: Call, text: str) -> bool:
    """Report code whose origin alone makes it dangerous."""
    if FETCHED in text:
        call.note("destructive/remote-code")
    elif DECODED in text:
        call.note("destructive/eval")
    else:
        return False
    return True

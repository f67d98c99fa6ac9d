"""`windlass init` and `windlass config`: a project, and what it is set to."""

from pathlib import Path
from typing import Annotated, Final

import typer

from windlass_cli.problems import Problem
from windlass_cli.session import session_of
from windlass_cli.settings import FILE
from windlass_cli.shapes import show_table
from windlass_harness.redact import mask_text

_AGENT: Final = '''"""The agent of this project; try it: windlass run weather."""

from windlass import Agent, tool


@tool(mode="read")
async def weather(city: str) -> str:
    """Say what the weather is in a city."""
    return f"Rain all day in {city}."


# "demo/paced" answers by rules, without a key. Others: "openai/…", "anthropic/…", "ollama/…".
agent = Agent("helper", model="demo/paced", instructions="Be brief.", tools=[weather])
'''
_TOML: Final = """# Every setting, and where it comes from: windlass config
agents = "agent.py:agent"
data = "windlass-data"
"""
_IGNORED: Final = """windlass-data/
__pycache__/
.env
"""
_AGENT_FILE: Final = "agent.py"
_FILES: Final = {_AGENT_FILE: _AGENT, FILE: _TOML, ".gitignore": _IGNORED}


def init(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where; it is made if need be.")] = Path(),
) -> None:
    """Make a project that runs: an agent, a tool and the settings.

    Files that exist are left alone, and nothing is written then.

    Example: windlass init shop
    """
    terminal = session_of(context).terminal
    _check_empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            if not (folder / name).exists():
                (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Problem(f"{folder} cannot be written: {error.strerror}") from None
    for name in _FILES:
        terminal.say(f"  {folder / name}")
    terminal.say(f'Try it: {_enter(folder)}windlass run "what is the weather in Oslo?"')


def _check_empty(folder: Path) -> None:
    enter = _enter(folder)
    if (folder / FILE).exists():
        raise Problem(
            f"{folder.absolute()} is a project already: it has a {FILE}",
            f'Run it: {enter}windlass run "…". For another one: windlass init NAME',
        )
    if (folder / _AGENT_FILE).exists():
        raise Problem(
            f"{folder / _AGENT_FILE} exists already, and is left alone",
            f'To run what is in it: {enter}windlass --agents {_AGENT_FILE} run "…". '
            "For a project beside it: windlass init NAME",
        )


def _enter(folder: Path) -> str:
    return "" if folder.absolute() == Path.cwd() else f"cd {folder} && "


def config(context: typer.Context) -> None:
    """Show every setting, its value and where it comes from.

    Example: WINDLASS_STORE=other.db windlass config
    """
    session = session_of(context)
    rows = (
        (one.setting.key, mask_text(one.value) or "–", one.source, one.setting.variable, one.setting.words)
        for one in session.settings.values.values()
    )
    show_table(session.terminal, ("setting", "value", "from", "variable", "what it is"), rows=rows)

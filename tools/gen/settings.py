"""Writes the page of settings."""

from typing import Final

from windlass_cli.settings import SETTINGS
from windlass_server.options import OPTIONS, Setting

_HEAD: Final = """# Settings: windlass.toml, environment variables, options and defaults

For everyone who configures the command, a server or workers. The page is made from the table that
`windlass` and `python -m windlass_server` read, by `make gen`.

A setting is read from an option, an environment variable, `windlass.toml` or its default, in this order;
`windlass config` shows each with its value and source. `server.port` is `port` below `[server]` in the file.
Settings that are a table are `[providers.openai]`, `[limits.people]`, `[schedules.nightly]` and so on
there, and a variable holds such a table as text. Relative paths start from the folder of the file. API keys
of models are read from the environment only, and are never shown.

`windlass serve` and `windlass worker` read all of them. `python -m windlass_server` reads no file and no
variables: it takes those of the server as options, and `--agents`, `--goals`, `--data` and `--drain-s`.

| setting | variable | option of `python -m windlass_server` | default | meaning |
|---|---|---|---|---|
"""


def settings_page() -> str:
    """Return the page."""
    return _HEAD + "".join(_row(setting) for setting in SETTINGS)


def _row(setting: Setting) -> str:
    option = f"`{setting.option}`" if setting in OPTIONS else ""
    default = f"`{setting.default}`" if setting.default else ""
    more = f": [{setting.page.partition('#')[0]}]({setting.page})" if setting.page else ""
    meaning = setting.meaning.replace("|", "\\|")
    return f"| `{setting.key}` | `{setting.variable}` | {option} | {default} | {meaning}{more} |\n"

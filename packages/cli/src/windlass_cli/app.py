"""The `windlass` command: its options, its commands, and how it ends."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import windlass
from windlass_cli.commands import (
    acp,
    approvals,
    builder,
    chat,
    demo,
    doctor,
    ledger,
    migrate,
    project,
    run,
    runs,
    serve,
    sessions,
    sidecar,
)
from windlass_cli.problems import Exit, Problem
from windlass_cli.session import Session
from windlass_cli.settings import KEY, load_settings
from windlass_cli.terminal import Terminal, standard_terminal

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable agents: run them, watch them, answer them, look at what they did.",
    epilog='Begin with: windlass demo, or: windlass run "what is the weather in Oslo?"',
)


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        standard_terminal().line(f"windlass {windlass.__version__}")
        raise typer.Exit(Exit.DONE)


@app.callback()
def _options(
    context: typer.Context,
    *,
    agents: Annotated[str | None, typer.Option(help="Your agents: module:name or file.py:name.")] = None,
    store: Annotated[str | None, typer.Option(help="The file that keeps everything.")] = None,
    server: Annotated[
        str | None, typer.Option(help="A server to ask instead of a store; its key is in WINDLASS_KEY.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The settings; windlass.toml here when left out.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version.")
    ] = False,
) -> None:
    environment = os.environ  # noqa: TID251 - the command is where the environment comes from
    given = {"agents": agents, "store": store, "server": server}
    settings = load_settings(given, environment, file=config)
    context.obj = Session(settings, standard_terminal(), key=environment.get(KEY) or None)


app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("chat")(chat.chat)
app.command("dev")(serve.dev)
app.command("serve")(serve.serve)
app.add_typer(sessions.app, name="sessions")
app.add_typer(runs.app, name="runs")
app.add_typer(approvals.app, name="approvals")
app.add_typer(builder.app, name="builder")
app.command("acp")(acp.acp)
app.command("sidecar", add_help_option=False, context_settings=sidecar.ALL_ARGUMENTS)(sidecar.sidecar)
app.command("trace")(ledger.trace)
app.command("decisions")(ledger.decisions)
app.command("init")(project.init)
app.command("config")(project.config)
app.command("doctor")(doctor.doctor)
app.command("migrate")(migrate.migrate)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments or the process's; end the process."""
    terminal = standard_terminal()
    try:
        app(arguments, prog_name="windlass")
    except Problem as problem:
        sys.exit(_tell(terminal, problem.message, hint=problem.hint, code=problem.code))
    except (windlass.Rejected, windlass.Conflict) as error:
        sys.exit(_tell(terminal, error.message, code=Exit.USAGE))
    except windlass.AgentError as error:
        sys.exit(_tell(terminal, error.message, code=Exit.FAILED))


def _tell(terminal: Terminal, message: str, *, hint: str = "", code: Exit) -> Exit:
    terminal.say(f"windlass: {message}", "red")
    if hint:
        terminal.say(hint)
    return code

"""The `windlass` command: its options, its commands and its errors."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, cast

import typer
from typer.core import TyperGroup

import windlass
from windlass.errors import UnknownName
from windlass_cli.backend import Command
from windlass_cli.commands import (
    approvals,
    builder,
    costs,
    deliveries,
    demo,
    evals,
    init,
    keys,
    limits,
    migrate,
    project,
    restore,
    runs,
    schedules,
    serve,
    sessions,
    talk,
)
from windlass_cli.output import CommandError, Exit, Terminal, standard_terminal
from windlass_cli.settings import KEY, load_settings

_BEFORE: Final = ("--agents", "--store", "--server", "--config")
"""Options that `windlass` has itself, not its commands."""


class _Commands(TyperGroup):
    """Refuses an option of `windlass` that stands behind the command, and says that it goes before it."""

    def invoke(self, ctx: object) -> object:
        try:
            return super().invoke(cast(typer.Context, ctx))
        except typer.TyperException as error:
            # Typer has no public name for the class of this error.
            option = getattr(error, "option_name", None)
            if option not in _BEFORE:
                # It checks a choice with pydantic, which writes its own name of the error before the message.
                error.message = error.message.removeprefix("Value error, ")
                raise
            command = cast(typer.Context, ctx).invoked_subcommand
            raise CommandError(
                f"{option} goes before the command", f"Write: windlass {option} … {command} …"
            ) from None


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run durable agents, follow them, answer their requests and inspect their runs.",
    epilog='Start with: windlass demo, or: windlass run "what is the weather in Oslo?"',
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        standard_terminal().line(f"windlass {windlass.__version__}")
        raise typer.Exit(Exit.DONE)


@app.callback()
def _options(
    context: typer.Context,
    *,
    agents: Annotated[str | None, typer.Option(help="Your agents: module:name or file.py:name.")] = None,
    store: Annotated[str | None, typer.Option(help="The file of the store, or postgresql://…")] = None,
    server: Annotated[
        str | None,
        typer.Option(help="The address of a server to use instead of a store; its key is in WINDLASS_KEY."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The settings file; default: windlass.toml in this folder.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    environment = os.environ  # noqa: TID251 - the command is where the environment comes from
    options = {"agents": agents, "store": store, "server": server}
    settings = load_settings(options, environment, file=config)
    context.obj = Command(settings, standard_terminal(), key=environment.get(KEY) or None)


app.command("demo")(demo.demo)
app.command("run")(talk.run)
app.command("chat")(talk.chat)
app.command("dev")(serve.dev)
app.command("serve")(serve.serve)
app.command("worker")(serve.worker)
app.add_typer(sessions.app, name="sessions")
app.add_typer(runs.app, name="runs")
app.add_typer(approvals.app, name="approvals")
app.add_typer(schedules.app, name="schedules")
app.add_typer(limits.app, name="limits")
app.add_typer(evals.app, name="eval")
app.add_typer(deliveries.app, name="deliveries")
app.add_typer(builder.app, name="builder")
app.add_typer(keys.app, name="keys")
app.command("acp")(talk.acp)
app.command("sidecar", add_help_option=False, context_settings=serve.ALL_ARGUMENTS)(serve.sidecar)
app.command("trace")(runs.trace)
app.command("decisions")(runs.decisions)
app.command("costs")(costs.costs)
app.command("init")(init.init)
app.command("config")(project.config)
app.command("doctor")(project.doctor)
app.command("migrate")(migrate.migrate)
app.command("copy")(migrate.copy)
app.command("restore")(restore.restore)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command with the given arguments, or those of the process, and end the process."""
    terminal = standard_terminal()
    try:
        app(arguments, prog_name="windlass")
    except CommandError as problem:
        sys.exit(_fail(terminal, problem.message, hint=problem.hint, code=problem.code))
    except (windlass.Rejected, UnknownName) as error:
        sys.exit(_fail(terminal, error.message, code=Exit.USAGE))
    except windlass.Conflict as error:
        sys.exit(_fail(terminal, error.message, code=Exit.CONFLICT))
    except windlass.AgentError as error:
        sys.exit(_fail(terminal, error.message, code=Exit.FAILED))


def _fail(terminal: Terminal, message: str, *, hint: str = "", code: Exit) -> Exit:
    terminal.say(f"windlass: {message}", "red")
    if hint:
        terminal.say(hint)
    return code

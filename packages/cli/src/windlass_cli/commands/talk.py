"""`windlass run`, `chat` and `acp`: talk to an agent from a shell, a terminal or an editor."""

import importlib.util
from typing import Annotated, Final

import typer

from windlass_cli.backend import Backend, BatchOption, LocalStore, batch_choice, command_of, finish
from windlass_cli.follow import RunWatch, follow_run, start_run
from windlass_cli.output import CommandError, Exit

QUIT: Final = frozenset({"/quit", "/exit", "/q"})
AgentName = Annotated[str | None, typer.Option(help="The agent; default: the first one.")]


def run(
    context: typer.Context,
    prompt: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
    *,
    agent: AgentName = None,
    session: Annotated[str | None, typer.Option(help="The session to continue; default: a new one.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write events and result as lines of JSON.")
    ] = False,
    ask: Annotated[bool, typer.Option(help="Ask for approvals on this terminal.")] = True,
    batch: BatchOption = None,
) -> None:
    """Run an agent on one message and stream its answer.

    Exit codes: 0 completed, 1 failed, 3 waits for a person, 4 cancelled, 130 interrupted and stored.

    Example: windlass run "what is the weather in Oslo?"
    """
    message = typer.get_text_stream("stdin").read() if prompt == "-" else prompt
    command = command_of(context)
    terminal = command.terminal
    watch = RunWatch(terminal, command.user, is_json=as_json, is_asking=ask and terminal.is_interactive)

    async def work(backend: Backend) -> Exit:
        name = await backend.agent(agent)
        started_run = await start_run(
            command, backend, agent=name, message=message, session_id=session, batch=batch_choice(batch)
        )
        return await follow_run(command, backend, watch=watch, run=started_run)

    command.ask(work, drives=True)


def chat(
    context: typer.Context,
    *,
    agent: AgentName = None,
    session: Annotated[str | None, typer.Option(help="The session to continue; default: a new one.")] = None,
) -> None:
    """Talk to an agent. The session is stored: continue it later with --session.

    The exit code is that of the last run, see windlass run --help.

    Example: windlass chat --session monday
    """
    command = command_of(context)
    terminal = command.terminal

    async def work(backend: Backend) -> Exit:
        code = Exit.DONE
        name = await backend.agent(agent)
        session_id = session or await backend.new_session(name)
        hint = f"Type /quit to leave. Continue later: windlass chat --session {session_id}"
        terminal.say(f"Talking to {name}. {hint}", "dim")
        while (line := await terminal.ask("> " if terminal.is_interactive else "")) is not None:
            message = line.strip()
            if message in QUIT:
                break
            if message.startswith("/"):
                terminal.say(f"Unknown command {message.split()[0]}. The only command is /quit.", "yellow")
            elif message:
                started_run = await start_run(
                    command, backend, agent=name, message=message, session_id=session_id
                )
                watch = RunWatch(terminal, command.user, is_asking=terminal.is_interactive)
                code = await follow_run(command, backend, watch=watch, run=started_run)
        return code

    command.ask(work, drives=True)


def acp(context: typer.Context, *, agent: AgentName = None) -> None:
    """Serve an agent to an editor: the Agent Client Protocol on standard input and output.

    Example, in the settings of an editor: {"command": "windlass", "args": ["acp"]}
    """
    if importlib.util.find_spec("acp") is None:
        raise CommandError(
            "the package agent-client-protocol is not installed",
            "Install it: pip install 'windlass-cli[acp]'",
        )
    from windlass_cli.acp import serve  # noqa: PLC0415 - slow to import

    command = command_of(context)

    async def work() -> Exit:
        async with command.driving() as runtime:
            store = LocalStore(runtime, command.agents, user=command.user)
            await serve(store, await store.agent(agent), user=command.user)
        return Exit.DONE

    finish(work())

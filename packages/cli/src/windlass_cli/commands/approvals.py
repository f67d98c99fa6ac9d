"""`windlass approvals`: list and answer the requests that wait for a person."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer
from pydantic_core import from_json

import windlass
from windlass_cli.backend import Backend, command_of, find_request
from windlass_cli.follow import request_text
from windlass_cli.output import CommandError, Exit, show_page, when

if TYPE_CHECKING:
    from windlass_cli.backend import RequestRow
    from windlass_protocol import JsonObject

app = typer.Typer(no_args_is_help=True, help="Requests to people: list, answer.")
Id = Annotated[str, typer.Argument(help="The request: its id, or the beginning of it.")]


@app.command("list")
def list_requests(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200, help="The number of requests.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each request.")] = False,
) -> None:
    """List the requests that wait for a person, the oldest first.

    Example: windlass approvals list
    """
    terminal = command_of(context).terminal
    answered: set[str] = set()
    """Requests with an answer that no process has taken yet."""

    def show(items: "Sequence[RequestRow]") -> None:
        for row in items:
            terminal.write(f"{_block(row, is_answered=row.request.request_id in answered)}\n")
        if items:
            terminal.say("Answer with: windlass approvals answer REQUEST ANSWER", "dim")

    async def work(backend: Backend) -> None:
        page = await backend.sessions.requests(limit=limit)
        for run_id in dict.fromkeys(row.run_id for row in page.items):
            requests = await backend.handle(run_id).open_requests()
            answered.update(request.request_id for request in requests if request.is_answered)
        show_page(terminal, page, show=show, empty="No open requests.", as_json=as_json)

    command_of(context).ask(work)


def _block(row: "RequestRow", *, is_answered: bool = False) -> str:
    """Return a request with the whole input of its action."""
    request = row.request
    until = "" if request.expires_at is None else f", expires {when(request.expires_at)}"
    answers = ", ".join(option.id for option in request.options or ()) or "--text …"
    owner = "" if row.owner is None else f" of {row.owner}"
    lines = (
        f"{row.agent_id}{owner}, run {row.run_id}, asked {when(row.asked_at)}{until}",
        *request_text(request).splitlines(),
        f"answered already, and not taken by a process yet: windlass runs resume {row.run_id}"
        if is_answered
        else f"answers: {answers}",
    )
    return "\n  ".join((request.request_id, *lines))


@app.command()
def answer(
    context: typer.Context,
    request_id: Id,
    *,
    option: Annotated[str | None, typer.Argument(help="One of its answers, such as approve or deny.")] = None,
    text: Annotated[str | None, typer.Option(help="A text, such as the reason of a denial.")] = None,
    change: Annotated[
        str | None, typer.Option(metavar="JSON", help="With approve: arguments to change, as a JSON object.")
    ] = None,
) -> None:
    """Answer a request. The run continues where its agent is driven.

    Example: windlass approvals answer approval:019a8f… deny --text "too expensive"
    Example: windlass approvals answer approval:019a8f… approve --change '{"cents": 2000}'
    """
    command = command_of(context)
    changes = None if change is None else _changes(change)

    async def work(backend: Backend) -> None:
        row = await _open_request(backend, request_id)
        known_id = row.request.request_id
        run = backend.handle(row.run_id)
        next_step = (
            f"The server drives the run. Follow it: windlass runs tail {row.run_id}"
            if command.settings.server
            else "A server or worker on this store continues the run; without one: "
            f"windlass runs resume {row.run_id}"
        )
        command.terminal.say(_block(row))
        try:
            action_input = row.request.action.input
            old_arguments = action_input if isinstance(action_input, dict) else {}
            arguments = None if changes is None else {**old_arguments, **changes}
            await run.answer(known_id, option, text=text, responder=command.user, arguments=arguments)
        except windlass.Conflict as error:  # answered or closed in the meantime
            await _open_request(backend, known_id)
            raise CommandError(error.message, next_step, code=Exit.CONFLICT) from None
        reply = " ".join(filter(None, (option, text)))
        command.terminal.say(f"Answered: {reply}. {next_step}")

    command.ask(work)


def _changes(text: str) -> "JsonObject":
    """Return the changed arguments of `--change`.

    Raises:
        CommandError: the text is not a JSON object.
    """
    try:
        changes: object = from_json(text)
    except ValueError:
        changes = None
    if not isinstance(changes, dict):
        raise CommandError("--change is not a JSON object", """Write it like --change '{"cents": 2000}'""")
    return cast("JsonObject", changes)


async def _open_request(backend: Backend, request_id: str) -> "RequestRow":
    """Return an open request.

    Raises:
        CommandError: the request is unknown, or resolved already.
    """
    from windlass.catalog import SettledRequest  # noqa: PLC0415 - slow to import; the backend has imported it

    request = await find_request(backend, request_id)
    if isinstance(request, SettledRequest):
        by = f" by {request.responder}" if request.responder else ""
        raise CommandError(
            f"the request is resolved already: {request.option_id or request.outcome.value}{by}, "
            f"at {when(request.at)}",
            f"Show the run: windlass runs show {request.run_id}",
            code=Exit.CONFLICT,
        )
    return request

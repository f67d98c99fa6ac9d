"""`windlass approvals`: list and answer the requests that wait for a person."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer
from pydantic_core import from_json

import windlass
from windlass_cli.backend import Backend, command_of, known_request
from windlass_cli.follow import asked
from windlass_cli.output import Problem, show_page, when

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
        for one in items:
            terminal.write(f"{_block(one, is_answered=one.request.request_id in answered)}\n")
        if items:
            terminal.say("Answer with: windlass approvals answer REQUEST ANSWER", "dim")

    async def work(backend: Backend) -> None:
        page = await backend.sessions.requests(limit=limit)
        for run_id in dict.fromkeys(one.run_id for one in page.items):
            found = await backend.handle(run_id).open_requests()
            answered.update(one.request_id for one in found if one.is_answered)
        show_page(terminal, page, show=show, empty="No open requests.", as_json=as_json)

    command_of(context).ask(work)


def _block(one: "RequestRow", *, is_answered: bool = False) -> str:
    """Return a request with the whole input of its action."""
    request = one.request
    until = "" if request.expires_at is None else f", expires {when(request.expires_at)}"
    answers = ", ".join(option.id for option in request.options or ()) or "--text …"
    owner = "" if one.owner is None else f" of {one.owner}"
    lines = (
        f"{one.agent_id}{owner}, run {one.run_id}, asked {when(one.asked_at)}{until}",
        *asked(request).splitlines(),
        f"answered already, and not taken by a process yet: windlass runs resume {one.run_id}"
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
        found = await _open_request(backend, request_id)
        known_id = found.request.request_id
        run = backend.handle(found.run_id)
        next_step = (
            f"The server drives the run. Follow it: windlass runs tail {found.run_id}"
            if command.settings.server
            else f"Drive the run here: windlass runs resume {found.run_id}"
        )
        command.terminal.say(_block(found))
        try:
            given = found.request.action.input
            known = given if isinstance(given, dict) else {}
            arguments = None if changes is None else {**known, **changes}
            await run.answer(known_id, option, text=text, responder=command.user, arguments=arguments)
        except windlass.Conflict as error:  # answered or closed in the meantime
            await _open_request(backend, known_id)
            raise Problem(error.message, next_step) from None
        said = " ".join(filter(None, (option, text)))
        command.terminal.say(f"Answered: {said}. {next_step}")

    command.ask(work)


def _changes(text: str) -> "JsonObject":
    """Return the changed arguments of `--change`.

    Raises:
        Problem: the text is not a JSON object.
    """
    try:
        found: object = from_json(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Problem("--change is not a JSON object", """Write it like --change '{"cents": 2000}'""")
    return cast("JsonObject", found)


async def _open_request(backend: Backend, request_id: str) -> "RequestRow":
    """Return an open request.

    Raises:
        Problem: the request is unknown, or resolved already.
    """
    from windlass.catalog import SettledRequest  # noqa: PLC0415 - slow to import; the backend has imported it

    found = await known_request(backend, request_id)
    if isinstance(found, SettledRequest):
        by = f" by {found.responder}" if found.responder else ""
        raise Problem(
            f"the request is resolved already: {found.option_id or found.outcome.value}{by}, "
            f"at {when(found.at)}",
            f"Show the run: windlass runs show {found.run_id}",
        )
    return found

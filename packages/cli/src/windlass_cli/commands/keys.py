"""`windlass keys`: add, list and revoke the API keys of a server."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from windlass import parts
from windlass_cli.backend import Command, command_of
from windlass_cli.output import CommandError, show_table
from windlass_cli.settings import OWNER

if TYPE_CHECKING:
    from windlass_server.auth import KeyEntry

app = typer.Typer(no_args_is_help=True, help="API keys of a server: add, list, revoke.")
Id = Annotated[str, typer.Argument(help="The id of the key: lower case letters and digits.")]
_FILE: Final = "keys.json"
_HEADER: Final = ("key", "tenant", "user", "rights", "expires", "state")


def _path(command: Command) -> Path:
    """Return the key file: that of the setting `server.keys`, or keys.json beside windlass.toml."""
    return command.settings.folder / (command.settings.text("server.keys") or _FILE)


@app.command()
def add(
    context: typer.Context,
    key_id: Id,
    user: Annotated[str, typer.Argument(help="The user who gets the key.")],
    *,
    tenant: Annotated[str, typer.Option(help="The tenant of the user.")] = OWNER,
    role: Annotated[
        list[str] | None, typer.Option(help="approver or improver; may be given several times.")
    ] = None,
    operator: Annotated[bool, typer.Option(help="May read /metrics of the whole server.")] = False,
    expires: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The first day (UTC) it is not valid.")
    ] = None,
) -> None:
    """Make an API key, write its digest into the key file and show the key once.

    A running server with this key file takes it at once.

    Example: windlass keys add ann1 ann --role approver
    """
    from windlass_server.auth import ROLES, change_keys, new_key  # noqa: PLC0415 - slow to import

    command = command_of(context)
    roles = tuple(dict.fromkeys(role or ()))
    if unknown := [name for name in roles if name not in ROLES]:
        raise CommandError(f"unknown role: {unknown[0]}", f"Roles: {', '.join(sorted(ROLES))}.")
    key, entry = new_key(key_id, tenant, user=user)
    more = {"roles": roles, "operator": operator, "expires_at": expires and expires.replace(tzinfo=UTC)}
    entry = entry.model_copy(update=more)

    def with_it(entries: "tuple[KeyEntry, ...]") -> "tuple[KeyEntry, ...]":
        if any(other_entry.id == key_id for other_entry in entries):
            raise CommandError(f"the key {key_id} exists already", "Choose another id, or revoke it first.")
        return (*entries, entry)

    path = _path(command)
    change_keys(path, with_it)
    command.terminal.say(f"Give this key to {user}; it is not stored, only its digest is in {path}:")
    command.terminal.line(key)
    if not command.settings.text("server.keys"):
        command.terminal.say(f'Let the server use it: keys = "{_FILE}" under [server] of windlass.toml.')


@app.command("list")
def list_keys(context: typer.Context) -> None:
    """List the keys of the key file.

    Example: windlass keys list
    """
    from windlass_server.auth import read_keys  # noqa: PLC0415 - slow to import

    command = command_of(context)
    now = parts.SystemClock().now()
    rows = [
        (
            entry.id,
            entry.tenant,
            entry.user,
            ", ".join([*entry.roles, *(["operator"] if entry.operator else [])]) or "–",
            "never" if entry.expires_at is None else f"{entry.expires_at.astimezone(UTC):%Y-%m-%d}",
            _state(entry, now),
        )
        for entry in read_keys(_path(command))
    ]
    if rows:
        show_table(command.terminal, _HEADER, rows=rows)
    else:
        command.terminal.say("No keys. Add one: windlass keys add ID USER")


def _state(entry: "KeyEntry", now: datetime) -> str:
    if entry.revoked:
        return "revoked"
    return "expired" if entry.expires_at is not None and entry.expires_at <= now else "valid"


@app.command()
def revoke(context: typer.Context, key_id: Id) -> None:
    """Revoke a key: its next request is refused, and its streams end within one heartbeat.

    Example: windlass keys revoke ann1
    """
    from windlass_server.auth import change_keys  # noqa: PLC0415 - slow to import

    command = command_of(context)

    def without_it(entries: "tuple[KeyEntry, ...]") -> "tuple[KeyEntry, ...]":
        if all(entry.id != key_id for entry in entries):
            raise CommandError(f"unknown key: {key_id}", "List the keys: windlass keys list")
        return tuple(
            entry.model_copy(update={"revoked": True}) if entry.id == key_id else entry for entry in entries
        )

    change_keys(_path(command), without_it)
    command.terminal.say(f"The key {key_id} is revoked.")

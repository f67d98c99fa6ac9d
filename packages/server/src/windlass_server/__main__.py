"""`python -m windlass_server`: serve agents over HTTP."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from windlass import Agent, AgentError
from windlass.demo import agent as demo
from windlass.ledger.goals import Goal
from windlass.loading import load
from windlass_protocol import encode
from windlass_server.keys import new_key
from windlass_server.serving import serve
from windlass_server.settings import ImproveSettings, JwtSettings, Settings, refused
from windlass_server.tenants import Tenants

T = TypeVar("T")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, or make a key; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.new_key is not None:
            return _new_key(*options.new_key)
        return _serve(options)
    except AgentError as error:
        sys.stderr.write(f"windlass-server: {error.message}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="windlass-server", description="Serve agents over HTTP.")
    add = parser.add_argument
    add("--agents", metavar="MODULE:ATTR", help="your agents, or FILE.py:ATTR; a demo agent when left out")
    add("--data", type=Path, default=Path("windlass-data"), help="the folder of the stores")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8700, help="0 takes a free one")
    add("--keys", type=Path, help="a file of API keys")
    add("--jwt-issuer", metavar="URL", help="whose tokens are taken; needs --jwt-audience and --jwt-jwks")
    add("--jwt-audience", metavar="NAME")
    add("--jwt-jwks", metavar="FILE-OR-URL", help="the public keys of the issuer")
    add("--jwt-tenant-claim", default="tenant", metavar="NAME")
    add("--jwt-user-claim", default="sub", metavar="NAME")
    add("--jwt-roles-claim", metavar="NAME", help="the claim with the roles approver and improver")
    add("--builder-model", metavar="MODEL", help="who proposes changes to agents, such as openai/gpt-5")
    add("--goals", metavar="MODULE:ATTR", help="a Goal, or a list of them, that changes are made for")
    add("--cors-origin", action="append", default=[], metavar="URL", help="a web page that may call")
    add("--new-key", nargs=3, metavar=("ID", "TENANT", "USER"), help="make an API key and end")
    return parser


def _serve(options: argparse.Namespace) -> int:
    settings = Settings(
        host=options.host,
        port=options.port,
        keys=options.keys,
        jwt=_jwt(options),
        cors_origins=tuple(options.cors_origin),
        improve=ImproveSettings(options.builder_model, _loaded(options.goals, Goal, option="--goals")),
    )
    agents = _loaded(options.agents, Agent, option="--agents") or (demo,)
    tenants = Tenants(options.data, agents, open_max=settings.limits.tenants_open_max)
    return serve(settings, tenants)


def _loaded(place: str | None, kind: type[T], *, option: str) -> tuple[T, ...]:
    try:
        return () if place is None else load(place, kind)
    except AgentError as error:
        raise refused(f"{option} {place}: {error.message}") from error


def _jwt(options: argparse.Namespace) -> JwtSettings | None:
    given = (options.jwt_issuer, options.jwt_audience, options.jwt_jwks)
    if not any(given):
        return None
    if not all(given):
        raise refused("tokens need all of --jwt-issuer, --jwt-audience and --jwt-jwks")
    return JwtSettings(
        options.jwt_issuer,
        options.jwt_audience,
        options.jwt_jwks,
        tenant_claim=options.jwt_tenant_claim,
        user_claim=options.jwt_user_claim,
        roles_claim=options.jwt_roles_claim,
    )


def _new_key(key_id: str, tenant: str, user: str) -> int:
    key, entry = new_key(key_id, tenant, user=user)
    shown = entry.model_dump(mode="json", by_alias=True, include={"id", "sha256", "tenant", "user"})
    sys.stderr.write(f"Give this to {user}; it is kept nowhere:\n")
    sys.stdout.write(f"{key}\n")
    sys.stderr.write(f"Put this into the file of keys:\n{encode(shown).decode()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

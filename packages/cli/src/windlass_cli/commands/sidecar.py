"""`windlass sidecar`: the runtime for a program in any language."""

from typing import Final

import typer

from windlass_cli.session import session_of

ALL_ARGUMENTS: Final[dict[str, object]] = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": (),
}
"""What it is told is for the sidecar, its help too."""


def sidecar(context: typer.Context) -> None:
    """Speak JSON-RPC on standard input and output, for programs in any language.

    It is `windlass-sidecar`, and takes its options: see windlass sidecar --help. The setting `store` is its
    --store.

    Example: windlass sidecar --store app.db --tools shop.tools
    """
    # A command that is not this one does not pay for it.
    from windlass_sidecar.main import main  # noqa: PLC0415 - slow to import

    settings = session_of(context).settings
    kept = ["--store", str(settings.store)] if settings.text("store") else []
    main([*kept, *context.args])

"""Migrations: bring a database to the schema of this version, or say why not.

The modules `r0001_…` and on are the revisions; released ones never change, and there is no way down. Alembic
runs them without its global state: each is given the operations of its own connection, so that two databases
can be opened at the same time.
"""

from functools import cache
from typing import Final

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import Script
from alembic.script.revision import RevisionMap
from sqlalchemy import Connection

from windlass.adapters.storage import r0001_documents, r0002_search
from windlass.adapters.storage.refusals import misconfigured
from windlass.adapters.storage.tables import METADATA

REVISIONS: Final = (r0001_documents, r0002_search)
"""Oldest first."""
NEWEST: Final = REVISIONS[-1].revision
VERSION_TABLE: Final = "windlass_storage_revision"


def context_of(connection: Connection, *, target: str = NEWEST) -> MigrationContext:
    """Return Alembic's view of a database, ready to migrate it up to the target."""

    def steps(found: tuple[str, ...], _: MigrationContext) -> list[RevisionStep]:
        known = _revision_map()
        newest_first = known.iterate_revisions(target, found[0] if found else "base")
        scripts = [script for script in newest_first if isinstance(script, Script)]
        return [MigrationStep.upgrade_from_script(known, script) for script in reversed(scripts)]

    options = {
        "fn": steps,
        "version_table": VERSION_TABLE,
        "target_metadata": METADATA,
        "compare_type": True,
        "compare_server_default": True,
    }
    return MigrationContext.configure(connection, opts=options)


def migrate(connection: Connection, *, target: str = NEWEST) -> None:
    """Bring the database up to date, inside the transaction of the connection.

    Raises:
        Rejected: the database is newer than this version.
    """
    # Without one Alembic would commit after each revision, and let another process in between.
    assert connection.in_transaction(), "begin a transaction first"
    context = context_of(connection, target=target)
    _refuse_newer(context.get_current_revision())
    context.run_migrations(op=Operations(context))


def check(connection: Connection, *, is_older_fine: bool) -> bool:
    """Return whether the database has the newest schema; change nothing.

    Raises:
        Rejected: the database is newer than this version, or older and that is not fine.
    """
    found = context_of(connection).get_current_revision()
    _refuse_newer(found)
    if found != NEWEST and not is_older_fine:
        raise misconfigured(
            f"old database: found schema revision {found or 'none'}, expected {NEWEST}; "
            "open it once with migrate=True"
        )
    return found == NEWEST


def _refuse_newer(found: str | None) -> None:
    if found is not None and found not in {module.revision for module in REVISIONS}:
        raise misconfigured(
            f"newer database: found schema revision {found}, this version knows {NEWEST} and older ones; "
            "use a newer version of windlass"
        )


@cache
def _revision_map() -> RevisionMap:
    return RevisionMap(
        lambda: [Script(module, module.revision, str(module.__file__)) for module in REVISIONS]
    )

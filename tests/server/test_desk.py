"""The support desk of the documents: each refund is paid once, whatever fails."""

import asyncio
from pathlib import Path

import pytest
from tests.server.desk import APP, trial

LINES_MAX = 90


@pytest.mark.slow
def test_a_desk_with_a_busy_provider_and_a_killed_server_refunds_each_order_once(tmp_path: Path) -> None:
    told = asyncio.run(trial(tmp_path, tickets=2, kills=1, busy=2))
    assert told == {"trials": 2, "kills": 1, "wrong": 0, "violations": [], "refused": 2}


def test_the_desk_fits_on_a_page() -> None:
    assert APP.count("\n") < LINES_MAX

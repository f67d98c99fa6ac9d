"""Sessions that stream while their server is killed: short, without a limit of stalls."""

from pathlib import Path

import pytest
from tests.server.rig import run
from tests.server.streaming import streaming


@pytest.mark.slow
@pytest.mark.promise("F1")
def test_streams_of_a_killed_server_go_on_where_they_were(tmp_path: Path) -> None:
    async def main() -> None:
        played = await streaming(tmp_path, sessions=8, seconds=10, kills=1)
        # Stalls are measured by `make torture`: here other tests use the machine.
        assert [wrong for wrong in played["violations"] if "stall" not in wrong] == []
        assert played["trials"] >= 8
        assert played["reconnects"] > 0

    run(main())

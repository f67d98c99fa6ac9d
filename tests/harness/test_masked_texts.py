"""Random texts with secrets are masked as the shapes say; `make torture` compares a million."""

from typing import cast

import pytest
from tests.harness import masked_texts


@pytest.mark.promise("S1")
@pytest.mark.parametrize("seed", range(2))
def test_searching_near_seeds_masks_what_searching_everywhere_masks(seed: int) -> None:
    done = masked_texts.compare(2_000, seed)
    assert done["wrong"] == []
    assert cast(int, done["masked"]) > 500

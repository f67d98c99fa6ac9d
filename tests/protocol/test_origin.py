"""Whether a package called windlass is ours."""

from types import ModuleType

import pytest

from windlass_protocol.origin import DISTRIBUTION, check_origin


def package(**names: object) -> ModuleType:
    windlass = ModuleType("windlass")
    windlass.__path__ = ["/site-packages/windlass"]
    vars(windlass).update(names)
    return windlass


def test_the_package_of_our_distribution_is_ours() -> None:
    check_origin(package(__distribution__=DISTRIBUTION), "1.2.3")


@pytest.mark.parametrize("names", [{}, {"__distribution__": "windlass"}])
def test_a_package_of_others_is_refused_with_what_to_do(names: dict[str, object]) -> None:
    with pytest.raises(ImportError, match=r"in /site-packages/windlass is not that of") as refused:
        check_origin(package(**names), "1.2.3")
    assert refused.value.name == "windlass"
    assert "pip uninstall -y windlass" in str(refused.value)
    assert f"pip install --force-reinstall --no-deps {DISTRIBUTION}==1.2.3" in str(refused.value)

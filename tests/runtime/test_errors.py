import copy
import pickle
from typing import Any

import pytest

import windlass
from windlass.errors import CLASS_OF_KIND, AgentError, Conflict, Denied, Unavailable
from windlass_harness.retry import DELAY_MS_MAX
from windlass_protocol import CausalIds, ErrorCode, ErrorKind, PolicyRef, RetryClass, SourceRef
from windlass_protocol.codec import decode, encode


def denied(causal_ids: CausalIds) -> AgentError:
    return Denied(
        "the policy refused the call: ask an owner of the session",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        policy_refs=[PolicyRef.model_validate({"kind": "approval", "id": "no-deletes"})],
        source=SourceRef.model_validate({"kind": "user", "id": "ada"}),
        causal_ids=causal_ids,
    )


def test_every_kind_has_one_class_and_every_class_has_its_own_code():
    assert set(CLASS_OF_KIND) == set(ErrorKind)
    codes = {cls.code for cls in CLASS_OF_KIND.values()} | {ErrorCode.CORRUPT}
    assert codes == set(ErrorCode)


def test_an_error_crosses_the_wire_with_its_reasons_and_comes_back_the_same():
    info = denied(causal_ids=CausalIds(run_id="r1", call_id="c1")).info()
    assert decode(type(info), encode(info)) == info
    assert info.code == ErrorCode.DENIED
    assert info.causal_ids == CausalIds(run_id="r1", call_id="c1")
    assert info.policy_refs is not None
    assert [ref.id for ref in info.policy_refs] == ["no-deletes"]


def test_causal_ids_are_merged_and_the_first_one_stays():
    error = denied(causal_ids=CausalIds(run_id="r1")).caused_by(CausalIds(run_id="other", call_id="c1"))
    assert error.causal_ids == CausalIds(run_id="r1", call_id="c1")


def test_an_error_without_causes_says_nothing_of_causes():
    info = Conflict(
        "the run has ended: start a new one",
        kind=ErrorKind.INVALID_STATE_TRANSITION,
        retry=RetryClass.NOT_RETRYABLE,
    ).info()
    assert encode(info) == (
        b'{"code":"conflict","kind":"invalid_state_transition","retry":"not_retryable",'
        b'"message":"the run has ended: start a new one"}'
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [(None, None), (0, 0), (1_500, 1_500), (-1, 0), (DELAY_MS_MAX, DELAY_MS_MAX), (10**18, DELAY_MS_MAX)],
)
def test_an_error_says_when_to_try_again(given: int | None, kept: int | None):
    error = Unavailable(
        "busy", kind=ErrorKind.PROVIDER_FAILURE, retry=RetryClass.RETRYABLE, retry_after_ms=given
    )
    assert error.retry_after_ms == error.info().retry_after_ms == kept


def test_an_error_refuses_unknown_options():
    facts: dict[str, Any] = {"kind": ErrorKind.TIMEOUT, "retry": RetryClass.RETRYABLE, "retry_after": 5}
    with pytest.raises(TypeError, match="unknown option of an error: retry_after; it takes causal_ids"):
        Unavailable("busy", **facts)


def test_the_six_classes_are_the_public_names():
    assert issubclass(windlass.Denied, windlass.AgentError)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = windlass.Nonsense


def test_an_error_passes_between_processes_and_can_be_copied() -> None:
    error = Unavailable(
        "later",
        kind=ErrorKind.PROVIDER_FAILURE,
        retry=RetryClass.RETRYABLE,
        causal_ids=CausalIds(run_id="r1"),
        retry_after_ms=5,
    )
    for other in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error), copy.copy(error)):
        assert type(other) is Unavailable
        assert str(other) == "later"
        assert other.args == ("later",)
        assert other.info() == error.info()

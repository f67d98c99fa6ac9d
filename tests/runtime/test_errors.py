import pytest

import windlass
from windlass.errors import CLASS_OF_KIND, AgentError, Conflict, Denied
from windlass_protocol import CausalIds, ErrorCode, ErrorKind, PolicyRef, RetryClass, SourceRef
from windlass_protocol.codec import decode, encode


def denied(**facts: CausalIds) -> AgentError:
    return Denied(
        "the policy refused the call: ask an owner of the session",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        policy_refs=[PolicyRef.model_validate({"kind": "approval", "id": "no-deletes"})],
        source=SourceRef.model_validate({"kind": "user", "id": "ada"}),
        **facts,
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


def test_the_six_classes_are_the_public_names():
    assert issubclass(windlass.Denied, windlass.AgentError)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = windlass.Nonsense

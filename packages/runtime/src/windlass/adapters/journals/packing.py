"""Bodies of appends, made small: records repeat the same names over and over.

The first byte says how the rest is to be read. A dictionary that was ever used stays here for ever, under its
number, because journals that were written with it must be read by every later version.
"""

import zlib
from typing import Final

from windlass.limits import BATCH_RECORDS_MAX, RECORD_BYTES_MAX

_PLAIN: Final = b"\x00"
_WORDS_1: Final = b"\x01"
_PACK_BYTES_MIN: Final = 128
_BODY_BYTES_MAX: Final = RECORD_BYTES_MAX * BATCH_RECORDS_MAX
_WINDOW_BITS: Final = -13  # raw deflate; 8 KiB are enough for the dictionary and most bodies
_MEMORY_LEVEL: Final = 8

# What records have in common, the most frequent last: nearer words cost fewer bits.
DICTIONARY_1: Final = (
    b'["session.waiting","Z",{"wait":"next-user-message"}],["run.cancelled","["run.failed","Z",{"runId":"'
    b'","error":{"code":"unavailable","kind":"provider_failure","retry":"not_retryable","message":"'
    b'["step.failed","["step.retrying","Z",{"code":"provider_failure","attempt":1,"delayMs":'
    b'["output.requested","["output.validated","["output.rejected","schemaId","errors":[{"path":"'
    b'["recovery.started","["recovery.effect_found","["recovery.effect_settled","choice":"retry"'
    b'["hook.completed","Z",{"hookId":"","point":"before_tool_call","status":"completed","durationMs":'
    b'["input.requested","Z",{"requests":[{"requestId":"approval:","action":{"kind":"tool-call","callId":"'
    b'"prompt":"Run ?","display":"confirmation","options":[{"id":"approve","label":"Approve",'
    b'"style":"primary"},'
    b'{"id":"approve_session","label":"Approve for this session"},'
    b'{"id":"deny","label":"Deny","style":"danger"}],'
    b'"allowFreeform":true,"kind":"approval","argumentsHash":"sha256:","expiresAt":"'
    b'["turn.waiting","["run.waiting","Z",{"runId":"","on":"input","requestIds":["approval:'
    b'["input.resolved","Z",{"resolutions":[{"requestId":"","outcome":"approved","kind":"approval",'
    b'"response":{"'
    b'["approval.settled","responder":"","optionId":"approve"}}],["run.resumed","reason":"ready","epoch":'
    b'["session.started","Z",{},null,"["run.started","Z",{"runId":"","agentId":"","packageId":"",'
    b'"packageFingerprint":"sha256:","routeId":"","modelId":"","budget":{"max'
    b'["turn.started","Z",{"sequence":0,"turnId":"turn_0"},"["message.received","Z",{"message":"'
    b'["turn.completed","["run.completed","Z",{"runId":"","output":"","structuredOutput":'
    b'["reasoning.completed","Z",{"reasoning":"'
    b'"status":"failed","error":{"code":"failed","message":"","output":null,"isError":true},"rejected"'
    b'["message.completed","2026-11-15T12:00:00.000Z",{"message":null,"finishReason":"stop"tool-calls",'
    b'"sequence":0,"turnId":"turn_0","stepIndex":0},"["actions.requested","Z",{"actions":[{"kind":"tool-call",'
    b'"callId":"call_","toolName":"","input":{"}}],"sequence":0,"turnId":"turn_0","stepIndex":'
    b'["step.completed","Z",{"finishReason":"tool-calls","sequence":0,"turnId":"turn_0","stepIndex":1,'
    b'"usage":{"inputTokens":10,"outputTokens":10,"costMicros":},"latencyMs":0},"'
    b'["policy.decided","Z",{"stage":"pre_tool","decision":{"code":"policy.default",'
    b'"reason":"Reads and safe writes need no consent.","policyRefs":[{"kind":"permission",'
    b'"id":"default.read",'
    b'"version":"sha256:"}],"decision":"allow"},"callId":"","toolName":"","sequence":0,"turnId":"turn_0",'
    b'["action.started","Z",{"callId":"","toolName":"","effect":"read","idempotencyKey":"","argumentsHash":'
    b'"sha256:","mode":"read","sequence":0,"turnId":"turn_0","stepIndex":0},"'
    b'["action.result","2026-11-15T12:00:00.000Z",{"result":{"kind":"tool-result","callId":"","toolName":"",'
    b'"output":""},"status":"completed","sequence":0,"turnId":"turn_0","stepIndex":0,"durationMs":0},"'
    b'["step.started","Z",{"sequence":0,"turnId":"turn_0","stepIndex":1,"promptMessageCount":1,"modelId":"'
)


def pack(body: bytes) -> bytes:
    """Return a body as it is stored."""
    if len(body) < _PACK_BYTES_MIN:
        return _PLAIN + body
    packer = zlib.compressobj(
        1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL, zlib.Z_DEFAULT_STRATEGY, DICTIONARY_1
    )
    packed = packer.compress(body) + packer.flush()
    return _WORDS_1 + packed if len(packed) < len(body) else _PLAIN + body


def unpack(stored: bytes) -> bytes:
    """Return a body that was stored.

    ValueError if it is none, or larger than any body may be.
    """
    kind, rest = stored[:1], stored[1:]
    if kind == _PLAIN:
        return rest
    if kind != _WORDS_1:
        raise ValueError("a body is stored in a way that this version does not know")
    unpacker = zlib.decompressobj(_WINDOW_BITS, zdict=DICTIONARY_1)
    try:
        body = unpacker.decompress(rest, _BODY_BYTES_MAX)
    except zlib.error:
        raise ValueError("a body cannot be unpacked") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a body is cut off or too large")
    return body

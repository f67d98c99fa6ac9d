"""What must be true of the calls and requests of a session, read record by record."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf

from pydantic import JsonValue

from windlass.testing.world import World
from windlass_harness.times import ms_of
from windlass_protocol import JsonObject, Record


def check_calls(world: World, records: Sequence[Record]) -> None:
    """Effects begin after a yes, are repeated only if they may be, have one result."""
    checks = _Calls(world)
    for record in records:
        checks.take(record)
    checks.end()


def check_requests(world: World, records: Sequence[Record]) -> None:
    """A request is settled once, as it was answered, and before it expires."""
    checks = _Requests(world)
    for record in records:
        checks.take(record)
    checks.end()


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list in a record."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _answered(body: JsonObject) -> list[JsonValue]:
    """Return the requests that an answer is for."""
    return [one.get("requestId") for one in objects(body.get("responses"))]


def _given_ms(body: JsonObject) -> float:
    given_ms = body.get("givenMs")
    return given_ms if isinstance(given_ms, int) else inf


def _key(record: Record, call_id: object) -> str:
    return f"{record.run_id}/{record.data.get('stepIndex')}/{call_id}"


class _Calls:
    def __init__(self, world: World) -> None:
        self._world = world
        self._verdicts: dict[str, JsonObject] = {}
        self._yeses: Counter[str] = Counter()
        self._choices: Counter[str] = Counter()
        self._passed_on: Counter[str] = Counter()
        """How often a call that never began went to the next owner."""
        self._results: Counter[str] = Counter()
        self._starts: Counter[str] = Counter()
        self._step = 0
        self._follow: dict[str, Callable[[Record], None]] = {
            "step.started": self._step_started,
            "policy.decided": self._decided,
            "approval.settled": self._settled,
            "recovery.effect_found": self._found,
            "recovery.effect_settled": self._chosen,
            "action.started": self._started,
            "action.result": self._result,
        }

    def take(self, record: Record) -> None:
        follow = self._follow.get(record.type)
        if follow is not None:
            follow(record)

    def end(self) -> None:
        for key, count in self._results.items():
            if count != 1:
                self._world.blame(f"{key} has {count} results")
        for key, facts in self._world.calls.items():
            chosen = self._choices[key]
            if facts.effect == "once" and key in self._starts and len(facts.begun) > 1 + chosen:
                self._world.blame(f"{key} was performed {len(facts.begun)} times, chosen {chosen} times")

    def _step_started(self, record: Record) -> None:
        self._step = record.step_index or 0

    def _decided(self, record: Record) -> None:
        decision = record.data["decision"]
        assert isinstance(decision, dict)
        self._verdicts[_key(record, record.data.get("callId"))] = decision

    def _settled(self, record: Record) -> None:
        request = str(record.data["requestId"]).rpartition(":")[0]
        self._yeses[request] += record.data["outcome"] == "approved"

    def _found(self, record: Record) -> None:
        self._passed_on[self._here(record)] += record.data.get("begun") is False

    def _chosen(self, record: Record) -> None:
        self._choices[self._here(record)] += record.data["choice"] == "retry"

    def _here(self, record: Record) -> str:
        return f"{record.run_id}/{self._step}/{record.data['callId']}"

    def _started(self, record: Record) -> None:
        world, data = self._world, record.data
        key = _key(record, data["callId"])
        self._starts[key] += 1
        if self._results[key]:
            world.blame(f"{key} was begun after its result")
        if data["idempotencyKey"] != key:
            world.blame(f"{key} has the idempotency key {data['idempotencyKey']}")
        if self._starts[key] == 1:
            self._check_consent(key, record)
        elif data["effect"] == "once" and self._starts[key] > 1 + self._choices[key] + self._passed_on[key]:
            # Whether it had really not begun is seen at the end, by how often it was performed.
            world.blame(f"{key} was begun again without anybody's choice")

    def _check_consent(self, key: str, call: Record) -> None:
        """A call begins after a yes: of the policy, or of a person, which counts once."""
        verdict = self._verdicts.get(key)
        if verdict is None or verdict["decision"] not in ("allow", "modify"):
            self._world.blame(f"{key} was begun without a yes of the policy")
        elif verdict["code"] == "approval.granted":
            request = f"approval:{call.run_id}:{call.data.get('stepIndex')}:{call.data['callId']}"
            self._yeses[request] -= 1
            if self._yeses[request] < 0:
                self._world.blame(f"{key} was begun without a yes of a person")

    def _result(self, record: Record) -> None:
        """What is said to be done was done."""
        result = record.data["result"]
        assert isinstance(result, dict)
        key = _key(record, result["callId"])
        self._results[key] += 1
        is_told = record.data["status"] == "completed" and result["output"] != "supplied"
        if is_told and not self._world.call(key).is_done:
            self._world.blame(f"{key} has a result and was never done")


class _Requests:
    def __init__(self, world: World) -> None:
        self._world = world
        self._expiries: dict[str, str] = {}
        self._hashes: dict[str, JsonValue] = {}
        self._outcomes: dict[str, JsonValue] = {}
        self._settled: Counter[str] = Counter()

    def take(self, record: Record) -> None:
        match record.type:
            case "input.requested":
                self._asked(record)
            case "input.resolved":
                self._resolved(record)
            case "approval.settled":
                self._decided(record)
            case "action.started":
                self._begun(record)
            case _:
                pass

    def end(self) -> None:
        for request_id, count in self._settled.items():
            if count != 1:
                self._world.blame(f"{request_id} was settled {count} times")

    def _asked(self, record: Record) -> None:
        for request in objects(record.data["requests"]):
            request_id = str(request["requestId"])
            if request_id in self._hashes:
                self._world.blame(f"{request_id} was asked twice")
            self._hashes[request_id] = request.get("argumentsHash")
            self._expiries[request_id] = str(request.get("expiresAt") or "9999")

    def _resolved(self, record: Record) -> None:
        """What a person said is what counts."""
        for one in objects(record.data["resolutions"]):
            response = one.get("response")
            option = response.get("optionId") if isinstance(response, dict) else None
            if (option == "deny") != (one["outcome"] == "denied"):
                told = f"answered {option} and resolved as {one['outcome']}"
                self._world.blame(f"{one['requestId']} was {told}")
            self._outcomes[str(one["requestId"])] = one["outcome"]

    def _decided(self, record: Record) -> None:
        request_id, outcome = str(record.data["requestId"]), record.data["outcome"]
        self._settled[request_id] += 1
        if self._outcomes.get(request_id) != outcome:
            found = self._outcomes.get(request_id)
            self._world.blame(f"{request_id} was {found} and is settled as {outcome}")
        expiry = self._expiries.get(request_id, "")
        if outcome == "approved" and record.at >= expiry and not self._was_given(request_id, expiry):
            self._world.blame(f"{request_id} was approved at {record.at}, after {expiry}")

    def _was_given(self, request_id: str, expiry: str) -> bool:
        """Whether an answer was acknowledged in time, however late it was taken."""
        return any(
            _given_ms(post.body) < ms_of(expiry)
            for post in self._world.posts
            if post.kind == "answer" and request_id in _answered(post.body)
        )

    def _begun(self, record: Record) -> None:
        data = record.data
        request_id = f"approval:{record.run_id}:{data.get('stepIndex')}:{data['callId']}:1"
        hashed = data.get("argumentsHash")
        if hashed is not None and self._hashes.get(request_id, hashed) != hashed:
            self._world.blame(f"{request_id} was given for other arguments than those of the call")

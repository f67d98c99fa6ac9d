"""Invariants of calls and requests, checked record by record."""

from collections import Counter
from collections.abc import Callable, Sequence

from pydantic import JsonValue
from tests.simulator.world import World

from windlass.tools import PROGRAM_TOOLS
from windlass_harness.record import Record
from windlass_harness.times import ms_of
from windlass_harness.views.runs import RUN_ENDS
from windlass_protocol import JsonObject


def check_calls(world: World, records: Sequence[Record]) -> None:
    """Check that effects start after an approval, repeat only if allowed, and have one result."""
    checks = _Calls(world)
    for record in records:
        checks.take(record)
    checks.end()


def check_requests(world: World, records: Sequence[Record]) -> None:
    """Check that a request is settled once, as it was answered, and before it expires."""
    checks = _Requests(world)
    for record in records:
        checks.take(record)
    checks.end()


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list in a record."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _key(record: Record, call_id: object) -> str:
    return f"{record.run_id}/{record.data.get('stepIndex')}/{call_id}"


def _asked_for(record: Record) -> str:
    """Return the prefix of the ids of requests about the call of a record."""
    return f"approval:{record.run_id}:{record.step_index}:{record.data.get('callId')}:"


class _Calls:
    def __init__(self, world: World) -> None:
        self._world = world
        self._verdicts: dict[str, JsonObject] = {}
        self._yeses: Counter[str] = Counter()
        self._choices: Counter[str] = Counter()
        self._unbegun: Counter[str] = Counter()
        self._results: Counter[str] = Counter()
        self._outputs: dict[str, JsonValue] = {}
        self._starts: Counter[str] = Counter()
        self._runs: dict[str, str | None] = {}
        """The runs of started calls."""
        self._ended: set[str | None] = set()
        """Runs that have ended: each of their calls has a result."""
        self._step = 0
        self._follow: dict[str, Callable[[Record], None]] = {
            "step.started": self._step_started,
            "policy.decided": self._decided,
            "approval.settled": self._settled,
            "recovery.effect_found": self._passed_on,
            "recovery.effect_settled": self._chosen,
            "action.started": self._started,
            "action.result": self._result,
        }

    def take(self, record: Record) -> None:
        follow = self._follow.get(record.type)
        if follow is not None:
            follow(record)
        elif record.type in RUN_ENDS:
            self._ended.add(record.run_id)

    def end(self) -> None:
        for key in {*self._results, *self._starts}:
            count = self._results[key]
            if count > 1 or (count < 1 and self._runs[key] in self._ended):
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

    def _chosen(self, record: Record) -> None:
        key = f"{record.run_id}/{self._step}/{record.data['callId']}"
        self._choices[key] += record.data["choice"] == "retry"

    def _passed_on(self, record: Record) -> None:
        """Note that an owner reports a call as not started; it is checked at the end."""
        key = f"{record.run_id}/{self._step}/{record.data['callId']}"
        self._unbegun[key] += record.data.get("begun") is False

    def _started(self, record: Record) -> None:
        world, data = self._world, record.data
        key = _key(record, data["callId"])
        self._starts[key] += 1
        self._runs[key] = record.run_id
        if self._results[key]:
            world.blame(f"{key} was begun after its result")
        if data["idempotencyKey"] != key:
            world.blame(f"{key} has the idempotency key {data['idempotencyKey']}")
        if self._starts[key] == 1:
            self._check_consent(key, record)
        elif data["effect"] == "once" and self._starts[key] > 1 + self._choices[key] + self._unbegun[key]:
            world.blame(f"{key} was started again although no person chose so")

    def _check_consent(self, key: str, call: Record) -> None:
        """Check that a call was approved by the policy, or by a person; a consent counts once."""
        verdict = self._verdicts.get(key)
        if verdict is None or verdict["decision"] not in ("allow", "modify"):
            self._world.blame(f"{key} was begun without a yes of the policy")
        elif verdict["code"] == "approval.granted":
            request = f"approval:{call.run_id}:{call.data.get('stepIndex')}:{call.data['callId']}"
            self._yeses[request] -= 1
            if self._yeses[request] < 0:
                self._world.blame(f"{key} was begun without a yes of a person")

    def _result(self, record: Record) -> None:
        """Check that a call with a result had its effect."""
        result = record.data["result"]
        assert isinstance(result, dict)
        key = _key(record, result["callId"])
        self._results[key] += 1
        is_told = record.data["status"] == "completed" and result["output"] != "supplied"
        if result.get("toolName") == PROGRAM_TOOLS["code"]:
            # A program has no effect of its own.
            self._check_program(key, record, result)
            return
        self._outputs[key] = result["output"]
        if is_told and not self._world.call(key).is_done:
            self._world.blame(f"{key} has a result and was never done")

    def _check_program(self, key: str, record: Record, result: JsonObject) -> None:
        """Check that the result of a program is the list of the results of its calls."""
        error = record.data.get("error")
        if isinstance(error, dict) and error["code"] == "diverged":
            self._world.blame(f"{key} went another way after a restart")
        mine = {name: output for name, output in self._outputs.items() if name.startswith(f"{key}/")}
        expected = [mine[f"{key}/{at}"] for at in range(len(mine)) if f"{key}/{at}" in mine]
        if record.data["status"] == "completed" and result["output"] != expected:
            self._world.blame(f"{key} has the result {result['output']}, and its calls {expected}")


class _Requests:
    def __init__(self, world: World) -> None:
        self._world = world
        self._expiries: dict[str, str] = {}
        self._hashes: dict[str, JsonValue] = {}
        self._outcomes: dict[str, JsonValue] = {}
        self._settled: Counter[str] = Counter()
        self._used: set[str] = set()
        """Started calls: their consent is used and does not expire any more."""

    def take(self, record: Record) -> None:
        match record.type:
            case "input.requested":
                self._asked(record)
            case "input.resolved":
                self._resolved(record)
            case "approval.settled":
                self._decided(record)
            case "policy.decided":
                self._consented(record)
            case "action.started":
                self._begun(record)
            case "recovery.effect_found":
                if record.data.get("begun") is False:
                    self._used.discard(_asked_for(record))
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
        """Check that the answer of a person takes effect."""
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
        if outcome == "approved" and record.at >= expiry and not self._is_in_time(request_id, expiry):
            self._world.blame(f"{request_id} was approved at {record.at}, after {expiry}")

    def _is_in_time(self, request_id: str, expiry: str) -> bool:
        """Whether an answer that is consumed late was given before its request expired."""
        return any(
            isinstance(given_ms := post.body.get("givenMs"), int) and given_ms < ms_of(expiry)
            for post in self._world.posts
            if any(one["requestId"] == request_id for one in objects(post.body.get("responses")))
        )

    def _consented(self, record: Record) -> None:
        """Check that a consent was not used after it expired."""
        decision = record.data["decision"]
        call = _asked_for(record)
        if isinstance(decision, dict) and decision["code"] == "approval.granted" and call not in self._used:
            expiry = max(
                (until for name, until in self._expiries.items() if name.startswith(call)), default=""
            )
            if record.at >= expiry:
                self._world.blame(f"{call} consent was used at {record.at}, after {expiry}")

    def _begun(self, record: Record) -> None:
        data = record.data
        request_id = f"{_asked_for(record)}1"
        self._used.add(_asked_for(record))
        hashed = data.get("argumentsHash")
        if hashed is not None and self._hashes.get(request_id, hashed) != hashed:
            self._world.blame(f"{request_id} was given for other arguments than those of the call")

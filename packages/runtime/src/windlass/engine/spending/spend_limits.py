"""Limits for people and teams: what runs may spend together in a day or a month.

They are documents of the store, so they hold for all processes that share it. A process reads them once a
second; without any, no run is held up by a question to the store.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, cast, get_args
from zoneinfo import ZoneInfo

from windlass.errors import Denied, check_whole, kind_of
from windlass.limits import SPEND_LIMITS_MAX
from windlass.ports.clock import Clock
from windlass.ports.documents import Document
from windlass.ports.purses import PURSE, CallRefusal, Purse, PurseState, PurseStore
from windlass.ports.store import Store
from windlass.refusals import (
    bad_setup,
    check_given,
    check_id,
    check_name,
    missing_port,
    unknown_document,
)
from windlass_harness.loop.events import CallReserved, LimitAsk
from windlass_harness.loop.failures import limit_title
from windlass_harness.loop.rules import CallBounds, RunLimit
from windlass_harness.times import stamp_of
from windlass_harness.views.runs import RunState
from windlass_protocol import (
    BudgetLimits,
    BudgetName,
    CausalIds,
    ErrorCode,
    ErrorInfo,
    ErrorKind,
    JsonObject,
    LimitChoice,
    LimitInfo,
    RetryClass,
)
from windlass_protocol.frozen import frozen, sealed

SPEND_LIMIT: Final = "spend-limit"
"""The kind of the documents of limits."""
EACH: Final = "*"
"""The owner or agent of a limit that each of them has for itself."""
REFRESH_S: Final = 1.0
"""How old the limits may be that a process keeps to."""
Period = Literal["run", "day", "month"]
AtLimit = Literal["refuse", "ask", "cheaper"]


@sealed
class SpendLimit:
    """What runs may spend: each of them, or all together in a day or a month.

    Without `owner` and `agent` it is for all runs of the store; with both, for the runs of the agent for the
    owner.

    Raises:
        Rejected: a field is not valid.
    """

    name: str
    per: Period
    max_cost_micros: int | None = None
    """Millionths of a US dollar; None does not limit money."""
    max_tokens: int | None = None
    """Tokens of prompts and answers; None does not limit them."""
    owner: str | None = None
    """An owner, or `*` for each owner; None is for all runs, also those without an owner."""
    agent: str | None = None
    """The name of an agent, or `*` for each agent; None is for all."""
    timezone: str = "UTC"
    """The time zone of days and months, such as `Europe/Berlin`."""
    at_limit: AtLimit = "refuse"
    """What happens to a run of which the next answer does not fit: it ends, it asks a person to let it spend
    more, or a cheaper fallback model of its agent goes on, if its answer fits."""
    responders: tuple[str, ...] | None = None
    """Who may let a run spend more: names and roles; None for anyone who may answer for the run."""

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a limit")
        if "/" in self.name:
            raise bad_setup(f"the name of limit {self.name} must not have a slash")
        what = f"of limit {self.name}"
        for option in ("owner", "agent"):
            if (value := getattr(self, option)) is not None:
                check_name(value, f"{option} {what}")
        if self.per not in get_args(Period):
            raise bad_setup(f"per {what} must be one of {', '.join(get_args(Period))}, found {self.per!r}")
        if self.at_limit not in get_args(AtLimit):
            expected = ", ".join(get_args(AtLimit))
            raise bad_setup(f"at_limit {what} must be one of {expected}, found {self.at_limit!r}")
        self._check_responders(what)
        amounts = {"max_cost_micros": self.max_cost_micros, "max_tokens": self.max_tokens}
        for option, amount in amounts.items():
            if amount is not None:
                check_whole(amount, f"{option} {what}", most=2**53 - 1)
        if not any(amount is not None for amount in amounts.values()):
            raise bad_setup(f"limit {self.name} needs max_cost_micros, max_tokens, or both")
        check_given(self.timezone, str, what=f"timezone {what}", words="a text")
        try:
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, OSError):
            raise bad_setup(
                f"timezone {what} is unknown: {self.timezone!r}; name one such as Europe/Berlin"
            ) from None

    def _check_responders(self, what: str) -> None:
        if self.responders is None:
            return
        if self.at_limit != "ask":
            raise bad_setup(f'responders {what} are for at_limit "ask", found {self.at_limit!r}')
        responders = cast(object, self.responders)
        names = cast("Sequence[object]", responders) if isinstance(responders, list | tuple) else ()
        if not names:
            raise bad_setup(f"responders {what} must be names or roles, found {kind_of(self.responders)}")
        object.__setattr__(
            self, "responders", tuple(check_name(name, f"a responder {what}") for name in names)
        )

    def is_for(self, owner: str | None, agent_id: str) -> bool:
        """Whether runs of an agent for an owner count for it."""
        return (owner is not None or self.owner is None) and self.concerns(owner, agent_id)

    def concerns(self, owner: str | None, agent_id: str | None) -> bool:
        """Whether runs of an owner and of an agent may count for it; None is any of them."""
        is_of_owner = owner is None or self.owner in (None, EACH, owner)
        return is_of_owner and (agent_id is None or self.agent in (None, EACH, agent_id))

    def subject(self, owner: str | None, agent_id: str) -> str:
        """Return for which of the owners and agents a purse is; empty if there is one purse for all."""
        subjects = [(self.owner, owner or ""), (self.agent, agent_id)]
        return ", ".join(name for limit, name in subjects if limit == EACH)

    def period(self, now: datetime) -> tuple[str, datetime]:
        """Return the day or month of a time, and when it ends."""
        local = now.astimezone(ZoneInfo(self.timezone))
        day = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        if self.per == "day":
            return day.strftime("%Y-%m-%d"), (day + timedelta(days=1)).astimezone(UTC)
        following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        return day.strftime("%Y-%m"), following.astimezone(UTC)

    def purse(
        self, owner: str | None, agent_id: str, now: datetime, *, overdraft: tuple[int, int] = (0, 0)
    ) -> Purse:
        """Return the purse that runs of an agent for an owner spend from now.

        `overdraft` is the money and the tokens that a person lets a run spend beyond it.
        """
        subject, (period, _) = self.subject(owner, agent_id), self.period(now)
        over_micros, over_tokens = overdraft if self.at_limit == "ask" else (0, 0)
        return Purse(
            self.name, subject, period, self.max_cost_micros, self.max_tokens, over_micros, over_tokens
        )


@frozen
class LimitUse:
    """What was spent of a limit, in the period of now."""

    limit: SpendLimit
    subject: str
    """The owner or the agent, if each has a limit; empty otherwise."""
    period: str
    ends_at: str
    """When the next period begins."""
    state: PurseState

    @property
    def cost_micros_left(self) -> int | None:
        """Money that no call has spent or may spend yet, in millionths of a dollar; None without a limit."""
        most = self.limit.max_cost_micros
        return None if most is None else max(0, most - self.state.cost_micros - self.state.held_micros)

    @property
    def tokens_left(self) -> int | None:
        """Tokens that no call has used or may use yet; None without a limit."""
        most = self.limit.max_tokens
        return None if most is None else max(0, most - self.state.tokens - self.state.held_tokens)

    @property
    def is_used_up(self) -> bool:
        """Whether nothing is left."""
        return self.cost_micros_left == 0 or self.tokens_left == 0


class SpendLimits:
    """The limits of a store: set, removed and listed by operators, kept by the runs of all processes."""

    def __init__(self, store: Store | None, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.current: tuple[SpendLimit, ...] = ()
        """The limits as they were read last; another tuple when they have changed."""
        self._read_s: float | None = None

    @property
    def store(self) -> PurseStore:
        """The store that keeps the purses.

        Raises:
            Rejected: there is none, or it cannot keep purses.
        """
        if not isinstance(self._store, PurseStore):
            raise missing_port("store with purses")
        return self._store

    async def open(self, limits: Sequence[SpendLimit] | None) -> None:
        """Read the limits; those of the options of a runtime take the place of the ones it had before."""
        if limits is not None:
            names = {limit.name for limit in limits}
            for document in await self._documents():
                if document.body.get("source") == _OPTIONS and document.name not in names:
                    await self._documents_of_store.drop_document(document)
            for limit in limits:
                await self._put(limit, _OPTIONS)
        await self.refresh()

    async def refresh(self) -> None:
        """Read the limits, unless they were read within the last second."""
        now_s = self._clock.monotonic()
        if self._store is None or (self._read_s is not None and now_s < self._read_s + REFRESH_S):
            return
        limits = tuple(_limit_of(document) for document in await self._documents())
        self._read_s = now_s
        if limits != self.current:
            self.current = limits

    async def set(self, limit: SpendLimit) -> LimitInfo:
        """Set a limit durably, in place of one with the same name.

        What was spent of a limit with the same name in the same period counts.

        Raises:
            Conflict: another process has changed it meanwhile.
            Rejected: there are too many limits, or the name has characters that no path can hold.
        """
        check_id(limit.name, "the name of a limit")
        await self._put(limit, _OPERATOR)
        await self._read_again()
        return limit_info(limit)

    async def remove(self, name: str) -> LimitInfo:
        """Remove a limit.

        Raises:
            Conflict: there is none with this name, or another process has changed it meanwhile.
        """
        document = await self._documents_of_store.document(SPEND_LIMIT, name)
        if document is None:
            raise unknown_document("limit", name)
        await self._documents_of_store.drop_document(document)
        await self._read_again()
        return limit_info(_limit_of(document))

    async def list(self) -> tuple[SpendLimit, ...]:
        """Return all limits, by name."""
        await self._read_again()
        return self.current

    async def uses(self, *, owner: str | None = None, agent: str | None = None) -> tuple[LimitUse, ...]:
        """Return what was spent of the limits of days and months, and what is left.

        With an owner or an agent, only of those that its runs count for.
        """
        now, uses = self._clock.now(), list[tuple[SpendLimit, str]]()
        for limit in await self.list():
            if limit.per != "run" and limit.concerns(owner or None, agent or None):
                uses += [(limit, subject) for subject in await self._subjects(limit, now)]
        states = await self._states(
            [Purse(limit.name, subject, limit.period(now)[0]) for limit, subject in uses]
        )
        return tuple(
            _use(limit, subject, now, state)
            for (limit, subject), state in zip(uses, states, strict=True)
            if _is_about(limit, subject, owner, agent)
        )

    async def infos(self, *, owner: str | None = None) -> tuple[LimitInfo, ...]:
        """Return all limits with what is left, by name; with an owner, those that its runs count for."""
        uses = await self.uses(owner=owner)
        names = {use.limit.name for use in uses}
        rest = [limit for limit in self.current if limit.name not in names and limit.concerns(owner, None)]
        infos = [*(limit_info(use.limit, use) for use in uses), *map(limit_info, rest)]
        return tuple(sorted(infos, key=lambda info: (info.name, info.subject or "")))

    async def check_start(
        self, owner: str | None, agent_id: str, *, has_free_model: bool = False
    ) -> LimitUse | None:
        """Return a limit that a new run would count for and that is used up; None if there is none.

        A run may start at a limit that asks a person, or with a fallback model that is free and takes over.
        """
        now = self._clock.now()
        limits = [limit for limit in self.period_limits(owner, agent_id) if limit.at_limit != "ask"]
        states = await self._states([limit.purse(owner, agent_id, now) for limit in limits])
        for limit, state in zip(limits, states, strict=True):
            use = _use(limit, limit.subject(owner, agent_id), now, state)
            has_other_model = limit.at_limit == "cheaper" and has_free_model and use.tokens_left != 0
            if use.is_used_up and not has_other_model:
                return use
        return None

    def of_run(self, owner: str | None, agent_id: str) -> tuple[SpendLimit, ...]:
        """Return the limits that runs of an agent for an owner count for."""
        return tuple(limit for limit in self.current if limit.is_for(owner, agent_id))

    def period_limits(self, owner: str | None, agent_id: str) -> tuple[SpendLimit, ...]:
        """Return the limits that runs of an agent for an owner share: those of days and months."""
        return tuple(limit for limit in self.of_run(owner, agent_id) if limit.per != "run")

    def run_limits(self, run: RunState, *, can_ask: bool) -> dict[BudgetName, RunLimit]:
        """Return the limits of each run that the budget of a run comes from, and what happens at them."""
        budget, run_limits = run.budget or BudgetLimits(), dict[BudgetName, RunLimit]()
        for limit in self.of_run(run.owner, run.agent_id):
            if limit.per != "run":
                continue
            amounts = {
                BudgetName.COST: (limit.max_cost_micros, budget.max_cost_micros),
                BudgetName.TOKENS: (limit.max_tokens, budget.max_tokens),
            }
            at_limit = "refuse" if limit.at_limit == "ask" and not can_ask else limit.at_limit
            subject = limit.subject(run.owner, run.agent_id)
            for name, (most, amount) in amounts.items():
                if most is not None and most == amount:
                    run_limit = RunLimit(limit.name, LimitChoice(at_limit), limit.responders, subject)
                    run_limits.setdefault(name, run_limit)
        return run_limits

    def purses(
        self, owner: str | None, agent_id: str, *, overdraft: tuple[int, int] = (0, 0)
    ) -> tuple[Purse, ...]:
        """Return the purses that a model call of now counts for; `overdraft` as in `SpendLimit.purse`."""
        now = self._clock.now()
        limits = self.period_limits(owner, agent_id)
        return tuple(limit.purse(owner, agent_id, now, overdraft=overdraft) for limit in limits)

    def is_at_limit(self, refusal: CallRefusal, choice: AtLimit) -> bool:
        """Whether this happens at the limit that a call does not fit."""
        limit = self._limit_called(refusal.purse.limit)
        return limit is not None and limit.at_limit == choice

    def _limit_called(self, name: str) -> SpendLimit | None:
        """Return a limit; None if it was removed meanwhile."""
        return next((limit for limit in self.current if limit.name == name), None)

    def refusal(self, call: str, refusal: CallRefusal, bounds: CallBounds, *, can_ask: bool) -> CallReserved:
        """Return what happens to a run of which the next call does not fit a limit: its end, or a request."""
        limit, purse, state = self._limit_called(refusal.purse.limit), refusal.purse, refusal.state
        if limit is None or limit.at_limit != "ask" or not can_ask:
            return CallReserved(call, error=self.over_limit(refusal), exceeded=(refusal.budget,))
        is_money = refusal.budget is BudgetName.COST
        micros, tokens = bounds.amounts(bounds.answer_tokens)
        ask = LimitAsk(
            limit.name,
            refusal.budget,
            used=state.cost_micros if is_money else state.tokens,
            most=(purse.max_cost_micros if is_money else purse.max_tokens) or 0,
            amount=micros if is_money else tokens,
            subject=purse.subject,
            period=purse.period,
            responders=limit.responders,
        )
        return CallReserved(call, ask=ask)

    def over_limit(self, refusal: CallRefusal) -> ErrorInfo:
        """Return the error of a call that does not fit a limit."""
        limit = self._limit_called(refusal.purse.limit)
        if limit is None:
            return _over_limit(refusal, per=None, ends_at=None)
        return _over_limit(refusal, per=limit.per, ends_at=stamp_of(_ms(limit.period(self._clock.now())[1])))

    async def _read_again(self) -> None:
        self._read_s = None
        await self.refresh()

    async def _put(self, limit: SpendLimit, source: str) -> None:
        store = self._documents_of_store
        before = await store.document(SPEND_LIMIT, limit.name)
        if before is None and len(await self._documents()) >= SPEND_LIMITS_MAX:
            raise bad_setup(f"a store has at most {SPEND_LIMITS_MAX} limits: remove one first")
        body: JsonObject = {**asdict(limit), "source": source}
        if before is None or before.body != body:
            revision = 1 if before is None else before.revision + 1
            await store.put_document(Document(SPEND_LIMIT, limit.name, revision, body))

    async def _documents(self) -> tuple[Document, ...]:
        return await self._documents_of_store.documents(SPEND_LIMIT, limit=SPEND_LIMITS_MAX)

    @property
    def _documents_of_store(self) -> Store:
        if self._store is None:
            raise missing_port("run journal")
        return self._store

    async def _subjects(self, limit: SpendLimit, now: datetime) -> Iterable[str]:
        """Return the owners or agents that have a purse of a limit now."""
        if EACH not in (limit.owner, limit.agent):
            return ("",)
        subjects: list[str] = []
        prefix = f"{limit.name}/{limit.period(now)[0]}/"
        after = prefix
        while page := await self._documents_of_store.documents(PURSE, after=after):
            subjects += [purse.name.removeprefix(prefix) for purse in page if purse.name.startswith(prefix)]
            if not page[-1].name.startswith(prefix):
                break
            after = page[-1].name
        return subjects

    async def _states(self, purses: Sequence[Purse]) -> tuple[PurseState, ...]:
        return await self.store.purses([purse.name for purse in purses]) if purses else ()


_OPTIONS: Final = "options"
_OPERATOR: Final = "operator"


def run_budget(budget: BudgetLimits | None, limits: Iterable[SpendLimit]) -> BudgetLimits | None:
    """Return the budget of a run, lowered to the limits of each run."""
    least: dict[str, int] = {}
    for limit in limits:
        amounts = {"max_cost_micros": limit.max_cost_micros, "max_tokens": limit.max_tokens}
        for name, amount in amounts.items():
            if limit.per == "run" and amount is not None:
                least[name] = min(amount, least.get(name, amount))
    for name, amount in least.items():
        own = None if budget is None else getattr(budget, name)
        least[name] = amount if own is None else min(own, amount)
    if not least:
        return budget
    return (budget or BudgetLimits()).model_copy(update=cast("Mapping[str, object]", least))


def limit_info(limit: SpendLimit, use: LimitUse | None = None) -> LimitInfo:
    """Return a limit, with what was spent of it, as it is on the wire."""
    values: dict[str, object] = {name: getattr(limit, name) for name in _FIELDS}
    if use is not None:
        values |= {
            "subject": use.subject or None,
            "period": use.period,
            "ends_at": use.ends_at,
            "cost_micros": use.state.cost_micros,
            "tokens": use.state.tokens,
            "held_micros": use.state.held_micros,
            "held_tokens": use.state.held_tokens,
            "cost_micros_left": use.cost_micros_left,
            "tokens_left": use.tokens_left,
        }
    return LimitInfo.model_validate({name: value for name, value in values.items() if value is not None})


def limit_reached(use: LimitUse, run_id: str) -> Denied:
    """Return the error for a start of a run when a limit is used up."""
    limit, state = use.limit, use.state
    amounts = {
        "millionths of a dollar": (state.cost_micros, state.held_micros, limit.max_cost_micros),
        "tokens": (state.tokens, state.held_tokens, limit.max_tokens),
    }
    spent = ", ".join(
        f"{used:,} of {most:,} {unit} are spent and {held:,} set aside for calls under way"
        for unit, (used, held, most) in amounts.items()
        if most is not None
    )
    title = limit_title(limit.name, use.subject, use.period)
    return Denied(
        f"{title} is used up: {spent}; it begins anew at {use.ends_at}: "
        "start the run then, or ask an operator to raise the limit",
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        causal_ids=CausalIds(run_id=run_id),
    )


SUMMARY_CALL: Final = "summary"
"""What purses know the summary of a session by while it is made."""


class SummaryTooDear(Denied):
    """A summary does not fit what is left of the budget of its run, or of a limit in money or tokens."""

    def __init__(self, exceeded: BudgetName, limit: ErrorInfo) -> None:
        super().__init__(
            f"A summary of the history is due, and may cost more than what is left. {limit.message}",
            kind=ErrorKind.POLICY_DENIAL,
            retry=RetryClass.USER_ACTION_NEEDED,
        )
        self.exceeded = exceeded
        self._details = limit.details

    def info(self) -> ErrorInfo:
        """Return the error with the limit that was reached."""
        return super().info().model_copy(update={"details": self._details})


def _over_limit(refusal: CallRefusal, *, per: Period | None, ends_at: str | None) -> ErrorInfo:
    purse, state = refusal.purse, refusal.state
    if refusal.budget is BudgetName.COST:
        used, most, needed = state.cost_micros, purse.max_cost_micros or 0, refusal.needed_micros
        held, unit = state.held_micros, "millionths of a dollar"
    else:
        used, most, needed = state.tokens, purse.max_tokens or 0, refusal.needed_tokens
        held, unit = state.held_tokens, "tokens"
    title = limit_title(purse.limit, purse.subject, purse.period)
    again = "" if ends_at is None else f" It begins anew at {ends_at}."
    return ErrorInfo(
        code=ErrorCode.DENIED,
        kind=ErrorKind.POLICY_DENIAL,
        retry=RetryClass.USER_ACTION_NEEDED,
        message=(
            f"The {title} is reached: {used:,} of {most:,} {unit} are spent, {held:,} are set aside for "
            f"calls under way, and the next answer may need {needed:,}.{again} An operator can raise it."
        ),
        details={
            "reason": "limit_reached",
            "limit": purse.limit,
            "subject": purse.subject,
            "per": per,
            "period": purse.period,
            "endsAt": ends_at,
            "budgets": [{"name": refusal.budget.value, "limit": most, "used": used}],
            "held": held,
            "needed": needed,
        },
    )


def _limit_of(document: Document) -> SpendLimit:
    values = {name: value for name, value in document.body.items() if name in _FIELDS}
    if isinstance(responders := values.get("responders"), list):
        values["responders"] = cast("str", tuple(responders))
    return SpendLimit(**cast("dict[str, str]", values))  # type: ignore[arg-type]


_FIELDS: Final = tuple(field.name for field in fields(SpendLimit))


def _use(limit: SpendLimit, subject: str, now: datetime, state: PurseState) -> LimitUse:
    period, ends = limit.period(now)
    return LimitUse(limit, subject, period, stamp_of(_ms(ends)), state)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1_000)


def _is_about(limit: SpendLimit, subject: str, owner: str | None, agent: str | None) -> bool:
    """Whether a purse is one of an owner and an agent; None is any."""
    names = [name for each, name in ((limit.owner, owner), (limit.agent, agent)) if each == EACH]
    return all(name is None for name in names) or subject == ", ".join(name or "" for name in names)

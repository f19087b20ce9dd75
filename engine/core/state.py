"""The search's state: everything that ``decide`` may look at, and nothing else.

It is owned by one fold and mutated in place; ``evolve`` is the only writer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from engine.config import Budget, Config
from engine.core.draws import DrawKey
from engine.core.frontier import Frontier, OrderedIds
from engine.core.returns import Returns
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    EvaluationFinished,
    EvaluationRequested,
    GivenKernel,
    ReplyDeferred,
    ReplyForm,
    RunResumed,
    RunStarted,
    WaitEnded,
)
from events.outcomes import BaselineKind
from projections.run.capabilities import Known
from projections.run.spend import Spend
from projections.run.steering import Steering
from projections.search.planners import Planners
from projections.search.tree import Tree

__all__ = ["Attempt", "BudgetGrant", "Call", "Outage", "State", "Team", "TeamOf"]


class Team(Protocol):
    """The roles that work on an attempt, and what each sees of the tree. Pure."""

    def roles(self, *, repair: bool) -> Sequence[str]:
        """The roles that make one candidate, in order."""
        ...

    @property
    def repairs(self) -> bool:
        """Whether a failing node goes to a debug role."""
        ...

    def pool(self, role: str, tree: Tree, node: int) -> list[int]:
        """The context window before it is capped: distinct, ``node`` first, then the root."""
        ...


TeamOf = Callable[[Config], Team]


class Call(msgspec.Struct):
    """The newest try of the call that an attempt waits for."""

    body: AgentCalled
    status: Literal["sent", "deferred", "replied", "parsed", "rejected", "failed", "in_doubt"] = (
        "sent"
    )
    deferred: ReplyDeferred | None = None
    reply: AgentReplied | None = None
    failure: AgentFailed | None = None
    failures: int = 0
    """Failed tries since the run was last started or resumed."""
    known: Known = Known()
    """Of its model, when it was asked."""


class Attempt(msgspec.Struct, kw_only=True):
    """An attempt in flight. ``step`` indexes into ``roles``; past its end it is evaluated."""

    id: int
    node: int
    repair: bool
    visit: int
    roles: tuple[str, ...]
    step: int = 0
    call: Call | None = None
    source_sha256: str | None = None
    evaluation: EvaluationRequested | None = None
    evaluation_faulted: bool = False
    faults: int = 0
    hopeless: str = ""
    """Why the sandbox will not judge it however often it is asked; empty if it may."""
    rejection: str | None = None
    """Why the last reply of the present step was unusable."""


class BudgetGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may use in all, in the units that it is counted in; None: without limit."""

    attempts: int
    usd_micros: int | None
    tokens: int | None
    device_ms: int | None
    wall_ms: int | None

    @classmethod
    def of(cls, budget: Budget) -> BudgetGrant:
        return cls(
            attempts=budget.attempts,
            usd_micros=_scaled(budget.usd, 1_000_000),
            tokens=budget.tokens,
            device_ms=_scaled(budget.device_s, 1000),
            wall_ms=_scaled(budget.wall_s, 1000),
        )

    def extended(self, resumed: RunResumed) -> BudgetGrant:
        """With what the resume adds; what has no limit is added nothing."""
        return BudgetGrant(
            attempts=self.attempts + resumed.extra_attempts,
            usd_micros=_added(self.usd_micros, resumed.extra_usd_micros),
            tokens=_added(self.tokens, resumed.extra_tokens),
            device_ms=_added(self.device_ms, resumed.extra_device_ms),
            wall_ms=_added(self.wall_ms, resumed.extra_wall_ms),
        )


def _scaled(amount: float | None, units: int) -> int | None:
    return None if amount is None else round(amount * units)


def _added(amount: int | None, more: int) -> int | None:
    return None if amount is None else amount + more


class Outage(msgspec.Struct):
    """Tries in a row that failed for the provider's reasons."""

    failures: int = 0
    message: str = ""
    """Of the last one."""
    given_up: int = 0
    """Failed tries of a call that is not tried again, whatever the reasons were."""
    closed: bool = False
    """It wants to be left alone for longer than a run waits."""
    asked_after: int = 0
    """How many attempts had ended when it was last asked, or last failed."""


class State:
    """One run, as the core sees it."""

    def __init__(self, team_of: TeamOf) -> None:
        self.team_of = team_of
        self.started: RunStarted | None = None
        self.config = Config()
        self.team: Team
        self.tree = Tree()
        self.steering = Steering()
        self.frontier = Frontier(root_throttle=None, dead_branch=None)
        self.returns = Returns()
        """Kept under ``mcts`` only: a backup costs the depth of its node."""
        self.spend = Spend()
        self.planners = Planners()
        self.attempts: dict[int, Attempt] = {}
        self.attempts_started = 0
        self.attempts_ended = 0
        self.last_improvement = 0
        """``attempts_ended`` when the best last changed."""
        self.calls = 0
        self.unrepaired = OrderedIds()
        """Failed children of the root that no repair was tried from."""
        self.visits: dict[tuple[bool, str], int] = {}
        self.doubted_tries: dict[str, int] = {}
        """By role: sent by a process that ended before the answer, if there was one."""
        self.known: dict[str, Known] = {}
        """By ``client:model``: what it was found not to take."""
        self.outages: dict[str, Outage] = {}
        """By ``client:model``, since its last reply."""
        self.first_with: dict[str, int] = {}
        """Normalised source → the attempt that was first sent to the sandbox with it."""
        self.verdicts: dict[int, EvaluationFinished] = {}
        """Of those attempts: what goes for their duplicates."""
        self.baseline: Literal["none", "requested", "faulted", "measured", "rejected"] = "none"
        self.baseline_reason = ""
        self.baseline_faults = 0
        self.compiled_baselines: dict[
            BaselineKind, Literal["requested", "faulted", "measured"]
        ] = {}
        """Those beside eager. Nothing waits for them but the end of the run."""
        self.granted = BudgetGrant.of(self.config.budget)
        self.worked_ms = 0
        """On the run, by earlier processes."""
        self.stop_requested: str | None = None
        self.exhausted: str | None = None
        self.used_up: set[str] = set()
        """Budgets that something could not be begun for since the run was last taken over."""
        self.deadline: str | None = None
        self.wait_ended: WaitEnded | None = None
        """The present process does not wait for deferred replies any longer."""
        self.paused: str | None = None
        self.stopped: Literal["", "finished", "exhausted", "interrupted", "failed"] = ""
        self.stop_reason = ""
        self._digest = b"digest-3"

    @property
    def draw_key(self) -> DrawKey:
        assert self.started is not None
        return DrawKey(self.config.search.seed, self.started.task_sha256)

    @property
    def given(self) -> GivenKernel | None:
        """The user's kernel, until it is judged: nothing else is attempted before that."""
        if self.started is None or self.attempts_ended:
            return None
        return self.started.given

    def original(self, attempt: int) -> int | None:
        """The earlier attempt, judged or about to be, whose source this one repeats."""
        key = self.tree[attempt].source_key
        deduplicate = self.config.search.deduplicate
        first = self.first_with.get(key, attempt) if key and deduplicate else attempt
        return None if first == attempt else first

    def reply_form(self, attempt: int, role: str) -> ReplyForm:
        """What the role is asked for: replacements, if so configured and it sees marked blocks."""
        marked = self.tree[attempt].annotated_sha256 is not None and self.config.search.anchors
        return self.config.role(role).reply if role == "code" and marked else "whole"

    @property
    def over(self) -> bool:
        """Nothing more happens until the run is resumed."""
        return bool(self.stopped or self.paused)

    @property
    def unauthorized(self) -> bool:
        """A provider did not accept the key: waiting will not help."""
        calls = [attempt.call for attempt in self.attempts.values()]
        failures = [call.failure for call in calls if call and call.status == "failed"]
        return any(failure and failure.error == "unauthorized" for failure in failures)

    @property
    def digest(self) -> str:
        """A rolling hash of what the fold made of every event so far."""
        return f"v3:{self._digest.hex()[:32]}"

    def mix(self, *facts: object) -> None:
        """Roll facts that the fold derived into the digest."""
        line = msgspec.json.encode(facts)
        self._digest = hashlib.sha256(self._digest + line).digest()

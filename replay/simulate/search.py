"""One simulated search: the real core, whose outside is what logs have recorded.

When the core selects a node, a recorded child of that node which this simulation has not
used yet is what comes of it. Where none is left the simulation ends: nothing is made up.
Attempts are made one after another, as with one worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from engine.config import Config
from engine.core.decide import decide
from engine.core.draws import draw
from engine.core.evolve import evolve
from engine.core.state import State, TeamOf
from events.bodies import (
    FORMAT,
    AgentCalled,
    AgentFailed,
    AgentReplied,
    BaselineRequested,
    Body,
    EvaluationFinished,
    EvaluationRequested,
    NodeSelected,
    RunStopped,
)
from events.outcomes import Correct
from projections.search.tree import ROOT
from replay.simulate.record import Child, Record

__all__ = ["Simulation", "simulate"]


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """What one seed led to. ``order`` 0 takes recorded children in their recorded order.

    ``best`` is the best speedup after each attempt. ``stopped``: ``no_outcome`` where the
    record had no unused child of ``wanted``, else the budget that ended the search.
    ``taken`` names the recorded node of each attempt, with its log when there are several.
    """

    order: int
    seed: int
    attempts: int
    coverage: float
    stopped: str
    wanted: str | None
    best: list[float | None]
    taken: list[str]
    selections: list[NodeSelected]


def simulate(
    records: Sequence[Record], config: Config, team_of: TeamOf, *, order: int
) -> Simulation:
    """Search with ``config`` on the recorded trees. Pure.

    The seed is the configuration's plus ``order``. With ``order`` 0 and the configuration of
    the only record the recorded search itself comes out, unless that was of an older format.
    """
    return _Search(records, config, team_of, order).run()


class _Search:
    def __init__(
        self, records: Sequence[Record], config: Config, team_of: TeamOf, order: int
    ) -> None:
        seed = config.search.seed + order
        search = msgspec.structs.replace(config.search, seed=seed, workers=1)
        # A compiled baseline that was never measured would be waited for at the end.
        measured = [kind for kind in config.sandbox.baselines if kind in records[0].baselines]
        sandbox = msgspec.structs.replace(config.sandbox, baselines=measured)
        self._config = msgspec.structs.replace(config, search=search, sandbox=sandbox)
        self._records = records
        self._order = order
        self._state = State(team_of)
        self._left = [
            {parent: list(children) for parent, children in record.children.items()}
            for record in records
        ]
        """What is unused, by log and recorded parent."""
        self._places: dict[int, tuple[int, int]] = {}
        """Simulated node → its log and its number there. The root is every log's."""
        self._child: Child | None = None
        self._said = 0
        self._coming: deque[Body] = deque()
        """What happens next."""
        self._best: list[float | None] = []
        self._selections: list[NodeSelected] = []

    def run(self) -> Simulation:
        first = self._records[0].started
        prices = {m: p for each in reversed(self._records) for m, p in each.started.prices.items()}
        self._fold(
            msgspec.structs.replace(
                first, config=msgspec.to_builtins(self._config), seed=self._config.search.seed,
                prices=prices, format=FORMAT,
            )
        )  # fmt: skip
        stopped, wanted = "", None
        while not stopped:
            decision = decide(self._state)
            if decision is None:
                # As live: what happens next happens when all that was due is decided.
                if not self._coming:
                    break
                self._fold(self._coming.popleft())
                continue
            if isinstance(decision, NodeSelected) and not self._take(decision):
                stopped, wanted = "no_outcome", self._name(decision.node)
                break
            if isinstance(decision, AgentCalled):
                decision = self._asked_as_recorded(decision)
            self._fold(decision)
            if isinstance(decision, RunStopped):
                stopped = decision.reason
            self._coming += self._answers(decision)
        attempts = self._state.attempts_ended
        return Simulation(
            order=self._order,
            seed=self._config.search.seed,
            attempts=attempts,
            coverage=1.0 if wanted is None else attempts / self._config.budget.attempts,
            stopped=stopped,
            wanted=wanted,
            best=self._best,
            taken=[self._name(attempt) for attempt in sorted(self._places)],
            selections=self._selections,
        )

    def _fold(self, body: Body) -> None:
        self._state = evolve(self._state, body)
        self._note()

    def _note(self) -> None:
        """The best so far, once for each attempt that has ended."""
        if self._state.attempts_ended > len(self._best):
            best, root = self._state.tree.best, self._state.tree.root
            speedup = None
            if best is not None and best.score_ms is not None and root.score_ms is not None:
                speedup = root.score_ms / best.score_ms
            self._best.append(speedup)

    # -- the outside: what was recorded -------------------------------------------------

    def _take(self, selected: NodeSelected) -> bool:
        """Have an unused recorded child of the node be this attempt; False if there is none."""
        given = selected.rule == "given"  # ... which is the first log's, if any
        where = [self._places[selected.node]] if selected.node != ROOT else [
            (log, ROOT) for log in range(1 if given else len(self._records))
        ]  # fmt: skip
        unused = [
            (log, child)
            for log, node in where
            for child in self._left[log].get(node, ())
            if (child.repair, child.given) == (selected.repair, given)
        ]
        if not unused:
            return False
        at = 0
        if self._order:
            at = draw(self._state.draw_key, "simulate/child", selected.attempt, len(unused))
        log, self._child = unused[at]
        self._said = 0
        self._left[log][self._child.parent].remove(self._child)
        self._places[selected.attempt] = (log, self._child.node)
        self._selections.append(selected)
        return True

    def _answers(self, decision: Body) -> Iterator[Body]:
        """What the recorded attempt received at this point."""
        match decision:
            case BaselineRequested():
                yield self._records[0].baselines[decision.baseline]
            case AgentCalled():
                yield from self._replies(decision)
            case EvaluationRequested():
                yield self._verdict(decision)

    def _asked_as_recorded(self, called: AgentCalled) -> AgentCalled:
        """The call, to the model that the recorded attempt asked: of several planners the one
        whose reply this is, at its price."""
        assert self._child is not None
        for said in self._child.said[self._said : self._said + 1]:
            self._said += 1
            assert isinstance(said, AgentCalled)
            called = msgspec.structs.replace(called, model=said.model)
        return called

    def _replies(self, called: AgentCalled) -> Iterator[Body]:
        """One reply, and whether it was usable; or what a try took that failed."""
        assert self._child is not None
        at = {"attempt": called.attempt, "call": called.call}
        for said in self._child.said[self._said :]:
            if isinstance(said, AgentCalled):
                return
            self._said += 1
            if isinstance(said, AgentFailed):
                # Trouble is not simulated, only what it took: so it is one that passes at once.
                yield msgspec.structs.replace(
                    said, try_=called.try_, error="capability", retryable=True,
                    retry_after_ms=None, **at,
                )  # fmt: skip
            elif isinstance(said, AgentReplied):
                yield msgspec.structs.replace(said, try_=called.try_, **at)
            else:
                yield msgspec.structs.replace(said, **at)

    def _verdict(self, requested: EvaluationRequested) -> EvaluationFinished:
        assert self._child is not None
        verdict = self._child.verdict
        assert verdict is not None
        outcome, root_ms = verdict.outcome, self._state.tree.root.runtime_ms
        log, _ = self._places[requested.attempt]
        if log != 0 and isinstance(outcome, Correct) and root_ms is not None:
            # Its root was timed at another hour: ratios are what compares.
            outcome = msgspec.structs.replace(outcome, runtime_ms=root_ms * outcome.ratio)
        return msgspec.structs.replace(
            verdict, attempt=requested.attempt, outcome=outcome, same_as=requested.same_as
        )

    def _name(self, node: int) -> str:
        """A simulated node as the record calls it."""
        if node == ROOT:
            return str(ROOT)
        log, recorded = self._places[node]
        return str(recorded) if len(self._records) == 1 else f"{log + 1}:{recorded}"

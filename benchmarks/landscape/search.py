"""One search in the landscape: the engine's own core, whose outside is made up.

The core selects, draws windows and ends as it does live; here replies and verdicts are
answered at once, one attempt after another, as with one worker. Nothing waits, fails or
costs money, so of a reply only what was made of it is folded.
"""

from __future__ import annotations

import msgspec

from benchmarks.landscape.agents import Agents, Work
from benchmarks.landscape.terrain import REFERENCE, Kernel, Task
from engine.config import Config
from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State
from engine.loop.methods import team_of
from events.bodies import (
    AgentCalled,
    AttemptAbandoned,
    BaselineMeasured,
    BaselineRequested,
    Body,
    EvaluationFinished,
    EvaluationRequested,
    NodeSelected,
    ReplyParsed,
    ReplyRejected,
    RunStarted,
)
from events.outcomes import CompileFailed, Correct, Outcome, WrongResult
from projections.search.tree import ROOT

__all__ = ["Course", "search"]

_ROOT_MS = 10.0


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """How one search went.

    ``best`` is the best speedup over the reference after each attempt, 0 before the first
    correct kernel. ``outcomes`` has a letter for each attempt: ``x`` did not compile, ``w``
    wrong, ``c`` correct, ``-`` abandoned. ``parents`` are the nodes that were selected.
    """

    best: list[float]
    outcomes: str
    parents: list[int]


def search(task: Task, agents: Agents, config: Config) -> Course:
    """Search ``task`` with ``config``. Pure: the same arguments give the same course."""
    return _Search(task, agents, config).run()


class _Search:
    def __init__(self, task: Task, agents: Agents, config: Config) -> None:
        self._task = task
        self._agents = agents
        self._config = config
        self._state = State(team_of)
        self._kernels: dict[int, Kernel] = {ROOT: REFERENCE}
        self._wanted = REFERENCE
        """What the planner of the attempt in flight proposed."""
        self._best: list[float] = []
        self._outcomes: list[str] = []
        self._parents: list[int] = []

    def run(self) -> Course:
        self._fold(_started(self._config))
        while (decision := decide(self._state)) is not None:
            self._fold(decision)
            self._answer(decision)
        return Course(best=self._best, outcomes="".join(self._outcomes), parents=self._parents)

    def _fold(self, body: Body) -> None:
        self._state = evolve(self._state, body)

    def _answer(self, decision: Body) -> None:
        match decision:
            case BaselineRequested():
                self._fold(_BASELINE)
            case NodeSelected():
                self._parents.append(decision.node)
            case AgentCalled():
                self._reply(decision)
            case EvaluationRequested():
                self._judge(decision.attempt)
            case AttemptAbandoned():
                self._note("-")

    # -- agents -------------------------------------------------------------------------

    def _reply(self, called: AgentCalled) -> None:
        attempt, role, call = called.attempt, called.role, called.call
        if self._agents.is_unusable(call):
            self._fold(ReplyRejected(attempt=attempt, role=role, call=call, reason="unusable"))
            return
        work = self._work(called)
        if role == "plan":
            self._wanted = self._agents.propose(work)
            self._fold(ReplyParsed(attempt=attempt, role=role, call=call, via="tool"))
            return
        kernel = self._kernels[attempt] = self._written(role, work)
        source = f"{kernel.structure}{kernel.bug and attempt}"
        self._fold(
            ReplyParsed(
                attempt=attempt, role=role, call=call, via="tool", source_sha256=source,
                source_key=source,
            )
        )  # fmt: skip

    def _work(self, called: AgentCalled) -> Work:
        start = self._state.attempts[called.attempt].node
        others = [node for node in called.window if node not in (start, ROOT)]
        return Work(
            attempt=called.attempt,
            start=self._kernels[start],
            shown=[self._kernels[node] for node in others],
            temperature=called.params.temperature or 0.0,
        )

    def _written(self, role: str, work: Work) -> Kernel:
        match role:
            case "debug":
                return self._agents.mend(work, debugger=True)
            case "code":
                anchors = self._config.search.anchors
                return self._agents.write(work, self._wanted, coder=True, anchors=anchors)
            case _:
                wanted = self._agents.propose(work)
                return self._agents.write(work, wanted, coder=False, anchors=False)

    # -- verdicts -----------------------------------------------------------------------

    def _judge(self, attempt: int) -> None:
        kernel = self._kernels[attempt]
        self._fold(
            EvaluationFinished(
                attempt=attempt, outcome=self._outcome(kernel), protocol="strict", timings_s={},
                queue_s=0.0, device="landscape", isolation=[],
            )
        )  # fmt: skip
        self._note({"compile": "x", "wrong": "w", "": "c"}[kernel.bug])

    def _outcome(self, kernel: Kernel) -> Outcome:
        if kernel.bug:
            return CompileFailed() if kernel.bug == "compile" else WrongResult()
        ratio = self._task.runtime(kernel)
        runtime_ms = _ROOT_MS * ratio
        return Correct(
            runtime_ms=runtime_ms, speedup=1 / ratio, ratio=ratio, ratio_low=ratio,
            ratio_high=ratio, pairs=1, candidate_ms=runtime_ms, baseline_ms=_ROOT_MS,
        )  # fmt: skip

    def _note(self, outcome: str) -> None:
        best = self._state.tree.best
        runtime_ms = None if best is None else best.runtime_ms
        self._best.append(0.0 if runtime_ms is None else _ROOT_MS / runtime_ms)
        self._outcomes.append(outcome)


_BASELINE = BaselineMeasured(
    runtime_ms=_ROOT_MS, spread=0.0, repetitions=1, timings_s={}, isolation=[]
)


def _started(config: Config) -> RunStarted:
    # Kernels of one structure share a source here, and yet each has a chance of its own.
    search = msgspec.structs.replace(config.search, deduplicate=False)
    config = msgspec.structs.replace(config, search=search)
    return RunStarted(
        title="landscape", config=msgspec.to_builtins(config), task_name="landscape",
        task_sha256="reference", templates={}, seed=config.search.seed, prices={},
        prices_dated="", versions={}, device={}, canned=True,
    )  # fmt: skip

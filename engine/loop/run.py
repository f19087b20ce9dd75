"""One run: perform what the core decides until it is over.

An effect is whatever a decision asks of the outside (a model call, an evaluation, the
baseline); it ends by feeding its result back. See ``engine.loop.feed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from agents.clients.port import Client
from agents.clients.turns import Turns
from agents.templates import Templates
from engine.core.state import State
from engine.loop.agent_calls import AgentCalls
from engine.loop.evaluations import Evaluations, Recorded
from engine.loop.feed import Feed, Observer
from engine.loop.steering_commands import SteeringCommand, steering_events
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    BaselineRequested,
    Body,
    DeadlineReached,
    EvaluationRequested,
    RunForked,
    RunPaused,
    RunResumed,
    RunStopped,
    StopRequested,
)
from events.envelope import Blob
from events.errors import LogError
from events.writer import LogWriter
from gpu_sandbox.api.evaluator import Evaluator
from projections.run.mail import Mail

__all__ = ["RunLoop"]


class RunLoop:
    """Drives one run of an open log. ``clients`` maps ``client:model`` to its client;
    ``recorded`` has verdicts that need not be given again; ``mail`` is what the log says of
    replies that came later. ``wait_s`` is how long this process waits for those when there is
    nothing else to do. ``turns`` at providers are shared with the process's other runs."""

    def __init__(
        self,
        *,
        log: LogWriter,
        run_id: int,
        uid: str,
        state: State,
        texts: Texts,
        templates: Templates,
        clients: Mapping[str, Client],
        evaluator: Evaluator,
        recorded: Recorded | None = None,
        mail: Mail | None = None,
        wait_s: float = 0.0,
        turns: Turns | None = None,
    ) -> None:
        self._feed = Feed(log, run_id, state, self._perform)
        mail = mail or Mail()
        self._feed.observe(lambda event, _: mail.apply(event.body))
        self._agents = AgentCalls(
            self._feed, texts, templates, clients, uid=uid, mail=mail, wait_s=wait_s, turns=turns
        )
        self._evaluations = Evaluations(self._feed, texts, evaluator, recorded)
        self._texts = texts
        self._effects: anyio.abc.TaskGroup | None = None

    @property
    def state(self) -> State:
        return self._feed.state

    @property
    def stop_requested(self) -> bool:
        return self.state.stop_requested is not None

    def observe(self, observer: Observer) -> None:
        """Have ``observer`` see each event once it is folded."""
        self._feed.observe(observer)

    async def run(self, first: Body, blobs: Iterable[Blob] = ()) -> State:
        """Feed ``first`` (``RunStarted``, ``RunResumed`` or ``RunForked``) and go on until the
        run is over.

        Raises ``LogError`` when the log can't be written on; what was acknowledged is kept.
        """
        if not isinstance(first, RunForked):
            # A kill may have cut off decisions that were due: they come before anything new.
            # A fork decides them anew.
            due = self._feed.complete_decisions(perform=False)
            if isinstance(first, RunResumed):  # ... and none was sent
                calls = [body.call for body in due if isinstance(body, AgentCalled)]
                first = msgspec.structs.replace(first, unsent=[*first.unsent, *calls])
        outstanding = list(self._outstanding(forked=isinstance(first, RunForked)))
        failure: LogError | None = None
        try:
            async with anyio.create_task_group() as effects:
                self._effects = effects
                for decision in outstanding:
                    self._perform(decision)
                self._feed(first, blobs)
                wall_ms = self.state.granted.wall_ms
                if wall_ms is not None and not self.state.over:
                    effects.start_soon(self._deadline, wall_ms - self.state.worked_ms)
        except BaseExceptionGroup as group:
            failure = _log_failure(group)
            if failure is None:
                raise
        finally:
            self._effects = None
        if failure is not None:
            raise failure
        await self._feed.durable()
        return self.state

    def request_stop(self, source: str) -> None:
        """End the run now; what is in flight is cancelled and can be resumed."""
        if not self.state.over:
            self._feed(StopRequested(source=source))

    @property
    def log_path(self) -> Path:
        return self._feed.log.path

    @property
    def going(self) -> bool:
        """Whether it has begun and is not over: what is decided now is performed."""
        return self._effects is not None and self.state.started is not None and not self.state.over

    async def steer(self, command: SteeringCommand) -> list[int]:
        """Log the user's command, and act on it; returns the events' ``run_seq`` once
        they are on disk. Raises ``Refused`` and ``LogError``."""
        made = steering_events(command, self.state, self._texts)
        events = [self._feed(body, blobs) for body, blobs in made]
        await self._feed.durable()
        return [event.run_seq for event in events]

    def _outstanding(self, *, forked: bool) -> Iterable[Body]:
        """Decisions that an earlier process began to perform and did not finish.

        A call without a reply is not among them: the core decides about those. Unless its reply
        was to come later, which a fork asks for anew.
        """
        begun = ("replied",) if forked else ("deferred", "replied")
        if self.state.baseline == "requested":
            yield BaselineRequested()
        for kind, status in self.state.compiled_baselines.items():
            if status == "requested":
                yield BaselineRequested(baseline=kind)
        for attempt in self.state.attempts.values():
            call = attempt.call
            if call is not None and call.status in begun:
                yield call.body
            elif attempt.evaluation is not None and not attempt.evaluation_faulted:
                yield attempt.evaluation

    def _perform(self, decision: Body) -> None:
        assert self._effects is not None
        match decision:
            case BaselineRequested():
                self._effects.start_soon(self._evaluations.baseline, decision)
            case EvaluationRequested():
                self._effects.start_soon(self._evaluations.evaluate, decision)
            case AgentCalled():
                call = self.state.attempts[decision.attempt].call
                match None if call is None else call.status:
                    case "replied":
                        work = self._agents.read_again
                    case "deferred":
                        work = self._agents.await_again
                    case _:
                        work = self._agents.call
                self._effects.start_soon(work, decision)
            case RunPaused() | RunStopped():
                self._effects.cancel_scope.cancel()

    async def _deadline(self, left_ms: int) -> None:
        await anyio.sleep(max(0, left_ms) / 1000)
        self._feed(DeadlineReached(budget="wall"))


def _log_failure(group: BaseExceptionGroup[BaseException]) -> LogError | None:
    """The log's own error, when nothing but it (and what it cancelled) ended the run."""
    matched, rest = group.split(LogError)
    if matched is None or rest is not None:
        return None
    error: BaseException = matched
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, LogError)
    return error

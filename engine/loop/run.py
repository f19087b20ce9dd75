"""One run: feed what happens to the core, perform what it decides, until it is over.

Everything that happens goes through ``RunLoop.feed``: the fact is appended and folded,
then the decisions that follow from it, before anything else can happen. An effect is
whatever a decision asks of the outside (a model call, an evaluation, the baseline); it
ends by feeding its result back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from agents.clients.port import CallFailed, CapabilityMissing, Client, Reply
from agents.parse import Rejected, parse
from agents.templates import Templates
from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State
from engine.loop.prompts import request_digest, request_for
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    BaselineMeasured,
    BaselineRequested,
    Body,
    CapabilityLearned,
    DeadlineReached,
    EvaluationFaulted,
    EvaluationFinished,
    EvaluationRequested,
    PromptRendered,
    ReplyParsed,
    ReplyRejected,
    StopRequested,
    TaskRejected,
)
from events.envelope import Blob, Event
from events.errors import LogError
from events.writer import LogWriter
from gpu_sandbox.port import (
    BaselineRequest,
    EvaluationRequest,
    Evaluator,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)

__all__ = ["Observer", "RunLoop"]

Observer = Callable[[Event, State], None]


class RunLoop:
    """Drives one run of an open log. ``clients`` maps ``client:model`` to its client."""

    def __init__(
        self,
        *,
        log: LogWriter,
        run_id: int,
        state: State,
        texts: Texts,
        templates: Templates,
        clients: Mapping[str, Client],
        evaluator: Evaluator,
    ) -> None:
        self._log = log
        self._run_id = run_id
        self.state = state
        self._texts = texts
        self._templates = templates
        self._clients = clients
        self._evaluator = evaluator
        self._observers: list[Observer] = []
        self._effects: anyio.abc.TaskGroup | None = None
        self._newest: Event | None = None

    @property
    def log_path(self) -> Path:
        return self._log.path

    @property
    def stop_requested(self) -> bool:
        return self.state.stop_requested is not None

    def observe(self, observer: Observer) -> None:
        """Have ``observer`` see each event once it is folded."""
        self._observers.append(observer)

    # -- the one way in -----------------------------------------------------------------

    def feed(self, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        """Append a fact, fold it, then append, fold and start every decision it leads to."""
        event = self._append(body, blobs)
        self.complete_decisions(start=True)
        return event

    def complete_decisions(self, *, start: bool) -> None:
        """Append what the core decides now; ``start`` its effects as well."""
        while (decision := decide(self.state)) is not None:
            self._append(decision)
            if start:
                self._start_effect(decision)
        if self.state.over and self._effects is not None:
            self._effects.cancel_scope.cancel()

    def _append(self, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        event = self._newest = self._log.append(self._run_id, body, blobs)
        self.state = evolve(self.state, event.body)
        for observer in self._observers:
            observer(event, self.state)
        return event

    # -- running ------------------------------------------------------------------------

    async def run(self, first: Body, blobs: Iterable[Blob] = ()) -> State:
        """Feed ``first`` (``RunStarted`` or ``RunResumed``) and go on until the run is over.

        Raises ``LogError`` when the log can't be written on; what was acknowledged is kept.
        """
        self.complete_decisions(start=False)
        outstanding = list(self._outstanding())
        failure: LogError | None = None
        try:
            async with anyio.create_task_group() as effects:
                self._effects = effects
                for body in outstanding:
                    self._start_effect(body)
                self.feed(first, blobs)
                wall_s = self.state.config.budget.wall_s
                if wall_s is not None and not self.state.over:
                    effects.start_soon(self._deadline, wall_s)
        except BaseExceptionGroup as group:
            failure = _log_failure(group)
            if failure is None:
                raise
        finally:
            self._effects = None
        if failure is not None:
            raise failure
        if self._newest is not None:
            await self._log.durable(self._newest)
        return self.state

    def request_stop(self, source: str) -> None:
        """End the run now; what is in flight is cancelled and can be resumed."""
        if not self.state.over:
            self.feed(StopRequested(source=source))

    def _outstanding(self) -> Iterable[Body]:
        """Effects that an earlier process began and did not finish.

        A call without a reply is not among them: the core decides about those.
        """
        if self.state.baseline == "requested":
            yield BaselineRequested()
        for attempt in self.state.attempts.values():
            call = attempt.call
            if call is not None and call.status == "replied":
                yield call.body
            elif attempt.evaluation is not None and not attempt.evaluation_faulted:
                yield attempt.evaluation

    def _start_effect(self, decision: Body) -> None:
        assert self._effects is not None
        match decision:
            case BaselineRequested():
                self._effects.start_soon(self._measure_baseline)
            case EvaluationRequested():
                self._effects.start_soon(self._evaluate, decision)
            case AgentCalled():
                call = self.state.attempts[decision.attempt].call
                replied = call is not None and call.status == "replied"
                self._effects.start_soon(self._read_again if replied else self._call, decision)

    async def _deadline(self, wall_s: float) -> None:
        await anyio.sleep(wall_s)
        self.feed(DeadlineReached(budget="wall"))

    # -- effects: agents ----------------------------------------------------------------

    async def _call(self, called: AgentCalled) -> None:
        await anyio.sleep(called.wait_ms / 1000)
        request = request_for(self.state, called, self._texts, self._templates)
        blobs = [self._texts.put(part.name, part.text) for part in request.parts]
        rendered = self._append(
            PromptRendered(
                attempt=called.attempt,
                role=called.role,
                call=called.call,
                try_=called.try_,
                request_sha256=request_digest(request),
                parts=[part.name for part in request.parts],
            ),
            blobs,
        )
        # A request is on disk before it costs anything.
        await self._log.durable(rendered)
        began = time.monotonic()
        try:
            with anyio.fail_after(request.timeout_s):
                reply = await self._clients[called.model].send(request)
        except CapabilityMissing as missing:
            self._append(
                CapabilityLearned(model=called.model, param=missing.param, message=missing.message)
            )
            self._failed(called, "capability", missing.message, retryable=True)
        except CallFailed as failed:
            self._failed(
                called, failed.error, failed.message,
                retryable=failed.retryable, retry_after_s=failed.retry_after_s,
            )  # fmt: skip
        except TimeoutError:
            message = f"no reply within {request.timeout_s:g} s"
            self._failed(called, "timed_out", message, retryable=True)
        else:
            latency_ms = round((time.monotonic() - began) * 1000)
            self._replied(called, reply, latency_ms)
            self._read(called, reply)

    def _failed(
        self,
        called: AgentCalled,
        error: str,
        message: str,
        *,
        retryable: bool,
        retry_after_s: float | None = None,
    ) -> None:
        self.feed(
            AgentFailed(
                attempt=called.attempt,
                role=called.role,
                call=called.call,
                try_=called.try_,
                error=error,
                message=message,
                retryable=retryable,
                retry_after_ms=None if retry_after_s is None else round(retry_after_s * 1000),
            )
        )

    def _replied(self, called: AgentCalled, reply: Reply, latency_ms: int) -> None:
        text = self._texts.put("reply", reply.text)
        blobs = [text]
        if reply.tool_input is not None:
            encoded = msgspec.json.encode(reply.tool_input).decode()
            blobs.append(self._texts.put("tool_input", encoded))
        self.feed(
            AgentReplied(
                attempt=called.attempt,
                role=called.role,
                call=called.call,
                try_=called.try_,
                usage=reply.usage,
                latency_ms=latency_ms,
                stop_reason=reply.stop_reason,
                served_by=reply.served_by,
                sent=reply.sent,
                reply_sha256=text.sha256,
                tool_input_sha256=blobs[1].sha256 if len(blobs) > 1 else None,
                canned=reply.canned,
            ),
            blobs,
        )

    def _read(self, called: AgentCalled, reply: Reply) -> None:
        """Parse a reply that the log holds, and feed what came of it."""
        attempt = self.state.attempts[called.attempt]
        node_source = self._texts.get(self.state.tree[attempt.node].source_sha256)
        parsed = parse(called.role, reply, node_source)
        at = {"attempt": called.attempt, "role": called.role, "call": called.call}
        if isinstance(parsed, Rejected):
            self.feed(ReplyRejected(**at, reason=parsed.reason))  # type: ignore[arg-type]
            return
        blobs: dict[str, Blob] = {}
        for name in ("advice", "annotated", "source", "explanation"):
            text = getattr(parsed, name)
            if text is not None:
                blobs[name] = self._texts.put(name, text)
        shas = {f"{name}_sha256": blob.sha256 for name, blob in blobs.items()}
        self.feed(
            ReplyParsed(
                **at,  # type: ignore[arg-type]
                **shas,  # type: ignore[arg-type]
                via=parsed.via,
                source_key=parsed.source_key,
                anchors=parsed.anchors,
                spliced=parsed.spliced,
            ),
            blobs.values(),
        )

    async def _read_again(self, called: AgentCalled) -> None:
        """The process was killed between a reply and its reading: the log has the reply."""
        replied = self._log_reply(called)
        self._read(called, replied)

    def _log_reply(self, called: AgentCalled) -> Reply:
        call = self.state.attempts[called.attempt].call
        assert call is not None
        assert call.reply is not None
        body = call.reply
        tool_input = None
        if body.tool_input_sha256 is not None:
            tool_input = msgspec.json.decode(self._texts.get(body.tool_input_sha256))
        return Reply(
            text=self._texts.get(body.reply_sha256),
            tool_input=tool_input,
            usage=body.usage,
            stop_reason=body.stop_reason,
            served_by=body.served_by,
            sent=body.sent,
            canned=body.canned,
        )

    # -- effects: the sandbox -----------------------------------------------------------

    async def _measure_baseline(self) -> None:
        state, started = self.state, self.state.started
        assert started is not None
        sandbox = state.config.sandbox
        request = BaselineRequest(
            task_name=started.task_name,
            task_source=self._texts.get(started.task_sha256),
            device=sandbox.device,
            protocol=sandbox.protocol,
            seed=state.seed,
        )
        try:
            baseline = await self._evaluator.baseline(request)
        except TaskUnusable as unusable:
            self.feed(TaskRejected(reason=unusable.reason, detail=unusable.detail))
        except (SandboxFault, PrerequisiteMissing) as fault:
            self.feed(EvaluationFaulted(attempt=0, message=str(fault)))
        else:
            self.feed(
                BaselineMeasured(
                    runtime_ms=baseline.runtime_ms,
                    spread=baseline.spread,
                    repetitions=baseline.repetitions,
                    timings_s=baseline.timings_s,
                    isolation=baseline.isolation,
                    notes=baseline.notes,
                )
            )

    async def _evaluate(self, requested: EvaluationRequested) -> None:
        state, started = self.state, self.state.started
        assert started is not None
        sandbox, incumbent = state.config.sandbox, requested.incumbent
        request = EvaluationRequest(
            task_name=started.task_name,
            task_source=self._texts.get(started.task_sha256),
            candidate_source=self._texts.get(requested.source_sha256),
            device=sandbox.device,
            protocol=sandbox.protocol,
            seed=requested.seed,
            root_ms=state.tree.root.runtime_ms,
            incumbent_ms=None if incumbent is None else state.tree[incumbent].runtime_ms,
        )
        try:
            verdict = await self._evaluator.evaluate(request)
        except (SandboxFault, PrerequisiteMissing) as fault:
            self.feed(
                EvaluationFaulted(
                    attempt=requested.attempt, try_=requested.try_, message=str(fault)
                )
            )
        else:
            self._judged(requested.attempt, verdict)

    def _judged(self, attempt: int, verdict: Verdict) -> None:
        blobs: dict[str, Blob] = {}
        for name in ("compile_log", "run_log"):
            text = getattr(verdict, name)
            if text:
                blobs[name] = self._texts.put(name, text)
        self.feed(
            EvaluationFinished(
                attempt=attempt,
                outcome=verdict.outcome,
                protocol=verdict.protocol,
                timings_s=verdict.timings_s,
                queue_s=verdict.queue_s,
                device=verdict.device,
                isolation=verdict.isolation,
                compile_log_sha256=blobs["compile_log"].sha256 if "compile_log" in blobs else None,
                run_log_sha256=blobs["run_log"].sha256 if "run_log" in blobs else None,
                notes=verdict.notes,
            ),
            blobs.values(),
        )


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

"""Exceptions that nobody foresaw: what they are and where from, and whose doing."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from pathlib import PurePath

from events.outcomes import Correct, Crashed
from gpu_sandbox.orders import itself
from gpu_sandbox.port import (
    EvaluationRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)

__all__ = ["FORESEEN", "judged_anyway", "line_about"]

FORESEEN = (SandboxFault, PrerequisiteMissing, TaskUnusable)
_MOST_CHARS = 400
_MOST_FRAMES = 4
_TRIES = 2


async def judged_anyway(
    judge: Callable[[EvaluationRequest], Awaitable[Verdict]], request: EvaluationRequest
) -> Verdict:
    """What ``judge`` says. A candidate over which it raises, again, what nobody foresaw, and does
    not over the reference in its place, has failed: it costs itself only. What else is raised is
    passed on."""
    raised: list[Exception] = []
    while len(raised) < _TRIES:
        try:
            return await judge(request)
        except FORESEEN:
            raise
        except Exception as error:
            raised.append(error)
    try:
        proof = await judge(itself(request))
    except Exception:
        raise raised[-1] from None
    if not isinstance(proof.outcome, Correct):
        raise raised[-1]
    reason = f"it can't be judged, as the reference can: {line_about(raised[-1])}"
    return Verdict(
        outcome=Crashed(reason=reason),
        protocol=proof.protocol,
        timings_s={},
        queue_s=0.0,
        device=proof.device,
        isolation=proof.isolation,
        usage=proof.usage,
        notes=["a fault of the sandbox's that this candidate brings about: please report it"],
    )


def line_about(error: BaseException) -> str:
    """Of a group, its first. The innermost call comes first."""
    raised = error.__traceback__
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
        raised = error.__traceback__ or raised
    told = " ".join(str(error).split())[:_MOST_CHARS]
    frames = traceback.extract_tb(raised, limit=-_MOST_FRAMES)
    where = " < ".join(
        f"{'/'.join(PurePath(frame.filename).parts[-2:])}:{frame.lineno} in {frame.name}"
        for frame in reversed(frames)
    )
    return f"unexpected {type(error).__name__}: {told} (at {where})"

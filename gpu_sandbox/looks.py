"""Looks at one candidate, each by workers of its own, and which of them counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from gpu_sandbox.jobs import Job
from gpu_sandbox.station import Concluded
from gpu_sandbox.verdicts import doubts, the_deciding

__all__ = ["Looks", "undoubted"]


class Looks(msgspec.Struct, frozen=True):
    """What each look found, and how the verifier broke down meanwhile. Two breakdowns that
    are the candidate's doing leave no look."""

    concluded: list[Concluded]
    breakdowns: list[str]


async def undoubted(look: Callable[..., Awaitable[Concluded]], job: Job) -> Concluded:
    """A claim that is not borne out gets one more chance, with fresh workers: a machine that
    slows down in the wrong moment looks like a lie, but seldom does so twice."""
    first = await look(job)
    if not doubts(first):
        return first
    again = msgspec.structs.replace(job, observe=[])
    return the_deciding(first, await look(again, afresh=True))

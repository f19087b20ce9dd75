"""What looks found of calls in a plain loop, as a verdict has it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from events.outcomes import Correct, Label
from gpu_sandbox.evaluate.labels import labelled
from gpu_sandbox.ipc.verifier_messages import Agreed

__all__ = ["in_loops"]


def in_loops(outcome: Correct, found: Sequence[Agreed]) -> tuple[Correct, list[str]]:
    """The outcome with the worst that looks found of its calls in loops, an interval of all of
    them, and the notes that go with it."""
    loops = [one.looped for one in found if one.looped is not None]
    if not loops:
        return outcome, []
    worst = max(loops, key=lambda each: each.ratio)
    outcome = msgspec.structs.replace(
        outcome,
        eager_speedup=1 / worst.ratio,
        eager_low=1 / max(each.high for each in loops),
        eager_high=1 / min(each.low for each in loops),
        eager_ms=worst.candidate_ms,
        eager_baseline_ms=worst.baseline_ms,
    )
    return labelled(outcome, _host_bound(outcome))


def _host_bound(outcome: Correct) -> dict[Label, str]:
    """Faster on the device and slower in a loop, and by more than either is uncertain."""
    if outcome.ratio_high >= 1 or outcome.eager_high is None or outcome.eager_high >= 1:
        return {}
    told = (
        f"{outcome.speedup:.2f}x on the device, {outcome.eager_speedup:.2f}x in a plain loop, of"
        f" {outcome.eager_ms:.4g} ms a call against {outcome.eager_baseline_ms:.4g} ms: what the"
        " host does in a call costs more than the kernels save"
    )
    return {"host-bound": told}

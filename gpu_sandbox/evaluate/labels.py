"""Labels that qualify a speedup, and those that a user refuses.

A label's reason is the note that begins with its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import anyio.to_thread
import msgspec

from events.outcomes import LABELS, Correct, Label, Outcome, Refused
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.static_checks.source_labels import source_labels


def labelled(outcome: Correct, found: Mapping[Label, str]) -> tuple[Correct, list[str]]:
    """With the labels that were found, and the notes that say why."""
    labels = [label for label in LABELS if label in found or label in outcome.labels]
    notes = [f"{label}: {found[label]}" for label in labels if label in found]
    return msgspec.structs.replace(outcome, labels=labels), notes


async def read(verdict: Verdict, request: EvaluationRequest) -> Verdict:
    """With the labels that its source shows, if it is correct."""
    if not isinstance(verdict.outcome, Correct):
        return verdict
    found = await anyio.to_thread.run_sync(
        source_labels, request.candidate_source, request.task_source
    )
    outcome, notes = labelled(verdict.outcome, found)
    return msgspec.structs.replace(verdict, outcome=outcome, notes=[*verdict.notes, *notes])


def accepted(outcome: Outcome, notes: Sequence[str], refuse: Collection[Label]) -> Outcome:
    """The outcome, or its refusal where it has a label that the user refuses."""
    if not isinstance(outcome, Correct):
        return outcome
    label = next((each for each in outcome.labels if each in refuse), None)
    if label is None:
        return outcome
    why = next((note for note in notes if note.startswith(f"{label}: ")), label)
    return Refused(
        label=label,
        reason=f"correct, at {outcome.speedup:.2f}x, but sandbox.refuse, a setting of the user's,"
        f" does not take what is {why}",
    )

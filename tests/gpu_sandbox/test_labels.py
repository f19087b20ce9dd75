"""Labels on correct verdicts, and what becomes of those that the user refuses."""

from __future__ import annotations

from events.outcomes import BASELINE_LABELS, LABELS, Correct, Crashed, Refused
from gpu_sandbox.evaluate.labels import accepted, labelled
from projections.candidate.labels import MEANINGS, labels_told, labels_words

CORRECT = Correct(
    runtime_ms=5.0, speedup=2.0, ratio=0.5, ratio_low=0.4, ratio_high=0.6, pairs=20,
    candidate_ms=1.0, baseline_ms=2.0, labels=["not-gated"],
)  # fmt: skip


def test_labels_come_in_one_order_with_their_reasons() -> None:
    outcome, notes = labelled(CORRECT, {"fallback": "line 3", "below-floor": "1 of 2 ms"})
    assert outcome.labels == ["below-floor", "not-gated", "fallback"]
    assert notes == ["below-floor: 1 of 2 ms", "fallback: line 3"]
    assert set(MEANINGS) == {*LABELS, *BASELINE_LABELS}


def test_only_what_is_refused_fails_and_says_by_whose_wish() -> None:
    assert accepted(CORRECT, [], []) is CORRECT
    assert accepted(CORRECT, [], ["fallback"]) is CORRECT
    assert accepted(Crashed(reason="r"), [], list(LABELS)) == Crashed(reason="r")
    refused = accepted(CORRECT, ["busy", "not-gated: no gate"], ["not-gated"])
    assert refused == Refused(
        label="not-gated",
        reason="correct, at 2.00x, but sandbox.refuse, a setting of the user's, does not take what"
        " is not-gated: no gate",
    )


def test_a_label_is_told_in_harmless_letters() -> None:
    assert labels_words([]) == ""
    assert labels_words(["torch-only", "\x1b[31m<b>"]) == "  [torch-only, ??31m?b?]"
    told = list(labels_told(["fallback", "newer"]))
    assert told[0].startswith("label fallback: beside its kernel")
    assert told[1] == "label newer"

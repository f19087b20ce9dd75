"""Behaviour flags: rules of the core that have changed, each new form under a name.

``RunStarted`` records the flags that its engine knew, and a run is searched, resumed and
replayed by those for ever: a flag that is not in the log means the rule's old form. To
change a rule, add a flag here, ask ``state.flags`` where the rule is applied, and keep what
was there (docs/replay.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from events.errors import NewerFormat

__all__ = [
    "BUDGET_BEFORE_EACH_CALL", "BUDGET_ESTIMATES_2", "DUPLICATES_SHARE_VERDICTS", "FLAGS",
    "OUTAGE_PAUSES", "PATIENCE_FROM_THE_START", "PAUSE_WORDS_2", "PLANNERS_LEFT_OUT",
    "STATE_DIGEST_2", "flags_from_log",
]  # fmt: skip

DUPLICATES_SHARE_VERDICTS = "duplicates-share-verdicts"
PATIENCE_FROM_THE_START = "patience-from-the-start"
STATE_DIGEST_2 = "state-digest-2"
BUDGET_BEFORE_EACH_CALL = "budget-before-each-call"
BUDGET_ESTIMATES_2 = "budget-estimates-2"
OUTAGE_PAUSES = "outage-pauses"
PLANNERS_LEFT_OUT = "planners-left-out"
PAUSE_WORDS_2 = "pause-words-2"

FLAGS = {
    PAUSE_WORDS_2: (
        "a pause for replies says of each attempt that is blocked what any pause says of it: an"
        " outage is none of the sandbox's"
    ),
    PLANNERS_LEFT_OUT: (
        "one of several planners that is down is left out for a while, and another stands in for it"
    ),
    OUTAGE_PAUSES: "a model that fails call after call is asked no more, whatever tries are left",
    BUDGET_BEFORE_EACH_CALL: (
        "budgets are looked at before each call and evaluation, with an estimate of what it"
        " takes; not at the beginning of an attempt alone"
    ),
    BUDGET_ESTIMATES_2: (
        "before the first reply the dearest of several planners is expected; a try that a killed"
        " process left without an answer counts as its estimate"
    ),
    DUPLICATES_SHARE_VERDICTS: "a source that was judged before is not judged again",
    PATIENCE_FROM_THE_START: "attempts before the first correct kernel use up patience, too",
    STATE_DIGEST_2: "the digest covers calls in flight, faults and spend, not the tree alone",
}
"""Every flag that this core knows, and what it changed. A new run has them all."""


def flags_from_log(names: Sequence[str]) -> frozenset[str]:
    """The flags of a logged run. Raises ``NewerFormat`` for one that is not known here."""
    unknown = [name for name in names if name not in FLAGS]
    if unknown:
        raise NewerFormat(
            f"the run was searched by rules that this version of engine does not know"
            f" ({', '.join(unknown)}): a newer engine wrote it, update engine"
        )
    return frozenset(names)

"""Why a replay differs: each likely cause with the evidence for it, or against it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import TeamOf
from engine.loop.start import engine_version
from events.bodies import BODIES, Body, RunForked, RunResumed, RunStarted
from events.codec import decode_body, encode_body
from events.envelope import Event
from events.errors import LogError
from events.reader import LogReader, RunRow
from events.verify import verify_run
from replay.verify import Difference, Replay, replay

__all__ = ["Cause", "explain"]

_LOOK_AHEAD = 50
"""Events behind the difference in which its decision is looked for."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """``likely`` says what the evidence speaks for; ``unknown`` where there is none."""

    cause: Literal[
        "edited log", "another engine", "nondeterministic policy",
        "missing decision", "extra decision",
    ]  # fmt: skip
    likely: Literal["yes", "no", "unknown"]
    evidence: str


def explain(reader: LogReader, run: RunRow, found: Replay, team_of: TeamOf) -> list[Cause]:
    """The causes of ``found.difference`` (there has to be one), likely ones first.

    Uses up ``found.state``. Reads the run again: its chain, and to recompute it.
    """
    difference = found.difference
    assert difference is not None
    causes = [
        _edited(reader, run, difference),
        _nondeterministic(reader, run, difference, team_of),
    ]
    explained = any(cause.likely == "yes" for cause in causes)
    causes.append(_another_engine(reader, run, difference, explained))
    causes += _shifted(reader, run, found, difference)
    return sorted(causes, key=lambda cause: ("yes", "unknown", "no").index(cause.likely))


def _edited(reader: LogReader, run: RunRow, difference: Difference) -> Cause:
    problems = [
        problem
        for problem in verify_run(reader, run)
        if None in (problem.seq, difference.seq) or problem.seq <= difference.seq  # type: ignore[operator]
    ]
    if not problems:
        evidence = (
            "the run's hash chain holds up to here: each event is as it was appended"
            " (unless all hashes were made anew)"
        )
        return Cause(cause="edited log", likely="no", evidence=evidence)
    first = problems[0]
    where = "" if first.seq is None else f" at event {first.seq} of the file"
    more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
    evidence = f"the run's hash chain does not hold{where}: {first.what}{more}"
    return Cause(cause="edited log", likely="yes", evidence=evidence)


def _another_engine(
    reader: LogReader, run: RunRow, difference: Difference, explained: bool
) -> Cause:
    """The engine that wrote the event against this one. Both are of one format."""
    wrote = "unknown"
    for event in _readable(reader.events(run.run_id, upto=difference.run_seq)):
        if isinstance(event.body, RunStarted | RunResumed | RunForked):
            wrote = event.body.versions.get("engine", "unknown")
    here = engine_version()
    evidence = f"engine {wrote} wrote it, this is {here}"
    if wrote == here and not explained:
        evidence += "; nothing else explains it: the code may have changed under the same version"
    return Cause(
        cause="another engine", likely="unknown" if explained else "yes", evidence=evidence
    )


def _nondeterministic(
    reader: LogReader, run: RunRow, difference: Difference, team_of: TeamOf
) -> Cause:
    seen = {_result(difference): None}
    for _ in range(2):
        again = replay(reader.events(run.run_id, upto=difference.run_seq), team_of).difference
        seen[_result(again)] = None
    if len(seen) == 1:
        evidence = (
            "recomputed twice more in this process: the same decisions and digests"
            " (what depends on PYTHONHASHSEED would show only in another one)"
        )
        return Cause(cause="nondeterministic policy", likely="no", evidence=evidence)
    evidence = f"recomputed twice more, it came out otherwise: {'; '.join(seen)}"
    return Cause(cause="nondeterministic policy", likely="yes", evidence=evidence)


def _result(difference: Difference | None) -> str:
    """What a recomputation made of the run up to the difference."""
    if difference is None:
        return "no difference"
    computed = bytes(difference.computed or b"nothing").decode()
    return (
        f"event {difference.run_seq} {difference.computed_type or ''} {computed}"
        f" at {difference.computed_digest}"
    )


def _shifted(
    reader: LogReader, run: RunRow, found: Replay, difference: Difference
) -> Iterator[Cause]:
    """Does the log go on as computed one decision earlier, or later?"""
    at, computed = difference.run_seq, _computed(difference)
    if difference.what in ("impossible", "unreadable"):
        return
    stands = None if computed is None else _stands_at(reader, run, at, computed)
    if difference.what == "extra":
        evidence = f"the core decides nothing after event {difference.agreed.run_seq}"
        yield Cause(cause="extra decision", likely="yes", evidence=evidence)
    elif difference.what == "changed" and stands is not None:
        evidence = f"what was computed for event {at} stands at event {stands}"
        yield Cause(cause="extra decision", likely="yes", evidence=evidence)
    if computed is None:
        return
    if difference.what == "missing":
        later = "nowhere in the events behind" if stands is None else f"only at event {stands}"
        evidence = f"{computed.TYPE} is due before event {at} and stands {later}"
        yield Cause(cause="missing decision", likely="yes", evidence=evidence)
    elif difference.what == "changed":
        following = decide(evolve(found.state, computed))
        logged = bytes(difference.logged or b"")
        if following is not None and encode_body(following) == logged:
            evidence = f"event {at} is what the core decides once {computed.TYPE} is appended"
            yield Cause(cause="missing decision", likely="yes", evidence=evidence)


def _computed(difference: Difference) -> Body | None:
    if difference.computed is None or difference.computed_type is None:
        return None
    version = BODIES[difference.computed_type].VER
    return decode_body(difference.computed_type, version, bytes(difference.computed))


def _stands_at(reader: LogReader, run: RunRow, after: int, computed: Body) -> int | None:
    """The next event that is this decision."""
    behind = _readable(reader.events(run.run_id, after=after, upto=after + _LOOK_AHEAD))
    return next((event.run_seq for event in behind if event.body == computed), None)


def _readable(events: Iterator[Event]) -> Iterator[Event]:
    """Up to the first that can't be decoded."""
    try:
        yield from events
    except LogError:
        return

"""What an attempt shows of itself, in sections of bounded size (docs/observations.md). Pure.

``said`` is ours. ``quoted`` is text in which the candidate may have a part: without
characters that can't be seen, and to be marked as what it is wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from events.figures import beside
from events.observations import SECTIONS, Observations, SectionName
from events.outcomes import Correct, KernelResources, Outcome, SetScore, WrongResult
from projections.candidate.labels import labels_told
from projections.candidate.measures import counters_table, profile_text, roofline_text
from projections.candidate.memory import memory_words
from projections.candidate.resources import resources_table

__all__ = ["CAPS", "SELECTED_CAPS", "Attempt", "Section", "cut", "sections_of", "visible"]

CAPS: Mapping[SectionName, int] = {
    "compiler": 3000, "execution": 3000, "error": 1200, "timing": 1200, "resources": 1500,
    "roofline": 1200, "profile": 1500, "counters": 800,
}  # fmt: skip
"""Bytes of a section at most."""
SELECTED_CAPS = {**CAPS, "compiler": 8000, "execution": 8000, "error": 2000, "resources": 3000}
"""Of the attempt that is to be worked on."""
_ALIKE = 1.1  # times as fast; two clocks that differ by less say the same
_LEFT_OUT = "\n[… {} bytes left out …]\n"


class Section(msgspec.Struct, frozen=True, kw_only=True):
    name: SectionName
    said: str = ""
    quoted: str = ""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """All that sections are made of. ``runtime_ms`` and ``speedup`` (over the root's eager
    runtime) are a correct one's."""

    outcome: Outcome | None
    runtime_ms: float | None = None
    speedup: float | None = None
    compile_log: str = ""
    run_log: str = ""
    resources: Sequence[KernelResources] = ()
    observations: Observations | None = None


def sections_of(
    attempt: Attempt,
    names: Collection[SectionName] = SECTIONS,
    caps: Mapping[SectionName, int] = CAPS,
) -> list[Section]:
    """Those of ``names`` that are not empty; always what compiler and
    execution said, if only that it was nothing. In one order, whatever that of ``names``."""
    sections = []
    for name in SECTIONS:
        if name not in names:
            continue
        said, quoted = _told(attempt, name)
        if said or quoted:
            sections.append(_fitted(name, visible(said), visible(quoted).strip(), caps[name]))
    return sections


def _fitted(name: SectionName, said: str, quoted: str, most: int) -> Section:
    said = cut(said, most)
    return Section(name=name, said=said, quoted=cut(quoted, most - _size(said)))


def _told(attempt: Attempt, name: SectionName) -> tuple[str, str]:
    """What is said, and what is quoted."""
    seen = attempt.observations or Observations()
    if name in seen.missing:
        return "(not observed)", seen.missing[name]
    match name:
        case "compiler":
            log = attempt.compile_log
            return ("", log) if log.strip() else ("(no messages)", "")
        case "execution":
            return _execution(attempt)
        case "error":
            return _error(attempt.outcome, seen), ""
        case "timing":
            return _timing(attempt.outcome), ""
        case "resources":
            return "", resources_table(attempt.resources)
        case "roofline" if seen.work is not None and attempt.runtime_ms:
            first = _first_set(attempt.outcome)
            runtime_ms = first.baseline_ms / first.speedup if first else attempt.runtime_ms
            return _on(first) + roofline_text(seen.work, seen.ceilings, runtime_ms), ""
        case "profile" if seen.profile is not None:
            said, quoted = profile_text(seen.profile)
            return _on(_first_set(attempt.outcome)) + said, quoted
        case "counters" if seen.counters is not None:
            return _on(_first_set(attempt.outcome)).strip(), counters_table(seen.counters)
        case _:
            return "", ""


def _execution(attempt: Attempt) -> tuple[str, str]:
    """Of an outcome, only its tag is sure to be ours."""
    if attempt.outcome is None:
        return "(not executed)", ""
    result = str(attempt.outcome.__struct_config__.tag)
    if attempt.runtime_ms is not None:
        speed = f", {attempt.speedup:.3g} × the reference's speed" if attempt.speedup else ""
        result = f"{result}: runtime {attempt.runtime_ms:.4g} ms{speed}"
    parts = (attempt.outcome.reason, attempt.run_log.strip())
    return result, "\n\n".join(part for part in parts if part)


def _error(outcome: Outcome | None, seen: Observations) -> str:
    if not isinstance(outcome, Correct | WrongResult):
        return ""
    found = []
    if outcome.max_abs_error is not None:
        found.append(f"largest absolute error {outcome.max_abs_error:.3g}")
    if isinstance(outcome, Correct) and outcome.error is not None and outcome.error_bound:
        error, bound = beside(outcome.error, outcome.error_bound)
        found.append(f"relative error {error}, allowed {bound}")
        if outcome.trial is not None:
            found[-1] += f", nearest in trial {outcome.trial}"
    if isinstance(outcome, WrongResult):
        if outcome.max_rel_error is not None:
            found.append(f"largest relative error {outcome.max_rel_error:.3g}")
        if outcome.trial is not None:
            found.append(f"in trial {outcome.trial}")
    return "\n".join(part for part in (", ".join(found), seen.difference) if part)


def _timing(outcome: Outcome | None) -> str:
    if not isinstance(outcome, Correct):
        return ""
    lines = [f"median {outcome.candidate_ms:.4g} ms a call, of {outcome.pairs} pairs of timings"]
    if outcome.candidate_spread is not None:
        lines[0] += f"; from the 5th to the 95th percentile {outcome.candidate_spread:.1%} of it"
    lines.append(f"the reference beside it: {outcome.baseline_ms:.4g} ms")
    lines.append(
        f"speedup {outcome.speedup:.4g}, 95 % interval {1 / outcome.ratio_high:.4g} to"
        f" {1 / outcome.ratio_low:.4g}"
    )
    if outcome.bounded_speedup is not None:
        lines[-1] += f"; at least {outcome.bounded_speedup:.4g} by the clock outside its process"
    if outcome.eager_speedup is not None and _differ(outcome.speedup, outcome.eager_speedup):
        lines.append(
            f"that is device time, {outcome.speedup:.4g}; in a plain Python loop of calls, with"
            f" launches and the host's work, the speedup is {outcome.eager_speedup:.4g}"
        )
        if outcome.eager_ms is not None and outcome.eager_baseline_ms is not None:
            each, theirs = outcome.eager_ms, outcome.eager_baseline_ms
            lines[-1] += f": {each:.4g} ms a call against {theirs:.4g} ms"
    if outcome.sets:
        by_set = ", ".join(map(_of_set, outcome.sets))
        lines.append(f"geometric means over the input sets; speedup by input set: {by_set}")
    memory = memory_words(outcome.peak_bytes, outcome.reference_peak_bytes)
    lines += [f"{memory}, beyond inputs, outputs and parameters"] if memory else []
    return "\n".join([*lines, *labels_told(outcome.labels)])


def _first_set(outcome: Outcome | None) -> SetScore | None:
    """The input set that work, profile and counters are of; none where there are no sets."""
    return outcome.sets[0] if isinstance(outcome, Correct) and outcome.sets else None


def _on(first: SetScore | None) -> str:
    return f"on input set {first.name!r} alone:\n" if first else ""


def _of_set(each: SetScore) -> str:
    return f"{'a hidden one' if each.hidden else each.name} {each.speedup:.4g}"


def _differ(speedup: float, eager_speedup: float) -> bool:
    """By more than is worth a line."""
    return not 1 / _ALIKE <= eager_speedup / speedup <= _ALIKE


def visible(text: str) -> str:
    """Escapes what is not printed: terminal sequences, directions of writing, other line ends."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def cut(text: str, most: int) -> str:
    """At most ``most`` bytes of UTF-8: the head, where compilers put the first error, and the
    tail, where a traceback ends. Where there is no room for both and a word between, the head."""
    data = text.encode()
    if len(data) <= most:
        return text
    room = most - _size(_LEFT_OUT.format(len(data)))
    if room < 0:
        return data[: max(most, 0)].decode(errors="ignore")
    head = data[: room * 2 // 3].decode(errors="ignore")
    tail = data[len(data) - room // 3 :].decode(errors="ignore") if room >= 3 else ""
    left_out = len(data) - _size(head) - _size(tail)
    return f"{head}{_LEFT_OUT.format(left_out)}{tail}"


def _size(text: str) -> int:
    return len(text.encode())

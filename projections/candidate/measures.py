"""Rooflines, profiles and counters as text for people and prompts. Pure."""

from __future__ import annotations

from events.figures import whole_percent
from events.observations import Ceilings, Counters, Profile, Work
from projections.candidate.roofline import Roofline, roofline

__all__ = ["counters_table", "profile_text", "roofline_text"]

_SHOWN_NAME = 90


def roofline_text(work: Work, ceilings: Ceilings | None, runtime_ms: float) -> str:
    """Rates against ceilings, the time under the roof, what was counted and what was not."""
    found = roofline(work, ceilings, runtime_ms)
    lines = [*_rates(found, work, ceilings)]
    if found.least_ms is not None:
        lines.append(
            f"under this roof: at least {found.least_ms:.3g} ms, bound by {found.bound};"
            f" it takes {runtime_ms:.4g} ms"
        )
    lines += _counted(work)
    if ceilings is not None:
        lines.append(
            f"ceilings: reached on this device by a probe (copy or sum, matrix product), "
            f"{ceilings.measured_on}"
        )
    return "\n".join(lines)


def _rates(found: Roofline, work: Work, ceilings: Ceilings | None) -> list[str]:
    moved = f"bandwidth: {_si(found.bytes_per_s)}B/s"
    if ceilings is not None and found.bytes_share is not None:
        moved += f", {whole_percent(found.bytes_share, '')} of {_si(ceilings.bytes_per_s)}B/s"
        if found.bytes_share > 1:
            moved += " (more than the probe reached: a cache holds part of it)"
    if not work.flops:
        return [moved]
    done = f"operations: {_si(found.flops_per_s)}FLOP/s"
    if ceilings is not None and found.flops_share is not None:
        top = ceilings.flops_per_s[work.dtype]
        done += f", {whole_percent(found.flops_share, '')} of {_si(top)}FLOP/s in {work.dtype}"
    elif ceilings is not None:
        done += f", no ceiling is known for {work.dtype or 'this dtype'}"
    return [moved, done]


def _counted(work: Work) -> list[str]:
    lines = [
        f"counted on the reference, at least: {_si(work.moved_bytes)}B moved once"
        f" (inputs {_si(work.input_bytes)}B, outputs {_si(work.output_bytes)}B,"
        f" parameters {_si(work.parameter_bytes)}B), {_si(work.flops)}FLOP"
    ]
    if work.uncounted:
        lines.append(f"operations not counted: those of {', '.join(work.uncounted)}")
    return lines


def profile_text(profile: Profile) -> tuple[str, str]:
    """What is said of it, and its table, whose names are the candidate's.

    Shares are of the kernels' time together, or of the calls' on the CPU, where what is no
    operator of torch's is the candidate's own code.
    """
    each_ms = profile.wall_ns / profile.calls / 1e6
    said = f"{profile.calls} calls under torch's profiler, warm: {each_ms:.4g} ms each"
    rows = [(row.name, row.own_ns, f"{row.count / profile.calls:.3g}") for row in profile.rows]
    whole_ns = profile.own_ns
    if profile.what == "kernels":
        share = profile.own_ns / max(profile.wall_ns, 1)
        said += f"; kernels and copies were at work for {whole_percent(share, '')} of that"
    else:
        whole_ns = max(profile.wall_ns, profile.own_ns)
        rows.append(("(outside of torch's operators)", whole_ns - profile.own_ns, ""))
        rows.sort(key=lambda row: -row[1])
    cells = [("share", "us a call", "times a call", "name")]
    for name, own_ns, times in rows:
        share_told, us = f"{own_ns / max(whole_ns, 1):.1%}", _plain(own_ns / profile.calls / 1e3)
        short = name if len(name) <= _SHOWN_NAME else f"{name[: _SHOWN_NAME - 1]}…"
        cells.append((share_told, us, times, short))
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    table = "\n".join(
        "  ".join([*(c.rjust(w) for c, w in zip(row, widths, strict=False)), row[3]])
        for row in cells
    )
    return said, table


def counters_table(counters: Counters) -> str:
    width = max((len(each.name) for each in counters.counters), default=0)
    lines = [
        f"{each.name:{width}}  {each.value} {each.unit}".rstrip() for each in counters.counters
    ]
    return "\n".join([f"one launch of {counters.kernel}, by Nsight Compute", *lines])


def _plain(value: float) -> str:
    return f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def _si(value: float) -> str:
    """With a prefix of the thousand: ``12.3 G``, to be followed by its unit."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if value < 999.5 or prefix == "P":
            break
        value /= 1000
    return f"{value:.3g} {prefix}"

"""``engine cache``: what is kept between runs on this machine, and its emptying."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.views.draw import moment_words, ms, printable
from gpu_sandbox.doctor.cache_contents import (
    HOLDING_KINDS,
    Figure,
    Holding,
    HoldingKind,
    empty,
    holding,
)
from gpu_sandbox.sandbox import default_cache

__all__ = ["cache"]

_UNITS = ("B", "kB", "MB", "GB", "TB")


@click.command()
@click.option("--kind", "--kinds", "kinds", metavar="KINDS",
              help=f"Only these, with commas between: {', '.join(HOLDING_KINDS)}.")  # fmt: skip
@click.option("--prune", is_flag=True, help="Remove what is shown.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask before.")
@json_option
def cache(kinds: str | None, prune: bool, yes: bool, as_json: bool) -> int:
    """Show what is kept on this machine between runs; with --prune, remove it.

    Kept are baselines, ceilings, verdicts, device facts and the survey of isolation, with the time
    when they were measured, and builds. All of it is made anew when it is needed.
    """
    place, chosen = default_cache(), _kinds(kinds)
    held = [holding(place, kind) for kind in chosen]
    if not (as_json and prune):
        _print(place, held, as_json)
    if not prune:
        return Exit.DONE
    if any(each.number for each in held):
        _confirm(held, yes=yes)
    emptied = [empty(place, kind) for kind in chosen]
    for each in emptied:
        if as_json:
            emit(each)
        elif each.removed or each.left:
            click.echo(_removed_words(each))
    return Exit.DONE


def _kinds(listed: str | None) -> tuple[HoldingKind, ...]:
    if listed is None:
        return HOLDING_KINDS
    names = [name.strip() for name in listed.split(",") if name.strip()]
    unknown = [name for name in names if name not in HOLDING_KINDS]
    if unknown or not names:
        told = ", ".join(unknown) or "none"
        raise Failure(f"nothing named {told} is kept; there are {', '.join(HOLDING_KINDS)}")
    return tuple(kind for kind in HOLDING_KINDS if kind in names)


def _confirm(held: list[Holding], *, yes: bool) -> None:
    """Raises ``Failure`` without a terminal to ask on."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Failure("not on a terminal: nothing can be asked; give --yes to remove all of it")
    number, size = sum(each.number for each in held), sum(each.bytes for each in held)
    click.confirm(f"Remove these {number} entries, {_size(size)}?", abort=True, err=True)


def _print(place: Path, held: list[Holding], as_json: bool) -> None:
    if as_json:
        for each in held:
            emit(each)
        return
    click.echo(f"kept in {printable(str(place))}")
    for each in held:
        for line in _lines(each):
            click.echo(printable(line))


def _lines(held: Holding) -> Iterator[str]:
    if held.link:
        yield f"{held.kind:<10} {held.place} is a link: what it leads to is left alone"
        return
    line = f"{held.kind:<10}{held.number:>7}  {_size(held.bytes):>9}"
    if held.oldest and held.newest:
        how = "measured" if held.figures else "last used"
        oldest, newest = moment_words(held.oldest), moment_words(held.newest)
        line += f"  {how} {oldest}" + (f" to {newest}" if newest != oldest else "")
    yield line
    for figure in held.figures:
        yield f"  {_figure_words(figure)}  {figure.device}, {moment_words(figure.measured_at)}"


def _figure_words(figure: Figure) -> str:
    if figure.runtime_ms is not None:
        return f"{figure.what}: {ms(figure.runtime_ms)}"
    rates = [f"{rate / 1e12:.3g} TFLOP/s {name}" for name, rate in figure.flops_per_s.items()]
    bandwidth = [] if figure.bytes_per_s is None else [f"{figure.bytes_per_s / 1e9:.4g} GB/s"]
    return f"{figure.what}: {', '.join([*bandwidth, *rates])}"


def _removed_words(emptied: Holding) -> str:
    left = f", {emptied.left} left, in use or not ours to remove" if emptied.left else ""
    return f"removed {emptied.removed} of {emptied.kind}{left}"


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"

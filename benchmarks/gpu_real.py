"""One table of what ``gpu_real.sh`` measured: what was asked, what was reached.

    python -m benchmarks.gpu_real FOLDER [--mixed]

FOLDER holds a stamp (``benchmarks.stamps``) and a result of each part that was run, whole as PART
or in shards as PART-KofN. Below the table stand device, versions, date, commit and command of each.
Results of different commits, or of unknown ones, are refused unless ``--mixed``: then each row has
its commit. Exit status: 0 if all that was run reached what was asked, 1 if not, 3 if there is no
table.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from benchmarks.junit import names_in
from benchmarks.real_rows import PARTS, Line, Part
from benchmarks.stamps import UNKNOWN, Stamp, stamps_in

__all__ = ["main"]

HEADER = ("point", "measure", "asked", "reached", "KernelBench", "verdict")
SHARD = re.compile(r"(?P<part>\w+)-(?P<number>\d+)of(?P<shards>\d+)")
WHOLE = (1, 1)
SHORT = 12  # digits of a commit in a row


def part_of(stamp: Stamp) -> str:
    """Without the shard."""
    match = SHARD.fullmatch(stamp.part)
    return match["part"] if match else stamp.part


def shard_of(stamp: Stamp) -> tuple[int, int]:
    """Which, and of how many."""
    match = SHARD.fullmatch(stamp.part)
    return (int(match["number"]), int(match["shards"])) if match else WHOLE


def missing_shards(stamps: Sequence[Stamp]) -> str:
    """Empty if the shards are a whole part, whichever way it was divided."""
    shards = {shard_of(stamp) for stamp in stamps}
    gaps = [
        [f"{number} of {count}" for number in range(1, count + 1) if (number, count) not in shards]
        for count in {count for _, count in shards}
    ]
    return ", ".join(name for names in gaps for name in names) if all(gaps) else ""


def lines_of(name: str, stamps: Sequence[Stamp], folder: Path) -> list[Line]:
    """Of one part that was run."""
    part = PARTS[name]
    places = [folder / f"{stamp.part}{part.ending}" for stamp in stamps]
    lines = [_ended(part, stamp) for stamp in stamps if stamp.rc not in part.may_exit]
    if gaps := missing_shards(stamps):
        lines.append(Line("-", f"{part.title}: shards", "all", f"not run: {gaps}", False))
    made = [place for place in places if place.is_file()]
    if not made:
        return lines or [Line("-", part.title, "a result", "failed: it left none", False)]
    try:
        if part.ending == ".xml":
            lines += [_all_run(part, place) for place in made if tests_left(place)]
        return [*part.lines(made), *lines]
    except (KeyError, TypeError, ValueError, ElementTree.ParseError) as error:
        failed = f"failed: no such results ({type(error).__name__}: {error})"
        return [Line("-", part.title, "a result", failed, False), *lines]


def tests_left(place: Path) -> list[str]:
    """Those that were to be run (``ids.PART`` beside the report) and are not in the report: pytest
    reports what it did also where it was interrupted."""
    ids = place.parent / f"ids.{place.stem}"
    if not ids.is_file():
        return [f"{ids.name} is missing"]
    ran = names_in(place)
    names = (line.rpartition("::")[2] for line in ids.read_text().splitlines())
    return [name for name in names if name not in ran]


def _all_run(part: Part, place: Path) -> Line:
    names = tests_left(place)
    reached = f"not run: {len(names)} ({names[0]} …)"
    return Line("-", f"{part.title}: tests of {place.stem}", "all", reached, False)


def _ended(part: Part, stamp: Stamp) -> Line:
    how = "it did not end"
    if stamp.rc is not None:
        how = f"failed: exit {stamp.rc} after {stamp.wall_s:.0f} s"
    return Line("-", f"{part.title}: run {stamp.part}", "exit 0", how, False)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Markdown, aligned but for the last column."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |"
        for row in ruled
    )


def row_of(line: Line, commit: str | None) -> list[str]:
    verdict = "met" if line.is_met else "NOT MET"
    cells = [line.point, line.measure, line.asked, line.reached, line.peer, verdict]
    cells = [re.sub(r"[|\s]+", " ", cell) for cell in cells]
    return cells if commit is None else [*cells, commit]


def rows_of_all(stamps: Sequence[Stamp], folder: Path, mixed: bool) -> tuple[list[list[str]], bool]:
    """The table's rows, and whether all that was run reached what was asked."""
    rows, is_met = [[*HEADER, *(["commit"] if mixed else [])]], True
    for name, part in PARTS.items():
        ours = [stamp for stamp in stamps if part_of(stamp) == name]
        commits = ", ".join(dict.fromkeys(stamp.commit[:SHORT] for stamp in ours))
        if not ours:
            rows.append(["-", part.title, "-", "-", "-", "not run", *(["-"] if mixed else [])])
            continue
        lines = lines_of(name, ours, folder)
        is_met = is_met and all(line.is_met for line in lines)
        rows += [row_of(line, commits if mixed else None) for line in lines]
    return rows, is_met


def mixture(stamps: Sequence[Stamp]) -> str:
    """What keeps these from being of one commit; empty if nothing. Unknown ones may differ."""
    commits = {stamp.commit for stamp in stamps}
    if len(commits) == 1 and (UNKNOWN not in commits or len(stamps) == 1):
        return ""
    return "\n".join(f"  {stamp.part}: {stamp.commit}" for stamp in stamps)


def stamp_words(stamp: Stamp) -> str:
    ended = "not ended" if stamp.rc is None else f"exit {stamp.rc} after {stamp.wall_s:.0f} s"
    return (
        f"- {stamp.part}: {stamp.device}, driver {stamp.driver}, torch {stamp.torch}, triton"
        f" {stamp.triton}, Python {stamp.python}; {stamp.began}; commit {stamp.commit}; {ended};"
        f" `{shlex.join(stamp.command)}`"
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mixed", action="store_true", help="parts may be of different commits")
    chosen = parser.parse_args(words)
    try:
        stamps = [stamp for stamp in stamps_in(chosen.folder) if part_of(stamp) in PARTS]
    except msgspec.DecodeError as error:
        print(f"{chosen.folder}: a stamp can't be read: {error}", file=sys.stderr)
        return 3
    if not stamps:
        print(f"{chosen.folder}: no part has left a stamp", file=sys.stderr)
        return 3
    if not chosen.mixed and (mixed := mixture(stamps)):
        print(f"not of one commit; run them again, or: --mixed\n{mixed}", file=sys.stderr)
        return 3
    rows, is_met = rows_of_all(stamps, chosen.folder, chosen.mixed)
    print(f"\n{table(rows)}\n")
    print("\n".join(stamp_words(stamp) for stamp in stamps))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

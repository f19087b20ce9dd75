"""Search the landscape: every variant in every world, in minutes.

python -m benchmarks.landscape [--fit] [--seeds N] [--elsewhere N] [--jobs N] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from multiprocessing.pool import Pool
from pathlib import Path

import msgspec

from benchmarks.landscape.measure import Band, Outcome, compared, measured
from benchmarks.landscape.rates import fit_all, load, save
from benchmarks.landscape.runs import Batch, run_all, workers
from benchmarks.landscape.tables import DEFAULT, Results, tables
from benchmarks.landscape.variants import METHODS, RANKED, VARIANTS
from benchmarks.landscape.worlds import WORLDS

__all__ = ["main", "run_worlds"]

_SEEDS = 1000
_ATTEMPTS, _LONG = 30, 60


def main() -> None:
    """Fit if asked to, search, and write results, tables and figures."""
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    with workers(options.jobs) as pool:
        if options.fit:
            save(fit_all(pool, seeds=options.seeds, progress=_say))
        results = run_worlds(pool, seeds=options.seeds, elsewhere=options.elsewhere)
    (options.out / "results.json").write_bytes(msgspec.json.encode(results) + b"\n")
    (options.out / "tables.md").write_text(tables(results) + "\n")
    try:
        from benchmarks.landscape.figures import draw_all
    except ModuleNotFoundError as error:
        print(f"no figures: {error.name} is missing (pip install 'stark-engine[analysis]')")
        sys.exit(3)
    draw_all(results, options.out)
    print(f"wrote {options.out}/tables.md, results.json and the figures")


def run_worlds(pool: Pool, *, seeds: int, elsewhere: int) -> Results:
    """All variants in the default world, those that are ranked in the others."""
    rates = load()
    batches = [
        Batch(
            world=world, variant=variant, attempts=_ATTEMPTS,
            seeds=seeds if world == DEFAULT else elsewhere,
            rates=rates[world],
        )
        for world in WORLDS
        for variant in (VARIANTS if world == DEFAULT else RANKED)
    ]  # fmt: skip
    lengthy = [
        Batch(world=DEFAULT, variant=name, attempts=_LONG, seeds=seeds, rates=rates[DEFAULT])
        for name in METHODS
    ]
    progress = _Progress("searches")
    runs = run_all([*batches, *lengthy], pool, progress.tell)
    found = {(batch.world, batch.variant): of for batch, of in zip(batches, runs, strict=False)}
    lengthy_runs = dict(zip(METHODS, runs[len(batches) :], strict=True))
    outcomes: dict[str, dict[str, Outcome]] = {world: {} for world in WORLDS}
    ratios: dict[str, dict[str, Band]] = {world: {} for world in WORLDS}
    for (world, variant), of in found.items():
        seen = measured(of)
        if world != DEFAULT:  # nobody draws these curves, and they are most of the file
            seen = msgspec.structs.replace(seen, curve=[], success=seen.success[-1:])
        outcomes[world][variant] = seen
        ratios[world][variant] = compared(of, found[world, "stark"])
    return Results(
        outcomes=outcomes,
        against_stark=ratios,
        long={name: measured(of) for name, of in lengthy_runs.items()},
        long_against_stark={
            name: compared(of, lengthy_runs["stark"]) for name, of in lengthy_runs.items()
        },
    )


class _Progress:
    """A line that is written over on a terminal, a line for each tenth elsewhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = time.monotonic()
        self._tenth = 0

    def tell(self, done: int, total: int) -> None:
        line = f"{time.monotonic() - self._began:4.0f} s  {done:,} of {total:,} {self._what}"
        if sys.stderr.isatty():
            print(f"\r{line}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        elif done * 10 // total > self._tenth:
            self._tenth = done * 10 // total
            _say(line)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.landscape")
    parser.add_argument(
        "--fit", action="store_true", help="Fit the rates to Table 2 anew (a change of worlds)."
    )
    parser.add_argument("--seeds", type=int, default=_SEEDS, help=f"Default {_SEEDS}.")
    parser.add_argument(
        "--elsewhere", type=int, default=_SEEDS, help="Seeds in all worlds but the default one."
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("docs/results/landscape"))
    return parser.parse_args()


if __name__ == "__main__":
    main()

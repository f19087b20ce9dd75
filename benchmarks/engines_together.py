"""Several engines on one device beside one engine with as many workers: verdicts an hour, waits.

    python -m benchmarks.engines_together [--device cuda:0] [--engines 4] [--candidates 32]
        [--kinds torch,triton] [--turns 2] [--budget S] [--bench-s S] [--json FILE]

An engine is a process with a ``LocalSandbox``. On one side there is one with so many workers, on
the other there are so many with one worker each: as many verdicts are under way on both. Both
sides judge the same candidates in the same order, whichever worker is free takes the next; no two
are equal (a comment differs), so that no build is found in the cache, which engines share. Each
turn has both sides, every other turn in the other order.

Before the clock starts, each engine has judged one candidate of each kind: how long it takes until
all have is reported apart. What is counted is the rate while all workers have work (of few
candidates: until the last verdict). The wait is ``queue_s``: for the device, and for a place to
compile, of which each engine has more than workers. It counts waiting for the timing of others,
too, so it is more than what a verdict waited for their compilation.

On a GPU candidates are of ``benchmarks/honest``. On the CPU they are made up, with little work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec

from benchmarks.engine_process import (
    MOST_CANDIDATES,
    READY,
    Assignment,
    Judgement,
    kinds_on,
    pairs_of,
)
from benchmarks.sandbox_throughput import steady_per_hour
from benchmarks.table import Table

__all__ = ["MIN_RATIO", "MOST_WAIT_S", "main"]

ROOT = Path(__file__).parents[1]
MIN_RATIO = 0.9  # of several engines' verdicts an hour to one engine's
MOST_WAIT_S = 10.0  # of any verdict, for others


# --- all engines of a side


def side(assignment: Assignment, engines: int, candidates: int) -> dict[str, Any]:
    """What ``engines`` of ``workers`` each do. Raises ``RuntimeError`` where one fails."""
    began = time.monotonic()
    order, write = os.pipe()
    assignment = msgspec.structs.replace(assignment, order=order)
    with ExitStack() as stack:
        stack.callback(os.close, order)
        numbers = stack.enter_context(open(write, "wb", buffering=0))
        pool = stack.enter_context(ThreadPoolExecutor(engines))
        processes = [stack.enter_context(started(assignment)) for _ in range(engines)]
        if any(lines(process).readline() != READY for process in processes):
            raise RuntimeError("an engine failed before all were ready")
        go = time.monotonic()
        numbers.write(bytes(range(candidates)))
        numbers.close()  # behind the last candidate, engines read the pipe's end
        texts = list(pool.map(lambda process: lines(process).read(), processes))
    judged = [
        msgspec.json.decode(line, type=Judgement) for text in texts for line in text.splitlines()
    ]
    if len(judged) < candidates:
        raise RuntimeError(f"{candidates} candidates were given, and {len(judged)} were judged")
    return {"ready_s": go - began, **figures(judged, go, engines * assignment.workers)}


@contextmanager
def started(assignment: Assignment) -> Iterator[subprocess.Popen[str]]:
    """An engine, which is ended on leaving if it did not end before."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.engine_process"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        pass_fds=(assignment.order,),
    ) as process:  # fmt: skip
        try:
            assert process.stdin is not None
            with process.stdin as pipe:
                pipe.write(msgspec.json.encode(assignment).decode())
            yield process
        finally:
            process.terminate()


def lines(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def figures(judged: Sequence[Judgement], go: float, in_flight: int) -> dict[str, Any]:
    """Verdicts an hour of a side whose clock started at ``go``, its longest wait, all verdicts."""
    asked = sorted(each.asked - go for each in judged)
    ended = sorted(each.ended - go for each in judged)
    whole = 3600 * len(judged) / ended[-1]
    longest = max(judged, key=lambda judgement: judgement.queue_s)
    return {
        "whole_per_hour": whole,
        "per_hour": steady_per_hour(asked, ended, in_flight) or whole,
        "longest_wait_s": longest.queue_s,
        "longest_wait_of": longest.kind,
        "verdicts": msgspec.to_builtins(judged),
    }


# --- both sides


def compared(chosen: argparse.Namespace, done: Callable[[list[dict[str, Any]]], None]) -> None:
    """Calls ``done`` with all turns so far after each. None begins that the budget has no time
    for, but the first."""
    began = time.monotonic()
    turns: list[dict[str, Any]] = []
    counts = {"one": (1, chosen.engines), "several": (chosen.engines, 1)}
    pairs = pairs_of(chosen.device, chosen.kinds)
    with tempfile.TemporaryDirectory(prefix="together-") as cache:
        for turn in range(chosen.turns):
            spent = time.monotonic() - began
            if turn and spent * (turn + 1) / turn > chosen.budget:
                print(f"the time is up after {turn} of {chosen.turns} turns", file=sys.stderr)
                return
            sides = {}
            for name in list(counts)[:: -1 if turn % 2 else 1]:
                engines, workers = counts[name]
                assignment = Assignment(
                    device=chosen.device, workers=workers, cache=cache, bench_s=chosen.bench_s,
                    pairs=pairs, mark=f"{name} {turn}", order=-1,
                )  # fmt: skip
                sides[name] = side(assignment, engines, chosen.candidates)
            turns.append(sides)
            done(turns)


def summary(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over turns, their ratio, the longest wait of all, and kinds that were not correct."""
    rates = {
        name: statistics.fmean(turn[name]["per_hour"] for turn in turns)
        for name in ("one", "several")
    }
    sides = [side for turn in turns for side in turn.values()]
    longest = max(sides, key=lambda side: float(side["longest_wait_s"]))
    verdicts = [judged for side in sides for judged in side["verdicts"]]
    return {
        "per_hour": rates,
        "ratio": rates["several"] / rates["one"],
        "longest_wait_s": longest["longest_wait_s"],
        "longest_wait_of": longest["longest_wait_of"],
        "not_correct": [
            f"{judged['kind']}: {judged['outcome']}: {judged['reason']}"
            for judged in verdicts
            if judged["outcome"] != "correct"
        ],
    }


def tell(turns: Sequence[dict[str, Any]], engines: int, title: str) -> None:
    total = summary(turns)
    table = Table(title, last="verdict")
    for name, what in (("one", f"one, {engines} workers"), ("several", f"{engines}, one worker")):
        ready = max(turn[name]["ready_s"] for turn in turns)
        table.row(f"{what}: verdicts an hour", "-", f"{total['per_hour'][name]:.0f}")
        table.row(f"{what}: until all are ready", "-", f"{ready:.1f} s")
    ratio, wait = total["ratio"], total["longest_wait_s"]
    asked = f"at least {MIN_RATIO:g}"
    table.row("several engines / one", asked, f"{ratio:.2f}", Table.verdict(ratio >= MIN_RATIO))
    waited = f"{wait:.1f} s ({total['longest_wait_of']})"
    asked = f"at most {MOST_WAIT_S:g} s"
    table.row("longest wait for others", asked, waited, Table.verdict(wait <= MOST_WAIT_S))
    wrong = total["not_correct"]
    table.row("not correct", "none", f"{len(wrong)}", Table.verdict(not wrong))
    print("\n".join(f"  {line}" for line in wrong))


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engines", type=int, default=4)
    parser.add_argument("--candidates", type=int, default=32, help="of each side, a turn")
    parser.add_argument("--kinds", help=f"some of {','.join(kinds_on('cuda'))}")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--budget", type=float, default=480.0, help="seconds of all turns")
    parser.add_argument("--bench-s", type=float, help="the sandbox's cap on timing a candidate")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(words)
    every = kinds_on(chosen.device)
    chosen.kinds = chosen.kinds.split(",") if chosen.kinds else every
    if unknown := [kind for kind in chosen.kinds if kind not in every]:
        parser.error(f"--kinds: {unknown[0]} is none of {', '.join(every)}")
    if not 1 <= chosen.candidates <= MOST_CANDIDATES:
        parser.error(f"--candidates: 1 to {MOST_CANDIDATES}")
    return chosen


def main(words: list[str]) -> int:
    chosen = arguments(words)
    title = f"{chosen.device}, {chosen.candidates} candidates a side: {', '.join(chosen.kinds)}"

    def done(turns: list[dict[str, Any]]) -> None:
        tell(turns, chosen.engines, f"{title}; turns: {len(turns)}")
        if chosen.json:
            raw = {"device": chosen.device, "engines": chosen.engines, "kinds": chosen.kinds}
            chosen.json.write_text(json.dumps({**raw, **summary(turns), "turns": turns}))

    try:
        compared(chosen, done)
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

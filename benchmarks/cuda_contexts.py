"""What a process with a CUDA context costs to begin and to end: the gap between two candidates.

    python -m benchmarks.cuda_contexts [--runs 3]

Each process is forked from one that has imported torch and not touched CUDA, as a worker is. Of
several at once all are timed together. The second half has another context alive on the device
meanwhile, as the verifier's is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks.table import Table

_TOGETHER = (1, 2, 4)
_DRIVER = "driver started"
_CONTEXT = "context made"


def _process(told: Any) -> None:
    """Makes a context, says what that took, and waits to be killed."""
    began = time.perf_counter()
    cuda: Any = torch.cuda
    cuda.init()
    started = time.perf_counter()
    torch.zeros(1, device="cuda")
    cuda.synchronize()
    told.put({_DRIVER: started - began, _CONTEXT: time.perf_counter() - started})
    signal.pause()


def _once(together: int) -> dict[str, float]:
    """Seconds until all have a context, of the slowest's parts, and until all are gone."""
    told: Any = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=_process, args=(told,)) for _ in range(together)]
    began = time.perf_counter()
    for process in processes:
        process.start()
    parts = [told.get() for _ in processes]
    ready = time.perf_counter()
    for process in processes:
        os.kill(process.pid or 0, signal.SIGKILL)
    for process in processes:
        process.join()
    slowest = {name: max(part[name] for part in parts) for name in (_DRIVER, _CONTEXT)}
    return {**slowest, "begun": ready - began, "ended": time.perf_counter() - ready}


@contextmanager
def _another_alive() -> Iterator[None]:
    told: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=_process, args=(told,))
    process.start()
    told.get()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _rows(table: Table, runs: int, condition: str) -> None:
    for together in _TOGETHER:
        seen = [_once(together) for _ in range(runs)]
        median = {name: statistics.median(one[name] for one in seen) * 1e3 for name in seen[0]}
        table.row(
            f"{together} at once{condition}",
            "-",
            f"begun in {median['begun']:.0f} ms ({_DRIVER} {median[_DRIVER]:.0f}, "
            f"{_CONTEXT} {median[_CONTEXT]:.0f}), ended in {median['ended']:.0f} ms",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    multiprocessing.set_start_method("fork")
    table = Table(f"torch {torch.__version__}, median of {runs}")
    _rows(table, runs, "")
    with _another_alive():
        _rows(table, runs, ", another alive")


if __name__ == "__main__":
    main()

"""Gates that encrypt nothing: their noise, and the time that they leave to hide calls in.

    python -m benchmarks.plain_gates [--releases 100] [--words device] [--json FILE]

Two processes share a GPU, as verifier and worker do. The worker queues its calls behind a value in
host memory. When all are queued the verifier's clock starts, it copies the inputs to where the
worker reads them, writes the value, waits until the worker's device has written another, and copies
the outputs back: each change of process is on the clock. ``once``: all calls are let in by one
value. ``each``: every call has its own, given when the outputs of the call before are taken.
``--words``: who writes and reads these values for the verifier, its processor, or its device in the
order of its copies.

A row for each gate, number of calls, bytes, and kind of worker:

- ``nothing`` writes zeros to the place of each output: what a gate takes off every wall;
- ``copies`` calls ``torch.sin`` and copies what it returned to its place, as every worker does;
- ``in place`` computes it there by ``out=``, as the attack ``cuda_computes_into_its_place`` does;
- ``early`` does so as soon as the last element of a call's inputs has come, and says that the call
  is done when it begins, as ``cuda_watches_inputs_come`` and ``cuda_says_done_early``.

Columns: the median wall in microseconds; its noise, from the least to the median and between the
quartiles (encrypted gates have their ``noise_ns``, ``gate_benchmark.py``); what a call takes by the
gate, the wall less that of ``nothing``; and in how many releases all outputs were right. What calls
``in place`` or ``early`` take less than those of ``copies`` is what that worker gains.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec
import torch
import torch.multiprocessing as processes

from gpu_sandbox.api.statistics import quantile

Gate: TypeAlias = Literal["once", "each"]
Kind: TypeAlias = Literal["nothing", "copies", "in place", "early"]
Words: TypeAlias = Literal["host", "device"]

_SHAPES = ((8, 1 << 18), (36, 1 << 18), (8, 1 << 22))
"""Calls of a release, and floats of each."""
_AT_LEAST, _ANY_BIT = 0, 2
"""What ``cuStreamWaitValue32`` waits for."""
_EXPONENT = 0x7F800000
"""Of a float32: no bit of it is set in zero, and some are in any other input."""
_MOST_S = 20.0
"""For a release; then it hangs."""


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _wait_on_device(stream: int, address: int, value: int, how: int) -> None:
    at = ctypes.c_uint64(address)
    if code := _driver().cuStreamWaitValue32_v2(ctypes.c_void_p(stream), at, value, how):
        raise RuntimeError(f"cuStreamWaitValue32 failed with CUDA driver error {code}")


def _write_on_device(stream: int, address: int, value: int) -> None:
    at = ctypes.c_uint64(address)
    if code := _driver().cuStreamWriteValue32_v2(ctypes.c_void_p(stream), at, value, 0):
        raise RuntimeError(f"cuStreamWriteValue32 failed with CUDA driver error {code}")


class Asked(msgspec.Struct, frozen=True):
    """Batches that the worker passes. Rounds are numbered on from ``first``."""

    gate: Gate
    kind: Kind
    calls: int
    releases: int
    first: int

    @property
    def rounds(self) -> int:
        """Of a release."""
        return self.calls if self.gate == "each" else 1

    def numbers(self, release: int) -> range:
        start = self.first + release * self.rounds
        return range(start, start + self.rounds)


class Counters:
    """Three numbers in memory that both processes, and the device, see."""

    def __init__(self, fd: int) -> None:
        self._map = mmap.mmap(fd, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.opened_at, self.done_at, queued_at = (address + 64 * k for k in range(3))
        self.opened, self.done, self.queued = (
            ctypes.c_uint32.from_address(at) for at in (self.opened_at, self.done_at, queued_at)
        )
        cudart: Any = torch.cuda.cudart
        cudart().cudaHostRegister(address, 4096, 0)


def _worker(fd: int, pipe: Any) -> None:
    torch.zeros(1, device="cuda")
    counters = Counters(fd)
    early: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    while (told := pipe.recv()) is not None:
        asked, inputs, outputs = told
        zeros = torch.zeros_like(outputs[0])
        outputs[0].copy_(torch.sin(inputs[0]))  # its code and memory are there before the gate
        for release in range(asked.releases):
            pipe.recv()
            inputs[:, -1].zero_()
            torch.cuda.synchronize()
            numbers = asked.numbers(release)
            if asked.kind == "early":
                _queue_early(asked, counters, numbers, inputs, outputs, early)
            else:
                _queue(asked, counters, numbers, inputs, outputs, zeros)
            counters.queued.value = numbers[-1]
            torch.cuda.synchronize()
        pipe.send("done")
        del told, inputs, outputs, zeros


def _queue(
    asked: Asked, counters: Counters, numbers: range, inputs: Any, outputs: Any, zeros: Any
) -> None:
    stream = torch.cuda.current_stream().cuda_stream
    each = asked.calls // asked.rounds
    for number, first in zip(numbers, range(0, asked.calls, each), strict=True):
        _wait_on_device(stream, counters.opened_at, number, _AT_LEAST)
        for k in range(first, first + each):
            if asked.kind == "in place":
                torch.sin(inputs[k], out=outputs[k])
            else:
                outputs[k].copy_(zeros if asked.kind == "nothing" else torch.sin(inputs[k]))
        _write_on_device(stream, counters.done_at, number)


def _queue_early(
    asked: Asked, counters: Counters, numbers: range, inputs: Any, outputs: Any, early: Any
) -> None:
    """Without a look at the gate's value. All calls of a round are said to be done as soon as the
    inputs of its last are there, by another stream than that which works on them."""
    stream = torch.cuda.current_stream().cuda_stream
    each = asked.calls // asked.rounds
    last_at = [inputs[k, -1].data_ptr() for k in range(asked.calls)]
    for number, last in zip(numbers, range(each - 1, asked.calls, each), strict=True):
        _wait_on_device(early.cuda_stream, last_at[last], _EXPONENT, _ANY_BIT)
        _write_on_device(early.cuda_stream, counters.done_at, number)
    for k in range(asked.calls):
        _wait_on_device(stream, last_at[k], _EXPONENT, _ANY_BIT)
        torch.sin(inputs[k], out=outputs[k])


class Verifier:
    """Has the clock."""

    def __init__(self, counters: Counters, pipe: Any, words: Words) -> None:
        self._counters, self._pipe = counters, pipe
        self._on_device = words == "device"

    def walls(self, asked: Asked, floats: int) -> tuple[list[float], float]:
        """In microseconds, and the share of releases whose outputs were right."""
        inputs = torch.zeros(asked.calls, floats, device="cuda")
        outputs, taken = torch.empty_like(inputs), torch.empty_like(inputs)
        self._pipe.send((asked, inputs, outputs))
        walls, right = [], 0
        for release in range(asked.releases):
            drawn = torch.rand(asked.calls, floats, device="cuda") + 1.0
            torch.cuda.synchronize()
            self._pipe.send("go")
            numbers = asked.numbers(release)
            _await(self._counters.queued, numbers[-1])
            views = [t.chunk(asked.rounds) for t in (drawn, inputs, outputs, taken)]
            walls.append(self._wall(numbers, *views))
            right += torch.equal(taken, torch.sin(drawn))
        self._pipe.recv()
        return walls[asked.releases // 10 :], right / asked.releases

    def _wall(self, numbers: range, *views: Sequence[torch.Tensor]) -> float:
        counters, stream = self._counters, torch.cuda.current_stream().cuda_stream
        began = time.perf_counter_ns()
        for number, drawn, inputs, outputs, taken in zip(numbers, *views, strict=True):
            inputs.copy_(drawn)
            if self._on_device:
                _write_on_device(stream, counters.opened_at, number)
                _wait_on_device(stream, counters.done_at, number, _AT_LEAST)
            else:
                torch.cuda.synchronize()
                counters.opened.value = number
                _await(counters.done, number)
            taken.copy_(outputs)
        _await(counters.done, numbers[-1])
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - began) / 1e3


def _await(counter: ctypes.c_uint32, number: int) -> None:
    deadline = time.monotonic() + _MOST_S
    while counter.value < number:
        if time.monotonic() > deadline:
            raise SystemExit(f"a release took more than {_MOST_S:.0f} s")


def _row(verifier: Verifier, asked: Asked, floats: int, nothing_us: float | None) -> dict[str, Any]:
    """``nothing_us``: the wall of a release of nothing, if this is none."""
    walls, right = verifier.walls(asked, floats)
    wall_us = quantile(walls, 0.5)
    return {
        "gate": asked.gate,
        "calls": asked.calls,
        "floats": floats,
        "kind": asked.kind,
        "wall_us": wall_us,
        "noise_us": wall_us - min(walls),
        "quartiles_us": quantile(walls, 0.75) - quantile(walls, 0.25),
        "call_us": 0.0 if nothing_us is None else (wall_us - nothing_us) / asked.calls,
        "right": right,
    }


def _rows(verifier: Verifier, releases: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    first = 1
    for gate in get_args(Gate):
        for calls, floats in _SHAPES:
            nothing_us: float | None = None
            for kind in get_args(Kind):
                asked = Asked(gate, kind, calls, releases, first)
                first += releases * asked.rounds
                row = _row(verifier, asked, floats, nothing_us)
                nothing_us = nothing_us or row["wall_us"]
                rows.append(row)
                print(
                    "{gate:5}{calls:5} {floats:8}  {kind:9}{wall_us:8.0f} ±{noise_us:6.1f} "
                    "{quartiles_us:6.1f} {call_us:8.2f} {right:7.0%}".format(**row),
                    flush=True,
                )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--words", choices=get_args(Words), default="host")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    fd = os.memfd_create("counters")
    os.ftruncate(fd, 4096)
    os.set_inheritable(fd, True)
    context = processes.get_context("fork")
    pipe, theirs = context.Pipe()
    worker = context.Process(target=_worker, args=(fd, theirs), daemon=True)
    worker.start()  # before there is a context here
    torch.zeros(1, device="cuda")
    verifier = Verifier(Counters(fd), pipe, arguments.words)
    print("gate calls   floats  kind       wall us  noise  quartiles  us a call  right")
    rows = _rows(verifier, arguments.releases)
    pipe.send(None)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()

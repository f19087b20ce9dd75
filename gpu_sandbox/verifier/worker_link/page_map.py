"""Pages of an output that a call has mapped into place and not written, on the CPU.

Fresh ones are zero, private ones of a file hold what that holds, rows of a table can be pages of
one: whoever reads the output pays for the faults, and whatever writing them takes is saved. The
kernel says of each page what it is (``pagemap``, proc_pid_pagemap(5)): written is one that is no
file's and nobody else's. What lies in others is charged what filling fresh memory takes.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import torch

from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.tensors.random_indices import some_of

_ENTRY_BYTES = 8
_EXCLUSIVE, _OF_A_FILE, _SWAPPED, _PRESENT = 56, 61, 62, 63
_FEWEST = 4
"""Of fewer whole pages, of all outputs together, none is mapped in less time than it is written."""
_BLOCK, _MOST_BLOCKS = 64, 64
"""Pages that are looked at together, and how many such of large outputs, or of many."""
_FILLED_BYTES, _FILLS = 1 << 22, 3
_CPU = torch.device("cpu")


class Stretch(NamedTuple):
    """Where an output lies, in bytes. ``blocks``: of what has gaps, where its elements begin, and
    for how long: only pages that hold some count."""

    address: int
    size: int
    blocks: tuple[torch.Tensor, int] | None = None


class Pages:
    """Of a worker's memory. Takes the descriptor over (``worker_memory.py``)."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    def mapped_bytes(self, outputs: Sequence[Stretch]) -> int:
        """Of the whole pages there, how much is not written, about. Nothing where there is no such
        memory: that is for who reads it to say."""
        spans = [_Span.of(stretch) for stretch in _joined(outputs)]
        count = sum(span.pages for span in spans)
        if count < _FEWEST:
            return 0
        blocks = [(span, start) for span in spans for start in range(0, span.pages, _BLOCK)]
        looked_at = mapped = 0
        for number in some_of(len(blocks), _MOST_BLOCKS, _CPU).tolist():
            span, start = blocks[number]
            pages = min(_BLOCK, span.pages - start)
            try:
                missing = ~self._written(span.first + start, pages)
            except (OSError, OverflowError):
                return 0
            looked_at += pages
            holds = span.holds
            mapped += int(
                (missing if holds is None else missing & holds[start : start + pages]).sum()
            )
        return mapped * mmap.PAGESIZE * count // looked_at

    def _written(self, first: int, count: int) -> torch.Tensor:
        told = os.pread(self._descriptor, count * _ENTRY_BYTES, first * _ENTRY_BYTES)
        entries = torch.frombuffer(
            bytearray(told.ljust(count * _ENTRY_BYTES, b"\0")), dtype=torch.int64
        )

        def bit(number: int) -> torch.Tensor:
            return (entries >> number & 1).bool()

        own = bit(_PRESENT) & bit(_EXCLUSIVE) | bit(_SWAPPED)
        return own & ~bit(_OF_A_FILE)


class _Span(NamedTuple):
    """The whole pages of a stretch, by number, and which of them hold elements, if not all do."""

    first: int
    pages: int
    holds: torch.Tensor | None

    @classmethod
    def of(cls, stretch: Stretch) -> _Span:
        address, size, blocks = stretch
        first = -(-address // mmap.PAGESIZE)
        count = max(0, (address + size) // mmap.PAGESIZE - first)
        if blocks is None or not count:
            return cls(first, count, None)
        return cls(first, count, _holding(count, first * mmap.PAGESIZE - address, blocks))


def _joined(outputs: Sequence[Stretch]) -> Iterator[Stretch]:
    """Those without gaps that share a page, or lie next to each other, are one: of hundreds that
    were mapped at once none may have a page of its own."""
    yield from (stretch for stretch in outputs if stretch.blocks is not None)
    whole = sorted((each for each in outputs if each.blocks is None), key=lambda each: each.address)
    begin = end = 0
    for address, size, _ in whole:
        if address > end and address // mmap.PAGESIZE > (end - 1) // mmap.PAGESIZE:
            yield Stretch(begin, end - begin)
            begin = end = address
        end = max(end, address + size)
    yield Stretch(begin, end - begin)


def blocks_of(spot: Spot, stride: tuple[int, ...]) -> tuple[torch.Tensor, int]:
    """Of one with gaps: where what lies next to each other begins, in bytes from its first element,
    and how many bytes that is."""
    item = int(getattr(torch, spot.dtype).itemsize)
    dense, outer = 1, list[tuple[int, int]]()
    for step, size in sorted(zip(stride, spot.shape, strict=True)):
        if size == 1:
            continue
        if not outer and (step == dense or step * item <= mmap.PAGESIZE):  # some in each page
            dense += step * (size - 1)
        else:
            outer.append((step, size))
    starts = torch.zeros(1, dtype=torch.int64)
    for step, size in outer:
        starts = (starts[:, None] + torch.arange(size) * step).reshape(-1)
    return starts * item, dense * item


def _holding(count: int, skipped: int, blocks: tuple[torch.Tensor, int]) -> torch.Tensor:
    """Which of so many pages, the first of which begins so many bytes after the first element, hold
    some of them."""
    starts, size = blocks
    page = mmap.PAGESIZE
    first = ((starts - skipped) // page).clamp(0, count)
    end = ((starts - skipped + size - 1) // page + 1).clamp(0, count)
    change = torch.zeros(count + 1, dtype=torch.int64)
    ones = torch.ones_like(first)
    change.index_add_(0, first, ones).index_add_(0, end, -ones)
    return change.cumsum(0)[:count] > 0


def filling_ns(size: int) -> float:
    """What filling so many bytes of fresh memory takes one core here."""
    return size * _filling_ns_each()


@cache
def _filling_ns_each() -> float:
    fastest = float("inf")
    for _ in range(_FILLS):
        with mmap.mmap(-1, _FILLED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as fresh:
            filled = torch.frombuffer(fresh, dtype=torch.uint8)
            began = time.perf_counter_ns()
            filled.fill_(1)
            fastest = min(fastest, time.perf_counter_ns() - began)
            del filled
    return fastest / _FILLED_BYTES

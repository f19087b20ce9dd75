"""Pages of an output that a call mapped into place instead of writing them, on the CPU.

Fresh pages are zero, private pages of a file or a table hold its content; the reader pays for their
faults. By ``pagemap`` (proc_pid_pagemap(5)) a page is written if it is exclusive and no file's.
Other pages are charged what filling fresh memory takes.
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
_MIN_PAGES = 4  # whole ones, of all outputs: fewer are mapped no faster than they are written
_BLOCK, _MAX_BLOCKS = 64, 64  # pages that are read together, and how many such of large outputs
_FILLED_BYTES, _FILLS = 1 << 22, 3
_CPU = torch.device("cpu")


class Stretch(NamedTuple):
    """Memory of an output, in bytes. ``blocks``, of one with gaps: where its elements begin, and
    for how long: only pages that hold some count."""

    address: int
    size: int
    blocks: tuple[torch.Tensor, int] | None = None


class Pages:
    """The page map of a worker's memory. Takes the descriptor over."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    def mapped_bytes(self, outputs: Sequence[Stretch]) -> int:
        """About how many bytes of whole pages are not written. 0 where there is no such memory:
        reading the output shows that."""
        spans = [_Span.of(stretch) for stretch in _joined(outputs)]
        count = sum(span.pages for span in spans)
        if count < _MIN_PAGES:
            return 0
        blocks = [(span, start) for span in spans for start in range(0, span.pages, _BLOCK)]
        checked = mapped = 0
        for number in some_of(len(blocks), _MAX_BLOCKS, _CPU).tolist():
            span, start = blocks[number]
            pages = min(_BLOCK, span.pages - start)
            try:
                missing = ~self._written(span.first + start, pages)
            except (OSError, OverflowError):
                return 0
            checked += pages
            holds = span.holds
            mapped += int(
                (missing if holds is None else missing & holds[start : start + pages]).sum()
            )
        return mapped * mmap.PAGESIZE * count // checked

    def _written(self, first: int, count: int) -> torch.Tensor:
        entries_read = os.pread(self._descriptor, count * _ENTRY_BYTES, first * _ENTRY_BYTES)
        entries = torch.frombuffer(
            bytearray(entries_read.ljust(count * _ENTRY_BYTES, b"\0")), dtype=torch.int64
        )

        def bit(number: int) -> torch.Tensor:
            return (entries >> number & 1).bool()

        own = bit(_PRESENT) & bit(_EXCLUSIVE) | bit(_SWAPPED)
        return own & ~bit(_OF_A_FILE)


class _Span(NamedTuple):
    """Whole pages of a stretch, by number, and which of them hold elements, if not all do."""

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
    """Join stretches without gaps that share a page or are adjacent: of hundreds that were mapped
    at once none may have a page of its own."""
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
    """Of an output with gaps: where adjacent elements begin, in bytes from its first element, and
    how many bytes these are."""
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
    """Which of ``count`` pages, the first of which begins ``skipped`` bytes after the first
    element, hold elements."""
    starts, size = blocks
    page = mmap.PAGESIZE
    first = ((starts - skipped) // page).clamp(0, count)
    end = ((starts - skipped + size - 1) // page + 1).clamp(0, count)
    change = torch.zeros(count + 1, dtype=torch.int64)
    ones = torch.ones_like(first)
    change.index_add_(0, first, ones).index_add_(0, end, -ones)
    return change.cumsum(0)[:count] > 0


def filling_ns(size: int) -> float:
    """Time to fill so many bytes of fresh memory with one core."""
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

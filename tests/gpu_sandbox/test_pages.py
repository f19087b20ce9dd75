"""Which pages of an output were written, as the kernel says."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

import pytest
import torch

from gpu_sandbox.ipc.cpu_call_messages import PAGEMAP, Where
from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.verifier.worker_link.page_map import Pages, Stretch, blocks_of, filling_ns
from gpu_sandbox.verifier.worker_link.worker_memory import Memory
from gpu_sandbox.worker.expose_memory import open_own_memory

PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
SIZE = 64 * mmap.PAGESIZE


@pytest.fixture
def pages() -> Iterator[Pages]:
    pages = Pages(os.open(PAGEMAP, os.O_RDONLY))
    yield pages
    pages.close()


def _mapped(pages: Pages, tensor: torch.Tensor) -> int:
    return pages.mapped_bytes([Stretch(tensor.data_ptr(), tensor.nbytes)])


def test_fresh_ones_are_not_until_they_are_written(pages: Pages) -> None:
    fresh = torch.frombuffer(mmap.mmap(-1, SIZE, PRIVATE), dtype=torch.uint8)
    assert _mapped(pages, fresh) == SIZE
    assert int(fresh.sum()) == 0  # to read them does not write them
    assert _mapped(pages, fresh) == SIZE
    fresh[: SIZE // 2] = 1
    assert _mapped(pages, fresh) <= SIZE // 2
    fresh[:] = 1
    assert _mapped(pages, fresh) == 0


@pytest.mark.parametrize("flags", [mmap.MAP_PRIVATE, mmap.MAP_SHARED])
def test_those_of_a_file_are_not(pages: Pages, flags: int) -> None:
    file = os.memfd_create("some")
    os.ftruncate(file, SIZE)
    of_a_file = torch.frombuffer(mmap.mmap(file, SIZE, flags), dtype=torch.uint8)
    os.close(file)
    assert _mapped(pages, of_a_file) == SIZE
    assert int(of_a_file.sum()) == 0
    assert _mapped(pages, of_a_file) == SIZE
    of_a_file[:] = 1
    assert _mapped(pages, of_a_file) == (0 if flags == mmap.MAP_PRIVATE else SIZE)


def test_what_torch_has_written_is(pages: Pages) -> None:
    for tensor in (torch.zeros(1 << 20), torch.randn(300, 3000), torch.ones(3 << 20).relu()):
        assert _mapped(pages, tensor) == 0


def test_of_a_large_one_some_blocks_are_looked_at(pages: Pages) -> None:
    size = 20_000 * mmap.PAGESIZE
    large = torch.frombuffer(mmap.mmap(-1, size, PRIVATE), dtype=torch.uint8)
    large[: size // 2] = 1
    assert 0.4 * size < _mapped(pages, large) < 0.6 * size


@pytest.mark.parametrize("address", [0, 4096, -4096, 1 << 62, 1 << 70, (1 << 63) - 4096])
def test_where_nothing_is_there_is_nothing_to_say_or_most_of_it(pages: Pages, address: int) -> None:
    assert 0 <= pages.mapped_bytes([Stretch(address, SIZE)]) <= SIZE


def test_little_is_not_looked_at(pages: Pages) -> None:
    fresh = torch.frombuffer(mmap.mmap(-1, SIZE, PRIVATE), dtype=torch.uint8)
    assert _mapped(pages, fresh[: 3 * mmap.PAGESIZE]) == 0
    assert _mapped(pages, fresh[:0]) == 0


@pytest.mark.parametrize("row", [1000, mmap.PAGESIZE, 4 * mmap.PAGESIZE - 16])
def test_many_that_were_mapped_at_once_are_looked_at_together(pages: Pages, row: int) -> None:
    """Though none of them has as many pages."""
    memory = mmap.mmap(-1, 16 * SIZE, PRIVATE)
    fresh = torch.frombuffer(memory, dtype=torch.uint8)[: 16 * SIZE // row * row].view(-1, row)
    rows = [Stretch(fresh[n].data_ptr(), row) for n in torch.randperm(len(fresh)).tolist()]
    assert pages.mapped_bytes(rows) == pytest.approx(fresh.nbytes, rel=0.01)
    if row > 2 * mmap.PAGESIZE:
        assert pages.mapped_bytes(rows[::5]) > 0, "nor do they lie side by side"
    fresh.fill_(1)
    assert pages.mapped_bytes(rows) == 0


def test_gaps_between_rows_do_not_count() -> None:
    """Pages that hold none of its elements are nobody's to write."""
    memory, page = Memory(open_own_memory()), mmap.PAGESIZE
    fresh = torch.frombuffer(mmap.mmap(-1, 3 * SIZE, PRIVATE), dtype=torch.float32)
    rows = fresh.view(64, -1)[:, : page // 4]
    where = Where(rows.data_ptr(), rows.stride())
    spot = Spot(0, tuple(rows.shape), rows.stride(), "float32")
    assert memory.mapped_bytes([(spot, where)]) == SIZE
    rows[:16] = 1.0
    assert memory.mapped_bytes([(spot, where)]) == SIZE * 3 // 4
    rows.fill_(1.0)
    assert memory.mapped_bytes([(spot, where)]) == 0
    large = Spot(0, (4096, 4096), (2100, 2100), "float32")
    told = Where(rows.data_ptr(), (2100, 2100))
    assert memory.mapped_bytes([(large, told)]) == 0, "no output lies so"
    memory.close()


def test_elements_with_gaps_below_a_page_are_as_good_as_dense() -> None:
    spot = Spot(0, (1 << 20, 1), (2, 1), "float32")
    starts, size = blocks_of(spot, spot.stride)
    assert (starts.tolist(), size) == ([0], ((1 << 21) - 1) * 4)
    starts, size = blocks_of(spot, (2048, 1))
    assert (len(starts), size) == (1 << 20, 4)


def test_filling_takes_as_much_longer_as_it_is_more() -> None:
    assert 0 < filling_ns(SIZE) < filling_ns(10 * SIZE)

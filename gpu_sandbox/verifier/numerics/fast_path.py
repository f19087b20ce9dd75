"""What is plainly right, in few passes: most outputs of timed calls need no other look.

Outputs that are alike, as those of the calls of a release are, are looked at in one go: a pass over
a small one takes less than to ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from gpu_sandbox.tensors.chunked import at_a_time, largest_of, pieces, row_rms, some_rows
from gpu_sandbox.verifier.numerics.error_quantiles import SHARES, Bulk, shares_off
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.slices import lost, none_lost
from gpu_sandbox.verifier.numerics.tolerances import Margin

__all__ = ["anywhere_of", "close_by", "lacks_column", "plainly_close", "plainly_right", "rms_of"]

_WIDE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
"""What norms are taken in, by dtype."""
_ROUNDED = 1 - 1e-6
"""A difference in float32 may be so much of what it is in float64."""
_LEAST_SIZE = 1e-6
"""The L2 norm below which squares of errors that count may be nothing in float32."""
_LARGE = 1 << 24
"""Elements. Fewer are copied next to each other, to be looked at together."""
_SPREAD = 8.0
"""An error of one tolerance, spread evenly over ten million elements, is five or six times
its RMS somewhere: maybe where the row is next to nothing, as behind a clamp."""
_LARGE_ROW = 0.9
"""Not the tensor's RMS: a few rows that are much larger would excuse errors in all others."""


class _Output(NamedTuple):
    expected: Expected
    allowed: Margin
    got: torch.Tensor


def plainly_close(outputs: Sequence[tuple[Expected, torch.Tensor]]) -> list[bool]:
    """Whether each is within a bound that is tighter than the strict rule in every respect, in few
    passes, and with one wait for the device. Says nothing where it is False, which it is of what
    isn't finite."""
    return [by is not None for by in close_by(outputs)]


def close_by(outputs: Sequence[tuple[Expected, torch.Tensor]]) -> list[float | None]:
    """The same, and by how much those are off, in relative L2. Their columns are not looked at."""
    same = [_is_large(one) and torch.equal(one.native, got) for one, got in outputs]
    close = [0.0 if one else None for one in same]
    plain = {
        number: _Output(expected, expected.allowed, got)
        for number, (is_same, (expected, got)) in enumerate(zip(same, outputs, strict=True))
        if _is_plain(expected) and not is_same
    }
    groups = list(_alike(plain))
    if not groups:
        return close
    norms = torch.cat([_norms([plain[number] for number in group]) for group in groups]).tolist()
    numbers = (number for group in groups for number in group)
    for number, (worst, off, size, share) in zip(numbers, norms, strict=True):
        one = plain[number]
        allowed = 0.5 * one.allowed.tolerance * size
        fits = off <= allowed < math.inf and size >= _LEAST_SIZE and share <= min(SHARES)
        if fits and _fits_anywhere(one, worst):
            close[number] = off / size
    return close


def lacks_column(expected: Expected, got: torch.Tensor, by: float | None) -> bool:
    """``by``: as ``close_by`` says."""
    columns = expected.columns
    if not expected.drawn or (by is not None and columns is not None and by <= columns.least):
        return False
    among = columns if expected.truth is expected.native else None
    return bool(lost(expected.truth, expected.native, got, among))


def plainly_right(expected: Expected, got: torch.Tensor) -> float | None:
    """The largest error of one that the strict rule accepts, in few passes; beside its float64 run,
    where there is one. None says nothing."""
    if expected.rule is None or expected.truth is expected.native:
        return None
    found = []
    for mine, truth, native in pieces(got, expected.truth, expected.native):
        wide = truth.double().flatten()
        error = mine.double().flatten() - wide
        most_of = [largest_of(t.reshape(1, -1))[0].double() for t in (error, native)]
        found.append(torch.stack([*most_of, error.dot(error), wide.dot(wide)]))
    worst, natives, errors, sizes = torch.stack(found).unbind(1)
    largest = float(worst.amax())
    if not math.isfinite(float(natives.amax())):  # infinities are to be where they are in its own
        return None
    off, size = math.sqrt(float(errors.sum())), math.sqrt(float(sizes.sum()))
    most = expected.allowed
    if not off <= _ROUNDED * most.tolerance * max(size, expected.least) < math.inf:
        return None
    if not _most_are_near(expected, got) or _has_lost(expected, got, off):
        return None
    fits = largest <= most.slack or largest <= anywhere_of(expected)
    return largest if fits else None


def _has_lost(expected: Expected, got: torch.Tensor, off: float) -> bool:
    if not expected.drawn or none_lost(expected.truth, off):
        return False
    return bool(lost(expected.truth, expected.native, got))


def _most_are_near(expected: Expected, got: torch.Tensor) -> bool:
    bulk = expected.allowed.bulk
    if bulk is None:
        return True
    truth, mine = (t.detach().reshape(1, -1) for t in (expected.truth, got))
    errors = zip((bulk.half, bulk.most), SHARES, strict=True)
    return all(
        float(shares_off(bulk, truth, mine, error, torch.float64)) <= share
        for error, share in errors
    )


def _is_large(expected: Expected) -> bool:
    """So large that to see whether it is the same takes less than its norms do."""
    return _is_plain(expected) and expected.native.numel() >= _LARGE


def _is_plain(expected: Expected) -> bool:
    native = expected.native
    own = expected.truth is native and expected.fill is None
    return own and native.dtype in _WIDE and native.numel() > 0


def _alike(outputs: dict[int, _Output]) -> Iterator[list[int]]:
    """Numbers of outputs that fit together into one piece, by what is asked of them."""
    groups: dict[tuple[torch.dtype, int, Bulk | None], list[int]] = {}
    for number, one in outputs.items():
        native = one.expected.native
        groups.setdefault((native.dtype, native.numel(), one.allowed.bulk), []).append(number)
    for (_, elements, _), group in groups.items():
        most = max(1, min(at_a_time(outputs[group[0]].got), _LARGE) // elements)
        for start in range(0, len(group), most):
            yield group[start : start + most]


def _norms(alike: Sequence[_Output]) -> torch.Tensor:
    """Of each the largest error, the error's L2 norm, that of what is expected, and the share of
    elements that are further off than half of them may be: (outputs, 4)."""
    norm: Callable[..., torch.Tensor] = torch.linalg.vector_norm
    all_native = _rows([one.expected.native for one in alike])
    all_got = _rows([one.got for one in alike])
    wide, step, found = _WIDE[all_native.dtype], at_a_time(all_got), []
    for start in range(0, all_got.shape[1], step):
        native = all_native[:, start : start + step].to(wide)
        off = all_got[:, start : start + step].to(wide) - native
        found.append((largest_of(off), norm(off, 2, 1), norm(native, 2, 1)))
    worst, errors, sizes = (torch.stack(each) for each in zip(*found, strict=True))
    share, bulk = worst.new_zeros(len(alike)), alike[0].allowed.bulk
    if bulk is not None:
        share = shares_off(bulk, all_native, all_got, bulk.half, wide)
    return torch.stack([worst.amax(0), norm(errors, 2, 0), norm(sizes, 2, 0), share], dim=1)


def _rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One each. A single one is not copied."""
    flat = [tensor.detach().reshape(1, -1) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)


def _fits_anywhere(output: _Output, error: float) -> bool:
    """Whether each element may be off by that. The rows are looked at if need be."""
    if error <= _ROUNDED * output.allowed.slack:
        return True
    return error <= _ROUNDED * anywhere_of(output.expected)


def anywhere_of(expected: Expected) -> float:
    """What any element may be off by, whatever its row is."""
    most = expected.allowed
    return max(most.slack, _SPREAD * most.tolerance * _large(expected))


def _large(expected: Expected) -> float:
    """Of some of the rows: to select among millions takes a GPU a second."""
    parts = pieces(some_rows(expected.truth))
    rms = torch.cat([rms_of(rows, expected.typical).flatten() for (rows,) in parts])
    return float(rms.kthvalue(max(1, int(_LARGE_ROW * rms.numel()))).values)


def rms_of(rows: torch.Tensor, typical: torch.Tensor | None) -> torch.Tensor:
    """Of each row. ``typical``: if there is one, of so few elements that they are one piece."""
    rms = row_rms(rows)
    return rms if typical is None else torch.maximum(rms, typical.reshape(rms.shape))

"""Measuring protocols: number of trials, tolerances, timing.

``strict`` is ours; in ``strict-tf32`` and ``strict-bf16`` the user declares a lower precision.
``verified`` adds the input distributions of KernelBench-Verified to ``strict-tf32``. For
comparison with published tables, ``kernelbench`` is KernelBench's present evaluator, ``paper`` its
state at the paper's time.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Precision: TypeAlias = Literal["float32", "tf32", "bf16"]
"""The least that will do in a task of float32."""


class Protocol(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of one protocol.

    ``structured``: trials on changed inputs as well (``verifier/trials/trials.py``). ``allclose``
    is the atol = rtol for (float32 and wider, half precision); None means the strict rule
    of ``verifier/numerics/compare.py``. ``flush_bytes`` is written before every CUDA sample: None =
    twice the L2, 0 = no flush; ``cover_us`` hides the launch of what is timed behind other
    work. ``precision`` is what the baseline computes with and the tolerance allows for
    (``runtime/precision.py``), and ``cpu_precision`` the same on the CPU, which has no TF32; None
    refuses the CPU where that is missing. ``scaled``: factors by which all floating point inputs
    are multiplied, one more trial each (``verifier/trials/trial_cases.py``). ``mean`` takes
    means, not paired medians. ``recheck``: what would be the best so far is judged again, by a
    fresh process, before its verdict is given. ``sifts``: pairs that a device did at different
    clocks are drawn anew (``verifier/timing/clock_filter.py``)."""

    name: str
    trials: int = 5
    structured: bool = False
    allclose: tuple[float, float] | None = None
    warmup_calls: int = 3
    warmup_s: float = 0.025
    min_pairs: int = 20
    max_pairs: int = 400
    half_width: float = 0.005
    flush_bytes: int | None = None
    cover_us: int = 0
    precision: Precision = "float32"
    cpu_precision: Precision | None = None
    scaled: tuple[float, ...] = ()
    mean: bool = False
    recheck: bool = False
    sifts: bool = False


_STRICT = Protocol(name="strict", structured=True, cover_us=60, recheck=True, sifts=True)

PROTOCOLS = {
    p.name: p
    for p in (
        _STRICT,
        msgspec.structs.replace(_STRICT, name="strict-tf32", precision="tf32"),
        msgspec.structs.replace(_STRICT, name="strict-bf16", precision="bf16"),
        msgspec.structs.replace(
            _STRICT,
            name="verified",
            precision="tf32",
            cpu_precision="float32",
            scaled=(3.0, 0.01, -1.0),
        ),
        Protocol(
            name="kernelbench",
            allclose=(1e-4, 1e-2),
            warmup_s=0.0,
            min_pairs=100,
            max_pairs=100,
            half_width=0.0,
            flush_bytes=256 << 20,
            mean=True,
        ),
        Protocol(
            name="paper",
            allclose=(1e-2, 1e-2),
            warmup_calls=100,
            warmup_s=0.0,
            min_pairs=100,
            max_pairs=100,
            half_width=0.0,
            flush_bytes=0,
            mean=True,
        ),
    )
}


def protocol_named(name: str) -> Protocol:
    """Raises ``ValueError`` for a protocol that does not exist."""
    try:
        return PROTOCOLS[name]
    except KeyError:
        raise ValueError(f"no protocol {name!r}; there are {', '.join(PROTOCOLS)}") from None

"""Defences of the clock and the answers on a GPU: ``pytest -m gpu tests/attacks/test_defences.py``.

The gates stand before the wall-time bound of pairs, so what the one stops is mostly stopped by the
other as well.
"""

from __future__ import annotations

from typing import Any

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch

__all__ = ["DEFENCES"]

_TIMING = "gpu_sandbox.verifier.timing"
_WALLS = ("wall-time bound",)


def _only_the_last(_: Any) -> Any:
    return lambda self: [self.calls - 1]


def _as_before(_: Any) -> Any:
    return lambda self, pairing, peer, before, seconds: before


def _plain_flush(flush: Any) -> Any:
    return lambda self, flush_bytes, kernels: flush(self, flush_bytes, None)


DEFENCES = (
    Defence(
        name="gates bound a reported time",
        module="verifier/timing/gate_benchmark.py",
        threats=("C2", "C13", "C14"),
        patches=(Patch(f"{_TIMING}.gate_benchmark:GateBenchmark.judge", _as_before),),
        bites=(
            Bite("cuda_patched_events", also_off=_WALLS),
            Bite("cuda_detoured_event_function", also_off=_WALLS),
            Bite("cuda_shaves_a_fifth", also_off=_WALLS),
            Bite("cuda_shaves_short_calls", also_off=_WALLS),
            Bite("cuda_side_stream", also_off=_WALLS),
            Bite("cuda_native_stream", also_off=_WALLS),
            Bite("cuda_skips_the_flush", also_off=_WALLS),
        ),
    ),
    Defence(
        name="compared calls are chosen in secret",
        module="verifier/timing/batches.py",
        threats=("C11",),
        patches=(Patch(f"{_TIMING}.batches:Batches.choose", _only_the_last),),
        bites=(
            Bite("batch_runs_only_the_last"),
            Bite("cuda_skips_one_call_in_sixteen"),
            Bite("cuda_numbers_of_the_last_call"),
        ),
    ),
    Defence(
        name="the flush leaves no persisting line",
        module="worker/backends/cuda_cold_cache.py",
        threats=("C14",),
        patches=(
            Patch("gpu_sandbox.worker.backends.cuda_cold_cache:CudaColdCache._flush", _plain_flush),
        ),
        bites=(Bite("cuda_persisting_l2"),),
    ),
    Defence(
        name="inputs behind gates are encrypted",
        module="cuda/gate_kernels.py",
        threats=("C15",),
        kept=(
            "the attacks decrypt themselves: without it they would read noise"
            " (tests/gpu/test_sealing_cuda.py)"
        ),
    ),
    Defence(
        name="outputs behind gates are digested",
        module="tensors/gate_channel.py",
        threats=("C11", "C15"),
        kept="every gated call would be disputed (tests/gpu/test_sealing_cuda.py)",
    ),
)

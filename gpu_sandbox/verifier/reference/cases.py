"""Input sets of a task with their expected outputs, and the seeds that they are drawn under."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.memory_layout import among, extent_of, overlapping, sharing
from gpu_sandbox.verifier.inputs.transforms import Part, Transform
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.mutated_inputs import MutatedInput, expect_mutated
from gpu_sandbox.verifier.numerics.tolerances import Margin

TRAINED = "parameters as a trained module holds them"

_PARTS: dict[Part, str] = {
    "all": "",
    "half": ", half of it",
    "run": ", half of it",
    "sparse": ", one element in 64 of it",
    "few": ", a few elements of it",
}


class Seeds:
    """Independent streams of one job, under a secret: no worker can guess a seed from another, as
    from that of the weights, which its generator holds."""

    def __init__(self, seed: int) -> None:
        self._key = os.urandom(32) + seed.to_bytes(16, signed=True)

    def derived(self, purpose: str, index: int = 0) -> int:
        digest = hashlib.sha256(self._key + f"/{purpose}/{index}".encode()).digest()
        return int.from_bytes(digest[:7])


class Case:
    """One input set. ``arguments`` are the verifier's own, never shared. Lists are of outputs."""

    def __init__(
        self, arguments: Any, tree: Tree, tensors: list[torch.Tensor], forward_seed: int
    ) -> None:
        self.arguments = arguments
        self.tree = tree
        self.tensors = tensors
        self.forward_seed = forward_seed
        self.output_tree: Tree | None = None
        self.expected: list[Expected] = []
        self.aliasing: list[bool] = []
        self.overlapping: list[bool] = []
        self.contiguous: list[bool] = []
        self.state: list[bool] = []  # part of the model's state, which its next call may change
        self.sharing: list[bool] = []  # shares memory with another output
        self.usual_sizes: list[float] = []  # of plain values (`output_scale.py`)
        self.mutated: list[MutatedInput] = []  # inputs after the call, if it changes them
        self.transform: Transform | None = None
        self.trained = False  # parameters are as training leaves them (`tensors/trained_state.py`)

    def describe_outputs(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        held: Sequence[torch.Tensor],
    ) -> None:
        """Find out whose memory the reference's outputs have; ``held``: the model's tensors."""
        self.aliasing = among(outputs, inputs)
        self.state = among(outputs, held)
        self.overlapping = [overlapping(t) for t in outputs]
        self.sharing = sharing([extent_of(t) for t in outputs])
        self.contiguous = [t.is_contiguous() for t in outputs]

    def expect_mutated_inputs(self, given: Sequence[torch.Tensor]) -> list[MutatedInput]:
        """``given``: the inputs after the reference's call. Raises ``Broken``."""
        places = [t.data_ptr() for t in given if t.numel()]
        if len(set(places)) < len(places):
            raise Broken("get_inputs() gives one tensor twice, and the reference changes it")
        if len(given) != len(self.tensors):
            raise Broken("the reference changes how many tensors its inputs have")
        pairs = zip(given, self.tensors, strict=True)
        return [expect_mutated(after.detach().clone(), before) for after, before in pairs]

    @property
    def description(self) -> str:
        """How inputs or parameters are changed, if at all."""
        way = self.transform
        if way is None:
            return TRAINED if self.trained else ""
        return way.name + _PARTS[way.part] + (", some inputs only" if way.only is not None else "")

    @property
    def kind(self) -> str:
        """The description and the changed inputs: cases of a kind have similar outputs."""
        chosen = self.transform and self.transform.only
        return self.description + ("" if chosen is None else str(sorted(chosen)))

    @property
    def tolerance_factor(self) -> float:
        """How much more is allowed in full precision. Transformed inputs may be ill conditioned,
        and serial sums lose small numbers beside large ones."""
        if self.transform is None:
            return 2.0 if self.trained else 1.0
        return 4.0 if self.transform.part == "half" else 2.0

    @property
    def margins(self) -> list[Margin]:
        """Margins of outputs of calls that are not made in float64."""
        return [e.margin for e in self.expected]

    def is_like(self, other: Case) -> bool:
        """Whether its inputs have the same shapes and dtypes."""
        mine = [(t.shape, t.dtype) for t in self.tensors]
        return mine == [(t.shape, t.dtype) for t in other.tensors]

    def drop_float64(self) -> None:
        """Free the float64 values, which are large, and keep their tolerances."""
        before, self.expected = self.expected, []
        for one in before:
            kept = Expected.within(one.native, one.margin)
            kept.is_unsound = one.is_unsound
            self.expected.append(kept)

    def drop_expected(self) -> None:
        """Keep the inputs alone."""
        self.expected, self.mutated = [], []

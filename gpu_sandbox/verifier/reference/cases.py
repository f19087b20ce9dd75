"""A task's input sets with what their outputs should be, and the seeds they are drawn under."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.verifier.inputs.altered import Altered, Part
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.mutated_inputs import Left
from gpu_sandbox.verifier.numerics.tolerances import Margin

__all__ = ["TRAINED", "Case", "Seeds"]

TRAINED = "parameters as a trained module holds them"

_TOLD: dict[Part, str] = {
    "all": "",
    "half": ", half of it",
    "run": ", half of it",
    "sparse": ", one element in 64 of it",
    "few": ", a few elements of it",
}


class Seeds:
    """Independent streams of one job, under a secret that no worker ever sees: knowing one
    seed (the weights' is in every worker's generator) says nothing of another. A seed that
    could be guessed would let a candidate draw its inputs before they are given."""

    def __init__(self, seed: int) -> None:
        self._key = os.urandom(32) + seed.to_bytes(16, signed=True)

    def derived(self, purpose: str, index: int = 0) -> int:
        digest = hashlib.sha256(self._key + f"/{purpose}/{index}".encode()).digest()
        return int.from_bytes(digest[:7])


class Case:
    """One input set and its truth. ``arguments`` are the verifier's own, never shared."""

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
        self.state: list[bool] = []
        """Which outputs are what the reference's model holds, and may change at its next call."""
        self.sharing: list[bool] = []
        """Which outputs have memory in common with others."""
        self.usual: list[float] = []
        """Of each plain value, how large it mostly is (``values.numbers``)."""
        self.left: list[Left] = []
        """What its inputs are afterwards, where the reference changes them."""
        self.altered: Altered | None = None
        self.trained = False
        """Whether the models' parameters are as training leaves them
        (``tensors/trained_state.py``)."""

    @property
    def changed(self) -> str:
        """How, if at all."""
        way = self.altered
        if way is None:
            return TRAINED if self.trained else ""
        return way.told + _TOLD[way.part] + (", some inputs only" if way.only is not None else "")

    @property
    def kind(self) -> str:
        """That and of which inputs, for what is known of such cases."""
        chosen = self.altered and self.altered.only
        return self.changed + ("" if chosen is None else str(sorted(chosen)))

    @property
    def ease(self) -> float:
        """By how much more may be allowed in full precision. What is changed may be where the
        computation is touchy, and who adds up small numbers to large ones is as far off."""
        if self.altered is None:
            return 2.0 if self.trained else 1.0
        return 4.0 if self.altered.part == "half" else 2.0

    @property
    def margins(self) -> list[Margin]:
        """Of each output, for calls that are not made in float64."""
        return [e.margin for e in self.expected]

    def is_like(self, other: Case) -> bool:
        """Whether its inputs have the same shapes and dtypes."""
        mine = [(t.shape, t.dtype) for t in self.tensors]
        return mine == [(t.shape, t.dtype) for t in other.tensors]

    def forget_exact(self) -> None:
        """Keep the tolerances, not the float64 values: they are large."""
        before, self.expected = self.expected, []
        for one in before:
            kept = Expected.within(one.native, one.margin)
            kept.unsound = one.unsound
            self.expected.append(kept)

    def forget_expected(self) -> None:
        """All of it, and keep the inputs."""
        self.expected, self.left = [], []

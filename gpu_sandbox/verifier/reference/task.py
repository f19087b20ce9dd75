"""The trusted task: draws inputs, and runs the reference to know what outputs should be."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.runtime.module_loader import construct, seed_torch
from gpu_sandbox.runtime.precision import grants_tf32
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.runtime.task_file import Constructor, TaskFile
from gpu_sandbox.tensors.chunked import finite
from gpu_sandbox.tensors.memory_layout import among
from gpu_sandbox.tensors.pytree import mapped, odd, pack
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.inputs.apply import InputTransform
from gpu_sandbox.verifier.inputs.invariants import Invariants, InvariantsMemo
from gpu_sandbox.verifier.inputs.transforms import Transform
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.rules.integers import FlipBudget
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.determinism import Repeatability
from gpu_sandbox.verifier.reference.float64_run import Float64Run
from gpu_sandbox.verifier.reference.module_state import alike, buffers, changed, state
from gpu_sandbox.verifier.reference.output_scale import UsualNumbers, UsualRms
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity

_FLOAT64_SLOWEST_S = 1.0
_LOADING_S, _NOT_LOADING_S = 0.05, 10.0


class Task:
    """A task file, loaded. Every method raises ``Broken`` for the task's own mistakes."""

    def __init__(
        self, path: str, device: torch.device, seeds: Seeds, precision: Precision = "float32"
    ) -> None:
        self.precision: Precision = precision
        self.grants_tf32 = grants_tf32(device, precision)  # see `convolution_recheck.py`
        self._file = TaskFile(path)
        self._device = device
        self._backend = backend_of(device)
        self._seeds = seeds
        self.mutates = self.returns_state = False
        self._probed = False
        self.peak_bytes = 0  # device memory that its first forward needed besides its inputs
        self.has_second_place = True  # see `verifier/worker_link/input_placement.py`
        self.updates: list[str] = []  # buffers that its first forward changed
        self.forward_s = 0.0
        self.passed_transforms: list[Transform] = []  # may come among timed calls
        self.hidden_cases = 0  # timed calls that had transformed inputs
        self.leave_out: Sequence[str] = ()  # inputs that a verifier did not survive
        self.usual_rms, self.usual_numbers = UsualRms(), UsualNumbers()
        self.invariants = InvariantsMemo()
        self.owned: list[bool] = []  # outputs that the caller may overwrite (`find_owned`)
        self.repeatability: list[Repeatability] = []
        self.sensitivity: list[UlpSensitivity] = []  # of each output; empty until measured
        self.flip_budget = FlipBudget()
        self.weight_seed = seeds.derived("weights")
        self.init = self._file.init_inputs(self.weight_seed)
        self._constructor: Constructor = construct
        self.model = self.new_model()
        self.float64 = Float64Run(self.model, device, precision)

    def new_model(self) -> Any:
        """Construct a model that has not been called."""
        return self._file.constructed(self.init, self.weight_seed, self._device, self._constructor)

    def derived(self, purpose: str, index: int = 0) -> int:
        """Derive a seed that no worker can guess from another."""
        return self._seeds.derived(purpose, index)

    def with_constructor(self, constructor: Constructor) -> Task:
        """Copy the task with a model that ``constructor`` makes."""
        other = copy.copy(self)
        other._constructor = constructor
        return other.with_model(other.new_model())

    def with_model(self, model: Any) -> Task:
        """Copy the task with this model. What its outputs may differ by stays; their usual sizes
        are measured anew."""
        other = copy.copy(self)
        other.model, other.float64 = model, Float64Run(model, self._device, self.precision)
        other.usual_rms, other.usual_numbers = UsualRms(), UsualNumbers()
        return other

    def draw(self, purpose: str, index: int = 0, transform: Transform | None = None) -> Case:
        """Draw inputs; a ``transform`` of floating point tensors keeps their invariants."""
        seed = self._seeds.derived(purpose, index)
        arguments = self._file.inputs(seed, self._device)
        tensors: list[torch.Tensor] = []
        tree = self._file.packed("get_inputs() gives", arguments, tensors)
        for number, tensor in enumerate(tensors):
            if unlike := odd(tensor):
                raise Broken(f"input {number} is {unlike}: inputs must be dense")
        if transform is not None:
            invariants = self.invariants_of(tensors) if transform.keeps_invariants else ()
            by = InputTransform(
                transform.change, invariants, part=transform.part, only=transform.only
            )
            doing = f"changing inputs ({transform.name})"
            arguments = self._file.guarded(doing, mapped, arguments, by)
            tensors = []
            tree = pack(arguments, tensors, pickling=True)
        case = Case(arguments, tree, tensors, self._seeds.derived(purpose + "/rng", index))
        case.transform = transform
        return case

    def invariants_of(self, tensors: list[torch.Tensor]) -> list[Invariants]:
        return self.invariants.of(tensors, lambda number: self.draw("form", number).tensors)

    def solve(self, case: Case, *, exact: bool) -> None:
        """Run the reference: expected structure, values and tolerances of ``case``. ``exact``: in
        float64, too."""
        began = time.perf_counter()
        output, given = self._forward(case)
        took_s = time.perf_counter() - began
        if not self.forward_s or (case.transform is None and took_s < self.forward_s):
            self.forward_s = took_s  # the first one loads libraries; a candidate may slow the rest
        native: list[torch.Tensor] = []
        case.output_tree = self.tree(output, native)
        case.describe_outputs(native, given, state(self.model))
        case.mutated = case.expect_mutated_inputs(given) if self.mutates else []
        self.returns_state = self.returns_state or any(case.state)
        native = [
            t.detach().clone() if aliasing or kept else t.detach()
            for t, aliasing, kept in zip(native, case.aliasing, case.state, strict=True)
        ]
        truth, rough = self.float64_outputs(case, native) if exact else (None, None)
        another, kind = partial(self.another, transform=case.transform), case.kind
        usual_rms = self.usual_rms.of(kind, native, lambda n: another(n)[1]) if exact else ()
        if exact or not case.description:
            tree = case.output_tree
            case.usual_sizes = self.usual_numbers.of(kind, tree, lambda n: another(n)[0])
        case.expected = self.expect(case, native, truth, rough, usual_rms, use_own_run=exact)
        self.allow(case.expected)

    def expect(
        self,
        case: Case,
        native: list[torch.Tensor],
        truth: list[Any] | None,
        rough: list[Any] | None,
        usual_rms: Sequence[torch.Tensor | None] = (),
        *,
        use_own_run: bool = False,
    ) -> list[Expected]:
        """Expect ``native``, which the reference made of the case's inputs."""
        return expect(
            native,
            truth,
            rough,
            self.precision,
            usual_rms,
            factor=case.tolerance_factor,
            use_own_run=use_own_run,
            half_precision=self.float64.half_precision,
        )

    def time_again(self, case: Case) -> None:
        """Time a forward, if the first took long: it loads libraries. Slow references are spared
        what takes many forwards."""
        if _LOADING_S <= self.forward_s <= _NOT_LOADING_S:
            began = time.perf_counter()
            self.forward(case)
            self.forward_s = min(self.forward_s, time.perf_counter() - began)

    def float64_outputs(
        self, case: Case, native: Sequence[torch.Tensor] = ()
    ) -> tuple[list[Any] | None, list[Any] | None]:
        """As ``Float64Run.outputs``; none of a slow reference."""
        if self.forward_s >= _FLOAT64_SLOWEST_S:
            self.float64.failed = False
            return None, None
        return self.float64.outputs(case, self.results, native)

    def accepts(self, case: Case, *, exact: bool = False) -> bool:
        """Solve ``case``; False if the reference raises, is not finite, or, if ``exact``, finds a
        matrix singular in float64."""
        try:
            self.solve(case, exact=exact)
        except Broken as broken:
            if broken.memory:
                raise torch.OutOfMemoryError(broken.reason) from None
            return False
        if exact and self.float64.failed:
            return False
        natives = [*(e.native for e in case.expected), *(m.native for m in case.mutated)]
        return all(map(finite, natives))

    def forward(self, case: Case) -> Any:
        """Run one eager forward. ``case`` keeps its inputs as drawn, even if this changes them."""
        return self._forward(case)[0]

    def _forward(self, case: Case) -> tuple[Any, list[torch.Tensor]]:
        """Also return the tensors that it was given: a copy of the case's if it changes them."""
        arguments, given = case.arguments, case.tensors
        if self.mutates:
            arguments, given = _copied(case.arguments), []
        elif not self._probed:
            return self._probe(case)
        output = self._guarded_call(case, arguments)
        if self.mutates:
            pack(arguments, given, pickling=True)
        return output, given

    def _guarded_call(self, case: Case, arguments: Any) -> Any:
        seed = case.forward_seed
        return self._file.guarded("the reference", self._call, self.model, arguments, seed)

    def _probe(self, case: Case) -> tuple[Any, list[torch.Tensor]]:
        """Run the first forward, and see what it changes besides its output. Not every operation
        that writes to a tensor counts its version up: batch normalisation does not."""
        kept, given, tensors = _copied(case.arguments), case.tensors, list[torch.Tensor]()
        versions = [t._version for t in given]
        before, used = buffers(self.model), self._backend.allocated_bytes()
        output = self._guarded_call(case, case.arguments)
        self._probed, self.peak_bytes = True, self._backend.peak_bytes() - used
        tree = pack(kept, tensors, pickling=True)
        written = versions != [t._version for t in given]
        if written or not all(map(alike, tensors, given)):
            self.mutates = True
            case.arguments, case.tensors, case.tree = kept, tensors, tree
        self.updates = changed(before, self.model)
        return output, given

    def tree(self, output: Any, tensors: list[torch.Tensor]) -> Tree:
        """Describe what the reference returned; its tensors are appended to ``tensors``."""
        tree = self._file.packed("the reference returns", output, tensors, pickling=False)
        for number, tensor in enumerate(tensors):
            if unlike := odd(tensor):
                raise Broken(f"the reference's output {number} is {unlike}")
            if tensor.is_floating_point() and tensor.dtype not in TOLERANCES:
                dtype = str(tensor.dtype).removeprefix("torch.")
                raise Broken(f"the reference's output {number} is {dtype}: nothing compares that")
        return tree

    def another(
        self, number: int = 0, transform: Transform | None = None
    ) -> tuple[Tree, list[torch.Tensor]]:
        """Run one more draw, by number: its outputs."""
        found: list[torch.Tensor] = []
        tree = self.tree(self.forward(self.draw("typical", number, transform)), found)
        return tree, [t.detach() for t in found]

    def rerun(self, case: Case, *, new: bool = False) -> list[torch.Tensor]:
        """Run once more on the same inputs, with a ``new`` model or this one."""
        model = self.new_model() if new else self.model

        def run() -> list[torch.Tensor]:
            found: list[torch.Tensor] = []
            output = self._call(model, _copied(case.arguments), case.forward_seed)
            pack(output, found, pickling=False)
            return found

        outputs: list[torch.Tensor] = self._file.guarded("running the reference again", run)
        return outputs

    def find_owned(self, first: Case) -> None:
        """Find outputs that are the caller's: no input's memory, nor the model's, nor any that is
        returned again and again, or is the same whatever is drawn."""
        kept = [one.kept for one in self.repeatability] or [False] * len(first.expected)
        shared = zip(first.aliasing, first.state, first.overlapping, kept, strict=False)
        self.owned = [not any(each) for each in shared]

    def allow(self, outputs: Sequence[Expected]) -> None:
        """Allow for what the reference differs from itself by."""
        for sensitivity, expected in zip(self.sensitivity, outputs, strict=False):
            sensitivity.allow(expected, self.flip_budget)
        for repeatability, expected in zip(self.repeatability, outputs, strict=False):
            repeatability.allow(expected)

    def _call(self, model: Any, arguments: Any, forward_seed: int) -> Any:
        seed_torch(forward_seed, self._device)
        with torch.no_grad():
            output = model(*arguments)
        self._backend.synchronize()
        return output

    def plain(self, arguments: Any, case: Case) -> Tree:
        """Run the model on ``arguments``: its output besides tensors."""
        return self.tree(self._call(self.model, arguments, case.forward_seed), [])

    def results(self, model: Any, arguments: Any, case: Case) -> list[Any]:
        """Run ``model`` on ``arguments``: its output tensors."""
        found: list[torch.Tensor] = []
        pack(self._call(model, arguments, case.forward_seed), found, pickling=False)
        kept = among(found, state(model))
        return [t.clone() if one else t for t, one in zip(found, kept, strict=True)]


def _copied(value: Any) -> Any:
    return mapped(value, torch.Tensor.clone)

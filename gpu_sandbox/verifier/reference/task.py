"""The trusted task: draws its inputs, and finds out what the outputs should be."""

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
from gpu_sandbox.tensors.memory_layout import among, extent_of, overlapping, sharing
from gpu_sandbox.tensors.pytree import mapped, odd, pack
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.inputs.altered import Altered
from gpu_sandbox.verifier.inputs.apply import Changed
from gpu_sandbox.verifier.inputs.invariants import Form, Forms
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.mutated_inputs import expect_left
from gpu_sandbox.verifier.numerics.rules.integers import Seldom
from gpu_sandbox.verifier.numerics.tolerances import RULES
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.determinism import Repeats
from gpu_sandbox.verifier.reference.float64_run import Exact
from gpu_sandbox.verifier.reference.module_state import alike, buffers, changed, state
from gpu_sandbox.verifier.reference.output_scale import Typical, Usual
from gpu_sandbox.verifier.reference.ulp_perturbation import Nudged

__all__ = ["Task"]

_EXACT_SLOWEST_S = 1.0
_LOADING_S, _NOT_LOADING_S = 0.05, 10.0


class Task:
    """A task file, loaded. Every method raises ``Broken`` for the task's own mistakes."""

    def __init__(
        self,
        path: str,
        device: torch.device,
        seeds: Seeds,
        precision: Precision = "float32",
    ) -> None:
        self.precision: Precision = precision
        self.grants_tf32 = grants_tf32(device, precision)
        """Whether convolutions may be off by it (``verifier/trials/convolution_recheck.py``)."""
        self._file = TaskFile(path)
        self._device = device
        self._backend = backend_of(device)
        self._seeds = seeds
        self.mutates = self.returns_state = False
        self._probed = False
        self.peak_bytes = 0
        """Of device memory, that its first forward needed besides its inputs."""
        self.has_second_place = True
        """Whether each worker has room for two sets of inputs
        (``verifier/worker_link/input_placement.py``)."""
        self.updates: list[str] = []
        """Buffers that its first forward has changed."""
        self.forward_s = 0.0
        self.altered: list[Altered] = []
        """What the candidate got right in the trials, and may meet again while it is timed."""
        self.surprised = 0
        """Timed calls that had changed inputs."""
        self.leave_out: Sequence[str] = ()
        """Inputs that a verifier did not survive (``verifier/trials/dry_run.py``)."""
        self.typical, self.usual = Typical(), Usual()
        self.forms = Forms()
        self.owned: list[bool] = []
        """Outputs that its caller may write to when it is done with them (``own``)."""
        self.repeats: list[Repeats] = []
        self.nudged: list[Nudged] = []
        """Of each output: what is allowed for in all that are compared. Empty until set."""
        self.seldom = Seldom()
        self.weight_seed = seeds.derived("weights")
        self.init = self._file.init_inputs(self.weight_seed)
        self._constructor: Constructor = construct
        self.model = self._constructed()
        self.exact = Exact(self.model, device, precision)

    def _constructed(self) -> Any:
        return self._file.constructed(self.init, self.weight_seed, self._device, self._constructor)

    def derived(self, purpose: str, index: int = 0) -> int:
        """A seed that no worker can guess from another."""
        return self._seeds.derived(purpose, index)

    def anew(self) -> Any:
        """Another model of the same, which was not called yet."""
        return self._constructed()

    def constructing(self, constructor: Constructor) -> Task:
        """The same task, whose model is one that ``constructor`` made."""
        other = copy.copy(self)
        other._constructor = constructor
        return other.holding(other._constructed())

    def holding(self, model: Any) -> Task:
        """The same task, whose model is this one. How far outputs may be from the reference's
        stays; how large they are is found out anew."""
        other = copy.copy(self)
        other.model, other.exact = model, Exact(model, self._device, self.precision)
        other.typical, other.usual = Typical(), Usual()
        return other

    def draw(self, purpose: str, index: int = 0, altered: Altered | None = None) -> Case:
        """A fresh input set; ``altered`` is applied to its floating point tensors, which keep their
        form."""
        seed = self._seeds.derived(purpose, index)
        arguments = self._file.inputs(seed, self._device)
        tensors: list[torch.Tensor] = []
        tree = self._file.packed("get_inputs() gives", arguments, tensors)
        for number, tensor in enumerate(tensors):
            if unlike := odd(tensor):
                raise Broken(f"input {number} is {unlike}: inputs must be dense")
        if altered is not None:
            forms = self.forms_of(tensors) if altered.formed else ()
            changed = Changed(altered.change, forms, part=altered.part, only=altered.only)
            told = f"changing inputs ({altered.told})"
            arguments = self._file.guarded(told, mapped, arguments, changed)
            tensors = []
            tree = pack(arguments, tensors, pickling=True)
        case = Case(arguments, tree, tensors, self._seeds.derived(purpose + "/rng", index))
        case.altered = altered
        return case

    def forms_of(self, tensors: list[torch.Tensor]) -> list[Form]:
        return self.forms.of(tensors, lambda number: self.draw("form", number).tensors)

    def solve(self, case: Case, *, exact: bool) -> None:
        """Run the reference: expected structure, values and tolerances of ``case``."""
        began = time.perf_counter()
        output, given = self._forward(case)
        took_s = time.perf_counter() - began
        if not self.forward_s or (case.altered is None and took_s < self.forward_s):
            self.forward_s = took_s  # the first one loads libraries; a candidate may slow the rest
        native: list[torch.Tensor] = []
        case.output_tree = self.tree(output, native)
        case.aliasing = among(native, given)
        case.overlapping = [overlapping(t) for t in native]
        case.sharing = sharing([extent_of(t) for t in native])
        case.contiguous = [t.is_contiguous() for t in native]
        if self.mutates and len({t.data_ptr() for t in given if t.numel()}) < sum(
            t.numel() > 0 for t in given
        ):
            raise Broken("get_inputs() gives one tensor twice, and the reference changes it")
        case.left = []
        if self.mutates:
            if len(given) != len(case.tensors):
                raise Broken("the reference changes how many tensors its inputs have")
            ways = zip(given, case.tensors, strict=True)
            case.left = [expect_left(t.detach().clone(), before) for t, before in ways]
        case.state = among(native, state(self.model))
        self.returns_state = self.returns_state or any(case.state)
        native = [
            t.detach().clone() if aliasing or kept else t.detach()
            for t, aliasing, kept in zip(native, case.aliasing, case.state, strict=True)
        ]
        truth, rough = self.exactly(case, native) if exact else (None, None)
        another = partial(self.another, case.altered)
        typical = self.typical.of(case.kind, native, another) if exact else ()
        trees = partial(self._another, case.altered)
        if exact or not case.changed:
            case.usual = self.usual.of(case.kind, case.output_tree, trees)
        case.expected = self.expect(case, native, truth, rough, typical, alone=exact)
        self.allow(case.expected)

    def expect(
        self,
        case: Case,
        native: list[torch.Tensor],
        truth: list[Any] | None,
        rough: list[Any] | None,
        typical: Sequence[torch.Tensor | None] = (),
        *,
        alone: bool = False,
    ) -> list[Expected]:
        """Of ``native``, which the reference made of the case's inputs."""
        return expect(
            native,
            truth,
            rough,
            self.precision,
            typical,
            ease=case.ease,
            alone=alone,
            lowers=self.exact.lowers,
        )

    def time_again(self, case: Case) -> None:
        """A forward, if one took long: the first loads libraries, and may have had company. What
        takes many forwards is not done with references that are slow."""
        if _LOADING_S <= self.forward_s <= _NOT_LOADING_S:
            began = time.perf_counter()
            self.forward(case)
            self.forward_s = min(self.forward_s, time.perf_counter() - began)

    def exactly(
        self, case: Case, native: Sequence[torch.Tensor] = ()
    ) -> tuple[list[Any] | None, list[Any] | None]:
        """As ``Exact.outputs``; nothing of a reference that is slow."""
        if self.forward_s >= _EXACT_SLOWEST_S:
            self.exact.failed = False
            return None, None
        return self.exact.outputs(case, self.results, native)

    def takes(self, case: Case, *, exact: bool = False) -> bool:
        """Whether the reference says what changed inputs should give: it does not raise, a matrix
        has what it takes in float64 as well (if ``exact``), it stays finite. Solves ``case``."""
        try:
            self.solve(case, exact=exact)
        except Broken as broken:
            if broken.memory:
                raise torch.OutOfMemoryError(broken.reason) from None
            return False
        if exact and self.exact.failed:
            return False
        natives = [one.native for one in (*case.expected, *(left.expected for left in case.left))]
        return all(map(finite, natives))

    def forward(self, case: Case) -> Any:
        """One eager forward. ``case`` keeps its inputs as drawn, even if this changes them."""
        return self._forward(case)[0]

    def _forward(self, case: Case) -> tuple[Any, list[torch.Tensor]]:
        """With the tensors that it was given, which are a copy of the case's if it changes them."""
        seed = case.forward_seed
        if self.mutates:
            arguments = _copied(case.arguments)
            output = self._file.guarded("the reference", self._call, self.model, arguments, seed)
            given: list[torch.Tensor] = []
            pack(arguments, given, pickling=True)
            return output, given
        if not self._probed:
            return self._probe(case)
        output = self._file.guarded("the reference", self._call, self.model, case.arguments, seed)
        return output, case.tensors

    def _probe(self, case: Case) -> tuple[Any, list[torch.Tensor]]:
        """The first forward: what it changes besides its output. Not every operation that writes
        to a tensor counts its version up: batch normalisation does not."""
        kept, given, tensors = _copied(case.arguments), case.tensors, list[torch.Tensor]()
        versions = [t._version for t in given]
        before = buffers(self.model)
        seed, used = case.forward_seed, self._backend.allocated_bytes()
        output = self._file.guarded("the reference", self._call, self.model, case.arguments, seed)
        self._probed, self.peak_bytes = True, self._backend.peak_bytes() - used
        tree = pack(kept, tensors, pickling=True)
        written = versions != [t._version for t in given]
        if written or not all(map(alike, tensors, given)):
            self.mutates = True
            case.arguments, case.tensors, case.tree = kept, tensors, tree
        self.updates = changed(before, self.model)
        return output, given

    def tree(self, output: Any, tensors: list[torch.Tensor]) -> Tree:
        """Of what the reference returned."""
        tree = self._file.packed("the reference returns", output, tensors, pickling=False)
        for number, tensor in enumerate(tensors):
            if unlike := odd(tensor):
                raise Broken(f"the reference's output {number} is {unlike}")
            if tensor.is_floating_point() and tensor.dtype not in RULES:
                dtype = str(tensor.dtype).removeprefix("torch.")
                raise Broken(f"the reference's output {number} is {dtype}: nothing compares that")
        return tree

    def _another(
        self, altered: Altered | None, number: int, found: list[torch.Tensor] | None = None
    ) -> Tree:
        """Of one more draw; its outputs are appended to ``found``."""
        found = [] if found is None else found
        return self.tree(self.forward(self.draw("typical", number, altered)), found)

    def another(self, altered: Altered | None = None, number: int = 0) -> list[torch.Tensor]:
        """Outputs of one more draw, by number."""
        found: list[torch.Tensor] = []
        self._another(altered, number, found)
        return [t.detach() for t in found]

    def again(self, case: Case, *, anew: bool = False) -> list[torch.Tensor]:
        """Outputs of one more run on the same inputs, of a model that is made ``anew``, and has
        seen nothing yet, or of this one."""
        model = self._constructed() if anew else self.model
        found: list[torch.Tensor] = self._file.guarded(
            "running the reference again", self._run_again, case, model
        )
        return found

    def _run_again(self, case: Case, model: Any) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        pack(self._call(model, _copied(case.arguments), case.forward_seed), found, pickling=False)
        return found

    def own(self, first: Case) -> None:
        """See which outputs are the caller's: no input's memory, nor the model's, nor any that is
        returned again and again, or is the same whatever is drawn."""
        kept = [one.kept for one in self.repeats] or [False] * len(first.expected)
        ways = zip(first.aliasing, first.state, first.overlapping, kept, strict=False)
        self.owned = [not any(each) for each in ways]

    def allow(self, outputs: Sequence[Expected]) -> None:
        """What the reference differs from itself by, between its outputs and others."""
        for nudged, expected in zip(self.nudged, outputs, strict=False):
            nudged.allow(expected, self.seldom)
        for repeats, expected in zip(self.repeats, outputs, strict=False):
            repeats.allow(expected)

    def _call(self, model: Any, arguments: Any, forward_seed: int) -> Any:
        seed_torch(forward_seed, self._device)
        with torch.no_grad():
            output = model(*arguments)
        self._backend.synchronize()
        return output

    def plain(self, arguments: Any, case: Case) -> Tree:
        """What its output is besides its tensors."""
        return self.tree(self._call(self.model, arguments, case.forward_seed), [])

    def results(self, model: Any, arguments: Any, case: Case) -> list[Any]:
        found: list[torch.Tensor] = []
        pack(self._call(model, arguments, case.forward_seed), found, pickling=False)
        kept = among(found, state(model))
        return [t.clone() if one else t for t, one in zip(found, kept, strict=True)]


def _copied(value: Any) -> Any:
    return mapped(value, torch.Tensor.clone)

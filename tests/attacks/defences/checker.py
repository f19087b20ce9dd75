"""Defences of what a worker says of its outputs, and of what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, constant

__all__ = ["DEFENCES"]

_VERIFIER = "gpu_sandbox.verifier"
_UNSEEN = ("inputs are compared after a call", "inputs are spoiled while outputs are read")


def _as_it_is(_: Any) -> Any:
    return lambda outcome: outcome


def _in_full(_: Any) -> Any:
    return lambda error: f"{type(error).__name__}: {error}"[:1_000_000]


def _unshared(_: Any) -> Any:
    return lambda extents: [False] * len(extents)


def _unspoiled(_: Any) -> Any:
    @contextmanager
    def spoiled(self: Any, spots: Any) -> Iterator[None]:
        yield

    return spoiled


def _any_alias(problem: Any) -> Any:
    def other_problem(case: Any, number: int, leaf: Any, **options: Any) -> Any:
        leaf = msgspec.structs.replace(leaf, aliases_input=False)
        return problem(case, number, leaf, **options)

    return other_problem


DEFENCES = (
    Defence(
        name="outputs are overwritten",
        module="tensors/overwriting.py",
        threats=("K9",),
        patches=(Patch("gpu_sandbox.worker.called_model:write_over", constant(None)),),
        bites=(Bite("writes_constants_once"), Bite("writes_constants_as_outputs_end")),
    ),
    Defence(
        name="an output is no input",
        module="verifier/trials/checks.py",
        threats=("K10",),
        patches=(Patch(f"{_VERIFIER}.trials.checks:_leaf_problem", _any_alias),),
        bites=(
            Bite("output_is_the_input", also_off=_UNSEEN),
            Bite("output_is_an_input_when_timed", also_off=_UNSEEN),
        ),
    ),
    Defence(
        name="inputs are compared after a call",
        module="verifier/worker_link/input_placement.py",
        threats=("K10",),
        patches=(
            Patch(f"{_VERIFIER}.worker_link.input_placement:SharedSlots.intact", constant(True)),
        ),
        bites=(
            Bite("puts_its_inputs_back", also_off=("inputs are spoiled while outputs are read",)),
            Bite("mutates_inputs_when_timed"),
        ),
    ),
    Defence(
        name="inputs are spoiled while outputs are read",
        module="tensors/shared_arena.py",
        threats=("K10",),
        patches=(Patch("gpu_sandbox.tensors.shared_arena:Arena.spoiled", _unspoiled),),
        bites=(
            Bite("is_read_as_booleans"),
            Bite("input_elsewhere_beside_a_view", also_off=("outputs are overwritten",)),
        ),
    ),
    Defence(
        name="a worker says which outputs share memory",
        module="tensors/memory_layout.py",
        threats=("K10",),
        patches=(Patch("gpu_sandbox.worker.outputs:sharing", _unshared),),
        bites=(
            Bite("one_output_twice", also_off=("where outputs lie is checked",)),
            Bite("windows_of_one_row", also_off=("where outputs lie is checked",)),
        ),
    ),
    Defence(
        name="a worker says which elements share memory",
        module="tensors/memory_layout.py",
        threats=("K10",),
        patches=(Patch("gpu_sandbox.worker.outputs:overlapping", constant(False)),),
        bites=(Bite("stride_zero", also_off=("where outputs lie is checked",)),),
    ),
    Defence(
        name="where outputs lie is checked",
        module="verifier/timing/cpu_call.py",
        threats=("K10",),
        patches=(
            Patch(f"{_VERIFIER}.timing.cpu_call:SingleCalls._check_places", constant(None)),
            Patch(f"{_VERIFIER}.timing.cpu_call:overlapping", constant(False)),
        ),
        bites=(
            Bite("one_output_twice", also_off=("a worker says which outputs share memory",)),
            Bite("stride_zero", also_off=("a worker says which elements share memory",)),
        ),
    ),
    Defence(
        name="other calls in between",
        module="verifier/trials/trial_calls.py",
        threats=("K10",),
        patches=(Patch(f"{_VERIFIER}.trials.trial_calls:TrialCalls._calls_between", constant(0)),),
        bites=(
            Bite("output_is_a_reused_buffer"),
            Bite("outputs_are_two_buffers_in_turn"),
            Bite("output_is_a_weight"),
        ),
    ),
    Defence(
        name="structure of the output",
        module="tensors/pytree.py",
        threats=("K12",),
        patches=(Patch(f"{_VERIFIER}.trials.checks:same_shape", constant(None)),),
        bites=(Bite("wrong_nesting"),),
    ),
    Defence(
        name="plain values are compared",
        module="tensors/pytree.py",
        threats=("K12",),
        patches=(Patch(f"{_VERIFIER}.trials.checks:same_values", constant(None)),),
        bites=(
            Bite("tells_one_number_of_four"),
            Bite("tells_infinity"),
            Bite("guesses_a_plain_count"),
        ),
    ),
    Defence(
        name="reasons are one clean line",
        module="evaluate/outcomes.py",
        threats=("K16",),
        patches=(Patch("gpu_sandbox.sandbox:cleaned", _as_it_is, in_engine=True),),
        bites=(
            Bite(
                "raises_terminal_escapes",
                "the reason is not one clean line",
                ("an exception is one line",),
            ),
        ),
    ),
    Defence(
        name="an exception is one line",
        module="runtime/candidate_traceback.py",
        threats=("K16",),
        patches=(Patch("gpu_sandbox.runtime.candidate_traceback:one_line", _in_full),),
        bites=(
            Bite(
                "exception_of_megabytes",
                "characters long",
                ("reasons are one clean line",),
            ),
        ),
    ),
)

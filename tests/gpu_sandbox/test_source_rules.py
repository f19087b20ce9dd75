"""What reading a candidate's source says of it; above all, of whom it says nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_sandbox.static_checks.source_labels import SOURCE_LABELS, source_labels
from gpu_sandbox.static_checks.visit_budget import Visits
from tests.attacks.files import attack_source, honest_source, task_source, twin_source
from tests.attacks.honest_table import HONEST
from tests.gpu_sandbox.sources import ADD_RELU, CPP, candidate, inline
from tests.thorough import examples

REPOSITORY = Path(__file__).parents[2]
KERNELS = [
    *sorted((REPOSITORY / "benchmarks/kernels").glob("*.py")),
    *sorted((REPOSITORY / "examples/playbooks").glob("*/*.py")),
]
OWN_KERNEL = frozenset({
    "turns_heads",
    "built_in_forward", "c_through_ctypes", "cpp_openmp_avx", "cpp_parallel_for",
    "cuda_default_stream", "cuda_half2", "cuda_inline", "cuda_large_shared_memory", "cuda_nvrtc",
    "cuda_split_tensor_cores", "cuda_triton",
})  # fmt: skip
UNREADABLE = frozenset({
    "cuda_keeps_what_it_reads_again", "empty_array_of_numpy", "numpy_inside", "optional_import",
    "runs_programs", "sorts_stably", "starts_a_process",
})  # fmt: skip
"""They use what is neither torch's nor the task's: nothing is said of it."""

BUILD = """
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

def build():
    return load_inline(name="k", cpp_sources="", functions=["run"])

EXT = build()

class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return EXT.run(a, b)

def plain(a, b):
    return torch.relu(a + b)
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def kernel(a, b, out, n, BLOCK: tl.constexpr):
    tl.store(out, tl.load(a) + tl.load(b))

def launch(a, b):
    out = torch.empty_like(a)
    kernel[(1,)](a, b, out, a.numel(), BLOCK=64)
    return out
"""
REFERENCE = ADD_RELU.split("def get_inputs")[0]


def labels(forward: str, before: str = BUILD, **options: str) -> set[str]:
    return set(source_labels(candidate(forward, before=before, **options), ADD_RELU))


@pytest.mark.parametrize("name", HONEST)
def test_honest_candidates_are_no_more_than_torch_only(name: str) -> None:
    found = source_labels(honest_source(name), task_source(HONEST[name].task))
    quiet = name in OWN_KERNEL | UNREADABLE
    assert set(found) == (set() if quiet else {"torch-only"}), found


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_kernels_that_are_the_only_way_have_no_label(path: Path) -> None:
    task = REPOSITORY / "examples" / f"{path.parent.name.rpartition('_')[0]}.py"
    theirs = task.read_text() if task.is_file() else ADD_RELU
    if "class ModelNew" in path.read_text():
        assert source_labels(path.read_text(), theirs) == {}


@pytest.mark.parametrize(
    "forward",
    [
        "try:\n    return EXT.run(a, b)\nexcept Exception:\n    return torch.relu(a + b)",
        "try:\n    return EXT.run(a, b)\nexcept RuntimeError:\n    pass\nreturn F.relu(a + b)",
        "try:\n    return Fused.apply(a, b)\nexcept Exception:\n    return plain(a, b)",
        "if a.is_cuda:\n    return EXT.run(a, b)\nreturn torch.relu(a + b)",
        "if not a.is_cuda:\n    return (a + b).relu()\nout = EXT.run(a, b)\nreturn out",
        "return EXT.run(a, b) if a.is_contiguous() else torch.relu(a + b)",
        "if EXT is None:\n    y = plain(a, b)\nelse:\n    y = Fused.apply(a, b)\nreturn y",
        "with torch.no_grad():\n    if a.is_cuda:\n        return EXT.run(a, b)\n"
        "return torch.relu(a + b)",
        "run = getattr(EXT, 'run')\nif a.dim() == 2:\n    return run(a, b)\nreturn F.relu(a + b)",
    ],
)
def test_a_second_way_beside_the_kernel_is_a_fallback(forward: str) -> None:
    assert labels(forward) == {"fallback"}


def test_a_fallback_to_a_module_of_torchs() -> None:
    forward = "if a.is_cuda:\n    return launch(a, b)\nreturn self.act(a + b)"
    assert labels(forward, TRITON, init="self.act = nn.ReLU()") == {"fallback"}


def test_a_fallback_that_is_chosen_on_import() -> None:
    before = (
        "from torch.utils.cpp_extension import load_inline\n"
        "try:\n    run = load_inline(name='k', cpp_sources='').run\n"
        "except Exception:\n    run = torch.add\n"
    )
    assert labels("return run(a, b)", before) == {"fallback"}


@pytest.mark.parametrize(
    "forward",
    [
        "return EXT.run(a, b)",
        "# try: EXT.run, except: torch.relu(a)\n'if not EXT: return torch.relu(a)'\n"
        "return EXT.run(a, b)",
        "if a.numel() == 0:\n    return torch.empty_like(a)\nreturn EXT.run(a, b)",
        "if not a.is_cuda:\n    raise RuntimeError('on the GPU, please')\nreturn EXT.run(a, b)",
        "if a.dtype != torch.float32:\n    a = a.float()\nreturn EXT.run(a, b)",
        "if a.shape[0] % 4:\n    a = F.pad(a, (0, 4))\n    return EXT.run(a, b)[:, :-4]\n"
        "return EXT.run(a, b)",
        "if a.dim() == 3:\n    return EXT.three(a, b)\nelse:\n    return EXT.two(a, b)",
        "y = EXT.run(a, b)\nreturn y if y.dim() == 2 else y.sum(0)",
        "y = torch.mm(a, b)\nEXT.finish(y)\nreturn y",
        "try:\n    return EXT.run(a, b)\nexcept OSError as e:\n    raise ValueError(b) from e",
        "if self.training:\n    a = torch.dropout(a, 0.1, True)\nreturn EXT.run(a, b)",
        "out = torch.empty_like(a)\ntry:\n    EXT.run(a, b)\nfinally:\n    out.zero_()\nreturn out",
    ],
)
def test_a_kernel_that_is_always_used_is_none(forward: str) -> None:
    assert labels(forward) == set()


@pytest.mark.parametrize(
    "before",
    [
        # Padding does not go on in what is defined below it.
        "def _pad(a):\n    if a.shape[0] % 4:\n        return F.pad(a, (0, 4))\n    a = a + 0\n"
        "def forward(a, b):\n    return EXT.run(_pad(a), b)\n",
        "class Part(nn.Module):\n    def pad(self, a):\n        if a.dim() == 1:\n"
        "            return F.pad(a, (0, 4))\n        a = a + 0\n"
        "    def forward(self, a, b):\n        return EXT.run(self.pad(a), b)\n",
    ],
)
def test_what_is_defined_below_a_function_does_not_follow_it(before: str) -> None:
    assert labels("return EXT.run(a, b)", f"{BUILD}\n{before}") == set()


@pytest.mark.parametrize(
    "forward",
    [
        "for kind, layer in self.layers:\n    if kind == 'ours':\n        a = EXT.run(a, b)\n"
        "    else:\n        a = torch.relu(a)\nreturn a",
        "for layer in self.layers:\n    with torch.no_grad():\n"
        "        a = EXT.run(a, b) if layer.ours else torch.relu(a)\nreturn a",
        "return [EXT.run(a, b) if i % 2 else torch.relu(a) for i in range(4)]",
    ],
)
def test_layers_of_different_kinds_have_a_way_each(forward: str) -> None:
    assert labels(forward) == set()


def test_a_loop_that_the_branch_does_not_ask_after_hides_no_fallback() -> None:
    forward = (
        "for layer in self.layers:\n    if a.is_cuda:\n        a = EXT.run(a, b)\n"
        "    else:\n        a = torch.relu(a)\nreturn a"
    )
    assert labels(forward) == {"fallback"}


@pytest.mark.parametrize(
    "before",
    [
        "_load = load_inline\next = _load(name='k', cpp_sources='')",
        "from functools import partial\next = partial(load_inline, name='k')(cpp_sources='')",
        "ext = {'inline': load_inline}['inline'](name='k', cpp_sources='')",
        "from torch.utils import cpp_extension\n_load = cpp_extension.load\next = _load('k', [])",
        "from torch.utils.cpp_extension import load as _l\next = [_l][0]('k', [])",
        "from torch.utils.cpp_extension import *\next = load('k', [])",
    ],
)
def test_a_builder_by_any_name_builds(before: str) -> None:
    imported = "from torch.utils.cpp_extension import load_inline\n"
    assert labels("return ext.run(a, b)", imported + before) == set()
    assert labels("return torch.relu(a + b)", imported) == {"torch-only"}


def test_a_build_that_waits_for_the_first_call_is_none() -> None:
    forward = "if self.ext is None:\n    self.ext = build()\nreturn self.ext.run(a, b)"
    assert labels(forward, init="self.ext = None") == set()
    assert labels("return launch(a, b)", TRITON) == set()


@pytest.mark.parametrize(
    ("before", "forward", "found"),
    [
        (f"{REFERENCE}\nNEW = Model", "return torch.relu(a + b)", {"torch-only"}),
        (f"{BUILD}{REFERENCE}", "return EXT.run(a, b)", set()),
        (f"{BUILD}{REFERENCE}", "return Model()(a, b)", {"inherits-reference"}),
        (
            f"{BUILD}{REFERENCE}",
            "try:\n    return EXT.run(a, b)\nexcept Exception:\n    return Model()(a, b)",
            {"inherits-reference", "fallback"},
        ),
        ("from model import Model", "return Model()(a, b)", {"inherits-reference"}),
    ],
)
def test_the_reference_that_is_used(before: str, forward: str, found: set[str]) -> None:
    assert labels(forward, before) == found


@pytest.mark.parametrize("name", ["Model", "Original"])
def test_a_copy_of_the_reference_under_any_name_is_inherited_from(name: str) -> None:
    copy = REFERENCE.replace("class Model(", f"class {name}(").replace(
        "def forward(self, a, b):", 'def forward(self, a: "Tensor", b):\n        """Adds."""'
    )
    derived = (
        f"\n\nclass ModelNew({name}):\n    def forward(self, a, b):\n        return EXT.run(a, b)"
    )
    assert set(source_labels(f"{copy}{BUILD}{derived}", ADD_RELU)) == {"inherits-reference"}


def test_a_class_of_that_name_with_a_kernel_inside_is_its_own() -> None:
    changed = REFERENCE.replace("torch.relu(a + b)", "EXT.run(a, b)")
    source = f"import torch\n{BUILD}{changed}\nclass ModelNew(Model):\n    pass\n"
    assert source_labels(source, ADD_RELU) == {}


def test_parts_that_were_replaced_make_another_model() -> None:
    """The skeleton is the reference's, its parts are not."""
    task = (
        "import torch\nclass Part:\n    def forward(self, x):\n        return torch.relu(x)\n"
        + ("class Model:\n    def forward(self, x):\n        return Part()(x)\n")
    )
    derived = "\nclass ModelNew(Model):\n    pass\n"
    assert "inherits-reference" in source_labels(task + derived, task)
    replaced = task.replace("torch.relu(x)", "EXT.run(x)") + BUILD + derived
    assert source_labels(replaced, task) == {}


def test_what_only_a_program_does_is_not_the_candidates() -> None:
    main = (
        '\n\nif __name__ == "__main__":\n    try:\n        print(EXT.run(1, 2))\n'
        "    except Exception:\n        print(Model()(1, 2), torch.relu(1))\n"
    )
    assert source_labels(candidate("return EXT.run(a, b)", before=BUILD) + main, ADD_RELU) == {}


@pytest.mark.process
def test_attacks_that_are_what_the_labels_say() -> None:
    falls = source_labels(
        attack_source("checker", "falls_back_to_the_reference", {}), task_source("small")
    )
    assert falls == {
        "inherits-reference": "candidate.py:13: ModelNew derives from the task's Model",
        "torch-only": "no kernel of its own: it arranges torch's operations",
        "fallback": "candidate.py:17: what fails is done by super().forward instead",
    }
    imports = attack_source("checker", "imports_the_reference", {})
    assert "inherits-reference" in source_labels(imports, task_source("small"))


def test_the_reference_renamed_is_torch_only() -> None:
    assert set(source_labels(twin_source("small"), task_source("small"))) == {"torch-only"}
    assert source_labels(inline(CPP), ADD_RELU) == {}


@pytest.mark.parametrize(
    "source",
    ["", "\x00", "class ModelNew(", "x = " + "(" * 5000, "a" + ".b" * 50_000, "#" * (300 << 10)],
    ids=["empty", "zero", "unfinished", "open", "deep", "long"],
)
def test_of_what_cannot_be_read_nothing_is_said(source: str) -> None:
    assert source_labels(source, ADD_RELU).keys() <= {"torch-only"}
    assert source_labels("class ModelNew: pass", source).keys() <= {"torch-only"}


@pytest.mark.parametrize(
    "piece",
    [
        "if a: return EXT.run(a)\n", "a" + ".b" * 400 + "()\n", "class A: pass\n",
        "try: EXT.run(a)\nexcept E: pass\n", "x = x if x else (y if x else x)\n",
    ],
    ids=["branches", "chains", "classes", "tries", "choices"],
)  # fmt: skip
def test_a_source_that_is_made_to_take_for_ever_does_not(piece: str) -> None:
    """What follows a branch is not read anew for each, nor a chain of names to its end."""
    indented = "".join(f"    {line}\n" for line in piece.splitlines())
    source = f"{BUILD}\nclass Model: pass\ndef f(a):\n{indented * (40_000 // len(indented))}"
    assert source_labels(source, ADD_RELU).keys() <= {"fallback", "torch-only"}


def _branches(number: int, body: str) -> str:
    return "if a == 0:\n    k(1)\n" + "".join(
        f"elif a == {i}:\n    {body}\n" for i in range(number)
    )


@pytest.mark.parametrize(
    ("source", "per_node"),
    [
        (_branches(300, "f(g(1, 2), h(3, 4))"), 4),
        (_branches(100, "f(g(1, 2), h(3, 4))\n    x = g(h(5), a.b.c(6))"), 4),
        ("def f(): k(1)\n" + "f = f()\n" * 2000, 4),
        ("".join(" " * i + f"if a{i}:\n" for i in range(90)) + " " * 90 + "k(1)\n", 4),
        ("x = " + "k(a) if a else " * 300 + "a\n", 4),
        ("a = " * 1000 + "[" + "k(1), " * 1000 + "]\n", 4),
    ],
    ids=["elifs", "wide", "rebound", "deep", "choices", "targets"],
)
def test_every_part_is_looked_at_a_few_times(source: str, per_node: int) -> None:
    """However deep it is, and whatever stands beside it."""
    visits = Visits(most=10**9)
    source_labels(source, "", visits)
    assert 0 < visits.made < per_node * len(list(ast.walk(ast.parse(source))))


@pytest.mark.parametrize(
    "source",
    [
        "def f(): k(1)\n" + "f=f()\n" * 20_000,
        "".join(" " * i + f"def f{i}():\n" for i in range(90)) + (" " * 90 + "k(1)\n") * 600,
    ],
    ids=["long", "nested"],
)
def test_what_would_take_too_long_has_no_label(source: str) -> None:
    visits = Visits()
    assert source_labels(source, ADD_RELU, visits) == {}
    assert visits.most < visits.made < 2 * visits.most


def test_labels_are_those_that_reading_gives() -> None:
    found = labels(
        "try:\n    return EXT.run(a, b)\nexcept Exception:\n    return Model()(a, b)",
        f"{BUILD}{REFERENCE}",
    )
    assert found < SOURCE_LABELS


PIECES = st.sampled_from([
    "EXT.run(a, b)", "torch.relu(a)", "Model()(a, b)", "super().forward(a, b)", "Fused.apply(a, b)",
    "a @ b", "build()", "ModelNew", "lambda: EXT", "(y := EXT)", "[EXT][0](a)", "a.run.run(b)",
])  # fmt: skip


@settings(max_examples=examples(100))
@given(st.lists(PIECES, min_size=3, max_size=3), st.text(max_size=20))
def test_no_shape_of_a_candidate_is_too_much(pieces: list[str], text: str) -> None:
    one, two, three = pieces
    forward = (
        f"{text!r}\ntry:\n    y = {one}\nexcept Exception:\n    y = {two}\n"
        f"return y if y is not None else {three}"
    )
    found = source_labels(candidate(forward, before=BUILD + REFERENCE), ADD_RELU)
    assert ("inherits-reference" in found) == ("Model()(a, b)" in pieces)

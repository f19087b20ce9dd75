"""Which failed builds torch's own headers might cure, by what real compilers say of each error."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension

from events.outcomes import CompileFailed, Correct
from gpu_sandbox.extension_build import load_inline as extensions
from gpu_sandbox.extension_build.build_once import Refused, real_headers_may_help
from gpu_sandbox.extension_build.load_inline import BuildFailed, Builds
from gpu_sandbox.extension_build.ninja_edits import Driver
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.toolchain.compiler_log import unexplained
from gpu_sandbox.toolchain.identity import HEADERS
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, CPP, inline

pytestmark = [pytest.mark.compiles, pytest.mark.process]

HEAD = """#include <torch/extension.h>
#include <vector>

struct Shape { int64_t n; int64_t m; };

static void fill(torch::Tensor* out, const float* x) { out->fill_(x[0]); }
static void scale(std::vector<torch::Tensor>& all, float by) { for (auto& t : all) t.mul_(by); }
static int64_t rows_of(const Shape& s) { return s.n; }
"""
BODY = """
torch::Tensor run%d(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(a);
  const float* x = a.data_ptr<float>();
  Shape shape{a.size(0), a.size(1)};
  %s
  return out;
}
"""
OWN = {
    "a missing &": "fill(out, x);",
    "a missing & to a C function": "int64_t n; std::memcpy(n, x, 8);",
    "an rvalue to a reference": "scale({out}, 2.0f);",
    "a tensor as a pointer": "const float* y = b;",
    "a tensor as a number": "float y = b;",
    "an arrow on a value": "int64_t n = a->numel();",
    "a dot on a pointer": "auto n = x.size();",
    "no such member": "auto n = a.nunel();",
    "no such member of its own": "auto n = shape.k;",
    "a const is assigned": "x[0] = 1.0f;",
    "too few arguments": "fill(&out);",
    "too many arguments": "auto n = rows_of(shape, 2);",
    "too few arguments to torch": "out = torch::add(a);",
    "a typo of its own name": "auto n = shapee.n;",
    "a typo of a torch function": "out = torch::empty_likee(a);",
    "another type returned": 'return 3 + "x";',
    "a const dropped": "float* y = x;",
    "a pointer added": "out = a + &b;",
    "declared twice": "int out = 3;",
    "an undeclared type": "Shapes s;",
    "a typo of a std function": "float m = std::maxx(1.0f, 2.0f);",
    "two types to std::max": "float m = std::max(1.0f, 2.0);",
    "not captured": "auto f = [](float v) { return v + shape.n; };",
    "sizes as a number": "int64_t n = a.sizes();",
    "a pointer of another type": "const float* y = a.data_ptr<double>();",
}
CURABLE = {
    "a function": "auto d = at::globalContext().deterministicAlgorithms();",
    "a namespace": "torch::nn::Linear lin(2, 2);",
    "a namespace's function": "out = torch::nn::functional::relu(a);",
    "an incomplete type": "c10::IValue v(a);",
    "a template": "at::Vectorized<float> v;",
    "a function without its namespace": "out = cumsum(a, 0);",
    "a macro": "AT_DISPATCH_V2(a.scalar_type(), 1, [] {}, 2);",
}


def compiled(name: str, text: str, folder: Path, command: list[str]) -> str:
    """What the compiler says of ``text`` with the slim headers."""
    path = folder / name
    path.write_text(text)
    found = [str(HEADERS), *cpp_extension.include_paths(), sysconfig.get_path("include")]
    flags = ["-std=c++20", "-w", "-DTORCH_EXTENSION_NAME=x", "-DSLIM_BINDING"]
    done = subprocess.run(
        [*command, *flags, *(f"-I{place}" for place in found), str(path)],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode, "it was to fail"
    return done.stdout + done.stderr


def by_case(name: str, folder: Path, command: list[str]) -> dict[str, str]:
    """The output of one compile of all cases, each in a function of its own, by case."""
    cases = {**OWN, **CURABLE}
    text, owner = HEAD, dict[int, str]()
    for number, (case, line) in enumerate(cases.items()):
        begin = text.count("\n")
        text += BODY % (number, line)
        owner |= dict.fromkeys(range(begin + 1, text.count("\n") + 1), case)
    error = re.compile(rf"{re.escape(name)}[:(](\d+)[:)].*error")
    found: dict[str, list[str]] = {case: [] for case in cases}
    case = ""
    for line in compiled(name, text, folder, command).splitlines():
        if told := error.search(line):
            case = owner[int(told[1])]
        if case:
            found[case].append(line)
    return {case: "\n".join(lines) for case, lines in found.items()}


def may_help(output: str, text: str = "") -> bool:
    return real_headers_may_help(Refused(output, {"main.cpp": text}))


GPP = ["g++", "-fsyntax-only"]
NVCC = [
    "nvcc", "-arch=sm_90", "--cuda", "-o", "/dev/null", "--expt-relaxed-constexpr",
    "-Xcudafe", "--error_limit=1000",
]  # fmt: skip


@pytest.mark.parametrize(("name", "command"), [("main.cpp", GPP), ("cuda.cu", NVCC)])
def test_only_what_other_headers_declare_is_tried_with_them(
    name: str, command: list[str], tmp_path: Path
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    said = by_case(name, tmp_path, command)
    assert all(said.values()), [case for case, text in said.items() if not text]
    assert not [case for case in OWN if may_help(said[case])]
    assert [case for case in CURABLE if may_help(said[case])] == list(CURABLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "helps"),
    [
        (HEAD + BODY % (1, "int64_t n = a.numel()"), False),
        (HEAD + BODY % (1, "if (a.numel() > 3) {"), False),
        ("#include <torch/no_such_header.h>\n" + HEAD, False),
        (HEAD + 'TORCH_LIBRARY(mine, m) { m.def("run(Tensor a) -> Tensor"); }\n', True),
        (HEAD + "struct F : public torch::autograd::Function<F> {};\n", True),
        # A missing & before an unknown name, and after one that may have caused it.
        (HEAD + BODY % (1, "fill(out, x);\n  torch::nn::Linear lin(2, 2);"), False),
        (HEAD + BODY % (1, "torch::nn::Linear lin(2, 2);\n  fill(out, x);"), True),
    ],
)
def test_what_ends_a_compile_or_comes_in_a_row(text: str, helps: bool, tmp_path: Path) -> None:
    output = compiled("main.cpp", text, tmp_path, GPP)
    assert may_help(output, text) is helps, (output, unexplained(output))


def test_names_of_a_namespace_in_use_are_looked_for() -> None:
    output = "main.cpp:9:3: error: ‘OrderedDict’ was not declared in this scope"
    assert not may_help(output, HEAD)
    assert may_help(output, "using namespace torch;\n" + HEAD)


@pytest.mark.parametrize(
    ("said", "tried"),
    [
        ("main.cpp:3:1: error: cannot convert ‘at::Tensor’ to ‘at::Tensor*’", ["slim"]),
        ("main.cpp:3:1: error: ‘globalContext’ is not a member of ‘at’", ["slim", "real"]),
    ],
)
def test_which_builds_are_tried_again(
    said: str, tried: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds, seen = Builds(tmp_path), list[str]()

    def refuse(
        original: Callable[..., Any], arguments: dict[str, Any], directory: Path,
        first: list[str], driver: Driver,
    ) -> Any:  # fmt: skip
        seen.append("slim" if first else "real")
        raise Refused(said, {})

    monkeypatch.setattr(extensions, "attempt", refuse)
    with pytest.raises(BuildFailed):
        builds.call(cpp_extension.load_inline, {"name": "x", "cpp_sources": ""})
    assert seen == tried


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_a_missing_ampersand_is_reported_as_soon_as_a_semicolon(
    shared_sandbox: LocalSandbox,
) -> None:
    """Both are built with the slim headers alone; torch's own take many times as long."""
    seconds = []
    for line in ("auto n = a.numel()\n", "torch::Tensor* p = out;\n"):
        text = CPP.replace("  return out;", f"  // {time.time_ns()}\n  {line}  return out;")
        verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, inline(text)))
        assert isinstance(verdict.outcome, CompileFailed), verdict.outcome
        assert "candidate.py:" in verdict.outcome.reason
        seconds.append(verdict.timings_s["compile"])
    assert seconds[1] < 2 * seconds[0] + 2, seconds
    cured = CPP.replace("  return out;", "  out = cumsum(out, 0).sub_(cumsum(out, 0)).add_(out);"
                        f"  // {time.time_ns()}\n  return out;")  # fmt: skip
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, inline(cured)))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
    assert "1 extensions needed the full torch headers" in verdict.notes

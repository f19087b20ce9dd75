"""Extensions behave as torch's own build makes them: conversions, errors, signatures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio
import pytest

from events.outcomes import Correct
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, candidate

pytestmark = [pytest.mark.anyio, pytest.mark.compiles]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


FULL = "1 extensions needed the full torch headers"

CPP = r"""
#include <torch/extension.h>

at::Tensor checked(torch::Tensor a, const torch::Tensor& b) {
  TORCH_CHECK(a.sizes() == b.sizes(), "sizes differ");
  TORCH_CHECK_INDEX(a.dim() < 3, "too deep");
  return at::cumsum(a + b, 0);
}
std::tuple<at::Tensor, int64_t> pair(std::vector<at::Tensor> all, std::optional<double> scale) {
  if (all.empty()) throw std::invalid_argument("nothing given");
  return {torch::cat(all, 0) * scale.value_or(2.0), (int64_t)all.size()};
}
std::vector<double> plain(int n, bool flip, std::string text, float s, at::IntArrayRef v) {
  TORCH_WARN("careful");
  return {flip ? -double(n) : n, double(text.size()), s, double(v.size())};
}
void nothing(torch::Tensor& x) { x.add_(1); }
at::Tensor typed(int64_t n, at::ScalarType type = at::kFloat) { return torch::ones({n}, type); }
"""

OWN_MODULE = r"""
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "of its own";
  m.def("checked", &checked, "Adds.", py::arg("a"), py::arg("b"));
  m.def("pair", torch::wrap_pybind_function(pair), py::arg("all"), py::arg("scale") = std::nullopt);
  m.def("twice", [](double x) { return 2 * x; }, py::call_guard<py::gil_scoped_release>());
  m.def("twice", [](std::string x) { return x + x; }, py::arg("x") = "a");
}
"""

CALLS = r"""
import sys, warnings
import torch
from torch.utils.cpp_extension import load_inline

def told(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = repr(call())
        except Exception as error:
            text = str(error).splitlines()
            found = (type(error).__name__, text[: 1 if "C++ frame" in str(error) else None])
    return found, [str(each.message).split(" (Triggered")[0] for each in caught]

def calls(auto, own):
    x, y = torch.ones(2, 3), torch.ones(3)
    names = ["checked", "pair", "plain", "nothing", "typed"]
    yield from [lambda n=n: getattr(auto, n).__doc__ for n in names]
    yield from [lambda n=n: getattr(auto, n).__name__ for n in names]
    yield lambda: auto.checked(x, x)
    yield lambda: auto.checked(x, y)
    yield lambda: auto.checked(x, None)
    yield lambda: auto.checked(x)
    yield lambda: auto.checked(torch.ones(1, 1, 1), torch.ones(1, 1, 1))
    yield lambda: auto.pair([x, x], 3)
    yield lambda: auto.pair((x,), None)
    yield lambda: auto.pair([], None)
    yield lambda: auto.pair([x, 1], None)
    yield lambda: auto.pair((t for t in [x]), 0.5)
    yield lambda: auto.plain(3, True, "abc", 1.5, [1, 2])
    yield lambda: auto.plain(3.5, True, "abc", 1, (1, 2))
    yield lambda: auto.plain(2**40, True, "abc", 1, (1, 2))
    yield lambda: auto.plain(3, None, "abc", torch.tensor(4.0), (1, 2))
    yield lambda: auto.plain(3, 1, b"abc", 1, [])
    yield lambda: auto.nothing(x)
    yield lambda: x
    yield lambda: auto.typed(2, torch.float64)
    yield lambda: auto.typed(2)
    yield lambda: own.__doc__
    yield lambda: own.checked.__doc__
    yield lambda: own.checked(b=x, a=x)
    yield lambda: own.checked(x, y)
    yield lambda: own.pair.__doc__
    yield lambda: own.pair([x])
    yield lambda: own.pair(all=[x], scale=1.0)
    yield lambda: own.twice(2)
    yield lambda: own.twice("b")
    yield lambda: own.twice()
    yield lambda: own.twice([])
    yield lambda: own.twice.__doc__
"""


def _loading(own: str) -> str:
    functions = ["checked", "pair", "plain", "nothing", "typed"]
    return (
        f"{CALLS}\n"
        f'AUTO = load_inline("auto", r"""{CPP}""", functions={functions})\n'
        f'OWN = load_inline("own", r"""{CPP}{own}""")\n'
        "HEARD = [told(call) for call in calls(AUTO, OWN)]\n"
    )


@pytest.mark.process
async def test_arguments_results_and_errors_cross_as_ever(shared_sandbox: LocalSandbox) -> None:
    checks = """
assert HEARD[10][0] == repr(torch.ones(2, 3).mul(2).cumsum(0)), HEARD[10]
assert HEARD[11][0][0] == "RuntimeError", HEARD[11]
assert HEARD[11][0][1] == ["sizes differ"], HEARD[11]
assert HEARD[12][0][0] == HEARD[13][0][0] == "TypeError"
assert "incompatible function arguments" in HEARD[12][0][1][0]
assert "(arg0: torch.Tensor, arg1: torch.Tensor) -> torch.Tensor" in HEARD[12][0][1][1]
assert HEARD[14][0][0] == "IndexError"
assert HEARD[17][0] == ("RuntimeError", ["nothing given"])
assert HEARD[20][1] == ["careful"], HEARD[20]
assert HEARD[26][0] == repr(torch.full((2, 3), 2.0))
"""
    source = candidate("return torch.relu(a + b)", before=_loading(OWN_MODULE) + checks)
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
    assert FULL not in verdict.notes


@pytest.mark.slow
@pytest.mark.process
async def test_what_only_pybind11_proper_binds_needs_no_full_headers(
    shared_sandbox: LocalSandbox,
) -> None:
    cpp = r"""
#include <torch/extension.h>
struct Scale { double by; torch::Tensor of(torch::Tensor x) { return x * by; } };
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<Scale>(m, "Scale").def(py::init<double>()).def("of", &Scale::of);
}
"""
    before = (
        "from torch.utils.cpp_extension import load_inline\n"
        f'EXT = load_inline(name="scale", cpp_sources=r"""{cpp}""")'
    )
    source = candidate("return torch.relu(EXT.Scale(1.0).of(a) + b)", before=before)
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
    assert FULL not in verdict.notes


async def test_a_library_without_torch_is_loaded_by_its_path(shared_sandbox: LocalSandbox) -> None:
    cpp = r"""
extern "C" void add_relu(const float* a, const float* b, float* c, long n) {
  for (long i = 0; i < n; ++i) c[i] = a[i] + b[i] > 0 ? a[i] + b[i] : 0;
}
"""
    before = (
        "import ctypes\nfrom torch.utils.cpp_extension import load_inline\n"
        f'PATH = load_inline("plain_c", r"""{cpp}""", is_python_module=False,\n'
        "                   no_implicit_headers=True)\n"
        "LIB = ctypes.CDLL(PATH)"
    )
    forward = (
        "c = torch.empty_like(a)\n"
        "p = [ctypes.c_void_p(t.data_ptr()) for t in (a, b, c)]\n"
        "LIB.add_relu(*p, ctypes.c_long(a.numel()))\n"
        "return c"
    )
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, candidate(forward, before=before)))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.run_log)


@pytest.mark.slow
async def test_every_call_answers_as_with_torchs_own_build(
    shared_sandbox: LocalSandbox, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs.txt"
    script = f"{_loading(OWN_MODULE)}\nopen({str(theirs)!r}, 'w').write(repr(HEARD))\n"
    environment = {**os.environ, "TORCH_EXTENSIONS_DIR": str(tmp_path / "built")}
    path = Path(sys.executable).parent
    environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    await anyio.run_process([sys.executable, "-c", script], env=environment)
    expected = theirs.read_text()
    before = f"{_loading(OWN_MODULE)}\nEXPECTED = {expected}\n" + (
        "differing = [(a, b) for a, b in zip(HEARD, EXPECTED) if a != b]\n"
        "assert not differing, differing\n"
    )
    source = candidate("return torch.relu(a + b)", before=before)
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.compile_log)
    assert FULL not in verdict.notes

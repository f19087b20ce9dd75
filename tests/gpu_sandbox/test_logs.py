from __future__ import annotations

import pytest

from gpu_sandbox.toolchain.compiler_log import cut_compiler_output, first_error, unexplained
from gpu_sandbox.toolchain.identity import HEADERS

GPP = """Error building extension 'x': [1/2] c++ -MMD -MF main.o.d -c /r/x/main.cpp
FAILED: [code=1] main.o
c++ -MMD -MF main.o.d -DTORCH_EXTENSION_NAME=x -c /r/x/main.cpp -o main.o
/r/x/main.cpp: In function ‘at::Tensor f(at::Tensor)’:
/r/x/main.cpp:3:10: error: ‘outt’ was not declared in this scope; did you mean ‘out’?
    3 |   return outt;
      |          ^~~~
/r/x/main.cpp:2:1: note: something else
ninja: build stopped: subcommand failed.
"""
NVCC = """FAILED: cuda.cuda.o
/usr/local/cuda/bin/nvcc -c /r/x/cuda.cu
/r/x/cuda.cu(4): error: identifier "blockDimm" is undefined
      int i = blockDimm.x;
              ^

1 error detected in the compilation of "/r/x/cuda.cu".
"""


def test_gpp_errors_keep_their_excerpt_and_lose_the_noise() -> None:
    generated = {"main.cpp": "#include <torch/extension.h>\nint x;\n  return outt;\n"}
    cut = cut_compiler_output(GPP, generated, "A = 1\nS = '''\n  return outt;\n'''\n")
    assert cut.splitlines() == [
        "candidate.py:3:10: error: ‘outt’ was not declared in this scope; did you mean ‘out’?",
        "    3 |   return outt;",
        "      |          ^~~~",
    ]
    assert first_error(cut).startswith("candidate.py:3:10")


def test_a_line_that_occurs_twice_is_told_apart_by_its_neighbours() -> None:
    generated = {"main.cpp": "int g() {\n  int a;\n  return outt;\n}\n"}
    twice = "S = '''int f() {\n  return outt;\n}\nint g() {\n  int a;\n  return outt;\n}\n'''"
    assert cut_compiler_output(GPP, generated, twice).startswith("candidate.py:6:10: error:")
    alone = {"main.cpp": "\n\n  return outt;\n"}
    cut = cut_compiler_output(GPP, alone, "return outt;\nreturn outt;\n")
    assert cut.startswith("main.cpp:3:10: error:")


def test_a_line_that_was_filled_in_is_where_its_neighbours_are() -> None:
    generated = {"main.cpp": "int f() {\n  int a;\n  return outt;\n}  // f\n"}
    source = "\nS = f'''int f() {{\n  int a;\n  return {NAME};\n}  // f'''"
    assert cut_compiler_output(GPP, generated, source).startswith("candidate.py:4:10: error:")


def test_an_error_in_a_header_is_told_where_it_was_needed() -> None:
    output = """In file included from /r/main.cpp:1:
/usr/include/c++/12/bits/ops.h: In instantiation of ‘bool less(A, A) [with A = S]’:
/usr/include/c++/12/bits/algo.h:1938:5:   required from ‘void std::sort(S*, S*)’
/r/main.cpp:2:12:   required from here
/usr/include/c++/12/bits/ops.h:45:26: error: no match for ‘operator<’
   45 |       { return *__it1 < *__it2; }
      |                ~~~~~~~^~~~~~~~
/r/main.cpp:2:12:   required from here
/usr/include/c++/12/bits/ops.h:98:26: error: no match for ‘operator<’
"""
    generated = {"main.cpp": "#include <algorithm>\nstd::sort(v, w);\n"}
    cut = cut_compiler_output(output, generated, "S = '''\nstd::sort(v, w);\n'''")
    assert cut.splitlines() == [
        "candidate.py:2: error: no match for ‘operator<’ (in ops.h:45:26, needed here)",
        "   45 |       { return *__it1 < *__it2; }",
        "      |                ~~~~~~~^~~~~~~~",
    ]


def test_why_no_overload_fits_is_kept() -> None:
    output = """/r/main.cpp:1:12: error: no matching function for call to ‘max(float, double)’
    1 |   std::max(x, 0.0);
/usr/include/bits/algo.h:254:5: note: candidate: ‘const T& max(const T&, const T&)’
/r/main.cpp:1:12: note:   deduced conflicting types for parameter ‘const T’
"""
    cut = cut_compiler_output(output, {}, "").splitlines()
    assert cut[2] == "      note: deduced conflicting types for parameter ‘const T’"


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("FAILED: nvcc -o x\nnvcc fatal   : Unknown option '--frob'", "candidate.py:2: nvcc fatal"),
        (
            "ptxas /tmp/t.ptx, line 6; error   : Unknown modifier '.frob'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors",
            "candidate.py:2: ptxas error: Unknown modifier '.frob' (line 6 of the PTX)",
        ),
        (
            "ptxas error   : Entry function 'f(float*)' uses too much shared data",
            "ptxas error   : Entry function",
        ),
        ("/r/main.cpp:18:4: error: ‘frob’ was not declared", "main.cpp:18:4 (see candidate.py:2)"),
    ],
)
def test_errors_of_what_is_not_the_candidates_text(output: str, told: str) -> None:
    cut = cut_compiler_output(output, {}, "A = 1\nB = 'add.frob x'\n")
    assert cut.startswith(told)
    assert "\n" not in cut


def test_nvcc_errors_are_found() -> None:
    cut = cut_compiler_output(NVCC, {}, "")
    assert cut.splitlines()[0] == 'cuda.cu:4: error: identifier "blockDimm" is undefined'
    assert "int i = blockDimm.x;" in cut
    assert "detected" not in cut


def test_many_errors_are_counted_and_the_first_kept() -> None:
    output = "\n".join(f"/r/main.cpp:{n}:1: error: no {n}" for n in range(1, 40))
    cut = cut_compiler_output(output, {}, "").splitlines()
    assert cut[0] == "main.cpp:1:1: error: no 1"
    assert cut[-1] == "… 31 more errors"


def test_linker_errors_are_errors() -> None:
    cut = cut_compiler_output("main.cpp:(.text+0x1): undefined reference to `f()'\nld: 1", {}, "")
    assert cut == "undefined reference to `f()'"


def test_output_without_errors_is_cut_to_its_end() -> None:
    assert cut_compiler_output("\n".join(map(str, range(100))), {}, "").splitlines()[0] == "80"


def test_an_error_in_our_headers_is_not_the_candidates() -> None:
    curable = "m.cpp:1:2: error: ‘cumsum’ is not a member of ‘at’"
    innocent = "1:2: error: expected ‘;’ before ‘}’ token"
    assert unexplained(f"{HEADERS}/torch/all.h:{innocent}\n{curable}").members == {"cumsum"}
    assert unexplained(f"m.cpp:{innocent}\n{curable}").members == set()


def test_which_failures_the_real_headers_may_cure() -> None:
    assert unexplained(GPP) == (frozenset({"outt"}), frozenset(), False)
    assert unexplained(NVCC) == (frozenset({"blockDimm"}), frozenset(), False)
    for innocent in (
        "m.cpp:1:2: error: expected ‘;’ before ‘}’ token",
        "m.cpp:1:2: error: ‘class at::Tensor’ has no member named ‘foo’",
        'c.cu(3): error: class "at::Tensor" has no member "foo"',
        'c.cu(3): error: expected a ";"',
        "undefined reference to `f()'",
        "/usr/bin/ld: cannot find -lfoo: No such file or directory",
        "nvcc fatal   : Unsupported gpu architecture 'sm_12'",
        "/r/cuda.cu(3): error: too few arguments in function call\n  f<<<1, 2>>>(a);",
        '/r/cuda.cu(3): error: static assertion failed with "N"',
        '/r/cuda.cu(3): error: calling a __host__ function("f") from a __global__ function("g")',
        "m.cpp:1:2: error: cannot convert ‘float’ to ‘vec’ {aka ‘__vector(8) float’}",
        "m.cpp:1:2: error: no matching function for call to ‘max(float&, const double&)’",
        "m.cpp:1:2: error: no matching function for call to ‘at::Tensor::accessor<float>()’",
        "m.cpp:1:2: error: expected initializer before ‘in’\n    1 | const float* restrict in;",
        'c.cu(3): error: no instance of overloaded function "max" matches the argument list\n'
        "            argument types are: (float, double)",
    ):
        assert unexplained(innocent) == (frozenset(), frozenset(), False), innocent
    assert unexplained("m.cpp:1:2: error: ‘cumsum’ is not a member of ‘at’").members == {"cumsum"}
    assert unexplained('c.cu(3): error: namespace "at" has no member "cumsum"').members
    assert unexplained("m.cpp:1:2: error: ‘torch::nn’ has not been declared").members == {"nn"}
    for curable in (
        "m.cpp:1:2: error: no match for ‘operator+’",
        "m.cpp:1:2: error: no match for ‘operator+’ (operand types are ‘at::Tensor’ and ‘int’)",
        "m.cpp:1:2: error: expected initializer before ‘f’\n    1 | TORCH_API int f();",
        'c.cu(3): error: no operator "+" matches these operands\n'
        "            operand types are: at::Tensor + at::Tensor",
    ):
        assert unexplained(curable).anyway, curable
    assert unexplained("something killed the compiler").anyway


@pytest.mark.parametrize(
    "wide",
    ["x" * 200_000, "f.cpp:1" + " " * 200_000, "c++" * 70_000, "note: " * 30_000],
    ids=["a word", "spaces", "drivers", "notes"],
)
def test_what_is_told_beside_a_long_line_is_found(wide: str) -> None:
    """In time: what reads a line must not take the square of its length."""
    lines = GPP.splitlines()
    output = "\n".join([wide, *lines[:5], wide, *lines[5:], wide])
    generated = {"main.cpp": "#include <torch/extension.h>\nint x;\n  return outt;\n"}
    cut = cut_compiler_output(output, generated, "A = 1\nS = '''\n  return outt;\n'''\n")
    assert first_error(cut).startswith("candidate.py:3:10: error: ‘outt’ was not declared")
    assert len(cut) < 1000
    assert unexplained(output) == unexplained(GPP)
    assert unexplained(wide) == (frozenset(), frozenset(), True)
    assert cut_compiler_output(wide, {}, "") == wide[:300]

"""Commands that ninja runs for an extension: torch's, with flags added. The compilers are scripts
that note how they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_sandbox.extension_build.ninja_edits import Driver

pytestmark = pytest.mark.process

COMPILER = """#!/bin/sh
echo "$0 $*" >> {notes}
case "$*" in *-fuse-ld=*) echo "no such linker"; exit 1;; esac
while [ "$1" != -o ]; do shift; done
touch "$2"
echo "ptxas info    : Used 8 registers"
"""
NINJA = """ninja_required_version = 1.3
cxx = {cxx}
nvcc = {nvcc}

cflags = -DNAME=x -std=c++20
post_cflags =
cuda_cflags = -gencode=arch=compute_90a {given}
cuda_post_cflags =
cuda_dlink_post_cflags =
ldflags = -shared -L/torch\\$ lib

rule compile
  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out $post_cflags
  depfile = $out.d
  deps = gcc

rule cuda_compile
  depfile = $out.d
  deps = gcc
  command = $nvcc -MD -MF $out.d $cuda_cflags -c $in -o $out $cuda_post_cflags

rule link
  command = $cxx $in $ldflags -o $out

build main.o: compile {place}/main.cpp
build cuda.cuda.o: cuda_compile {place}/cuda.cu

build x.so: link main.o cuda.cuda.o

default x.so
"""


def commands(
    place: Path, monkeypatch: pytest.MonkeyPatch, *, linker: str, given: str = "", slim: bool = True
) -> tuple[list[list[str]], Driver]:
    notes = place / "notes"
    for name in ("c++", "nvcc"):
        script = place / name
        script.write_text(COMPILER.format(notes=notes))
        script.chmod(0o755)
    (place / "main.cpp").write_text("#include <torch/types.h>\nauto f = torch::fft_fft(x);\n")
    (place / "cuda.cu").write_text("__global__ void k() {}\n")
    text = NINJA.format(cxx=place / "c++", nvcc=place / "nvcc", place=place, given=given)
    (place / "build.ninja").write_text(text)
    prebuilt = place / "prebuilt"
    prebuilt.mkdir()
    (prebuilt / "linker").write_text(linker)
    monkeypatch.setenv("GPU_SANDBOX_PREBUILT", str(prebuilt))
    driver = Driver([], slim=slim, slim_binding=True)
    driver.run(str(place), False, "Error building extension")
    said = [line.split() for line in notes.read_text().splitlines()]
    return [[Path(words[0]).name, *words[1:]] for words in said], driver


def test_each_command_is_torchs_with_flags_before_or_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, driver = commands(tmp_path, monkeypatch, linker="")
    compiled, linked = sorted(ran[:2]), ran[2:]
    assert compiled == [
        ["c++", "-include", "ATen/ops/fft_fft.h", "-DNAME=x", "-std=c++20",
         "-c", f"{tmp_path}/main.cpp", "-o", "main.o"],
        ["nvcc", "--threads=2", "-gencode=arch=compute_90a", "-Xptxas=-v", "-lineinfo",
         "-c", f"{tmp_path}/cuda.cu", "-o", "cuda.cuda.o"],
    ]  # fmt: skip
    assert linked == [
        ["c++", "main.o", "cuda.cuda.o", "-shared", "-L/torch", "lib", "-o", "x.so"],
    ]
    assert driver.output.count("ptxas info") == 3


def test_flags_of_the_candidates_are_not_given_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, _ = commands(tmp_path, monkeypatch, linker="", given="-lineinfo -t 4", slim=False)
    compiled = sorted(ran[:2])
    assert compiled[0][:3] == ["c++", "-DNAME=x", "-std=c++20"]
    assert compiled[1][1:5] == ["-gencode=arch=compute_90a", "-lineinfo", "-t", "4"]
    assert compiled[1].count("-lineinfo") == 1


def test_a_fast_linker_that_fails_is_followed_by_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, driver = commands(tmp_path, monkeypatch, linker="mold")
    assert [words[0] for words in ran].count("nvcc") == 1, "what was compiled is not done again"
    assert [("-fuse-ld=mold" in words) for words in ran[2:]] == [True, False]
    assert "no such linker" not in driver.output
    assert driver.output.count("ptxas info") == 3


def test_all_sources_are_compiled_and_their_errors_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        f"{__name__}.COMPILER", '#!/bin/sh\necho "$0 $*" >> {notes}\necho $0: error: no; exit 1\n'
    )
    with pytest.raises(RuntimeError, match="Error building extension") as raised:
        commands(tmp_path, monkeypatch, linker="")
    said = str(raised.value)
    assert said.count("FAILED: ") == said.count("error: no") == 2
    assert "ninja: " not in said

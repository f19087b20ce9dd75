"""What compiling costs: distinct candidates through the compile stage, beside torch alone.

Every candidate is new, so no build is ever found in a cache; what all builds share (the
slim binding, a precompiled header) is made by two candidates before the clock starts. The
peer is a fresh process that calls torch's own load_inline, with nothing kept.

    python -m benchmarks.sandbox_compile --kinds cpp,c --candidates 6 --jobs 2
    python -m benchmarks.sandbox_compile --precompiled --builds 3
    python -m benchmarks.sandbox_compile --cuda --candidates 30 --jobs 15

--cuda needs a torch built with CUDA and a toolkit, but no device: the architecture is
given by --capability. --precompiled compares single builds: this sandbox's, torch's as it
comes, and torch's with use_pch and no_implicit_headers, in a copy of torch's headers, since
torch writes its precompiled header among them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import anyio

from benchmarks.table import Table
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.known import device_named
from gpu_sandbox.builds.build_cache import BuildCache
from gpu_sandbox.builds.compile_pool import Candidate, Compiled, CompilePool
from gpu_sandbox.devices.cpu_affinity import split_cores
from gpu_sandbox.static_checks.precheck import inspect_candidate
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.run_directory import run_directory
from gpu_sandbox.supervise.zygote_client import Zygote
from gpu_sandbox.toolchain.prerequisites import cuda_home

CPP = r"""
#include <torch/extension.h>
torch::Tensor step(torch::Tensor x, torch::Tensor y, double alpha) {
  TORCH_CHECK(x.sizes() == y.sizes(), "shapes differ (NUMBER)");
  x = x.contiguous();
  y = y.contiguous();
  auto out = torch::empty_like(x);
  const float* px = x.data_ptr<float>();
  const float* py = y.data_ptr<float>();
  float* po = out.data_ptr<float>();
  const int64_t n = x.numel() == -NUMBERL ? 0 : x.numel();
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) po[i] = px[i] * 1.5f + (float)alpha * py[i];
  return out;
}
"""
CUDA = r"""
#include <torch/extension.h>
__global__ void step_kernel(const float* x, const float* y, float* out, float alpha, int64_t n) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && n != -NUMBERL) out[i] = x[i] * 1.5f + alpha * y[i];
}
torch::Tensor step(torch::Tensor x, torch::Tensor y, double alpha) {
  TORCH_CHECK(x.is_cuda(), "on the GPU, please (NUMBER)");
  auto out = torch::empty_like(x);
  const int64_t n = x.numel();
  step_kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(),
                                        out.data_ptr<float>(), (float)alpha, n);
  return out;
}
"""
C = r"""
extern "C" void step(const float* x, const float* y, float* out, float alpha, long n) {
  if (n == -NUMBERL) return;
  for (long i = 0; i < n; ++i) out[i] = x[i] * 1.5f + alpha * y[i];
}
"""
CU = r"""
__global__ void step_kernel(const float* x, const float* y, float* out, float alpha, long n) {
  const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && n != -NUMBERL) out[i] = x[i] * 1.5f + alpha * y[i];
}
extern "C" int step(const float* x, const float* y, float* out, float alpha, long n,
                    cudaStream_t stream) {
  step_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, out, alpha, n);
  return cudaGetLastError();
}
"""
DECLARED = "torch::Tensor step(torch::Tensor x, torch::Tensor y, double alpha);"
FLAGS = '["-O3", "-march=native", "-fopenmp"]'
PLAIN = "is_python_module=False, no_implicit_headers=True"
CALLS = {
    "cpp": f'load_inline("bench", r"""{CPP}""", functions=["step"], extra_cflags={FLAGS})',
    "c": f'load_inline("bench", r"""{C}""", extra_cflags={FLAGS}, {PLAIN})',
    "cuda": f'load_inline("bench", "{DECLARED}", r"""{CUDA}""", functions=["step"])',
    "cu": f'load_inline("bench", "", r"""{CU}""", {PLAIN})',
}
KINDS = {
    "cpp": ("inline C++", "-", "40 a minute on one core"),
    "c": ("C++ without torch", "-", "-"),
    "cuda": ("inline CUDA", "12 s", "2400 an hour"),
    "cu": ("CUDA without torch", "4 s", "3600 an hour"),
}
"""What they are called, and the goals: alone, and side by side."""


class Stage:
    """The compile stage, and the zygote that forks its children."""

    def __init__(self, pool: CompilePool, device: str, capability: str) -> None:
        self.pool = pool
        self.device = device_named(device)
        self.facts: dict[str, Any] = {
            "name": "bench",
            "compute_capability": capability,
            "memory_bytes": 1 << 36,
            "sm_count": 132,
            "l2_bytes": 50 << 20,
            "shared_memory_per_block_bytes": 227 << 10,
        }

    async def build(self, source: str) -> Compiled:
        candidate = Candidate(
            source=source,
            task_source="",
            device=self.device,
            facts=self.facts,
            inspected=inspect_candidate(source),
        )
        compiled = await self.pool.build(candidate)
        assert compiled.outcome is None, (compiled.outcome, compiled.log)
        built = len(compiled.files.names)
        compiled.files.close()
        assert built, f"nothing was built: {compiled.log}"
        return compiled


@asynccontextmanager
async def opened(root: Path, jobs: int, device: str, capability: str) -> AsyncIterator[Stage]:
    """A stage with a cache of its own, on the cores that would compile here."""
    limits = Limits(compile_s=600.0)
    gpus = 0 if device == "cpu" else 1
    cores = split_cores(sorted(os.sched_getaffinity(0)), gpus).compiling
    async with run_directory(root / "runs") as run, anyio.create_task_group() as group:
        zygote = Zygote(group, run, limits)
        yield Stage(
            CompilePool(
                BuildCache(root / "builds"),
                root / "prebuilt",
                zygote,
                Keeping(root),
                jobs=jobs,
                cores=cores,
            ),
            device,
            capability,
        )
        group.cancel_scope.cancel()


class Numbers:
    """Never the same twice, so that no two candidates are equal."""

    def __init__(self) -> None:
        self._next = time.time_ns() % 10**9

    def build(self, kind: str) -> str:
        """A statement that builds a new extension as ``EXT``."""
        self._next += 1
        call = CALLS[kind].replace("NUMBER", str(self._next))
        return f"from torch.utils.cpp_extension import load_inline\nEXT = {call}\n"

    def candidate(self, kind: str) -> str:
        return f"{self.build(kind)}class ModelNew: pass\n"


async def measure(
    kind: str, count: int, stage: Stage, numbers: Numbers, table: Table, alone_peer: float
) -> None:
    name, alone_goal, rate_goal = KINDS[kind]
    for number in (1, 2):
        table.progress(f"{name}: what all builds share, {number} of 2")
        await stage.build(numbers.candidate(kind))
    alone = []
    retries = 0
    for number in range(min(count, 4)):
        table.progress(f"{name}: alone, {number + 1} of {min(count, 4)}")
        began = time.monotonic()
        built = await stage.build(numbers.candidate(kind))
        alone.append(time.monotonic() - began)
        retries += any("full torch headers" in note for note in built.notes)
    middle = f"{sorted(alone)[len(alone) // 2]:.2f} s"
    if retries:
        middle += f", {retries} with the full headers"
    table.row(f"{name}, alone", alone_goal, middle, f"{alone_peer:.2f} s" if alone_peer else "-")
    table.progress(f"{name}: {count} distinct ones, {stage.pool.jobs} at a time")
    began = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(stage.build, numbers.candidate(kind))
    minute = 60 * count / (time.monotonic() - began)
    table.row(
        f"{name}, {count} distinct, {stage.pool.jobs} at a time",
        rate_goal,
        f"{minute:.1f} a minute, {60 * minute:.0f} an hour",
        f"{60 / alone_peer:.1f} a minute" if alone_peer else "-",
    )


def peer(kind: str, numbers: Numbers, capability: str) -> float:
    """Seconds of a fresh process with torch's own load_inline."""
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TORCH_EXTENSIONS_DIR": scratch,
            "TORCH_NO_COMPILER_WRAPPER": "1",  # with ccache, where it is, it would be slower
            "TORCH_CUDA_ARCH_LIST": f"{capability}a",
            **({"CUDA_HOME": str(cuda_home())} if cuda_home() else {}),
        }
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", numbers.candidate(kind)], env=environment, check=True)
        return time.monotonic() - began


SINGLE_BUILD = """
import os, resource, sys, time
from pathlib import Path
from torch.utils import cpp_extension
overlay, path = sys.argv[1:]
if "GPU_SANDBOX_EXTENSIONS" in os.environ:
    from gpu_sandbox.extension_build import load_inline
    load_inline.install()
else:
    cpp_extension._TORCH_PATH = overlay
began = time.monotonic()
exec(Path(path).read_text())
taken = time.monotonic() - began
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(taken, used.ru_utime + used.ru_stime)
"""
OURS = "this sandbox's"
ARGUMENTS = {
    OURS: "",
    "torch's as it comes": "",
    "torch's, use_pch": ", use_pch=True",
    "torch's, use_pch, no_implicit_headers": ", use_pch=True, no_implicit_headers=True",
}


def single_build(source: str, overlay: Path, scratch: Path, **ours: str) -> tuple[float, float]:
    """Seconds of the call, and of the processors in it: torch is imported before."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TORCH_EXTENSIONS_DIR": str(scratch / "extensions"),
        "TORCH_NO_COMPILER_WRAPPER": "1",
        **ours,
    }
    path = scratch / "candidate.py"
    path.write_text(source)
    command = [sys.executable, "-c", SINGLE_BUILD, str(overlay), str(path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    wall, processors = done.stdout.split()[-2:]
    return float(wall), float(processors)


async def precompiled(builds: int, numbers: Numbers, table: Table) -> None:
    """Builds of one C++ extension; the first of each kind makes what is made once."""
    with tempfile.TemporaryDirectory() as root:
        scratch = Path(root)
        overlay, package = scratch / "torch", torch_package()
        shutil.copytree(package / "include", overlay / "include")
        (overlay / "lib").symlink_to(package / "lib")
        table.progress("what all builds of this sandbox share")
        async with opened(scratch, 1, "cpu", "9.0") as stage:
            for _ in range(2):
                await stage.build(numbers.candidate("cpp"))
            prebuilt = str(stage.pool.prebuilt)
        ours = {"GPU_SANDBOX_EXTENSIONS": root, "GPU_SANDBOX_PREBUILT": prebuilt}
        for kind, arguments in ARGUMENTS.items():
            (overlay / "include" / "torch" / "extension.h.gch").unlink(missing_ok=True)
            seconds = []
            for number in range(1 + builds):
                table.progress(f"{kind}: build {number + 1} of {1 + builds}")
                source = numbers.candidate("cpp").replace(f"={FLAGS})", f"={FLAGS}{arguments})")
                variables = ours if kind == OURS else {}
                seconds.append(single_build(source, overlay, scratch, **variables))
            first, *later = seconds
            wall, processors = (statistics.median(column) for column in zip(*later, strict=True))
            table.row(
                f"inline C++: {kind}",
                "-",
                f"{wall:.1f} s, {processors:.1f} s of processors",
                f"{first[0]:.1f} s, {first[1]:.1f} s of processors",
            )


def torch_package() -> Path:
    spec = PathFinder.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cuda", action="store_true", help="measure inline and plain CUDA too")
    parser.add_argument("--kinds", help="some of cpp,c,cuda,cu")
    parser.add_argument("--candidates", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--capability", default="9.0")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--precompiled", action="store_true", help="single builds, see above")
    parser.add_argument("--builds", type=int, default=3, help="with --precompiled")
    parser.add_argument("--json", type=Path, help="the table's rows, for another program")
    chosen = parser.parse_args()
    kinds = (chosen.kinds or ("cpp,c,cuda,cu" if chosen.cuda else "cpp,c")).split(",")
    numbers = Numbers()
    if chosen.precompiled:
        table = Table("single builds, torch imported before the clock starts", "the first")
        await precompiled(chosen.builds, numbers, table)
        return
    table = Table(f"compile stage, {chosen.jobs} at a time; peer: load_inline in a fresh process")
    with tempfile.TemporaryDirectory() as root:
        for kind in kinds:
            alone_peer = 0.0
            if not chosen.no_peer:
                table.progress(f"{KINDS[kind][0]}: the peer")
                alone_peer = peer(kind, numbers, chosen.capability)
            device = "cuda:0" if kind in ("cuda", "cu") else "cpu"
            async with opened(Path(root), chosen.jobs, device, chosen.capability) as stage:
                await measure(kind, chosen.candidates, stage, numbers, table, alone_peer)
    if chosen.json:
        chosen.json.write_text(json.dumps({"rows": table.rows}))


if __name__ == "__main__":
    anyio.run(main)

"""Real work, fully confined."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gpu_sandbox.confine import (
    Survey,
    survey,
)
from tests.confine.jails import (
    ENVIRONMENT,
    NAMESPACES,
    a_policy,
    found,
    in_zygote,
    run,
    skip,
)

pytestmark = pytest.mark.process


@in_zygote
def test_torch_and_compilers_work_inside() -> None:
    if importlib.util.find_spec("torch") is None:
        skip("no torch")
    import torch

    headers = Path(torch.__file__).parent / "include"
    result = survey()
    python = sysconfig.get_path("include")

    def main() -> None:
        import torch

        torch.manual_seed(0)
        a = torch.rand(300, 300)
        torch.testing.assert_close((a @ a)[0], a[0] @ a)
        threads = [threading.Thread(target=lambda: a @ a) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        Path("k.cpp").write_text('extern "C" int twice(int x) { return 2 * x; }\n')
        subprocess.run(["c++", "-O1", "-shared", "-fPIC", "k.cpp", "-o", "k.so"], check=True)
        assert ctypes.CDLL(os.path.abspath("k.so")).twice(21) == 42
        Path("t.h").write_text("#include <torch/headeronly/macros/Macros.h>\n#include <Python.h>\n")
        include = [f"-I{headers}", f"-I{python}"]
        command = ["c++", "-std=c++17", "-x", "c++", *include, "-fsyntax-only", "t.h"]
        subprocess.run(command, check=True)
        done = subprocess.run(["ninja", "--version"], capture_output=True, check=True)
        assert done.stdout
        import multiprocessing

        queue = multiprocessing.get_context("fork").SimpleQueue()
        worker = multiprocessing.get_context("fork").Process(target=queue.put, args=("hi",))
        worker.start()
        assert queue.get() == "hi"
        worker.join()
        print("all done")

    environment = {**ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"}
    policy = a_policy(memory_bytes=4 << 30, descriptors=1024)
    status, text = run(main, policy, result, environment=environment)
    assert status.code == 0, text
    assert text.endswith("all done\n")


@pytest.mark.gpu
@in_zygote
def test_cuda_works_inside() -> None:
    _use_cuda(found())


@pytest.mark.gpu
@in_zygote
def test_cuda_works_without_namespaces() -> None:
    _use_cuda(survey(without=NAMESPACES))


def _use_cuda(result: Survey) -> None:
    """A context, a kernel, pinned memory, an event, and Triton's own compiles."""
    devices = tuple(path for path in glob.glob("/dev/nvidia*") if not os.path.isdir(path))
    if not devices:
        skip("no NVIDIA device")
    import torch

    from gpu_sandbox.accelerator.cuda import Cuda

    def main() -> None:
        began = time.monotonic()
        Cuda(torch.device("cuda")).make_context()
        a = torch.rand(512, 512, device="cuda")
        torch.cuda.synchronize()
        print(f"context in {time.monotonic() - began:.2f} s")
        torch.testing.assert_close((a @ a).cpu(), a.cpu() @ a.cpu(), rtol=1e-2, atol=1e-2)
        torch.rand(1000, pin_memory=True).cuda()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        event.synchronize()
        tempfile.tempdir = None  # as it was before this fork, it can't be written here
        own = Path("own.py")  # Dynamo reads the source, and this file can't be read here
        own.write_text("import torch\n\ndef double(x):\n    return torch.relu(x) * 2 + 1\n")
        sys.path.insert(0, str(own.absolute().parent))
        double = importlib.import_module("own").double
        torch.testing.assert_close(torch.compile(double)(a), double(a))

    policy = a_policy(
        devices=devices, memory_bytes=32 << 30, file_bytes=1 << 30, descriptors=1024, cpu_s=300
    )
    kept = {n: os.environ[n] for n in ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME") if n in os.environ}
    caches = {n: f"{policy.home}/{n}" for n in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")}
    environment = {**kept, **caches, "HOME": policy.home, "TMPDIR": policy.home}
    status, text = run(main, policy, result, environment=environment)
    assert status.code == 0, text

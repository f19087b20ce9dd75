"""Which layer keeps a CUDA driver from working: its first steps, with one layer less at a time.

    python -m benchmarks.cuda_confined

Drivers differ in what they need of a system, and say little when they don't get it (304, "OS call
failed"). Each row is a jail without namespaces (tier B), as a candidate's, less what its name says.
``python -m tests.gpu_sandbox.users --no-namespaces python -m benchmarks.cuda_confined``: the same
as another user, in what a container's profile leaves.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile

from gpu_sandbox.backends.cuda import CUDA
from gpu_sandbox.confine import Layer, Policy, Survey, spawn, survey

_NAMESPACES = tuple(layer for layer in Layer if layer.startswith("namespaces:"))
_LESS: tuple[tuple[str, ...], ...] = (
    (), (Layer.LANDLOCK,), (Layer.SECCOMP,), (Layer.RLIMITS,), (Layer.UID,),
    (Layer.LANDLOCK, Layer.SECCOMP),
    (Layer.LANDLOCK, Layer.SECCOMP, Layer.RLIMITS, Layer.UID, Layer.NO_NEW_PRIVS),
)  # fmt: skip


def _steps() -> None:
    """Prints the driver's answers; 0 is success."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    told = []
    for name, arguments in (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
        ("cuCtxSetCurrent", (context,)),
        ("cuMemAlloc_v2", (ctypes.byref(memory), ctypes.c_size_t(1 << 20))),
        ("cuMemsetD8_v2", (memory, ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20))),
        ("cuCtxSynchronize", ()),
    ):
        told.append(f"{name} {getattr(driver, name)(*arguments)}")
        print(", ".join(told[-3:]), flush=True)


def _tried(found: Survey) -> str:
    """The last line that it printed, and how it ended."""
    home = os.path.realpath(tempfile.mkdtemp())
    policy = Policy(home=home, devices=CUDA.nodes())
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    with tempfile.TemporaryFile() as output:
        with spawn(
            policy, found, _steps, output_fd=output.fileno(), environment={**kept, "HOME": home}
        ) as jail:
            jail.ended(60.0)
            status = jail.end()
        output.seek(0)
        said = output.read().decode(errors="replace").strip().splitlines()
    shutil.rmtree(home, ignore_errors=True)  # the driver's cache of compiled kernels
    how = f"signal {status.signal}" if status.signal else f"exit code {status.code}"
    return f"{said[-1] if said else 'nothing'} ({how})"


def main() -> None:
    for less in _LESS:
        found = survey(without=(*_NAMESPACES, *less))
        held = ", ".join(found.layers) or "nothing"
        print(f"{'less ' + ', '.join(less) if less else 'tier B'}: {held}\n    {_tried(found)}")


if __name__ == "__main__":
    main()

"""Compilers that candidates may use, though no agent is asked to write for them.

Their candidates are prepared and recognised like those of languages, but have no words in prompts:
for those, move an entry to a module of its own, with a twin in ``agents/languages/``. Their
packages may compute by themselves, so a source that imports one is never ``torch-only``. Inductor
is the compiler behind ``torch.compile``, which no import shows.
"""

from __future__ import annotations

from gpu_sandbox.languages.language import Language

_INDUCTOR = Language(
    name="inductor",
    cache_folders={"TORCHINDUCTOR_CACHE_DIR": "cache/inductor"},
    settings={
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Of a header that is precompiled outside of its cache, once for each process.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    },
    # Pickles with absolute paths. In another home inductor would tune their kernels again, and fail
    # to write down what it found. What it compiled is beside them, and is found by its source.
    bound_to_home=("cache/inductor/fxgraph/", "cache/inductor/aotautograd/"),
)
_CUPY = Language(
    name="cupy",
    packages=("cupy",),
    builders=("RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel"),
    compiles_when_called=True,
)

COMPILERS: tuple[Language, ...] = (
    _INDUCTOR,
    _CUPY,
    *(
        Language(name=name, packages=(name,), has_kernel_decorators=True, compiles_when_called=True)
        for name in ("numba", "cutlass", "tilelang", "helion", "warp")
    ),
    *(
        Language(name=name, packages=(name,), compiles_when_called=True)
        for name in ("flashinfer", "jax")
    ),
    Language(name="pallas", packages=("pallas",), has_kernel_decorators=True),
    Language(name="pycuda", builders=("SourceModule",)),
)

from __future__ import annotations

from pathlib import Path

from events.outcomes import KernelResources
from gpu_sandbox.builds.build_cache import BuildCache, BuildRecord
from gpu_sandbox.toolchain.ptxas_output import notices, resources
from projections.candidate.resources import resources_table

OUTPUT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN4ours4reluEPK6float4PS0_i' for 'sm_90a'
ptxas info    : Function properties for _ZN4ours4reluEPK6float4PS0_i
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 0 barriers
ptxas info    : Compile time = 3.151 ms
ptxas info    : Compiling entry function '_Z5spillIfEvPT_i' for 'sm_90a'
ptxas info    : Function properties for _Z5spillIfEvPT_i
    800 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 42 registers, used 1 barriers, 800 bytes cumulative stack size, 512 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in '_Z5spillIfEvPT_i'
"""  # noqa: E501
SPILL = KernelResources(
    kernel="spill<float>",
    registers=42,
    spill_store_bytes=12,
    spill_load_bytes=16,
    shared_bytes=512,
    constant_bytes=388,
    stack_bytes=800,
)
RELU = KernelResources(kernel="ours::relu", registers=14)


def test_what_ptxas_says_is_told_by_kernel_the_worst_first() -> None:
    assert resources(OUTPUT) == [SPILL, RELU]
    assert resources("nothing of the kind") == []
    (notice,) = notices(OUTPUT)
    assert "wgmma.mma_async instructions are serialized in 'void spill<float>" in notice


def test_a_table_has_a_line_a_kernel() -> None:
    lines = resources_table([SPILL, RELU]).splitlines()
    assert lines[0].endswith("spill stores  spill loads  static shared  constant  stack")
    assert lines[1].split() == ["spill<float>", "42", "12", "16", "512", "388", "800"]
    assert len(lines) == 3
    assert resources_table([]) == ""


def test_a_kept_build_keeps_what_its_kernels_take(tmp_path: Path) -> None:
    builds = BuildCache(tmp_path)
    with open(tmp_path / "manifest", "w+b") as file:
        stored = builds.store(
            "key", ["manifest.json"], [file.fileno()], BuildRecord(resources=[SPILL])
        )
    again = builds.fetch("key")
    assert stored is not None
    assert again is not None
    for files in (stored, again):
        assert files.names == ["manifest.json"]
        assert files.record.resources == [SPILL]
        files.close()

"""What is known of a device before anything is measured."""

from __future__ import annotations

import pytest

from gpu_sandbox.probes.backends.cuda import sheet_gb_s


@pytest.mark.parametrize(
    ("name", "gb_s"),
    [
        ("NVIDIA H200", 4800.0),
        ("NVIDIA H100 PCIe", 2039.0),
        ("NVIDIA H100 80GB HBM3", 3352.0),
        ("NVIDIA A100-SXM4-80GB", 2039.0),
        ("NVIDIA L4", 300.0),
        ("NVIDIA L40", 864.0),
        ("NVIDIA L40S", 864.0),
        ("NVIDIA L40G", None),
        ("NVIDIA GH200 480GB", None),
        ("NVIDIA GeForce RTX 4090", 1008.0),
        ("Tesla T4", None),
    ],
)
def test_a_data_sheet_is_of_one_device_and_not_of_those_with_longer_names(
    name: str, gb_s: float | None
) -> None:
    assert sheet_gb_s(name) == gb_s

"""Nsight Compute: a few counters of one launch of a kernel."""

from __future__ import annotations

import csv
import os
import re
import shutil
from functools import cache
from pathlib import Path

from events.observations import MOST_NAME, Counter, Counters
from gpu_sandbox.backends.protocol import ToolCommand
from gpu_sandbox.toolchain.prerequisites import cuda_home

_STALL = "smsp__average_warps_issue_stalled_"
_STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle",
    "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "no_instruction",
    "not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
_METRICS = {
    "gpu__time_duration.sum": "duration",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram throughput",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm throughput",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "achieved occupancy",
    "lts__t_sector_hit_rate.pct": "l2 hit rate",
    "l1tex__t_sector_hit_rate.pct": "l1 hit rate",
}
_USUAL = Path("/opt/nvidia/nsight-compute")
_PARAMS = Path("/proc/driver/nvidia/params")


@cache
def _ncu() -> str | None:
    home = cuda_home()
    return shutil.which("ncu") or (shutil.which(home / "bin" / "ncu") if home else None)


def refusal(params: Path = _PARAMS) -> str:
    """Why counters can't be read here, in one line; empty where they can."""
    if _ncu() is None:
        return "no ncu on the path or in the CUDA toolkit: install Nsight Compute"
    try:
        settings = dict(
            line.split(": ", 1) for line in params.read_text().splitlines() if ": " in line
        )
    except OSError:
        return "no NVIDIA driver here"
    if settings.get("RmProfilingAdminOnly", "1").strip() != "0":
        return (
            "the driver lets administrators alone read counters (RmProfilingAdminOnly is 1), and"
            " candidates are none: load it with NVreg_RestrictProfilingToAdminUsers=0"
        )
    return ""


class NsightCompute:
    def refusal(self) -> str:
        return refusal()

    def command(self, kernel: str) -> ToolCommand:
        ncu = _ncu()
        assert ncu is not None
        stalls = [f"{_STALL}{reason}_per_issue_active.ratio" for reason in _STALLS]
        words = [ncu, "--csv", "--page", "raw", "--clock-control", "none", "--launch-count", "1"]
        words += ["--kernel-name-base", "function", "--kernel-name", kernel]
        words += ["--metrics", ",".join([*_METRICS, *stalls]), "--target-processes", "all"]
        # It is a script that starts what lies beside or above it.
        places = (Path(ncu).parent, Path(os.path.realpath(ncu)).parent, _USUAL)
        readable = tuple(dict.fromkeys(str(place) for place in places if place.is_dir()))
        return ToolCommand(words, {}, readable)

    def read(self, output: str, kernel: str) -> Counters | str:
        return read_counters(output, kernel)


def read_counters(output: str, kernel: str) -> Counters | str:
    """Counters in ncu's CSV, which has a line of heads, of units, and of values; or why there are
    none, in one line."""
    lines = output.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith('"ID",')), None)
    if first is None:
        errors = [line.strip() for line in lines if line.startswith("==ERROR==")]
        return (errors or ["ncu counted nothing"])[0].removeprefix("==ERROR== ")[:MOST_NAME]
    table = list(csv.reader(lines[first : first + 3]))
    if len(table) < 3:
        return f"ncu saw no launch of {kernel}"
    heads, units, values = table
    cells = {h: (v, u) for h, u, v in zip(heads, units, values, strict=False)}
    found = [
        Counter(name=said, value=cells[name][0][:MOST_NAME], unit=cells[name][1][:MOST_NAME])
        for name, said in _METRICS.items()
        if name in cells
    ]
    stall = _top_stall({name: value for name, (value, _) in cells.items()})
    return Counters(kernel=kernel[:MOST_NAME], counters=found + stall)


def _top_stall(cells: dict[str, str]) -> list[Counter]:
    """The most frequent reason why warps wait."""
    ratios: dict[str, float] = {}
    for reason in _STALLS:
        text = cells.get(f"{_STALL}{reason}_per_issue_active.ratio", "").replace(",", "")
        if re.fullmatch(r"\d+(\.\d+)?", text):
            ratios[reason] = float(text)
    if not ratios:
        return []
    worst = max(ratios, key=lambda reason: ratios[reason])
    value = f"{worst.replace('_', ' ')}, {ratios[worst]:.2f}"
    return [Counter(name="top stall", value=value, unit="warps waiting for each that issues")]

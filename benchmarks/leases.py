"""How long candidates hold a device, and how many are judged an hour by one engine and by four.

    python -m benchmarks.leases [--device cuda:0] [--only GLOB] [--kind KIND] [--bench-s S]
        [--json FILE.json]

Judges the cases of ``benchmarks/honest`` twice, under ``strict``: by one engine with four workers,
then by four engines with one worker each, a quarter of the cases each. Every engine has its own
empty cache, so that nothing is known from before. Its start is not in the rate: each engine judges
one plain candidate first, and all begin together.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio

from benchmarks.honest_scores import cases
from benchmarks.table import Table
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import EvaluationRequest, SandboxFault
from gpu_sandbox.sandbox import LocalSandbox

_WORKERS = 4
_PLAIN_TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(1024, 1024)]

def get_init_inputs():
    return []
"""
_PLAIN = _PLAIN_TASK.replace("Model", "ModelNew")


async def judged(arguments: argparse.Namespace, names: list[str], workers: int) -> None:
    """One engine: says when it is ready, waits for a line, and prints its verdicts."""
    waiting = [case for case in cases() if case.name in names]
    found: list[dict[str, Any]] = []

    async def work(sandbox: LocalSandbox) -> None:
        while waiting:
            case = waiting.pop(0)
            task, source = (case.folder / name for name in ("task.py", "kernel.py"))
            request = _request(arguments.device, task.read_text(), source.read_text())
            began = time.monotonic()
            try:
                verdict = await sandbox.evaluate(request)
            except SandboxFault as fault:
                found.append({"name": case.name, "outcome": f"fault: {fault}"})
                continue
            outcome = str(verdict.outcome.__struct_config__.tag)
            told = {"took_s": time.monotonic() - began, "queue_s": verdict.queue_s}
            found.append({"name": case.name, "outcome": outcome, **told, **verdict.timings_s})

    limits = Limits(bench_s=arguments.bench_s, autopsy_s=0.0)
    with tempfile.TemporaryDirectory() as cache:
        async with LocalSandbox((arguments.device,), limits=limits, cache=Path(cache)) as sandbox:
            await sandbox.evaluate(_request(arguments.device, _PLAIN_TASK, _PLAIN))
            print("ready", flush=True)
            sys.stdin.readline()
            began = time.monotonic()
            async with anyio.create_task_group() as group:
                for _ in range(workers):
                    group.start_soon(work, sandbox)
            print(json.dumps({"took_s": time.monotonic() - began, "verdicts": found}), flush=True)


def _request(device: str, task: str, source: str) -> EvaluationRequest:
    return EvaluationRequest(
        task_name="t", task_source=task, candidate_source=source, device=device,
        protocol="strict", seed=0,
    )  # fmt: skip


def engines(arguments: argparse.Namespace, shares: list[list[str]], workers: int) -> dict[str, Any]:
    """As many engines as there are shares, side by side: what all of them found, and the time of
    the slowest."""
    told = ["--device", arguments.device, "--bench-s", str(arguments.bench_s)]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.leases", *told, "--workers", str(workers), "--names",
             ",".join(share)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ),
        )
        for share in shares
    ]  # fmt: skip
    try:
        for engine in started:
            assert engine.stdout is not None
            if engine.stdout.readline() != "ready\n":
                raise SystemExit("an engine did not start")
        for engine in started:
            assert engine.stdin is not None
            engine.stdin.write("go\n")
            engine.stdin.flush()
        found = [json.loads(engine.communicate()[0]) for engine in started]
    finally:
        for engine in started:
            engine.kill()
    verdicts = [verdict for one in found for verdict in one["verdicts"]]
    return {"took_s": max(one["took_s"] for one in found), "verdicts": verdicts}


def shown(table: Table, name: str, found: dict[str, Any]) -> float:
    """Candidates an hour."""
    verdicts = found["verdicts"]
    rate: float = 3600 * len(verdicts) / found["took_s"]
    correct = sum(verdict["outcome"] == "correct" for verdict in verdicts)
    table.row(f"{name}: candidates an hour", "-", f"{rate:.0f} ({correct} correct)")
    leases = sorted(verdict["lease"] for verdict in verdicts if "lease" in verdict)
    middle, late = statistics.median(leases), leases[int(0.95 * (len(leases) - 1))]
    table.row(f"{name}: lease, median", "1.2 s", f"{middle:.2f} s", Table.verdict(middle <= 1.2))
    table.row(f"{name}: lease, 95 %", "5 s", f"{late:.2f} s", Table.verdict(late <= 5))
    prepared = [verdict["prepare"] for verdict in verdicts if "prepare" in verdict]
    if prepared:
        told = f"{statistics.median(prepared):.2f} s ({len(prepared)} candidates)"
        table.row(f"{name}: prepare, median", "-", told)
    longest = max(verdict.get("queue_s", 0.0) for verdict in verdicts)
    table.row(f"{name}: longest wait for the device", "-", f"{longest:.1f} s")
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", default="*")
    parser.add_argument("--kind", default="*")
    parser.add_argument("--bench-s", type=float, default=0.5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--names", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.names is not None:
        anyio.run(judged, arguments, arguments.names.split(","), arguments.workers)
        return
    names = [case.name for case in cases(arguments.only, arguments.kind)]
    table = Table(f"Leases of {len(names)} honest candidates on {arguments.device}", "met")
    one = engines(arguments, [names], _WORKERS)
    alone = shown(table, "one engine", one)
    four = engines(arguments, [names[i::_WORKERS] for i in range(_WORKERS)], 1)
    together = shown(table, "four engines", four)
    ratio = together / alone
    table.row("four engines / one", "0.9", f"{ratio:.2f}", Table.verdict(ratio >= 0.9))
    if arguments.json:
        arguments.json.write_text(json.dumps({"one": one, "four": four}, indent=1))


if __name__ == "__main__":
    main()

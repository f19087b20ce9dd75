"""KernelBench's own problem files through our sandbox, beside its own evaluator.

For each problem two candidates are judged: the reference itself under the name ModelNew
(has to be correct, at about 1.00×) and the same with its output scaled by 1.05 (has to be
wrong). With --compare the benchmark's evaluator judges them too, in a fresh process each.

    python benchmarks/kernelbench.py CHECKOUT --levels 1,2,3 --every 10 --device cuda:0

CHECKOUT is a clone of ScalingIntelligence/KernelBench; nothing of it is in this
repository.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import anyio

from events.outcomes import Correct
from gpu_sandbox.port import EvaluationRequest, PrerequisiteMissing, SandboxFault
from gpu_sandbox.sandbox import LocalSandbox

THEIRS = """
import json, sys, time, torch
from kernelbench.eval import eval_kernel_against_ref
reference, candidate = (open(path).read() for path in sys.argv[1:3])
began = time.monotonic()
result = eval_kernel_against_ref(reference, candidate, num_correct_trials=5,
    num_perf_trials=100, measure_performance=True, device=torch.device("cuda:0"))
print("RESULT " + json.dumps({"compiled": result.compiled, "correct": result.correctness,
    "candidate_ms": result.runtime, "eager_ms": getattr(result, "ref_runtime", None),
    "wall_s": time.monotonic() - began}))
"""


def as_candidate(source: str, *, wrong: bool) -> str:
    """The reference under the name ModelNew; ``wrong`` scales what forward returns."""
    renamed = re.sub(r"\bModel\b", "ModelNew", source)
    if wrong:
        renamed += (
            "\n\n_forward = ModelNew.forward\n"
            "def _scaled(self, *a, **k):\n"
            "    out = _forward(self, *a, **k)\n"
            "    return out * 1.05 if hasattr(out, 'dtype') else type(out)(o * 1.05 for o in out)\n"
            "ModelNew.forward = _scaled\n"
        )
    return renamed


def problems(checkout: Path, levels: list[str], every: int) -> list[Path]:
    """Every ``every``-th problem of each level, by number."""
    found: list[Path] = []
    for level in levels:
        files = sorted(
            (checkout / "KernelBench" / f"level{level}").glob("*.py"),
            key=lambda path: int(path.name.split("_")[0]),
        )
        found += files[::every]
    return found


async def ours(sandbox: LocalSandbox, task: Path, source: str, device: str, protocol: str) -> str:
    began = time.monotonic()
    request = EvaluationRequest(
        task_name=task.name, task_source=task.read_text(), candidate_source=source,
        device=device, protocol=protocol, seed=1,
    )  # fmt: skip
    try:
        verdict = await sandbox.evaluate(request)
    except (PrerequisiteMissing, SandboxFault) as error:
        return f"{type(error).__name__}: {error}"
    outcome, wall = verdict.outcome, time.monotonic() - began
    if isinstance(outcome, Correct):
        return (
            f"correct {outcome.candidate_ms:9.4f} / {outcome.baseline_ms:9.4f} ms"
            f" = {outcome.speedup:.3f}x  {wall:5.1f} s"
        )
    return f"{outcome.__struct_config__.tag} {outcome.reason[:70]!r}  {wall:5.1f} s"


def theirs(checkout: Path, task: Path, source: str) -> str:
    """What the benchmark's evaluator says, in a fresh process."""
    candidate = Path("/tmp/kernelbench_candidate.py")
    candidate.write_text(source)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", THEIRS, str(task), str(candidate)],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": f"{checkout}/src:"
             + os.environ.get("PYTHONPATH", "")},
    )  # fmt: skip
    wall = time.monotonic() - began
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            result = json.loads(line.removeprefix("RESULT "))
            if not result["correct"]:
                return f"compiled={result['compiled']} wrong  {wall:5.1f} s"
            eager = result["eager_ms"] or 0.0
            return f"correct {result['candidate_ms']:9.4f} / {eager:9.4f} ms  {wall:5.1f} s"
    return f"failed: {done.stderr.strip().splitlines()[-1][:90] if done.stderr else '?'}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--levels", default="1,2,3")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--protocol", default="kernelbench")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--wrong", action="store_true", help="also judge the scaled copy")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    async with LocalSandbox(devices=(arguments.device,)) as sandbox:
        for task in problems(checkout, arguments.levels.split(","), arguments.every):
            name = f"{task.parent.name}/{task.stem[:40]}"
            for wrong in (False, True) if arguments.wrong else (False,):
                source = as_candidate(task.read_text(), wrong=wrong)
                kind = "scaled" if wrong else "itself"
                verdict = await ours(sandbox, task, source, arguments.device, arguments.protocol)
                print(f"{name:<50} {kind}  ours   {verdict}", flush=True)
                if arguments.compare:
                    verdict = await anyio.to_thread.run_sync(theirs, checkout, task, source)
                    print(f"{name:<50} {kind}  theirs {verdict}", flush=True)


if __name__ == "__main__":
    anyio.run(main)

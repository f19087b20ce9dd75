"""How long a first verdict takes: ``engine eval`` in a new process beside KernelBench's evaluator.

    python -m benchmarks.first_verdict CHECKOUT [--device cuda:0] [--turns 2] [--json FILE]

CHECKOUT is one of KernelBench. For each kind of candidate, in turn: its evaluator in a process of
its own (5 trials, 100 timed calls; with its build, where there is one); ``engine eval`` of a task
never seen; of the same again; and of two candidates, less that. Our headers are built before, as on
any machine that has judged one extension; each turn's task and candidate differ from those before
in a comment, so that nothing of them is kept. Medians in seconds, and as a ratio to the evaluator.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.kernelbench_peer import evaluate_alone
from gpu_sandbox.api.statistics import quantile

ROOT = Path(__file__).parents[1]
CASES = {"torch": "torch_sdpa", "triton": "triton_log_softmax", "inline CUDA": "cuda_layer_norm"}
COLUMNS = ("evaluator", "unseen", "seen", "a second")


class Files:
    """A task and two candidates of one turn, which nobody has seen."""

    def __init__(self, folder: Path, case: str, turn: str) -> None:
        source = ROOT / "benchmarks" / "honest" / case
        self.task = _copied(source / "task.py", folder / f"{case}_{turn}_task.py", turn)
        self.kernel = _copied(source / "kernel.py", folder / f"{case}_{turn}.py", turn)
        self.other = _copied(source / "kernel.py", folder / f"{case}_{turn}_other.py", turn + "b")


def _copied(source: Path, to: Path, mark: str) -> Path:
    to.write_text(f"{source.read_text()}\n# {mark}\n")
    return to


def evaluated(device: str, env: dict[str, str], task: Path, *candidates: Path) -> float:
    command = [sys.executable, "-m", "engine.cli.main", "eval", str(task), *map(str, candidates)]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--device", device, "--json"], cwd=ROOT, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = [each["reason"] or each["outcome"] for each in found if each["outcome"] != "correct"]
    if wrong or len(found) != len(candidates):
        raise SystemExit(f"engine eval: {wrong or done.stderr[-2000:]}")
    times = {key: round(value, 2) for key, value in found[0]["timings_s"].items()}
    probed = [note for note in found[0]["notes"] if "ceiling" in note]
    print(f"      {took_s:.2f} s, {times} {probed or ''}", flush=True)
    return took_s


def turn_of(
    checkout: Path, device: str, folder: Path, env: dict[str, str], case: str, turn: str
) -> dict[str, float]:
    files = Files(folder, case, turn)
    theirs = evaluate_alone(checkout, folder, files.task, files.kernel)
    print(f"  {case}: evaluator {theirs:.2f} s", flush=True)
    unseen = evaluated(device, env, files.task, files.kernel)
    seen = evaluated(device, env, files.task, files.kernel)
    both = evaluated(device, env, files.task, files.kernel, files.other)
    return dict(zip(COLUMNS, (theirs, unseen, seen, both - seen), strict=True))


def table(found: dict[str, list[dict[str, float]]]) -> str:
    lines = [f"{'candidate':12}" + "".join(f"{name:>18}" for name in COLUMNS)]
    for kind, turns in found.items():
        median = {name: quantile([turn[name] for turn in turns], 0.5) for name in COLUMNS}
        cells = [f"{median['evaluator']:16.2f} s"]
        for name in COLUMNS[1:]:
            ratio = median[name] / median["evaluator"]
            cells.append(f"{median[name]:8.2f} s ({ratio:4.2f}x)")
        lines.append(f"{kind:12}" + " ".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(CASES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="first-") as name:
        folder = Path(name)
        env: dict[str, str] = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        before = Files(folder, CASES["inline CUDA"], "before")
        print("headers, facts of the device:", flush=True)
        evaluated(arguments.device, env, before.task, before.kernel)
        checkout = arguments.checkout.resolve()
        for turn in range(arguments.turns):
            for kind in arguments.kinds.split(","):
                made = turn_of(checkout, arguments.device, folder, env, CASES[kind], str(turn))
                found.setdefault(kind, []).append(made)
                if arguments.json:
                    arguments.json.write_text(json.dumps(found))
        print(f"\n{table(found)}")


if __name__ == "__main__":
    main()

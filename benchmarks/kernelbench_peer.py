"""KernelBench's own evaluator, from a checkout, in one process that judges everything.

``Peer`` starts it and asks; run as a program, this file is the process that answers:

    python -m benchmarks.kernelbench_peer serve DEVICE FD    requests on stdin, replies to FD
    python -m benchmarks.kernelbench_peer build FILE FOLDER  what its parallel precompile does
    python -m benchmarks.kernelbench_peer alone TASK FILE FOLDER  one candidate, by its defaults

Nothing of the evaluator is changed. Its timing function is wrapped, for three things that
it keeps to itself: the single times (it reports means of three digits), their median, and
how long the processor takes to launch one call.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TRIALS = 100
CORRECTNESS_TRIALS = 1
"""Of its usual five: they are not timed, and each draws all inputs on the CPU."""
PATIENCE_S = 120.0
PROGRAM = (sys.executable, "-m", "benchmarks.kernelbench_peer")
STUBBED = ("dotenv", "litellm", "openai", "requests", "tqdm")
"""What it imports, but does not need to evaluate: replaced where it is not installed."""
STUB = """
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *arguments, **keywords: None
"""


class Peer:
    """``scratch`` takes its builds, its log and the stubs of missing modules."""

    def __init__(self, checkout: Path, scratch: Path, device: str) -> None:
        self._scratch = scratch
        self._device = device
        self._process: subprocess.Popen[str] | None = None
        self._replies = -1
        self._environment = environment(checkout, scratch)

    def prepare(self, candidates: list[Path]) -> float:
        """Start it, and build all candidates at the same time: seconds until both are done."""
        began = time.monotonic()
        builds = []
        for path in candidates:
            with open(self._scratch / f"{path.stem}.log", "w") as log:
                told = {"stdout": log, "stderr": log}
                builds.append(self._started("build", str(path), str(self._folder(path)), **told))
        self._start()
        for build in builds:
            build.wait()
        return time.monotonic() - began

    def judge(self, task: Path, source: str, kernel: Path | None) -> dict[str, Any]:
        """Its eager time and verdict. After a failure the next question gets a new process."""
        process = self._process or self._start()
        began = time.monotonic()
        request = {
            "task": str(task),
            "source": source,
            "backend": "triton" if "import triton" in source else "cuda",
            "folder": str(self._folder(kernel)) if kernel else None,
        }
        try:
            assert process.stdin is not None
            print(json.dumps(request), file=process.stdin, flush=True)
            reply = self._reply()
        except (BrokenPipeError, EOFError, TimeoutError) as error:
            reply = {"failed": f"{type(error).__name__}: {error}"}
        if "failed" in reply:
            self.close()
        return {**reply, "seconds": time.monotonic() - began}

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            os.close(self._replies)
        self._process = None

    def _start(self) -> subprocess.Popen[str]:
        self._replies, given = os.pipe()
        with open(self._scratch / "peer.log", "a") as log:
            self._process = self._started(
                "serve", self._device, str(given), pass_fds=(given,), text=True,
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
        os.close(given)
        self._reply()
        return self._process

    def _started(self, *arguments: str, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen([*PROGRAM, *arguments], cwd=ROOT, env=self._environment, **options)

    def _reply(self) -> dict[str, Any]:
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._replies], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"no answer in {PATIENCE_S:.0f} s")
            piece = os.read(self._replies, 1 << 16)
            if not piece:
                told = (self._scratch / "peer.log").read_text().strip().splitlines()
                raise EOFError(told[-1] if told else "it died")
            line += piece
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _folder(self, kernel: Path) -> Path:
        return self._scratch / "extensions" / kernel.stem


def environment(checkout: Path, scratch: Path) -> dict[str, str]:
    """In which its evaluator can be imported; what it lacks is replaced by stubs."""
    for name in STUBBED:
        if importlib.util.find_spec(name) is None:
            stub = scratch / "stubs" / f"{name}.py"
            stub.parent.mkdir(exist_ok=True)
            stub.write_text(STUB)
    paths = [ROOT, checkout / "src", scratch / "stubs", os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TORCH_EXTENSIONS_DIR": str(scratch / "extensions"),
    }


def evaluate_alone(checkout: Path, scratch: Path, task: Path, candidate: Path) -> float:
    """Seconds of a process that judges one candidate, which is built unless it was before."""
    folder = scratch / "extensions" / candidate.stem
    command = [*PROGRAM, "alone", str(task), str(candidate), str(folder)]
    began = time.monotonic()
    subprocess.run(
        command, cwd=ROOT, env=environment(checkout, scratch), check=True, stdout=sys.stderr
    )
    return time.monotonic() - began


def precompile(checkout: Path, scratch: Path, candidates: list[Path]) -> float:
    """Seconds of building them all at the same time, a process each."""
    began = time.monotonic()
    builds = []
    for path in candidates:
        folder = scratch / "extensions" / path.stem
        builds.append(
            subprocess.Popen(
                [*PROGRAM, "build", str(path), str(folder)],
                cwd=ROOT,
                env=environment(checkout, scratch),
                stdout=subprocess.DEVNULL,
            )
        )
    ended = [build.wait() for build in builds]
    if any(ended):
        raise RuntimeError("a build of KernelBench's failed")
    return time.monotonic() - began


# --- the process itself


def serve(device: str, replies: int) -> None:
    import kernelbench.eval  # noqa: F401 (what it lacks is said before anything is judged)
    import torch
    from kernelbench import timing

    seen: list[dict[str, float]] = []
    timed = timing.time_execution_with_cuda_event

    def recorded(model: Any, arguments: list[Any], **options: Any) -> list[float]:
        elapsed: list[float] = timed(model, arguments, **options)
        seen.append(
            {
                "mean_ms": statistics.fmean(elapsed),
                "median_ms": statistics.median(elapsed),
                "launch_ms": launch_ms(torch, model, arguments),
            }
        )
        return elapsed

    timing.time_execution_with_cuda_event = recorded
    with open(replies, "w") as out:
        print("{}", file=out, flush=True)
        for line in sys.stdin:
            seen.clear()
            try:
                reply = answered(json.loads(line), torch.device(device), seen)
            except Exception as error:
                reply = {"failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), file=out, flush=True)


def answered(request: dict[str, Any], device: Any, seen: list[dict[str, float]]) -> dict[str, Any]:
    """Eager by ``measure_ref_program_time``, the candidate by ``eval_kernel_against_ref``.

    Without its check for excessive speedups, which times the reference once more.
    """
    from kernelbench.eval import eval_kernel_against_ref
    from kernelbench.timing import measure_ref_program_time

    reference = Path(request["task"]).read_text()
    measure_ref_program_time(
        ref_arch_name=request["task"], ref_arch_src=reference, num_trials=TRIALS, device=device
    )
    eager = seen.pop() if seen else None
    result = eval_kernel_against_ref(
        reference, request["source"], num_correct_trials=CORRECTNESS_TRIALS,
        num_perf_trials=TRIALS, measure_performance=True, device=device,
        backend=request["backend"], build_dir=request["folder"],
        check_for_excessive_speedup=False,
    )  # fmt: skip
    if result is None or not result.correctness or not seen:
        told = result.metadata if result else "no result"
        return {"failed": f"it finds no correct result: {told}", "eager": eager}
    return {"eager": eager, "candidate": seen.pop()}


def launch_ms(torch: Any, model: Any, arguments: list[Any]) -> float:
    """Of the processor, for one call, while the device has nothing else to do."""
    took = []
    for _ in range(5):
        torch.cuda.synchronize()
        began = time.perf_counter()
        model(*arguments)
        took.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    return 1e3 * statistics.median(took)


def build(path: str, folder: str) -> None:
    from kernelbench.eval import build_compile_cache

    done, _, error = build_compile_cache(Path(path).read_text(), build_dir=folder)
    if not done:
        sys.exit(str(error))


def alone(task: str, path: str, folder: str) -> None:
    """As its runs over generations do: 5 correctness trials, 100 timed calls."""
    import torch
    from kernelbench.eval import eval_kernel_against_ref

    source = Path(path).read_text()
    result = eval_kernel_against_ref(
        Path(task).read_text(), source, num_correct_trials=5,
        num_perf_trials=TRIALS, measure_performance=True, build_dir=folder,
        device=torch.device("cuda:0"), backend="triton" if "import triton" in source else "cuda",
    )  # fmt: skip
    if result is None or not result.correctness or result.runtime <= 0:
        sys.exit(f"it finds no correct result: {result}")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1] == "alone":
        alone(*sys.argv[2:])
    else:
        build(sys.argv[2], sys.argv[3])

#!/usr/bin/env bash
# The sandbox on a GPU: what holds, what it costs, what it withstands. Prints tables.
# Usage: benchmarks/gpu_sandbox.sh [DEVICE] [AA RUNS]; PYTHON picks the interpreter, OUT the
# folder. Set PART to some of doctor,verdicts,throughput,compile,attacks,elsewhere,tests to run
# those alone (elsewhere: attacks as another user, and without namespaces); or to kernelbench, for
# our times beside that benchmark's own (7 minutes); to claims, for how short a call may be and a
# forged time is found out (10 minutes); or to confined, where a driver does not come up without
# namespaces. KERNELBENCH is a checkout of it; with one, throughput measures its evaluator
# as well (5 minutes). At the end, one table of all parts that have left a file in OUT, at this
# time or an earlier one.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-python3}
device=${1:-cuda:0}
runs=${2:-100}
out=${OUT:-runs/gpu}
part=${PART:-doctor,verdicts,throughput,compile,attacks,elsewhere,tests}
mkdir -p "$out"
has() { case ",$part," in *",$1,"*) return 0 ;; *) return 1 ;; esac }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
has doctor && "$python" -m engine.cli.main doctor --device "$device"
has verdicts && "$python" -m benchmarks.sandbox_verdicts --device "$device" --aa "$runs" \
  --json "$out/verdicts.json"
has throughput && "$python" -m benchmarks.sandbox_throughput --device "$device" --candidates 64 \
  --json "$out/throughput.json" ${KERNELBENCH:+--kernelbench "$KERNELBENCH" --peer-runs 1}
has compile && "$python" -m benchmarks.sandbox_compile --cuda --kinds cuda,cu --candidates 30 \
  --jobs 14 --json "$out/compile.json"
has kernelbench && "$python" -m benchmarks.kernelbench "${KERNELBENCH:?a checkout of KernelBench}" \
  --device "$device" --json "$out/kernelbench.json"
has claims && "$python" -m benchmarks.sandbox_claims --device "$device" --json "$out/claims.json"
has attacks && "$python" -m pytest tests/attacks -q -m gpu -p no:cacheprovider \
  --junitxml "$out/attacks.xml" 2>&1 | tail -60
has elsewhere && for how in "" --no-namespaces; do
  # shellcheck disable=SC2086
  "$python" -m tests.gpu_sandbox.users $how "$python" -m pytest tests/attacks -q \
    -m "gpu and elsewhere" -p no:cacheprovider 2>&1 | tail -30
done
has confined && "$python" -m benchmarks.cuda_confined
has tests && "$python" -m pytest tests/gpu tests/confine -q -m gpu \
  -p no:cacheprovider 2>&1 | tail -40
"$python" -m benchmarks.gpu_summary "$out"

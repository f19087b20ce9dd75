#!/usr/bin/env bash
# Right, fair and quick verdicts on a GPU, beside KernelBench's evaluator. Prints one table.
# Usage: benchmarks/gpu_real.sh [DEVICE]; PYTHON picks the interpreter, OUT the folder. Set PART to
# some of these to run them alone; minutes on one H200 stand behind:
#   places       calls find their inputs elsewhere (2)
#   kernelbench  our times beside that benchmark's (7); KERNELBENCH is a checkout of it
#   honest       scores beside true speedups, leases (8)
#   first        first verdicts beside that benchmark's evaluator (5); KERNELBENCH likewise
#   engines      four engines beside one with four workers (8)
#   attacks, corpus  all attacks, all honest candidates (16, 10)
# BUDGET ends each part after so many seconds: those that can stop in time of their own do, others
# are interrupted. SHARD=K/N runs the K-th of N shares of honest, attacks and corpus. Where there is
# no git repository COMMIT says which commit this is. A part that fails does not stop the others.
# The table is of all parts that have left a stamp in OUT, and refuses to mix commits (MIXED=1).
# Two GPUs of one host take different parts at a time, each with cores of its own; the corpora can
# share one: XDG_CACHE_HOME=/tmp/a PART=honest taskset -c 0-15 benchmarks/gpu_real.sh cuda:0, and
# XDG_CACHE_HOME=/tmp/b PART=attacks SHARD=1/2 taskset -c 16-31 benchmarks/gpu_real.sh cuda:1.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
device=${1:-cuda:0}
out=${OUT:-runs/real}
part=${PART:-places,kernelbench,honest,first,engines,attacks,corpus}
shard=${SHARD:-1/1}
suffix=$([ "$shard" = 1/1 ] || echo "-${shard%/*}of${shard#*/}")
own=${BUDGET:+$((BUDGET * 9 / 10))} # what a part is told that can stop in time
mkdir -p "$out"
# Many programs know cuda:0 alone.
case $device in cuda:[1-9]*) export CUDA_VISIBLE_DEVICES=${device#cuda:} && device=cuda:0 ;; esac
has() { case ",$part," in *",$1,"*) return 0 ;; *) return 1 ;; esac }
stamped() { # NAME COMMAND...
  "$python" -m benchmarks.stamps "$1" "$out" ${BUDGET:+--budget "$BUDGET"} -- "${@:2}"
}
tested() { # NAME MARKS WHAT...: tests, or this shard's share of them
  "$python" -m pytest "${@:3}" --collect-only -q -m "$2" | grep :: |
    awk "(NR - 1) % ${shard#*/} == ${shard%/*} - 1" >"$out/ids.$1"
  # Without a name pytest would run all tests.
  [ -s "$out/ids.$1" ] || { stamped "$1" false; return; }
  stamped "$1" "$python" -m pytest -q -m "$2" -p no:cacheprovider --junitxml "$out/$1.xml" \
    "@$out/ids.$1"
}
beside() { # NAME: whether there is something to measure it beside
  has "$1" && { [ -n "${KERNELBENCH:-}" ] || { echo "$1: set KERNELBENCH to a checkout"; false; }; }
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
has places && (shard=1/1 && tested places "gpu and places" tests/attacks)
beside kernelbench && stamped kernelbench "$python" -m benchmarks.kernelbench "$KERNELBENCH" \
  --device "$device" ${own:+--budget "$own"} --json "$out/kernelbench.json"
has honest && stamped "honest$suffix" "$python" -m benchmarks.honest_scores --shard "$shard" \
  ${own:+--budget "$own"} --out "$out/honest$suffix.json"
beside first && stamped first "$python" -m benchmarks.first_verdict "$KERNELBENCH" \
  --device "$device" --json "$out/first.json"
has engines && stamped engines "$python" -m benchmarks.engines_together --device "$device" \
  ${own:+--budget "$own"} --json "$out/engines.json"
has attacks && tested "attacks$suffix" gpu tests/attacks/test_attacks.py
has corpus && tested "corpus$suffix" gpu tests/attacks/test_honest.py
"$python" -m benchmarks.gpu_real "$out" ${MIXED:+--mixed}

#!/usr/bin/env bash
# What holds and what is measured of the sandbox on a machine with two GPUs, side by side: half of
# the cores and a GPU each. Set PART to some of attacks (4 minutes), tests (7), figures (3) to run
# those alone. OUT takes the files, PYTHON picks the interpreter. Prints how each ended, and tables.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
out=${OUT:-runs/gpu}
part=${PART:-attacks,tests,figures}
mkdir -p "$out"
has() { case ",$part," in *",$1,"*) return 0 ;; *) return 1 ;; esac }
half=$(($(nproc) / 2))
on() { # GPU NAME COMMAND...: with its own cores and places for files, into its own file
  local temporary=${TMPDIR:-/tmp}/gpu$1 began=$SECONDS
  mkdir -p "$temporary"
  CUDA_VISIBLE_DEVICES=$1 TMPDIR=$temporary STARK_TEST_CACHE=$temporary/cache \
    taskset -c "$(($1 * half))-$((($1 + 1) * half - 1))" "${@:3}" >"$out/$2.txt" 2>&1
  echo "$2: exit $? after $((SECONDS - began)) s"
}
tested() { # GPU NAME WHAT...: tests that need a GPU
  on "$1" "$2" "$python" -m pytest -q -p no:cacheprovider -m gpu "${@:3}"
  grep -a "^FAILED\|^ERROR\| passed\| failed\| skipped" "$out/$2.txt"
}
measured() { # GPU NAME MODULE ARGUMENTS...
  on "$1" "$2" "$python" -m "benchmarks.$3" --device cuda:0 --json "$out/$2.json" "${@:4}"
  tr '\r' '\n' <"$out/$2.txt" | grep -a '   .*   '
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
if has attacks; then
  "$python" -m pytest tests/attacks --collect-only -q -m gpu 2>"$out/all.err" | grep :: >"$out/all.ids"
  [ -s "$out/all.ids" ] || { cat "$out/all.err"; echo "no attacks are found"; exit 1; }
  for gpu in 0 1; do
    awk "NR % 2 == $gpu" "$out/all.ids" >"$out/half$gpu.ids"
    tested "$gpu" "attacks$gpu" "@$out/half$gpu.ids" &
  done
  wait
fi
if has tests; then
  sandbox=tests/gpu/test_sandbox_cuda.py
  tested 0 tests0 "$sandbox" tests/confine &
  tested 1 tests1 tests/gpu --deselect "$sandbox" &
  wait
fi
if has figures; then
  measured 0 claims sandbox_claims --claims 0.55 --runs 4 &
  measured 1 verdicts sandbox_verdicts --only overhead,large,aa --runs 10 --aa 10 \
    --kernels '1024|relu|softmax, 256' &
  wait
fi

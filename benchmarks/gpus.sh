#!/usr/bin/env bash
# What holds and what is measured of the sandbox on a machine with several GPUs, side by side: each
# with a GPU and as many of the cores as the others. Set PART to some of attacks (8 minutes with
# two; honest, the honest candidates of these alone, 3), tests (7), figures (4) to run those alone.
# OUT takes the files, PYTHON picks the interpreter. Prints how each ended, and tables.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
out=${OUT:-runs/gpu}
part=${PART:-attacks,tests,figures}
mkdir -p "$out"
has() { case ",$part," in *",$1,"*) return 0 ;; *) return 1 ;; esac }
gpus=$(nvidia-smi -L | wc -l)
[ "$gpus" -ge 2 ] || { echo "for one GPU there is benchmarks/gpu_sandbox.sh"; exit 1; }
cores=$(($(nproc) / gpus))
on() { # GPU NAME COMMAND...: with its own cores and places for files, into its own file
  local temporary=${TMPDIR:-/tmp}/gpu$1 began=$SECONDS
  mkdir -p "$temporary"
  CUDA_VISIBLE_DEVICES=$1 TMPDIR=$temporary STARK_TEST_CACHE=$temporary/cache \
    taskset -c "$(($1 * cores))-$((($1 + 1) * cores - 1))" "${@:3}" >"$out/$2.txt" 2>&1
  echo "$2: exit $? after $((SECONDS - began)) s"
}
tested() { # NAME WHAT...: tests that need a GPU, dealt out
  "$python" -m pytest "${@:2}" --collect-only -q -m gpu 2>"$out/$1.err" | grep :: >"$out/$1.ids"
  [ -s "$out/$1.ids" ] || { cat "$out/$1.err"; echo "no $1 are found"; exit 1; }
  for ((gpu = 0; gpu < gpus; gpu++)); do
    awk "NR % $gpus == $gpu" "$out/$1.ids" >"$out/$1$gpu.ids"
    ended "$gpu" "$1$gpu" &
  done
  wait
}
ended() { # GPU NAME: its share
  on "$1" "$2" "$python" -m pytest -q -p no:cacheprovider -m gpu "@$out/$2.ids"
  grep -a "^FAILED\|^ERROR\| passed\| failed\| skipped" "$out/$2.txt"
}
measured() { # GPU NAME MODULE ARGUMENTS...
  on "$1" "$2" "$python" -m "benchmarks.$3" --device cuda:0 --json "$out/$2.json" "${@:4}"
  tr '\r' '\n' <"$out/$2.txt" | grep -a '   .*   '
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
has attacks && tested attacks tests/attacks
has honest && tested honest tests/attacks/test_honest.py
has tests && tested tests tests/gpu tests/confine
if has figures; then
  measured 0 claims sandbox_claims --claims 0.55,0.8 --runs 2 &
  measured 1 verdicts sandbox_verdicts --only overhead,large,aa --runs 10 --aa 10 \
    --kernels '1024|relu|softmax, 256' &
  wait
fi

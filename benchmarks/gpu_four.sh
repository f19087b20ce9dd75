#!/usr/bin/env bash
# The sandbox's long measurements on a machine with four GPUs, side by side, in ten minutes:
# a quarter of the cores and a GPU each. Prints tables; OUT takes the files, PYTHON picks the
# interpreter, KERNELBENCH=CHECKOUT measures that benchmark's evaluator too.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-python3}
out=${OUT:-runs/gpu}
mkdir -p "$out"
quarter=$(($(nproc) / 4))
cores() { echo "$(($1 * quarter))-$((($1 + 1) * quarter - 1))"; }
on() { # GPU NAME COMMAND...: with its own cores, into its own file
  CUDA_VISIBLE_DEVICES=$1 taskset -c "$(cores "$1")" "${@:3}" >>"$out/$2.txt" 2>"$out/$2.err" ||
    echo "$2: exit $?"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
on 1 aa_first "$python" -m benchmarks.sandbox_verdicts --device cuda:0 --only aa --aa 100 \
  --kernels '1024|relu' --json "$out/aa_first.json" &
on 2 aa_second "$python" -m benchmarks.sandbox_verdicts --device cuda:0 --only aa --aa 100 \
  --kernels 'softmax, 256|4096' --json "$out/aa_second.json" &
if [ -n "${KERNELBENCH:-}" ]; then
  on 3 peer "$python" -m benchmarks.sandbox_throughput --device cuda:0 --peer-only --peer-runs 2 \
    --kernelbench "$KERNELBENCH" --json "$out/peer.json" &
  peer=$!
fi
on 0 verdicts "$python" -m benchmarks.sandbox_verdicts --device cuda:0 --only overhead,large \
  --runs 15 --json "$out/verdicts.json"
on 0 throughput "$python" -m benchmarks.sandbox_throughput --device cuda:0 --candidates 60 \
  --json "$out/throughput.json"
# Two of the devices as one pool, on their two quarters of the cores.
two() { # NAME COMMAND...
  CUDA_VISIBLE_DEVICES=0,3 taskset -c "$(cores 0),$(cores 3)" "${@:2}" >>"$out/$1.txt" 2>"$out/$1.err" ||
    echo "$1: exit $?"
}
[ -n "${peer:-}" ] && wait "$peer"
two two_devices "$python" -m benchmarks.sandbox_throughput --device cuda:0,cuda:1 \
  --candidates 60 --kinds cu --json "$out/two_devices.json"
two two_devices_run "$python" -m engine.cli.main run examples/softmax.py \
  --model playbook:examples/playbooks/softmax_cuda.toml --device cuda:0,cuda:1 --workers 4 \
  --attempts 14 --seed 0 --yes --json --log "$out/two_devices.db"
wait
tail -n +1 "$out"/*.txt

#!/usr/bin/env bash
# Searches with the CUDA playbooks on a GPU, then checks of their logs, then tests/gpu.
# Usage: benchmarks/gpu_search.sh [DEVICE]; PYTHON picks the interpreter, OUT the folder.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-python3}
device=${1:-cuda:0}
out=${OUT:-runs/gpu}
mkdir -p "$out"
engine() { "$python" -m engine.cli.main "$@"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
engine doctor --device "$device"
for playbook in examples/playbooks/*_cuda.toml; do
  task=$(basename "$playbook" _cuda.toml)
  log=$out/${task}_cuda.db
  echo "== $task"
  (time engine run "examples/$task.py" --device "$device" --model "playbook:$playbook" \
    --attempts 14 --workers 4 --seed 0 --display plain --log "$log") 2>&1
  engine verify "$log"
  engine replay "$log" --verify
  rm -f "$log.lock"
done
"$python" -m pytest tests/gpu -q -m gpu -p no:cacheprovider 2>&1 | tail -40

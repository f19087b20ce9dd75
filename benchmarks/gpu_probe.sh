#!/usr/bin/env bash
# A quick look at a GPU machine: the in-context examples and every CUDA playbook kernel,
# judged by `engine eval`. Usage: benchmarks/gpu_probe.sh [DEVICE]; PYTHON picks the interpreter.
set -u
cd "$(dirname "$0")/.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
python=${PYTHON:-python3}
device=${1:-cuda:0}
out=${OUT:-runs}
mkdir -p "$out"
engine() { "$python" -m engine.cli.main "$@"; }

nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,temperature.gpu --format=csv
"$python" -c 'import sys, torch; print(sys.version.split()[0], torch.__version__, torch.version.cuda)'
for language in cuda triton; do
  example=agents/languages/examples/$language
  (time engine eval "$example/task.py" "$example/solution.py" --device "$device" --json) 2>&1
done
for folder in examples/playbooks/*_cuda; do
  task=$(basename "$folder" _cuda)
  echo "== $task"
  (time engine eval "examples/$task.py" "$folder"/*.py --device "$device") 2>&1
done

#!/usr/bin/env bash
# One round of several searches that share a mailbox: begins those that have no log yet, lets the
# others take the replies that have come, all at once, and says what is waited for.
# Usage: benchmarks/mailed_searches.sh DIR; PYTHON picks the interpreter.
# DIR/searches has a line for each: NAME TASK FLAGS…. Logs are DIR/NAME.db, requests and replies
# are in DIR/box (docs/mailbox.md). DIR can be moved between rounds, to where replies are written
# and back to where the device is. Exit 75 while replies are waited for, 0 when all have ended.
set -u
cd "$(dirname "$0")/.."
directory=$(realpath "$1")
python=${PYTHON:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}
export ENGINE_MAILBOX=$directory/box
mkdir -p "$directory/box"

round() { # NAME TASK FLAGS…
  local log=$directory/$1.db told=$directory/$1.txt
  if [ -e "$log" ]; then
    "$python" -m engine.cli.main status "$log" --json | grep -q '"status": *"\(finished\|exhausted\)"' && return 0
    "$python" -m engine.cli.main resume "$log" --yes --display none --json >"$told" 2>&1
  else
    "$python" -m engine.cli.main run "$2" "${@:3}" --model "mailbox:$directory/box" --log "$log" \
      --yes --display none --json >"$told" 2>&1
  fi
}

children=()
while read -r line; do
  [ -n "$line" ] && [ "${line:0:1}" != "#" ] || continue
  # shellcheck disable=SC2086 # the line is a command line
  round $line &
  children+=($!)
done <"$directory/searches"
worst=0
for child in "${children[@]}"; do
  wait "$child"
  code=$?
  [ $code -ne 0 ] && [ $code -ne 4 ] && [ $worst -ne 75 ] && worst=$code
done
for log in "$directory"/*.db; do
  "$python" -m engine.cli.main status "$log" | grep -E '^(run|status|awaited|attempts|best) '
done
exit $worst

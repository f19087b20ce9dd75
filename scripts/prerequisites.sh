#!/bin/sh
# Names what this machine lacks for `make demo` and `make test`, with the package to install.
PYTHON=${PYTHON:-python3}
missing=0
lacks() { echo "missing: $1" >&2; echo "  install: $2" >&2; missing=1; }

if ! command -v "$PYTHON" >/dev/null 2>&1; then
  lacks "$PYTHON" "apt install python3 python3-venv python3-dev (or your system's Python >= 3.11)"
elif ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  lacks "Python >= 3.11 ($("$PYTHON" --version 2>&1) found)" "a newer Python, then: make PYTHON=python3.12 demo"
else
  "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || lacks "the venv module" "apt install python3-venv"
  "$PYTHON" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' ||
    lacks "Python's headers (Python.h)" "apt install python3-dev"
fi
command -v g++ >/dev/null 2>&1 || lacks "g++" "apt install g++"
exit $missing

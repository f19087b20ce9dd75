"""One test's body, in an interpreter that has done nothing else: ``MODULE NAME``."""

import importlib
import inspect
import os
import sys
from pathlib import Path


def main(module: str, name: str) -> None:
    test = getattr(importlib.import_module(f"tests.confine.{module}"), name)
    body = getattr(test, "body", test)
    takes_path = "tmp_path" in inspect.signature(body).parameters
    body(*([Path(os.environ["TMPDIR"])] if takes_path else []))


if __name__ == "__main__":
    main(*sys.argv[1:])

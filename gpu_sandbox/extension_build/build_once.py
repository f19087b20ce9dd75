"""One attempt to build an extension: torch's own function, with the last step ours. Untrusted."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpu_sandbox.extension_build.ninja_edits import Driver
from gpu_sandbox.toolchain.compiler_log import unexplained

MODULE = "torch.utils.cpp_extension"
_USES_TORCH = re.compile(r"\busing\s+namespace\s+(?:torch|at|c10)\b")
"""Then a plain name may be a member of torch's."""


class Refused(Exception):
    """An attempt failed: the compiler's whole output, and the generated files that it read."""

    def __init__(self, output: str, generated: dict[str, str]) -> None:
        super().__init__(output)
        self.output = output
        self.generated = generated


def attempt(
    original: Callable[..., Any],
    arguments: dict[str, Any],
    directory: Path,
    first: list[str],
    driver: Driver,
) -> Any:
    """One build. ``first`` goes before all other include directories."""
    directory.mkdir(parents=True, exist_ok=True)
    call = {k: list(v) if isinstance(v, list) else v for k, v in arguments.items()}
    call["build_directory"] = str(directory)
    call["extra_include_paths"] = [*first, *listed(call.get("extra_include_paths"))]
    call["use_pch"] = False
    if "use_pch" not in inspect.signature(original).parameters:
        del call["use_pch"]
    module: Any = sys.modules[MODULE]
    ninja = module._run_ninja_build
    module._run_ninja_build = driver.run
    try:
        return original(**call)
    except RuntimeError as error:
        if not str(error).startswith("Error building extension"):
            raise
        generated = generated_files(directory, arguments)
        raise Refused(str(error), generated) from None
    finally:
        module._run_ninja_build = ninja


def real_headers_may_help(refused: Refused) -> bool:
    """Whether torch's own headers know a name that the slim ones did not."""
    missing = unexplained(refused.output)
    include = Path(sys.modules["torch"].__path__[0]) / "include"
    operators = include / "ATen" / "ops"
    if missing.anyway or any((operators / f"{name}.h").is_file() for name in missing.macros):
        return True
    members = missing.members
    if any(_USES_TORCH.search(text) for text in refused.generated.values()):
        members = members | missing.macros
    defined = [rf"#define {name}\b" for name in missing.macros]
    spelled = [rf"\b{name}\b" for name in members]
    if not defined and not spelled:
        return False
    command = ["grep", "-rqE", "--include=*.h", "|".join([*defined, *spelled]), str(include)]
    try:
        return subprocess.run(command, check=False).returncode != 1
    except OSError:
        return True


def generated_files(directory: Path, arguments: dict[str, Any]) -> dict[str, str]:
    """Source files of a build, by name."""
    paths = [directory / "main.cpp", directory / "cuda.cu"]
    paths += [Path(source) for source in listed(arguments.get("sources"))]
    return {p.name: p.read_text(errors="replace") for p in paths if p.is_file()}


def listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return [value] if isinstance(value, str | os.PathLike) else list(value)


def start_over(name: str, directory: Path) -> None:
    """Else torch renames an extension that is built again with other flags."""
    shutil.rmtree(directory, ignore_errors=True)
    versioner = getattr(sys.modules[MODULE], "JIT_EXTENSION_VERSIONER", None)
    with suppress(AttributeError):
        versioner.entries.pop(name, None)  # type: ignore[union-attr]

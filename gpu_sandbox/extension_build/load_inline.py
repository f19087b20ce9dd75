"""Intercepts ``load_inline`` and ``load``: builds faster, once, and finds builds by content.

For speed only, in untrusted processes. The compile child records each build under a digest of its
call; the worker, given that directory, loads the library without a compiler. Builds try the slim
binding first, then the slim headers, then the real ones, so that all builds that work with torch
work here.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from events.outcomes import KernelResources
from gpu_sandbox.extension_build.build_once import (
    MODULE,
    Refused,
    attempt,
    generated_files,
    listed,
    real_headers_may_help,
    start_over,
)
from gpu_sandbox.extension_build.ninja_edits import BINDING, Driver
from gpu_sandbox.toolchain.compiler_log import cut_compiler_output, first_error
from gpu_sandbox.toolchain.demangle import demangled
from gpu_sandbox.toolchain.identity import HEADERS
from gpu_sandbox.toolchain.ptxas_output import notices, resources
from gpu_sandbox.toolchain.source_map import Origin

DIRECTORY_VARIABLE = "GPU_SANDBOX_EXTENSIONS"


class BuildFailed(RuntimeError):
    """An extension did not build. ``log`` is the compiler's output, cut and located."""

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"extension {name!r} did not build: {first_error(log)}")
        self.name = name
        self.log = log


class Builds:
    """The extensions directory: ``manifest.json`` and one directory per call. ``candidate`` is
    the source, to name its lines."""

    def __init__(self, root: Path, candidate: str = "") -> None:
        self.root = root
        self.candidate = candidate
        self.built = 0
        self.full_header = 0
        self.failures: list[BuildFailed] = []
        self.resources: list[KernelResources] = []
        self.notices: list[str] = []
        self.lines: dict[str, list[int]] = {}
        """Generated file, as ``DIGEST/NAME`` → the candidate's line of each line, or 0."""

    def call(self, original: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Do what ``original(**arguments)`` does, from the directory if it was built."""
        key = _digest(original.__name__, arguments)
        known = self._manifest().get(key)
        if known is not None and "failed" in known:
            raise BuildFailed(arguments["name"], known["failed"])
        if known is not None and (self.root / known["file"]).is_file():
            return _load(known["module"], self.root / known["file"], arguments)
        directory = self.root / key
        try:
            result = self._build(original, arguments, directory)
        except Refused as refused:
            output = demangled(refused.output)
            log = cut_compiler_output(output, refused.generated, self.candidate)
            failure = BuildFailed(arguments["name"], log)
            self.failures.append(failure)
            self._record(key, {"failed": log})
            raise failure from None
        library = next(directory.glob("*.so"), None)
        if library is not None:
            self.built += 1
            entry = {"file": f"{key}/{library.name}", "module": library.stem}
            self._record(key, entry)
        return result

    def _build(
        self, original: Callable[..., Any], arguments: dict[str, Any], directory: Path
    ) -> Any:
        slim = [str(HEADERS)]
        flags = listed(arguments.get("extra_cflags"))
        driver = Driver(flags, slim=True, slim_binding=True)
        try:
            return self._attempt(original, arguments, directory, slim, driver)
        except Refused as failure:
            missing = failure
        if not real_headers_may_help(missing):
            raise missing
        if driver.bound and BINDING in missing.output:
            driver = Driver(flags, slim=True, slim_binding=False)
            start_over(arguments["name"], directory)
            try:
                return self._attempt(original, arguments, directory, slim, driver)
            except Refused as failure:
                missing = failure
            if not real_headers_may_help(missing):
                raise missing
        start_over(arguments["name"], directory)
        driver = Driver(flags, slim=False, slim_binding=False)
        result = self._attempt(original, arguments, directory, [], driver)
        self.full_header += 1
        return result

    def _attempt(
        self,
        original: Callable[..., Any],
        arguments: dict[str, Any],
        directory: Path,
        first: list[str],
        driver: Driver,
    ) -> Any:
        result = attempt(original, arguments, directory, first, driver)
        self.resources += resources(driver.output)
        self.notices += notices(driver.output)
        generated = generated_files(directory, arguments)
        origin = Origin(generated, self.candidate)
        for name, text in generated.items():
            count = len(text.splitlines())
            own = [origin.line(name, number) or 0 for number in range(1, count + 1)]
            self.lines[f"{directory.name}/{name}"] = own
        return result

    def _manifest(self) -> dict[str, dict[str, str]]:
        with suppress(OSError, ValueError):
            found = json.loads((self.root / "manifest.json").read_text())
            if isinstance(found, dict):
                return found
        return {}

    def _record(self, key: str, entry: dict[str, str]) -> None:
        fresh = self.root / "manifest.json.new"
        fresh.write_text(json.dumps({**self._manifest(), key: entry}))
        os.replace(fresh, self.root / "manifest.json")


def _digest(kind: str, arguments: dict[str, Any]) -> str:
    """Of everything that reaches the compiler, contents of source files included."""
    plain = {k: v for k, v in arguments.items() if k not in ("verbose", "build_directory")}
    texts = []
    for source in listed(arguments.get("sources")):
        with suppress(OSError):
            texts.append(Path(source).read_text(errors="replace"))
    if texts:
        plain["sources"] = [Path(s).name for s in listed(arguments.get("sources"))]
    text = json.dumps([kind, plain, texts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _load(module: str, library: Path, arguments: dict[str, Any]) -> Any:
    if not arguments.get("is_python_module", True):
        import torch

        operators: Any = torch.ops
        operators.load_library(str(library))
        return str(library)
    spec = importlib.util.spec_from_file_location(module, library)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def _wrapped(builds: Builds, original: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def load(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.arguments.get("is_standalone") or bound.arguments.get("with_sycl"):
            return original(*args, **kwargs)
        return builds.call(original, bound.arguments)

    load.__name__ = original.__name__
    load.__doc__ = original.__doc__
    return load


class _Catcher(importlib.abc.MetaPathFinder):
    """Wraps the two functions when their module is imported."""

    def __init__(self, builds: Builds) -> None:
        self._builds = builds

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_wrap(module: ModuleType) -> None:
            execute(module)
            _wrap(self._builds, module)

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


def _wrap(builds: Builds, module: ModuleType) -> None:
    for name in ("load_inline", "load"):
        setattr(module, name, _wrapped(builds, getattr(module, name)))


def install(candidate: str = "") -> Builds:
    """Intercept builds in this process; the directory comes from the environment."""
    builds = Builds(Path(os.environ[DIRECTORY_VARIABLE]), candidate)
    loaded = sys.modules.get(MODULE)
    if loaded is not None:
        _wrap(builds, loaded)
    else:
        sys.meta_path.insert(0, _Catcher(builds))
    return builds

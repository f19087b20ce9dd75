"""Pretrained models in this machine's Hugging Face cache, for tasks that load them by name.

Children have no network. Of the cache they may read models and nothing else, since its owner's
tokens lie in or beside it.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path

from gpu_sandbox.api.evaluator import PrerequisiteMissing

_MODELS = ("models--*", "blobs")
"""``blobs``: what several models have in common, since version 2 of the hub's client."""
_REPOSITORY = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
"""A model's name on the hub; a folder on this disk has more slashes, or begins otherwise."""
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".gguf")
_WEIGHTLESS = ("Config", "Tokenizer", "TokenizerFast", "Processor", "Extractor")


# --- for children


def hub_cache() -> Path:
    """By the rules of ``huggingface_hub.constants``, and of transformers before version 5."""
    names = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"]
    if os.environ.get("TRANSFORMERS_CACHE") and _old_transformers():
        names.insert(0, "TRANSFORMERS_CACHE")
    for name in names:
        if os.environ.get(name):
            return _absolute(os.environ[name])
    if os.environ.get("HF_HOME"):
        return _absolute(os.environ["HF_HOME"]) / "hub"
    return _absolute(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface" / "hub"


def hub_readable() -> tuple[str, ...]:
    """Directories of the cache that jailed children may read."""
    cache = hub_cache()
    try:
        found = [path for pattern in _MODELS for path in cache.glob(pattern) if path.is_dir()]
    except PermissionError:  # somebody else's home: nothing of it can be read then
        return ()
    return tuple(map(str, found))


def hub_variables() -> dict[str, str]:
    """Environment of children: place of the models, and no network."""
    return {
        "HF_HUB_CACHE": str(hub_cache()),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _old_transformers() -> bool:
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        return False
    return int(version.split(".")[0]) < 5


def _absolute(path: str) -> Path:
    return Path(os.path.expandvars(os.path.expanduser(path))).absolute()


# --- what a task needs


def require_models(task_source: str) -> None:
    """Raises ``PrerequisiteMissing`` for a task whose library or models are not here. Only names
    that are written in the source are found."""
    try:
        tree = ast.parse(task_source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # its import says that better
    if _imports_transformers(tree) and importlib.util.find_spec("transformers") is None:
        raise PrerequisiteMissing("this task needs transformers: pip install transformers")
    for name, weights in _loaded(tree).items():
        _require_cached(name, weights=weights)


def _require_cached(name: str, *, weights: bool) -> None:
    cache = hub_cache()
    folder = cache / f"models--{name.replace('/', '--')}"
    files = [path for path in folder.glob("snapshots/**/*") if path.is_file()]
    if not files:
        raise PrerequisiteMissing(
            f"this task loads {name!r}, which is not in the hub cache {cache}: download it once "
            f"(hf download {name}), or set HF_HOME or HF_HUB_CACHE to where it is"
        )
    if weights and not any(path.name.endswith(_WEIGHTS) for path in files):
        raise PrerequisiteMissing(
            f"the weights of {name!r} are not in the hub cache {cache}: finish the download "
            f"(hf download {name})"
        )
    if os.geteuid() == 0 and any(_private(path) for path in files):
        shared = cache / "blobs"
        opened = f"{folder} {shared}" if shared.is_dir() else str(folder)
        raise PrerequisiteMissing(
            f"{name!r} in the hub cache {cache} is readable by root only, and candidates have a "
            f"user of their own: chmod -R o+rX {opened}"
        )


def _private(path: Path) -> bool:
    real = path.resolve()
    folders = {path.parent, real.parent}
    return not real.stat().st_mode & 0o004 or any(not f.stat().st_mode & 0o001 for f in folders)


def _imports_transformers(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                continue
        if any(module.split(".")[0] == "transformers" for module in modules):
            return True
    return False


def _loaded(tree: ast.Module) -> dict[str, bool]:
    """Models in calls of ``from_pretrained(name)``, and whether they want weights. A variable or
    attribute is what is assigned to that name anywhere."""
    assigned: dict[str, str] = {}
    loads: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                assigned[name] = text
            case ast.Call(func=ast.Attribute(value=owner, attr="from_pretrained"), args=[it, *_]):
                loads.append((owner, it))
    found: dict[str, bool] = {}
    for owner, it in loads:
        name = str(it.value) if isinstance(it, ast.Constant) else assigned.get(_last(it), "")
        if _REPOSITORY.fullmatch(name):
            weights = not _last(owner).endswith(_WEIGHTLESS)
            found[name] = found.get(name, False) or weights
    return found


def _last(node: ast.expr) -> str:
    """The last part of a dotted name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""

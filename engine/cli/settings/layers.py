"""One configuration out of preset, file, environment and flags; later ones win.

Every error names the key's path, and for an unknown key the nearest known one.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from engine.cli.settings.prices import wrong_prices
from engine.cli.settings.rules import broken_rule
from engine.config import Config, by_key_path

__all__ = ["PRESETS", "SettingsError", "amend", "environment_name", "key_paths", "resolve"]

PRESETS: dict[str, dict[str, Any]] = {
    # The paper to the letter: sequential, its main system message, none of our additions. Its
    # model is retired, which ``engine.cli.run.retired_models`` tells a user that names no other.
    "paper": {
        "model": "anthropic:claude-sonnet-4-20250514",
        "search": {
            "workers": 1, "reasks": 0, "window_sampling": "literal", "deduplicate": False,
            "score": "device",
        },
        "prompts": {"system": "main", "device_facts": False, "accuracy": False, "language": "cuda"},
        "sandbox": {
            "protocol": "paper", "cache_verdicts": False, "autopsy_timeout_s": 0.0, "refuse": [],
        },
        "roles": {
            role: {"observations": ["compiler", "execution"], "max_tokens": 16_000}
            for role in ("plan", "code", "debug", "single")
        },
    },
}  # fmt: skip

_METHODS: dict[str, dict[str, Any]] = {
    "stark": {"policy": "stark", "team": "plan_code_debug", "windows": True},
    "ma_only": {"policy": "best_of_k", "team": "plan_code_debug", "windows": False},
    "sampling": {"policy": "best_of_k", "team": "single", "windows": False},
    "reflexion": {"policy": "iterative", "team": "single", "windows": False},
    "search_agent": {"policy": "stark", "team": "single", "windows": False},
}


class SettingsError(Exception):
    """The configuration is wrong; the message says where, and what would be right."""


def resolve(
    *,
    preset: str | None,
    file: Path | None,
    environment: Mapping[str, str],
    assignments: list[str],
    flags: Mapping[str, Any],
) -> Config:
    """Merge all sources. ``flags`` maps key paths to values, None for flags not given.

    Raises ``SettingsError``.
    """
    merged: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            raise SettingsError(f"unknown preset {preset!r}{_nearest(preset, PRESETS)}")
        _merge(merged, PRESETS[preset])
    if file is not None:
        _merge(merged, _read_toml(file))
    for path in key_paths():
        value = environment.get(environment_name(path))
        if value is not None:
            _put(merged, path, _parse(value))
    _assign(merged, assignments)
    for path, given in flags.items():
        if given is not None:
            _put(merged, path, given)
    _check_keys(merged, Config, "")
    merged.setdefault("search", {}).setdefault("method", Config().search.method)
    return _over(Config(), merged)


def amend(config: Config, assignments: list[str]) -> tuple[Config, dict[str, Any]]:
    """``config`` with some keys set, and those that are another value now, by key path.

    A method brings its policy and windows, as in a new run. Raises ``SettingsError``.
    """
    merged: dict[str, Any] = {}
    _assign(merged, assignments)
    _check_keys(merged, Config, "")
    amended = _over(config, merged)
    before = dict(by_key_path(msgspec.to_builtins(config)))
    after = by_key_path(msgspec.to_builtins(amended))
    unset = msgspec.UNSET
    return amended, {path: value for path, value in after if value != before.get(path, unset)}


def _assign(merged: dict[str, Any], assignments: list[str]) -> None:
    for assignment in assignments:
        path, equals, value = assignment.partition("=")
        if not equals:
            raise SettingsError(f"--set {assignment}: write KEY=VALUE")
        _put(merged, path.strip(), _parse(value.strip()))


def _over(base: Config, merged: dict[str, Any]) -> Config:
    """``merged`` over ``base``, as data, so that naming one key of a role keeps its others.

    A ``base`` out of a log may break a rule that came later: that is no fault of ``merged``.
    """
    _split_lists(merged, Config)
    _apply_method(merged)
    complete: dict[str, Any] = msgspec.to_builtins(base)
    _merge(complete, merged)
    if wrong := wrong_prices(complete["prices"]):
        raise SettingsError(wrong)
    try:
        config = msgspec.convert(complete, Config, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(_explain(str(error))) from error
    assigned = {path for path, _ in by_key_path(merged)}
    if broken := broken_rule(config, assigned):
        raise SettingsError(broken)
    return config


def key_paths(struct: Any = Config, prefix: str = "") -> Iterator[str]:
    """Every key's path, such as ``search.epsilon``."""
    for field in msgspec.structs.fields(struct):
        path = f"{prefix}{field.name}"
        if _is_section(field.type):
            yield from key_paths(field.type, f"{path}.")
        else:
            yield path


def environment_name(path: str) -> str:
    """``search.epsilon`` → ``ENGINE_SEARCH_EPSILON``."""
    return "ENGINE_" + path.replace(".", "_").upper()


def _is_section(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: not TOML: {error}") from error


def _parse(text: str) -> Any:
    """A value as TOML would read it; what is no TOML value is a string."""
    if text == "null":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(into: dict[str, Any], path: str, value: Any) -> None:
    *sections, name = _keys(path)
    for section in sections:
        into = into.setdefault(section, {})
        if not isinstance(into, dict):
            raise SettingsError(f"{path}: {section} is not a section")
    into[name] = value


def _keys(path: str) -> list[str]:
    """``a.b.c``, in which a key with dots or colons is quoted as in TOML."""
    if '"' not in path and "'" not in path:
        return path.split(".")
    try:
        data: Any = tomllib.loads(f"{path} = 0")
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: no key as TOML writes it: {error}") from error
    keys = []
    while isinstance(data, dict):
        ((key, data),) = data.items()
        keys.append(key)
    return keys


def _merge(into: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def _check_keys(data: Mapping[str, Any], struct: Any, prefix: str) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    for key, value in data.items():
        if key not in fields:
            raise SettingsError(f"unknown key {prefix}{key}{_nearest(prefix + key, key_paths())}")
        if _is_section(fields[key].type):
            if not isinstance(value, Mapping):
                raise SettingsError(f"{prefix}{key} is a section, not a value")
            _check_keys(value, fields[key].type, f"{prefix}{key}.")


def _split_lists(data: dict[str, Any], struct: Any) -> None:
    """``eager,compile`` as flags and environment variables write a list."""
    for field in msgspec.structs.fields(struct):
        value = data.get(field.name)
        if isinstance(value, dict) and _is_section(field.type):
            _split_lists(value, field.type)
        elif isinstance(value, str) and get_origin(field.type) is list:
            data[field.name] = [part.strip() for part in value.split(",") if part.strip()]


def _nearest(name: str, known: Any) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    if not close:
        last = {path.rsplit(".", 1)[-1]: path for path in names}
        close = difflib.get_close_matches(name.rsplit(".", 1)[-1], last, n=1, cutoff=0.4)
        close = [last[match] for match in close]
    return f" (did you mean {close[0]}?)" if close else f" (known: {', '.join(sorted(names))})"


def _apply_method(merged: dict[str, Any]) -> None:
    """A method is a policy and a team: it fills what was not set by name."""
    search = merged.get("search", {})
    name = search.get("method")
    method = _METHODS.get(name, {}) if isinstance(name, str) else {}
    for key, value in method.items():
        search.setdefault(key, value)


def _explain(message: str) -> str:
    """msgspec's "… - at `$.search.epsilon`" as "search.epsilon: …", and what is allowed."""
    text, at, path = message.partition(" - at `$.")
    path = path.rstrip("`")
    words = _words(re.sub(r"\[\S*\]$", "", path))
    close = difflib.get_close_matches(text.split("'")[1], words, n=1) if "'" in text else []
    meant = f"; did you mean {close[0]}?" if close else ""
    hint = f" (known: {', '.join(words)}{meant})" if words else ""
    return f"{path}: {text}{hint}" if at else message


def _words(path: str) -> tuple[str, ...]:
    """The values that a key takes one or a list of; empty where it takes anything else."""
    struct: Any = Config
    for name in path.split("."):
        types = {field.name: field.type for field in msgspec.structs.fields(struct)}
        struct = types.get(name)
        if not _is_section(struct):
            break
    if get_origin(struct) is list:
        (struct,) = get_args(struct)
    return get_args(struct) if get_origin(struct) is Literal else ()

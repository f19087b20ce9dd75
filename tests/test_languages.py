"""A language is registered in ``agents/languages/`` and in ``gpu_sandbox/languages/``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agents import languages as prompted
from agents.render import NodeView, render
from agents.templates import load
from engine.cli.settings.layers import SettingsError, resolve
from engine.config import Config
from gpu_sandbox import languages as judged
from gpu_sandbox.runtime.compiler_caches import lay_out, packed
from gpu_sandbox.static_checks.compiles_on_call import compiles_when_called
from gpu_sandbox.static_checks.source_labels import source_labels
from gpu_sandbox.toolchain.environment import child_environment

TASK = """
import torch
class Model(torch.nn.Module):
    def forward(self, x): return torch.relu(x)
"""
CANDIDATE = """
import torch
import loom
@loom.weave
def kernel(x, out): ...
class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel(x, out)
        return out
"""
NO_KERNEL = """
import torch
import loom
class ModelNew(torch.nn.Module):
    def forward(self, x): return torch.relu(x)
"""


@pytest.fixture
def loom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A language that nobody has, registered on both sides and nowhere else."""
    words = prompted.Words(
        kernels="custom Loom kernels",
        hardware="GPU",
        clock="wall-clock time on the GPU",
        libraries='"looms", and \\ é',
        embedding="the kernels are functions under @loom.weave",
        markers="Write `# …`.",
    )
    example = prompted.Example(task="# a task for Loom", solution="# a solution in Loom")
    monkeypatch.setitem(
        prompted.LANGUAGES, "loom", prompted.Language(name="loom", words=words, example=example)
    )
    language = judged.Language(
        name="loom",
        packages=("loom",),
        has_kernel_decorators=True,
        compiles_when_called=True,
        cache_folders={"LOOM_CACHE": "cache/loom"},
        settings={"LOOM_THREADS": "1"},
        bound_to_home=("cache/loom/bound/",),
        relocate={"*.loom": lambda text, folder: f"{text} in {folder}"},
    )
    monkeypatch.setitem(judged.LANGUAGES, "loom", language)


def configured(language: str) -> Config:
    assigned = [f"prompts.language={language}"]
    return resolve(preset=None, file=None, environment={}, assignments=assigned, flags={})


def test_both_sides_know_the_same_names() -> None:
    assert list(prompted.LANGUAGES) == list(judged.LANGUAGES)
    for registry in (prompted.LANGUAGES, judged.LANGUAGES):
        assert all(name == language.name for name, language in registry.items())
    names = [language.name for language in judged.languages_and_compilers()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["auto", *prompted.LANGUAGES])
def test_each_name_can_be_configured(name: str) -> None:
    assert configured(name).prompts.language == name


def test_the_documentation_names_each_language() -> None:
    table = Path(__file__).parents[1] / "docs" / "configuration.md"
    (row,) = [r for r in table.read_text().splitlines() if r.startswith("| `prompts.language`")]
    names = re.findall(r"`(\w+)`", row.split("|")[4].partition(";")[0])
    assert names == list(prompted.LANGUAGES)


def test_a_name_that_is_not_registered_is_refused() -> None:
    with pytest.raises(SettingsError, match="must be one of auto, cuda, cpp, triton"):
        configured("loom")


@pytest.mark.usefixtures("loom")
def test_a_registered_language_reaches_prompts() -> None:
    language = configured("loom").prompts.language
    root = NodeView(id=0, is_root=True, source=TASK)
    parts = render(load(), role="plan", language=language, task_source=TASK, selected=root).parts
    system, example = parts[0].text, parts[1].text
    assert "custom Loom kernels" in system
    assert "# a task for Loom" in example
    assert "# a solution in Loom" in example
    words = prompted.LANGUAGES["loom"].words
    assert load().words("loom")["libraries"] == words.libraries


@pytest.mark.usefixtures("loom")
def test_a_registered_language_is_recognised_in_sources() -> None:
    assert compiles_when_called(CANDIDATE)
    assert source_labels(CANDIDATE, TASK) == {}
    assert set(source_labels(NO_KERNEL, TASK)) == {"torch-only"}


def test_a_language_that_is_not_registered_is_not_recognised() -> None:
    assert not compiles_when_called(CANDIDATE)
    assert source_labels(NO_KERNEL, TASK) == {}


@pytest.mark.usefixtures("loom")
def test_a_registered_languages_caches_go_from_home_to_home(tmp_path: Path) -> None:
    home, to = tmp_path / "one", tmp_path / "two"
    variables = child_environment(home)
    assert variables["LOOM_CACHE"] == str(home / "cache" / "loom")
    assert variables["LOOM_THREADS"] == "1"
    for name in ("k.loom", "bound/k.pickle"):
        path = home / "cache" / "loom" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("kernel")
    (home / "tmp").mkdir()
    descriptor = packed(home)
    assert descriptor is not None
    to.mkdir()
    with open(descriptor, "rb") as archive:
        lay_out(Path(f"/proc/self/fd/{archive.fileno()}"), to)
    cache = to / "cache" / "loom"
    assert (cache / "k.loom").read_text() == f"kernel in {cache}"
    assert not (cache / "bound").exists()

"""Pretrained models come out of the hub's cache, which nobody writes and where no token shows."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.devices import lock_files
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.toolchain.hf_cache import hub_cache, hub_variables
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.pretrained import ATTACKER, NAME, SAME, SECRET, TASK, fill, lay_out
from tests.gpu_sandbox.sources import ADD_RELU, LINEAR, as_candidate
from tests.gpu_sandbox.users import NOBODY, UNABLE

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
VARIABLES = (
    "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE", "XDG_CACHE_HOME",
)  # fmt: skip


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "trio"


@pytest.fixture(autouse=True)
def no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def attacker(tokens: Path) -> str:
    return ATTACKER + f"\n\nTOKENS = Path({str(tokens)!r})\n"


# --- where the cache is


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({}, "home/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/huggingface/hub"),
        ({"XDG_CACHE_HOME": "xdg", "HF_HOME": "own"}, "own/hub"),
        ({"HF_HOME": "own", "HUGGINGFACE_HUB_CACHE": "older"}, "older"),
        ({"HUGGINGFACE_HUB_CACHE": "older", "HF_HUB_CACHE": "models"}, "models"),
        ({"HF_HUB_CACHE": "", "HF_HOME": ""}, "home/.cache/huggingface/hub"),
        ({"HF_HUB_CACHE": "~/models"}, "home/models"),
        ({"HF_HUB_CACHE": "$HOME/models"}, "home/models"),
    ],
)
def test_the_cache_is_where_the_hub_s_client_has_it(
    variables: dict[str, str], cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # also what is not absolute
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hub_cache() == tmp_path / cache
    assert hub_variables()["HF_HUB_CACHE"] == str(tmp_path / cache)
    assert "HF_HOME" not in hub_variables()


@pytest.mark.parametrize(("version", "cache"), [("4.57.6", "legacy"), ("5.23.0", "models")])
def test_the_variable_of_old_versions_counts_for_those(
    version: str, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / f"transformers-{version}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Name: transformers\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("TRANSFORMERS_CACHE", str(tmp_path / "legacy"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "models"))
    assert hub_cache() == tmp_path / cache


# --- what confined processes can do with it


@pytest.mark.process
@pytest.mark.parametrize("together", [False, True], ids=["tokens beside", "tokens inside"])
async def test_models_are_read_not_written_and_tokens_hidden(
    together: bool, sandbox: LocalSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "hf"
    cache = home if together else home / "hub"
    model = fill(cache, home)
    monkeypatch.setenv("HF_HUB_CACHE" if together else "HF_HOME", str(home))
    before = contents(home)
    assert (await sandbox.baseline(baseline(TASK))).runtime_ms > 0
    for source in (SAME, attacker(home)):
        verdict = await sandbox.evaluate(evaluation(TASK, source))
        assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.run_log)
    assert contents(home) == before
    assert (model / "refs" / "main").is_file()


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mode, path.read_bytes()) for path in files}


@pytest.fixture
def anybody_s() -> Iterator[Path]:
    """A home that another user can reach; pytest's own directories are private."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o755)
    yield home
    shutil.rmtree(home)


@pytest.mark.process
@pytest.mark.parametrize("namespaces", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_so_they_are_for_an_ordinary_user(namespaces: bool, anybody_s: Path) -> None:
    """The command line as a user calls it: everything in its place under the home."""
    hugging = anybody_s / ".cache" / "huggingface"
    fill(hugging / "hub", hugging)
    for name, source in {"task": TASK, "same": SAME, "attack": attacker(hugging)}.items():
        (anybody_s / f"{name}.py").write_text(source)
    (anybody_s / "tmp").mkdir()
    if os.geteuid() == 0:
        for path in (anybody_s, *anybody_s.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    harness = [sys.executable, "-m", "tests.gpu_sandbox.users"]
    if not namespaces:
        harness.append("--no-namespaces")
    engine = [sys.executable, "-m", "engine.cli.main", "eval", "task.py", "same.py", "attack.py"]
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    temp = str(anybody_s / "tmp")
    homes = {"HOME": str(anybody_s), "PYTHONPATH": str(ROOT)}
    homes |= {"TMPDIR": temp, lock_files.VARIABLE: temp}
    done = subprocess.run(
        [*harness, *engine, "--device", "cpu", "--json", "--set", "sandbox.bench_s=0.15"],
        cwd=anybody_s, env={**kept, **homes}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    if done.returncode == UNABLE:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["outcome"] for row in rows] == ["correct", "correct"], done.stdout
    assert SECRET not in done.stdout + done.stderr
    if not namespaces:
        assert not any(layer.startswith("namespaces:") for layer in rows[0]["isolation"])


# --- what is missing is said before anything runs


async def refusal(sandbox: LocalSandbox, task: str) -> str:
    with pytest.raises(PrerequisiteMissing) as missing:
        await sandbox.baseline(baseline(task))
    with pytest.raises(PrerequisiteMissing):
        await sandbox.evaluate(evaluation(task, SAME))
    assert sandbox.load().on_device == 0
    return str(missing.value)


async def test_a_library_that_is_not_there(
    shared_sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    for line in ("import transformers", "from transformers.models import gpt2 as g"):
        assert "pip install transformers" in await refusal(shared_sandbox, f"{line}\n{ADD_RELU}")


async def test_a_model_that_is_not_there(shared_sandbox: LocalSandbox, tmp_path: Path) -> None:
    told = await refusal(shared_sandbox, TASK)
    assert f"{NAME!r}, which is not in the hub cache {tmp_path}/home/.cache" in told
    assert f"hf download {NAME}" in told
    model = fill(hub_cache(), tmp_path)
    (hub_cache() / "blobs" / "ab" / "ab1").unlink()
    assert "the weights of 'some-org/tiny' are not in" in await refusal(shared_sandbox, TASK)
    (model / "blobs" / "c0ffee0").unlink()
    assert "is not in the hub cache" in await refusal(shared_sandbox, TASK)


@pytest.mark.skipif(os.geteuid() != 0, reason="candidates are of another user for root only")
async def test_a_model_that_only_root_may_read(
    shared_sandbox: LocalSandbox, tmp_path: Path
) -> None:
    model = fill(hub_cache(), tmp_path)
    (model / "snapshots").chmod(0o711)
    (model / "blobs" / "c0ffee0").chmod(0o600)
    assert f"chmod -R o+rX {model}" in await refusal(shared_sandbox, TASK)


async def test_a_model_is_found_however_it_is_named(shared_sandbox: LocalSandbox) -> None:
    for loads in (
        'Model.from_pretrained("a-model")',
        'transformers.GPT2Model.from_pretrained("org/a.model-2", torch_dtype="auto")',
        'NAME = "org/named"\nModel.from_pretrained(NAME)',
        'AutoTokenizer.from_pretrained("only/words")',
    ):
        assert "is not in the hub cache" in await refusal(shared_sandbox, ADD_RELU + loads)


NOTHING = """
# as in transformers: AutoModel.from_pretrained('org/name')
TEXT = 'import transformers'
def by_argument(path): return Model.from_pretrained(path)
def by_path(): return Model.from_pretrained('/a/folder/of/mine'), Model.from_pretrained('./mine')
"""


@pytest.mark.process
async def test_what_loads_nothing_from_the_hub_needs_no_cache(shared_sandbox: LocalSandbox) -> None:
    assert (await shared_sandbox.baseline(baseline(LINEAR + NOTHING))).runtime_ms > 0


# --- with the real library, where it is installed

GPT_NEO = """
import sys
from transformers import GPTNeoConfig, GPTNeoForCausalLM
config = GPTNeoConfig(
    num_layers=2, attention_types=[[["global", "local"], 1]], hidden_size=32, num_heads=2,
    vocab_size=97, max_position_embeddings=64,
    bos_token_id=0, eos_token_id=0,
)
GPTNeoForCausalLM(config).save_pretrained(sys.argv[1])
"""

LEVEL_4 = """
import torch
from transformers import AutoConfig, AutoModelForCausalLM


class Model(torch.nn.Module):
    def __init__(self, model_name, config):
        super().__init__()
        self.model_name = model_name
        self.model = AutoModelForCausalLM.from_pretrained(self.model_name, config=config)

    def forward(self, x):
        return self.model(x).logits


model_name = "some-org/tiny-neo"
config = AutoConfig.from_pretrained(model_name)


def get_inputs():
    return [torch.randint(0, config.vocab_size, (2, 16))]


def get_init_inputs():
    return [model_name, config]
"""


async def test_a_model_by_transformers(sandbox: LocalSandbox, tmp_path: Path) -> None:
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    saved = tmp_path / "saved"
    await anyio.run_process([sys.executable, "-c", GPT_NEO, str(saved)])
    lay_out(hub_cache(), "some-org/tiny-neo", {p.name: p.read_bytes() for p in saved.iterdir()})
    verdict = await sandbox.evaluate(evaluation(LEVEL_4, as_candidate(LEVEL_4)))
    assert isinstance(verdict.outcome, Correct), (verdict.outcome, verdict.run_log)
    assert verdict.run_log == ""
